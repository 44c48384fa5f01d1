"""The reverse bay: its bounds, how it must be entered, and who parks in it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from evals import registry
from evals.robotworld import reverse_bay
from evals.robotworld.contract import contract
from mjx_bench.predicates import goal_index
from mjx_bench.records import load_run
from mjx_bench.signals import Signals
from mjx_bench.types import Verdict
from policies.reference.oracle import Oracle
from policies.simple import Zero
from tests.robotworld_runs import engines_step_alike, judge_of, places, run, verdict, verdicts

TASK = registry.load_task("robotworld", 4)
Pose = tuple[float, float, float]


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
    [record] = run(tmp_path / "oracle", TASK, Oracle())
    assert (record.verdict, record.reason) == ("success", "goal")
    assert record.end_step < TASK.horizon
    eef = np.asarray(load_run(tmp_path / "oracle").array(record, "eef_pos"))
    assert np.linalg.norm(eef[-50:, :2] - reverse_bay.GOAL_AT[:2], axis=1).max() <= reverse_bay.NEAR
    [zero] = run(tmp_path / "zero", dataclasses.replace(TASK, horizon=150), Zero())
    assert (zero.verdict, zero.end_step) == ("timeout", 150)


def test_driving_in_forwards_fails_on_a_line(tmp_path: Path):
    """Nose first there is no room: the car turns in ahead of the mouth and cuts a corner of it."""
    way = np.array([(-2.4, 0.65), (-0.7, 0.65), (-0.3, 0.5), (0.0, 0.1), (0.0, -0.9)])
    nose_first = dataclasses.replace(TASK, extra={**TASK.extra, "legs": ((way, False),)})
    [record] = run(tmp_path / "run", nose_first, Oracle())
    assert record.verdict == "failure"
    assert record.reason.startswith(("gap(car_frame, line_", "gap(car_hull, parked_"))


# ---- the way in, on made-up signals

JUDGE, INDEX = judge_of(TASK), goal_index(TASK.atoms, TASK.scene)


def turned(yaw: float, roll: float = 0.0, pitch: float = 0.0) -> np.ndarray:
    """[3, 3] of a car that is turned to its left by yaw (degrees), and leans (radians)."""
    (cy, sy), (cp, sp), (cr, sr) = ((math.cos(a), math.sin(a)) for a in (math.radians(yaw), pitch, roll))
    nose = np.array([[cp, 0.0, sp], [0.0, 1.0, 0.0], [-sp, 0.0, cp]])
    side = np.array([[1.0, 0.0, 0.0], [0.0, cr, -sr], [0.0, sr, cr]])
    return np.array([[cy, -sy, 0.0], [sy, cy, 0.0], [0.0, 0.0, 1.0]]) @ nose @ side


def drives(poses: Sequence[tuple[float, float, float]], forward: Sequence[float] | float = 0.0) -> Signals:
    """Signals of a car at x, y and yaw (degrees) after each step, at a speed along the world's y axis."""
    s = Signals.zeros(len(poses), INDEX)
    s.region_pos[:], s.region_mat[:] = places(TASK.scene.load_spec, INDEX.regions)
    for name in ("car_frame", "car_hull"):
        s.region_pos[:, INDEX.region(name)] = [(x, y, 0.05) for x, y, _ in poses]
        s.region_mat[:, INDEX.region(name)] = [turned(yaw) for _, _, yaw in poses]
    s.entity_vel[:, INDEX.mover("car"), 1] = forward
    return s


def straight(y: Sequence[float]) -> list[tuple[float, float, float]]:
    """In the middle of the bay but for its y, nose outwards."""
    return [(0.0, v, 90.0) for v in y]


def way_in(speed: float, covered: float, rest: int = 55) -> tuple[list[float], list[float]]:
    """From before the line to the middle of the bay, `covered` metres of it at `speed` behind the line; then still."""
    steps = max(1, round(covered / (abs(speed) / 50)))
    y = [0.3, *np.linspace(-0.121, -0.65, steps).tolist()]
    return y + [-0.65] * rest, [speed] * len(y) + [0.0] * rest


def parks(y: Sequence[float], forward: Sequence[float]) -> bool:
    """Whether the drive is a success at its last step or before; it never fails."""
    found = verdict(JUDGE, drives(straight(y), forward))
    assert found[0] is not Verdict.FAILURE, found
    return found[0] is Verdict.SUCCESS


@pytest.mark.parametrize(
    ("speed", "covered", "counts"),
    [
        (-0.3, 0.46, True),
        (-0.3, 0.44, False),  # not far enough
        (0.3, 0.46, False),  # forwards
        (-0.019, 0.46, False),  # too slow to be reversing
    ],
)
def test_only_a_car_that_reversed_over_the_line_counts(speed: float, covered: float, counts: bool):
    assert parks(*way_in(speed, covered)) is counts


