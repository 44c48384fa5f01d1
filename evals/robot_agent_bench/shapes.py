"""Geoms of the household, by what they may meet: furniture, loose things, and the robot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evals.tabletop.shapes import solid, visual

Colour = tuple[float, float, float]

_FURNITURE, _THING = 1, 2
# Class of a geom to (contype, conaffinity). Furniture meets things and the robot; things meet each other and the robot; the
# robot does not meet itself, nor the floor, which its base is held above by its joints.
CLASSES = {
    "furniture": (_FURNITURE, 0),
    "floor": (_FURNITURE << 2, 0),
    "thing": (_THING, _FURNITURE | _THING | _FURNITURE << 2),
    "robot": (0, _FURNITURE | _THING),
}


def touch(body: Any, kind: str, size: Sequence[float], of: str, *, mass: float = 0.0, **where: Any) -> Any:
    """Adds an unseen geom that collides, of one of `CLASSES`. `where`: name, pos, quat, fromto, friction, condim."""
    return solid(body, kind, size, CLASSES[of], mass=mass, **where)


def box(body: Any, half: Sequence[float], colour: Sequence[float], of: str | None, name: str, **where: Any) -> None:
    """Adds a box that is looked at and, unless `of` is None, collides as it looks."""
    visual(body, "box", half, colour, name=f"{name}_look", **where)
    if of is not None:
        touch(body, "box", half, of, name=name, **where)
