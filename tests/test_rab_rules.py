"""The sheet's figures that RobotAgentBench's tasks run by: time limits, the hand's time line, and the light's intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from evals import registry
from evals.robot_agent_bench.contract import contract
from evals.robot_agent_bench.disturbances import case_of
from tests.agent_plays import named

SUITE = "robot_agent_bench"
RELOCATED, LIGHTING = (named(SUITE, f"shelf_pickup_{name}") for name in ("relocated", "lighting"))
# Time limits, seconds (the sheet's section 9 and its table).
SECONDS = {
    "drink_selection": 120,
    "snack_selection": 120,
    "waste_selection": 120,
    "sofa_object_selection": 120,
    "shelf_pickup_relocated": 180,
    "shelf_pickup_lighting": 180,
    "shelf_pickup_missed": 120,
    "discover_tidy_room": 600,
}


@pytest.mark.parametrize("name", SECONDS)
def test_time_limits_are_the_contracts(name: str):
    task = named(SUITE, name)
    assert contract(name).horizon_s == SECONDS[name]
    assert (task.horizon, task.control_hz) == (20 * SECONDS[name], 20)


def test_no_task_that_runs_is_left_out():
    assert {row["name"]: row["horizon"] for row in registry.task_table(SUITE)} == {
        n: 20 * s for n, s in SECONDS.items()
    }


def track(found: Any, name: str) -> list[tuple[int, np.ndarray]]:
    """Control steps from the event, and places [3] from where the target stood."""
    [points] = [t["points"] for t in found["tracks"] if t["object"] == name]
    return [(point["step"], np.array(point["offset_m"])) for point in points]


def test_a_hand_enters_dwells_carries_releases_and_leaves_in_its_time():
    """0.6, 0.2, 1.2, 0.2 and 0.6 s, 20 steps a second; it lifts the target by 5 mm, and moves it by 0.12 to 0.25 m."""
    moved, around = [], 0
    for row in range(120):
        found = case_of(RELOCATED, "target_carried", row, 0, 8)["scenario"]["change"]
        hand, target = track(found, "visitor_hand"), track(found, "target")
        blocked = len(target) > 4
        around += blocked
        carried = [18, 24, 32, 40] if blocked else [18, 40]
        assert [step for step, _ in hand] == [0, 12, 16, *carried, 44, 56, 57]
        assert [step for step, _ in target] == [16, *carried, 44]
        assert found["grasp_step"] == 16
        there = target[-1][1][:2]
        moved.append(float(np.linalg.norm(there)))
        assert [p[2] for _, p in target] == [0.0, *(0.005,) * len(carried), 0.0005]
        # Away by 0.6 m on the side to which the target goes; at it for the whole dwell; with it; away as far again.
        places = dict(hand)
        way = there / moved[-1]
        assert places[0] == pytest.approx([*(0.6 * way), 0.0])
        assert not places[12].any()
        assert not places[16].any()
        assert places[44] == pytest.approx([*there, 0.0])
        assert places[56] == pytest.approx([*((0.6 + moved[-1]) * way), 0.0])
    assert 0 < around < 120
    assert 0.12 <= min(moved) < 0.125
    assert 0.245 < max(moved) <= 0.25


def test_light_stays_for_two_to_three_seconds_each_of_bright_and_dim():
    """From the first query at or after 1 s on, by turns a quarter of it and all of it."""
    steps = []
    for row in range(120):
        found = case_of(LIGHTING, "illumination_alternation", row, 0, 5)["scenario"]
        assert found["trigger"] == {"type": "fixed_step", "value": 20}
        phases = found["change"]["phases"]
        assert [phase["scale"] for phase in phases] == [0.25, 1.0]
        steps.append([phase["steps"] for phase in phases])
    assert (np.min(steps), np.max(steps)) == (40, 60), "one in 40 of the 240 is rounded to either end"
    assert len({tuple(pair) for pair in steps}) > 100, "both are drawn anew"
