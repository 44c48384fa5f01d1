"""The program of an arm on a driving base (`policies.mobile`) behind RoboQuest's tools: a waypoint is a call of `arm`.

A straight way across the axes becomes short calls, since the tool's servo is clipped along each axis and would leave the
line; a drive becomes calls of `base`, and another look at where it has led.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from mjx_bench.policy import Observation
from mjx_bench.task import Task
from policies.mobile.moves import Arm, Drive, Move
from policies.mobile.program import Memory, Program
from policies.mobile.view import Library, MobileView
from policies.scripted.motion import Waypoint

Call = tuple[str, dict[str, Any]]

# Metres and radians a tick that the arm gets to along an axis, of the 0.015 and 0.12 that its tool asks for: the controller
# takes its time.
ARM_STEP, ARM_TURN = 0.0055, 0.05
SETTLE = 12  # ticks for the last bit of a way
SEGMENT, SEGMENT_TICKS = 0.018, 5  # of a straight way: nothing of it is clipped
DEEPER = 0.03  # metres below a button's place: the servo pushes by what is left of its way
TICK, SPEED, TURN = 0.05, 0.4, 0.4  # seconds; m/s and rad/s of the base
THERE, TURNED = 0.012, 0.015  # metres and radians of the base from where it should be
BRAKE = 4  # ticks
DRIVES = 6  # looks at a drive before it is given up


@dataclasses.dataclass(frozen=True)
class Way:
    """Memory of an episode.

    Attributes:
      program: the program's memory.
      driving: a drive that has not arrived, and how often it was looked at.
    """

    program: Memory
    driving: Drive | None = None
    looks: int = 0


class Moving:
    """Turns one move after another into calls."""

    def __init__(self) -> None:
        self._library = Library()

    def start(self, task: Task) -> Way:
        """The memory of a new episode."""
        return Way(_program(task).start(task))

    def calls(self, way: Way, obs: Observation) -> tuple[Way, list[Call]]:
        """The next calls, at least one, all of which are made before the next look."""
        view = MobileView(self._library, obs, 0)
        if way.driving is not None and way.looks < DRIVES and (legs := _legs(way.driving, view)):
            return dataclasses.replace(way, looks=way.looks + 1), legs
        memory, move, _ = _program(view.task).next(way.program, view)
        driving = move if isinstance(move, Drive) else None
        calls = _of(move, view) or [("wait", {"ticks": 1})]
        return Way(memory, driving, 1), calls


def _program(task: Task) -> Program:
    program: Program = task.extra["program"]
    return program


def _of(move: Move, view: MobileView) -> list[Call]:
    if isinstance(move, Arm):
        calls, at, rot = [], view.eef, view.hand_rot
        for waypoint in move.plan:
            calls += _arm(waypoint, at, rot)
            at, rot = waypoint.pos, waypoint.rot
        return calls
    grip = [("wait", {"gripper": float(move.grip), "ticks": 1})] if move.grip else []
    return [*grip, *_legs(move, view)]


def _arm(waypoint: Waypoint, at: np.ndarray, rot: np.ndarray) -> list[Call]:
    """Calls that lead the hand from a pose to a waypoint."""
    given = {"quaternion_xyzw": quat_xyzw(waypoint.rot).tolist(), "gripper": float(waypoint.grip)}
    goal = waypoint.pos
    if waypoint.label == "press" and waypoint.line is not None:
        goal = goal + DEEPER * waypoint.line
    way = goal - at
    if waypoint.line is not None and np.count_nonzero(np.abs(way) > SEGMENT) > 1:
        n = max(1, math.ceil(float(np.linalg.norm(way)) / SEGMENT))
        stops = [at + way * k / n for k in range(1, n + 1)]
        ticks = [SEGMENT_TICKS] * (n - 1) + [SEGMENT_TICKS + SETTLE + waypoint.dwell]
    else:
        turn = math.acos(float(np.clip((np.trace(rot.T @ waypoint.rot) - 1.0) / 2.0, -1.0, 1.0)))
        steps = max(float(np.abs(way).max()) / ARM_STEP, turn / ARM_TURN)
        stops, ticks = [goal], [min(200, math.ceil(steps) + SETTLE + waypoint.dwell)]
    return [("arm", {"position_world_m": p.tolist(), **given, "ticks": t}) for p, t in zip(stops, ticks, strict=True)]


def _legs(drive: Drive, view: MobileView) -> list[Call]:
    """Calls that lead the base to a drive's end, from where it is seen now; none where it is there."""
    calls: list[Call] = []
    x, y, yaw = (float(v) for v in view.base)
    for goal in (*(drive.via if _away(view.base, drive.goal) > THERE else ()), drive.goal):
        dx, dy = goal[0] - x, goal[1] - y
        away = math.hypot(dx, dy)
        if away > THERE:
            forward, left = math.cos(yaw) * dx + math.sin(yaw) * dy, math.cos(yaw) * dy - math.sin(yaw) * dx
            calls += _drive((forward, left, 0.0), away / SPEED)
            x, y = goal[0], goal[1]
        turn = (goal[2] - yaw + math.pi) % (2.0 * math.pi) - math.pi
        if abs(turn) > TURNED:
            calls += _drive((0.0, 0.0, turn), abs(turn) / TURN)
            yaw = goal[2]
    return [*calls, ("base", {"velocity_body": [0.0, 0.0, 0.0], "ticks": BRAKE})] if calls else []


def _away(base: np.ndarray, goal: tuple[float, float, float]) -> float:
    return math.hypot(goal[0] - base[0], goal[1] - base[1])


def _drive(way: tuple[float, float, float], seconds: float) -> list[Call]:
    """Calls for a way in the base's frame, metres and radians, in about so many seconds."""
    ticks = max(1, math.ceil(seconds / TICK))
    velocity = [v / (ticks * TICK) for v in way]
    parts = [min(200, ticks - k) for k in range(0, ticks, 200)]
    return [("base", {"velocity_body": velocity, "ticks": part}) for part in parts]


def quat_xyzw(rot: np.ndarray) -> np.ndarray:
    """[4] xyzw of a rotation [3, 3]: the eigenvector of the largest eigenvalue of Bar-Itzhack's matrix."""
    (a, b, c), (d, e, f), (g, h, i) = rot
    k = np.array(
        [
            [a - e - i, b + d, c + g, h - f],
            [b + d, e - a - i, f + h, c - g],
            [c + g, f + h, i - a - e, d - b],
            [h - f, c - g, d - b, a + e + i],
        ]
    )
    found: np.ndarray = np.linalg.eigh(k / 3.0)[1][:, -1]
    return found / np.linalg.norm(found)
