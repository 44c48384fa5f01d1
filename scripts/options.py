"""Option types that several commands share, and the checks that come before any work."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import tyro

from mjx_bench.errors import BenchError, unknown_name

# `--suite a b` and `--suite a --suite b` mean the same.
Names = Annotated[tuple[tuple[str, ...], ...], tyro.conf.UseAppendAction]


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What every command that runs cases into results folders is told."""

    policy: str
    """scripted.reactive, scripted.open_loop, scripted.oracle, zero, random, replay:DIR, seeing:NAME, pi05:DIR (a
    checkpoint), ws://host:port (a policy server), libero_max:NAME (pi05:DIR or ws://host:port, with LIBERO-MAX's noise), or
    module:factory (your own)."""
    random_weights: bool = False
    """Of a policy that is named by its configuration (pi05_tiny): random weights, always the same, for trying things out."""
    out: Path
    """Results folder."""
    shard: str | None = None
    """i/n: of these, run those whose index is i modulo n. `mjx-bench merge` puts the shards together."""
    launcher: Literal["local", "ray"] = "local"
    """local: in this process; ray: in shards on a Ray cluster, with OUT on a file system that its machines share."""
    address: str | None = None
    """Of the Ray cluster (host:port, or auto); one is started on this machine for the run if none is given."""
    gpus: float = 0.0
    """GPUs of each shard on the cluster."""
    lanes: int = 8
    """Episodes of one scene that run side by side."""
    threads: int = 0
    """Threads to use; 0 for all processors."""
    backend: str = "auto"
    """Physics engine: c, jax, warp, or auto, which goes by the machine; `mjx-bench doctor` says what it takes and why."""
    scene_form: Literal["exact", "lean"] = "exact"
    """exact: scenes as their source has them; lean: with few and simple collision shapes, for --backend jax."""
    renderer: Literal["auto", "gl", "warp"] = "auto"
    """What takes pictures, for a policy that sees and for films: gl (OpenGL, the reference) or warp (ray tracing)."""
    cancel_on_change: bool = False
    """Drop the actions that wait, and ask again, when what the policy observes changes at once."""
    run_on: bool = False
    """Success does not end an episode: it runs to its horizon, and may be undone by then."""
    dry_run: bool = False
    """Say what would be run, and what at most it costs, and run nothing."""
    json: bool = False
    """Print the report as JSON instead of a table."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class OneRunOptions(RunOptions):
    """Of these, what is told to a command that makes one results folder."""

    query_interval: int = 8
    """Q, the actions executed before the policy is asked again."""
    horizon: int | None = None
    """H, the actions used of each answer; all that the policy returns if not given."""
    delay: int = 0
    """Control steps from an observation to the first action chosen from it; the actions chosen before bridge them."""
    restoration: Literal["off", "native", "always", "gated"] = "off"
    """Repair of the policy's pictures: off; native: only measured; always; gated: those that show noise or occlusion."""
    video: int = 0
    """Cases to film when the run is done, arms side by side; regressions and failures first. They go into OUT/media."""
    frames: int = 0
    """Cases to take stills of, likewise."""


def flat(names: Names) -> tuple[str, ...]:
    """All names of a `Names` option, in order, each once."""
    return tuple(dict.fromkeys(name for group in names for name in group))


def at_least(minimum: int, **values: int | None) -> None:
    """Raises `BenchError` for the first value below `minimum`; None is an option that was not given."""
    for name, value in values.items():
        if value is not None and value < minimum:
            flag = "--" + name.replace("_", "-")
            raise BenchError(f"{flag} {value} is too small; give an integer of at least {minimum}")


def suites(names: Sequence[str]) -> tuple[str, ...]:
    """The named suites, checked; raises `BenchError` with the nearest names for an unknown one."""
    from evals import registry

    for name in names:
        registry.check_suite(name)
    return tuple(names)


def no_event(names: Sequence[str]) -> tuple[bool, tuple[str, ...]]:
    """Whether the event is to be `none`, and the other names; `BenchError` where both are given."""
    others = tuple(name for name in names if name != "none")
    if others and len(others) < len(names):
        raise BenchError(f"--event none changes nothing in any case; give it without {', '.join(others)}")
    return len(others) < len(names), others


def plain_suites(names: Sequence[str]) -> tuple[str, ...]:
    """The named suites, checked, all of which cases can be drawn on; a varied one's cases come from a manifest only."""
    from evals import registry

    for name in suites(names):
        if name not in registry.suites():
            raise BenchError(
                f"cases cannot be drawn on {name!r}, a suite of varied tasks; give a manifest of them,"
                f" or draw on {', '.join(registry.suites())}"
            )
    return tuple(names)


def events(names: Sequence[str]) -> tuple[str, ...] | None:
    """The named event types, checked; None, which means all of version 1, if none is named."""
    from mjx_bench.records import EVENT_ORDER, OWN_EVENTS

    for name in names:
        if name not in (known := (*EVENT_ORDER, *OWN_EVENTS)):
            raise unknown_name("event", name, known)
    return tuple(names) or None


def task_index(suite: str, task: str) -> int:
    """The index of a task that is named by its index or by its name; raises `BenchError` with the nearest names."""
    from evals import registry

    registry.check_suite(suite)
    if task.isdecimal():
        return int(task)
    names = {row["name"]: int(row["index"]) for row in registry.task_table(suite)}
    if task not in names:
        raise unknown_name(f"task of {suite}", task, names)
    return names[task]
