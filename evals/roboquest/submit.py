"""The SUBMIT button, with the benchmark's measures: a box with a cap on a spring. Its press ends an episode.

Unlike the benchmark's, the cap collides as a box.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from evals.tabletop.fixtures import Fixture
from evals.tabletop.shapes import contact, joint, visual
from mjx_bench.task import Atom, Entity, Threshold

BASE = (0.048, 0.043, 0.010)  # half sizes
CAP_HEIGHT = 0.032  # of the cap's middle above the table, at rest
RADIUS, HALF_HEIGHT, MASS = 0.036, 0.010, 0.025
STIFFNESS, DAMPING, TRAVEL = 160.0, 2.0, 0.009
PRESSED = 0.003
SAG = MASS * 9.81 / STIFFNESS  # what the cap's weight presses it down by


@dataclasses.dataclass(frozen=True)
class Submit(Fixture):
    """The button; the joint's position is how far the cap is pressed, metres.

    Objects meet the cap as the hand does, and can weigh it down; that is no press.
    """

    category = "submit"

    @property
    def joint(self) -> str:
        return f"{self.name}_press"

    @property
    def radius(self) -> float:
        return math.hypot(BASE[0], BASE[1])

    @property
    def press(self) -> tuple[Atom, Atom]:
        """What counts as a press: the cap is down, and the hand presses it from above."""
        return Atom("turnon", (self.name,)), Atom("pressed", (self.name,))

    def entity(self) -> Entity:
        return Entity(
            self.name, "fixture", self.category, self.name, None, joints=(self.joint,),
            contact_geoms=(f"{self.name}_cap",),
            thresholds={"turnon": Threshold(">=", PRESSED), "turnoff": Threshold("<", PRESSED)},
        )  # fmt: skip

    def add(self, world: Any, pos: Any, quat: Any) -> None:
        root = world.add_body(name=self.name, pos=pos, quat=quat)
        visual(root, "box", BASE, (0.20, 0.21, 0.23), name=f"{self.name}_look", pos=[0, 0, BASE[2]])
        contact(root, "box", BASE, "wall", name=f"{self.name}_base", pos=[0, 0, BASE[2]])
        cap = root.add_body(name=f"{self.name}_cap_body", pos=[0, 0, CAP_HEIGHT])
        # The armature keeps a cap of 25 g from chattering under a hand of a kilogram at this time step.
        joint(
            cap, "slide", name=self.joint, axis=[0, 0, -1], range=[0, TRAVEL], stiffness=STIFFNESS, damping=DAMPING,
            armature=0.01,
        )  # fmt: skip
        visual(cap, "cylinder", [RADIUS, HALF_HEIGHT], self.colour, name=f"{self.name}_cap_look")
        visual(
            cap, "box", [0.020, 0.004, 0.0008], (0.97, 0.97, 0.97), name=f"{self.name}_label", pos=[0, 0, HALF_HEIGHT]
        )
        # A box in the cylinder: MJX knows no contact between a cylinder and a box or a sphere.
        side = RADIUS / math.sqrt(2)
        contact(
            cap,
            "box",
            [side, side, HALF_HEIGHT],
            "wall",
            mass=MASS,
            name=f"{self.name}_cap",
            friction=[1.0, 0.01, 0.001],
        )
