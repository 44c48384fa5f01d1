"""Cabinets whose front moves: a drawer and a door. Both have a handle that the fingers can close around from above."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from evals.tabletop.fixtures import Fixture
from evals.tabletop.shapes import contact, joint, visual
from mjx_bench.task import Entity, Threshold

METAL = (0.75, 0.77, 0.80)


@dataclasses.dataclass(frozen=True)
class Drawer(Fixture):
    """A low cabinet with one drawer that opens towards its own -y; the joint is how far it is out, metres."""

    half: tuple[float, float, float] = (0.10, 0.085, 0.05)
    damping: float = 6.0

    category = "drawer"
    travel = 0.15
    opened, closed = 0.09, 0.008
    bar = (0.045, 0.0065)  # half length and radius of the handle
    standoff = 0.042  # of the handle before the front
    bar_height = 0.085

    @property
    def joint(self) -> str:
        return f"{self.name}_slide"

    @property
    def rest_height(self) -> float:
        return self.bar_height

    @property
    def radius(self) -> float:
        return math.hypot(self.half[0], self.half[1])

    def entity(self) -> Entity:
        return Entity(
            self.name, "fixture", self.category, self.name, None, joints=(self.joint,),
            contact_geoms=(f"{self.name}_cabinet", f"{self.name}_front", f"{self.name}_handle"),
            thresholds={"open": Threshold(">=", self.opened), "close": Threshold("<=", self.closed)},
        )  # fmt: skip

    def add(self, world: Any, pos: Any, quat: Any) -> None:
        origin = world.add_body(name=self.name, pos=pos, quat=quat)
        root = origin.add_body(name=f"{self.name}_case", pos=[0, 0, -self.rest_height])
        x, y, z = self.half
        t, front = 0.006, 0.008  # half thickness of the cabinet's boards and of the drawer's front
        inside = tuple(0.55 * c for c in self.colour)
        for part, size, at in (
            ("top", [x, y, t], [0, 0, 2 * z - t]),
            ("floor", [x, y, t], [0, 0, t]),
            ("back", [x - 2 * t, t, z - 2 * t], [0, y - t, z]),
            ("left", [t, y, z - 2 * t], [x - t, 0, z]),
            ("right", [t, y, z - 2 * t], [t - x, 0, z]),
        ):
            visual(root, "box", size, self.colour if part != "floor" else inside, name=f"{self.name}_{part}", pos=at)
        contact(root, "box", self.half, "wall", name=f"{self.name}_cabinet", pos=[0, 0, z])
        tray = root.add_body(name=f"{self.name}_tray", pos=[0, -y - front, z])
        joint(
            tray, "slide", name=self.joint, axis=[0, -1, 0], range=[0, self.travel], damping=self.damping, armature=0.1
        )
        light = tuple(min(1.0, 1.18 * c) for c in self.colour)
        visual(tray, "box", [x - 0.002, front, z - 0.003], light, name=f"{self.name}_front_look")
        depth = y - 0.012
        for side, x_at in (("a", x - 0.016), ("b", 0.016 - x)):
            visual(
                tray, "box", [0.004, depth, 0.024], inside, name=f"{self.name}_side_{side}", pos=[x_at, depth, -0.012]
            )
        visual(tray, "box", [x - 0.012, depth, 0.003], inside, name=f"{self.name}_bottom", pos=[0, depth, -0.033])
        contact(tray, "box", [x, front, z - 0.003], "wall", mass=0.4, name=f"{self.name}_front")
        length, radius = self.bar
        out, up = -front - self.standoff, self.bar_height - z
        bar = [-length, out, up, length, out, up]
        visual(tray, "capsule", [radius], METAL, name=f"{self.name}_handle_look", fromto=bar)
        for end in (-length, length):
            post = [end, -front, up, end, out, up]
            visual(tray, "capsule", [0.8 * radius], METAL, name=f"{self.name}_post{end > 0:d}", fromto=post)
        contact(tray, "capsule", [radius], "handle", mass=0.05, name=f"{self.name}_handle", fromto=bar)


@dataclasses.dataclass(frozen=True)
class Door(Fixture):
    """A cupboard whose door faces its own -y and turns about its right edge (+x); the joint is the angle, radians."""

    half: tuple[float, float, float] = (0.10, 0.07, 0.065)
    damping: float = 0.3

    category = "door"
    travel = 1.7
    opened, closed = 0.7, 0.03
    bar = (0.028, 0.0065)  # half length and radius of the handle
    standoff = 0.045
    bar_height = 0.108  # of its middle

    @property
    def joint(self) -> str:
        return f"{self.name}_hinge"

    @property
    def rest_height(self) -> float:
        return self.bar_height

    @property
    def radius(self) -> float:
        return math.hypot(self.half[0], self.half[1])

    def entity(self) -> Entity:
        return Entity(
            self.name, "fixture", self.category, self.name, None, joints=(self.joint,),
            contact_geoms=(f"{self.name}_cabinet", f"{self.name}_panel", f"{self.name}_handle"),
            thresholds={"open": Threshold(">=", self.opened), "close": Threshold("<=", self.closed)},
        )  # fmt: skip

    def add(self, world: Any, pos: Any, quat: Any) -> None:
        origin = world.add_body(name=self.name, pos=pos, quat=quat)
        root = origin.add_body(name=f"{self.name}_case", pos=[0, 0, -self.rest_height])
        x, y, z = self.half
        t, panel = 0.006, 0.007
        inside = tuple(0.45 * c for c in self.colour)
        for part, size, at in (
            ("top", [x, y, t], [0, 0, 2 * z - t]),
            ("floor", [x, y, t], [0, 0, t]),
            ("back", [x - 2 * t, t, z - 2 * t], [0, y - t, z]),
            ("left", [t, y, z - 2 * t], [x - t, 0, z]),
            ("right", [t, y, z - 2 * t], [t - x, 0, z]),
            ("shelf", [x - t, y - 0.01, 0.003], [0, 0, z]),
        ):
            outside = part not in ("shelf", "floor", "back")
            visual(root, "box", size, self.colour if outside else inside, name=f"{self.name}_{part}", pos=at)
        contact(root, "box", self.half, "wall", name=f"{self.name}_cabinet", pos=[0, 0, z])
        leaf = root.add_body(name=f"{self.name}_leaf", pos=[x, -y - panel, z])
        joint(
            leaf, "hinge", name=self.joint, axis=[0, 0, 1], range=[0, self.travel], damping=self.damping, armature=0.003
        )
        light = tuple(min(1.0, 1.2 * c) for c in self.colour)
        visual(leaf, "box", [x - 0.002, panel, z - 0.002], light, name=f"{self.name}_panel_look", pos=[-x, 0, 0])
        visual(leaf, "cylinder", [0.008, z - 0.002], METAL, name=f"{self.name}_hinge_look", pos=[0, 0, 0])
        contact(leaf, "box", [x, panel, z - 0.002], "wall", mass=0.3, name=f"{self.name}_panel", pos=[-x, 0, 0])
        length, radius = self.bar
        edge, out, up = -2 * x + 0.03, -panel - self.standoff, self.bar_height - z
        bar = [edge, out, up - length, edge, out, up + length]
        visual(leaf, "capsule", [radius], METAL, name=f"{self.name}_handle_look", fromto=bar)
        post = [edge, -panel, up - length, edge, out, up - length]
        visual(leaf, "capsule", [0.9 * radius], METAL, name=f"{self.name}_post", fromto=post)
        contact(leaf, "capsule", [radius], "handle", mass=0.03, name=f"{self.name}_handle", fromto=bar)
