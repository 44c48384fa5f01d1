"""Fits of many boxes, or a mesh, by a few boxes, capsules and spheres that MJX's JAX implementation collides.

A fit makes primitives in the frame of the same body, each with layers that say what it meets: an object's flat bottom meets
tables and plates, its walls meet the fingers. Every pair that may touch costs at every step, whether it touches or not, so
parts that have nothing to do to each other meet in no layer.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    import mujoco

PLANE = 0  # mujoco.mjtGeom.mjGEOM_PLANE
Kind = Literal["box", "capsule", "sphere"]


class Layer(enum.IntFlag):
    """What a primitive is to others; see `MEETS`."""

    GROUND = enum.auto()  # table and floor
    FLOOR = enum.auto()  # a level top that things stand on
    WALL = enum.auto()  # an upright side that encloses
    RIM = enum.auto()  # of a dish: what a bowl sits on, or slides off
    BODY = enum.auto()  # what an object stands on
    EDGE = enum.auto()  # what an object would tip over on
    SIDE = enum.auto()  # an object's bulk
    BALL = enum.auto()  # the same of a bowl, rounded
    GRIP = enum.auto()  # what fingers close on
    PAD = enum.auto()  # finger pads
    HAND = enum.auto()  # fingers and palm
    FOREARM = enum.auto()  # links 5 and 6
    ARM = enum.auto()  # links 1 to 4


_PAIRS = {
    Layer.BODY: Layer.GROUND | Layer.FLOOR,
    Layer.EDGE: Layer.GROUND,
    Layer.SIDE: Layer.SIDE | Layer.WALL,
    Layer.BALL: Layer.BALL | Layer.WALL | Layer.RIM,
    Layer.PAD: Layer.PAD | Layer.GRIP | Layer.WALL | Layer.FLOOR | Layer.GROUND,
    Layer.HAND: Layer.SIDE | Layer.WALL | Layer.GROUND,
    Layer.FOREARM: Layer.SIDE | Layer.WALL | Layer.GROUND,
    Layer.ARM: Layer.GROUND,
}
# A layer to those that it collides with; symmetric.
MEETS: Mapping[Layer, Layer] = {
    layer: _PAIRS.get(layer, Layer(0)) | Layer(sum(other for other, met in _PAIRS.items() if layer in met))
    for layer in Layer
}


@dataclasses.dataclass(frozen=True)
class Primitive:
    """One collision shape in the frame of its body.

    Attributes:
      kind: its shape.
      size: half extents [3], (radius, half length), or (radius,), metres.
      pos: [3] centre, metres.
      rot: [3, 3] orientation; a capsule's axis is its z.
      layers: what it is.
    """

    kind: Kind
    size: tuple[float, ...]
    pos: np.ndarray
    rot: np.ndarray
    layers: Layer


@dataclasses.dataclass(frozen=True)
class Box:
    """One of LIBERO's boxes in the frame of its body: half extents [3], centre [3], orientation [3, 3]."""

    half: np.ndarray
    pos: np.ndarray
    rot: np.ndarray

    @property
    def corners(self) -> np.ndarray:
        """[8, 3]."""
        return self.pos + _SIGNS * self.half @ self.rot.T


_SIGNS = np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])

# The boxes of one body to its primitives.
Fit = Callable[[Sequence[Box]], list[Primitive]]


def boxes_of(model: mujoco.MjModel, body: int) -> list[Box]:
    """The boxes of a body that collide, those that are there twice once."""
    import mujoco

    out: dict[bytes, Box] = {}
    for geom in range(model.body_geomadr[body], model.body_geomadr[body] + model.body_geomnum[body]):
        if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_BOX and (
            model.geom_contype[geom] | model.geom_conaffinity[geom]
        ):
            box = Box(model.geom_size[geom].copy(), model.geom_pos[geom].copy(), mat_of(model.geom_quat[geom]))
            out.setdefault(np.round(np.concatenate([box.half, box.pos, model.geom_quat[geom]]), 5).tobytes(), box)
    return list(out.values())


def mat_of(quat: np.ndarray) -> np.ndarray:
    """[3, 3] rotation of a unit quaternion [4], wxyz."""
    import mujoco

    mat = np.zeros(9)
    mujoco.mju_quat2Mat(mat, np.asarray(quat, float))
    return mat.reshape(3, 3)


def quat_of(rot: np.ndarray) -> np.ndarray:
    """Unit quaternion [4], wxyz, of a rotation [3, 3]."""
    import mujoco

    quat = np.zeros(4)
    mujoco.mju_mat2Quat(quat, np.ascontiguousarray(rot, float).ravel())
    return quat


def mesh_box(model: mujoco.MjModel, geom: int, layers: Layer) -> Primitive:
    """The box around a mesh along its principal axes."""
    low, high, pos, rot = _mesh_extent(model, geom)
    return Primitive("box", tuple((high - low) / 2), pos + rot @ (low + high) / 2, rot, layers)


def mesh_capsule(model: mujoco.MjModel, geom: int, layers: Layer) -> Primitive:
    """A capsule along a mesh's longest principal axis, as long as the mesh and as thick as its other two on average."""
    low, high, pos, rot = _mesh_extent(model, geom)
    half = (high - low) / 2
    axis = int(np.argmax(half))
    radius = float(half[_others(axis)].mean())
    centre = pos + rot @ (low + high) / 2
    return Primitive("capsule", (radius, max(half[axis] - radius, 0.0)), centre, rot @ _z_to(axis), layers)


