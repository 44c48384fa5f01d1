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

    Predicates: on, in, inside, outside, open, close, turnon, turnoff, up, touching, clear, touched, free, held.

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
class Part:
    """A part of a `Fraction`. It counts while all of `given` hold, and with them one of `tests` or of what has been.

    Attributes:
      weight: what it counts.
      given: atoms.
      tests: conjunctions of atoms; with neither these nor latches, `given` is enough.
      latches: numbers of the fraction's latches.
    """

    weight: float = 1.0
    given: tuple[Atom, ...] = ()
    tests: tuple[tuple[Atom, ...], ...] = ()
    latches: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class Fraction:
    """How far a task is: what has been earned of what could be, less a deduction if anything unwanted holds; never below 0.

    Attributes:
      earned: parts.
      possible: parts, of which at least one always counts.
      latches: each is conjunctions of atoms, and is set for good by a sample at which one of them holds.
      every: steps from one sample to the next. The step that is judged counts as a sample too, for itself alone.
      unwanted: conjunctions of atoms.
      deduction: made once, however many of the unwanted hold.
    """

    earned: tuple[Part, ...]
    possible: tuple[Part, ...]
    latches: tuple[tuple[tuple[Atom, ...], ...], ...] = ()
    every: int = 1
    unwanted: tuple[tuple[Atom, ...], ...] = ()
    deduction: float = 0.1

    def atoms(self) -> tuple[Atom, ...]:
        """Everything that it reads."""
        parts = (*self.earned, *self.possible)
        tests = (
            *(p.given for p in parts),
            *(t for p in parts for t in p.tests),
            *(t for la in self.latches for t in la),
        )
        return tuple(dict.fromkeys(atom for test in (*tests, *self.unwanted) for atom in test))


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
class Hits:
    """Touches that come one by one, not too close to each other: of a ball that is kept up.

    Attributes:
      touch: atoms; a hit is a step after which they hold, and did not after the step before.
      between: atoms; a hit counts if they held after some step since the hit before it, or since the start.
      least: hits that must have counted at the end.
      apart: steps; a hit no more than so many after the one before ends the episode, in failure.
    """

    touch: tuple[Atom, ...]
    between: tuple[Atom, ...]
    least: int
    apart: int


@dataclasses.dataclass(frozen=True)
class Noted:
    """Something that cannot be undone and is written down, and neither ends an episode nor counts in it.

    Attributes:
      name: what it is called.
      atoms: it has been from the first step on after which they hold.
    """

    name: str
    atoms: tuple[Atom, ...]


@dataclasses.dataclass(frozen=True)
class Finds:
    """The goal's atoms are things to be found, each by the first step after which it holds, within a budget.

    All that are asked for found is success, and ends the episode. Progress is the share that is.

    Attributes:
      others: atoms that count as found likewise, and are never asked for.
      spare: how many different ones may be found, of both kinds, beyond as many as are asked for. The one that uses this up
        still counts, and ends the episode; of several after one step, those that are asked for come first.
      given: one for each of the goal's atoms, itself atoms: where they do not all hold it is not asked for, and counts among
        the others. They hold all the time or never, and for one of the goal's atoms at least. () where everything is asked.
    """

    others: tuple[Atom, ...]
    spare: int
    given: tuple[tuple[Atom, ...], ...] = ()


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
      hits: of which enough must have counted when the episode ends; the goal's hold may begin before.
      finds: what the goal's atoms are then, instead of a goal of an instant.
      score: progress in [0, 1]; where there is none, progress is 1 or 0, whether the goal is reached.
      whole: the goal counts only where the score is 1; for tasks that end with `submit`.
      noted: what else is to be known of an episode; see `mjx_bench.noted`.
    """

    hold: int | None = None
    at_once: bool = False
    stages: tuple[tuple[Atom, ...], ...] = ()
    events: tuple[Crossing | Covered, ...] = ()
    submit: tuple[Atom, ...] = ()
    failures: tuple[Atom, ...] = ()
    hits: Hits | None = None
    finds: Finds | None = None
    score: Score | Fraction | None = None
    whole: bool = False
    noted: tuple[Noted, ...] = ()

    def atoms(self) -> tuple[Atom, ...]:
        """Everything that the rules read beside the goal."""
        scored: tuple[tuple[Atom, ...], ...] = ()
        if isinstance(self.score, Fraction):
            scored = (self.score.atoms(),)
        elif self.score is not None:
            scored = (*self.score.wanted, *self.score.unwanted)
        happen = [(e.speed, *e.when) if isinstance(e, Covered) else (*e.before, *e.after) for e in self.events]
        hit = () if self.hits is None else (self.hits.touch, self.hits.between)
        return (
            *self.submit,
            *self.failures,
            *(() if self.finds is None else (*self.finds.others, *(a for given in self.finds.given for a in given))),
            *(atom for test in (*self.stages, *happen, *hit, *scored) for atom in test),
            *(atom for noted in self.noted for atom in noted.atoms),
        )


# The rules of a task that has none.
GOAL_ALONE = Rules()
