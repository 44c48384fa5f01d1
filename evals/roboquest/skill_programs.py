"""What the oracle does in the skill tests. It sees where the object lies, and knows the kitchen and the ways through it."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from evals.roboquest.kitchen import START_GAP, TOP_Z, Footprint
from mjx_bench.task import Task
from policies.mobile import moves
from policies.mobile.moves import Drive, Move
from policies.mobile.view import MobileView

FACING = math.pi / 2  # of a base before the counter
_BELOW_TOP = 0.028  # of the grip site below an object's top: the palm keeps off it
_PUT = 0.004  # metres above what it is put on, where an object is let go
_SQUARE = math.pi / 2  # turns by which a grasp of a square is the same
_HELD = 0.03  # metres between fingers that hold something, at least
_ABOVE, _LIFT = 0.10, 0.12


@dataclasses.dataclass(frozen=True)
class Step:
    """Memory of both programs.

    Attributes:
      last: what was told last.
      half: half the height of the object, metres, as it stood.
    """

    last: str = ""
    half: float = 0.0


def _pick(view: MobileView, name: str) -> tuple[Step, Move, str]:
    """Down on an upright object, near its top, along one of its sides; and up."""
    at = view.pos(name)
    half = float(at[2]) - TOP_Z
    rot = moves.down(moves.easiest(view.yaw(name), view, _SQUARE))
    site = np.array([at[0], at[1], TOP_Z + 2.0 * half - _BELOW_TOP])
    up = moves.Waypoint("lift", site + np.array([0.0, 0.0, _LIFT]), rot, moves.CLOSED, 0.012, 4, 0.15, 80)
    move = moves.then(moves.grasp(site, rot, above=_ABOVE), moves.Arm((up,)))
    return Step("pick", half), move, f"pick up the {name}"


def _holds(view: MobileView, name: str, half: float) -> bool:
    return view.opening > _HELD and float(view.pos(name)[2]) > TOP_Z + half + 0.03


@dataclasses.dataclass(frozen=True)
class PickPlace:
    """Picks an object and puts it on a mark.

    Attributes:
      name, target: entities.
    """

    name: str
    target: str

    def start(self, task: Task) -> Step:
        """The memory of a new episode."""
        return Step()

    def next(self, memory: Step, view: MobileView) -> tuple[Step, Move, str]:
        """See `policies.mobile.program.Program`."""
        at, mark = view.pos(self.name), view.pos(self.target)
        if memory.last == "pick" and _holds(view, self.name, memory.half):
            grip = view.eef - at
            site = np.array([mark[0], mark[1], TOP_Z + memory.half + _PUT]) + grip
            move = moves.place(site, view.hand_rot)
            return Step("place", memory.half), move, f"place the {self.name} in the square"
        if memory.last in ("place", "done") and math.hypot(*(at - mark)[:2]) < 0.03:
            return Step("done"), moves.wait(view, 20, moves.OPEN), "wait"
        return _pick(view, self.name)


@dataclasses.dataclass(frozen=True)
class DrivePick:
    """Drives to the counter and picks an object.

    Attributes:
      name: of the object.
      way: entities that mark the way to the counter; it ends before the object.
      footprint: of the task.
    """

    name: str
    way: tuple[str, ...]
    footprint: Footprint

    def start(self, task: Task) -> Step:
        """The memory of a new episode."""
        return Step()

    def next(self, memory: Step, view: MobileView) -> tuple[Step, Move, str]:
        """See `policies.mobile.program.Program`."""
        at = view.pos(self.name)
        if memory.last == "":
            marks = [view.pos(mark) for mark in self.way]
            before = (float(at[0]), float(marks[-1][1]), FACING)
            via = tuple((float(m[0]), float(m[1]), FACING) for m in marks)
            return Step("drive"), Drive(before, via, moves.OPEN), f"drive to the counter where the {self.name} is"
        if memory.last == "drive":
            there = (float(at[0]), self.footprint.front - START_GAP, FACING)
            return Step("approach"), Drive(there, grip=moves.OPEN), "come up to the counter"
        if memory.last == "pick" and _holds(view, self.name, memory.half):
            return memory, moves.wait(view, 20, moves.CLOSED), "hold it"
        return _pick(view, self.name)
