"""Drives a robot with two arms to where it works, and touches or lifts a thing there with one hand.

It works in stages: face the place and drive up to it with the hand before the thing, go on in a straight line until that is
touched or between the pads, close them, lift it and hold still; and back, and again, where that was in vain. Which thing is
meant comes from `Task.extra["reads"]`, which reads what the robot is told in an instance as a person would, and knows what
stands where.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mjx_bench.policy import Carry, Observation, PolicySpec
from mjx_bench.task import Task
from policies.reference.limbs import ARMS, JOINTS, LIFT, SIDES, Library, Limbs

HORIZON = 16
PERIOD = 0.05
SPEED = 0.10  # m/s of the hand in a straight line
BEFORE, BEYOND = 0.20, 0.06  # metres before the aim at which it starts, and beyond it where it gives up
CLOSE_S, LIFT_S, RISE = 0.8, 1.2, 0.07
AWAY_S, STUCK_S, SEARCH_S = 2.0, 6.0, 5.0
LOST, NEAR, CLOSE, MISS, MOVES = 0.10, 0.25, 0.06, 0.004, 0.004
# How far ahead of the base's middle a thing is when it is taken, how the hand comes (from the front or from above), and
# whether the base carries it there.
WAYS = {"ahead": (0.86, (1.0, 0.0, 0.0), True), "down": (0.76, (0.42, 0.0, -0.907), False)}
# Where to begin, for a left arm, when it is not near enough.
_STARTS = (
    (1.97, -0.38, -1.60, -1.42, 1.08, -0.44, -1.02),
    (0.869, -1.008, -1.198, -1.387, 1.858, 0.949, 0.587),
    (1.42, -1.09, -0.68, -1.07, 1.72, 0.33, 1.23),
    (2.75, -1.30, -2.58, -1.43, 1.02, -0.49, 0.14),
)
# Of a hand that does not work: grasp point in the frame of the base (its y to the side of that hand), and direction.
_TUCKED = ((0.36, 0.34, 0.88), (0.35, 0.0, -0.937))


@dataclasses.dataclass(frozen=True)
class Working:
    """Memory of one episode.

    Attributes:
      stage: drive, advance, close, lift, hold or away; `since` which step.
      side: the hand that works.
      posture: [18] that the last chunk ended with.
      role: the thing that is wanted.
      begun: [18] posture that the lift began with.
      seen: [3] where the thing was at the last query.
    """

    stage: str = "drive"
    since: int = 0
    side: str = ""
    posture: tuple[float, ...] = ()
    role: str = ""
    begun: tuple[float, ...] = ()
    seen: tuple[float, ...] = ()


class Bimanual:
    """Plans a chunk at each query, from what is seen then."""

    def __init__(self) -> None:
        self.spec = PolicySpec("reference.bimanual", HORIZON, "bimanual")
        self._library = Library()

    def init(self, task: Task, seed: int) -> Working:
        """The carry of a new episode."""
        return Working()

    def act(self, carries: Sequence[Carry], obs: Observation, seeds: np.ndarray) -> tuple[np.ndarray, Sequence[Carry]]:
        """One query; see `mjx_bench.policy.Policy.act`."""
        actions, out = np.zeros((len(carries), HORIZON, 22), np.float32), []
        with self._library.lock:
            limbs = self._library.limbs(obs.task)
            for lane, carry in enumerate(carries):
                chunk, carry = _Turn(limbs, obs, lane, carry).plan()
                actions[lane] = _normalised(chunk, obs.task.extra["ranges"])
                out.append(carry)
        return actions, out


class _Turn:
    """One query of one lane."""

    def __init__(self, limbs: Limbs, obs: Observation, lane: int, carry: Working) -> None:
        extra: Mapping[str, Any] = obs.task.extra
        self.limbs, self.obs, self.lane, self.carry = limbs, obs, lane, carry
        limbs.data.qpos[:] = obs.qpos[lane]
        self.step = int(obs.step[lane])
        self.joints, self.base = obs.joint_pos[lane][:JOINTS], obs.joint_pos[lane][-3:]
        self.home = np.asarray(extra["ranges"][1])[:JOINTS]
        self.lifts = bool(extra.get("lifts"))
        names = list(obs.task.scene.entities)
        instance = None if obs.instance is None else int(obs.instance[lane])
        wanted = extra["reads"](instance)
        roles = (wanted,) if isinstance(wanted, str) else tuple(wanted)
        if not carry.role:
            self.carry = carry = dataclasses.replace(carry, role=roles[0])
        # What comes after it: the same again, where there is one only.
        self.then = roles[(roles.index(carry.role) + 1) % len(roles)]
        self.half = np.asarray(extra["sizes"](instance)[carry.role])
        self.thing = obs.entity_pos[lane, names.index(carry.role)]
        work = extra["work"]
        piece = names.index(work if isinstance(work, str) else work(instance, carry.role))
        w, _, _, z = obs.entity_quat[lane, piece]
        self.facing = 2.0 * math.atan2(z, w) + math.pi / 2
        self.reach_ahead, way, self.rolls = WAYS[extra["reach"]]
        self.forward = np.array([math.cos(self.facing), math.sin(self.facing), 0.0])
        self.across = np.array([-self.forward[1], self.forward[0], 0.0])
        self.way = way[0] * self.forward + np.array([0.0, 0.0, way[2]])
        down = extra["reach"] == "down"
        self.aim = self.thing + np.array([0.0, 0.0, self.half[2] - 0.012 if down else 0.0])
        self.level = None if down else self.across
        self.held = np.asarray(carry.posture) if carry.posture else self.joints.copy()
        # Somebody else has it in hand.
        self.moves = bool(carry.seen) and float(np.linalg.norm(self.thing - np.array(carry.seen))) > MOVES
        self.carry = dataclasses.replace(carry, seen=tuple(self.thing.tolist()))

    def plan(self) -> tuple[np.ndarray, Working]:
        """Commands [H, 22] and the carry."""
        if not self.carry.side:
            side = "left" if self.across @ (self.thing - np.array([*self.base[:2], 0.0])) > 0.0 else "right"
            posture = self._tuck(self.held, "right" if side == "left" else "left")
            self.limbs.place(self.joints, self.base)
            near = bool(np.linalg.norm(self.limbs.hand(side)[0] - self.thing) < NEAR)
            self.carry = dataclasses.replace(
                self.carry, side=side, posture=tuple(posture), stage="away" if near else "drive"
            )
            self.held = posture
        return getattr(self, f"_{self.carry.stage}")()

    def _tuck(self, start: np.ndarray, side: str) -> np.ndarray:
        """`start` with one arm out of the way."""
        point, way = _TUCKED
        base = np.zeros(3)
        sign = 1.0 if side == "left" else -1.0
        begin = self.home.copy()
        posture, _ = self.limbs.reach(
            side, begin, base, np.array([point[0], sign * point[1], point[2]]), np.array(way), None, self.home, False
        )
        out = start.copy()
        out[ARMS[side]] = posture[ARMS[side]]
        return out

    def _next(self, stage: str) -> tuple[np.ndarray, Working]:
        self.carry = dataclasses.replace(self.carry, stage=stage, since=self.step, posture=tuple(self.held))
        return self.plan()

    def _commands(self, posture: np.ndarray, velocity: tuple[float, float] = (0.0, 0.0)) -> tuple[np.ndarray, Working]:
        """A chunk that goes to `posture` in a straight line, with the base at a steady speed."""
        share = np.linspace(1.0 / HORIZON, 1.0, HORIZON)[:, None]
        grip = self._grip()
        other = np.zeros(2)
        grips = np.where(np.array(SIDES) == self.carry.side, grip, other)
        joints = self.held + share * (posture - self.held)
        rest = np.tile([*grips, *velocity], (HORIZON, 1))
        return np.concatenate([joints, rest], axis=1), dataclasses.replace(self.carry, posture=tuple(posture))

    def _grip(self) -> float:
        opened = self.lifts and self.carry.stage in ("drive", "advance", "away")
        return math.pi / 4 if opened else 0.0

    def _reach_to(self, base: np.ndarray, along: float) -> np.ndarray:
        """The posture with the hand `along` metres beyond the aim, for a base [3]."""
        side, point = self.carry.side, self.aim + along * self.way
        posture, miss = self.limbs.reach(side, self.held, base, point, self.way, self.level, self.held)
        if miss < MISS or self.step - self.carry.since > SEARCH_S / PERIOD:
            return posture
        found = [(miss, tuple(posture))]
        for arm in _STARTS:
            start = self.held.copy()
            start[ARMS[side]] = np.array(arm) if side == "left" else -np.array(arm)
            start[LIFT] = np.clip(self.aim[2] - 0.85, 0.0, 0.5)
            posture, miss = self.limbs.reach(side, start, base, point, self.way, self.level, start)
            found.append((miss, tuple(posture)))
            if miss < MISS:
                break
        return np.array(min(found)[1])

    @property
    def _there(self) -> tuple[np.ndarray, float]:
        """[3] where the base is to be when the hand is at the thing, and metres that are left to there."""
        left = float(self.forward[:2] @ (self.thing[:2] - self.base[:2])) - self.reach_ahead
        return np.array([*(self.base[:2] + left * self.forward[:2]), self.facing]), left

    def _drive(self) -> tuple[np.ndarray, Working]:
        turn = math.remainder(self.facing - self.base[2], 2.0 * math.pi)
        there, left = self._there
        if self.moves:
            return self._commands(self.held)
        left -= BEFORE * self.rolls
        # Too near to lift the hand into its place: first back, with the arm as it is.
        posture = self.held if left < -CLOSE else self._reach_to(there, -BEFORE * (not self.rolls))
        arrived = abs(turn) < 0.01 and abs(left) < 0.015
        if arrived and abs(self.joints - posture)[ARMS[self.carry.side]].max() < 0.08:
            self.held = posture
            return self._next("advance")
        speed = float(np.clip(1.2 * left, -0.18, 0.18)) if abs(turn) < 0.12 and abs(left) > 0.008 else 0.0
        return self._commands(posture, (speed, float(np.clip(1.5 * turn, -0.25, 0.25))))

    def _advance(self) -> tuple[np.ndarray, Working]:
        """The last piece: the base rolls with the arm as it is, or the hand goes on with the base as it is."""
        end = 0.0 if self.lifts else BEYOND
        there, left = self._there
        if self.moves or self.step - self.carry.since > STUCK_S / PERIOD:
            return self._next("away")
        if self.rolls:
            if left < -end + 0.004:
                return self._next("close" if self.lifts else "away")
            turn = math.remainder(self.facing - self.base[2], 2.0 * math.pi)
            speed = float(np.clip(0.8 * (left + end), 0.02, SPEED))
            return self._commands(self._reach_to(there, 0.0), (speed, float(np.clip(1.5 * turn, -0.05, 0.05))))
        gone = (self.step - self.carry.since) * PERIOD * SPEED - BEFORE
        if gone > end:
            return self._next("close" if self.lifts else "away")
        return self._commands(self._reach_to(self.base, min(gone + HORIZON * PERIOD * SPEED, end)))

    def _close(self) -> tuple[np.ndarray, Working]:
        if self.step - self.carry.since >= CLOSE_S / PERIOD:
            self.carry = dataclasses.replace(self.carry, begun=tuple(self.held))
            return self._next("lift")
        return self._commands(self.held)

    def _lift(self) -> tuple[np.ndarray, Working]:
        if self.step - self.carry.since >= LIFT_S / PERIOD:
            return self._next("hold")
        posture = np.array(self.carry.begun)
        posture[LIFT] = min(posture[LIFT] + RISE, 0.55)
        return self._commands(posture)

    def _hold(self) -> tuple[np.ndarray, Working]:
        point, _, _ = self._hand()
        if np.linalg.norm(point - self.thing) > LOST:
            return self._next("away")
        return self._commands(self.held)

    def _away(self) -> tuple[np.ndarray, Working]:
        """Back from where nothing was gained, and again."""
        if self.step - self.carry.since >= AWAY_S / PERIOD:
            # Perhaps the other hand is nearer now.
            self.carry = dataclasses.replace(self.carry, side="", role=self.then, seen=())
            return self._again()
        if self.rolls:
            return self._commands(self.held, (-0.15, 0.0))
        posture = self.held.copy()
        posture[LIFT] = min(posture[LIFT] + 0.1, 0.55)
        return self._commands(posture)

    def _again(self) -> tuple[np.ndarray, Working]:
        """The next thing, from what is seen of it."""
        turn = _Turn(self.limbs, self.obs, self.lane, self.carry)
        turn.held = self.held
        return turn._next("drive")

    def _hand(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of the hand that works, as it is now."""
        self.limbs.place(self.joints, self.base)
        return self.limbs.hand(self.carry.side)


def _normalised(commands: np.ndarray, ranges: tuple[np.ndarray, np.ndarray, np.ndarray]) -> np.ndarray:
    """Actions for commands [H, 22], with the lowest, the middle and the highest of each."""
    low, middle, high = ranges
    off = np.clip(commands, low, high) - middle
    down, up = middle - low, high - middle
    return np.where(off < 0.0, off / np.where(down > 0.0, down, 1.0), off / np.where(up > 0.0, up, 1.0))
