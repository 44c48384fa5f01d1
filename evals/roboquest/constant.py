"""A number of an instance that rules can read: a region whose height is the number. Nothing of it is seen or touched."""

from __future__ import annotations

import dataclasses
from typing import Any

from evals.tabletop.fixtures import Fixture
from evals.tabletop.shapes import add_region
from mjx_bench.task import Atom, Entity, Region, Threshold


@dataclasses.dataclass(frozen=True)
class Constant(Fixture):
    """A number by name."""

    value: float = 0.0

    category = "constant"

    @property
    def radius(self) -> float:
        return 0.0  # in nothing's way

    @property
    def region(self) -> str:
        """Name of the region."""
        return f"{self.name}_value"

    def at_least(self, value: float) -> Atom:
        """That the number is no less, whichever instance it is of."""
        return Atom("height", (self.region,), Threshold(">=", value))

    def below(self, value: float) -> Atom:
        """That the number is less."""
        return Atom("height", (self.region,), Threshold("<", value))

    def entity(self) -> Entity:
        return Entity(self.name, "fixture", self.category, self.name, None)

    def regions(self) -> tuple[Region, ...]:
        return (Region(self.region, None, (0.001, 0.001, 0.001)),)

    def add(self, world: Any, pos: Any, quat: Any) -> None:
        root = world.add_body(name=self.name, pos=pos)
        add_region(root, self.regions()[0], [0.0, 0.0, self.value - float(pos[2])])
