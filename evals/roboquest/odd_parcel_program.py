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
)
from evals.roboquest.odd_parcel_sight import (
    below_beam,
    by_place,
    cover_lifted,
    covered,
    holding,
    in_box,
    nearest,
    on_pan,
    seen_parcels,
    within_box,
    xy,
)
from evals.roboquest.reaching import FACING, RAISED, pick, press_submit, raised, stand_at
from evals.roboquest.rectangles import Rect, apart
from mjx_bench.task import Task
from policies.mobile import moves
from policies.mobile.moves import Arm, Drive, Move, Waypoint
from policies.mobile.view import MobileView

CAP_TOP = 0.0405  # of SUBMIT above the work top, its weight on the spring
TOUR = (-0.5, 0.5)  # x of the base where it looks about
BELOW_TOP = 0.010  # of the grip site below a parcel's top
SETTLE = 40  # ticks until the beam is read
ALIKE = 0.035  # radians between readings that are the same
AT_STOP = math.radians(11.5)  # of the beam, from which on it may rest at its stop: 0.20 kg reads 10.9 degrees
# Metres: outwards from a pan's middle, where parcels go; before it, where the hand comes from.
PAN_OUT, FRONT = 0.07, 0.26
AGAIN = 4  # times that a parcel is taken out of the box again
FLAT = math.cos(math.radians(8.0))
STUCK = 0.01  # metres: a base that has moved less since it set out stands at a wall
_ROOM = 0.022  # metres around what is put down
_KNOB = CLOCHE_HEIGHT + CLOCHE_WALL + KNOB_STEM[1] + KNOB_CAP[1]  # height of the knob's top
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
      again: how often a parcel was taken out of the box, since it lay askew.
      stood: x, y of the base when it last set out for a parcel; None once it is there.
    """

    toured: int = 0
    seen: tuple[str, ...] = ()
    first: str = ""
    readings: tuple[tuple[str, float], ...] = ()
    waited: bool = False
    goal: str = ""
    aside: bool = False
    again: int = 0
    stood: tuple[float, float] | None = None


class OddParcel:
    """The program; see `policies.mobile.program.Program`."""

    def __init__(self, footprint: Footprint) -> None:
        self._footprint = footprint

    def start(self, task: Task) -> Weighed:
        """The memory of a new episode."""
        return Weighed()

    def next(self, memory: Weighed, view: MobileView) -> tuple[Weighed, Move, str]:
        """The next move, and stage and subtask in words."""
        m = dataclasses.replace(memory, seen=seen_parcels(memory.seen, view))
        if m.toured < len(TOUR):
            there = (TOUR[m.toured], self._footprint.front - START_GAP, FACING)
            side = "left" if TOUR[m.toured] < 0 else "right"
            return (
                dataclasses.replace(m, toured=m.toured + 1),
                Drive(there),
                f"look around: look along the counter, {side}",
            )
        if m.goal == "cover" and cover_lifted(view):
            return self._put_cover(m, view)
        held = next((name for name in m.seen if holding(view, name)), None)
        if held is not None:
            return self._put(m, view, held)
        if covered(view) and not m.aside:
            return self._take_cover(m, view)
        return self._weigh(m, view)

    def _weigh(self, m: Weighed, view: MobileView) -> tuple[Weighed, Move, str]:
        """The hand is empty: what to do next."""
        on_right = next((name for name in m.seen if on_pan(view, name, "right")), None)
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
        if m.first == "" or (left and not on_pan(view, m.first, "left")):
            first = m.first or nearest(view, m.seen, m.seen, view.pos("left_pan"))
            return self._pick(dataclasses.replace(m, first=first), view, first, "left")
        if left:
            return self._pick(m, view, nearest(view, left, m.seen, view.pos("right_pan")), "right")
        found = odd_ones(m.seen, m.first, dict(m.readings))
        out = [n for n in found if not in_box(view, n)]
        if (top := self._askew(m, view, found)) is not None and (m.again or not out):
            taken, move, said = self._pick(m, view, top, "away")
            return dataclasses.replace(taken, again=m.again + isinstance(move, Arm)), move, said
        if out:
            return self._pick(m, view, nearest(view, out, m.seen, view.pos(BOX)), "box")
        return m, press_submit(view, self._footprint, CAP_TOP), "finish: press the red button"

    def _askew(self, m: Weighed, view: MobileView, found: Iterable[str]) -> str | None:
        """What to take out of the box again, the highest first; on the counter it comes to lie flat."""
        inside = [name for name in found if in_box(view, name)]
        askew = [name for name in inside if not within_box(view, name)]
        if askew or m.again:  # what leans makes the next one lean
            askew += [name for name in inside if name not in askew and view.rot(name)[2, 2] < FLAT]
        return max(askew, key=lambda name: float(view.pos(name)[2]), default=None) if m.again < AGAIN else None

    def _pick(self, m: Weighed, view: MobileView, name: str, goal: str) -> tuple[Weighed, Move, str]:
        """Takes a parcel from where it lies."""
        m, at = dataclasses.replace(m, goal=goal), view.pos(name)
        pan = next((pan for pan in ("left", "right") if on_pan(view, name, pan)), None)
        said = f"{_STAGES[goal]}: pick up {by_place(view, name, pan)}"
        if (near := self._near(m, view, at)) is not None:
            return *near, said
        m = dataclasses.replace(m, stood=None)
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
        if below_beam(view):  # where it met something on its way out
            down = view.eef - np.array([0.0, 0.0, 0.06])
            lower = Waypoint("down", down, view.hand_rot, moves.CLOSED, 0.015, 0, 0.15, 40)
            return m, Arm((lower, self._before(view, down, view.hand_rot, moves.CLOSED))), said
        if m.goal in ("left", "right"):
            yaw = view.yaw(BALANCE)
            out = PAN_OUT * (1.0 if m.goal == "right" else -1.0)
            spot = view.pos(f"{m.goal}_pan") + np.array([out * math.cos(yaw), out * math.sin(yaw), 0.0])
            turn, height = yaw + math.pi / 2, float(spot[2])
        elif m.goal == "box":
            inside = [other for other in m.seen if in_box(view, other)]
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
        if (near := self._near(m, view, at)) is not None:
            return *near, said
        m = dataclasses.replace(m, stood=None)
        site = at + np.array([0.0, 0.0, _KNOB - 0.014])
        return m, pick(site, moves.down(moves.easiest(0.0, view)), 0.16, above=0.09), said

    def _put_cover(self, m: Weighed, view: MobileView) -> tuple[Weighed, Move, str]:
        said = "look around: put the cover aside"
        (x, y), _ = self._free(m, view, CLOCHE, (CLOCHE_RADIUS, CLOCHE_RADIUS))
        if (drive := stand_at(view, self._footprint, (x, y), grip=moves.CLOSED)) is not None:
            return m, drive, said
        site = np.array([x, y, TOP_Z + 0.003]) + (view.eef - view.pos(CLOCHE)) * np.array([0.0, 0.0, 1.0])
        return dataclasses.replace(m, aside=True), moves.place(site, view.hand_rot), said

    def _near(self, m: Weighed, view: MobileView, spot: np.ndarray) -> tuple[Weighed, Move] | None:
        """What comes before reaching for something: the hand up, the base before it, or as near as a wall lets it."""
        drive, here = stand_at(view, self._footprint, spot), (float(view.base[0]), float(view.base[1]))
        if drive is None or (m.stood is not None and math.dist(m.stood, here) < STUCK):
            return None
        up = raised(view)
        return (m, up) if up is not None else (dataclasses.replace(m, stood=here), drive)

    def _before(self, view: MobileView, site: np.ndarray, rot: np.ndarray, grip: float) -> Waypoint:
        """A place before a pan, beside the beam's end and not below it."""
        at = np.array([site[0], site[1] - FRONT, max(float(site[2]) + 0.10, RAISED - 0.06)])
        return Waypoint("before", at, rot, grip, 0.02, 0, 0.25, 120)

    def _free(
        self, m: Weighed, view: MobileView, name: str, half: tuple[float, float]
    ) -> tuple[tuple[float, float], float]:
        """A free place and a turn for what is in the hand: near the right pan, clear of everything."""
        taken: list[Rect] = [
            (xy(view, BALANCE), (0.18 + PAN[0], PAN[1]), view.yaw(BALANCE)),
            (xy(view, BOX), (INSIDE[0] + 0.02, INSIDE[1] + 0.02), 0.0),
            (xy(view, "submit"), (0.055, 0.05), 0.0),
        ]
        for other in m.seen:
            if other != name and view.pos(other)[2] < TOP_Z + 0.12 and not in_box(view, other):
                taken.append((xy(view, other), HALF[:2], view.yaw(other)))
        if name != CLOCHE and abs(xy(view, CLOCHE)[0]) < 2.0:
            taken.append((xy(view, CLOCHE), (CLOCHE_RADIUS, CLOCHE_RADIUS), 0.0))
        pan, best = xy(view, "right_pan"), None
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
