"""The native suite's scenes on compiled engines: one control step from 200 states of an expert's episodes, beside C."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from evals import registry
from mjx_bench.control.state import ControllerState
from mjx_bench.physics.choice import make_physics, missing_warp
from mjx_bench.physics.compiled import Compiled
from mjx_bench.physics.mujoco_c import MujocoC
from mjx_bench.physics.scene import compile_scene
from mjx_bench.policy import action_mode_for
from mjx_bench.predicates import compile_goal, goal_index
from mjx_bench.rollout import Rollout
from mjx_bench.signals import Signals
from mjx_bench.task import Task
from mjx_bench.triggers import touches_judged
from policies import registry as policies

pytestmark = pytest.mark.slow

TASKS = {row["name"]: row["index"] for row in registry.task_table("tabletop")}
GRASPING = ("pick_lift", "pick_place", "place_in_bin", "stack_two", "stack_three_in_order", "insert_peg")
LANES, STATES = 8, 200


@dataclasses.dataclass
class Step:
    """One control step of one lane on C: the state before it, the action, and what came of it."""

    lane: int
    before: dict[str, np.ndarray]
    action: np.ndarray
    after: dict[str, np.ndarray]


class Recording(MujocoC):
    """Keeps every control step."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self.steps: list[Step] = []
        self._warmstart = self._batch.bind("qacc_warmstart")

    def control_step(self, ids: np.ndarray, actions: np.ndarray) -> dict[int, str]:
        f, state = self._fields, self._controller
        before = {n: getattr(f, n)[ids].copy() for n in ("qpos", "qvel", "ctrl")}
        before |= {"qacc_warmstart": self._warmstart[ids].copy()}
        before |= {field.name: getattr(state, field.name)[ids].copy() for field in dataclasses.fields(ControllerState)}
        failed = super().control_step(ids, actions)
        after = {n: getattr(f, n)[ids].copy() for n in ("qpos", "qvel", "ctrl")}
        after |= {n: getattr(self.signals, n)[ids].copy() for n in vars(self.signals)}
        for i, lane in enumerate(ids.tolist()):
            row = {n: a[i] for n, a in before.items()}
            self.steps.append(Step(lane, row, actions[i].copy(), {n: a[i] for n, a in after.items()}))
        return failed


def episodes(task: Task) -> list[Step]:
    """The control steps of an expert in instances 0 to 7, as many as there are."""
    touches = touches_judged(task, (), engine="jax")
    scene = compile_scene(task.scene, touches)
    policy = policies.make("scripted.reactive")
    physics = Recording(scene, LANES, action_mode_for(policy.spec.action_mode, task), task.substeps)
    success = compile_goal(task.goal, task.scene, scene.index)[1]
    rollout = Rollout(
        task, physics, policy, 8, policy.spec.horizon, success, goal_index(task.goal, task.scene), lambda lane, e: None
    )
    states, running = task.load_init_states(), {}
    for lane in range(LANES):
        physics.load(lane, states[lane], task.load_reset(0), task.load_fields(lane))
        running[lane] = rollout.begin(f"parity-{lane}")
    while any(e.verdict is None for e in running.values()):
        rollout.tick(running)
    return physics.steps


def engine_of(name: str, task: Task) -> Compiled:
    touches = touches_judged(task, (), engine=name)
    success = compile_goal(task.goal, task.scene, compile_scene(task.scene, touches).index)[1]
    made = make_physics(
        name, task.scene, touches, LANES, "osc_pose", task.substeps, interval=8, fields=task.load_fields(0),
        success=success, tile=LANES,
    )  # fmt: skip
    assert isinstance(made, Compiled)
    return made


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("engine", ["jax", "warp"])
def test_one_control_step_from_200_states_of_an_expert_agrees_with_the_c_engine(engine: str, name: str):
    if engine == "warp" and missing_warp():
        pytest.skip(missing_warp())
    task = registry.load_task("tabletop", TASKS[name])
    steps = episodes(task)
    chosen = [steps[i] for i in np.linspace(0, len(steps) - 1, STATES).astype(int)]
    physics = engine_of(engine, task)
    states = task.load_init_states()
    ids = np.arange(LANES, dtype=np.int32)
    differences: dict[str, list[float]] = {}
    verdicts = 0
    for start in range(0, STATES, LANES):
        batch = chosen[start : start + LANES]
        for place, step in enumerate(batch):
            physics.load(place, states[step.lane], task.load_reset(0), task.load_fields(step.lane))
            for field, value in step.before.items():
                (physics._row if field in physics._row else physics._own)[field][place] = value
        assert physics.control_step(ids, np.stack([step.action for step in batch])) == {}
        got = {n: physics._row[n] for n in ("qpos", "qvel", "ctrl")} | vars(physics.signals)
        theirs = Signals(**{n: np.stack([step.after[n] for step in batch]) for n in vars(physics.signals)})
        verdicts += int((np.asarray(physics._success(physics.signals)) == np.asarray(physics._success(theirs))).sum())
        for place, step in enumerate(batch):
            for field, value in step.after.items():
                off = np.abs(got[field][place].astype(float) - value.astype(float)).max(initial=0.0)
                differences.setdefault(field, []).append(off)
    if name in GRASPING:
        assert np.mean([step.after["touch"].any() for step in chosen]) > 0.1, "the states are to be rich in contacts"
    summary = {n: (np.median(d), np.quantile(d, 0.9)) for n, d in differences.items()}
    shown = [f"{m:.0e}, {q:.0e}" for m, q in (summary[n] for n in ("qpos", "qvel", "ctrl", "entity_pos"))]
    same = np.mean(np.array(differences["touch"]) == 0)
    print(f"| {name} | {engine} | {' | '.join(shown)} | {same:.1%} | {verdicts} of {STATES} |")
    # Metres and radians, their speeds, Nm, pairs. A tenth of the states may lie at the edge of a contact.
    for field, median, nearly_all in (
        ("qpos", 1e-4, 1e-3),
        ("qvel", 1e-2, 1e-1),
        ("ctrl", 1e-3, 1e-1),
        ("eef_pos", 1e-5, 1e-4),
        ("entity_pos", 1e-4, 1e-3),
        ("entity_vel", 1e-2, 1e-1),
        ("joint_qpos", 1e-5, 1e-3),
        ("touch", 0.5, 0.5),
    ):
        assert summary[field][0] < median, field
        assert summary[field][1] < nearly_all, field
    assert verdicts >= 0.99 * STATES, "a verdict differs only at the edge of a threshold"
