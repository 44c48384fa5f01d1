"""Geoms of the household, by what they may meet: furniture, loose things, and the robot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import mujoco

Colour = tuple[float, float, float]

# Group of what is only looked at and of what is only touched.
LOOK_GROUP, TOUCH_GROUP = 1, 3
_FURNITURE, _THING = 1, 2
# Class of a geom to (contype, conaffinity). Furniture meets things and the robot; things meet each other and the robot; the
# robot does not meet itself, nor the floor, which its base is held above by its joints.
CLASSES = {
    "furniture": (_FURNITURE, 0),
    "floor": (_FURNITURE << 2, 0),
    "thing": (_THING, _FURNITURE | _THING | _FURNITURE << 2),
    "robot": (0, _FURNITURE | _THING),
}


def look(body: Any, kind: str, size: Sequence[float], rgba: Sequence[float], **where: Any) -> Any:
    """Adds a geom that is only looked at. `where`: name, pos, quat, fromto, material."""
    return body.add_geom(
        type=geom_type(kind), size=_three(size), rgba=_four(rgba), group=LOOK_GROUP, contype=0, conaffinity=0, mass=0.0,
        **where,
    )  # fmt: skip


def touch(body: Any, kind: str, size: Sequence[float], of: str, *, mass: float = 0.0, **where: Any) -> Any:
    """Adds an unseen geom that collides, of one of `CLASSES`. `where`: name, pos, quat, fromto, friction, condim."""
    contype, conaffinity = CLASSES[of]
    return body.add_geom(
        type=geom_type(kind), size=_three(size), group=TOUCH_GROUP, contype=contype, conaffinity=conaffinity, mass=mass,
        **where,
    )  # fmt: skip


def box(body: Any, half: Sequence[float], colour: Sequence[float], of: str | None, name: str, **where: Any) -> None:
    """Adds a box that is looked at and, unless `of` is None, collides as it looks."""
    look(body, "box", half, colour, name=f"{name}_look", **where)
    if of is not None:
        touch(body, "box", half, of, name=name, **where)


def geom_type(kind: str) -> mujoco.mjtGeom:
    """MuJoCo's type of a geom: box, sphere, capsule, cylinder, plane."""
    import mujoco

    return getattr(mujoco.mjtGeom, f"mjGEOM_{kind.upper()}")


def _three(size: Sequence[float]) -> list[float]:
    return [*map(float, size), 0.0, 0.0, 0.0][:3]


def _four(rgba: Sequence[float]) -> list[float]:
    return [*map(float, rgba), 1.0][:4]