def test_crossing_forwards_is_not_made_good_by_reversing_inside():
    y, forward = way_in(-0.3, 0.46)
    assert not parks(y, [forward[0], 0.3, *forward[2:]])


def test_the_second_must_be_whole():
    assert not parks(*way_in(-0.3, 0.5, rest=49))
    assert parks(*way_in(-0.3, 0.5, rest=50))
    y, forward = way_in(-0.3, 0.5, rest=99)
    forward[-50] = 0.036
    assert not parks(y, forward), "a step that is too fast starts it again"
    forward[-50] = 0.035
    assert parks(y, forward)


@pytest.mark.parametrize(
    ("aside", "degrees", "counts"), [(0.0249, 0.0, True), (0.0251, 0.0, False), (0.0, 2.99, True), (0.0, 3.01, False)]
)
def test_it_stands_straight_and_in_the_middle(aside: float, degrees: float, counts: bool):
    y, forward = way_in(-0.3, 0.5)
    s = drives([(aside, v, 90.0 + degrees) for v in y], forward)
    assert (verdict(JUDGE, s)[0] is Verdict.SUCCESS) is counts


@pytest.mark.parametrize(
    ("good", "bad", "reason"),
    [
        ((0.0, -0.8174, 90.0), (0.0, -0.8176, 90.0), "gap(car_frame, line_end) < 0"),
        ((-0.0474, -0.65, 90.0), (-0.0476, -0.65, 90.0), "gap(car_frame, line_left) < 0"),
        ((0.0474, -0.65, 90.0), (0.0476, -0.65, 90.0), "gap(car_frame, line_right) < 0"),
        ((-2.0, 0.0726, 0.0), (-2.0, 0.0724, 0.0), "gap(car_frame, line_before) < 0"),
        ((2.0, 0.0726, 0.0), (2.0, 0.0724, 0.0), "gap(car_frame, line_behind) < 0"),
        ((-1.2, 0.0901, 0.0), (-1.2, 0.0899, 0.0), "gap(car_hull, parked_0) < 0"),
        ((-0.7, 0.9199, 0.0), (-0.7, 0.9301, 0.0), "gap(car_hull, opposite_1) < 0"),
        ((-2.4999, 0.65, 0.0), (-2.5001, 0.65, 0.0), "beyond(car_frame, area) > 0"),
    ],
)
def test_lines_obstacles_and_the_edge_have_their_bounds(good: Pose, bad: Pose, reason: str):
    here = (-2.0, 0.65, 0.0)
    assert verdict(JUDGE, drives([here, good])) == (Verdict.TIMEOUT, "horizon")
    assert verdict(JUDGE, drives([here, bad, here])) == (Verdict.FAILURE, reason)


@pytest.mark.parametrize(
    ("lean", "height", "reason"),
    [
        ({"roll": 0.701}, 0.05, "roll(car_frame) > 0.7"),
        ({"roll": -0.701}, 0.05, "roll(car_frame) > 0.7"),
        ({"pitch": 0.701}, 0.05, "pitch(car_frame) > 0.7"),
        ({"roll": 0.699}, -0.099, ""),
        ({"pitch": -0.699}, -0.099, ""),
        ({}, -0.101, "height(car_frame) < -0.1"),
    ],
)
def test_a_car_stays_on_its_wheels(lean: dict[str, float], height: float, reason: str):
    s = drives([(-2.0, 0.65, 0.0)])
    s.region_mat[:, INDEX.region("car_frame")] = turned(0.0, **lean)
    s.region_pos[:, INDEX.region("car_frame"), 2] = height
    assert verdict(JUDGE, s) == ((Verdict.FAILURE, reason) if reason else (Verdict.TIMEOUT, "horizon"))


def test_a_line_in_the_last_step_of_the_second_is_a_failure():
    """Success and failure after one step: the failure counts."""
    y, forward = way_in(-0.3, 0.5, rest=50)
    s = drives(straight(y), forward)
    s.region_pos[-1, INDEX.region("line_left"), 0] = 0.0
    assert verdict(JUDGE, s) == (Verdict.FAILURE, "gap(car_frame, line_left) < 0")


@pytest.mark.slow
def test_engines_drive_alike():
    """Thirty control steps with changing speed and steering, C against JAX."""
    engines_step_alike(TASK, lambda rng: rng.uniform([0.0, -0.5], [0.4, 0.5], (4, 2)), bound=1e-3)


@pytest.mark.slow
def test_on_jax_it_parks_too(tmp_path: Path):
    assert verdicts(tmp_path / "run", TASK, Oracle(), backend="jax") == {"success": 1}
