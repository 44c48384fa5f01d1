"""Speed over the number of lanes: each engine from its task's own initial states under small random actions.

No policy takes part, so that thousands of lanes cost nothing but physics; and nothing is compared with, since `bench engine`
does that. Compiling is timed apart. Memory is the process's peak so far, which grows with the lanes in the order measured.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from mjx_bench.bench.figures import Spread, peak_rss_mib
from mjx_bench.engines import engine_of
from mjx_bench.errors import BenchError
from mjx_bench.physics.base import Physics
from mjx_bench.physics.compiled import Compiled
from mjx_bench.policy import ACTION_DIMS
from mjx_bench.task import Task

INTERVAL = 8  # control steps a query
ACTION_MODE = "osc_pose"
# Of full speed: the arm wanders near where it starts, so that every segment is as long as the last.
WANDER = 0.2

Progress = Callable[[str], None]


def curves(
    task: Task, backend: str, lanes: Sequence[int], tiles: Sequence[int], seconds: float, seed: int, progress: Progress
) -> Iterator[dict[str, Any]]:
    """The curve of one engine for each of `tiles`, as JSON data; of the platform's own tile if none is given.

    Args:
      task: what is simulated.
      backend: engine.
      lanes: numbers of lanes, ascending.
      tiles: lanes a program.
      seconds: a point; at least two queries are measured.
      seed: of the actions, and the policy seed.
      progress: called with a line about each point.
    """
    for tile in tiles or (None,):
        points: list[dict[str, Any]] = []
        compiled: dict[str, Any] = {}
        for count in lanes:
            with contextlib.closing(
                engine_of(task, backend, count, ACTION_MODE, interval=INTERVAL, tile=tile)
            ) as physics:
                if isinstance(physics, Compiled) and not compiled:
                    program = physics.program
                    compiled = {
                        "tile": physics.tile,
                        "trace_s": round(program.trace_s, 2),
                        "compile_s": round(program.compile_s, 2),
                        "compile_cached": program.cached,
                    }
                rate = _rate(task, physics, count, seconds, seed)
            memory = {"peak_rss_mib": peak_rss_mib(), "peak_device_mib": _device_peak_mib()}
            point = {"lanes": count, "control_steps_per_s": rate.median, "range": [rate.low, rate.high], **memory}
            point["physics_steps_per_s"] = float(f"{rate.median * task.substeps:.4g}")
            points.append(point)
            progress(f"{backend}, {count} lanes: {rate.median:.4g} control steps a second")
        yield {"backend": backend, **compiled, "points": points}
        if backend == "c":
            return


def _rate(task: Task, physics: Physics, lanes: int, seconds: float, seed: int) -> Spread:
    """Control steps a second of all lanes together, query by query.

    Raises:
      BenchError: a lane failed.
    """
    states, reset = task.load_init_states(), task.load_reset(seed)
    instances = range(min(lanes, len(states), 32))
    own = [(states[i], task.fields_of(i)) for i in instances]
    for lane in range(lanes):
        state, fields = own[lane % len(own)]
        physics.load(lane, state, reset, fields)
    rng = np.random.default_rng(seed)
    ids = np.arange(lanes, dtype=np.int32)
    rates: list[float] = []
    deadline = None
    while deadline is None or len(rates) < 2 or time.perf_counter() < deadline:
        chunk = WANDER * rng.uniform(-1.0, 1.0, (lanes, INTERVAL, ACTION_DIMS[ACTION_MODE]))
        start = time.perf_counter()
        physics.announce(ids, chunk, np.full(lanes, INTERVAL))
        for step in range(INTERVAL):
            if failed := physics.control_step(ids, chunk[:, step]):
                raise BenchError(f"lane {min(failed)} of {lanes} failed: {failed[min(failed)]}")
        rates.append(INTERVAL * lanes / (time.perf_counter() - start))
        if deadline is None:  # the first query warms up
            rates.clear()
            deadline = time.perf_counter() + seconds
    return Spread.of(rates)


def pictures(task: Task, size: int, lanes: Sequence[int], seed: int, progress: Progress) -> list[dict[str, Any]]:
    """Pictures a second of the Warp renderer, of all that a policy sees, over the number of lanes a call."""
    from mjx_bench.bench.pictures import build_kernels, task_poses
    from mjx_bench.observe.choice import make_renderer

    progress(f"Warp's kernels took {build_kernels():.3g} s")
    rows = []
    cameras = list(task.scene.observed)
    few = task_poses(task, min(32, max(lanes)), seed)
    for count in lanes:
        poses = [few[lane % len(few)] for lane in range(count)]
        with contextlib.closing(make_renderer("warp", task.scene, cameras, size, size, count)) as renderer:
            renderer.render(poses)
            rates = []
            for _ in range(3):
                start = time.perf_counter()
                renderer.render(poses)
                rates.append(count * len(cameras) / (time.perf_counter() - start))
        rate = Spread.of(rates)
        rows.append({"lanes": count, "size": size, "images_per_s": rate.median, "range": [rate.low, rate.high]})
        progress(f"pictures of {count} lanes: {rate.median:.4g} a second")
    return rows


def devices() -> list[str]:
    """What JAX runs on."""
    return [device.device_kind for device in jax.local_devices()]


def _device_peak_mib() -> float | None:
    """Most memory that JAX has held so far on the device that held most; None where devices do not say."""
    stats = [device.memory_stats() for device in jax.local_devices()]
    peaks = [s["peak_bytes_in_use"] for s in stats if s and "peak_bytes_in_use" in s]
    return round(max(peaks) / 2**20, 1) if peaks else None


def plot(found: dict[str, Any], path: Path) -> None:
    """Draws the curves of `bench curve`.

    Raises:
      BenchError: the file cannot be written.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    for curve in found["curves"]:
        tile = f", tiles of {curve['tile']}" if "tile" in curve else ""
        points = curve["points"]
        lanes, rates = ([p[name] for p in points] for name in ("lanes", "physics_steps_per_s"))
        axes.plot(lanes, rates, marker="o", label=curve["backend"] + tile)
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="lanes",
        ylabel="physics steps a second",
        title=f"{found['suite']} {found['name']}",
    )
    axes.grid(alpha=0.3, which="both")
    axes.legend()
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise BenchError(f"cannot draw {path}: {error}") from None
    finally:
        plt.close(figure)
