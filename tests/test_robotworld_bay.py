"""The reverse bay: its bounds, how it must be entered, and who parks in it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evals import registry
from evals.robotworld import reverse_bay
from evals.robotworld.contract import contract
from mjx_bench.cases import evaluation
from mjx_bench.checkers import START, Judge
from mjx_bench.policy import Policy
from mjx_bench.predicates import goal_index
from mjx_bench.records import Record, load_run
from mjx_bench.rescore import rescore
from mjx_bench.schedule import run_pairs
from mjx_bench.settings import RunSettings
from mjx_bench.signals import SignalIndex, Signals
from mjx_bench.task import Task
from mjx_bench.types import Verdict
from policies.reference.oracle import Oracle
from policies.simple import Zero

TASK = registry.load_task("robotworld", 4)
SETTINGS = RunSettings(policy="p", lanes=8, query_interval=8, threads=1)


def run(out: Path, policy: Policy, task: Task = TASK, backend: str = "c") -> Record:
    settings = dataclasses.replace(SETTINGS, policy=policy.spec.name, backend=backend)
    run_pairs(evaluation([task], 1, 0), settings, out, load_task=lambda case: task, policy=policy)
    [record] = load_run(out).records
    assert rescore(out).agrees
    return record


def test_bounds_are_the_contracts():
    c = contract("59")
    assert (TASK.horizon, TASK.control_hz) == (c.horizon, c.interface.control_hz)
    assert [p.value for p in c.predicates] == [
        reverse_bay.BACKWARDS, reverse_bay.COVERED, True, reverse_bay.NEAR, pytest.approx(np.degrees(reverse_bay.ALIGNED)),
        reverse_bay.STOPPED,
    ]  # fmt: skip
    assert TASK.rules.hold == 50
    low, _ = TASK.scene.robot.torque_limits
    assert low[2:] == (-60.0,) * 4, "it has a reverse gear"


def test_the_expert_reverses_in_and_zero_does_not(tmp_path: Path):
    record = run(tmp_path / "oracle", Oracle())
    assert (record.verdict, record.reason) == ("success", "goal")
    assert record.end_step < TASK.horizon
    eef = np.asarray(load_run(tmp_path / "oracle").array(record, "eef_pos"))
    assert np.linalg.norm(eef[-50:, :2] - reverse_bay.GOAL_AT[:2], axis=1).max() <= reverse_bay.NEAR
    zero = run(tmp_path / "zero", Zero(), dataclasses.replace(TASK, horizon=150))
    assert (zero.verdict, zero.end_step) == ("timeout", 150)


def test_driving_in_forwards_fails_on_a_line(tmp_path: Path):
    """Nose first there is no room: the car turns in ahead of the mouth and cuts a corner of it."""
    way = np.array([(-2.4, 0.65), (-0.7, 0.65), (-0.3, 0.5), (0.0, 0.1), (0.0, -0.9)])
    nose_first = dataclasses.replace(TASK, extra={**TASK.extra, "legs": ((way, False),)})
    record = run(tmp_path / "run", Oracle(), nose_first)
    assert record.verdict == "failure"
    assert record.reason.startswith(("gap(car_frame, line_", "gap(car_hull, parked_"))


# ---- the way in, on made-up signals


def stands(y: list[float], forward: list[float], **more: Any) -> list[str]:
    """How an episode stands after each step, straight and in the middle of the bay but for its y, at a speed forward."""
    index: SignalIndex = goal_index(TASK.atoms, TASK.scene)
    judge = Judge(TASK.goal, TASK.rules, TASK.scene, index)
    n = len(y)
    s = Signals.zeros(n, index)
    # Everything where the scene has it; of the car, its two rectangles.
    import mujoco

    model = TASK.scene.load_spec().compile()
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    for name in index.regions:
        site = model.site(name).id
        s.region_pos[:, index.region(name)] = data.site_xpos[site]
        s.region_mat[:, index.region(name)] = data.site_xmat[site].reshape(3, 3)
    turned = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    for name in ("car_frame", "car_hull"):
        s.region_mat[:, index.region(name)] = turned
        s.region_pos[:, index.region(name)] = np.array([(0.0, v, 0.05) for v in y])
    s.entity_vel[:, index.mover("car"), 1] = forward
    standing, found = START, []
    for t in range(n):
        standing = judge.step(standing, s, t)
        end = judge.end(standing, at_horizon=False)
        found.append("running" if end is None else str(end[0]))
    return found


def way_in(speed: float, covered: float) -> tuple[list[float], list[float]]:
    """From before the line to the middle of the bay, `covered` metres of it at `speed` behind the line; then still."""
    steps = max(1, round(covered / (abs(speed) / 50)))
    y = [0.3, *np.linspace(-0.121, -0.65, steps).tolist()]
    return y + [-0.65] * 55, [speed] * len(y) + [0.0] * 55


@pytest.mark.parametrize(
    ("speed", "covered", "verdict"),
    [
        (-0.3, 0.46, Verdict.SUCCESS),
        (-0.3, 0.44, Verdict.TIMEOUT),  # not far enough
        (0.3, 0.46, Verdict.TIMEOUT),  # forwards
        (-0.019, 0.46, Verdict.TIMEOUT),  # too slow to be reversing
    ],
)
def test_only_a_car_that_reversed_over_the_line_counts(speed: float, covered: float, verdict: Verdict):
    found = stands(*way_in(speed, covered))
    assert ("success" in found) is (verdict is Verdict.SUCCESS)
    assert "failure" not in found


def test_crossing_forwards_is_not_made_good_by_reversing_inside():
    y, forward = way_in(-0.3, 0.46)
    assert "success" not in stands(y, [forward[0], 0.3, *forward[2:]])


def test_the_second_must_be_whole():
    y, forward = way_in(-0.3, 0.5)
    begun = len(y) - 55
    assert stands(y[: begun + 49], forward[: begun + 49])[-1] == "running"
    assert stands(y[: begun + 50], forward[: begun + 50])[-1] == "success"
    forward[begun + 20] = 0.036
    assert "success" not in stands(y, forward)


def test_a_line_a_wall_or_the_edge_is_a_failure():
    y, forward = way_in(-0.3, 0.5)
    assert stands([*y[:30], -0.83], [*forward[:30], -0.3])[-1] == "failure"  # the line at the end of the bay
    assert stands([0.3, 0.81], [0.0, 0.3])[-1] == "failure"  # out of the test area, or into what stands opposite


@pytest.mark.slow
def test_on_jax_it_parks_too(tmp_path: Path):
    assert run(tmp_path / "run", Oracle(), backend="jax").verdict == "success"
