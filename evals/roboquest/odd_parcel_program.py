"""How the oracle finds the odd parcels: it looks along the counter, uncovers, and weighs each parcel against the first.

It knows no mass: it reads the beam. Parcels that read alike weigh alike, and as fewer than half are odd, those of the
largest group are usual. A parcel counts once it has been in front of the robot and under no cover.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable

import numpy as np

from evals.roboquest.kitchen import START_GAP, TOP_Z, Footprint
from evals.roboquest.odd_parcel_parts import (
    ARM,
    BALANCE,
    BEAM_JOINT,
    BOX,
    BOX_FLOOR,
    BOX_HIGH,
    CLOCHE,
    CLOCHE_HEIGHT,
    CLOCHE_RADIUS,
    CLOCHE_WALL,
    HALF,
    INSIDE,
    KNOB_CAP,
    KNOB_STEM,
    PAN,
    PARCELS,
    PIVOT,
)
from evals.roboquest.reaching import FACING, RAISED, pick, press_submit, raised, stand_at
from evals.roboquest.rectangles import Rect, apart
from mjx_bench.task import Task
from policies.mobile import moves
from policies.mobile.moves import Arm, Drive, Move, Waypoint
from policies.mobile.view import MobileView

CAP_TOP = 0.0405  # of SUBMIT above the work top, its weight on the spring
TOUR = (-0.5, 0.5)  # x of the base where it looks about
SIGHT = 0.75  # metres to a side, from the base, within which things are seen
BELOW_TOP = 0.010  # of the grip site below a parcel's top
SETTLE = 40  # ticks until the beam is read
ALIKE = 0.035  # radians between readings that are the same
AT_STOP = math.radians(11.5)  # of the beam, from which on it may rest at its stop: 0.20 kg reads 10.9 degrees
PAN_OUT, FRONT = (
    0.07,
    0.26,
)  # metres: outwards from a pan's middle, where parcels go; before it, where the hand comes from
_ROOM = 0.022  # metres around what is put down
_KNOB = CLOCHE_HEIGHT + CLOCHE_WALL + KNOB_STEM[1] + KNOB_CAP[1]  # height of the knob's top
_HELD = (0.055, 0.0785)  # metres between fingers that hold a parcel
_PUT = 0.004


@dataclasses.dataclass(frozen=True)
class Weighed:
    """What the oracle remembers.

    Attributes:
      toured: how many of `TOUR` are behind.
      seen: parcels that it knows of, in the order in which it saw them.
      first: the one on the left pan.
      readings: beam's angle with a parcel on the right, radians, by name.
      waited: whether the beam had its time.
      goal: where what is picked is meant to go: "left", "right", "away", "box" or "cover".
      aside: whether the cover is put aside.
    """

    toured: int = 0
    seen: tuple[str, ...] = ()
    first: str = ""
    readings: tuple[tuple[str, float], ...] = ()
    waited: bool = False
    goal: str = ""
    aside: bool = False


class OddParcel:
    """The program; see `policies.mobile.program.Program`."""

    def __init__(self, footprint: Footprint) -> None:
        self._footprint = footprint

    def start(self, task: Task) -> Weighed:
        """The memory of a new episode."""
        return Weighed()

    def next(self, memory: Weighed, view: MobileView) -> tuple[Weighed, Move, str]:
        """The next move, and stage and subtask in words."""
        m = dataclasses.replace(memory, seen=_seen(memory, view))
        if m.toured < len(TOUR):
            there = (TOUR[m.toured], self._footprint.front - START_GAP, FACING)
            side = "left" if TOUR[m.toured] < 0 else "right"
            return (
                dataclasses.replace(m, toured=m.toured + 1),
                Drive(there),
                f"look around: look along the counter, {side}",
            )
        if m.goal == "cover" and _lifted(view):
            return self._put_cover(m, view)
        held = next((name for name in m.seen if _held(view, name)), None)
        if held is not None:
            return self._put(m, view, held)
        if _covers(view) and not m.aside:
            return self._take_cover(m, view)
        return self._weigh(m, view)

    def _weigh(self, m: Weighed, view: MobileView) -> tuple[Weighed, Move, str]:
        """The hand is empty: what to do next."""
        on_right = next((name for name in m.seen if _on(view, name, "right")), None)
        if on_right is not None and on_right not in dict(m.readings):
            if not m.waited:
                return (
                    dataclasses.replace(m, waited=True),
                    moves.wait(view, SETTLE, moves.OPEN),
                    "weigh the parcels: read the balance",
                )
            m = dataclasses.replace(m, readings=(*m.readings, (on_right, view.joints[BEAM_JOINT])), waited=False)
        if on_right is not None:
            odd = on_right in odd_ones(m.seen, m.first, dict(m.readings))
            return self._pick(m, view, on_right, "box" if odd else "away")
        left = [name for name in m.seen if name != m.first and name not in dict(m.readings)]
        if m.first == "" or (left and not _on(view, m.first, "left")):
            first = m.first or _nearest(view, m.seen, m.seen, view.pos("left_pan"))
            return self._pick(dataclasses.replace(m, first=first), view, first, "left")
        if left:
            return self._pick(m, view, _nearest(view, left, m.seen, view.pos("right_pan")), "right")
        odd_left = [n for n in odd_ones(m.seen, m.first, dict(m.readings)) if not _in_box(view, n)]
        if odd_left:
            return self._pick(m, view, _nearest(view, odd_left, m.seen, view.pos(BOX)), "box")
        return m, press_submit(view, self._footprint, CAP_TOP), "finish: press the red button"

    def _pick(self, m: Weighed, view: MobileView, name: str, goal: str) -> tuple[Weighed, Move, str]:
        """Takes a parcel from where it lies."""
        m, at = dataclasses.replace(m, goal=goal), view.pos(name)
        pan = next((pan for pan in ("left", "right") if _on(view, name, pan)), None)
        said = f"{_STAGES[goal]}: pick up {_named(view, name, pan)}"
        if (move := self._near(view, at)) is not None:
            return m, move, said
        rot = moves.down(moves.easiest(view.yaw(name), view))
        site = at + np.array([0.0, 0.0, HALF[2] - BELOW_TOP])
        if pan is None:
            return m, pick(site, rot, 0.16, above=0.09), said
        front = [self._before(view, site, rot, moves.OPEN)]
        back = self._before(view, site, rot, moves.CLOSED)
        return m, Arm((*front, *pick(site, rot, 0.10, above=0.08).plan, back)), said

    def _put(self, m: Weighed, view: MobileView, name: str) -> tuple[Weighed, Move, str]:
        """Takes what is in the hand where it is meant to go."""
        said = f"{_STAGES[m.goal]}: {_PUTS[m.goal]}"
        if _below_beam(view):  # where it met something on its way out
            down = view.eef - np.array([0.0, 0.0, 0.06])
            lower = Waypoint("down", down, view.hand_rot, moves.CLOSED, 0.015, 0, 0.15, 40)
            return m, Arm((lower, self._before(view, down, view.hand_rot, moves.CLOSED))), said
        if m.goal in ("left", "right"):
            yaw = view.yaw(BALANCE)
            out = PAN_OUT * (1.0 if m.goal == "right" else -1.0)
            spot = view.pos(f"{m.goal}_pan") + np.array([out * math.cos(yaw), out * math.sin(yaw), 0.0])
            turn, height = yaw + math.pi / 2, float(spot[2])
        elif m.goal == "box":
            inside = [other for other in m.seen if _in_box(view, other)]
            top = max((float(view.pos(other)[2]) + HALF[2] for other in inside), default=TOP_Z + BOX_FLOOR)
            spot, turn = view.pos(BOX), 0.0
            # The open fingers are wider than the box: they stay above its walls.
            height = max(top + 0.006, TOP_Z + BOX_FLOOR + BOX_HIGH + 0.022 - 2 * HALF[2])
        else:
            (x, y), turn = self._free(m, view, name, HALF[:2])
            spot, height = np.array([x, y, TOP_Z]), TOP_Z
        if (drive := stand_at(view, self._footprint, spot, grip=moves.CLOSED)) is not None:
            return m, raised(view) or drive, said
        rot = moves.down(moves.easiest(turn, view))
        site = np.array([spot[0], spot[1], height + 2 * HALF[2] - BELOW_TOP + _PUT])
        move = moves.place(site, rot, above=0.08)
        if m.goal in ("left", "right"):
            ways = (self._before(view, site, rot, g) for g in (moves.CLOSED, moves.OPEN))
            first, last = ways
            move = Arm((first, *move.plan, last))
        return m, move, said

    def _take_cover(self, m: Weighed, view: MobileView) -> tuple[Weighed, Move, str]:
        m, at, said = dataclasses.replace(m, goal="cover"), view.pos(CLOCHE), "look around: lift the cover by its knob"
        if (move := self._near(view, at)) is not None:
            return m, move, said
        site = at + np.array([0.0, 0.0, _KNOB - 0.014])
        return m, pick(site, moves.down(moves.easiest(0.0, view)), 0.16, above=0.09), said

    def _put_cover(self, m: Weighed, view: MobileView) -> tuple[Weighed, Move, str]:
        said = "look around: put the cover aside"
        (x, y), _ = self._free(m, view, CLOCHE, (CLOCHE_RADIUS, CLOCHE_RADIUS))
        if (drive := stand_at(view, self._footprint, (x, y), grip=moves.CLOSED)) is not None:
            return m, drive, said
        site = np.array([x, y, TOP_Z + 0.003]) + (view.eef - view.pos(CLOCHE)) * np.array([0.0, 0.0, 1.0])
        return dataclasses.replace(m, aside=True), moves.place(site, view.hand_rot), said

    def _near(self, view: MobileView, spot: np.ndarray) -> Move | None:
        """What comes before reaching for something: the hand up, the base before it."""
        drive = stand_at(view, self._footprint, spot)
        return drive if drive is None else raised(view) or drive

    def _before(self, view: MobileView, site: np.ndarray, rot: np.ndarray, grip: float) -> Waypoint:
        """A place before a pan, beside the beam's end and not below it."""
        at = np.array([site[0], site[1] - FRONT, max(float(site[2]) + 0.10, RAISED - 0.06)])
        return Waypoint("before", at, rot, grip, 0.02, 0, 0.25, 120)

    def _free(
        self, m: Weighed, view: MobileView, name: str, half: tuple[float, float]
    ) -> tuple[tuple[float, float], float]:
        """A free place and a turn for what is in the hand: near the right pan, clear of everything."""
        taken: list[Rect] = [
            (_xy(view, BALANCE), (0.18 + PAN[0], PAN[1]), view.yaw(BALANCE)),
            (_xy(view, BOX), (INSIDE[0] + 0.02, INSIDE[1] + 0.02), 0.0),
            (_xy(view, "submit"), (0.055, 0.05), 0.0),
        ]
        for other in m.seen:
            if other != name and view.pos(other)[2] < TOP_Z + 0.12 and not _in_box(view, other):
                taken.append((_xy(view, other), HALF[:2], view.yaw(other)))
        if name != CLOCHE and abs(_xy(view, CLOCHE)[0]) < 2.0:
            taken.append((_xy(view, CLOCHE), (CLOCHE_RADIUS, CLOCHE_RADIUS), 0.0))
        pan, best = _xy(view, "right_pan"), None
        for x in np.arange(-0.53, 0.32, 0.025):
            for y in np.arange(-0.23, 0.015, 0.025):
                for turn in (0.0, math.pi / 2):
                    spot = (float(x), float(y))
                    far = math.dist(spot, pan)
                    if (best is None or far < best[0]) and all(apart((spot, half, turn), t) >= _ROOM for t in taken):
                        best = (far, spot, turn)
        if best is None:  # on the annex at the right, where there is always room
            return (0.70, -0.10), 0.0
        return best[1], best[2]


