"""LIBERO as a source of tasks: list them, build them into the cache, load them as `mjx_bench.task.Task`.

Listing reads task files only. The first load of a task runs LIBERO in a child process (2 to 6 s); later loads read the
cache and import neither LIBERO nor robosuite.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evals.libero import own, package
from evals.libero.assemble import assemble
from evals.libero.bddl import Problem, parse_file
from evals.libero.building import BuildFailure, Job, build_all
from evals.libero.cache import Cache
from evals.libero.lean import lean_task
from evals.libero.package import TaskFiles
from evals.libero.variants import edit_of, find_variant, is_regenerated, missing_source
from mjx_bench.errors import BenchError, MissingExtra
from mjx_bench.manifest import Case
from mjx_bench.task import Atom, Task


@dataclasses.dataclass(frozen=True)
class TaskRow:
    """What a task file alone says of a task.

    Attributes:
      suite, index, name: identity; `name` is the file's stem.
      instruction: what the policy is told: from the file's name, or in LIBERO-PRO's suites from inside the file.
      bddl_language: the instruction inside the file, which differs at times.
      problem: LIBERO's problem class, which fixes the room, the table and the robot's mount.
      goal: atoms that must hold together.
      horizon: policy steps.
      objects, fixtures, regions: how many the file declares, the workspace not counted.
    """

    suite: str
    index: int
    name: str
    instruction: str
    bddl_language: str
    problem: str
    goal: tuple[Atom, ...]
    horizon: int
    objects: int
    fixtures: int
    regions: int


def suites() -> tuple[str, ...]:
    """Names of LIBERO's own suites."""
    return package.SUITES


def variant_suites() -> tuple[str, ...]:
    """Names of LIBERO-PRO's suites: each varies the tasks of one of LIBERO's, in the same order."""
    return package.PRO_SUITES


def task_table(suite: str) -> list[TaskRow]:
    """The tasks of a suite, from their files; no simulator is imported."""
    return [_row(files, parse_file(files.bddl)) for files in package.tasks(suite)]


def build(
    tasks: Iterable[tuple[str, int]],
    seeds: Sequence[int] = (),
    progress: Callable[[str], None] | None = None,
    workers: int = 1,
    cache: Cache | None = None,
) -> list[BuildFailure]:
    """Builds what the cache lacks of each (suite, index), and its resets for `seeds`.

    Args:
      tasks: (suite, index) pairs.
      seeds: policy seeds whose resets are wanted.
      progress: told one line a finished task, from a worker's thread.
      workers: builder processes, each about 1 GB.
      cache: where to build; the default cache when None.

    Returns:
      What failed, in the order of `tasks`; everything else is in the cache.
    """
    jobs = [Job(package.find(suite, index), tuple(seeds)) for suite, index in tasks]
    return build_all(jobs, cache or Cache.default(), workers=workers, progress=progress)


def prepare(
    cases: Iterable[Case],
    *,
    workers: int = 1,
    progress: Callable[[str], None] | None = None,
    cache: Cache | None = None,
) -> list[str]:
    """Builds what the cache lacks of the tasks of `cases`, each with the resets of its own cases' policy seeds.

    Args:
      cases: plain and varied; one whose source is not held (`missing_source`) is passed over.
      workers, progress, cache: see `build`.

    Returns:
      One line for every case that names no task, and for everything that did not build.

    Raises:
      MissingExtra: when LIBERO is not installed.
    """
    wrong: list[str] = []
    wanted: dict[Path, tuple[TaskFiles, set[int]]] = {}
    for case in cases:
        if missing_source(case) is not None:
            continue
        try:
            files = _files_of(case, cache)
        except MissingExtra:
            raise
        except BenchError as error:
            wrong.append(f"case {case.case_id!r}: {error}")
            continue
        # The scene and its resets depend on the task file alone; cases that differ in wording share them.
        wanted.setdefault(files.bddl, (files, set()))[1].add(case.policy_seed)
    jobs = [Job(files, tuple(sorted(seeds))) for files, seeds in wanted.values()]
    failures = build_all(jobs, cache or Cache.default(), workers=workers, progress=progress)
    return wrong + [str(failure) for failure in failures]


