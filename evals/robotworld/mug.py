"""`WhiteMugInCenterOfTableTask`: put the white mug in the middle of the table and let go of it.

Task 45 of RobotWorld, scoring profile N: the first step after which the mug stands there, touched by the table and not by
the hand, ends the episode. What differs from it, beside `evals.robotworld.table`: the mug collides as a box with a handle.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from evals.robotworld.contract import contract
from evals.robotworld.table import make as make_at_rate
from evals.tabletop.draw import WORKSPACE, Draw, NoRoom, Placed
from evals.tabletop.fixtures import Fixture
from evals.tabletop.objects import Loose
from evals.tabletop.recipes import Recipe
from evals.tabletop.shapes import add_region, contact, visual
from mjx_bench.task import Atom, Entity, Region, Task, Threshold

NAME = "WhiteMugInCenterOfTableTask"
INSTRUCTION = "put the white mug in the center of the table"
VERSION = "1"  # of the generator: changes when an index comes to stand for another instance
HORIZON = contract(NAME).horizon

MIDDLE = (-0.1, 0.0)  # of the table top, metres
ASIDE = 0.05  # metres from it, level
FAR = 0.12  # metres from it where the mug starts, at least
_GRIP_ROOM = 0.03


@dataclasses.dataclass(frozen=True)
class Mug(Loose):
    """A mug that is taken by its body. It looks round, and its body collides as a box."""

    size: tuple[float, float] = (0.030, 0.042)  # half width, half height

    category = "mug"

    @property
    def radius(self) -> float:
        return self.size[0] + 0.03  # with its handle

    @property
    def rest_height(self) -> float:
        return self.size[1]

    def _contacts(self) -> list[str]:
        return [f"{self.name}_body", f"{self.name}_handle"]

    def _geoms(self, body: Any) -> None:
        self._free(body)
        r, h = self.size
        inside, mass = tuple(0.55 * c for c in self.colour), self.density * 8 * r * r * h
        visual(body, "cylinder", [1.05 * r, h], self.colour, name=f"{self.name}_look")
        visual(body, "cylinder", [0.88 * r, 0.001], inside, name=f"{self.name}_inside", pos=[0, 0, h])
        out, up = r + 0.022, 0.5 * h
        loop = ((r, up, out, up), (out, up, out, -up), (r, -up, out, -up))
        for i, (x0, z0, x1, z1) in enumerate(loop):
            visual(body, "capsule", [0.005], self.colour, name=f"{self.name}_loop{i}", fromto=[x0, 0, z0, x1, 0, z1])
        contact(body, "box", [r, r, h], "whole", mass=mass, name=f"{self.name}_body", friction=self._friction)
        contact(
            body, "capsule", [0.005], "spare", name=f"{self.name}_handle", fromto=[out, 0, up, out, 0, -up],
            friction=self._friction,
        )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class TableTop(Fixture):
    """The table, as something to stand on; its origin is the middle of its top. It is not seen: the room has a table."""

    category = "table"

    @property
    def radius(self) -> float:
        return 0.0  # in nothing's way

    def entity(self) -> Entity:
        return Entity(self.name, "fixture", self.category, self.name, None, contact_geoms=("table_plane",))

    def regions(self) -> tuple[Region, ...]:
        # `middle` takes in all of the circle that counts; the expert aims at what lies within it.
        return (
            Region(f"{self.name}_middle", self.name, (ASIDE + 0.01, ASIDE + 0.01, 0.01)),
            Region(f"{self.name}_aim", self.name, (0.03, 0.03, 0.01)),
        )

    def add(self, world: Any, pos: Any, quat: Any) -> None:
        root = world.add_body(name=self.name, pos=pos, quat=quat)
        for region in self.regions():
            add_region(root, region, [0, 0, 0.01])


def _draw(d: Draw) -> list[Placed]:
    mug = Mug(
        "white_mug", d.colour("white"), d.between(200.0, 500.0), d.friction(),
        size=(d.between(0.027, 0.031), d.between(0.038, 0.045)),
    )  # fmt: skip
    for _ in range(200):
        spot = d.between(*WORKSPACE[:2]), d.between(*WORKSPACE[2:])
        if math.dist(spot, MIDDLE) >= FAR:
            break
    else:
        raise NoRoom
    d.take(*spot, mug.radius)
    d.take(*MIDDLE, mug.radius + ASIDE)
    others = d.clutter(d.spares(), gap=_GRIP_ROOM)
    return [Placed(mug, spot, d.yaw()), *others, Placed(TableTop("table", (0, 0, 0)), MIDDLE)]


GOAL = (
    Atom("apart", ("white_mug", "table"), Threshold("<=", ASIDE)),
    Atom("on", ("white_mug", "table_middle")),
    Atom("free", ("white_mug",)),
)
RECIPE = Recipe(NAME, INSTRUCTION, GOAL, HORIZON, _draw)
EXPERT_GOAL = (Atom("on", ("white_mug", "table_aim")),)


def make(suite: str, index: int) -> Task:
    """The task."""
    return make_at_rate(RECIPE, suite, index, VERSION, EXPERT_GOAL)
