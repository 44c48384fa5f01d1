"""What stands on the table and stays there: its root body hangs on the world, and its joints move."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from evals.tabletop.shapes import add_region, contact, joint, visual
from mjx_bench.task import Entity, Region, Threshold

Colour = tuple[float, float, float]


@dataclasses.dataclass(frozen=True)
class Fixture:
    """Attributes:
    name: of entity and root body.
    colour: RGB, 0 to 1.
    """

    name: str
    colour: Colour

    @property
    def radius(self) -> float:
        """Horizontal reach from the origin, metres."""
        raise NotImplementedError

    @property
    def rest_height(self) -> float:
        """Of the origin above the table, metres. Events trigger by the distance of the hand from it."""
        return 0.0

    @property
    def free_joint(self) -> None:
        """It has none."""
        return None

    def entity(self) -> Entity:
        """The contract's description of it."""
        raise NotImplementedError

    def regions(self) -> tuple[Region, ...]:
        """Sites in it that goals refer to."""
        return ()

    def add(self, world: Any, pos: Any, quat: Any) -> None:
        """Adds it with its origin at `pos` [3], turned by `quat` wxyz."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class Button(Fixture):
    """A housing with a cap on a spring; the joint's position is how far the cap is pressed, metres."""

    housing: tuple[float, float, float] = (0.045, 0.045, 0.02)
    cap: float = 0.026  # radius
    stiffness: float = 250.0  # N/m

    category = "button"
    travel = 0.014
    pressed = 0.009
    lift = 0.018  # of the cap's top above the housing

    @property
    def joint(self) -> str:
        return f"{self.name}_press"

    @property
    def radius(self) -> float:
        return math.hypot(self.housing[0], self.housing[1])

    def entity(self) -> Entity:
        return Entity(
            self.name, "fixture", self.category, self.name, None, joints=(self.joint,),
            contact_geoms=(f"{self.name}_housing", f"{self.name}_cap"),
            thresholds={"turnon": Threshold(">=", self.pressed), "turnoff": Threshold("<", self.pressed)},
        )  # fmt: skip

    def add(self, world: Any, pos: Any, quat: Any) -> None:
        root = world.add_body(name=self.name, pos=pos, quat=quat)
        z = self.housing[2]
        visual(root, "box", self.housing, (0.93, 0.76, 0.18), name=f"{self.name}_look", pos=[0, 0, z])
        visual(
            root, "cylinder", [self.cap + 0.005, 0.003], (0.2, 0.2, 0.22), name=f"{self.name}_ring", pos=[0, 0, 2 * z]
        )
        contact(root, "box", self.housing, "wall", name=f"{self.name}_housing", pos=[0, 0, z])
        cap = root.add_body(name=f"{self.name}_cap_body", pos=[0, 0, 2 * z + self.lift], gravcomp=1.0)
        joint(
            cap, "slide", name=self.joint, axis=[0, 0, -1], range=[0, self.travel], stiffness=self.stiffness,
            springref=-0.006, damping=3.0, armature=0.01,
        )  # fmt: skip
        half = self.lift / 2 + 0.002
        visual(cap, "cylinder", [self.cap, half], self.colour, name=f"{self.name}_cap_look", pos=[0, 0, -half])
        side = 0.85 * self.cap
        contact(cap, "box", [side, side, half], "key", mass=0.05, name=f"{self.name}_cap", pos=[0, 0, -half])


