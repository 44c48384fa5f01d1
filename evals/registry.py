"""Every suite by name, and which benchmark it comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any

from mjx_bench.errors import unknown_name
from mjx_bench.task import Task


def _libero() -> ModuleType:
    from evals.libero import tasks

    return tasks


# What a source offers: suites(), task_table(suite), load_task(suite, index, seeds), build(tasks, seeds, progress, workers).
_SOURCES = (_libero,)


def suites() -> tuple[str, ...]:
    """Names of all suites, whether their package is installed or not."""
    return tuple(name for source in _SOURCES for name in source().suites())


def check_suite(suite: str) -> None:
    """Raises `BenchError` with the nearest names when `suite` is not a suite."""
    if suite not in suites():
        raise unknown_name("suite", suite, suites())


def task_table(suite: str) -> list[dict[str, Any]]:
    """One row a task, plain JSON values, without building any scene.

    Every row has at least: suite, index, name, instruction, goal (a list of atoms as text), horizon (policy steps).
    """
    return [{**vars(row), "goal": [str(atom) for atom in row.goal]} for row in _source(suite).task_table(suite)]


def load_task(suite: str, index: int, *, seeds: Sequence[int] = ()) -> Task:
    """The task `index` of `suite`; builds its scene if it is not in the cache, with resets for `seeds` in the same go."""
    task: Task = _source(suite).load_task(suite, index, seeds=seeds)
    return task


def build(
    tasks: Iterable[tuple[str, int]],
    *,
    seeds: Sequence[int] = (),
    workers: int = 1,
    progress: Callable[[str], None] | None = None,
) -> list[str]:
    """Builds what the cache lacks of each (suite, index); returns a line for each that failed."""
    by_suite: dict[str, list[tuple[str, int]]] = {}
    for suite, index in tasks:
        by_suite.setdefault(suite, []).append((suite, index))
    by_source: dict[ModuleType, list[tuple[str, int]]] = {}
    for suite, wanted in by_suite.items():
        by_source.setdefault(_source(suite), []).extend(wanted)
    return [
        str(failure)
        for source, wanted in by_source.items()
        for failure in source.build(wanted, seeds=seeds, workers=workers, progress=progress)
    ]


def _source(suite: str) -> ModuleType:
    check_suite(suite)
    return next(module for source in _SOURCES if suite in (module := source()).suites())
