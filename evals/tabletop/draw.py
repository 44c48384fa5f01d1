"""Random draws of one instance: values, colours, and spots on the table that do not overlap."""

from __future__ import annotations

import colorsys
import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from evals.tabletop.fixtures import Fixture
from evals.tabletop.objects import Ball, Block, Can, Colour, Loose

# Where things may stand, metres from the origin: x from, x to, y from, y to. All of it is in the arm's reach and in view.
Area = tuple[float, float, float, float]
WORKSPACE: Area = (-0.14, 0.14, -0.22, 0.22)

# Hue (turns), saturation and value of each named colour, and how far each may stray.
HUES = {
    "red": (0.995, 0.85, 0.80),
    "orange": (0.075, 0.90, 0.95),
    "yellow": (0.145, 0.85, 0.95),
    "green": (0.36, 0.70, 0.60),
    "blue": (0.60, 0.80, 0.78),
    "purple": (0.77, 0.55, 0.62),
    "brown": (0.075, 0.55, 0.55),
    "teal": (0.50, 0.55, 0.55),
    "white": (0.10, 0.03, 0.95),
    "grey": (0.58, 0.08, 0.55),
}
HUE_STRAY, SHADE_STRAY = 0.015, 0.10

# Objects that an instance does not use wait on the table's plane behind the camera, at their usual height: an event that
# brings one in asks only where.
WAITING = (1.9, 0.25)  # metres: x, and between neighbours in y
SPOT_TRIES = 200


class NoRoom(Exception):
    """No free spot was found; the instance is drawn again."""


@dataclasses.dataclass(frozen=True)
class Placed:
    """A thing and its pose at the start.

    Attributes:
      xy: [2] of its origin on the table, metres.
      yaw: radians.
      joints: fixture's joint to its position.
      height: of its underside above the table, metres.
    """

    thing: Loose | Fixture
    xy: tuple[float, float]
    yaw: float = 0.0
    joints: Mapping[str, float] = dataclasses.field(default_factory=dict)
    height: float = 0.0

    @property
    def waits(self) -> bool:
        """Whether it takes no part in the instance."""
        return self.xy[0] >= WAITING[0]


class Draw:
    """The draws of one instance, in the order in which a task asks for them.

    Attributes:
      rng: where all of it comes from.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self._taken: list[tuple[float, float, float]] = []

    def between(self, low: float, high: float) -> float:
        """A uniform number."""
        return float(self.rng.uniform(low, high))

    def yaw(self, most: float = math.pi) -> float:
        """A rotation about the vertical, radians in [-most, most]."""
        return self.between(-most, most)

    def colour(self, name: str) -> Colour:
        """A shade of a named colour."""
        hue, saturation, value = HUES[name]
        return colorsys.hsv_to_rgb(
            (hue + self.between(-HUE_STRAY, HUE_STRAY)) % 1.0,
            min(1.0, saturation * self.between(1 - SHADE_STRAY, 1 + SHADE_STRAY)),
            min(1.0, value * self.between(1 - SHADE_STRAY, 1 + SHADE_STRAY)),
        )

    def density(self) -> float:
        """Of a solid object, kg/m^3: cork to hard plastic."""
        return float(np.exp(self.rng.uniform(math.log(250.0), math.log(1000.0))))

    def friction(self) -> float:
        """Sliding friction on the table."""
        return self.between(0.5, 1.0)

    def spot(self, radius: float, area: Area = WORKSPACE, gap: float = 0.015) -> tuple[float, float]:
        """A spot whose circle of `radius` keeps `gap` from all earlier ones.

        Raises:
          NoRoom: none was found.
        """
        x0, x1, y0, y1 = area
        for _ in range(SPOT_TRIES):
            x, y = self.between(x0, x1), self.between(y0, y1)
            if all(math.hypot(x - a, y - b) >= radius + r + gap for a, b, r in self._taken):
                self._taken.append((x, y, radius))
                return x, y
        raise NoRoom

    def take(self, x: float, y: float, radius: float) -> None:
        """Keeps later spots away from a circle."""
        self._taken.append((x, y, radius))

    def place(self, thing: Loose, area: Area = WORKSPACE, gap: float = 0.015) -> Placed:
        """A loose thing at a free spot, turned at random."""
        return Placed(thing, self.spot(thing.radius, area, gap), self.yaw())

    def clutter(
        self, things: Sequence[Loose], least: int = 0, area: Area = WORKSPACE, gap: float = 0.015
    ) -> list[Placed]:
        """Some of `things` (at least `least`, which ones is drawn) at free spots; the others wait."""
        count = int(self.rng.integers(least, len(things) + 1))
        used = set(self.rng.permutation(len(things))[:count].tolist())
        return [
            self.place(thing, area, gap) if i in used else Placed(thing, (WAITING[0], (i - 2) * WAITING[1]))
            for i, thing in enumerate(things)
        ]

    def spares(self) -> list[Loose]:
        """Five objects that no goal names, each of its own kind and colour."""
        side, low, radius = self.between(0.017, 0.022), self.between(0.016, 0.020), self.between(0.018, 0.023)
        tall, small = self.between(0.019, 0.022), self.between(0.019, 0.024)
        return [
            Block("blue_block", *self.stuff("blue"), half=(side, side, side), plain=True),
            Block("purple_block", *self.stuff("purple"), half=(low, 1.3 * low, low), plain=True),
            Can("orange_can", *self.stuff("orange"), size=(radius, tall)),
            Can("grey_can", *self.stuff("grey"), size=(small, 0.8 * tall)),
            Ball("yellow_ball", *self.stuff("yellow"), size=self.between(0.018, 0.022), plain=True),
        ]

    def stuff(self, colour: str) -> tuple[Colour, float, float]:
        """Colour, density and friction of a loose object."""
        return self.colour(colour), self.density(), self.friction()
