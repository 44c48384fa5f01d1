"""Pairs on real LIBERO scenes: what is shared and forked, what an interruption may cost, what a bad policy may break."""

from __future__ import annotations

import dataclasses
import itertools
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mjx_bench.cases import Case, Manifest
from mjx_bench.errors import BenchError
from mjx_bench.policy import Observation, PolicySpec
from mjx_bench.records import Record, Run, load_run
from mjx_bench.rollout import PolicyMistake
from mjx_bench.schedule import run_pairs
from mjx_bench.settings import RunSettings
from mjx_bench.task import Atom, Task
from tests.scenes import SEED, libero_task

TARGET = {"libero_object": "alphabet_soup_1", "libero_spatial": "akita_black_bowl_1"}
HORIZON, Q, H = 30, 4, 8


def short_task(case: Case) -> Task:
    return dataclasses.replace(libero_task(case.task_suite_name, case.task_index), horizon=HORIZON)


class Wanderer:
    """Walks at random from the engine's seeds, with a carry that every action depends on."""

    spec = PolicySpec("wanderer", horizon=H)

    def __init__(self) -> None:
        self.episodes = 0

    def init(self, task: Task, seed: int) -> Any:
        self.episodes += 1
        return 0.0

    def act(self, carries: Sequence[Any], obs: Observation, seeds: np.ndarray) -> tuple[np.ndarray, Sequence[Any]]:
        out, after = np.zeros((len(carries), H, 7), np.float32), []
        for i, (carry, seed) in enumerate(zip(carries, seeds, strict=True)):
            rng = np.random.default_rng(int(seed))
            out[i] = np.clip(rng.normal(0.1 * carry, 0.5, (H, 7)) + obs.entity_pos[i, 0, 1], -1, 1)
            after.append(carry + 1.0)
        return out, after


EVENTS: dict[str, dict[str, Any]] = {
    "illumination_switch": {"operation": "set_lighting", "scale": 0.2},
    "target_relocation": {"operation": "move_object", "delta_position_m": [0.0, 0.06, 0.0]},
    "obstacle_insertion": {
        "operation": "insert_obstacle",
        "object": "milk_1",
        "offset_m": [0.14, 0.0, 0.0],
        "preserve_initial_z": True,
    },
}
FAMILY = {"illumination_switch": "OBS", "target_relocation": "GEO", "obstacle_insertion": "OBSTACLE"}


def a_case(
    event: str, trigger: dict[str, Any], init: int = 0, suite: str = "libero_object", tag: str = ""
) -> dict[str, Any]:
    change = dict(EVENTS[event])
    if event == "target_relocation":
        change["object"] = TARGET[suite]
    scenario: dict[str, Any] = {
        "scenario_id": f"{suite}-i{init}-{event}{tag}",
        "base_task_id": f"{suite}/task_0",
        "seed": init,
        "change_family": FAMILY[event],
        "change_type": event,
        "severity": "high",
        "trigger": trigger,
        "change": change,
        "expected_response_mode": "continue",
        "safety_constraints": [],
    }
    if event == "obstacle_insertion":
        change["relative_to"] = TARGET[suite]
        removal = {"operation": "remove_object", "object": "milk_1", "offworld_position_m": [-2.0, 0.0, -5.0]}
        scenario["setup"] = [removal]
    return {
        "case_id": f"{suite}-i{init}-{event}{tag}-p{SEED}",
        "task_suite_name": suite,
        "task_index": 0,
        "init_state_index": init,
        "policy_seed": SEED,
        "timing_bucket": "middle",
        "scenario": scenario,
    }


def near(distance: float, suite: str = "libero_object") -> dict[str, Any]:
    return {"type": "on_proximity", "value": TARGET[suite], "distance_m": distance}


def at(step: int) -> dict[str, Any]:
    return {"type": "fixed_step", "value": step}


def manifest_of(*cases: dict[str, Any]) -> Manifest:
    protocol = {"arms": ["control", "intervention"], "query_interval": Q, "scoring_track": "physical_completion"}
    return Manifest.read({"benchmark_id": "t", "benchmark_version": "1", "protocol": protocol, "cases": list(cases)})


MIXED = manifest_of(
    a_case("illumination_switch", near(10.0)),
    a_case("target_relocation", near(10.0)),
    a_case("target_relocation", at(8), tag="-fixed"),
    a_case("obstacle_insertion", at(12)),
    a_case("target_relocation", at(HORIZON + 2), init=1),
    a_case("target_relocation", at(12), init=0, suite="libero_spatial"),
    a_case("illumination_switch", at(4), init=2, suite="libero_spatial"),
)


