"""Pictures in the loop: what a policy that sees gets at each query, whoever its neighbours are and whatever has happened."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mjx_bench.cases import Case
from mjx_bench.errors import BenchError, MissingExtra
from mjx_bench.observe.choice import choose
from mjx_bench.policy import Observation, PolicySpec
from mjx_bench.records import load_run
from mjx_bench.schedule import run_pairs
from mjx_bench.settings import RunSettings
from mjx_bench.task import Task
from tests.test_pairs import EVENTS, FAMILY, a_case, at, manifest_of, short_task

H, Q = 8, 4
CAMERAS = ("agentview", "robot0_eye_in_hand")

EVENTS["sensor_noise_onset"] = {
    "operation": "set_sensor_corruption",
    "noise_std": 24,
    "occlusion_fraction": 0.08,
    "seed": 7,
}
FAMILY["sensor_noise_onset"] = "OBS"


class Onlooker:
    """Acts by the bits of what it sees: one other pixel, and everything after it is another run."""

    spec = PolicySpec("onlooker", horizon=H, cameras=CAMERAS, image_size=64)

    def __init__(self) -> None:
        self.shapes: set[tuple[int, ...]] = set()

    def init(self, task: Task, seed: int) -> Any:
        return None

    def act(self, carries: Sequence[Any], obs: Observation, seeds: np.ndarray) -> tuple[np.ndarray, Sequence[Any]]:
        out = np.zeros((len(carries), H, 7), np.float32)
        for i in range(len(carries)):
            seen = b"".join(obs.images[name][i].tobytes() for name in CAMERAS)
            rng = np.random.default_rng(int.from_bytes(hashlib.sha256(seen).digest()[:8]))
            out[i] = rng.uniform(-0.5, 0.5, (H, 7))
        self.shapes |= {(name, *obs.images[name].shape[1:]) for name in obs.images}
        return out, carries


@pytest.fixture(params=["gl", "warp"])
def renderer(request) -> str:
    try:
        choose(request.param)
    except (BenchError, MissingExtra) as error:
        pytest.skip(str(error))
    return request.param


def short(case: Case) -> Task:
    return dataclasses.replace(short_task(case), horizon=12)


def run(out: Path, renderer: str, lanes: int, *, replay: bool = False, shuffled: bool = False) -> dict[Any, Any]:
    # The obstacle comes first, so that the lanes of the others hold neighbours with and without a change.
    cases = [a_case(event, at(4)) for event in ("obstacle_insertion", *VISUAL)]
    manifest = manifest_of(*(reversed(cases) if shuffled else cases))
    settings = RunSettings("onlooker", lanes, Q, renderer=renderer, threads=1, replay=replay)
    run_pairs(manifest, settings, out, load_task=short, policy=Onlooker())
    found = load_run(out)
    return {(r.case_id, r.arm): (r, np.asarray(found.array(r, "actions"))) for r in found.records}


VISUAL = ("illumination_switch", "sensor_noise_onset")


@pytest.fixture(scope="module")
def forked(tmp_path_factory) -> dict[Any, Any]:
    return run(tmp_path_factory.mktemp("forked"), "gl", 4)


def test_what_is_seen_depends_on_no_neighbour_and_no_order(tmp_path, renderer, request):
    together = request.getfixturevalue("forked") if renderer == "gl" else run(tmp_path / "4", renderer, 4)
    alone = run(tmp_path / "1", renderer, 1, shuffled=True)
    assert alone.keys() == together.keys()
    for key, (_, actions) in alone.items():
        np.testing.assert_array_equal(actions, together[key][1], err_msg=str(key))


def test_a_replayed_arm_sees_what_the_forked_one_saw(tmp_path, forked):
    replayed = run(tmp_path, "gl", 4, replay=True)
    for key, (record, actions) in forked.items():
        assert record.fork_sha256 == replayed[key][0].fork_sha256
        np.testing.assert_array_equal(actions, replayed[key][1], err_msg=str(key))


def test_an_event_is_seen_in_the_first_picture_after_it_and_not_before(forked):
    for (case_id, arm), (record, actions) in forked.items():
        if arm != "dynamic":
            continue
        base = forked[case_id, "base"][1]
        response = record.first_response_step
        assert response == 4  # the query at the event itself
        np.testing.assert_array_equal(actions[:response], base[:response])
        assert not np.array_equal(actions[response:], base[response:])
        assert record.event["pixel_change"]["agentview"] > 0


def test_the_pictures_are_the_ones_asked_for_and_the_header_says_what_made_them(tmp_path):
    policy = Onlooker()
    settings = RunSettings("onlooker", 1, Q, renderer="gl", threads=1)
    session = run_pairs(
        manifest_of(a_case("illumination_switch", at(4))), settings, tmp_path, load_task=short, policy=policy
    )
    assert policy.shapes == {(name, 64, 64, 3) for name in CAMERAS}
    settings = load_run(tmp_path).header.settings
    assert (settings["renderer"], settings["cameras"], settings["image_size"]) == ("gl", list(CAMERAS), 64)
    assert "egl" in settings["renderer_platform"] or "osmesa" in settings["renderer_platform"]
    # Three queries of the base, two after the event, and one picture on either side of it.
    assert session.pictures == 2 * (3 + 2 + 2)
    assert 0 < session.pictures_s < session.wall_s


def test_a_policy_that_sees_nothing_needs_no_renderer(tmp_path, monkeypatch):
    monkeypatch.setattr("mjx_bench.observe.choice.choose", lambda name: pytest.fail("asked for a renderer"))

    class Blind(Onlooker):
        spec = PolicySpec("blind", horizon=H)

        def act(self, carries, obs, seeds):
            assert obs.images == {}
            return np.zeros((len(carries), H, 7), np.float32), carries

    manifest = manifest_of(a_case("illumination_switch", at(4)))
    run_pairs(manifest, RunSettings("blind", 1, Q, threads=1), tmp_path, load_task=short, policy=Blind())
    settings = load_run(tmp_path).header.settings
    assert (settings["sees_pictures"], settings["renderer"]) == (False, None)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"cameras": ("agentview", "robot0_eye_in_hnad")}, "did you mean robot0_eye_in_hand"),
        ({"image_size": 0}, "pictures of 0 pixels a side; its image_size must be 1 to 4096"),
        ({"image_size": 4097}, "pictures of 4097 pixels a side"),
    ],
)
def test_what_no_scene_can_show_is_refused_before_anything_runs(tmp_path, spec, message):
    policy = Onlooker()
    policy.spec = dataclasses.replace(Onlooker.spec, **spec)
    manifest = manifest_of(a_case("illumination_switch", at(4)))
    with pytest.raises(BenchError, match=message):
        run_pairs(manifest, RunSettings("onlooker", 1, Q, renderer="gl"), tmp_path, load_task=short, policy=policy)
    assert not (tmp_path / "run.json").exists()


def test_an_unknown_renderer_is_named(tmp_path):
    manifest = manifest_of(a_case("illumination_switch", at(4)))
    with pytest.raises(BenchError, match="unknown renderer 'vulkan'"):
        run_pairs(manifest, RunSettings("o", 1, Q, renderer="vulkan"), tmp_path, load_task=short, policy=Onlooker())


def test_what_a_renderer_refuses_is_known_before_anything_runs(tmp_path, monkeypatch):
    class Refusing:
        def __init__(self, *args):
            raise BenchError("cannot draw this scene")

    monkeypatch.setattr("mjx_bench.observe.gl_renderer.GlRenderer", Refusing)
    manifest = manifest_of(a_case("illumination_switch", at(4)))
    with pytest.raises(BenchError, match="cannot draw this scene"):
        run_pairs(manifest, RunSettings("o", 1, Q, renderer="gl"), tmp_path, load_task=short, policy=Onlooker())
    assert not list(tmp_path.iterdir())
