"""`search_room_open`: put two objects on the tray, leave the others off it, and press SUBMIT. One press, and all is settled.

A reduced Search Room of RoboQuest: its tray (a square painted on the table), its rules of success and progress, SUBMIT and
the freezing of the score, with every object in the open. What differs from it:

* The room, arm and controller are the native suite's: a fixed arm, 7 actions, no kitchen, no compartments, nothing hidden.
* The tray is 0.20 wide, not 0.34. An object is on it when its middle is so far inside that its corners cannot lie outside.
* Progress has no credit for an object that has merely left its place.
* Uprightness is not asked for (a block has no upper side), nor the force of a contact: an object on the tray that stands
  still and is not touched is supported.
* Positions and velocities are judged as the last physics step of a tick found them.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from evals.roboquest.submit import SAG, Submit
from evals.tabletop.draw import Area, Draw, Placed
from evals.tabletop.fixtures import Zone
from evals.tabletop.objects import Block
from evals.tabletop.recipes import Recipe
from evals.tabletop.shapes import add_region
from evals.tabletop.tasks import task_of
from mjx_bench.task import Atom, Region, Rules, Score, Task, Threshold

NAME = "search_room_open"
INSTRUCTION = "put the red block and the green block in the outlined square, nothing else, and press SUBMIT"
VERSION = "2"  # of the generator: changes when an index comes to stand for another instance
HORIZON = 500  # ticks of 1/20 s

TARGETS, OTHERS = ("red_block", "green_block"), ("blue_block", "purple_block", "orange_can")
STILL_SPEED, STILL_SPIN = 0.03, 0.2
TRAY_HALF, INSIDE = 0.10, 0.004
LEAST, MOST = 0.017, 0.022  # half sizes of blocks

_TRAYS: Area = (-0.03, 0.05, 0.11, 0.13)
_BUTTONS: Area = (-0.12, -0.10, -0.22, -0.20)
_OBJECTS: Area = (-0.14, 0.14, -0.22, -0.025)  # clear of the tray
_GRIP_ROOM = 0.03


@dataclasses.dataclass(frozen=True)
class Tray(Zone):
    """The outlined square. `tray_area` takes in objects of every size; what lies beyond `tray_around` cannot overlap it."""

    half: float = TRAY_HALF
    tolerance: float = TRAY_HALF - INSIDE - MOST * math.sqrt(2)

    category = "tray"

    def regions(self) -> tuple[Region, ...]:
        reach = self.half + LEAST
        return (*super().regions(), Region(f"{self.name}_around", None, (reach, reach, 0.06)))

    def add(self, world: Any, pos: Any, quat: Any) -> None:
        super().add(world, pos, quat)
        add_region(world.find_child(self.name), self.regions()[1], [0, 0, 0.06])


SUBMIT = Submit("submit", (0.85, 0.08, 0.08))


def _draw(d: Draw) -> list[Placed]:
    button, tray = d.spot(SUBMIT.radius, _BUTTONS), d.spot(TRAY_HALF, _TRAYS)
    blocks = [
        Block(name, *d.stuff(name.removesuffix("_block")), half=tuple(d.between(LEAST, MOST) for _ in range(3)))  # type: ignore[arg-type]
        for name in (*TARGETS, OTHERS[0])
    ]
    spares = [spare for spare in d.spares() if spare.name in OTHERS[1:]]
    return [
        *(d.place(block, _OBJECTS, _GRIP_ROOM) for block in blocks),
        *d.clutter(spares, area=_OBJECTS, gap=_GRIP_ROOM),
        Placed(Tray("tray", d.colour("yellow")), tray),
        Placed(SUBMIT, button, joints={SUBMIT.joint: SAG}),
    ]


def _settled(name: str) -> tuple[Atom, ...]:
    """Released and still."""
    return (
        Atom("free", (name,)),
        Atom("speed", (name,), Threshold("<=", STILL_SPEED)),
        Atom("spin", (name,), Threshold("<=", STILL_SPIN)),
    )


PLACED = tuple((Atom("on", (name, "tray_area")), *_settled(name)) for name in TARGETS)
GOAL = (
    *(atom for placed in PLACED for atom in placed),
    *(Atom("outside", (name, "tray_around")) for name in OTHERS),
    *(atom for name in OTHERS for atom in _settled(name)),
)
RULES = Rules(
    submit=SUBMIT.press,
    score=Score(PLACED, tuple((Atom("inside", (name, "tray_around")),) for name in OTHERS), deduction=0.1),
)
RECIPE = Recipe(NAME, INSTRUCTION, GOAL, HORIZON, _draw)


def make(suite: str, index: int) -> Task:
    """The task."""
    return dataclasses.replace(task_of(RECIPE, suite, index, f"roboquest-{VERSION}"), rules=RULES)
