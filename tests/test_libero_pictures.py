"""Our OpenGL pictures against LIBERO's own observations, pixel for pixel, on tasks of five suites.

LIBERO returns pictures with the lowest row first, and late. What a control step returns shows the state before the 24th of
its 25 physics steps: every forced update, such as that of a reset and that of a restored state, advances the clock of its
observables by a physics step. So pictures are compared with ours of the state that LIBERO's camera really saw: right after a
state is restored, and after an update forced at the end of a step.
"""

from __future__ import annotations

import numpy as np
import pytest

from mjx_bench.physics.base import Pose
from tests.libero_picture_oracle import CAMERAS, SIZE, seen
from tests.pictures import renderer
from tests.scenes import libero_lanes, libero_task

# A table with stove, rack and drawers; a floor with a basket; the table again; two kitchens, one with a stove.
TASKS = [
    ("libero_goal", 0),
    *(
        pytest.param(suite, index, marks=pytest.mark.slow)
        for suite, index in (("libero_object", 0), ("libero_spatial", 0), ("libero_10", 2), ("libero_90", 40))
    ),
]
LANE = np.zeros(1, np.int32)


def pose_of(kept: dict[str, np.ndarray], moment: str, qpos: np.ndarray | None = None) -> Pose:
    at = kept[f"{moment}.qpos"] if qpos is None else qpos
    return Pose(at, kept[f"{moment}.body_pos"], kept[f"{moment}.body_quat"])


@pytest.mark.parametrize(("suite", "index"), TASKS)
def test_pictures_are_libero_s_pixel_for_pixel(suite, index):
    kept = seen(suite, index)
    scene = libero_task(suite, index).scene
    with renderer("gl", scene, CAMERAS, SIZE) as gl:
        # Ours from our own engine: the state is the task's, the fixtures' poses are the seed's.
        own = gl.render(libero_lanes(suite, index, 1).poses(LANE))
        moments = {m: gl.render([pose_of(kept, m)]) for m in ("init", "forced", "turned", "again")}
        trail = gl.render([pose_of(kept, "step", qpos) for qpos in kept["step.trail"][-3:]])
    assert len(kept["step.trail"]) == 25
    for camera in CAMERAS:
        np.testing.assert_array_equal(own[camera][0], kept[f"init.{camera}"][::-1])
        for moment, pictures in moments.items():
            np.testing.assert_array_equal(pictures[camera][0], kept[f"{moment}.{camera}"][::-1], err_msg=moment)
        late = kept[f"step.{camera}"][::-1]
        assert [bool((picture == late).all()) for picture in trail[camera]] == [False, True, False]
        assert (late != kept[f"forced.{camera}"][::-1]).any()


def test_a_burner_glows_while_its_stove_is_on():
    """LIBERO shows that by a site, so the comparison above must not pass without it."""
    kept = seen("libero_goal", 0)
    changed = kept["turned.agentview"][::-1].astype(int) - kept["init.agentview"][::-1]
    reddened = (changed[..., 0] > 40) & (changed[..., 0] > changed[..., 1] + 20)
    assert reddened.sum() > 100
    scene = libero_task("libero_goal", 0).scene
    assert [site.name for site in scene.shown_sites] == ["flat_stove_1_burner"]
