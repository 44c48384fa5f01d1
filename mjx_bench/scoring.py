"""A task's score as a pure function of signals, with what must be remembered for it. NumPy and JAX alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from mjx_bench.predicates import Test, compile_goal
from mjx_bench.rules import Atom, Fraction, Part, Score
from mjx_bench.signals import SignalIndex, Signals
from mjx_bench.task import Scene


class Scoring(NamedTuple):
    """A score, resolved.

    Attributes:
      start: memory of one episode before its first step.
      update: (memory [B], signals of B lanes) to the memory after that step, and the score [B] if the episode ends there.
    """

    start: Any
    update: Callable[[Any, Signals], tuple[Any, Any]]


def scoring_of(score: Score | Fraction, scene: Scene, index: SignalIndex) -> Scoring:
    """Resolves a score; raises `BenchError` as `predicates.compile_goal`."""
    if isinstance(score, Fraction):
        return _fraction(score, scene, index)
    wanted, unwanted = _each(score.wanted, scene, index), _each(score.unwanted, scene, index)

    def update(memory: Any, signals: Signals) -> tuple[Any, Any]:
        share = sum(test(signals) * np.float32(1.0 / len(wanted)) for test in wanted)
        return memory, _less(share, score.deduction, unwanted, signals)

    return Scoring((), update)


def _fraction(score: Fraction, scene: Scene, index: SignalIndex) -> Scoring:
    latches = [_each(tests, scene, index) for tests in score.latches]
    earned, possible = ([_part(p, scene, index) for p in parts] for parts in (score.earned, score.possible))
    unwanted = _each(score.unwanted, scene, index)

    def update(memory: Any, signals: Signals) -> tuple[Any, Any]:
        steps, *held = memory
        steps = steps + 1
        seen = [was | any_of(tests)(signals) for was, tests in zip(held, latches, strict=True)]
        if score.every > 1:
            sampled = steps % score.every == 0
            held = [_np(now).where(sampled, now, was) for was, now in zip(held, seen, strict=True)]
        else:
            held = seen
        sums = [sum(part(signals, seen) for part in parts) for parts in (earned, possible)]
        share = _np(sums[0]).clip(sums[0] / sums[1], 0.0, 1.0)  # thirds do not add up to 1 exactly
        return (steps, *held), _less(share, score.deduction, unwanted, signals)

    return Scoring((np.int32(0), *(np.bool_(False) for _ in latches)), update)


def _part(part: Part, scene: Scene, index: SignalIndex) -> Callable[[Signals, Sequence[Any]], Any]:
    given = _each((part.given,), scene, index) if part.given else []
    tests, weight = _each(part.tests, scene, index), np.float32(part.weight)

    def counts(signals: Signals, seen: Sequence[Any]) -> Any:
        either = [test(signals) for test in tests] + [seen[i] for i in part.latches]
        result = signals.touch[:, :0].any(1) if either else ~signals.touch[:, :0].any(1)  # none, or all, of the lanes
        for one in either:
            result = result | one
        for test in given:
            result = result & test(signals)
        return result * weight

    return counts


def _less(share: Any, deduction: float, unwanted: Sequence[Test], signals: Signals) -> Any:
    if not unwanted:
        return share
    less = np.float32(deduction) * any_of(unwanted)(signals)
    return _np(share).clip(share - less, 0.0, 1.0)


def _each(tests: Sequence[Sequence[Atom]], scene: Scene, index: SignalIndex) -> list[Test]:
    return [compile_goal(atoms, scene, index)[1] for atoms in tests]


def any_of(tests: Sequence[Test]) -> Test:
    """The disjunction of tests, at least one."""

    def one(signals: Signals) -> Any:
        result = tests[0](signals)
        for test in tests[1:]:
            result = result | test(signals)
        return result

    return one


def _np(array: Any) -> Any:
    return array.__array_namespace__()
