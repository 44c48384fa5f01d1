"""Films show what was recorded: the same bits, or an error. Which pairs are filmed, and which cannot be."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mjx_bench.cases import Case, Manifest
from mjx_bench.errors import BenchError
from mjx_bench.film import Footage, choose_pairs, film_pair, moments_of, recorded_pair
from mjx_bench.physics.scene import compile_scene
from mjx_bench.records import Record, Run
from mjx_bench.types import Arm
from tests.test_pairs import HORIZON, MIXED, TARGET, at, manifest_of, near, run, short_task
from tests.test_pairs import a_case as case_of

CASES = {case.case_id: case for case in MIXED.cases}
MOVED, LIGHT, NEVER = (
    next(i for i in CASES if part in i)
    for part in ("object-i0-target_relocation-fixed", "object-i0-illumination", "i1-target")
)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory) -> Run:
    return run(tmp_path_factory.mktemp("mixed"))


def film(recorded: Run, case_id: str, manifest: Manifest = MIXED) -> Footage:
    case = next(c for c in manifest.cases if c.case_id == case_id)
    return film_pair(recorded, case, short_task(case))


def with_record(recorded: Run, case_id: str, arm: Arm, **changes: Any) -> Run:
    """The same run with one line changed."""
    records = [dataclasses.replace(r, **changes) if r.key == (case_id, arm) else r for r in recorded.records]
    return dataclasses.replace(recorded, records=tuple(records))


def target_of(case: Case, footage: Footage, arm: Arm) -> np.ndarray:
    """[T + 1, 3]: where the trigger's entity is in each pose."""
    scene = compile_scene(footage.task.scene, ())
    entity = scene.index.entity(TARGET[case.task_suite_name])
    address = scene.entity_qpos[entity]
    return np.array([pose.qpos[address : address + 3] for pose in footage.arms[arm].poses])


@pytest.mark.parametrize("case_id", CASES)
def test_every_pair_comes_out_as_recorded(mixed, case_id):
    footage = film(mixed, case_id)
    base, dynamic = (footage.arms[arm] for arm in Arm)
    for arm in (base, dynamic):
        assert len(arm.poses) == arm.end + 1 == HORIZON + 1
    event = footage.event_step
    shared = HORIZON + 1 if event is None else event
    assert all(a is b for a, b in zip(base.poses[:shared], dynamic.poses[:shared], strict=True))
    if event is not None:
        assert dynamic.poses[event] is not base.poses[event]
    # The record's own trajectory of the object, which came out of the engine another way.
    for arm in Arm:
        record = footage.arms[arm].record
        recorded = np.asarray(mixed.array(record, "target_pos"))
        found = target_of(CASES[case_id], footage, arm)[1:]
        if arm is Arm.DYNAMIC and event is not None and record.event and record.event.get("moved"):
            # The record holds the state after the step, the pose of that step what the event made of it.
            found, recorded = np.delete(found, event - 1, 0), np.delete(recorded, event - 1, 0)
        np.testing.assert_array_equal(found, recorded)


def test_the_event_is_in_the_pose_of_its_step(mixed):
    footage = film(mixed, MOVED)
    before = target_of(CASES[MOVED], footage, Arm.BASE)[footage.event_step]
    after = target_of(CASES[MOVED], footage, Arm.DYNAMIC)[footage.event_step]
    np.testing.assert_allclose(after - before, [0.0, 0.06, 0.0], atol=1e-12)
    lit = film(mixed, LIGHT)
    poses = lit.arms[Arm.DYNAMIC].poses
    assert [v.operation for v in poses[lit.event_step].visual] == ["set_lighting"]
    assert not poses[lit.event_step - 1].visual
    assert not lit.arms[Arm.BASE].poses[-1].visual


def test_arms_without_an_event_are_equal_in_the_film_too(tmp_path):
    manifest = manifest_of(case_of("target_relocation", at(8)))
    recorded = run(tmp_path, manifest, no_event=True)
    footage = film(recorded, manifest.cases[0].case_id, manifest)
    for a, b in zip(*(footage.arms[arm].poses for arm in Arm), strict=True):
        np.testing.assert_array_equal(a.qpos, b.qpos)


def test_a_replayed_run_can_be_filmed(tmp_path):
    manifest = manifest_of(case_of("target_relocation", near(10.0)))
    recorded = run(tmp_path, manifest, replay=True)
    assert film(recorded, manifest.cases[0].case_id, manifest).event_step == 1


def test_what_a_seeing_policy_records_of_pictures_is_not_compared(mixed):
    record = mixed.done[MOVED, Arm.DYNAMIC]
    seen = with_record(mixed, MOVED, Arm.DYNAMIC, event={**record.event, "pixel_change": {"agentview": 3.5}})
    assert film(seen, MOVED).event_step == 8