_STAGES = {
    "left": "weigh the parcels",
    "right": "weigh the parcels",
    "away": "weigh the parcels",
    "box": "box the odd parcels",
    "cover": "look around",
}
_PUTS = {
    "left": "put it on the left pan",
    "right": "put it on the right pan",
    "away": "put it back on the counter",
    "box": "put it in the box",
    "cover": "put the cover aside",
}


def odd_ones(seen: Iterable[str], first: str, readings: dict[str, float]) -> list[str]:
    """Those that are odd for sure: of another weight than a group of more than half of all, or than the largest of all."""
    seen = list(seen)
    weights = {**readings, first: 0.0}
    alike = {a: [b for b in weights if a == b or _alike(weights[a], weights[b])] for a in weights}
    usual = max(alike.values(), key=len, default=[])
    if 2 * len(usual) <= len(seen) and len(weights) < len(seen):
        return []
    return [name for name in seen if name in weights and name not in usual]


def _alike(a: float, b: float) -> bool:
    """Whether two readings, radians, are the same; what rests at a stop is like nothing: it may weigh any more."""
    return abs(a - b) < ALIKE and max(abs(a), abs(b)) < AT_STOP


def _seen(m: Weighed, view: MobileView) -> tuple[str, ...]:
    """With those that have come into view, from left to right."""
    new = []
    for name in PARCELS:
        at = view.pos(name)
        hidden = _covers(view) and math.dist(_xy(view, CLOCHE), at[:2]) < 0.05
        if name not in m.seen and not hidden and abs(at[0] - view.base[0]) < SIGHT and at[2] > TOP_Z - 0.05:
            new.append(name)
    return (*m.seen, *sorted(new, key=lambda name: tuple(view.pos(name))))


