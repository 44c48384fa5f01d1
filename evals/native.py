"""A suite of our own as a source of tasks, as `evals.registry` wants it: nothing is installed, built ahead or cached."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from mjx_bench.errors import BenchError
from mjx_bench.manifest import Case
from mjx_bench.task import Atom, Task


@dataclasses.dataclass(frozen=True)
class TaskRow:
    """What `mjx-bench tasks` shows of a task."""

    suite: str
    index: int
    name: str
    instruction: str
    goal: tuple[Atom, ...]
    horizon: int


@dataclasses.dataclass(frozen=True)
class Native:
    """One suite.

    Attributes:
      suite: its name.
      rows: its tasks, by index; no simulator is needed for them.
      make: index to task; called once for each.
      all_tasks: rows for `mjx-bench tasks` of everything in the benchmark, what does not run here included; None where all
        of it runs. See `registry.listing`.
    """

    suite: str
    rows: tuple[TaskRow, ...]
    make: Callable[[int], Task]
    all_tasks: Callable[[], list[dict[str, Any]]] | None = None

    @functools.cached_property
    def _made(self) -> Callable[[int], Task]:
        return functools.cache(self.make)

    def task_table(self, suite: str) -> list[TaskRow]:
        """The tasks; no simulator is imported."""
        return list(self.rows)

    def load_task(self, suite: str, index: int, *, seeds: Sequence[int] = ()) -> Task:
        """The task `index`.

        Raises:
          BenchError: no such task.
        """
        if not 0 <= index < len(self.rows):
            raise BenchError(f"{suite} task {index}: expected 0..{len(self.rows) - 1}")
        return self._made(index)

    def load_case(self, case: Case, *, seeds: Sequence[int] = ()) -> Task:
        """The task of a case; there are no variants."""
        return self.load_task(case.task_suite_name, case.task_index)

    def missing_source(self, case: Case) -> str | None:
        """Nothing is ever missing."""
        return None

    def prepare(
        self, cases: Sequence[Case], *, workers: int = 1, progress: Callable[[str], None] | None = None
    ) -> list[str]:
        """Nothing to build; one line for every case that names no task."""
        return [
            f"case {case.case_id!r}: {self.suite} has tasks 0..{len(self.rows) - 1}"
            for case in cases
            if not 0 <= case.task_index < len(self.rows)
        ]

    def build(
        self,
        tasks: Iterable[tuple[str, int]],
        seeds: Sequence[int] = (),
        progress: Callable[[str], None] | None = None,
        workers: int = 1,
    ) -> list[str]:
        """Nothing to build."""
        return []