@pytest.mark.parametrize(
    ("arm", "changes", "complaint"),
    [
        (Arm.BASE, {"success_step": 7}, "the step of success is None, recorded 7"),
        (Arm.BASE, {"verdict": "success"}, "the verdict is 'timeout', recorded 'success'"),
        (Arm.DYNAMIC, {"success_end": True}, "success at the end is False, recorded True"),
        (Arm.DYNAMIC, {"trigger_step": 9}, "the event's step is 8, recorded 9"),
        (Arm.DYNAMIC, {"fork_sha256": "0" * 64}, "the state at the event"),
        (Arm.DYNAMIC, {"event": {"operation": "move_object", "moved": []}}, "the event is"),
        (Arm.DYNAMIC, {"end_step": 12}, "ends after 12 steps, and 30 actions are recorded"),
    ],
)
def test_a_record_that_was_changed_is_an_error(mixed, arm, changes, complaint):
    changed = with_record(mixed, MOVED, arm, **changes)
    with pytest.raises(BenchError, match=complaint) as error:
        film(changed, MOVED)
    assert "the records were changed" in str(error.value)
    assert MOVED in str(error.value)
    assert "\n" not in str(error.value)


def test_actions_of_another_run_are_an_error_at_the_first_step_that_differs(mixed):
    other = next(r for r in mixed.records if r.key == (NEVER, Arm.BASE))
    record = next(r for r in mixed.records if r.key == (MOVED, Arm.BASE))
    changed = with_record(mixed, MOVED, Arm.BASE, arrays={**record.arrays, "actions": other.arrays["actions"]})
    with pytest.raises(BenchError, match="the hand's place after step 1 is"):
        film(changed, MOVED)


def test_other_versions_are_named(mixed):
    packages = {**mixed.header.packages, "mujoco": "3.16.0"}
    old = dataclasses.replace(mixed, header=dataclasses.replace(mixed.header, packages=packages))
    assert film(old, MOVED).event_step == 8, "versions alone are no obstacle: the bits decide"
    with pytest.raises(BenchError, match=r"other versions here: mujoco .* \(was 3\.16\.0\)"):
        film(with_record(old, MOVED, Arm.BASE, success_step=7), MOVED)


def test_another_version_of_the_task_is_an_error(mixed):
    task = dataclasses.replace(short_task(CASES[MOVED]), version="libero-other")
    with pytest.raises(BenchError, match="task 0 is version libero-other here and libero-"):
        film_pair(mixed, CASES[MOVED], task)


def test_what_cannot_be_filmed_says_why(mixed):
    void = with_record(mixed, MOVED, Arm.DYNAMIC, success=None, verdict="void", reason="physics diverged")
    missing = dataclasses.replace(mixed, records=tuple(r for r in mixed.records if r.key != (MOVED, Arm.BASE)))
    bare = with_record(mixed, MOVED, Arm.BASE, arrays={})
    for changed, complaint in (
        (void, r"arm dynamic is void \(physics diverged\)"),
        (missing, "arm base is not recorded yet"),
        (bare, "recorded without actions, chunks, eef_pos, query_steps"),
    ):
        with pytest.raises(BenchError, match=complaint):
            recorded_pair(changed, MOVED)
        assert MOVED not in choose_pairs(changed, 99)
    with pytest.raises(BenchError, match="did you mean"):
        recorded_pair(mixed, MOVED[:-1])


def test_regressions_come_first_and_take_turns_over_the_events(mixed):
    assert choose_pairs(mixed, 99)[-1] == NEVER, "an event that never fired shows least"
    assert choose_pairs(mixed, 99) == choose_pairs(mixed, 99)

    def outcome(recorded: Run, case_id: str, base: bool, dynamic: bool) -> Run:
        for arm, success in ((Arm.BASE, base), (Arm.DYNAMIC, dynamic)):
            recorded = with_record(recorded, case_id, arm, success=success)
        return recorded

    relocations = [i for i in CASES if "target_relocation" in i]
    changed = mixed
    for case_id in relocations[:2]:
        changed = outcome(changed, case_id, True, False)
    obstacle = next(i for i in CASES if "obstacle" in i)
    changed = outcome(changed, obstacle, True, False)
    changed = outcome(changed, LIGHT, False, True)
    chosen = choose_pairs(changed, 99)
    assert chosen[:4] == [relocations[0], obstacle, relocations[1], LIGHT]
    assert sorted(chosen) == sorted(CASES)
    assert choose_pairs(changed, 2) == chosen[:2]
    assert choose_pairs(changed, 0) == []


def test_stills_are_of_the_query_before_the_event_the_event_the_answer_and_the_end(mixed):
    assert moments_of(mixed, MOVED) == {"before": 4, "event": 8, "response": 8, "end": HORIZON}
    assert moments_of(mixed, LIGHT) == {"before": 0, "event": 1, "response": 4, "end": HORIZON}
    assert moments_of(mixed, NEVER) == {"start": 0, "end": HORIZON}
    late = with_record(mixed, LIGHT, Arm.DYNAMIC, first_response_step=None)
    assert list(moments_of(late, LIGHT)) == ["before", "event", "end"]


def test_records_hold_no_pictures(mixed):
    assert not [name for r in mixed.records for name in r.arrays if "image" in name]
    assert not (Path(mixed.directory) / "media").exists()
    assert isinstance(mixed.records[0], Record)
