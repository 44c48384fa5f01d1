"""What a lane's visual edits make of its pictures: which frame, which draws, how long, and nobody else's."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.corruption import Fault, spoil_frame
from mjx_bench.errors import BenchError
from mjx_bench.observe.sensor import fault_of, spoil
from mjx_bench.physics.base import Pose, Visual

STREAM = ("agentview", "robot0_eye_in_hand")
AGENT, WRIST = STREAM


def noise(step: int, std: float = 24.0, fraction: float = 0.08, seed: int = 77) -> Visual:
    return Visual("set_sensor_corruption", {"noise_std": std, "occlusion_fraction": fraction, "seed": seed}, step)


def light(step: int, scale: float) -> Visual:
    return Visual("set_lighting", {"scale": scale}, step)


def pose(steps: int, *visual: Visual) -> Pose:
    return Pose(np.zeros(1), np.zeros((1, 3)), np.zeros((1, 4)), visual, steps)


def images(lanes: int, size: int = 64, cameras: tuple[str, ...] = STREAM) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {name: rng.integers(1, 256, (lanes, size, size, 3), np.uint8) for name in cameras}


def expected(pictures: dict[str, np.ndarray], lane: int, fault: Fault) -> list[np.ndarray]:
    """The reference on pictures as LIBERO's observation holds them, upside down, and put upright again."""
    return [p[::-1] for p in spoil_frame([p[lane, ::-1] for p in pictures.values()], fault)]


@pytest.mark.parametrize("elapsed", [0, 1, 2, 150])
def test_a_fault_starts_in_the_picture_of_its_event_and_draws_anew_every_step(elapsed: int):
    shown = images(1)
    out = spoil(shown, [pose(40 + elapsed, noise(40))], STREAM)
    for name, picture in zip(STREAM, expected(shown, 0, Fault(77 + elapsed, 24.0, 0.08)), strict=True):
        np.testing.assert_array_equal(out[name][0], picture)


def test_frames_and_cameras_differ():
    shown = {name: np.full((3, 64, 64, 3), 200, np.uint8) for name in STREAM}
    out = spoil(shown, [pose(10 + k, noise(10)) for k in range(3)], STREAM)
    frames = [out[name][k] for name in STREAM for k in range(3)]
    dead = [tuple(np.argwhere(~f.any(-1))[0]) for f in frames]
    assert len(set(dead)) == 6, "the rectangle jumps every frame, in each camera by itself"


@pytest.mark.parametrize(("fraction", "side"), [(0.08, 72), (0.16, 102)])
def test_the_dead_rectangle_of_the_official_draws(fraction: float, side: int):
    shown = images(1, 256)
    out = spoil(shown, [pose(5, noise(5, 0.0, fraction))], STREAM)
    for name in STREAM:
        dead = ~out[name][0].any(-1)
        rows, columns = np.nonzero(dead.any(1))[0], np.nonzero(dead.any(0))[0]
        assert len(rows) == np.ptp(rows) + 1 == side
        assert len(columns) == np.ptp(columns) + 1 == side
        assert dead.sum() == side**2
        np.testing.assert_array_equal(out[name][0][~dead], shown[name][0][~dead])


def test_lanes_without_a_fault_keep_their_bits():
    shown = images(4)
    before = {name: array.copy() for name, array in shown.items()}
    theme = Visual("set_visual_theme", {"rgb_permutation": [2, 0, 1], "rgb_multiplier": [0.7, 1.15, 1.3]}, 3)
    out = spoil(shown, [pose(9), pose(9, noise(4)), pose(9, theme), pose(9, light(2, 0.2))], STREAM)
    for name in STREAM:
        np.testing.assert_array_equal(out[name][[0, 2]], before[name][[0, 2]])
        assert not np.array_equal(out[name][1], before[name][1])
        np.testing.assert_array_equal(out[name][3], (before[name][3] * 0.75).astype(np.uint8))
        np.testing.assert_array_equal(shown[name], before[name], err_msg="what is given is not changed")


def test_where_nothing_is_wrong_nothing_is_copied():
    shown = images(2)
    out = spoil(shown, [pose(9), pose(3)], STREAM)
    assert all(out[name] is shown[name] for name in STREAM)


def test_a_lane_does_not_know_its_batch():
    shown = images(6)
    poses = [
        pose(20 + i, *((noise(15, seed=i),) if i % 2 else (light(3, 1.8), noise(11, 36.0, 0.16, i)))) for i in range(6)
    ]
    together = spoil(shown, poses, STREAM)
    for i in range(6):
        alone = spoil({name: a[i : i + 1] for name, a in shown.items()}, [poses[i]], STREAM)
        for name in STREAM:
            np.testing.assert_array_equal(alone[name][0], together[name][i])


def test_the_draws_of_a_camera_that_is_not_asked_for_are_taken():
    shown = images(1)
    both = spoil(shown, [pose(7, noise(6))], STREAM)
    wrist = spoil({WRIST: shown[WRIST]}, [pose(7, noise(6))], STREAM)
    assert list(wrist) == [WRIST]
    np.testing.assert_array_equal(wrist[WRIST], both[WRIST])


def test_the_order_is_the_environment_s_and_others_come_after():
    shown = images(1)
    extra = images(1, cameras=("sideview", WRIST, AGENT))
    extra.update(shown)
    out = spoil(extra, [pose(7, noise(6))], STREAM)
    plain = spoil(shown, [pose(7, noise(6))], STREAM)
    for name in STREAM:
        np.testing.assert_array_equal(out[name], plain[name])
    ordered = {name: extra[name] for name in (*STREAM, "sideview")}
    np.testing.assert_array_equal(out["sideview"][0], expected(ordered, 0, Fault(78, 24.0, 0.08))[2])


def test_the_latest_fault_holds_and_light_stays_with_it():
    p = pose(30, noise(5, seed=1), light(6, 0.2), noise(20, 36.0, 0.16, seed=9), light(25, 3.0))
    assert fault_of(p) == Fault(seed=19, noise_std=36.0, occlusion_fraction=0.16, brightness=1.25)
    assert fault_of(pose(30, light(6, 0.2))) == Fault(brightness=0.75)
    assert fault_of(pose(30)) is None


def test_a_seed_that_runs_out_of_32_bits():
    assert fault_of(pose(10, noise(8, seed=2**32 - 3))) == Fault(2**32 - 1, 24.0, 0.08)
    with pytest.raises(BenchError, match="reaches 4294967296 in frame 3"):
        fault_of(pose(11, noise(8, seed=2**32 - 3)))
