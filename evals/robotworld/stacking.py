"""`BlockStackingSpecifiedOrderTask`: four blocks on each other, red at the bottom, then blue, green and yellow.

Task 42 of RobotWorld, scoring profile N: the first step after which all four are so ends the episode, wherever the stack is
and whether or not the hand has let go. What differs from it, beside `evals.robotworld.table`:

* Of the two readings of its 10 mm, the stricter: the middles of neighbours are no farther apart than that, level.
* That an upper block's corners are above the lower block is not asked for: blocks of 4 cm that touch with their middles so
  near each other, one above the other, leave no other way.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

from evals.robotworld.contract import contract
from evals.robotworld.table import make as make_at_rate
from evals.tabletop.draw import Draw, Placed
from evals.tabletop.objects import Block
from evals.tabletop.recipes import Recipe
from evals.tabletop.shapes import add_region
from mjx_bench.task import Atom, Region, Task, Threshold

NAME = "BlockStackingSpecifiedOrderTask"
INSTRUCTION = "stack the blocks in this order, from the bottom: red, blue, green, yellow"
VERSION = "1"  # of the generator: changes when an index comes to stand for another instance
HORIZON = contract(NAME).horizon

ORDER = ("red", "blue", "green", "yellow")
HALF = 0.02  # of a block, metres
ASIDE = 0.01  # metres between the middles of neighbours, level
_AIM = 0.007  # half a square whose corners are no farther from its middle than that
_GRIP_ROOM = 0.03


@dataclasses.dataclass(frozen=True)
class Stackable(Block):
    """A block with a region around its middle where the middle of the next one belongs."""

    half: tuple[float, float, float] = (HALF, HALF, HALF)

    def regions(self) -> tuple[Region, ...]:
        return (Region(f"{self.name}_aim", self.name, (_AIM, _AIM, HALF)),)

    def _geoms(self, body: Any) -> None:
        super()._geoms(body)
        add_region(body, self.regions()[0], [0.0, 0.0, 0.0])


def _draw(d: Draw) -> list[Placed]:
    blocks = [Stackable(f"{colour}_block", *d.stuff(colour)) for colour in ORDER]
    return [d.place(block, gap=_GRIP_ROOM) for block in blocks]


PAIRS = tuple((f"{upper}_block", f"{lower}_block") for lower, upper in itertools.pairwise(ORDER))
GOAL = (
    *(Atom("on", pair) for pair in PAIRS),
    *(Atom("apart", pair, Threshold("<=", ASIDE)) for pair in PAIRS),
)
RECIPE = Recipe(NAME, INSTRUCTION, GOAL, HORIZON, _draw)
EXPERT_GOAL = tuple(Atom("on", (upper, f"{lower}_aim")) for upper, lower in PAIRS)


def make(suite: str, index: int) -> Task:
    """The task."""
    return make_at_rate(RECIPE, suite, index, VERSION, EXPERT_GOAL)
