"""Brings tasks into the cache: what is missing of each is built by LIBERO, in builder processes."""

from __future__ import annotations

import contextlib
import dataclasses
import queue
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from evals.libero import package
from evals.libero.builder import BUILDER_VERSION
from evals.libero.cache import Cache, scene_key
from evals.libero.client import Builder, BuildFailed
from evals.libero.package import TaskFiles
from mjx_bench.errors import BenchError


@dataclasses.dataclass(frozen=True)
class BuildFailure:
    """A task that could not be built, or one reset of it (then `seed` is set)."""

    label: str
    cause: str
    seed: int | None = None

    def __str__(self) -> str:
        return f"{self.label}{'' if self.seed is None else f', seed {self.seed}'}: {self.cause}"


@dataclasses.dataclass(frozen=True)
class Job:
    """A task and the policy seeds whose resets are wanted."""

    files: TaskFiles
    seeds: tuple[int, ...] = ()


def key_of(files: TaskFiles) -> str:
    """The task's key in the cache; raises `BenchError` when its task file cannot be read."""
    try:
        content = files.bddl.read_bytes()
    except OSError as error:
        hint = f"reinstall {package.DISTRIBUTION}, or load the task again if it is your own"
        raise BenchError(f"{files.bddl}: cannot read a task file ({error}); {hint}") from error
    return scene_key(BUILDER_VERSION, package.versions(), content)


def build_all(
    jobs: Iterable[Job], store: Cache, *, workers: int = 1, progress: Callable[[str], None] | None = None
) -> list[BuildFailure]:
    """Builds what the cache lacks; see `tasks.build` for the arguments.

    Returns:
      What failed, in the order of `jobs`; everything else is in the cache.

    Raises:
      BenchError: a task file that cannot be read, or a cache that cannot be written to and lacks something.
    """
    todo: queue.SimpleQueue[tuple[int, Job]] = queue.SimpleQueue()
    for position, job in enumerate(jobs):
        if not _complete(store, job):
            todo.put((position, job))
    failures: list[tuple[int, BuildFailure]] = []

    def work() -> None:
        with Builder() as builder:
            while True:
                try:
                    position, job = todo.get_nowait()
                except queue.Empty:
                    return
                found = _build_one(builder, store, job)
                failures.extend((position, failure) for failure in found)
                if progress is not None:
                    progress(f"{job.files.label}: {'; '.join(failure.cause for failure in found) or 'built'}")

    if not todo.empty():
        store.require_writable()
        with ThreadPoolExecutor(max_workers=max(1, min(workers, todo.qsize()))) as pool:
            try:
                for future in [pool.submit(work) for _ in range(workers)]:
                    future.result()  # an error in a worker is this call's error
            except BaseException:
                with contextlib.suppress(queue.Empty):
                    while True:  # leave the workers nothing more than the tasks in their hands
                        todo.get_nowait()
                raise
    return [failure for _, failure in sorted(failures, key=lambda item: item[0])]


def ensure(files: TaskFiles, seeds: Sequence[int], store: Cache) -> None:
    """Builds what the cache lacks of one task; raises `BenchError` with the cause when it cannot be built."""
    job = Job(files, tuple(seeds))
    if _complete(store, job):
        return
    store.require_writable()
    with Builder() as builder:
        failures = _build_one(builder, store, job)
    if failures:
        raise BenchError(f"LIBERO could not build {'; '.join(map(str, failures))}")


def _complete(store: Cache, job: Job) -> bool:
    key = key_of(job.files)
    drawn = job.files.init_states is not None or store.states_json(key).is_file()
    resets = all(store.reset_json(key, seed).is_file() for seed in job.seeds)
    return drawn and resets and store.read_scene(key) is not None


def _build_one(builder: Builder, store: Cache, job: Job) -> list[BuildFailure]:
    files = job.files
    order = {
        "name": f"{files.suite}/{files.name}",
        "bddl": str(files.bddl),
        "key": key_of(files),
        "cache": str(store.root.resolve()),
        "versions": package.versions(),
        "seeds": list(job.seeds),
        "draw": files.init_states is None,
    }
    try:
        answer = builder.run(order)
    except BuildFailed as error:
        return [BuildFailure(files.label, str(error))]
    return [BuildFailure(files.label, cause, int(seed)) for seed, cause in answer["reset_errors"].items()]
