"""Moves: what a program asks for, one after another. A move is data; what has become of it so far is its state.

All poses are of the world. `Arm` leads the hand through waypoints while the base stands; `Drive` leads the base through
poses while the arm rides on it. Both look again at every query, and plan a chunk of actions with a model of what moves.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from policies.mobile.state import BASE, ROTATION, TRANSLATION
from policies.mobile.view import Library, MobileView
from policies.scripted.motion import CLOSED, HALT, OPEN, Cursor, LinearPlant, Motion, Track, Waypoint, track

if TYPE_CHECKING:
    import mujoco

# [3] of the world, metres.
Point = np.ndarray | Sequence[float]

ACTION_DIM, TICK = 12, 0.05
ARM_MODE, BASE_MODE = -1.0, 1.0
FULL_STROKE = 20  # ticks from open to closed
TIP = 0.009  # of the finger tips below the grip site, metres

_CRUISE, _TURN = 0.9 * BASE, BASE  # m/s, rad/s
_BRAKE = (0.5, 0.8)  # m/s^2, rad/s^2
_RISE = 0.06  # m/s a tick, by which the speed rises
_THERE = (0.006, 0.012)  # metres, radians
_PASSED = 0.06  # metres from a pose on the way that counts as reached
_BLOCKED = 60  # ticks in a row without a move of the base that is told to


@dataclasses.dataclass(frozen=True)
class DriveState:
    """Memory of a `Drive`: the pose that is next; the base's velocity in the world; ticks stood still; where and when."""

    index: int = 0
    velocity: tuple[float, float, float] = (0.0, 0.0, 0.0)
    stuck: int = 0
    at: tuple[float, float] = (math.inf, math.inf)
    step: int = 0


@dataclasses.dataclass(frozen=True)
class Drive:
    """Takes the base to a pose.

    Attributes:
      goal: x, y (metres) and yaw (radians) of the base's frame.
      via: poses on the way, passed without stopping.
      grip: gripper action meanwhile: `OPEN`, `HALT` or `CLOSED`.
      speed: limit, m/s.
    """

    goal: tuple[float, float, float]
    via: tuple[tuple[float, float, float], ...] = ()
    grip: float = HALT
    speed: float = _CRUISE

    def start(self, view: MobileView) -> DriveState:
        """The state before the first action."""
        return DriveState(step=view.step)

    def look(self, state: DriveState, view: MobileView) -> tuple[DriveState, bool]:
        """The state now that time has passed, and whether the move has ended: it is there, or cannot go on."""
        moved = math.hypot(view.base[0] - state.at[0], view.base[1] - state.at[1])
        stuck = 0 if moved > 0.004 or not math.isfinite(moved) else state.stuck + view.step - state.step
        state = dataclasses.replace(state, stuck=stuck, at=(view.base[0], view.base[1]), step=view.step)
        away, turn = _left(view.base, self.goal)
        there = state.index == len(self.via) and away < _THERE[0] and abs(turn) < _THERE[1]
        return state, there or stuck > _BLOCKED

    def act(self, state: DriveState, view: MobileView, library: Library, n: int) -> tuple[np.ndarray, DriveState]:
        """Actions [n, 12], and the state after them if all goes as planned."""
        actions = np.zeros((n, ACTION_DIM), np.float32)
        actions[:, 6], actions[:, 11] = self.grip, BASE_MODE
        pose, index, velocity = view.base.copy(), state.index, np.array(state.velocity)
        for k in range(n):
            goal = self.goal if index == len(self.via) else self.via[index]
            while index < len(self.via) and _left(pose, goal)[0] < _PASSED:
                index += 1
                goal = self.goal if index == len(self.via) else self.via[index]
            velocity = self._towards(pose, goal, velocity, last=index == len(self.via))
            c, s = math.cos(pose[2]), math.sin(pose[2])
            actions[k, 7:10] = c * velocity[0] + s * velocity[1], c * velocity[1] - s * velocity[0], velocity[2]
            pose = pose + TICK * velocity
        return actions, dataclasses.replace(state, index=index, velocity=(velocity[0], velocity[1], velocity[2]))

    def _towards(
        self, pose: np.ndarray, goal: tuple[float, float, float], before: np.ndarray, *, last: bool
    ) -> np.ndarray:
        way = np.array(goal[:2]) - pose[:2]
        away, turn = _left(pose, goal)
        most = self.speed
        if last:
            # No faster than brakes can stop, nor past the goal within a tick.
            most = min(most, math.sqrt(2.0 * _BRAKE[0] * away), 0.5 * away / TICK)
        wanted = way * (most / max(away, 1e-9))
        change = wanted - before[:2]
        length = float(np.hypot(*change))
        straight = before[:2] + change * min(1.0, _RISE / max(length, 1e-9))
        if last and away < 0.02:
            straight = wanted
        spin = math.copysign(min(_TURN, math.sqrt(2.0 * _BRAKE[1] * abs(turn)), 0.5 * abs(turn) / TICK), turn)
        return np.array([straight[0], straight[1], spin])