def run(out: Path, manifest: Manifest = MIXED, policy: Any = None, progress: Any = None, **settings: Any) -> Run:
    chosen = RunSettings(**({"policy": "wanderer", "lanes": 3, "query_interval": Q, "threads": 1} | settings))
    run_pairs(manifest, chosen, out, load_task=short_task, policy=policy or Wanderer(), progress=progress)
    return load_run(out)


def results(run: Run) -> dict[tuple[str, str], dict[str, Any]]:
    return {r.key: r.result() for r in run.records}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory) -> Run:
    return run(tmp_path_factory.mktemp("mixed"))


def arms(run: Run, case_part: str) -> tuple[Record, Record]:
    return tuple(next(r for r in run.records if case_part in r.case_id and r.arm == a) for a in ("base", "dynamic"))  # type: ignore[return-value]


def array(run: Run, record: Record, name: str) -> np.ndarray:
    return np.asarray(run.array(record, name))


def test_every_case_has_exactly_one_line_an_arm(mixed):
    assert sorted(r.key for r in mixed.records) == sorted(
        (c.case_id, a) for c in MIXED.cases for a in ("base", "dynamic")
    )
    assert {r.verdict for r in mixed.records} == {"timeout"}
    assert {r.end_step for r in mixed.records} == {HORIZON}


def test_records_do_not_depend_on_lanes_threads_or_order(mixed, tmp_path):
    shuffled = dataclasses.replace(MIXED, cases=MIXED.cases[::-1])
    assert results(run(tmp_path / "one", lanes=1)) == results(mixed)
    assert results(run(tmp_path / "seven", lanes=7, threads=2)) == results(mixed)
    assert results(run(tmp_path / "shuffled", manifest=shuffled, lanes=2)) == results(mixed)


def test_a_visual_event_changes_nothing_for_a_policy_that_sees_no_picture(mixed):
    for part in ("libero_object-i0-illumination", "libero_spatial-i2-illumination"):
        base, dynamic = arms(mixed, part)
        assert base.trigger_step == dynamic.trigger_step
        assert base.fork_sha256 == dynamic.fork_sha256
        assert dynamic.event is not None
        for name in ("actions", "eef_pos", "target_pos", "chunks", "query_steps"):
            np.testing.assert_array_equal(array(mixed, base, name), array(mixed, dynamic, name))


def test_both_arms_share_the_prefix_and_the_event_happens_once_at_the_trigger(mixed):
    base, dynamic = arms(mixed, "libero_object-i0-target_relocation-p")
    step = dynamic.trigger_step
    assert step == 1, "10 m is near enough at the first policy step"
    assert (dynamic.first_response_step, dynamic.common_response_step, dynamic.stale_actions) == (Q, Q, Q - 1)
    a, b = array(mixed, base, "actions"), array(mixed, dynamic, "actions")
    np.testing.assert_array_equal(a[:Q], b[:Q])
    assert np.abs(a[Q:] - b[Q:]).max() > 0, "this policy sees where the target is"
    shift = array(mixed, dynamic, "target_pos")[step] - array(mixed, base, "target_pos")[step]
    np.testing.assert_allclose(shift, [0.0, 0.06, 0.0], atol=2e-3)
    [moved] = dynamic.event["moved"]
    np.testing.assert_allclose(np.subtract(moved["after"], moved["before"]), [0.0, 0.06, 0.0], atol=1e-12)
    assert base.event is None


def test_an_event_on_a_query_boundary_leaves_no_stale_action(mixed):
    _, dynamic = arms(mixed, "-fixed")
    assert (dynamic.trigger_step, dynamic.first_response_step, dynamic.stale_actions) == (8, 8, 0)


def test_an_obstacle_comes_back_upright_at_its_height(mixed):
    _, dynamic = arms(mixed, "obstacle")
    [moved] = dynamic.event["moved"]
    assert moved["before"][2] == pytest.approx(5.0, abs=1e-6), "it was parked in the air, not under the floor"
    assert 0 < moved["after"][2] < 0.2


def test_a_case_that_never_triggers_keeps_its_place_with_equal_arms(mixed):
    base, dynamic = arms(mixed, "libero_object-i1")
    assert dynamic.trigger_step is None
    assert dynamic.event is None
    assert "not triggered" in dynamic.reason
    assert dynamic.verdict == base.verdict
    np.testing.assert_array_equal(array(mixed, base, "actions"), array(mixed, dynamic, "actions"))


