"""`mjx-bench bench engine`: one engine's control step, as a ratio to bare MuJoCo or bare MJX on the same lanes."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Any, Literal

from mjx_bench.errors import BenchError, MissingExtra
from scripts import options as shared
from scripts.bench_pictures import SEED
from scripts.output import note

if TYPE_CHECKING:
    from mjx_bench.bench.engine import EngineFigures, Reference
    from mjx_bench.policy import Policy
    from mjx_bench.task import Task


@dataclasses.dataclass(frozen=True)
class Engine:
    """One task's control step, against bare MuJoCo or bare MJX, and against LIBERO's own `env.step` where it has one."""

    suite: str
    """Suite of the task."""
    task: str = "0"
    """The task, by index or by name."""
    backend: str = "auto"
    """Physics engine: c, jax, warp, or auto, which goes by the machine."""
    scene_form: Literal["exact", "lean"] = "exact"
    """Form of the scene, as `pair` takes it."""
    lanes: int = 32
    """Episodes that run side by side."""
    threads: int = 1
    """Engines side by side, each in a thread of its own with its part of the lanes; for the engine c."""
    seconds: float = 30.0
    """How long to measure."""
    policy: str = "scripted.oracle"
    """Where the actions come from (the expert for any task, if none is given); its own time is not counted."""
    json: bool = False
    """Print JSON instead of text."""


def engine(options: Engine) -> dict[str, Any]:
    """The figures of `bench engine`; the keys are those of the JSON."""
    shared.at_least(1, lanes=options.lanes, threads=options.threads)
    if not 0 < options.seconds < float("inf"):
        raise BenchError(f"--seconds {options.seconds} is no time to measure; give a positive number")

    from evals import registry
    from mjx_bench.bench import figures
    from mjx_bench.physics.choice import choose
    from mjx_bench.schedule import check_actions
    from policies import registry as policies

    backend, _ = choose(options.backend)
    if backend != "c" and options.threads > 1:
        raise BenchError(f"--threads {options.threads}: engine {backend} uses all processors by itself; leave it out")
    policy = policies.make(options.policy)
    index = shared.task_index(options.suite, options.task)
    task = registry.load_task(options.suite, index, seeds=(SEED,), form=options.scene_form)
    check_actions(policy.spec, [task])
    found, more = (_measure_c if backend == "c" else _measure_compiled)(options, backend, task, policy)
    return {
        "suite": options.suite,
        "task": index,
        "name": task.name,
        "backend": backend,
        "scene_form": options.scene_form,
        "lanes": options.lanes,
        "policy": options.policy,
        "control_steps_per_s": found.steps_per_s.median,
        "physics_steps_per_s": float(f"{found.steps_per_s.median * task.substeps:.4g}"),
        "ratio_vs_raw": found.vs_raw.median,
        "ratio_vs_raw_range": [found.vs_raw.low, found.vs_raw.high],
        **more,
        "segments": found.vs_raw.count,
        "episodes": found.episodes,
        "peak_rss_mib": figures.peak_rss_mib(),
        **figures.machine(),
    }


def _measure_c(options: Engine, backend: str, task: Task, policy: Policy) -> tuple[EngineFigures, dict[str, Any]]:
    """Of MuJoCo's own engine: nothing to compile, and LIBERO's environment where the task has one."""
    from mjx_bench.bench.c_lanes import CLanes
    from mjx_bench.bench.engine import measure
    from mjx_bench.policy import action_mode_for

    mode = action_mode_for(policy.spec.action_mode, task)
    with contextlib.ExitStack() as stack:
        reference, missing = _reference(task, mode, stack)
        lanes = stack.enter_context(
            contextlib.closing(CLanes(task, options.lanes, min(options.threads, options.lanes), mode))
        )
        found = measure(task, policy, lanes, seconds=options.seconds, seed=SEED, reference=reference)
    theirs = found.vs_reference
    return found, {
        "threads": options.threads,
        "ratio_vs_libero": None if theirs is None else theirs.median,
        "ratio_vs_libero_range": None if theirs is None else [theirs.low, theirs.high],
        "ratio_vs_libero_note": missing,
        "compile_s": None,
        "ratio_vs_stock_xla_flags": None,
        "ratio_vs_stock_note": "the engine c is not compiled by XLA",
    }


def _measure_compiled(
    options: Engine, backend: str, task: Task, policy: Policy
) -> tuple[EngineFigures, dict[str, Any]]:
    """Of an engine in XLA's hands."""
    from mjx_bench.bench.compiled import CompiledLanes, against_stock
    from mjx_bench.bench.engine import QUERY, measure

    with contextlib.closing(CompiledLanes(task, backend, options.lanes, policy.spec.action_mode, QUERY)) as lanes:
        program = lanes.execute.program
        note(f"compiled in {program.compile_s:.3g} s" + (", from the cache" if program.cached else ""))
        found = measure(task, policy, lanes, seconds=options.seconds, seed=SEED, progress=note)
        vs_stock, stock_note = against_stock(lanes)
        tile = lanes.execute.tile
    return found, {
        "tile": tile,
        "trace_s": round(program.trace_s, 2),
        "compile_s": round(program.compile_s, 2),
        "compile_cached": program.cached,
        "ratio_vs_stock_xla_flags": None if vs_stock is None else float(f"{vs_stock:.4g}"),
        "ratio_vs_stock_note": stock_note,
    }


def _reference(task: Task, action_mode: str, stack: contextlib.ExitStack) -> tuple[Reference | None, str | None]:
    """LIBERO's environment of the task, or why there is none."""
    from evals.libero import package
    from evals.libero.timing import LiberoClock

    if task.suite not in package.SUITES:
        return None, f"{task.suite} is not one of LIBERO's suites"
    if action_mode != "osc_pose":
        return None, f"LIBERO takes osc_pose actions, the policy gives {action_mode}"
    try:
        return stack.enter_context(LiberoClock(task.suite, task.index, SEED)), None
    except MissingExtra as error:
        return None, str(error)
