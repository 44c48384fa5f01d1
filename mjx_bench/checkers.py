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
from mjx_bench.evidence import Checker, every, now, once, order, previous, total
from mjx_bench.judged import Judged
from mjx_bench.predicates import Test, compile_atom, compile_goal, compile_measure
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
      memory: of the events: float32 [B, MEMORY], or so many scalars.
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


# Numbers that events may remember; more than any task has needed.
MEMORY = 8
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
        wanted, unwanted = ((), ()) if rules.score is None else (rules.score.wanted, rules.score.unwanted)
        self._wanted, self._unwanted = [*map(conjunction, wanted)], [*map(conjunction, unwanted)]
        self._stages = order(*map(conjunction, rules.stages))
        self._events = every(*(_happening(event, scene, index) for event in rules.events)) if rules.events else None
        if self._events is not None and len(memories.leaves(self._events.start)) > MEMORY:
            raise BenchError(f"{len(rules.events)} events remember more than {MEMORY} numbers; ask for fewer")
        ends = [*self._failures, *([] if self._submit is None else [self._submit])]
        if rules.hold is None and self._submit is None and not rules.stages and not rules.events:
            ends.append(self._goal)
        self.over = _any(ends) if ends else None

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
        memory = standing.memory
        if self._events is not None:
            before = memories.unpack(memory, self._events.start)
            after, happened = self._events.update(before, signals, None)
            memory, holds = memories.pack(after, memory), holds & happened
        run = numpy.where(holds, standing.run + 1, 0)
        success = holds if self.rules.hold is None else run >= self.rules.hold
        ended = numpy.zeros_like(standing.ended)
        if self._submit is not None:
            submitted = self._submit(signals)
            ended = numpy.where(submitted, SUBMITTED, ended)
            success = success & submitted
        for i, failed in reversed([*enumerate(self._failures)]):
            ended = numpy.where(failed(signals), FAILED + i, ended)
        success = success & (ended < FAILED)
        new = Standing(run, stage, memory, ended, success, self._progress(signals, holds))
        result: Standing = memories.where(standing.ended != RUNNING, standing, new)
        return result

    def step(self, standing: Standing, signals: Signals, lane: int) -> Standing:
        """How one episode stands after one more step, whose signals are in row `lane`."""
        return unstack(self.update(stack([standing]), signals.take(slice(lane, lane + 1))))[0]

    def _progress(self, signals: Signals, holds: Any) -> Any:
        score = self.rules.score
        if score is None:
            return holds
        share = sum(test(signals) * np.float32(1.0 / len(self._wanted)) for test in self._wanted)
        if not self._unwanted:
            return share
        less = np.float32(score.deduction) * _any(self._unwanted)(signals)
        return share.__array_namespace__().clip(share - less, 0.0, 1.0)

    def end(self, standing: Standing, *, at_horizon: bool) -> tuple[Verdict, str] | None:
        """How one episode ended, and why; None while it goes on.

        Args:
          standing: its scalars.
          at_horizon: there are no more steps.
        """
        if standing.ended >= FAILED:
            return Verdict.FAILURE, str(self.rules.failures[int(standing.ended) - FAILED])
        if standing.ended == SUBMITTED:
            return (Verdict.SUCCESS, "submit") if standing.success else (Verdict.FAILURE, "submit: goal not reached")
        if standing.success and (at_horizon or self.rules.at_once or self.rules.hold is None):
            return Verdict.SUCCESS, "goal"
        return (Verdict.TIMEOUT, "horizon") if at_horizon else None


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


def _any(tests: Sequence[Test]) -> Test:
    """The disjunction of tests, at least one."""

    def one(signals: Signals) -> Any:
        result = tests[0](signals)
        for test in tests[1:]:
            result = result | test(signals)
        return result

    return one
