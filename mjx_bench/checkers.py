"""A task's rules over time, as pure functions of signals: how an episode stands after each step, and how it ends.

Everything that must be remembered of the past is in `Standing`, one small array a field, so that lanes are judged side by
side, a forked arm goes on from its base's, and recorded signals are judged again step by step. The functions use operators
that NumPy and JAX arrays share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mjx_bench import memories
from mjx_bench.errors import BenchError
from mjx_bench.evidence import Checker, every, now, once, order, previous, rally, total
from mjx_bench.judged import Judged
from mjx_bench.predicates import Test, compile_atom, compile_goal, compile_measure
from mjx_bench.scoring import any_of, scoring_of
from mjx_bench.signals import SignalIndex, Signals
from mjx_bench.task import GOAL_ALONE, Atom, Covered, Crossing, Rules, Scene, Task
from mjx_bench.types import Verdict

# `Standing.ended`; from `FAILED` on, one number for each of the rules' failures.
RUNNING, SUBMITTED, FAILED = 0, 1, 2


class Standing(NamedTuple):
    """How episodes stand. Arrays [B], or the scalars of one episode.

    Attributes:
      run: steps in a row, up to the last, after which the goal held, and all stages were behind.
      stage: how many of the stages are.
      memory: of the events and the score: float32 [B, MEMORY], or so many scalars.
      ended: what ended the episode before its horizon; nothing changes any more then.
      success: whether the rules are met if the episode ends here.
      progress: in [0, 1].
    """

    run: Any
    stage: Any
    memory: Any
    ended: Any
    success: Any
    progress: Any


# Numbers that events and the score may remember; more than any task has needed.
MEMORY = 8
# A score from which on all of it is there, for rounding alone.
WHOLE = 1.0 - 1e-6
START = Standing(
    np.int32(0), np.int32(0), (np.float32(0.0),) * MEMORY, np.int32(RUNNING), np.bool_(False), np.float32(0.0)
)


class Judge:
    """The rules of one task, resolved.

    Args:
      goal: atoms that must hold at the same instant.
      rules: when that counts.
      scene: names.
      index: columns of the signals that will be judged.

    Attributes:
      over: whether the episode ends here, as a test of an instant; None where only its horizon ends it.

    Raises:
      BenchError: as `predicates.compile_goal`.
    """

    def __init__(self, goal: Sequence[Atom], rules: Rules, scene: Scene, index: SignalIndex) -> None:
        def conjunction(atoms: Sequence[Atom]) -> Test:
            return compile_goal(atoms, scene, index)[1]

        self.rules = rules
        self._goal = conjunction(goal)
        self._submit = conjunction(rules.submit) if rules.submit else None
        self._failures = [compile_atom(atom, scene, index) for atom in rules.failures]
        self._score = None if rules.score is None else scoring_of(rules.score, scene, index)
        self._stages = order(*map(conjunction, rules.stages))
        self._events = every(*(_happening(event, scene, index) for event in rules.events)) if rules.events else None
        self._rally = None
        if rules.hits is not None:
            touch, between = conjunction(rules.hits.touch), conjunction(rules.hits.between)
            self._rally = rally(touch, between, rules.hits.apart)
        wanted = () if rules.finds is None else (*goal, *rules.finds.others)
        self._finds = [compile_atom(atom, scene, index) for atom in wanted]
        given = () if rules.finds is None else rules.finds.given or ((),) * len(goal)
        self._given = [conjunction(atoms) if atoms else None for atoms in given]
        checkers = (self._events, self._score, self._rally)
        remembered = tuple(() if checker is None else checker.start for checker in checkers)
        remembered = (*remembered, (np.bool_(False),) * len(self._finds))
        if len(memories.leaves(remembered)) > MEMORY:
            raise BenchError(f"events, the score, hits and finds remember more than {MEMORY} numbers; ask for fewer")
        self._remembered, self._remembers = remembered, bool(memories.leaves(remembered))
        ends = [*self._failures, *([] if self._submit is None else [self._submit])]
        remembering = rules.stages or rules.events or rules.hits or rules.finds
        if rules.hold is None and self._submit is None and not remembering:
            ends.append(self._goal)
        self.over = any_of(ends) if ends else None

    def update(self, standing: Standing, signals: Signals) -> Standing:
        """How lanes stand after one more step.

        Args:
          standing: before it, arrays [B].
          signals: after it, of the same lanes.
        """
        holds = self._goal(signals)
        numpy = holds.__array_namespace__()
        stage = standing.stage
        if self.rules.stages:
            stage, ready = self._stages.update(stage, signals, None)
            holds = holds & ready
        nothing = ((), (), (), ())
        events, scored, hits, found = memories.unpack(standing.memory, self._remembered) if self._remembers else nothing
        if self._events is not None:
            events, happened = self._events.update(events, signals, None)
            holds = holds & happened
        progress, spent = holds, None
        if self.rules.finds is not None:
            before, found = found, tuple(was | test(signals) for was, test in zip(found, self._finds, strict=True))
            asked = [holds | True if given is None else given(signals) for given in self._given]
            most = _count(asked) + np.float32(self.rules.finds.spare)
            had, has = (_count([a & f for a, f in zip(asked, flags, strict=False)]) for flags in (before, found))
            share = (had + numpy.minimum(has - had, most - _count(before))) / _count(asked)
            holds, progress = share >= WHOLE, share
            spent = ~holds & (_count(found) >= most)
        if self._score is not None:
            scored, progress = self._score.update(scored, signals)
            if self.rules.whole:
                holds = holds & (progress >= WHOLE)
        run = numpy.where(holds, standing.run + 1, 0)
        success = holds if self.rules.hold is None else run >= self.rules.hold
        early: Any = None
        if self._rally is not None and self.rules.hits is not None:
            hits, early = self._rally.update(hits, signals, None)
            enough = hits.number >= self.rules.hits.least
            success, progress = success & enough, progress if self._score is not None else progress & enough
        memory = memories.pack((events, scored, hits, found), standing.memory) if self._remembers else standing.memory
        ended = numpy.zeros_like(standing.ended)
        if self._submit is not None:
            submitted = self._submit(signals)
            ended = numpy.where(submitted, SUBMITTED, ended)
            success = success & submitted
        if spent is not None:
            ended = numpy.where(spent, FAILED + len(self._failures) + 1, ended)
        if early is not None:
            ended = numpy.where(early, FAILED + len(self._failures), ended)
        for i, failed in reversed([*enumerate(self._failures)]):
            ended = numpy.where(failed(signals), FAILED + i, ended)
        success = success & (ended < FAILED)
        new = Standing(run, stage, memory, ended, success, progress)
        result: Standing = memories.where(standing.ended != RUNNING, standing, new)
        return result

    def step(self, standing: Standing, signals: Signals, lane: int) -> Standing:
        """How one episode stands after one more step, whose signals are in row `lane`."""
        return unstack(self.update(stack([standing]), signals.take(slice(lane, lane + 1))))[0]

    def end(self, standing: Standing, *, at_horizon: bool) -> tuple[Verdict, str] | None:
        """How one episode ended, and why; None while it goes on.

        Args:
          standing: its scalars.
          at_horizon: there are no more steps.
        """
        if standing.ended >= FAILED:
            return Verdict.FAILURE, self._failure(int(standing.ended) - FAILED)
        if standing.ended == SUBMITTED:
            return (Verdict.SUCCESS, "submit") if standing.success else (Verdict.FAILURE, "submit: goal not reached")
        if standing.success and (at_horizon or self.rules.at_once or self.rules.hold is None):
            return Verdict.SUCCESS, "goal"
        return (Verdict.TIMEOUT, "horizon") if at_horizon else None

    def _failure(self, number: int) -> str:
        if number < len(self._failures):
            return str(self.rules.failures[number])
        if number > len(self._failures):
            assert self.rules.finds is not None
            return "as many different things found as may be, and not all that were wanted"
        assert self.rules.hits is not None
        return f"hit no more than {self.rules.hits.apart} steps after the one before"


def _count(flags: Sequence[Any]) -> Any:
    """float32 [B]: how many of them are set."""
    return sum((flag * np.float32(1.0) for flag in flags), np.float32(0.0))


def judge_of(task: Task | Judged, index: SignalIndex) -> Judge | None:
    """The judge of a task with rules; None where the goal of an instant is all there is."""
    return None if task.rules == GOAL_ALONE else Judge(task.goal, task.rules, task.scene, index)


def ending(task: Task, index: SignalIndex) -> Test | None:
    """The test of an instant that ends an episode of `task`, which is all that a compiled engine needs to know.

    Raises:
      BenchError: as `predicates.compile_goal`.
    """
    judge = judge_of(task, index)
    return compile_goal(task.goal, task.scene, index)[1] if judge is None else judge.over


def stack(standings: Sequence[Standing]) -> Standing:
    """Standings of episodes as arrays."""
    return Standing(*(np.stack(values) for values in zip(*standings, strict=True)))


def unstack(standing: Standing) -> list[Standing]:
    """Arrays as standings of episodes."""
    return [s._replace(memory=tuple(s.memory)) for s in map(Standing._make, zip(*standing, strict=True))]


def _happening(event: Crossing | Covered, scene: Scene, index: SignalIndex) -> Checker:
    """The condition that an event has been."""
    if isinstance(event, Crossing):
        before, after = (compile_goal(atoms, scene, index)[1] for atoms in (event.before, event.after))
        return once(every(previous(before), now(after)))
    speed, period = compile_measure(event.speed, scene, index), np.float32(event.period)
    when = compile_goal(event.when, scene, index)[1]
    return total(lambda s: speed(s) * period, when, event.least)
