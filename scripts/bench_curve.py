"""`mjx-bench bench curve`: how engines scale with lanes, and what pictures of as many lanes cost; for any machine."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from mjx_bench.errors import BenchError
from scripts import options as shared
from scripts.bench_pictures import SEED
from scripts.output import note

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
    lanes: tuple[int, ...] = (1, 8, 64, 512, 4096)
    """Numbers of lanes."""
    tile: tuple[int, ...] = ()
    """Lanes a program, for compiled engines: a curve each; the machine's own if none is given."""
    seconds: float = 3.0
    """How long to measure each point; at least two queries of 8 control steps."""
    pictures: int = 0
    """Pixels of a side: also measures the Warp renderer's pictures of the same lanes."""
    plot: Path | None = None
    """File to draw the curves into (.png, .svg or .pdf)."""
    json: bool = False
    """Print JSON instead of text."""


def curve(options: Curve) -> dict[str, Any]:
    """The figures of `bench curve`; the keys are those of the JSON."""
    shared.at_least(1, **{"lanes": min(options.lanes, default=0), "tile": min(options.tile, default=1)})
    shared.at_least(0, pictures=options.pictures)
    if not 0 < options.seconds < float("inf"):
        raise BenchError(f"--seconds {options.seconds} is no time to measure; give a positive number")
    if options.plot is not None and options.plot.suffix not in _DRAWN:
        raise BenchError(f"--plot {options.plot}: expected a file ending in {', '.join(_DRAWN)}")

    from evals import registry
    from mjx_bench.bench import curve as bench
    from mjx_bench.bench import figures
    from mjx_bench.physics.choice import choose

    engines = dict.fromkeys(choose(name)[0] for name in shared.flat(options.backend) or ("auto",))
    index = shared.task_index(options.suite, options.task)
    task = registry.load_task(options.suite, index, seeds=(SEED,))
    lanes = sorted(set(options.lanes))
    found = {
        "suite": options.suite,
        "task": index,
        "name": task.name,
        "substeps": task.substeps,
        "curves": [
            curve
            for backend in engines
            for curve in bench.curves(task, backend, lanes, options.tile, options.seconds, SEED, progress=note)
        ],
        "pictures": bench.pictures(task, options.pictures, lanes, SEED, progress=note) if options.pictures else [],
        "devices": bench.devices(),
        **figures.machine(),
    }
    if options.plot is not None:
        bench.plot(found, options.plot)
    return found
