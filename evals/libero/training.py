"""Instances of LIBERO's tasks for training: drawn by its own reset, with seeds that no stored state stands for.

LIBERO stores 50 initial states of a task, and everybody evaluates on them. Instance i from `TRAINING` on is what its reset
makes of seed i: objects, fixtures and the arm's controller.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evals.libero import package
from evals.libero.assemble import reset_of
from evals.libero.building import key_of
from evals.libero.cache import Cache
from evals.libero.client import Builder, BuildFailed
from mjx_bench.errors import BenchError
from mjx_bench.task import Reset, Task

EVALUATION = range(50)
TRAINING = range(10_000, 1_010_000)


def prepare(task: Task, instances: Sequence[int], cache: Cache | None = None) -> None:
    """Draws what the cache lacks of some instances.

    Raises:
      BenchError: LIBERO finds no place for the objects of one.
      MissingExtra: when LIBERO is not installed.
    """
    store, files = cache or Cache.default(), package.find(task.suite, task.index)
    key = key_of(files)
    missing = [i for i in instances if store.read_start(key, i) is None]
    if not missing:
        return
    store.require_writable()
    order = {
        "name": f"{files.suite}/{files.name}",
        "bddl": str(files.bddl),
        "key": key,
        "cache": str(store.root.resolve()),
        "versions": package.versions(),
        "seeds": [],
        "starts": missing,
    }
    with Builder() as builder:
        try:
            builder.run(order)
        except BuildFailed as error:
            raise BenchError(
                f"{files.label}: LIBERO draws no instance of {missing[0]} to {missing[-1]}: {error}"
            ) from None


def start(task: Task, instance: int, cache: Cache | None = None) -> tuple[np.ndarray, Reset]:
    """An instance: float64 [1 + nq + nv] of time, qpos, qvel, and what the reset fixed beyond it.

    Raises:
      BenchError, MissingExtra: as `prepare`.
    """
    prepare(task, [instance], cache)
    data = (cache or Cache.default()).read_start(key_of(package.find(task.suite, task.index)), instance)
    if data is None:
        raise BenchError(f"{task.suite} task {task.index}: instance {instance} vanished from the cache; ask again")
    return np.array(data["state"], np.float64), reset_of(instance, data)
