"""`mjx-bench build`: scenes into the cache ahead of time."""

from __future__ import annotations

import dataclasses

from scripts import options as shared
from scripts.output import Emit, note


@dataclasses.dataclass(frozen=True)
class Build:
    """Build the scenes of one or more suites, so that a later run starts at once."""

    suite: shared.Names = ()
    """Suites to build; all if none is given."""
    seeds: tuple[int, ...] = ()
    """Policy seeds whose resets (fixture poses, controller) are built too."""
    workers: int = 2
    """Processes that build at once, about 1 GB each."""


def run(options: Build, emit: Emit) -> int:
    """Builds what the cache lacks; 1 if a scene failed, after building all others."""
    from evals import registry

    shared.at_least(1, workers=options.workers)
    for seed in options.seeds:
        shared.at_least(0, seeds=seed)
    names = shared.suites(shared.flat(options.suite)) or registry.suites()
    tasks = [(name, row["index"]) for name in names for row in registry.task_table(name)]
    failures = registry.build(tasks, seeds=options.seeds, workers=options.workers, progress=note)
    for line in failures:
        note(f"failed: {line}")
    note(f"{len(tasks)} tasks, {len(failures)} failures")
    return 1 if failures else 0
