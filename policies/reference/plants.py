"""What experts know of a scene's own model, worked out once for each."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from mjx_bench.task import Task

_Plant = TypeVar("_Plant")


class Plants(Generic[_Plant]):
    """Plants by scene, for the threads of a run.

    Args:
      make: of a task.
    """

    def __init__(self, make: Callable[[Task], _Plant]) -> None:
        self._make = make
        self._made: dict[str, _Plant] = {}
        self._lock = threading.Lock()

    def of(self, task: Task) -> _Plant:
        """The task's."""
        with self._lock:
            if task.scene.key not in self._made:
                self._made[task.scene.key] = self._make(task)
            return self._made[task.scene.key]
