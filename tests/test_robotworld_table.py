"""RoboLab's two tasks on the native table: their bounds and rate, their instances, and who can do them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evals import registry
from evals.libero_max.sampler import sample_manifest
from evals.robotworld import mug, stacking
from evals.robotworld.contract import contract
from mjx_bench.errors import BenchError
from mjx_bench.physics.scene import compile_scene
from mjx_bench.predicates import compile_goal, goal_index
from mjx_bench.records import load_run
from mjx_bench.rescore import rescore
from mjx_bench.schedule import run_pairs
from mjx_bench.signals import HAND, Signals
from mjx_bench.task import Task
from policies.reference.oracle import Oracle
from policies.simple import Random, Zero
from tests.robotworld_runs import SETTINGS, engines_step_alike, verdicts

STACK, MUG = (registry.load_task("robotworld", index) for index in (1, 2))


@pytest.mark.parametrize("task", [STACK, MUG], ids=lambda t: t.name)
def test_rate_horizon_and_bound_are_the_contracts(task: Task):
    c = contract(task.name)
    assert (task.horizon, task.control_hz) == (c.horizon, c.interface.control_hz)
    step = compile_scene(task.scene, ()).model.opt.timestep
    assert step * task.substeps * task.control_hz == pytest.approx(1.0, abs=1e-12)
    [bound] = {atom.bound.value for atom in task.goal if atom.bound is not None}
    assert bound in [p.value for p in c.predicates]
    assert c.profile == "N"
    assert task.rules.hold is None


def judged(task: Task, **lanes: Any) -> list[bool]:
    """What the goal says of made-up signals: entity to its positions [B, 3], and pairs that touch."""
    index = goal_index(task.goal, task.scene)
    touching = lanes.pop("touching")
    s = Signals.zeros(len(touching), index)
    for name, positions in lanes.items():
        s.entity_pos[:, index.entity(name)] = positions
    for lane, pairs in enumerate(touching):
        for pair in pairs:
            s.touch[lane, index.touch(*pair)] = True
    for name in index.regions:
        s.region_mat[:, index.region(name)] = np.eye(3)
        s.region_pos[:, index.region(name)] = (*mug.MIDDLE, 0.87)
    return compile_goal(task.goal, task.scene, index)[1](s).tolist()


def test_a_mug_in_the_middle_stands_on_the_table_and_is_let_go():
    on, held = ("white_mug", "table"), (HAND, "white_mug")
    x, y = mug.MIDDLE
    at = [(x, y, 0.9), (x + 0.05, y, 0.9), (x - 0.03, y + 0.04, 0.9), (x + 0.0501, y, 0.9), (x + 0.036, y + 0.036, 0.9)]
    at += [(x, y, 0.9), (x, y, 0.9), (x, y, 0.99)]
    touching = [[on]] * 5 + [[on, held], [], [on]]
    found = judged(MUG, white_mug=at, table=[(x, y, 0.86)] * 8, touching=touching)
    assert found == [True, True, True, False, False, False, False, False]


def test_a_stack_has_its_order_and_ten_millimetres():
    names = ("red_block", "blue_block", "green_block", "yellow_block")
    pairs = list(zip(names[1:], names[:-1], strict=True))
    straight = {name: (0.0, 0.0, 0.88 + 0.04 * i) for i, name in enumerate(names)}

    def stack(touching: list[Any] = pairs, **moved: tuple[float, float, float]) -> bool:
        return judged(STACK, **{n: [p] for n, p in (straight | moved).items()}, touching=[touching])[0]

    assert stack()
    assert stack(yellow_block=(0.01, 0.0, 1.0))
    assert stack(yellow_block=(0.006, 0.008, 1.0))
    assert not stack(yellow_block=(0.0101, 0.0, 1.0))
    assert not stack(yellow_block=(0.008, 0.008, 1.0))
    assert stack(blue_block=(0.008, 0.0, 0.92), green_block=(0.016, 0.0, 0.96), yellow_block=(0.024, 0.0, 1.0))
    assert not stack(pairs[:2])  # the yellow one hangs from the hand
    assert not stack(green_block=straight["yellow_block"], yellow_block=straight["green_block"])
    assert not stack(red_block=straight["blue_block"], blue_block=straight["red_block"])


def test_instances_vary_and_none_starts_solved():
    for task in (STACK, MUG):
        states = np.stack([task.load_init_states()[i] for i in range(40)])
        assert len(np.unique(states[:, 10:12], axis=0)) == 40
        assert np.array_equal(task.load_init_states()[7], states[7])
        assert task.load_fields is not None
        assert len({task.load_fields(i)["body_mass"].tobytes() for i in range(10)}) == 10
    placed = [MUG.extra["instances"].instance(i).placed for i in range(40)]
    away = [math.dist(p[0].xy, mug.MIDDLE) for p in placed]
    assert min(away) >= mug.FAR > mug.ASIDE
    assert len({sum(not item.waits for item in p) for p in placed}) > 2, "the others come and go"
    for i in range(40):
        blocks = [p.xy for p in STACK.extra["instances"].instance(i).placed]
        assert min(math.dist(a, b) for k, a in enumerate(blocks) for b in blocks[:k]) > 2 * stacking.HALF


def test_the_expert_does_it_and_nothing_else_does(tmp_path: Path):
    for task, instances in ((STACK, 1), (MUG, 4)):
        assert verdicts(tmp_path / task.name, task, Oracle(), instances) == {"success": instances}
    for policy in (Zero(), Random()):
        assert verdicts(tmp_path / policy.spec.name, MUG, policy, 1) == {"timeout": 1}
    records = load_run(tmp_path / MUG.name).records
    assert all(r.end_step == r.success_step < MUG.horizon for r in records), "the first such step ends it"


@pytest.mark.slow
@pytest.mark.parametrize("task", [STACK, MUG], ids=lambda t: t.name)
def test_the_expert_solves_nine_in_ten_of_fifty(task: Task, tmp_path: Path):
    assert verdicts(tmp_path / "run", task, Oracle(), 50)["success"] >= 45
    assert verdicts(tmp_path / "zero", task, Zero(), 4) == {"timeout": 4}


@pytest.mark.slow
@pytest.mark.parametrize("task", [STACK, MUG], ids=lambda t: t.name)
def test_engines_step_alike(task: Task):
    """Thirty control steps of an arm in motion from 4 starts, C against JAX."""
    engines_step_alike(task, lambda rng: rng.uniform(-0.5, 0.5, (4, 7)), bound=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("task", "instances"), [(STACK, 2), (MUG, 4)], ids=lambda v: getattr(v, "name", ""))
def test_the_expert_does_it_on_jax(task: Task, instances: int, tmp_path: Path):
    assert verdicts(tmp_path / "run", task, Oracle(), instances, "jax") == {"success": instances}


def test_a_mug_that_moves_is_followed(tmp_path: Path):
    events = ["target_relocation", "obstacle_insertion", "distractor_burst"]
    manifest = sample_manifest([MUG], 3, 0, events=events, init_states=range(6))
    run_pairs(manifest, SETTINGS, tmp_path / "run", load_task=lambda case: MUG, policy=Oracle())
    found = [r for r in load_run(tmp_path / "run").records if r.arm == "dynamic"]
    assert {r.change_type for r in found} == set(events)
    assert all(r.verdict == "success" and r.trigger_step is not None for r in found)
    assert rescore(tmp_path / "run").agrees


def test_the_table_does_not_move():
    assert "receptacle_relocation" not in MUG.extra["geometry"].events
    with pytest.raises(BenchError, match="receptacle_relocation"):
        sample_manifest([MUG], 1, 0, events=["receptacle_relocation"])