def test_cases_that_differ_in_the_event_only_share_one_base_run(tmp_path):
    policy = Wanderer()
    run(tmp_path, policy=policy)
    # object i0 (three cases), object i0 with an object removed, object i1, spatial i0, spatial i2
    assert policy.episodes == 5


def test_killed_again_and_again_nothing_is_lost_or_repeated(mixed, tmp_path):
    sessions = 0

    def interrupt(done: int, total: int, record: Record | None) -> None:
        nonlocal sessions
        if record is not None:
            sessions += 1
            raise KeyboardInterrupt

    for _ in range(2 * len(MIXED.cases)):
        try:
            run(tmp_path, progress=interrupt)
        except KeyboardInterrupt:
            continue
    finished = run(tmp_path)
    assert sessions == 2 * len(MIXED.cases), "every session finished exactly one arm before it was killed"
    assert results(finished) == results(mixed)


def test_a_stored_base_is_replayed_even_if_the_policy_would_now_act_otherwise(mixed, tmp_path):
    def stop_after_base(done: int, total: int, record: Record | None) -> None:
        if record is not None and record.arm == "base":
            raise KeyboardInterrupt

    one = dataclasses.replace(MIXED, cases=MIXED.cases[2:3])
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, manifest=one, progress=stop_after_base)

    class Other(Wanderer):
        def act(self, carries, obs, seeds):
            actions, after = super().act(carries, obs, seeds)
            return -actions, after

    finished = run(tmp_path, manifest=one, policy=Other())
    base, dynamic = arms(finished, "-fixed")
    assert dynamic.fork_sha256 == base.fork_sha256
    np.testing.assert_array_equal(array(finished, base, "actions")[:8], array(finished, dynamic, "actions")[:8])


def test_a_replayed_prefix_arrives_at_the_same_bits_as_a_fork(mixed, tmp_path):
    assert results(run(tmp_path, replay=True)) == results(mixed)


def test_a_replay_that_arrives_elsewhere_is_void(tmp_path, monkeypatch):
    monkeypatch.setattr("mjx_bench.pairing.Snapshot.digest", lambda self: str(next(counter)))
    counter = itertools.count()
    finished = run(tmp_path, manifest=dataclasses.replace(MIXED, cases=MIXED.cases[2:3]), replay=True)
    base, dynamic = arms(finished, "-fixed")
    assert base.verdict == "timeout"
    assert dynamic.verdict == "void"
    assert "did not arrive" in dynamic.reason


def test_an_a_a_run_has_equal_arms_through_the_fork_path(mixed, tmp_path):
    aa = run(tmp_path, no_event=True)
    forked = 0
    for case in MIXED.cases:
        base, dynamic = (aa.done[case.case_id, arm] for arm in ("base", "dynamic"))
        forked += dynamic.event == {"operation": "none"}
        assert base.result()["arrays"] == dynamic.result()["arrays"], "sha256 of every trace"
        assert (base.verdict, base.end_step) == (dynamic.verdict, dynamic.end_step)
    assert forked == len(MIXED.cases) - 1, "all but the one that never triggers"


def test_faithful_removal_is_the_reference_s_artefact(tmp_path):
    faithful = run(tmp_path, manifest=dataclasses.replace(MIXED, cases=MIXED.cases[3:4]), faithful=True)
    _, dynamic = arms(faithful, "obstacle")
    [moved] = dynamic.event["moved"]
    assert moved["before"][2] > 20, "shot up from under the floor: tens of metres after 22 control steps"


def test_success_ends_an_episode_unless_the_run_goes_on(tmp_path):
    def easy(case: Case) -> Task:
        goal = (Atom("on", (TARGET["libero_object"], "floor_target_object_region")),)
        return dataclasses.replace(short_task(case), goal=goal)

    one = dataclasses.replace(MIXED, cases=MIXED.cases[4:5])
    policy = Wanderer()
    ends = {}
    for run_on in (False, True):
        settings = RunSettings("wanderer", 1, Q, run_on=run_on)
        run_pairs(one, settings, tmp_path / str(run_on), load_task=easy, policy=policy)
        base, _ = arms(load_run(tmp_path / str(run_on)), "i1")
        assert (base.verdict, base.success_step, base.success_end) == ("success", 1, True)
        ends[run_on] = base.end_step
    assert ends == {False: 1, True: HORIZON}


