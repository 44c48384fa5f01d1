"""What counts in an episode, as data: tests of an instant (atoms), and the rules that say when they count."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from typing import Any, Literal

Comparison = Literal["<", "<=", ">", ">="]

COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclasses.dataclass(frozen=True)
class Threshold:
    """A test `q <comparison> value` of a joint's position (radians for hinges, metres for slides) or of a measure."""

    comparison: Comparison
    value: float


@dataclasses.dataclass(frozen=True)
class Atom:
    """One predicate applied to named entities or regions: `Atom("on", ("bowl_1", "plate_1"))`.

    Predicates: on, in, inside, outside, open, close, turnon, turnoff, up, touched, free.

    With a bound, the predicate is a measure, and the atom says that it stays within the bound:
    `Atom("distance", ("payload", "target"), Threshold("<=", 0.15))`. Measures: `measures.MEASURES`.
    """

    predicate: str
    args: tuple[str, ...]
    bound: Threshold | None = None

    def __str__(self) -> str:
        # Of a road of many parts, where it begins and ends.
        args = self.args if len(self.args) <= 4 else (*self.args[:2], "...", self.args[-1])
        text = f"{self.predicate}({', '.join(args)})"
        return text if self.bound is None else f"{text} {self.bound.comparison} {self.bound.value:g}"


@dataclasses.dataclass(frozen=True)
class Score:
    """How far a task is: the share of what is wanted that holds, less a deduction if anything unwanted does; never below 0.

    Attributes:
      wanted: tests, each a conjunction of atoms; at least one.
      unwanted: likewise, or none.
      deduction: made once, however many of the unwanted hold.
    """

    wanted: tuple[tuple[Atom, ...], ...]
    unwanted: tuple[tuple[Atom, ...], ...] = ()
    deduction: float = 0.1


@dataclasses.dataclass(frozen=True)
class Crossing:
    """Something that happens between one step and the next, once.

    Attributes:
      before: atoms that held after the step before.
      after: atoms that hold after this one.
    """

    before: tuple[Atom, ...]
    after: tuple[Atom, ...]


@dataclasses.dataclass(frozen=True)
class Covered:
    """A distance that has been covered.

    Attributes:
      speed: a measure without a bound, m/s.
      when: atoms; only steps after which they hold add to it.
      period: of a step, seconds.
      least: metres.
    """

    speed: Atom
    when: tuple[Atom, ...]
    period: float
    least: float


@dataclasses.dataclass(frozen=True)
class Rules:
    """When the goal counts, and what else ends an episode. By default the first step after which the goal holds does both.

    Attributes:
      hold: steps in a row, up to the horizon, after each of which the goal must hold; the episode runs to its horizon, and a
        step without it forfeits all before. None for a goal of an instant.
      at_once: a hold that is long enough ends the episode, wherever in it that is.
      stages: conjunctions of atoms, each of which must have held in its turn, one a step, before the goal counts.
      submit: atoms that together end the episode; the goal counts at that instant and at no other.
      events: each of which must have been, in any order, before the goal counts.
      failures: any of these ends the episode, in failure even where the goal holds after the same step.
      score: progress in [0, 1]; where there is none, progress is 1 or 0, whether the goal is reached.
    """

    hold: int | None = None
    at_once: bool = False
    stages: tuple[tuple[Atom, ...], ...] = ()
    events: tuple[Crossing | Covered, ...] = ()
    submit: tuple[Atom, ...] = ()
    failures: tuple[Atom, ...] = ()
    score: Score | None = None

    def atoms(self) -> tuple[Atom, ...]:
        """Everything that the rules read beside the goal."""
        scored = () if self.score is None else (*self.score.wanted, *self.score.unwanted)
        happen = [(e.speed, *e.when) if isinstance(e, Covered) else (*e.before, *e.after) for e in self.events]
        return (*self.submit, *self.failures, *(atom for test in (*self.stages, *happen, *scored) for atom in test))


# The rules of a task that has none.
GOAL_ALONE = Rules()
