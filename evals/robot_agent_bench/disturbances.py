"""The benchmark's disturbances as events of pairs: the same instance undisturbed (Base) and disturbed (Dynamic).

A hand comes from the side to which it will move the target, takes it, sets it down elsewhere on the same board and leaves;
and light that alternates between its level and a quarter of it. Distances, directions and intervals are the instance's own.
Where another product stands in the way, the target is carried behind it: the hand meets nothing, and what it carries would.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from evals.robot_agent_bench.instances import Drawn
from mjx_bench.cases import stable_seed
from mjx_bench.task import Task

SAMPLER = "mjx-bench-rab-1"
ENTER_S, DWELL_S, CARRY_S, RELEASE_S, LEAVE_S = 0.6, 0.2, 1.2, 0.2, 0.6
# Metres: where the hand comes from, how high it carries, and how far into the shelf where something is in the way.
AWAY, RAISED, BEHIND = 0.60, 0.005, 0.11
TRIGGER_M, LIGHT_STARTS_S, DIM = 0.25, 1.0, 0.25
_LABELS = {"target_carried": ("GEO", "replan"), "illumination_alternation": ("OBS", "continue")}


def case_of(task: Task, event: str, row: int, policy_seed: int, interval: int) -> dict[str, Any]:
    """The case of one instance, JSON; see `evals.libero_max.eligibility.CaseOf`.

    Args:
      task: one of the shelf pickups.
      event: its own.
      row: which instance.
      policy_seed: of the case; interval: Q of the protocol.
    """
    drawn: Drawn = task.extra["instances"].drawn(row)
    facts, hz = drawn.facts, task.control_hz
    seed = stable_seed(SAMPLER, task.suite, task.index, row, event)
    trigger: dict[str, Any]
    change: dict[str, Any]
    if event == "target_carried":
        trigger = {"type": "before_grasp", "value": "target", "distance_m": TRIGGER_M}
        change = {"operation": "move_along", **_carried(drawn, hz)}
    else:
        # Steps at which an event may come are those of queries.
        trigger = {"type": "fixed_step", "value": -(-round(LIGHT_STARTS_S * hz) // interval) * interval}
        dim, bright = facts["intervals"]
        phases = [{"steps": dim, "scale": DIM}, {"steps": bright, "scale": 1.0}]
        change = {"operation": "vary_lighting", "phases": phases, "repeat": True}
    scenario_id = f"{task.suite}-t{task.index:02d}-i{row}-{event}"
    family, response = _LABELS[event]
    return {
        "case_id": f"{scenario_id}-p{policy_seed}",
        "task_suite_name": task.suite,
        "task_index": task.index,
        "task_name": task.name,
        "init_state_index": row,
        "policy_seed": policy_seed,
        "timing_bucket": "middle",
        "scenario": {
            "scenario_id": scenario_id,
            "base_task_id": f"{task.suite}/task_{task.index}",
            "seed": seed,
            "change_family": family,
            "change_type": event,
            "severity": "high",
            "trigger": trigger,
            "change": change,
            "randomization": {"sampler": SAMPLER, "draw_id": 0, "seed": seed},
            "expected_response_mode": response,
            "safety_constraints": ["no_simulator_error"],
        },
    }


def _carried(drawn: Drawn, hz: int) -> dict[str, Any]:
    """The tracks of the hand and of the target, in control steps from the event."""
    facts = drawn.facts
    dx, dy, _ = facts["moved_m"]
    length = math.hypot(dx, dy)
    away = [AWAY * dx / length, AWAY * dy / length, 0.0]
    times = [0.0]
    for seconds in (ENTER_S, DWELL_S, CARRY_S, RELEASE_S, LEAVE_S):
        times.append(times[-1] + seconds)
    enter, grasp, carry, set_down, release, leave = (round(hz * t) for t in times)
    lifted, there = np.array([0.0, 0.0, RAISED]), np.array([dx, dy, RAISED])
    way: list[tuple[int, Any]] = [(carry + 2, lifted), (set_down, there)]
    if _blocked(drawn):
        yaw = drawn.home.plan.poses["shelf"][2]
        back = np.array([-BEHIND * math.sin(yaw), BEHIND * math.cos(yaw), 0.0])
        third = (set_down - carry) // 3
        way[1:1] = [(carry + third, lifted + back), (set_down - third, there + back)]
    hand = [
        (enter, away), (grasp, [0, 0, 0]), (carry, [0, 0, 0]), *way, (release, [dx, dy, 0.0]),
        (leave, [dx + away[0], dy + away[1], 0.0]), (leave + 1, facts["hand_waits_m"]),
    ]  # fmt: skip
    target = [(carry, [0, 0, 0]), *way, (release, [dx, dy, 0.0005])]
    tracks = [("visitor_hand", hand), ("target", target)]
    return {
        "tracks": [
            {
                "object": name,
                "relative_to": "target",
                "points": [{"step": step, "offset_m": [float(v) for v in offset]} for step, offset in points],
            }
            for name, points in tracks
        ],
        "grasp_step": carry,
    }


def _blocked(drawn: Drawn) -> bool:
    """Whether another product on the target's board stands between it and where it is moved."""
    way = np.array(drawn.facts["moved_m"][:2])
    length = float(np.linalg.norm(way))
    target, *others = (np.array(p.pose[:3]) - [0, 0, p.thing.half[2]] for p in drawn.home.things if p.pose is not None)
    off = np.array([other - target for other in others])
    return bool(((abs(off[:, 2]) < 0.1) & (off[:, :2] @ way > 0.0) & (off[:, :2] @ way < length**2)).any())
