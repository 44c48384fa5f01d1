"""Loose objects: what they look like, what they collide with, what they weigh.

An object of a goal collides as it looks. One that goals never name collides as a sphere with everything but the table, where
it stands on a flat foot: that takes a quarter of the contact slots of a box.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from evals.tabletop.shapes import add_region, contact, joint, visual
from mjx_bench.task import Entity, Region

Colour = tuple[float, float, float]


@dataclasses.dataclass(frozen=True)
class Loose:
    """A movable object; a free joint holds its pose.

    Attributes:
      name: of entity and body.
      colour: RGB, 0 to 1.
      density: kg/m^3.
      friction: sliding friction with the table and with other objects; the fingers bring their own.
    """

    name: str
    colour: Colour
    density: float = 500.0
    friction: float = 0.7

    category = "object"

    @property
    def free_joint(self) -> str:
        return f"{self.name}_free"

    @property
    def radius(self) -> float:
        """Horizontal reach from the origin, metres."""
        raise NotImplementedError

    @property
    def rest_height(self) -> float:
        """Of the origin above what it stands on, metres."""
        raise NotImplementedError

    def add(self, world: Any, pos: Any) -> Any:
        """Adds the body with its geoms at `pos` [3]; returns it."""
        body = world.add_body(name=self.name, pos=pos)
        self._geoms(body)
        return body

    def entity(self) -> Entity:
        """The contract's description of it."""
        return Entity(
            self.name, "object", self.category, self.name, self.free_joint, contact_geoms=tuple(self._contacts())
        )

    def regions(self) -> tuple[Region, ...]:
        """Sites in it that goals refer to."""
        return ()

    def _contacts(self) -> list[str]:
        return [f"{self.name}_body"]

    def _geoms(self, body: Any) -> None:
        raise NotImplementedError

    def _free(self, body: Any, damping: float = 0.0) -> None:
        joint(body, "free", name=self.free_joint, damping=damping)

    @property
    def _friction(self) -> list[float]:
        return [self.friction, 0.005, 0.0001]


@dataclasses.dataclass(frozen=True)
class Block(Loose):
    """A box of half sizes `half` [3]; `plain` for one that goals never name."""

    half: tuple[float, float, float] = (0.02, 0.02, 0.02)
    plain: bool = False

    category = "block"

    @property
    def radius(self) -> float:
        return math.hypot(self.half[0], self.half[1])

    @property
    def rest_height(self) -> float:
        return self.half[2]

    def _contacts(self) -> list[str]:
        return [f"{self.name}_foot", f"{self.name}_body"] if self.plain else [f"{self.name}_body"]

    def _geoms(self, body: Any) -> None:
        self._free(body)
        mass = self.density * 8.0 * math.prod(self.half)
        visual(body, "box", self.half, self.colour, name=f"{self.name}_look")
        if not self.plain:
            contact(body, "box", self.half, "whole", mass=mass, name=f"{self.name}_body", friction=self._friction)
            return
        contact(body, "box", self.half, "foot", mass=mass, name=f"{self.name}_foot", friction=self._friction)
        contact(body, "sphere", [min(self.half)], "spare", name=f"{self.name}_body", friction=self._friction)


@dataclasses.dataclass(frozen=True)
class Can(Loose):
    """An upright cylinder that goals never name."""

    size: tuple[float, float] = (0.022, 0.03)  # radius, half height

    category = "can"

    @property
    def radius(self) -> float:
        return self.size[0]

    @property
    def rest_height(self) -> float:
        return self.size[1]

    def _contacts(self) -> list[str]:
        return [f"{self.name}_foot", f"{self.name}_body"]

    def _geoms(self, body: Any) -> None:
        self._free(body)
        r, h = self.size
        mass = self.density * math.pi * r**2 * 2 * h
        shade = tuple(0.75 * c for c in self.colour)
        visual(body, "cylinder", [r, h - 0.003], self.colour, name=f"{self.name}_look")
        visual(body, "cylinder", [0.92 * r, h], shade, name=f"{self.name}_rim")
        # A box stands steadier than a cylinder, and on the same four points in every engine.
        side = r / math.sqrt(2)
        contact(body, "box", [side, side, h], "foot", mass=mass, name=f"{self.name}_foot", friction=self._friction)
        contact(body, "sphere", [r], "spare", name=f"{self.name}_body", friction=self._friction)


@dataclasses.dataclass(frozen=True)
class Ball(Loose):
    """A ball that soon stops rolling: its joint is damped, which slows its spin and hardly its flight."""

    size: float = 0.022
    plain: bool = False

    category = "ball"

    @property
    def radius(self) -> float:
        return self.size

    @property
    def rest_height(self) -> float:
        return self.size

    def _geoms(self, body: Any) -> None:
        self._free(body, damping=2e-4)
        mass = self.density * 4 / 3 * math.pi * self.size**3
        visual(body, "sphere", [self.size], self.colour, name=f"{self.name}_look")
        kind = "rolling" if self.plain else "whole"
        contact(body, "sphere", [self.size], kind, mass=mass, name=f"{self.name}_body", friction=self._friction)


