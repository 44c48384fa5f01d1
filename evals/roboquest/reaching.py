"""What the oracles of counter tasks share: where the base stands to reach a place, and how a thing is picked and placed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from evals.roboquest.kitchen import START_GAP, TOP_Z, Footprint
from policies.mobile import moves
from policies.mobile.moves import Arm, Drive, Move, Point, Waypoint
from policies.mobile.view import MobileView

FACING = math.pi / 2  # of a base before the counter
SIDEWAYS = 0.16  # metres to a side that the arm reaches with ease
FAR = 0.60  # metres ahead from which on the base comes closer
CLOSEST = 0.165  # metres of the base's frame from the counter's front edge
HELD = 0.012  # metres between fingers that hold something, at least
RAISED = TOP_Z + 0.30  # height of the hand on its way


def stand_at(view: MobileView, footprint: Footprint, *spots: Point, grip: float = moves.HALT) -> Drive | None:
    """A drive along the counter after which all spots (x, y) are in reach; None where they are."""
    x = sum(float(s[0]) for s in spots) / len(spots)
    far = max(float(s[1]) for s in spots)
    y = footprint.front - START_GAP
    if far - y > FAR:
        y = footprint.front - CLOSEST
    if max(abs(float(s[0]) - view.base[0]) for s in spots) <= SIDEWAYS and abs(view.base[1] - y) < 0.02:
        return None
    return Drive((x, y, FACING), grip=grip, speed=0.35)


def raised(view: MobileView, height: float = RAISED) -> Arm | None:
    """The hand straight up to where it meets nothing on its way; None where it is."""
    if view.eef[2] > height - 0.03:
        return None
    up = np.array([view.eef[0], view.eef[1], height])
    return Arm((Waypoint("rise", up, view.hand_rot, moves.HALT, 0.02, 0, 0.25, 60),))


def holds(view: MobileView, name: str, near: float = 0.06) -> bool:
    """Whether the fingers hold a thing: they are not shut, and it is between them, off what it stood on."""
    return view.opening > HELD and float(np.linalg.norm(view.pos(name) - view.eef)) < near


def pick(site: Sequence[float], rot: np.ndarray, lift: float, *, above: float = 0.10) -> Arm:
    """Down on a thing, and up with it."""
    at = np.array(site, float)
    up = Waypoint("lift", at + np.array([0.0, 0.0, lift]), rot, moves.CLOSED, 0.012, 2, 0.15, 80)
    return moves.then(moves.grasp(at, rot, above=above), Arm((up,)))


def press_submit(view: MobileView, footprint: Footprint, top: float) -> Move:
    """To the button, and its press; `top` of its cap above the work top, metres."""
    at = view.pos("submit")
    if (up := raised(view)) is not None:
        return up
    if (drive := stand_at(view, footprint, at)) is not None:
        return drive
    return moves.press((at[0], at[1], TOP_Z + top), moves.down(moves.easiest(0.0, view)))