class Broken(Wanderer):
    """Fails in one way from its third query on."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def init(self, task, seed):
        if self.how == "never starts":
            raise RuntimeError("no weights")
        return super().init(task, seed)

    def act(self, carries, obs, seeds):
        actions, after = super().act(carries, obs, seeds)
        if self.how == "one of many" and any(c >= 2 and seed % 16 == 0 for c, seed in zip(carries, seeds, strict=True)):
            raise RuntimeError("this lane only")
        if max(carries) >= 2:
            if self.how == "raises":
                raise RuntimeError("lost my weights")
            if self.how == "nan":
                actions[:, 1, 2] = np.nan
            if self.how == "shape":
                actions = actions[:, :3]
            if self.how == "carries":
                after = after[1:]
            if self.how == "words":
                actions = [["a"] * 7] * H
            if self.how == "nothing":
                return None
        return actions, after


@pytest.mark.parametrize(
    ("how", "reason"), [("raises", "lost my weights"), ("nan", "not finite at step 8"), ("never starts", "no weights")]
)
def test_a_policy_that_fails_makes_voids_and_not_failures(tmp_path, how, reason):
    finished = run(tmp_path, policy=Broken(how))
    assert {r.verdict for r in finished.records} == {"void"}
    assert all(r.success is None for r in finished.records)
    assert all(reason in r.reason for r in finished.records)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("shape", r"shape \(\d, 3, 7\), expected \(\d, 8, 7\)"),
        ("carries", "must return a sequence of \\d carries"),
        ("words", "no array of numbers"),
        ("nothing", r"returned NoneType, expected \(actions, carries\)"),
    ],
)
def test_an_answer_that_is_none_stops_the_run_and_keeps_what_is_finished(tmp_path, how, message):
    with pytest.raises(PolicyMistake, match=message):
        run(tmp_path, policy=Broken(how))
    load_run(tmp_path)


def test_a_lane_that_raises_takes_no_other_with_it(tmp_path):
    alone = run(tmp_path / "alone", policy=Broken("one of many"), lanes=1)
    together = run(tmp_path / "together", policy=Broken("one of many"), lanes=7)
    assert results(alone) == results(together)
    assert len({r.verdict for r in alone.records}) == 2, "some lanes raised, some did not"


def test_an_edited_policy_does_not_finish_what_another_began(tmp_path, monkeypatch):
    one = dataclasses.replace(MIXED, cases=MIXED.cases[:1])
    run(tmp_path, manifest=one)
    monkeypatch.setattr("mjx_bench.schedule._policy_source", lambda policy: {"policy source": "another"})
    with pytest.raises(BenchError, match="policy source"):
        run(tmp_path, manifest=one)


def test_a_seed_that_no_reset_takes_is_refused_before_anything_runs(tmp_path):
    big = a_case("illumination_switch", at(4))
    big["policy_seed"] = 2**32
    with pytest.raises(BenchError, match="policy_seed = 4294967296"):
        run(tmp_path / "out", manifest=manifest_of(big))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"query_interval": 9}, "larger than the action horizon 8"),
        ({"query_interval": 0}, "at least 1, got 0"),
        ({"lanes": -1}, "at least 1, got -1"),
        ({"horizon": 9}, "horizon must be 1 to 8"),
        ({"backend": "mjx"}, "unknown backend 'mjx'"),
    ],
)
def test_impossible_settings_are_refused_before_anything_is_written(tmp_path, settings, message):
    with pytest.raises(BenchError, match=message):
        run(tmp_path / "out", **settings)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("change", [{"replay": True}, {"no_event": True}, {"run_on": True}, {"query_interval": 2}])
def test_a_folder_is_continued_with_the_same_settings_only(mixed, tmp_path, change):
    folder = shutil.copytree(mixed.directory, tmp_path / "out")
    [name] = change
    with pytest.raises(BenchError, match=rf"this folder was made with settings\.{name} = .*use another folder"):
        run(folder, **change)
    assert (folder / "records.jsonl").read_bytes() == (mixed.directory / "records.jsonl").read_bytes()


def test_a_case_that_does_not_fit_its_task_is_refused_by_name(tmp_path):
    with pytest.raises(BenchError, match=r"init_state_index = 50: expected 0\.\.49"):
        run(tmp_path / "out", manifest=manifest_of(a_case("illumination_switch", at(4), init=50)))
    stranger = a_case("target_relocation", at(4))
    stranger["scenario"]["change"]["object"] = "alphabet_soup_2"
    with pytest.raises(BenchError, match="did you mean alphabet_soup_1"):
        run(tmp_path / "out", manifest=manifest_of(stranger))
    assert not (tmp_path / "out").exists()