@dataclasses.dataclass(frozen=True)
class Dome(Loose):
    """Half a ball on its flat side, wider than the hand opens: it is pushed. Its origin is half way up."""

    size: float = 0.05  # radius

    category = "dome"

    @property
    def radius(self) -> float:
        return self.size

    @property
    def rest_height(self) -> float:
        return self.size / 2

    def _contacts(self) -> list[str]:
        return [f"{self.name}_foot", f"{self.name}_body"]

    def _geoms(self, body: Any) -> None:
        self._free(body)
        r, low = self.size, -self.size / 2
        mass = self.density * 2 / 3 * math.pi * r**3
        # The table hides the lower half of the ball, and does not meet it.
        visual(body, "sphere", [r], self.colour, name=f"{self.name}_look", pos=[0, 0, low])
        foot, thick = 0.68 * r, 0.004
        contact(
            body,
            "box",
            [foot, foot, thick],
            "foot",
            mass=mass,
            name=f"{self.name}_foot",
            pos=[0, 0, low + thick],
            friction=self._friction,
        )
        contact(body, "sphere", [r], "pushed", name=f"{self.name}_body", pos=[0, 0, low], friction=self._friction)


@dataclasses.dataclass(frozen=True)
class Plate(Loose):
    """A flat round plate to put things on."""

    size: float = 0.07  # radius
    height: float = 0.012

    category = "plate"

    @property
    def radius(self) -> float:
        return self.size

    @property
    def rest_height(self) -> float:
        return self.height / 2

    def _geoms(self, body: Any) -> None:
        self._free(body)
        half, rim = self.height / 2, tuple(0.82 * c for c in self.colour)
        visual(body, "cylinder", [0.8 * self.size, half], rim, name=f"{self.name}_foot_look", pos=[0, 0, -0.001])
        visual(body, "cylinder", [self.size, 0.6 * half], self.colour, name=f"{self.name}_look", pos=[0, 0, 0.4 * half])
        visual(body, "cylinder", [0.62 * self.size, 0.0006], rim, name=f"{self.name}_ring", pos=[0, 0, half])
        side = 0.85 * self.size
        mass = self.density * math.pi * self.size**2 * self.height
        contact(
            body, "box", [side, side, half], "stand", mass=mass, name=f"{self.name}_body", friction=self._friction
        )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Bin(Loose):
    """An open box; its origin is the middle of its underside's plate."""

    half: float = 0.075  # of the outside, in x and y
    height: float = 0.05
    wall: float = 0.005  # half thickness

    category = "bin"

    @property
    def radius(self) -> float:
        return math.hypot(self.half, self.half)

    @property
    def rest_height(self) -> float:
        return self.wall

    @property
    def inner(self) -> float:
        """Half width of the inside, metres."""
        return self.half - 2 * self.wall

    def regions(self) -> tuple[Region, ...]:
        return (Region(f"{self.name}_inside", self.name, (0.06, 0.06, 0.025)),)

    def _contacts(self) -> list[str]:
        return [f"{self.name}_body", *(f"{self.name}_wall{i}" for i in range(4))]

    def _geoms(self, body: Any) -> None:
        self._free(body)
        w, h, middle = self.wall, self.height / 2, self.half - self.wall
        dark = tuple(0.8 * c for c in self.colour)
        floor = [self.half, self.half, w]
        visual(body, "box", floor, dark, name=f"{self.name}_look")
        contact(body, "box", floor, "stand", mass=0.6, name=f"{self.name}_body", friction=self._friction)
        for i, (x, y) in enumerate(((1, 0), (-1, 0), (0, 1), (0, -1))):
            size, pos = [w if x else self.half, w if y else self.half, h], [x * middle, y * middle, h - w]
            visual(body, "box", size, self.colour, name=f"{self.name}_wall_look{i}", pos=pos)
            contact(body, "box", size, "side", mass=0.1, name=f"{self.name}_wall{i}", pos=pos, friction=self._friction)
        add_region(body, self.regions()[0], [0, 0, 0.025])


@dataclasses.dataclass(frozen=True)
class Peg(Loose):
    """A round peg that stands upright; it collides as a capsule, so its lower end finds a hole."""

    size: tuple[float, float] = (0.014, 0.042)  # radius, half height

    category = "peg"

    @property
    def radius(self) -> float:
        return self.size[0]

    @property
    def rest_height(self) -> float:
        return self.size[1]

    def _contacts(self) -> list[str]:
        return [f"{self.name}_foot", f"{self.name}_body"]

    def _geoms(self, body: Any) -> None:
        self._free(body)
        r, h = self.size
        mass = self.density * math.pi * r**2 * 2 * h
        dark, taper = tuple(0.7 * c for c in self.colour), 0.75 * r
        visual(body, "cylinder", [r, h - 0.01], self.colour, name=f"{self.name}_look", pos=[0, 0, 0.01])
        visual(body, "ellipsoid", [r, r, 0.02], self.colour, name=f"{self.name}_end", pos=[0, 0, -h + 0.02])
        visual(body, "cylinder", [0.8 * r, 0.001], dark, name=f"{self.name}_top", pos=[0, 0, h])
        foot = [0.7 * taper, 0.7 * taper, h]
        contact(body, "box", foot, "foot", mass=mass, name=f"{self.name}_foot", friction=self._friction)
        contact(body, "capsule", [r, h - r], "held", name=f"{self.name}_body", friction=self._friction)
