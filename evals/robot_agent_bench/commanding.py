"""From calls to commands of the robot: hands led to poses, joints to positions, the base along a way.

Each is a pure function of checked arguments and what is observed, to control steps that are decided one by one. It ends when
it is there (`reached`), when the robot's own limits keep it from there (`limit`), when nothing moves any more (`stalled`),
when a hand is not there long after it should be (`timeout`), or after 600 steps (`truncated`). Nothing avoids obstacles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from evals.robot_agent_bench.geometry import Geometry, Pose, in_base
from evals.robot_agent_bench.robot import ROBOT
from evals.servo import check_length, rotation_to, rounded
from mjx_bench.control.bimanual import HIGH, JOINTS, LOW, OPEN, PERIOD, SPEED, STROKE, action
from mjx_bench.policy import Observation
from mjx_bench.tools import Motion
from policies.reference.limbs import ARMS, SIDES

STEPS = 600  # of a call, at most
NEAR, TURNED = 0.005, 0.05  # metres and radians: a pose that counts as reached
THERE = 0.01  # radians, or metres of the lift: a joint that does
DRIVEN, FACED = 0.01, 0.01  # metres and radians of the base
STILL, STALLED = 2e-4, 20  # what moves less than this in a step, for so many steps, is stalled
LATE = 100  # steps after the end of a hand's way at which it is given up
NEARER = 5e-3  # metres or radians: a base that comes no nearer than this in so many steps is, too
GAIN = 1.5  # 1/s, of the base's way
TORSO, HEAD, GRIPPERS, BASE = slice(14, 16), slice(16, 18), slice(18, 20), slice(20, 22)
_LOW, _HIGH = (np.array(limits[:18]) for limits in ROBOT.torque_limits)  # of arms, lift, waist and head

# What commands [22] to give next, of an observation and the steps done; or why there is no more to do.
Plan = Callable[[Observation, int], "np.ndarray | str"]
Goals = Mapping[str, tuple[np.ndarray, "np.ndarray | None"]]


class Commands:
    """Of one task's robot."""

    def __init__(self, geometry: Geometry) -> None:
        self._geometry = geometry

    def move_eef_to(self, a: Mapping[str, Any], obs: Observation) -> Motion:
        """A hand, in a straight line, to a pose in the frame of the base or of the world."""
        goal = (a["position"], a["quat_wxyz"])
        goal = in_base(goal, obs) if a["frame"] == "world" else goal
        return self._lead({a["arm"]: goal}, a["speed"], a["use_torso"], obs)

    def move_both_eef_to(self, a: Mapping[str, Any], obs: Observation) -> Motion:
        """Both hands at once, each in a straight line, so that they arrive together."""
        goals = {side: (a[f"{side}_position"], a[f"{side}_quat_wxyz"]) for side in SIDES}
        return self._lead(goals, a["speed"], False, obs)

    def move_joints(self, a: Mapping[str, Any], obs: Observation) -> Motion:
        """Joints of one arm or both, at most so fast."""
        wanted = told(obs)
        for side in SIDES:
            if a[side] is not None:
                wanted[ARMS[side]] = a[side]
        return self._settle(wanted, slice(0, 14), obs, a["speed"])

    def part(self, where: slice) -> Callable[[Mapping[str, Any], Observation], Motion]:
        """A tool that sets some joints, in the order of its arguments."""

        def use(a: Mapping[str, Any], obs: Observation) -> Motion:
            wanted = told(obs)
            wanted[where] = list(a.values())
            return self._settle(wanted, where, obs)

        return use

    def set_gripper(self, a: Mapping[str, Any], obs: Observation) -> Motion:
        """One hand's fingers."""
        wanted, index = told(obs), 18 + SIDES.index(a["arm"])
        wanted[index] = a["theta"]
        return self._settle(wanted, slice(index, index + 1), obs)

    def drive(self, a: Mapping[str, Any], obs: Observation) -> Motion:
        """Straight ahead or back, by the base's own odometry."""
        x, y, yaw = obs.joint_pos[0][-3:]
        way = np.array([math.cos(yaw), math.sin(yaw)])
        end = np.array([x, y]) + a["distance"] * way
        return self._roll(obs, lambda base: (float((end - base[:2]) @ way), 0.0), DRIVEN, "left_m")

    def turn(self, a: Mapping[str, Any], obs: Observation) -> Motion:
        """On the spot."""
        end = float(obs.joint_pos[0][-1]) + a["angle"]
        return self._roll(obs, lambda base: (0.0, end - float(base[2])), FACED, "left_rad")

    def drive_velocity(self, a: Mapping[str, Any], obs: Observation) -> Motion:
        """At these speeds for so long."""
        wanted = told(obs)
        wanted[BASE] = a["v"], a["w"]
        return self._hold(wanted, a["seconds"])

    def wait(self, a: Mapping[str, Any], obs: Observation) -> Motion:
        """All as it was told last, for so long."""
        return self._hold(told(obs), a["seconds"])

    def step(self, a: Mapping[str, Any], obs: Observation) -> Motion:
        """Actions as they are; those beyond the limit of a call are dropped."""
        rows = a["actions"]
        spent = "truncated" if len(rows) > STEPS else "executed"
        return Motion(min(len(rows), STEPS), lambda now, step: rows[step], spent)

    def _hold(self, wanted: np.ndarray, seconds: float) -> Motion:
        steps = max(1, round(seconds / PERIOD))
        return _motion(lambda now, step: wanted, min(steps, STEPS), "truncated" if steps > STEPS else "executed")

    def _lead(self, goals: Goals, speed: float, torso: bool, obs: Observation) -> Motion:
        """Leads hands to poses in the base's frame; without an orientation it stays as it is."""
        start = self._geometry.hands(obs.joint_pos[0][:18])
        ends: dict[str, Pose] = {side: (point, checked(quat, start[side][1])) for side, (point, quat) in goals.items()}
        length = max(float(np.linalg.norm(ends[side][0] - start[side][0])) for side in ends)
        last, still, miss = start, 0, 0.0
        held = told(obs)
        posture = held[:18].copy()

        def off(now: Observation) -> tuple[dict[str, Pose], float, float]:
            here = self._geometry.hands(now.joint_pos[0][:18])
            away = max(float(np.linalg.norm(ends[side][0] - here[side][0])) for side in ends)
            return here, away, max(float(np.linalg.norm(rotation_to(here[side][1], ends[side][1]))) for side in ends)

        def plan(now: Observation, step: int) -> np.ndarray | str:
            nonlocal posture, last, still, miss
            here, away, turned = off(now)
            if away < NEAR and turned < TURNED:
                return "reached"
            share = min(1.0, (step + 1) * speed * PERIOD / max(length, 1e-9))
            moved = max(float(np.linalg.norm(here[side][0] - last[side][0])) for side in ends)
            still = still + 1 if moved < STILL else 0
            last = here
            if share == 1.0 and still > STALLED:
                return "limit" if miss > NEAR else "stalled"
            miss = 0.0
            for side, (point, quat) in ends.items():
                between = start[side][0] + share * (point - start[side][0])
                posture, own = self._geometry.reach(side, posture, between, quat, torso)
                miss = max(miss, own)
            held[:18] = posture
            return held

        def residual(now: Observation) -> Mapping[str, Any]:
            _, away, turned = off(now)
            return {"left_m": round(away, 4), "left_rad": round(turned, 4)}

        steps = math.ceil(length / (speed * PERIOD)) + LATE
        return _motion(plan, min(steps, STEPS), "truncated" if steps > STEPS else "timeout", residual)

    def _settle(self, wanted: np.ndarray, where: slice, obs: Observation, speed: float = math.inf) -> Motion:
        """Brings the joints in `where` to `wanted` [22], the rest as it was told; at most at `speed`, radians a second."""
        before, still, now_told = np.full(20, np.inf), 0, told(obs)
        most = np.minimum(speed, SPEED[where]) * PERIOD
        beyond = bool(np.abs(np.clip(wanted[:18], _LOW, _HIGH) - wanted[:18]).max() > THERE)

        def plan(now: Observation, step: int) -> np.ndarray | str:
            nonlocal before, still
            here = measured(now)
            if np.abs(here[where] - wanted[where]).max() < THERE:
                return "reached"
            still = still + 1 if np.abs(here[where] - before[where]).max() < STILL else 0
            before = here
            if still > STALLED:
                return "limit" if beyond else "stalled"
            now_told[where] += np.clip(wanted[where] - now_told[where], -most, most)
            return now_told

        return _motion(plan, STEPS, "truncated", lambda now: {"left": rounded(wanted[where] - measured(now)[where])})

    def _roll(
        self, obs: Observation, left: Callable[[np.ndarray], tuple[float, float]], near: float, name: str
    ) -> Motion:
        """Drives by what is left of a way, metres and radians, until it is `near` to nothing."""
        wanted, best, still = told(obs), math.inf, 0

        def plan(now: Observation, step: int) -> np.ndarray | str:
            nonlocal best, still
            ahead, around = left(now.joint_pos[0][-3:])
            rest = abs(ahead) + abs(around)
            if rest < near:
                return "reached"
            # A base that pushes against something trembles: what counts is whether it comes nearer.
            best, still = (rest, 0) if rest < best - NEARER else (best, still + 1)
            wanted[BASE] = np.clip([GAIN * ahead, GAIN * around], LOW[BASE], HIGH[BASE])
            return "stalled" if still > STALLED else wanted

        return _motion(plan, STEPS, "truncated", lambda now: {name: round(sum(left(now.joint_pos[0][-3:])), 4)})


def _motion(plan: Plan, steps: int, spent: str, residual: Any = None) -> Motion:
    def act(now: Observation, step: int) -> np.ndarray | str:
        found = plan(now, step)
        return found if isinstance(found, str) else action(found)

    return Motion(steps, act, spent, residual)


def checked(quat: np.ndarray | None, now: np.ndarray) -> np.ndarray:
    """The orientation that was asked for, of length 1; `now` if none was. Raises `BadCall`."""
    if quat is None:
        return now
    check_length(quat)
    return quat / np.linalg.norm(quat)


def measured(obs: Observation) -> np.ndarray:
    """[20] joints as commands have them."""
    joints = obs.joint_pos[0][:JOINTS].copy()
    joints[GRIPPERS] *= OPEN / STROKE
    return joints


def told(obs: Observation) -> np.ndarray:
    """[22] commands that keep everything as it was told last, the base standing; as it is before the first step."""
    found = np.zeros(22)
    found[:JOINTS] = measured(obs)
    if obs.step[0]:
        found[:18] = obs.ctrl[0][:18]
        found[GRIPPERS] = obs.ctrl[0][GRIPPERS] * OPEN / STROKE
    return found
