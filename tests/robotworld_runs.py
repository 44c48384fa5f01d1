"""Runs of RobotWorld's tasks for tests, and verdicts on episodes that are made up."""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np

from mjx_bench.cases import evaluation
from mjx_bench.checkers import START, Judge, Standing, stack, unstack
from mjx_bench.physics.base import Physics
from mjx_bench.physics.choice import make_physics
from mjx_bench.policy import Policy
from mjx_bench.predicates import goal_index
from mjx_bench.records import Record, load_run
from mjx_bench.rescore import rescore
from mjx_bench.schedule import run_pairs
from mjx_bench.settings import RunSettings
from mjx_bench.signals import Signals
from mjx_bench.task import Task
from mjx_bench.types import Verdict

SETTINGS = RunSettings(policy="p", lanes=8, query_interval=8, threads=1)
HERE = np.zeros(1, np.int32)  # the first lane


def run(out: Path, task: Task, policy: Policy, instances: int = 1, backend: str = "c") -> list[Record]:
    """Records of the first instances. Judged again from what they hold, they come out the same."""
    settings = dataclasses.replace(SETTINGS, policy=policy.spec.name, backend=backend)
    run_pairs(evaluation([task], instances, 0), settings, out, load_task=lambda case: task, policy=policy)
    assert rescore(out).agrees
    return load_run(out).records


def verdicts(out: Path, task: Task, policy: Policy, instances: int = 1, backend: str = "c") -> collections.Counter[str]:
    """Verdict to how many of the first instances had it."""
    return collections.Counter(record.verdict for record in run(out, task, policy, instances, backend))


def engine(task: Task, lanes: int = 1, backend: str = "c", **more: int) -> Physics:
    """An engine whose lanes are the first instances; `more` is for `make_physics`."""
    touches, mode = goal_index(task.atoms, task.scene).touches, task.action_modes[0]
    fields = task.fields_of(0)
    physics = make_physics(backend, task.scene, touches, lanes, mode, task.substeps, fields=fields, **more)
    for lane in range(lanes):
        physics.load(lane, task.load_init_states()[lane], task.load_reset(0), task.fields_of(lane))
    return physics


def engines_step_alike(task: Task, draw: Callable[[np.random.Generator], np.ndarray], bound: float) -> None:
    """Thirty control steps from the first 4 instances, C against JAX: joints within a bound, and the same touches.

    Args:
      task: what is stepped.
      draw: actions [4, A] for five steps.
      bound: of each number of qpos: metres, radians, or of a quaternion.
    """
    ours, theirs = engine(task, 4), engine(task, 4, "jax", tile=4)
    ids, rng = np.arange(4, dtype=np.int32), np.random.default_rng(0)
    start = ours.kinematics(ids).qpos.copy()
    for step in range(30):
        if step % 5 == 0:
            actions = draw(rng)
        assert ours.control_step(ids, actions) == {}
        assert theirs.control_step(ids, actions) == {}
        assert np.array_equal(theirs.signals.touch, ours.signals.touch)
    mine, other = (physics.kinematics(ids).qpos for physics in (ours, theirs))
    np.testing.assert_allclose(other, mine, rtol=0.0, atol=bound)
    assert (abs(mine - start).max(axis=1) > 100 * bound).all(), "every lane has moved by far more"


def judge_of(task: Task) -> Judge:
    """The rules of a task, for signals in the columns of its atoms."""
    return Judge(task.goal, task.rules, task.scene, goal_index(task.atoms, task.scene))


def walk(judge: Judge, signals: Signals) -> list[Standing]:
    """How an episode stands after each of its steps, whose signals these are."""
    standing, out = START, []
    for t in range(len(signals.eef_pos)):
        (standing,) = unstack(judge.update(stack([standing]), signals.take(slice(t, t + 1))))
        out.append(standing)
    return out


def verdict(judge: Judge, signals: Signals) -> tuple[Verdict, str]:
    """How an episode of these steps ends, at the last of them at the latest, and why."""
    found = judge.end(walk(judge, signals)[-1], at_horizon=True)
    assert found is not None
    return found


@functools.lru_cache(8)
def places(load_spec: Callable[[], mujoco.MjSpec], regions: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """[R, 3] and [R, 3, 3]: where a scene has its regions."""
    model = load_spec().compile()
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    sites = [model.site(name).id for name in regions]
    return data.site_xpos[sites].copy(), data.site_xmat[sites].reshape(-1, 3, 3).copy()
