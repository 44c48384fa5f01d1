"""`mjx-bench bench curve`: how engines scale with lanes, and what pictures of as many lanes cost; for any machine."""

from __future__ import annotations

import dataclasses
import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mjx_bench.errors import BenchError, MissingExtra
from scripts import options as shared
from scripts.bench_pictures import SEED
from scripts.output import check_writable, note

if TYPE_CHECKING:
    from mjx_bench.bench.sweep import Part

_DRAWN = (".png", ".svg", ".pdf")


@dataclasses.dataclass(frozen=True)
class Curve:
    """Control steps a second of one task over the number of lanes, on one engine or several."""

    suite: str
    """Suite of the task."""
    task: str = "0"
    """The task, by index or by name."""
    backend: shared.Names = ()
    """Physics engines, one after another: c, jax, warp; what the machine is best at if none is given."""
    lanes: tuple[int, ...] = (1, 8, 64, 256, 1024, 4096)
    """Numbers of lanes."""
    tile: tuple[int, ...] = ()
    """Lanes a program, for compiled engines: a curve each; the machine's own if none is given."""
    seconds: float = 3.0
    """How long to measure each point; at least three queries, of eight control steps or, where that takes longer, of one."""
    limit: float = 180.0
    """Seconds that a point may take at most; one that would take longer is skipped."""
    minutes: float | None = None
    """How long everything may take; each curve gets its share, and what does not fit is skipped."""
    pictures: int = 0
    """Pixels of a side: also measures the Warp renderer's pictures of the same lanes."""
    out: Path | None = None
    """File that keeps the JSON, point by point: the same command again goes on from there."""
    plot: Path | None = None
    """File to draw the curves into (.png, .svg or .pdf)."""
    json: bool = False
    """Print JSON instead of text."""


def curve(options: Curve) -> dict[str, Any]:
    """The figures of `bench curve`; the keys are those of the JSON."""
    _check(options)
    # Every engine has a process and this one has none: none may take most of a device's memory for itself.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

    from evals import registry
    from mjx_bench.bench import figures, sweep
    from mjx_bench.bench.curve import Budget

    index = shared.task_index(options.suite, options.task)
    load_task = functools.partial(registry.load_task, options.suite, index, seeds=(SEED,))
    task = load_task()
    parts, without = _parts(options)
    about = {"suite": options.suite, "task": index, "name": task.name, "substeps": task.substeps}
    machine = figures.machine()
    machine.pop("load_average")  # each point has its own
    about |= {
        "seconds": options.seconds,
        "size": options.pictures,
        "devices": _devices(),
    } | machine
    whole = sweep.Sweep(about, parts, sorted(set(options.lanes)), options.out, note)
    total = float("inf") if options.minutes is None else 60 * options.minutes
    try:
        whole.run(load_task, SEED, options.pictures, Budget(options.seconds, options.limit, total))
    except KeyboardInterrupt:
        kept = "nothing is kept, since no --out was given" if options.out is None else f"they are in {options.out}"
        note(f"{whole.measured} of {whole.wanted} points are measured; {kept}")
        raise
    whole.found["skipped"] += without
    if not whole.measured:
        raise BenchError(f"nothing was measured: {whole.found['skipped'][0]['why']}")
    if options.plot is not None:
        sweep.plot(whole.found, options.plot)
    return whole.found


def _devices() -> list[str]:
    """What JAX runs on; nothing where it does not work, and then no engine that needs it is measured."""
    from mjx_bench.physics.choice import missing_jax

    if missing_jax():
        return []
    import jax

    return [device.device_kind for device in jax.local_devices()]


def _check(options: Curve) -> None:
    """Raises `BenchError` for an option that makes no sense, before any work."""
    shared.at_least(1, **{"lanes": min(options.lanes, default=0), "tile": min(options.tile, default=1)})
    shared.at_least(0, pictures=options.pictures)
    for name in ("seconds", "limit", "minutes"):
        value = getattr(options, name)
        if value is not None and not 0 < value < float("inf"):
            raise BenchError(f"--{name} {value} is no time to measure; give a positive number")
    if options.limit < options.seconds:
        raise BenchError(f"--limit {options.limit:g} is less than --seconds {options.seconds:g}, which a point takes")
    if options.plot is not None and options.plot.suffix not in _DRAWN:
        raise BenchError(f"--plot {options.plot}: expected a file ending in {', '.join(_DRAWN)}")
    for path in (options.out, options.plot):
        if path is not None:
            check_writable(path)


def _parts(options: Curve) -> tuple[list[Part], list[dict[str, Any]]]:
    """What to measure, and what cannot be for want of a package.

    Raises:
      BenchError: an unknown engine.
      MissingExtra: there is nothing else to measure.
    """
    from mjx_bench.bench.sweep import PICTURES, Part
    from mjx_bench.physics.choice import choose, default_tile, missing_jax, missing_warp

    parts: dict[Part, None] = {}
    without = []
    for name in shared.flat(options.backend) or ("auto",):
        if name == "jax" and (missing := missing_jax()):
            without.append({"backend": name, "why": missing})
            continue
        try:
            engine, _ = choose(name)
        except MissingExtra as error:
            without.append({"backend": name, "why": str(error)})
            continue
        tiles = (None,) if engine == "c" else options.tile or (default_tile(),)
        parts |= dict.fromkeys(Part(engine, tile) for tile in tiles)
    if not parts:
        raise MissingExtra(without[0]["why"])
    if options.pictures and (missing := missing_warp()):
        without.append({"backend": PICTURES, "why": missing})
    elif options.pictures:
        parts[Part(PICTURES)] = None
    return list(parts), without
