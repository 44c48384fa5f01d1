"""SUBMIT: what presses it, what its press settles, and who gets there."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from evals import registry
from evals.libero_max.sampler import sample_manifest
from evals.roboquest import search_room_open as room
from evals.roboquest.submit import SAG, TRAVEL
from evals.tabletop.shapes import TABLE_Z
from mjx_bench.arms import Arms
from mjx_bench.cases import evaluation
from mjx_bench.checkers import judge_of
from mjx_bench.film import film_pair
from mjx_bench.inspection import inspect_case
from mjx_bench.physics.choice import make_physics
from mjx_bench.policy import Policy
from mjx_bench.records import Record, load_run
from mjx_bench.rescore import rescore
from mjx_bench.schedule import run_pairs
from mjx_bench.settings import RunSettings
from mjx_bench.task import Task
from mjx_bench.triggers import touches_judged
from mjx_bench.types import Arm
from policies.reference.oracle import Oracle
from policies.reference.submit import SubmitCarry, Submitting
from policies.simple import Random, Zero

TASK = registry.load_task("roboquest", 0)
MODEL = TASK.extra["instances"].template
OPEN = [0.0] * 6 + [-1.0]


class Presser(Submitting):
    """Presses at once, whatever there is to do."""

    def init(self, task: Task, seed: int) -> SubmitCarry:
        return SubmitCarry(pressing=True)

    def _done(self, task: Task, view: object, carry: SubmitCarry) -> bool:
        return True


@dataclasses.dataclass(frozen=True)
class Moved:
    """Initial states with things elsewhere: name to another thing, the offset from it, and a height above the table."""

    at: Mapping[str, tuple[str, float, float, float]]

    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int) -> np.ndarray:
        state, placed = TASK.load_init_states()[index], TASK.extra["instances"].instance(index).placed
        where = {p.thing.name: p for p in placed}
        for name, (other, dx, dy, lift) in self.at.items():
            adr = 1 + MODEL.joint(f"{name}_free").qposadr[0]
            x, y = where[other].xy
            state[adr : adr + 3] = x + dx, y + dy, TABLE_Z + lift + where[name].thing.rest_height
            state[adr + 3 : adr + 7] = 1, 0, 0, 0
        return state


def starting(**at: tuple[str, float, float, float]) -> Task:
    return dataclasses.replace(TASK, load_init_states=lambda: Moved(at))


RED_IN, GREEN_IN = ("tray", 0.03, 0.0, 0.0005), ("tray", -0.03, 0.0, 0.0005)


def records(out: Path, policy: Policy, task: Task = TASK, instances: int = 2, backend: str = "c") -> list[Record]:
    settings = RunSettings(policy=policy.spec.name, lanes=8, query_interval=8, threads=1, backend=backend)
    run_pairs(evaluation([task], instances, 0), settings, out, load_task=lambda case: task, policy=policy)
    assert rescore(out).agrees
    return list(load_run(out).records)


def test_the_scene_starts_still_and_at_progress_zero():
    touches = touches_judged(TASK, (), engine="c")
    physics = make_physics("c", TASK.scene, touches, 20, "osc_pose", TASK.substeps)
    ids = np.arange(20, dtype=np.int32)
    for lane in range(20):
        physics.load(lane, TASK.load_init_states()[lane], TASK.load_reset(0), TASK.load_fields(lane))
    before = physics.kinematics(ids).entity_pos.copy()
    for _ in range(20):
        assert physics.control_step(ids, np.tile(OPEN, (20, 1))) == {}
    assert np.abs(physics.kinematics(ids).entity_pos - before).max() < 1e-3
    cap = physics.index.joint("submit_press")
    assert physics.signals.joint_qpos[:, cap] == pytest.approx(SAG, abs=1e-4)
    judge = judge_of(TASK, physics.index)
    assert judge is not None
    tests = physics.signals
    assert not judge.over(tests)[:].any()  # type: ignore[misc]


def test_instances_vary_and_keep_what_the_task_needs():
    instances = TASK.extra["instances"]
    spots = collections.defaultdict(list)
    for i in range(100):
        placed = {p.thing.name: p for p in instances.instance(i).placed}
        for name, p in placed.items():
            spots[name].append(p.xy)
        tray = placed["tray"].xy
        for name in (*room.TARGETS, *room.OTHERS):
            away = np.abs(np.subtract(placed[name].xy, tray)).max()
            assert away > room.TRAY_HALF + placed[name].thing.radius, f"instance {i}: {name} starts on the tray"
    assert all(len(set(spot)) == 100 for name, spot in spots.items() if name not in room.OTHERS[1:])
    waiting = [sum(x > 1.0 for x, _ in spots[name]) for name in room.OTHERS[1:]]
    assert all(10 < n < 90 for n in waiting), "clutter comes and goes"


def test_a_block_on_the_cap_weighs_it_down_and_presses_nothing(tmp_path: Path):
    task = dataclasses.replace(starting(red_block=("submit", 0.0, 0.0, 0.041)), horizon=30)
    touches = touches_judged(task, (), engine="c")
    physics = make_physics("c", task.scene, touches, 1, "osc_pose", task.substeps)
    heavy = next(i for i in range(50) if task.load_fields(i)["body_mass"][MODEL.body("red_block").id] > 0.05)
    physics.load(0, task.load_init_states()[heavy], task.load_reset(0), task.load_fields(heavy))
    here, deepest = np.zeros(1, np.int32), 0.0
    judge = judge_of(task, physics.index)
    assert judge is not None
    assert judge.over is not None
    for _ in range(30):
        assert physics.control_step(here, np.array([OPEN])) == {}
        deepest = max(deepest, float(physics.signals.joint_qpos[0, physics.index.joint("submit_press")]))
        assert not judge.over(physics.signals)[0]
    assert 0.003 < deepest <= TRAVEL + 5e-4


def test_a_premature_press_freezes_a_partial_score(tmp_path: Path):
    for name, task, progress in (
        ("nothing", TASK, 0.0),
        ("half", starting(red_block=RED_IN), 0.5),
        ("spoilt", starting(red_block=RED_IN, green_block=GREEN_IN, blue_block=("tray", 0.0, 0.08, 0.0005)), 0.9),
    ):
        for record in records(tmp_path / name, Presser(), task):
            assert (record.verdict, record.reason) == ("failure", "submit: goal not reached"), name
            assert record.end_step < 150
            assert record.progress == pytest.approx(progress, abs=1e-6), name
            assert record.success_step is None


def test_a_press_on_a_finished_tray_succeeds_at_its_step(tmp_path: Path):
    for record in records(tmp_path / "run", Presser(), starting(red_block=RED_IN, green_block=GREEN_IN)):
        assert (record.verdict, record.reason, record.progress) == ("success", "submit", 1.0)
        assert record.success_step == record.end_step < 150


def test_a_finished_tray_without_a_press_is_not_solved(tmp_path: Path):
    task = dataclasses.replace(starting(red_block=RED_IN, green_block=GREEN_IN), horizon=40)
    for record in records(tmp_path / "run", Zero(), task):
        assert (record.verdict, record.reason, record.end_step) == ("timeout", "horizon", 40)
        assert record.progress == 1.0
        assert record.success is False


def test_the_oracle_submits_and_doing_nothing_does_not(tmp_path: Path):
    done = records(tmp_path / "oracle", Oracle(), instances=6)
    assert sum(bool(r.success) for r in done) >= 5
    for policy in (Zero(), Random()):
        found = records(tmp_path / policy.spec.name, policy, dataclasses.replace(TASK, horizon=120))
        assert {r.verdict for r in found} <= {"timeout", "failure"}


@pytest.mark.slow
def test_the_oracle_solves_four_in_five_of_fifty(tmp_path: Path):
    assert sum(bool(r.success) for r in records(tmp_path / "run", Oracle(), instances=50)) >= 40


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "warp"])
def test_a_press_ends_the_episode_on_compiled_engines_too(backend: str, tmp_path: Path):
    if backend == "warp":
        pytest.importorskip("warp")
    for name, task, verdict, progress in (
        ("half", starting(red_block=RED_IN), "failure", 0.5),
        ("done", starting(red_block=RED_IN, green_block=GREEN_IN), "success", 1.0),
    ):
        for record in records(tmp_path / name, Presser(), task, backend=backend):
            assert (record.verdict, record.progress) == (verdict, pytest.approx(progress, abs=1e-6))


def test_events_move_target_and_tray_and_verdicts_are_found_again(tmp_path: Path):
    events = ["target_relocation", "receptacle_relocation"]
    manifest = sample_manifest([TASK], 4, 0, events=events, init_states=range(4))
    settings = RunSettings(policy="oracle", lanes=8, query_interval=8, threads=1)
    run_pairs(manifest, settings, tmp_path / "run", load_task=lambda case: TASK, policy=Oracle())
    dynamic = [r for r in load_run(tmp_path / "run").records if r.arm == "dynamic"]
    assert {r.change_type for r in dynamic} == set(events)
    assert all(r.trigger_step is not None and r.event is not None for r in dynamic)
    assert sum(bool(r.success) for r in dynamic) >= 3
    assert rescore(tmp_path / "run").agrees
    for case in manifest.cases[:2]:
        film_pair(load_run(tmp_path / "run"), case, TASK)
    views = inspect_case(manifest.cases[0], TASK, Oracle(), Arms(8, 16))
    seen = [moment.what for moment in views[Arm.DYNAMIC].moments]
    assert "free(red_block): no longer" in seen
    assert "turnon(submit): yes" in seen
    assert seen[-1] == "end: success (submit)"