@dataclasses.dataclass(frozen=True)
class Knob(Fixture):
    """A rotary switch on a housing; the joint is its angle, counter-clockwise from above, radians."""

    housing: tuple[float, float, float] = (0.055, 0.055, 0.02)
    grip: tuple[float, float, float] = (0.032, 0.0085, 0.017)
    damping: float = 0.04

    category = "knob"
    travel = 1.9
    turned = 1.1

    @property
    def joint(self) -> str:
        return f"{self.name}_turn"

    @property
    def radius(self) -> float:
        return math.hypot(self.housing[0], self.housing[1])

    def entity(self) -> Entity:
        return Entity(
            self.name, "fixture", self.category, self.name, None, joints=(self.joint,),
            contact_geoms=(f"{self.name}_housing", f"{self.name}_grip"),
            thresholds={"turnon": Threshold(">=", self.turned), "turnoff": Threshold("<", self.turned)},
        )  # fmt: skip

    def add(self, world: Any, pos: Any, quat: Any) -> None:
        root = world.add_body(name=self.name, pos=pos, quat=quat)
        z = self.housing[2]
        visual(root, "box", self.housing, (0.30, 0.33, 0.38), name=f"{self.name}_look", pos=[0, 0, z])
        visual(root, "cylinder", [0.048, 0.001], (0.86, 0.88, 0.90), name=f"{self.name}_dial", pos=[0, 0, 2 * z])
        # A mark where it starts and one where it counts as turned.
        for part, angle, colour in (("off", 0.0, (0.3, 0.3, 0.3)), ("on", self.turned, (0.10, 0.62, 0.25))):
            at = [0.041 * math.cos(angle), 0.041 * math.sin(angle), 2 * z + 0.001]
            visual(root, "cylinder", [0.007, 0.0012], colour, name=f"{self.name}_{part}", pos=at)
        contact(root, "box", self.housing, "wall", name=f"{self.name}_housing", pos=[0, 0, z])
        cap = root.add_body(name=f"{self.name}_cap", pos=[0, 0, 2 * z + 0.003])
        joint(
            cap, "hinge", name=self.joint, axis=[0, 0, 1], range=[0, self.travel], damping=self.damping, armature=0.0005
        )
        visual(cap, "cylinder", [0.034, 0.004], self.colour, name=f"{self.name}_skirt", pos=[0, 0, 0.002])
        visual(cap, "box", self.grip, self.colour, name=f"{self.name}_grip_look", pos=[0, 0, self.grip[2]])
        pointer = [0.010, 0.002, 0.001]
        at = [self.grip[0] - 0.012, 0, 2 * self.grip[2]]
        visual(cap, "box", pointer, (0.97, 0.97, 0.97), name=f"{self.name}_pointer", pos=at)
        contact(cap, "box", self.grip, "handle", mass=0.05, name=f"{self.name}_grip", pos=[0, 0, self.grip[2]])


@dataclasses.dataclass(frozen=True)
class Board(Fixture):
    """A block with a square hole through it, for a round peg."""

    half: float = 0.06
    height: float = 0.03
    hole: float = 0.017  # half width

    category = "board"

    @property
    def radius(self) -> float:
        return math.hypot(self.half, self.half)

    def entity(self) -> Entity:
        walls = tuple(f"{self.name}_wall{i}" for i in range(4))
        return Entity(self.name, "fixture", self.category, self.name, None, contact_geoms=walls)

    def regions(self) -> tuple[Region, ...]:
        return (Region(f"{self.name}_hole", self.name, (0.008, 0.008, 0.012)),)

    def add(self, world: Any, pos: Any, quat: Any) -> None:
        root = world.add_body(name=self.name, pos=pos, quat=quat)
        h = self.height / 2
        across = (self.half - self.hole) / 2
        middle = self.hole + across
        frame = self.hole + 0.004
        dark = (0.12, 0.13, 0.15)
        visual(root, "box", [self.hole, self.hole, 0.0008], dark, name=f"{self.name}_bottom", pos=[0, 0, 0.0008])
        for i, (x, y) in enumerate(((1, 0), (-1, 0), (0, 1), (0, -1))):
            size = [across, self.half, h] if x else [self.hole, across, h]
            visual(root, "box", size, self.colour, name=f"{self.name}_look{i}", pos=[x * middle, y * middle, h])
            contact(root, "box", size, "wall", name=f"{self.name}_wall{i}", pos=[x * middle, y * middle, h])
            edge = [0.002, frame, 0.0006] if x else [frame, 0.002, 0.0006]
            at = [x * (self.hole + 0.002), y * (self.hole + 0.002), 2 * h]
            visual(root, "box", edge, (0.95, 0.95, 0.95), name=f"{self.name}_edge{i}", pos=at)
        add_region(root, self.regions()[0], [0, 0, 0.042])


@dataclasses.dataclass(frozen=True)
class Zone(Fixture):
    """A square painted on the table; something counts as in it when its middle is in the region."""

    half: float = 0.075
    tolerance: float = 0.03

    category = "zone"

    @property
    def radius(self) -> float:
        return math.hypot(self.half, self.half)

    def entity(self) -> Entity:
        return Entity(self.name, "fixture", self.category, self.name, None)

    def regions(self) -> tuple[Region, ...]:
        # No parent: to be in it takes no contact.
        return (Region(f"{self.name}_area", None, (self.tolerance, self.tolerance, 0.01)),)

    def add(self, world: Any, pos: Any, quat: Any) -> None:
        root = world.add_body(name=self.name, pos=pos, quat=quat)
        visual(root, "box", [self.half, self.half, 0.0006], self.colour, name=f"{self.name}_look")
        inner = self.half - 0.008
        pale = tuple(0.5 + 0.5 * c for c in self.colour)
        visual(root, "box", [inner, inner, 0.0009], pale, name=f"{self.name}_inner")
        add_region(root, self.regions()[0], [0, 0, 0.01])
