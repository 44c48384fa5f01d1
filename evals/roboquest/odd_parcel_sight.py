"""What the odd parcels' oracle sees: which parcels it knows of, and where they lie."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from evals.roboquest.kitchen import TOP_Z
from evals.roboquest.odd_parcel_parts import ARM, BALANCE, BOX, BOX_SLACK, CLOCHE, HALF, INSIDE, PAN, PARCELS, PIVOT
from policies.mobile.view import MobileView

SIGHT = 0.75  # metres to a side, from the base, within which things are seen
_HELD = (0.055, 0.0785)  # metres between fingers that hold a parcel


def seen_parcels(known: tuple[str, ...], view: MobileView) -> tuple[str, ...]:
    """The known parcels, with those that have come into view, from left to right."""
    new = []
    for name in PARCELS:
        at = view.pos(name)
        hidden = covered(view) and math.dist(xy(view, CLOCHE), at[:2]) < 0.05
        if name not in known and not hidden and abs(at[0] - view.base[0]) < SIGHT and at[2] > TOP_Z - 0.05:
            new.append(name)
    return (*known, *sorted(new, key=lambda name: tuple(view.pos(name))))


def covered(view: MobileView) -> bool:
    """Whether the cloche is there, and stands on the counter."""
    at = view.pos(CLOCHE)
    return abs(float(at[0]) - view.base[0]) < SIGHT and float(at[2]) < TOP_Z + 0.03


def cover_lifted(view: MobileView) -> bool:
    """Whether the hand has the cloche by its knob, off the counter."""
    return 0.008 < view.opening < 0.04 and float(view.pos(CLOCHE)[2]) > TOP_Z + 0.05


def holding(view: MobileView, name: str) -> bool:
    """Whether a parcel is between the fingers."""
    return _HELD[0] < view.opening < _HELD[1] and float(np.linalg.norm(view.pos(name) - view.eef)) < 0.045


def on_pan(view: MobileView, name: str, pan: str) -> bool:
    """Whether a parcel lies on a pan."""
    off = view.rot(f"{pan}_pan").T @ (view.pos(name) - view.pos(f"{pan}_pan"))
    return bool(abs(off[0]) < PAN[0] and abs(off[1]) < PAN[1] and 0.0 < off[2] < 0.06)


def below_beam(view: MobileView) -> bool:
    """Whether the hand is where the beam is in its way upwards; on the counter nothing lies there."""
    off = view.rot(BALANCE).T @ (view.eef - view.pos(BALANCE))
    return bool(abs(off[0]) < ARM + PAN[0] and abs(off[1]) < 0.14 and off[2] < PIVOT)


def in_box(view: MobileView, name: str) -> bool:
    """Whether the middle of a parcel is within the walls, as seen from above."""
    off = view.pos(name) - view.pos(BOX)
    return bool(abs(off[0]) < INSIDE[0] and abs(off[1]) < INSIDE[1])


def within_box(view: MobileView, name: str) -> bool:
    """Whether all corners of a parcel are within the walls, as seen from above."""
    reach = abs(view.rot(name)[:2]) @ np.array(HALF) + abs((view.pos(name) - view.pos(BOX))[:2])
    return bool((reach <= np.array(INSIDE) + BOX_SLACK).all())


def nearest(view: MobileView, names: Iterable[str], seen: Iterable[str], to: np.ndarray) -> str:
    """The nearest one on which no other lies."""
    names, seen = list(names), list(seen)

    def below(name: str) -> bool:
        at = view.pos(name)
        return any(
            math.dist(view.pos(o)[:2], at[:2]) < 0.06 and view.pos(o)[2] > at[2] + 0.02 for o in seen if o != name
        )

    free = [name for name in names if not below(name)] or names
    return min(free, key=lambda name: float(np.linalg.norm(view.pos(name) - to)))


def xy(view: MobileView, name: str) -> tuple[float, float]:
    """Where a thing is, metres."""
    at = view.pos(name)
    return float(at[0]), float(at[1])


def by_place(view: MobileView, name: str, pan: str | None) -> str:
    """A parcel by its place."""
    if pan is not None:
        return f"the parcel on the {pan} pan"
    x, _ = xy(view, name)
    return f"a parcel at the {'far ' * (abs(x) > 0.6)}{'left' if x < -0.2 else 'right' if x > 0.1 else 'middle'}"
