"""Conditions over time as pure functions: what must be remembered of an episode, and what one more sample makes of it.

A checker reads samples: `Signals`, or anything else whose arrays have lanes along the first axis, through tests
(`predicates.compile_atom`, or any function of a sample to bool [B]). Checkers are made of tests and of other checkers:

  what holds now            now, exactly
  what lasts                hold (starts again after any gap), always (a fixed window, broken once is broken for good)
  what happens              rises, previous, switch, recent, once, count and too_soon (with a refractory time), total, rally
  in which order            order (stages), gates (directed lines that a point crosses), after
  what must not happen      never; and Trial, in which any failure wins over success after the same sample

They use operators that NumPy and JAX arrays share, so that one lane or many are judged on a host or inside a compiled scan.
Samples are numbered by ticks that rise by one; `samples_of_hold` and `ticks_of_window` turn seconds into them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from mjx_bench.memories import where

# Sample to bool [B], and sample to float [B] or [B, n].
Test = Callable[[Any], Any]
Reading = Callable[[Any], Any]

# `TrialState.ended`; from `FAILED` on, one number for each failure.
RUNNING, SUCCEEDED, FAILED = 0, 1, 2
# A tick long before any other.
LONG_AGO = np.int32(-(2**30))
# Seconds by which a time may fall short of its bound, for rounding alone.
HOLD_SLACK, TIMER_SLACK = 1e-10, 1e-9


class Checker(NamedTuple):
    """A condition over time.

    Attributes:
      start: memory of one episode before its first sample: NumPy scalars and small arrays, in tuples.
      update: (memory [B], sample of B lanes, tick int32 [B]) to the memory after that sample, and whether the condition is
        met there, bool [B].
    """

    start: Any
    update: Callable[[Any, Any, Any], tuple[Any, Any]]


def samples_of_hold(seconds: float, hz: float) -> int:
    """Samples in a row that span `seconds` with both ends included: 101 for two seconds at 50 Hz."""
    return math.ceil((seconds - HOLD_SLACK) * hz) + 1


def samples_of_timer(seconds: float, hz: float) -> int:
    """Samples in a row after which a timer that each adds its period to has reached `seconds`: 50 for a second at 50 Hz."""
    return math.ceil((seconds - TIMER_SLACK) * hz)


def ticks_of_window(begin: float, end: float, hz: float) -> tuple[int, int]:
    """First and last tick of the window from `begin` to `end` seconds, rounded outwards."""
    return math.floor(begin * hz), math.ceil(end * hz)


def now(test: Test) -> Checker:
    """Met while the test holds: at the last sample, what counts is how it ended."""
    return Checker((), lambda memory, sample, tick: (memory, test(sample)))


def exactly(number: int, tests: Sequence[Test]) -> Checker:
    """Met while that many of the tests hold, no more and no fewer."""

    def update(memory: Any, sample: Any, tick: Any) -> tuple[Any, Any]:
        return memory, sum(test(sample) * np.int32(1) for test in tests) == number

    return Checker((), update)


def every(*checkers: Checker) -> Checker:
    """Met while all of them are."""
    return _together(checkers, lambda a, b: a & b)


def either(*checkers: Checker) -> Checker:
    """Met while one of them is."""
    return _together(checkers, lambda a, b: a | b)


def hold(test: Test, samples: int) -> Checker:
    """Met when the test has held at that many samples in a row, up to this one. A sample without it forfeits all before."""

    def update(run: Any, sample: Any, tick: Any) -> tuple[Any, Any]:
        holds = test(sample)
        run = _np(holds).where(holds, run + 1, 0)
        return run, run >= samples

    return Checker(np.int32(0), update)


def always(test: Test, first: int, last: int) -> Checker:
    """Met from tick `last` on, if the test held at every tick of first..last. What broke it once is never repaired."""

    def update(broken: Any, sample: Any, tick: Any) -> tuple[Any, Any]:
        broken = broken | ((tick >= first) & (tick <= last) & ~test(sample))
        return broken, (tick >= last) & ~broken

    return Checker(np.bool_(False), update)


def once(event: Checker) -> Checker:
    """Met as soon as `event` has been, and for ever after."""

    def update(memory: Any, sample: Any, tick: Any) -> tuple[Any, Any]:
        inner, met = event.update(memory[0], sample, tick)
        seen = memory[1] | met
        return (inner, seen), seen

    return Checker((event.start, np.bool_(False)), update)


def never(event: Checker) -> Checker:
    """Met as long as `event` has not been."""
    seen = once(event)

    def update(memory: Any, sample: Any, tick: Any) -> tuple[Any, Any]:
        memory, met = seen.update(memory, sample, tick)
        return memory, ~met

    return Checker(seen.start, update)


def rises(checker: Checker, *, before: bool = False) -> Checker:
    """Met at samples where `checker` is and was not at the one before.

    Args:
      checker: what rises.
      before: how it counts before the first sample; True if what holds from the start is no event.
    """

    def update(memory: Any, sample: Any, tick: Any) -> tuple[Any, Any]:
        inner, met = checker.update(memory[0], sample, tick)
        return (inner, met), met & ~memory[1]

    return Checker((checker.start, np.bool_(before)), update)


def previous(test: Test) -> Checker:
    """Met where the test held at the sample before; not at the first."""

    def update(before: Any, sample: Any, tick: Any) -> tuple[Any, Any]:
        return test(sample), before

    return Checker(np.bool_(False), update)


def switch(on: Test, off: Test) -> Checker:
    """Met from a sample with `on` to the next with `off`: a press above one threshold and a release below another."""

    def update(met: Any, sample: Any, tick: Any) -> tuple[Any, Any]:
        met = (met | on(sample)) & ~off(sample)
        return met, met

    return Checker(np.bool_(False), update)


def recent(test: Test, samples: int) -> Checker:
    """Met where the test holds, and for that many samples after."""

    def update(last: Any, sample: Any, tick: Any) -> tuple[Any, Any]:
        holds = test(sample)
        last = _np(holds).where(holds, tick, last)
        return last, tick - last <= samples

    return Checker(LONG_AGO, update)


def count(event: Checker, times: int, *, refractory: int = 0, most: int | None = None) -> Checker:
    """Met when `event` has been counted `times` times; events no more than `refractory` ticks after a counted one are not.

    Args:
      event: met at samples to count; of one that lasts, `rises`.
      times: at least.
      refractory: ticks.
      most: at most; None for any number.
    """
    counted = _counted(event, refractory)

    def update(memory: Any, sample: Any, tick: Any) -> tuple[Any, Any]:
        memory, _ = counted.update(memory, sample, tick)
        number = memory[1]
        return memory, number >= times if most is None else (number >= times) & (number <= most)

    return Checker(counted.start, update)


def too_soon(event: Checker, refractory: int) -> Checker:
    """Met at events that `count` leaves out: no more than `refractory` ticks after a counted one."""
    return _counted(event, refractory)


class Rally(NamedTuple):
    """Memory of `rally`.

    Attributes:
      touching: whether the last sample touched.
      wait: ticks until a hit comes too soon no longer; 0 if that is now.
      between: whether what must be between two hits has been.
      number: hits that count.
    """

    touching: Any
    wait: Any
    between: Any
    number: Any


def rally(touch: Test, between: Test, apart: int) -> Checker:
    """Counts hits of a ball that is kept up, in its memory; met at hits no more than `apart` ticks after the one before.

    A hit is a sample that touches after one that does not.

    Args:
      touch: whether a sample touches.
      between: a hit counts if this has held at some sample since the hit before it, or since the start.
      apart: ticks.
    """

    def update(memory: Rally, sample: Any, tick: Any) -> tuple[Rally, Any]:
        touching = touch(sample)
        xp = _np(touching)
        hit, high = touching & ~memory.touching, memory.between | between(sample)
        wait = xp.where(memory.wait > 0, memory.wait - 1, 0)
        early = hit & (wait > 0)
        number = xp.where(hit & high & ~early, memory.number + 1, memory.number)
        return Rally(touching, xp.where(hit, apart + 1, wait), high & ~hit, number), early

    return Checker(Rally(np.bool_(False), np.int32(0), np.bool_(False), np.int32(0)), update)


def total(amount: Reading, when: Test, least: float) -> Checker:
    """Met when the amounts of the samples at which `when` holds add up to `least`."""

    def update(sum_: Any, sample: Any, tick: Any) -> tuple[Any, Any]:
        taken = when(sample)
        sum_ = sum_ + _np(taken).where(taken, amount(sample), 0.0).astype(sum_.dtype)
        return sum_, sum_ >= np.float32(least)

    return Checker(np.float32(0.0), update)


def order(*stages: Test, chain: bool = False) -> Checker:
    """Met when each of the stages has held in its turn. What is behind stays so, whatever holds later.

    Args:
      stages: tests, first to last.
      chain: whether one sample may pass more than one of them.
    """

    def update(stage: Any, sample: Any, tick: Any) -> tuple[Any, Any]:
        reached = stage
        for i, test in enumerate(stages):
            at = (reached if chain else stage) == i
            reached = _np(reached).where(at & test(sample), i + 1, reached)
        return reached, reached >= len(stages)

    return Checker(np.int32(0), update)


class Gate(NamedTuple):
    """A line on the ground that counts as crossed in one direction.

    Attributes:
      centre: x and y, metres.
      normal: x and y of the direction of travel, of length 1.
      half_width: metres to each side of the centre.
    """

    centre: tuple[float, float]
    normal: tuple[float, float]
    half_width: float


def gates(point: Reading, course: Sequence[Gate]) -> Checker:
    """Met when a point has crossed all the gates in order, each from behind to its front and within its width.

    At most one gate a sample. What the point did before the first sample is not known and crosses nothing.

    Args:
      point: sample to [B, 2], metres.
      course: first to last.
    """

    def update(memory: tuple[Any, Any], sample: Any, tick: Any) -> tuple[Any, Any]:
        before, passed = memory
        here = point(sample).astype(before.dtype)  # as it will be remembered: no gap between two samples
        xp, reached = _np(here), passed
        for i, gate in enumerate(course):
            (cx, cy), (nx, ny) = gate.centre, gate.normal
            behind, front = ((p[:, 0] - cx) * nx + (p[:, 1] - cy) * ny for p in (before, here))
            crosses = (behind < 0.0) & (front >= 0.0)
            share = xp.where(crosses, -behind / xp.where(crosses, front - behind, 1.0), 0.0)
            aside, there = ((p[:, 1] - cy) * nx - (p[:, 0] - cx) * ny for p in (before, here))
            within = abs(aside + share * (there - aside)) <= gate.half_width
            reached = xp.where((passed == i) & crosses & within, i + 1, reached)
        return (here, reached), reached >= len(course)

    return Checker((np.full(2, np.nan, np.float32), np.int32(0)), update)


def after(first: Checker, then: Checker) -> Checker:
    """Met when `then` is, of samples at which `first` is met; where `first` is not, `then` starts anew."""

    def update(memory: Any, sample: Any, tick: Any) -> tuple[Any, Any]:
        one, begun = first.update(memory[0], sample, tick)
        two, met = then.update(memory[1], sample, tick)
        return (one, where(begun, two, then.start)), begun & met

    return Checker((first.start, then.start), update)


class TrialState(NamedTuple):
    """How episodes stand; nothing changes any more once they have ended.

    Attributes:
      memory: of success, and of each failure.
      ended: `RUNNING`, `SUCCEEDED`, or `FAILED` plus the number of the failure.
      met: whether the conditions of success are met now.
    """

    memory: tuple[Any, ...]
    ended: Any
    met: Any


class Trial(NamedTuple):
    """Success, and what overrides it.

    Attributes:
      success: its conditions.
      failures: any of these ends the episode, even where success is met at the same sample; of several at one sample, the
        first listed names the reason.
      ends_on_success: whether success ends the episode; otherwise it counts at the last sample.
    """

    success: Checker
    failures: tuple[Checker, ...] = ()
    ends_on_success: bool = True

    @property
    def start(self) -> TrialState:
        """How one episode stands before its first sample."""
        memory = tuple(c.start for c in (self.success, *self.failures))
        return TrialState(memory, np.int32(RUNNING), np.bool_(False))

    def update(self, state: TrialState, sample: Any, tick: Any) -> TrialState:
        """How episodes [B] stand after one more sample."""
        checkers = (self.success, *self.failures)
        done = [c.update(m, sample, tick) for c, m in zip(checkers, state.memory, strict=True)]
        (_, met), *failed = done
        xp = _np(met)
        ended = xp.where(met & self.ends_on_success, SUCCEEDED, xp.zeros_like(state.ended))
        for i, (_, fails) in reversed([*enumerate(failed)]):
            ended = xp.where(fails, FAILED + i, ended)
        new = TrialState(tuple(memory for memory, _ in done), ended, met & (ended < FAILED))
        result: TrialState = where(state.ended != RUNNING, state, new)
        return result


def _together(checkers: Sequence[Checker], combine: Callable[[Any, Any], Any]) -> Checker:
    def update(memory: Any, sample: Any, tick: Any) -> tuple[Any, Any]:
        done = [c.update(m, sample, tick) for c, m in zip(checkers, memory, strict=True)]
        met = done[0][1]
        for _, other in done[1:]:
            met = combine(met, other)
        return tuple(m for m, _ in done), met

    return Checker(tuple(c.start for c in checkers), update)


def _counted(event: Checker, refractory: int) -> Checker:
    """Memory: the event's, events counted, tick of the last. Met at events that are not counted."""

    def update(memory: Any, sample: Any, tick: Any) -> tuple[Any, Any]:
        inner, number, last = memory
        inner, met = event.update(inner, sample, tick)
        ready = tick - last > refractory
        taken = met & ready
        xp = _np(met)
        return (inner, xp.where(taken, number + 1, number), xp.where(taken, tick, last)), met & ~ready

    return Checker((event.start, np.int32(0), LONG_AGO), update)


def _np(array: Any) -> Any:
    return array.__array_namespace__()
