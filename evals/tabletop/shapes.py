"""Small helpers around `mujoco.MjSpec`: geoms for looks, geoms for contact, rotations, inertias.

Every geom is one of two kinds. Visual geoms (group 1) collide with nothing. Contact geoms (group 3, unseen) belong to one of
the classes below, and only the pairs of classes that a task can need ever meet: each pair costs a compiled engine contact
slots whether it touches or not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mjx_bench.task import Region

if TYPE_CHECKING:
    import mujoco

VISUAL_GROUP = 1
CONTACT_GROUP = 3

# Height of the table's top above the floor, metres. `up` asks for an object at 1.0 m: 12 cm above its rest on this table.
TABLE_Z = 0.86

# Time constant and damping ratio of contacts and stops: twice the time step is the stiffest that is stable.
SOLREF = [0.01, 1.0]

# Bits of contype and conaffinity, named after the class that brings them as its contype.
_TABLE, _BODY, _SPARE, _PAD, _TIP, _PALM = 1, 2, 4, 8, 16, 32

# Class of contact geom to (contype, conaffinity); two geoms meet if either's contype hits the other's conaffinity.
#   table: the plane of the table top.
#   foot: what a loose object stands on the table with; meets nothing else.
#   whole: an object of a goal, foot and body in one; meets all but the palm.
#   pushed: one that stands on a foot.
#   held: the same, so tall that the palm may meet it.
#   spare: the body of an object that no goal names; meets objects of goals, pads and walls, and not its like.
#   rolling: one without a foot.
#   pad: the flat inside of a finger; meets bodies and handles.
#   tip: the round end of a finger; meets the table and parts of fixtures.
#   palm: the hand; meets tall objects and walls. Nothing else reaches it: 44 mm above the tips.
#   stand: a loose object that others are put on or in; meets the table, objects of goals and finger tips.
#   side: further parts of one; the same, without the table.
#   wall: parts of fixtures that bodies, tips and the palm run into.
#   key: parts of fixtures that only finger tips push.
#   handle: parts of fixtures that fingers hold; meets pads and tips.
CLASSES = {
    "table": (_TABLE, 0),
    "foot": (0, _TABLE),
    "whole": (_BODY, _TABLE | _BODY | _SPARE | _PAD),
    "pushed": (_BODY, _BODY | _SPARE | _PAD),
    "held": (_BODY, _BODY | _SPARE | _PAD | _PALM),
    "spare": (_SPARE, _PAD),
    "rolling": (_SPARE, _TABLE | _PAD),
    "pad": (_PAD, 0),
    "tip": (_TIP, _TABLE),
    "palm": (_PALM, 0),
    "stand": (0, _TABLE | _BODY | _TIP),
    "side": (0, _BODY | _TIP),
    "wall": (0, _BODY | _SPARE | _TIP | _PALM),
    "key": (0, _TIP),
    "handle": (0, _PAD | _TIP),
}


def visual(body: Any, kind: str, size: Sequence[float], rgba: Sequence[float], **where: Any) -> Any:
    """Adds a geom that is only looked at. `where`: pos, quat or fromto, name, material."""
    return body.add_geom(
        type=_type(kind), size=_three(size), rgba=_four(rgba), group=VISUAL_GROUP, contype=0, conaffinity=0,
        mass=0.0, **where,
    )  # fmt: skip


def contact(body: Any, kind: str, size: Sequence[float], of: str, *, mass: float = 0.0, **where: Any) -> Any:
    """Adds a geom that only collides, of one of `CLASSES`. `where`: pos, quat, name, friction, condim, priority."""
    return solid(body, kind, size, CLASSES[of], mass=mass, **where)


def solid(body: Any, kind: str, size: Sequence[float], bits: tuple[int, int], *, mass: float, **where: Any) -> Any:
    """Adds a geom that only collides, by its (contype, conaffinity)."""
    contype, conaffinity = bits
    return body.add_geom(
        type=_type(kind), size=_three(size), group=CONTACT_GROUP, contype=contype, conaffinity=conaffinity, mass=mass,
        **where,
    )  # fmt: skip


def joint(body: Any, kind: str, *, damping: float = 0.0, stiffness: float = 0.0, **more: Any) -> Any:
    """Adds a joint of `kind` ("free", "slide", "hinge"). `more`: name, axis, range, armature, springref."""
    import mujoco

    return body.add_joint(
        type=getattr(mujoco.mjtJoint, f"mjJNT_{kind.upper()}"),
        damping=[damping, 0, 0],
        stiffness=[stiffness, 0, 0],
        solref_limit=SOLREF,
        solimp_limit=[0.98, 0.99, 0.001, 0.5, 2.0],
        **more,
    )


def add_region(body: Any, region: Region, pos: Sequence[float]) -> Any:
    """Adds a region's site to `body` at `pos` [3] in its frame."""
    import mujoco

    return body.add_site(
        name=region.name, type=mujoco.mjtGeom.mjGEOM_BOX, size=region.half_size, pos=pos, rgba=[0, 0, 0, 0]
    )


def yaw_quat(yaw: float) -> np.ndarray:
    """[4] wxyz of a rotation about z, radians."""
    return np.array([math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)])


def axis_quat(axis: Sequence[float], angle: float) -> np.ndarray:
    """[4] wxyz of a rotation about `axis` by `angle` radians."""
    a = np.asarray(axis, np.float64)
    return np.concatenate([[math.cos(angle / 2)], math.sin(angle / 2) * a / np.linalg.norm(a)])


def look_at(eye: Sequence[float], target: Sequence[float]) -> np.ndarray:
    """[4] wxyz of a camera at `eye` that has `target` in the middle and the world's up upwards."""
    import mujoco

    back = np.subtract(eye, target)
    back = back / np.linalg.norm(back)
    right = np.cross([0.0, 0.0, 1.0], back)
    right = right / np.linalg.norm(right)
    quat = np.empty(4)
    mujoco.mju_mat2Quat(quat, np.stack([right, np.cross(back, right), back], axis=1).ravel())
    return quat


def _type(kind: str) -> mujoco.mjtGeom:
    import mujoco

    return getattr(mujoco.mjtGeom, f"mjGEOM_{kind.upper()}")


def _three(size: Sequence[float]) -> list[float]:
    return [*map(float, size), 0.0, 0.0, 0.0][:3]


def _four(rgba: Sequence[float]) -> list[float]:
    return [*map(float, rgba), 1.0][:4]
