"""Scores over records, as pure functions: points of checkpoints, touches of discovery and of a context, the 120 s rule.

Points and thresholds are the sheet's (version rab-1), not figures of the benchmark.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence, Set

import numpy as np

from evals.robot_agent_bench.pickup import Kind
from mjx_bench.errors import BenchError
from mjx_bench.judged import Judged
from mjx_bench.predicates import compile_goal
from mjx_bench.signals import Signals
from mjx_bench.task import Atom

CONTROL_HZ = 20
IDLE_S = 120.0  # of no increase of a scenario's score
LEAST_INCREASE = 1e-6
STEADY_S = 3.0


@dataclasses.dataclass(frozen=True)
class Series:
    """A checkpoint over an episode.

    Attributes:
      channel: contact or process, which keep the best that was reached, or final, which is what holds at the end.
      points: of the task's.
      held: [T] fraction of it that holds after each step, 0 to 1.
    """

    channel: str
    points: float
    held: np.ndarray


def points_over_time(checkpoints: Sequence[Series]) -> np.ndarray:
    """[T] points after each step, if the episode ended there."""
    total = np.zeros(len(checkpoints[0].held))
    for c in checkpoints:
        share = np.asarray(c.held, np.float64)
        total += c.points * (share if c.channel == "final" else np.maximum.accumulate(share))
    return total


def process_score(checkpoints: Sequence[Series]) -> float:
    """Points at the end of an episode; 0 of one without a step."""
    return float(points_over_time(checkpoints)[-1]) if len(checkpoints[0].held) else 0.0


def run_lengths(held: np.ndarray) -> np.ndarray:
    """int [T] length of the run of true steps that each step ends; 0 for a false one."""
    steps = np.arange(1, len(held) + 1)
    return steps - np.maximum.accumulate(np.where(held, 0, steps))


def longest_run(held: np.ndarray) -> np.ndarray:
    """int [T] length of the longest run of true steps so far."""
    return np.maximum.accumulate(run_lengths(held))


def pickup_checkpoints(kind: Kind, judged: Judged, arrays: Mapping[str, np.ndarray]) -> list[Series]:
    """Checkpoints of a shelf pickup from what was recorded: `signals.*` of an arm, and its task's entry in `tasks.json`.

    Where points are given for steady time, they grow linearly to 3 s of the longest run.
    """
    from evals.robot_agent_bench.pickup import LIFTED, STEADY, TOUCHED

    held = holding(judged, arrays)

    def over_time(atoms: Sequence[Atom]) -> np.ndarray:
        return held * holds(atoms, judged, arrays)

    steady = over_time(STEADY)
    longest = longest_run(steady > 0)
    share = np.minimum(longest / (STEADY_S * CONTROL_HZ), 1.0)
    end = held * (longest >= STEADY_S * CONTROL_HZ) if kind.points[3] else over_time(kind.goal)
    series = (holds((TOUCHED,), judged, arrays), held, over_time(LIFTED), share, end)
    channels = ("contact", "process", "process", "process", "final")
    return [Series(c, p, h) for c, p, h in zip(channels, kind.points, series, strict=True) if p]


def holding(judged: Judged, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """[T] 1 after each step at which a pickup's target had been held for as long as counts, else 0."""
    from evals.robot_agent_bench.pickup import HELD, HELD_STEPS

    return np.asarray(run_lengths(holds(HELD, judged, arrays)) >= HELD_STEPS, np.float64)


def holds(atoms: Sequence[Atom], judged: Judged, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """[T] 1 after each step at which all atoms held, else 0; of atoms that the task's rules name."""
    steps = len(arrays["actions"])  # in the place of lanes
    signals = Signals.zeros(steps, judged.index)
    for field in dataclasses.fields(Signals):
        if (found := arrays.get(f"signals.{field.name}")) is not None:
            setattr(signals, field.name, np.asarray(found))
    return np.asarray(compile_goal(atoms, judged.scene, judged.index)[1](signals), np.float64)


def context_score(correct: str, touches: Iterable[Set[str]]) -> int:
    """1 if the first touch of any candidate is the correct one's alone, else 0.

    Args:
      correct: the right candidate.
      touches: candidates touched after each step.
    """
    first = next((set(touched) for touched in touches if touched), set())
    return int(first == {correct})


def discovery_score(targets: Set[str], touches: Iterable[Set[str]]) -> tuple[float, int | None]:
    """Share of targets touched within a budget of N + 2 distinct objects, and the step that ended it.

    The touch that uses the budget up counts. Of several first touches after one step that would exceed it, targets come
    first, then names in order.

    Args:
      targets: N names.
      touches: objects touched after each step, targets and others.

    Raises:
      BenchError: no targets.
    """
    if not targets:
        raise BenchError("task discovery needs at least one target")
    known: list[str] = []
    for step, touched in enumerate(touches, 1):
        for name in sorted(touched, key=lambda n: (n not in targets, n)):
            if name not in known and len(known) < len(targets) + 2:
                known.append(name)
        if len(known) >= len(targets) + 2 or targets <= set(known):
            return len(targets & set(known)) / len(targets), step
    return len(targets & set(known)) / len(targets), None


def idle_end(
    scores: Sequence[float], *, seconds: float = IDLE_S, hz: int = CONTROL_HZ, literal: bool = False
) -> int | None:
    """The step after which a scenario ends for want of progress; None where it does not.

    Args:
      scores: aggregate after each step, from 0 before the first.
      seconds: without an increase.
      hz: control steps a second.
      literal: any increase over the step before counts, and not only one over the best so far.
    """
    best = previous = 0.0
    since = 0
    for step, score in enumerate(scores, 1):
        if score - (previous if literal else best) > LEAST_INCREASE:
            since = step
        best, previous = max(best, score), score
        if step - since >= round(seconds * hz):
            return step
    return None
