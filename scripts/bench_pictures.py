"""`mjx-bench bench pictures` and `bench fidelity`: how fast the Warp renderer is, and how close to OpenGL."""

from __future__ import annotations

import dataclasses
from typing import Any

from mjx_bench.errors import BenchError
from scripts import options as shared
from scripts.output import note

SEED = 195  # policy seed, as in the published manifests
SUITES = ("libero_spatial", "libero_object", "libero_goal", "libero_10")


@dataclasses.dataclass(frozen=True)
class Pictures:
    """Pictures a second of the Warp renderer against OpenGL, on one task and on a scene of primitives."""

    suite: str
    """Suite of the task."""
    task: int = 0
    """Index of the task in its suite."""
    size: int = 128
    """Pixels of a side."""
    lanes: int = 8
    """Poses a call; each is seen by the suite's two cameras."""
    repeats: int = 5
    """Calls of either renderer, in turns."""
    json: bool = False
    """Print JSON instead of text."""


@dataclasses.dataclass(frozen=True)
class Fidelity:
    """How close the Warp renderer comes to OpenGL on every task of some suites, as a Markdown table."""

    suite: shared.Names = ()
    """Suites whose tasks are compared; LIBERO's four if none is given."""
    size: int = 256
    """Pixels of a side."""
    states: int = 1
    """Initial states of each task."""
    plain: bool = False
    """Also compare what MJX's ray tracer draws by itself."""
    json: bool = False
    """Print JSON instead of the table."""


def pictures(options: Pictures) -> dict[str, Any]:
    """The figures of `bench pictures`; the keys are those of the JSON."""
    shared.at_least(1, lanes=options.lanes, repeats=options.repeats)
    shared.at_least(0, task=options.task)
    _check(options.size)

    from evals import registry
    from mjx_bench.bench import figures
    from mjx_bench.bench import pictures as bench

    task = registry.load_task(options.suite, options.task, seeds=(SEED,))
    kernels_s = round(bench.build_kernels(), 2)
    note(f"Warp's kernels took {kernels_s:g} s")
    poses = bench.task_poses(task, options.lanes, SEED)
    memory = bench.memory(task.scene, options.size, poses[0])
    found = bench.measure(task.scene, options.size, poses, options.repeats)
    primitives = bench.primitive_scene()
    small = bench.measure(primitives, options.size, bench.primitive_poses(primitives, options.lanes), options.repeats)
    return {
        "suite": options.suite,
        "task": options.task,
        "size": options.size,
        "lanes": options.lanes,
        "cameras": len(task.scene.observed),
        **bench.summary(found),
        "warp_kernels_s": kernels_s,
        "warp_memory": memory,
        "primitives": bench.summary(small),
        "peak_rss_mib": figures.peak_rss_mib(),
        **figures.machine(),
    }


def _check(size: int) -> None:
    """Raises `BenchError` for a size that no renderer makes, or a renderer that does not work here."""
    from mjx_bench.observe.base import MAX_SIDE
    from mjx_bench.observe.choice import RENDERERS, choose

    if not 1 <= size <= MAX_SIDE:
        raise BenchError(f"--size {size}: give 1 to {MAX_SIDE} pixels")
    for name in RENDERERS:
        choose(name)


def fidelity(options: Fidelity) -> list[tuple[str, dict[str, Any]]]:
    """Task to `warp` (and `plain`) to camera to likeness."""
    shared.at_least(1, states=options.states)
    _check(options.size)
    suites = shared.suites(shared.flat(options.suite) or SUITES)

    from evals import registry
    from mjx_bench.bench.fidelity import compare

    rows = []
    for suite in suites:
        for index in range(len(registry.task_table(suite))):
            task = registry.load_task(suite, index, seeds=(SEED,))
            rows.append((f"{suite} {index}", compare(task, options.size, options.states, SEED, plain=options.plain)))
            note(f"{suite} {index}")
    return rows


def tables(rows: list[tuple[str, dict[str, Any]]]) -> list[str]:
    """The rows as Markdown: a table for each way of drawing."""
    from mjx_bench.bench.fidelity import table

    lines: list[str] = []
    for way in rows[0][1]:
        lines += ["", *table([(label, found[way]) for label, found in rows])]
    return lines[1:]


def plain_data(found: dict[str, Any]) -> dict[str, Any]:
    """One task's row as what JSON knows."""
    return {way: {name: dataclasses.asdict(likeness) for name, likeness in row.items()} for way, row in found.items()}