def _mesh_extent(model: mujoco.MjModel, geom: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    mesh = model.geom_dataid[geom]
    start, count = model.mesh_vertadr[mesh], model.mesh_vertnum[mesh]
    vertices = model.mesh_vert[start : start + count]
    return vertices.min(0), vertices.max(0), model.geom_pos[geom].copy(), mat_of(model.geom_quat[geom])


def around(boxes: Sequence[Box], layers: Layer, shrink: Sequence[float] = (1.0, 1.0, 1.0)) -> Primitive:
    """The smallest box along the body's axes around `boxes`, its half extents times `shrink`."""
    corners = np.concatenate([box.corners for box in boxes])
    low, high = corners.min(0), corners.max(0)
    half = (high - low) / 2 * np.asarray(shrink)
    return Primitive("box", tuple(half), (high + low) / 2, np.eye(3), layers)


def as_is(layers: Layer) -> Fit:
    """Each box as it is."""
    return lambda boxes: [Primitive("box", tuple(b.half), b.pos, b.rot, layers) for b in boxes]


def can(axis: int) -> Fit:
    """A cylinder along `axis`: three boxes that make a hexagonal prism for fingers, a square one to stand on, a capsule."""

    def fit(boxes: Sequence[Box]) -> list[Primitive]:
        low, high, centre = _span(boxes, axis)
        # The sides' middles lie as far inside the mean radius as the corners outside.
        radius = _radius(boxes, axis, centre) / (0.5 + 0.5 * np.cos(np.pi / 6))
        half = (high - low) / 2
        out = []
        for turn in range(3):
            rot = _about(axis, turn * np.pi / 3)
            size = np.full(3, half)
            first, second = _others(axis)
            size[first], size[second] = radius * np.cos(np.pi / 6), radius / 2
            out.append(Primitive("box", tuple(size), centre, rot, Layer.GRIP))
        inner = radius * np.cos(np.pi / 6)
        foot = np.full(3, inner)
        foot[axis] = half
        out.append(Primitive("box", tuple(foot), centre, np.eye(3), Layer.BODY))
        out.append(Primitive("capsule", (inner, half - inner), centre, _z_to(axis), Layer.SIDE))
        return out

    return fit


def stack(axis: int, cuts: Sequence[float], layers: Sequence[Layer]) -> Fit:
    """Sections along `axis`, divided at `cuts`: the boxes whose centres lie in one become one box around them."""

    def fit(boxes: Sequence[Box]) -> list[Primitive]:
        section = np.digitize([b.pos[axis] for b in boxes], cuts)
        return [
            around([b for b, s in zip(boxes, section, strict=True) if s == k], layer) for k, layer in enumerate(layers)
        ]

    return fit


def ring(boxes: Sequence[Box], count: int, layers: Layer) -> list[Primitive]:
    """`count` boxes in place of a ring of equal ones about z: the same slope, thickness and height, wide enough to close."""
    radius = float(np.mean([np.hypot(b.pos[0], b.pos[1]) for b in boxes]))
    # Each box in the frame of its place on the ring: outwards, along, up.
    turned = [_about(2, np.arctan2(b.pos[1], b.pos[0])).T @ b.rot for b in boxes]
    thin = int(np.argmin(boxes[0].half))
    normals = np.array([t[:, thin] * np.sign(t[0, thin]) for t in turned])
    out, _, up = normals.mean(0) / np.linalg.norm(normals.mean(0))
    slope = np.array([[out, 0.0, -up], [0.0, 1.0, 0.0], [up, 0.0, out]])
    tall = int(np.argmax(np.abs(turned[0][2] * (np.arange(3) != thin))))
    thick, length = boxes[0].half[thin], boxes[0].half[tall]
    # Closed where the ring is widest: as wide as the side of a polygon there.
    width = (radius + abs(up) * length) * np.tan(np.pi / count)
    height = float(np.mean([b.pos[2] for b in boxes]))
    made = []
    for turn in range(count):
        rot = _about(2, 2 * np.pi * turn / count)
        pos = rot @ np.array([radius, 0.0, 0.0]) + np.array([0.0, 0.0, height])
        made.append(Primitive("box", (thick, width, length), pos, rot @ slope, layers))
    return made


def ball(radius: np.ndarray, height: np.ndarray) -> tuple[float, float]:
    """Radius and centre height of the sphere about the z axis closest to an outline, least squares."""
    # radius^2 + height^2 = 2 h height + (R^2 - h^2)
    columns = np.stack([2 * height, np.ones_like(height)], 1)
    centre, rest = np.linalg.lstsq(columns, radius**2 + height**2, rcond=None)[0]
    return float(np.sqrt(rest + centre**2)), float(centre)


def _span(boxes: Sequence[Box], axis: int) -> tuple[float, float, np.ndarray]:
    corners = np.concatenate([b.corners for b in boxes])
    low, high = corners.min(0), corners.max(0)
    return float(low[axis]), float(high[axis]), (low + high) / 2


def _radius(boxes: Sequence[Box], axis: int, centre: np.ndarray) -> float:
    """Mean distance from the axis of the outline, by the outermost corner in each of 24 directions."""
    flat = np.concatenate([b.corners for b in boxes])[:, _others(axis)] - centre[_others(axis)]
    angle = np.linspace(0.0, 2 * np.pi, 24, endpoint=False)
    return float((flat @ np.stack([np.cos(angle), np.sin(angle)])).max(0).mean())


def _others(axis: int) -> list[int]:
    return [(axis + 1) % 3, (axis + 2) % 3]


def _about(axis: int, angle: float) -> np.ndarray:
    first, second = _others(axis)
    rot = np.eye(3)
    rot[first, first] = rot[second, second] = np.cos(angle)
    rot[first, second], rot[second, first] = -np.sin(angle), np.sin(angle)
    return rot


def _z_to(axis: int) -> np.ndarray:
    """[3, 3] rotation that takes z to `axis`."""
    return np.roll(np.eye(3), axis + 1, axis=0)
