"""`mjx-bench bench train`: what making batches costs, against the same step fed from one batch that is there already."""

from __future__ import annotations

import dataclasses
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from mjx_bench.errors import BenchError
from scripts import options as shared
from scripts.output import note


@dataclasses.dataclass(frozen=True)
class TrainBench:
    """Training steps a second from a dataset, against the same steps on one batch that lies in memory."""

    data: shared.Names = ()
    """Folders of datasets."""
    config: str = "pi05_micro_tabletop"
    """Named settings, as mjx-bench train has them."""
    batch: int | None = None
    """Frames a step; those of the settings if not given."""
    workers: int | None = None
    """Processes that prepare batches; those of the settings if not given."""
    steps: int = 10
    """Steps of a turn."""
    repeats: int = 5
    """Turns of either kind, one after the other."""
    json: bool = False
    """Print JSON instead of text."""


def train(options: TrainBench) -> dict[str, Any]:
    """The figures of `bench train`; the keys are those of the JSON."""
    shared.at_least(1, steps=options.steps, repeats=options.repeats, batch=options.batch)
    folders = tuple(Path(name) for name in shared.flat(options.data))
    if not folders:
        raise BenchError("give --data: the folder of a LeRobot dataset (mjx-bench demos makes one)")

    import jax

    from mjx_bench.bench import figures
    from train import configs, loop, mesh

    given = {n: getattr(options, n) for n in ("batch", "workers") if getattr(options, n) is not None}
    config = dataclasses.replace(configs.named(options.config), **given)
    with tempfile.TemporaryDirectory(prefix="mjx-bench-") as folder:
        training = loop.Training(config, loop.Data(folders), Path(folder) / "run", note)
        state = training.state()
        step = training.compiled(state)
        stream = training.stream(0)
        begin = time.perf_counter()
        resident = mesh.put(training.mesh, next(stream))
        state, _ = step(state, resident)
        jax.block_until_ready(state)
        first_s = time.perf_counter() - begin
        seconds: dict[str, list[float]] = {"resident": [], "dataset": []}
        for turn in range(options.repeats):
            for kind in ("resident", "dataset") if turn % 2 else ("dataset", "resident"):
                begin = time.perf_counter()
                for _ in range(options.steps):
                    batch = resident if kind == "resident" else mesh.put(training.mesh, next(stream))
                    state, _ = step(state, batch)
                jax.block_until_ready(state)
                seconds[kind].append((time.perf_counter() - begin) / options.steps)
            note(f"turn {turn + 1}/{options.repeats}: " + ", ".join(f"{k} {v[-1]:.3f} s" for k, v in seconds.items()))
        training.saver.close()
    median = {kind: statistics.median(values) for kind, values in seconds.items()}
    ratios = [a / b for a, b in zip(seconds["dataset"], seconds["resident"], strict=True)]
    return {
        "config": config.name,
        "model": config.model,
        "batch": config.batch,
        "workers": config.workers,
        "first_step_s": round(first_s, 2),
        **{f"{kind}_step_s": round(value, 4) for kind, value in median.items()},
        "frames_per_s": round(config.batch / median["dataset"], 2),
        "data_overhead": round(statistics.median(ratios) - 1.0, 4),
        **figures.machine(),
    }
