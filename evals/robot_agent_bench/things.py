"""Movable things of the household: every one with the same geoms, so that one model holds whichever an instance brings.

A thing collides as a box of its size (what is round, as a box inside it). It looks like its parts: boxes, upright or turned
cylinders and a ball; the parts that it lacks are hidden inside.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from evals.robot_agent_bench.shapes import Colour, touch
from evals.tabletop.shapes import visual
from mjx_bench.task import Entity

_HIDDEN = 1e-3  # size of a part that a thing lacks
SLOTS = (("box", 3), ("cylinder", 3), ("sphere", 1))


@dataclasses.dataclass(frozen=True)
class Part:
    """Something to look at.

    Attributes:
      kind: box, cylinder or sphere.
      size: half sizes; radius and half height; radius.
      colour: RGB, 0 to 1.
      pos: [3] in the thing's frame, whose origin is the middle of its box.
      lying: a cylinder along x instead of z.
    """

    kind: str
    size: tuple[float, ...]
    colour: Colour
    pos: tuple[float, float, float] = (0.0, 0.0, 0.0)
    lying: bool = False


@dataclasses.dataclass(frozen=True)
class Thing:
    """A kind of thing.

    Attributes:
      name: of the kind.
      half: [3] half sizes of the box that it collides as.
      mass: kg.
      parts: what it looks like.
    """

    name: str
    half: tuple[float, float, float]
    mass: float
    parts: tuple[Part, ...]

    @property
    def radius(self) -> float:
        """Horizontal reach from its middle, metres."""
        return math.hypot(self.half[0], self.half[1])


def tin(name: str, radius: float, height: float, mass: float, body: Colour, band: Colour, top: Colour) -> Thing:
    """Something round that stands upright: a can, a bottle with a cap, a cup."""
    h, side = height / 2, 0.88 * radius
    parts = (
        Part("cylinder", (radius, h - 0.004), body),
        Part("cylinder", (1.01 * radius, 0.35 * h), band, (0, 0, 0.05 * h)),
        Part("cylinder", (0.75 * radius, h), top),
    )
    return Thing(name, (side, side, h), mass, parts)


def bottle(name: str, radius: float, height: float, mass: float, body: Colour, band: Colour, top: Colour) -> Thing:
    """A bottle: a body, a label and a neck with a cap."""
    h, side = height / 2, 0.88 * radius
    parts = (
        Part("cylinder", (radius, 0.74 * h), body, (0, 0, -0.26 * h)),
        Part("cylinder", (1.01 * radius, 0.26 * h), band, (0, 0, -0.25 * h)),
        Part("cylinder", (0.42 * radius, 0.28 * h), top, (0, 0, 0.72 * h)),
    )
    return Thing(name, (side, side, h), mass, parts)


def packet(name: str, size: Sequence[float], mass: float, body: Colour, band: Colour) -> Thing:
    """A box with a band of another colour around it; `size` [3] is the whole of it."""
    x, y, z = (s / 2 for s in size)
    parts = (Part("box", (x, y, z), body), Part("box", (1.005 * x, 1.01 * y, 0.3 * z), band, (0, 0, 0.15 * z)))
    return Thing(name, (x, y, z), mass, parts)


def rod(name: str, radius: float, length: float, mass: float, body: Colour, end: Colour) -> Thing:
    """Something round that lies on its side, along x."""
    half, side = length / 2, 0.88 * radius
    parts = (
        Part("cylinder", (radius, 0.8 * half), body, (0.2 * half, 0, 0), lying=True),
        Part("cylinder", (0.6 * radius, 0.2 * half), end, (-0.8 * half, 0, 0), lying=True),
    )
    return Thing(name, (half, side, radius), mass, parts)


def add_thing(world: Any, name: str, thing: Thing, pos: Sequence[float], friction: float = 0.8) -> None:
    """Adds a thing's body under the name of its role, with a free joint."""
    import mujoco

    body = world.add_body(name=name, pos=pos)
    body.add_joint(name=f"{name}_free", type=mujoco.mjtJoint.mjJNT_FREE)
    touch(body, "box", thing.half, "thing", mass=thing.mass, name=f"{name}_body", friction=[friction, 0.01, 0.001])
    turned = [math.sqrt(0.5), 0.0, math.sqrt(0.5), 0.0]
    for kind, number in SLOTS:
        own = [part for part in thing.parts if part.kind == kind]
        assert len(own) <= number, f"{thing.name} has {len(own)} parts of kind {kind}"
        for i in range(number):
            if i < len(own):
                part = own[i]
                quat = turned if part.lying else [1.0, 0.0, 0.0, 0.0]
                visual(body, kind, part.size, part.colour, name=f"{name}_{kind}_{i}", pos=part.pos, quat=quat)
            else:
                size = [_HIDDEN] * (3 if kind == "box" else 2)
                visual(body, kind, size, (0.5, 0.5, 0.5), name=f"{name}_{kind}_{i}")


def entity(name: str, category: str) -> Entity:
    """The contract's description of a thing in a role."""
    return Entity(name, "object", category, name, f"{name}_free", contact_geoms=(f"{name}_body",))