def load_task(suite: str, index: int, *, seeds: Sequence[int] = (), cache: Cache | None = None) -> Task:
    """Loads a task, building it first when the cache lacks it.

    Args:
      suite: one of `suites()` or `variant_suites()`.
      index: position in LIBERO's task order 0.
      seeds: policy seeds whose resets to have ready; `Task.load_reset` fetches others on demand.
      cache: where to look and build; the default cache when None.

    Raises:
      BenchError: unknown suite or index; a scene that does not build, with the cause.
      MissingExtra: when LIBERO is not installed.
    """
    return assemble(package.find(suite, index), seeds, cache or Cache.default())


def load_variant(
    variant: Mapping[str, Any], suite: str, index: int, *, seeds: Sequence[int] = (), cache: Cache | None = None
) -> Task:
    """Loads a varied task, whose files the installed package holds or whose rule is known (`variants.py`).

    Args:
      variant: `substrate_variant` of a case. Its `language` is the instruction, its `init_states_file` the states.
      suite, index: the plain task that is varied, as the case names it; the task's own.
      seeds, cache: see `load_task`.

    Raises:
      BenchError: a category or file that the package does not hold, files that are not those of this task's variant;
        a scene that does not build.
      MissingExtra: when LIBERO is not installed.
    """
    store = cache or Cache.default()
    return edit_of(variant, suite, index)(assemble(find_variant(variant, suite, index, store), seeds, store))


def load_case(case: Case, *, seeds: Sequence[int] = (), cache: Cache | None = None) -> Task:
    """Loads the task of a case, plain or varied; raises `BenchError` also when its source is not held."""
    if (reason := missing_source(case)) is not None:
        raise BenchError(reason)
    if case.substrate_variant is not None:
        return load_variant(case.substrate_variant, case.task_suite_name, case.task_index, seeds=seeds, cache=cache)
    return assemble(_files_of(case, cache), seeds, cache or Cache.default())


def load_bddl(
    path: Path,
    *,
    init_states: Path | None = None,
    instruction: str | None = None,
    horizon: int | None = None,
    seeds: Sequence[int] = (),
    cache: Cache | None = None,
) -> Task:
    """Loads a task from a task file of one's own, on LIBERO's fixtures and objects.

    The file is copied into the cache: a later change of it changes nothing of a task that is loaded. An episode's fixtures
    stand where LIBERO's reset puts them at the case's policy seed, whatever initial state it starts from, as with LIBERO's
    own tasks; so give fixtures small regions (LIBERO's are 2 cm) when objects start on or in them.

    Args:
      path: the task file; its stem is the task's name, its suite "bddl", its index 0.
      init_states: .npz with an array `states`, or .npy: floats [N, 1 + nq + nv], see `states.read_states`. Without it, ten
        states are drawn by LIBERO's own reset, once, with seeds 0 to 9.
      instruction: what the policy is told; the file's own wording in lower case if None.
      horizon: policy steps before an episode times out; 520, that of LIBERO's longest tasks, if None.
      seeds, cache: see `load_task`.

    Raises:
      BenchError: a file that cannot be read, names something unknown, or describes a scene that cannot be built or judged.
      MissingExtra: when LIBERO is not installed.
    """
    store = cache or Cache.default()
    files = own.adopt(path, init_states, instruction, own.HORIZON if horizon is None else horizon, store)
    task = assemble(files, seeds, store)
    own.check_task(task, path, init_states)
    return task


def _files_of(case: Case, cache: Cache | None) -> TaskFiles:
    if case.substrate_variant is None:
        if (case.substrate_category or "").startswith("LIBERO-PRO"):
            raise BenchError(f"substrate_category = {case.substrate_category!r} needs a substrate_variant")
        return package.find(case.task_suite_name, case.task_index)
    return find_variant(case.substrate_variant, case.task_suite_name, case.task_index, cache)


def _row(files: TaskFiles, problem: Problem) -> TaskRow:
    return TaskRow(
        suite=files.suite,
        index=files.index,
        name=files.name,
        instruction=problem.language if files.instruction is None else files.instruction,
        bddl_language=problem.language,
        problem=problem.name,
        goal=problem.goal,
        horizon=files.horizon,
        objects=len(problem.objects),
        fixtures=len(problem.fixtures) - 1,
        regions=len(problem.regions),
    )


__all__ = [
    "BuildFailure",
    "TaskRow",
    "build",
    "is_regenerated",
    "lean_task",
    "load_bddl",
    "load_case",
    "load_task",
    "load_variant",
    "missing_source",
    "prepare",
    "suites",
    "task_table",
    "variant_suites",
]
