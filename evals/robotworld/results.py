"""Success rates of RobotWorld from outcomes: every task weighs the same, and what has no outcome is said and not guessed."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from evals.robotworld.contract import DOMAINS, contract, load
from mjx_bench.errors import BenchError

TASKS = sum(DOMAINS.values())


class Slot(NamedTuple):
    """One planned episode of one model, and its outcome; None for no outcome."""

    task: str
    rollout: int
    outcome: bool | None


@dataclasses.dataclass(frozen=True)
class TaskRate:
    """Episodes of one task.

    Attributes:
      successes, valid, planned: episodes; those with an outcome are valid.
    """

    successes: int
    valid: int
    planned: int

    @property
    def rate(self) -> float | None:
        """Successes over valid episodes; None without any."""
        return self.successes / self.valid if self.valid else None


@dataclasses.dataclass(frozen=True)
class SetRate:
    """A set of tasks.

    Attributes:
      mean: of the tasks' rates, each weighing the same; None if no task has one.
      variance: of the tasks' rates (ddof 0); sample_variance: (ddof 1), None for fewer than two.
      tasks: in the set; rated: of them, with a rate; successes, valid, planned: episodes.
    """

    mean: float | None
    variance: float | None
    sample_variance: float | None
    tasks: int
    rated: int
    successes: int
    valid: int
    planned: int

    @property
    def complete(self) -> bool:
        """Whether every planned episode has an outcome."""
        return self.valid == self.planned


def collect(attempts: Iterable[Slot]) -> dict[str, list[bool | None]]:
    """Task id to the outcomes of its slots, in the order of rollouts.

    A slot that was interrupted may be tried again, and the last attempt is its outcome.

    Raises:
      BenchError: an unknown task, or a slot with an outcome that was tried again: the better of two is not on offer.
    """
    slots: dict[tuple[str, int], bool | None] = {}
    for attempt in attempts:
        key = (contract(attempt.task).id, attempt.rollout)
        if slots.get(key) is not None:
            raise BenchError(f"task {key[0]} rollout {key[1]} has an outcome; only interrupted ones are tried again")
        slots[key] = attempt.outcome
    out: dict[str, list[bool | None]] = {}
    for (task, _), outcome in sorted(slots.items()):
        out.setdefault(task, []).append(outcome)
    return out


def task_rate(outcomes: Sequence[bool | None]) -> TaskRate:
    """Of one task's slots."""
    valid = [outcome for outcome in outcomes if outcome is not None]
    return TaskRate(sum(valid), len(valid), len(outcomes))


def set_rate(outcomes: Mapping[str, Sequence[bool | None]], tasks: Sequence[str] | None = None) -> SetRate:
    """Of a set of tasks.

    Args:
      outcomes: task id to the outcomes of its slots.
      tasks: ids; None for all that `outcomes` has.

    Raises:
      BenchError: a task without any slot.
    """
    names = list(outcomes) if tasks is None else list(tasks)
    if missing := [name for name in names if not outcomes.get(name)]:
        raise BenchError(f"no episode of task {', '.join(missing)}; leave it out of the set, or run it")
    found = [task_rate(outcomes[name]) for name in names]
    rates = [task.rate for task in found if task.rate is not None]
    return SetRate(
        mean=statistics.fmean(rates) if rates else None,
        variance=statistics.pvariance(rates) if rates else None,
        sample_variance=statistics.variance(rates) if len(rates) > 1 else None,
        tasks=len(names),
        rated=len(rates),
        successes=sum(task.successes for task in found),
        valid=sum(task.valid for task in found),
        planned=sum(task.planned for task in found),
    )


def suite_rate(outcomes: Mapping[str, Sequence[bool | None]]) -> SetRate:
    """Of all 84 tasks.

    Raises:
      BenchError: a task without an episode, or an episode without an outcome: such results are those of a named subset.
    """
    whole = set_rate(outcomes, [c.id for c in load()])
    if not whole.complete:
        missing = whole.planned - whole.valid
        raise BenchError(f"{missing} of {whole.planned} episodes have no outcome; give the rate of a named subset")
    return whole


def domain_rates(outcomes: Mapping[str, Sequence[bool | None]]) -> dict[str, SetRate]:
    """Domain to the rate of its tasks, for domains with any."""
    ids = {domain: [c.id for c in load() if c.domain == domain and c.id in outcomes] for domain in DOMAINS}
    return {domain: set_rate(outcomes, tasks) for domain, tasks in ids.items() if tasks}


def solved(outcomes: Mapping[str, Sequence[bool | None]]) -> frozenset[str]:
    """Ids of the tasks with a success."""
    return frozenset(task for task, slots in outcomes.items() if any(slots))


def overlaps(models: Mapping[str, Mapping[str, Sequence[bool | None]]]) -> dict[tuple[str, str], int]:
    """(model, model) to the number of tasks that both solved; of a model with itself, that it solved."""
    sets = {model: solved(outcomes) for model, outcomes in models.items()}
    return {(a, b): len(sets[a] & sets[b]) for a in sets for b in sets}


def scaled_total(records: Iterable[float | None]) -> float | None:
    """Tokens or cost of the whole suite: the mean of records that are there and not zero, times 84; None without any."""
    valid = [value for value in records if value]
    return TASKS * statistics.fmean(valid) if valid else None
