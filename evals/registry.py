"""Every suite by name, and which benchmark it comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from mjx_bench.errors import BenchError, unknown_name
from mjx_bench.manifest import OWN_SUITE, Case
from mjx_bench.task import Task

if TYPE_CHECKING:
    from evals.native import Native


def _libero() -> ModuleType:
    from evals.libero import tasks

    return tasks


def _tabletop() -> Native:
    from evals.tabletop.tasks import SOURCE

    return SOURCE


def _robotworld() -> Native:
    from evals.robotworld.tasks import SOURCE

    return SOURCE


def _roboquest() -> Native:
    from evals.roboquest.tasks import SOURCE

    return SOURCE


def _robot_agent_bench() -> Native:
    from evals.robot_agent_bench.tasks import SOURCE

    return SOURCE


# What a source offers: task_table(suite), load_task(suite, index, seeds), build(tasks, seeds, progress, workers), and for
# cases that name one of its suites load_case(case, seeds), missing_source(case), prepare(cases, workers, progress). LIBERO
# has several suites, and variant_suites(); any other has one, and is imported when it is asked for.
_NATIVE: dict[str, Callable[[], Native]] = {
    "tabletop": _tabletop,
    "robotworld": _robotworld,
    "roboquest": _roboquest,
    "robot_agent_bench": _robot_agent_bench,
}


# Forms of a scene, the source's own first.
FORMS = ("exact", "lean")


def suites() -> tuple[str, ...]:
    """Names of the suites that "all" means, whether their package is installed or not."""
    return (*_libero().suites(), *_NATIVE)


def variant_suites() -> tuple[str, ...]:
    """Names of the suites that vary another's tasks; they are asked for by name."""
    return tuple(_libero().variant_suites())


def check_suite(suite: str) -> None:
    """Raises `BenchError` with the nearest names when `suite` is neither a suite nor a variant of one."""
    if suite not in (known := suites() + variant_suites()):
        raise unknown_name("suite", suite, known)


def task_table(suite: str) -> list[dict[str, Any]]:
    """One row a task, plain JSON values, without building any scene.

    Every row has at least: suite, index, name, instruction, goal (a list of atoms as text), horizon (policy steps).
    """
    return [{**vars(row), "goal": [str(atom) for atom in row.goal]} for row in _source(suite).task_table(suite)]


def listing(suite: str) -> list[dict[str, Any]]:
    """As `task_table`, with what a benchmark has and this engine does not run: of such a row, `index` is None.

    Where a suite has such tasks, every row of it also says whether it `runs`, what it `lacks` if not, and more about it.
    """
    all_tasks = getattr(_source(suite), "all_tasks", None)
    return task_table(suite) if all_tasks is None else all_tasks()


def no_task(suites: Sequence[str], name: str) -> BenchError:
    """The error for a name that is no task of some suites: what it lacks to run here, or else the nearest names."""
    rows = [row for suite in suites for row in listing(suite)]
    numbered = [row["name"] for row in rows if row["index"] is not None and row.get("id") == name]
    hint = f"; the task with the benchmark's number {name} is {numbered[0]}: give that name" if numbered else ""
    for row in rows:
        if row["name"] == name and row["index"] is None:
            return BenchError(f"{row['suite']} task {name!r} does not run here: it lacks {row['lacks']}{hint}")
    if hint:
        return BenchError(f"no task {name!r}{hint}")
    return unknown_name(f"task of {', '.join(suites)}", name, [r["name"] for r in rows if r["index"] is not None])


def load_task(suite: str, index: int, *, seeds: Sequence[int] = (), form: str = "exact") -> Task:
    """The task `index` of `suite`; builds its scene if it is not in the cache, with resets for `seeds` in the same go.

    Args:
      suite, index: which task.
      seeds: policy seeds whose resets to have ready.
      form: see `in_form`.
    """
    return in_form(_source(suite).load_task(suite, index, seeds=seeds), form)


def load_case(case: Case, *, seeds: Sequence[int] = (), form: str = "exact") -> Task:
    """The task of a case, plain or varied, built as in `load_task`.

    Its suite and index are the case's; its name and version are those of the variant.

    Raises:
      BenchError: no such task, a source that is not held (see `missing_source`), or a scene that does not build.
      MissingExtra: when the suite's package is not installed.
    """
    return in_form(_source(case.task_suite_name).load_case(case, seeds=seeds), form)


def in_form(task: Task, form: str) -> Task:
    """The task on another form of its scene.

    Args:
      task: as its source made it.
      form: `exact`, as it is; `lean`, with few and simple collision shapes (`evals.libero.lean`).

    Raises:
      BenchError: an unknown form, or a task that has no lean one.
    """
    if form not in FORMS:
        raise unknown_name("scene form", form, FORMS)
    if form == "exact":
        return task
    if (lean_task := getattr(_source_of(task), "lean_task", None)) is None:
        raise BenchError(f"scenes of {task.suite} have one form only; use --scene-form exact")
    lean: Task = lean_task(task)
    return lean


def load_bddl(
    path: Path,
    *,
    init_states: Path | None = None,
    instruction: str | None = None,
    horizon: int | None = None,
    seeds: Sequence[int] = (),
) -> Task:
    """A task from a LIBERO task file of one's own; see `evals.libero.tasks.load_bddl`."""
    task: Task = _libero().load_bddl(
        path, init_states=init_states, instruction=instruction, horizon=horizon, seeds=seeds
    )
    return task


def missing_source(case: Case) -> str | None:
    """Why the source that a case is made from is not held here, in one line; None when it is."""
    reason: str | None = _source(case.task_suite_name).missing_source(case)
    return reason


def prepare(cases: Sequence[Case], *, workers: int = 1, progress: Callable[[str], None] | None = None) -> list[str]:
    """Builds what the cache lacks of the tasks of `cases`, with the resets of their policy seeds.

    Args:
      cases: plain and varied; one whose source is not held is passed over.
      workers: processes that build at once, about 1 GB each.
      progress: told one line a finished task, from a worker's thread.

    Returns:
      One line for every case that names no task, and for everything that did not build.
    """
    by_source: dict[Any, list[Case]] = {}
    for case in cases:
        by_source.setdefault(_source(case.task_suite_name), []).append(case)
    return [
        line
        for source, wanted in by_source.items()
        for line in source.prepare(wanted, workers=workers, progress=progress)
    ]


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
    by_source: dict[Any, list[tuple[str, int]]] = {}
    for suite, wanted in by_suite.items():
        by_source.setdefault(_source(suite), []).extend(wanted)
    return [
        str(failure)
        for source, wanted in by_source.items()
        for failure in source.build(wanted, seeds=seeds, workers=workers, progress=progress)
    ]


def _source_of(task: Task) -> Any:
    return _libero() if task.suite == OWN_SUITE else _source(task.suite)


def _source(suite: str) -> Any:
    check_suite(suite)
    return _NATIVE[suite]() if suite in _NATIVE else _libero()
