"""How the oracle solves a Puzzle Box: it looks at what is in view, and finds out the rest by pulling.

It sees handles, which way each bar slides, and the inner ends that no cover hides: a bar whose end lies in another's side
holds that one. What is hidden it learns from what gives way; that a part is a decoy it is never told.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from evals.roboquest.kitchen import TOP_Z, Footprint
from evals.roboquest.reaching import holds, pick, press_submit, raised, stand_at
from mjx_bench.task import Task
from policies.mobile import moves
from policies.mobile.moves import Move, Waypoint
from policies.mobile.view import MobileView

CAP_TOP = 0.0405  # of SUBMIT above the work top, its weight on the spring
_PULL, _MOVED, _IN = 0.056, 0.031, 0.027  # metres: how far a bar is pulled; what counts as out; and as back in
_LID_PULL = {True: 0.205, False: 0.145}  # metres: lids that slide to a side, and to the back
_LID_OPEN = 0.95  # of that
_GRIP_HEIGHT = 0.034  # of the grip site above a handle's foot
_ITEM_TOP, _BELOW_TOP = (
    0.072,
    0.012,
)  # of the item in the chest above the work top; of the grip site below the item's top
_HOLDS = 0.010  # metres of an inner end from a bar's middle line: it reaches into its side
_REACH = 0.24  # metres along a bar from its handle: longer than any; of one whose inner end is hidden
_SHORT = 0.01  # metres from handle to inner end: that end is hidden
_IN_TRAY = 0.045  # metres of the item from the tray's middle
_LIFT, _PUT = 0.20, 0.004
_LID_HALF = (0.10, 0.08)  # of the lid, metres: an inner end so near to its middle reaches into it


@dataclasses.dataclass(frozen=True)
class Tried:
    """What the oracle remembers.

    Attributes:
      homes: name of a handle to [3] where it was at first.
      out: handles that are pulled out.
      stuck: handles that did not give way, and nothing has moved since.
      springy: handles that slid back by themselves.
      pulled: the handle in the hand, after a pull; "" for none.
      half: of the item's height, metres, once it has been seen in the open chest.
    """

    homes: tuple[tuple[str, tuple[float, float, float]], ...] = ()
    out: frozenset[str] = frozenset()
    stuck: frozenset[str] = frozenset()
    springy: frozenset[str] = frozenset()
    pulled: str = ""
    half: float = 0.025


class PuzzleBox:
    """The program; see `policies.mobile.program.Program`."""

    def __init__(self, footprint: Footprint) -> None:
        self._footprint = footprint

    def start(self, task: Task) -> Tried:
        """The memory of a new episode."""
        return Tried()

    def next(self, memory: Tried, view: MobileView) -> tuple[Tried, Move, str]:
        """The next move, and stage and subtask in words."""
        m = memory if memory.homes else _first_look(memory, view)
        if m.pulled:
            return self._let_go(_learned(m, view), view)
        item, tray = view.pos("item"), view.pos("tray")
        if math.hypot(*(item - tray)[:2]) < _IN_TRAY and not holds(view, "item"):
            return m, press_submit(view, self._footprint, CAP_TOP), "finish: press the red button"
        if holds(view, "item") and item[2] > TOP_Z + _ITEM_TOP:
            return self._to_tray(m, view)
        if _out(m, view, "lid") > _LID_OPEN * _lid_pull(view) - 0.01 or item[2] > TOP_Z + _ITEM_TOP:
            return self._take(m, view)
        m = _came_back(m, view)
        return self._pull(m, view, _choice(m, view))

    def _pull(self, m: Tried, view: MobileView, handle: str) -> tuple[Tried, Move, str]:
        """Grasps a handle along its way, and pulls."""
        lid = handle == "lid"
        foot, way = view.pos(f"{handle}_grip"), view.rot(f"{handle}_grip")[:, 0]
        site = foot + np.array([0.0, 0.0, _GRIP_HEIGHT])
        end = site + way * ((_lid_pull(view) if lid else _PULL) - _out(m, view, handle))
        said = "open the lid: slide the lid aside" if lid else f"unlock the chest: pull {_named(view, handle)}"
        if (move := self._near(view, foot, end)) is not None:
            return m, move, said
        rot = moves.down(moves.easiest(math.atan2(way[1], way[0]), view))
        line = Waypoint("pull", end, rot, moves.CLOSED, 0.006, 2, 0.12 if lid else 0.08, 60 if lid else 26, line=way)
        return dataclasses.replace(m, pulled=handle), moves.then(moves.grasp(site, rot), moves.Arm((line,))), said

    def _let_go(self, m: Tried, view: MobileView) -> tuple[Tried, Move, str]:
        handle = m.pulled
        said = f"{'open the lid' if handle == 'lid' else 'unlock the chest'}: let go of the handle"
        return dataclasses.replace(m, pulled=""), moves.release(view.eef, view.hand_rot, rise=0.10), said

    def _take(self, m: Tried, view: MobileView) -> tuple[Tried, Move, str]:
        """Picks the item, out of the chest or wherever it is now."""
        at, said = view.pos("item"), "move what is inside: pick it up"
        if at[2] < TOP_Z + _ITEM_TOP:  # in the open chest, its top below the lid's way
            m = dataclasses.replace(m, half=TOP_Z + _ITEM_TOP - float(at[2]))
        if (move := self._near(view, at)) is not None:
            return m, move, said
        yaw = view.yaw("chest") if at[2] < TOP_Z + _ITEM_TOP else view.yaw("item")
        rot = moves.down(moves.easiest(yaw, view))
        site = (at[0], at[1], at[2] + m.half - _BELOW_TOP)
        return m, pick(site, rot, _LIFT), said

    def _to_tray(self, m: Tried, view: MobileView) -> tuple[Tried, Move, str]:
        """Carries the item over the tray and stands it there."""
        tray, said = view.pos("tray"), "move what is inside: stand it in the tray"
        if (drive := stand_at(view, self._footprint, tray, grip=moves.CLOSED)) is not None:
            return m, drive, said
        grip = view.eef - view.pos("item")
        site = np.array([tray[0], tray[1], TOP_Z + 0.012 + m.half + _PUT]) + grip
        return m, moves.place(site, view.hand_rot), said

    def _near(self, view: MobileView, *spots: np.ndarray) -> Move | None:
        """What comes before reaching for something: the hand up, the base before it."""
        drive = stand_at(view, self._footprint, *spots)
        return drive if drive is None else raised(view) or drive


def _first_look(m: Tried, view: MobileView) -> Tried:
    """Where the handles are, named by their entities and in no order but that of their places."""
    names = [n.removesuffix("_grip") for n in view.task.scene.entities if n.endswith("_grip")]
    there = [(n, view.pos(f"{n}_grip")) for n in names if view.pos(f"{n}_grip")[2] > TOP_Z]
    homes = tuple((n, (float(p[0]), float(p[1]), float(p[2]))) for n, p in sorted(there, key=lambda h: tuple(h[1])))
    return dataclasses.replace(m, homes=homes)


def _out(m: Tried, view: MobileView, handle: str) -> float:
    """How far a handle is from where it was, along its way, metres."""
    home = np.array(dict(m.homes)[handle])
    return float((view.pos(f"{handle}_grip") - home) @ view.rot(f"{handle}_grip")[:, 0])


def _lid_pull(view: MobileView) -> float:
    way, right = view.rot("lid_grip")[:, 0], view.rot("chest")[:, 0]
    return _LID_PULL[abs(float(way @ right)) > 0.7]


def _learned(m: Tried, view: MobileView) -> Tried:
    """Whether what is in the hand gave way."""
    handle = m.pulled
    if handle == "lid":
        moved = _out(m, view, handle) > _MOVED
        return dataclasses.replace(m, stuck=frozenset() if moved else m.stuck | {handle})
    if _out(m, view, handle) > _MOVED:
        return dataclasses.replace(m, out=m.out | {handle}, stuck=frozenset())
    return dataclasses.replace(m, stuck=m.stuck | {handle})


def _came_back(m: Tried, view: MobileView) -> Tried:
    """What was out and is in again: by itself, if it is the last that was pulled; else something drove it."""
    back = {handle for handle in m.out if _out(m, view, handle) < _IN}
    if not back:
        return m
    # A bar that comes back once more than others is on a spring; pulled again, the others stay.
    again = {handle for handle in back if handle in m.springy}
    return dataclasses.replace(m, out=m.out - (back - again), springy=m.springy | back, stuck=frozenset())


def _choice(m: Tried, view: MobileView) -> str:
    """The handle to pull next: one that nothing in view holds, nearest to the hand; the lid when no bar is left."""
    bars = [handle for handle, _ in m.homes if handle != "lid"]
    left = [handle for handle in bars if handle not in m.out and handle not in m.stuck]
    held = {
        other: handle for handle in bars if handle not in m.out and (other := _holds(view, handle, bars)) is not None
    }
    idle = {handle for handle in bars if _in_view(view, handle) and _holds(view, handle, bars) is None}
    free = [handle for handle in left if handle not in held and handle not in idle]
    if free:
        return min(free, key=lambda handle: float(np.linalg.norm(view.pos(f"{handle}_grip") - view.eef)))
    if "lid" not in m.stuck:
        return "lid"
    # Nothing gives way: whatever is still in, what has not been tried since something moved first.
    inside = [handle for handle in bars if _out(m, view, handle) < _IN]
    untried = [handle for handle in inside if handle not in m.stuck] or inside
    return untried[view.step % len(untried)] if untried else "lid"


def _in_view(view: MobileView, handle: str) -> bool:
    return float(np.linalg.norm(view.pos(f"{handle}_end") - view.pos(f"{handle}_grip"))) > _SHORT


def _holds(view: MobileView, handle: str, bars: list[str]) -> str | None:
    """What a bar is seen to hold: the lid, or another bar in whose side its inner end lies."""
    if not _in_view(view, handle):
        return None
    end = view.pos(f"{handle}_end")[:2]
    for other in bars:
        if other == handle:
            continue
        off, way = end - view.pos(f"{other}_grip")[:2], view.rot(f"{other}_grip")[:2, 0]
        long = float(np.linalg.norm(view.pos(f"{other}_end") - view.pos(f"{other}_grip")))
        if -(long if long > _SHORT else _REACH) < off @ way < 0.0 and abs(off[0] * way[1] - off[1] * way[0]) < _HOLDS:
            return other
    local = view.rot("chest")[:2, :2].T @ (end - view.pos("chest")[:2])
    return "lid" if abs(local[0]) < _LID_HALF[0] and abs(local[1]) < _LID_HALF[1] else None


def _named(view: MobileView, handle: str) -> str:
    """A handle by its place, as one who stands before the chest sees it."""
    x, y = view.rot("chest")[:2, :2].T @ (view.pos(f"{handle}_grip") - view.pos("chest"))[:2]
    depth = "front" if y < -0.17 else "middle" if y < -0.05 else "back"
    side = "left" if x < -0.1 else "right" if x > 0.1 else ""
    return f"the black handle at the {depth}{' ' * bool(side)}{side}"
