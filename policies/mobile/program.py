"""Programs: what an expert does in a task, as a pure function from a memory and what is seen to the next move."""

from __future__ import annotations

from typing import Any, Protocol

from mjx_bench.task import Task
from policies.mobile.moves import Move
from policies.mobile.view import MobileView

Memory = Any


class Program(Protocol):
    """A task's expert; `Task.extra["program"]`. A memory is an immutable value: lanes keep them, and forks share them."""

    def start(self, task: Task) -> Memory:
        """The memory of a new episode."""
        ...

    def next(self, memory: Memory, view: MobileView) -> tuple[Memory, Move, str]:
        """What to do now that the last move has ended, well or not.

        Returns:
          memory: the new one.
          move: the next; there is always one, if only `wait`.
          stage: in a few words, for demonstrations.
        """
        ...
