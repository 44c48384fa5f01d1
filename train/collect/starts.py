"""What an instance for training begins with: those of a suite of our own, or LIBERO's, drawn by its own reset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from mjx_bench.task import Reset, Task

_BLOCK = 32  # instances that LIBERO draws in one go: its process takes seconds to start

Start = tuple[np.ndarray, Reset, Mapping[str, np.ndarray]]


class Starts(Protocol):
    """Instance to what `Physics.load` takes."""

    def of(self, instance: int) -> Start: ...


class Native:
    """Instances that their own suite makes, for evaluation and training alike."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def of(self, instance: int) -> Start:
        """See `Starts`."""
        task = self._task
        return task.load_init_states()[instance], task.load_reset(0), task.fields_of(instance)


class Libero:
    """Instances that LIBERO's reset draws."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def of(self, instance: int) -> Start:
        """See `Starts`."""
        from evals.libero import training

        first = training.TRAINING.start + (instance - training.TRAINING.start) // _BLOCK * _BLOCK
        training.prepare(self._task, range(first, first + _BLOCK))
        return (*training.start(self._task, instance), {})


def starts_of(task: Task) -> Starts:
    """The instances of a task."""
    from evals.libero import package

    return Libero(task) if task.suite in package.SUITES else Native(task)