def _covers(view: MobileView) -> bool:
    """Whether the cloche is there, and stands on the counter."""
    at = view.pos(CLOCHE)
    return abs(float(at[0]) - view.base[0]) < SIGHT and float(at[2]) < TOP_Z + 0.03


def _lifted(view: MobileView) -> bool:
    return 0.008 < view.opening < 0.04 and float(view.pos(CLOCHE)[2]) > TOP_Z + 0.05


def _held(view: MobileView, name: str) -> bool:
    return _HELD[0] < view.opening < _HELD[1] and float(np.linalg.norm(view.pos(name) - view.eef)) < 0.045


def _on(view: MobileView, name: str, pan: str) -> bool:
    """Whether a parcel lies on a pan."""
    off = view.rot(f"{pan}_pan").T @ (view.pos(name) - view.pos(f"{pan}_pan"))
    return bool(abs(off[0]) < PAN[0] and abs(off[1]) < PAN[1] and 0.0 < off[2] < 0.06)


def _below_beam(view: MobileView) -> bool:
    """Whether the hand is where the beam is in its way upwards; on the counter nothing lies there."""
    off = view.rot(BALANCE).T @ (view.eef - view.pos(BALANCE))
    return bool(abs(off[0]) < ARM + PAN[0] and abs(off[1]) < 0.14 and off[2] < PIVOT)


def _in_box(view: MobileView, name: str) -> bool:
    off = view.pos(name) - view.pos(BOX)
    return bool(abs(off[0]) < INSIDE[0] and abs(off[1]) < INSIDE[1])


def _nearest(view: MobileView, names: Iterable[str], seen: Iterable[str], to: np.ndarray) -> str:
    """The nearest one on which no other lies."""
    names, seen = list(names), list(seen)

    def below(name: str) -> bool:
        at = view.pos(name)
        return any(
            math.dist(view.pos(o)[:2], at[:2]) < 0.06 and view.pos(o)[2] > at[2] + 0.02 for o in seen if o != name
        )

    free = [name for name in names if not below(name)] or names
    return min(free, key=lambda name: float(np.linalg.norm(view.pos(name) - to)))


def _xy(view: MobileView, name: str) -> tuple[float, float]:
    at = view.pos(name)
    return float(at[0]), float(at[1])


def _named(view: MobileView, name: str, pan: str | None) -> str:
    """A parcel by its place."""
    if pan is not None:
        return f"the parcel on the {pan} pan"
    x, _ = _xy(view, name)
    return f"a parcel at the {'far ' * (abs(x) > 0.6)}{'left' if x < -0.2 else 'right' if x > 0.1 else 'middle'}"