def _left(pose: np.ndarray, goal: tuple[float, float, float]) -> tuple[float, float]:
    """Metres and radians from a pose to another."""
    turn = (goal[2] - pose[2] + math.pi) % (2.0 * math.pi) - math.pi
    return math.hypot(goal[0] - pose[0], goal[1] - pose[1]), turn


class _Limited(LinearPlant):
    """An arm that is told no more than the benchmark allows its agents; what is beyond is taken off the action itself."""

    def step(self, action: np.ndarray) -> None:
        """See `policies.scripted.motion.Plant`."""
        for part, most in ((action[:3], TRANSLATION), (action[3:6], ROTATION)):
            part *= min(1.0, most / max(float(np.abs(part).max()), 1e-9))
        super().step(action)


@dataclasses.dataclass(frozen=True)
class ArmState:
    """Memory of an `Arm`: what the last chunk expected, and the tick at which it was planned."""

    track: Track | None = None
    step: int = 0


@dataclasses.dataclass(frozen=True)
class Arm:
    """Leads the hand through waypoints of the world (`policies.scripted.motion.Waypoint`), the base standing."""

    plan: tuple[Waypoint, ...]

    def start(self, view: MobileView) -> ArmState:
        """The state before the first action."""
        return ArmState(step=view.step)

    def look(self, state: ArmState, view: MobileView) -> tuple[ArmState, bool]:
        """The state, and whether all waypoints are behind, or have been given up."""
        return state, self._cursor(state, view).index >= len(self.plan)

    def act(self, state: ArmState, view: MobileView, library: Library, n: int) -> tuple[np.ndarray, ArmState]:
        """Actions [n, 12], and the state after them if all goes as planned."""
        import mujoco

        arm = library.arm(view.task)
        data: mujoco.MjData = mujoco.MjData(arm.model)
        arm.place(data, view)  # type: ignore[arg-type]  # reads what both views have
        twist = arm.jacobian(data) @ view.joint_vel
        turn = view.base_rot.T
        pos, rot = view.in_base(view.eef), turn @ view.hand_rot
        held, drift = rot, np.zeros(3)
        if state.track is not None:
            done = min(view.step - state.step, len(state.track.motions) - 1)
            held = state.track.motions[done].held
            drift = (pos - state.track.positions[done]) / (max(1, done) * TICK)
        plant = _Limited(pos, rot, Motion(twist[:3], twist[3:], held), arm.response(data))
        plan = [
            dataclasses.replace(
                w, pos=view.in_base(w.pos), rot=turn @ w.rot, line=None if w.line is None else turn @ w.line
            )
            for w in self.plan
        ]
        chunk = track(plant, plan, self._cursor(state, view), n, drift)
        actions = np.zeros((n, ACTION_DIM), np.float32)
        actions[:, :7], actions[:, 11] = chunk.actions, ARM_MODE
        return actions, ArmState(chunk, view.step)

    def _cursor(self, state: ArmState, view: MobileView) -> Cursor:
        if state.track is None:
            return Cursor()
        return state.track.cursors[min(view.step - state.step, len(state.track.cursors) - 1)]


Move = Drive | Arm
State = Any


def down(yaw: float) -> np.ndarray:
    """[3, 3] of a hand that points down and whose fingers close along the horizontal direction `yaw` of the world."""
    c, s = math.cos(yaw), math.sin(yaw)
    return np.array([[-s, c, 0.0], [c, s, 0.0], [0.0, 0.0, -1.0]])


def easiest(yaw: float, view: MobileView, period: float = math.pi) -> float:
    """Of the turns that differ by multiples of `period`, the one nearest to the wrist's at the start."""
    rest = view.base[2] - math.pi / 2
    return rest + (yaw - rest + period / 2) % period - period / 2


def then(*moves: Arm) -> Arm:
    """Moves of the arm as one."""
    return Arm(tuple(w for move in moves for w in move.plan))


def wait(view: MobileView, ticks: int, grip: float = HALT) -> Arm:
    """Stays where the hand is."""
    return Arm((Waypoint("wait", view.eef, view.hand_rot, grip, 1.0, ticks, 0.05, 1),))


def press(at: Point, rot: np.ndarray, *, above: float = 0.08, depth: float = 0.012) -> Arm:
    """Closes the hand above a button's top, and pushes it straight down with the tips.

    Args:
      at: [3] where the tips are to touch.
      rot: [3, 3] of the hand.
      above, depth: metres above and below it where the way begins and ends.
    """
    over, under = np.array(at, float) + _up(above + TIP), np.array(at, float) + _up(TIP - depth)
    return Arm(
        (
            Waypoint("over", over, rot, CLOSED, 0.012, FULL_STROKE // 2, 0.25, 160),
            Waypoint("press", under, rot, CLOSED, 0.003, 4, 0.08, 60, line=np.array([0.0, 0.0, -1.0])),
            Waypoint("leave", over, rot, CLOSED, 0.02, 0, 0.2, 60),
        )
    )


def grasp(pos: Point, rot: np.ndarray, *, above: float = 0.10, squeeze: int = FULL_STROKE) -> Arm:
    """Opens above, comes straight down on what stands at `pos`, and closes; the grip site ends at `pos` [3]."""
    at = np.array(pos, float)
    over = at + _up(above)
    return Arm(
        (
            Waypoint("over", over, rot, OPEN, 0.015, 0, 0.25, 160),
            Waypoint("open", over, rot, OPEN, 0.03, FULL_STROKE // 4, 0.1, 30),
            Waypoint("reach", at, rot, OPEN, 0.004, 0, 0.15, 70, funnel=True),
            Waypoint("close", at, rot, CLOSED, 0.05, squeeze, 0.1, 4),
        )
    )


def place(pos: Point, rot: np.ndarray, *, above: float = 0.08, rise: float = 0.12) -> Arm:
    """Over `pos` [3], straight down to it, open, and up."""
    at = np.array(pos, float)
    over = at + _up(above)
    return Arm(
        (
            Waypoint("carry", over, rot, CLOSED, 0.012, 0, 0.2, 160),
            Waypoint("lower", at, rot, CLOSED, 0.005, 4, 0.08, 60),
            *release(at, rot, rise=rise).plan,
        )
    )


def release(at: Point, rot: np.ndarray, *, rise: float = 0.12) -> Arm:
    """Opens where the hand is, and leaves straight upwards."""
    here = np.array(at, float)
    return Arm(
        (
            Waypoint("release", here, rot, OPEN, 0.05, FULL_STROKE, 0.05, 4),
            Waypoint("leave", here + _up(rise), rot, OPEN, 0.02, 0, 0.2, 60),
        )
    )


def _up(height: float) -> np.ndarray:
    return np.array([0.0, 0.0, height])
