"""Speed over the number of lanes: an engine from its task's own initial states under small random actions.

No policy takes part, so that thousands of lanes cost nothing but physics; and nothing is compared with, since `bench engine`
does that. Compiling is timed apart. Memory is the process's peak so far, which grows with the lanes.

What is here runs in a process of its own (`sweep`) and yields what it finds as JSON data: `{"compiled": figures}` once,
`{"begins": lanes, "expected_s": seconds}` before a point, and after it `{"point": figures}`; or, of a point that is not
measured, `{"skipped": lanes, "why": text}`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from mjx_bench.bench.figures import Spread, peak_rss_mib
from mjx_bench.engines import engine_of
from mjx_bench.errors import BenchError
from mjx_bench.physics.base import Physics
from mjx_bench.policy import ACTION_DIMS, NATIVE, action_mode_for
from mjx_bench.task import Task

INTERVAL = 8  # control steps a query, at most
LEAST = 3  # queries a point
# Of full speed: the robot wanders near where it starts, so that every query is as long as the last.
WANDER = 0.2
# Control steps after which all lanes start again, for the same reason.
EPISODE = 100
# Different initial states among the lanes, at most.
STARTS = 32

LoadTask = Callable[[], Task]


@dataclasses.dataclass(frozen=True)
class Budget:
    """How long measuring may take, in seconds.

    Attributes:
      point: what a point takes where that is enough for `LEAST` queries.
      limit: what a point may take at most.
      total: what all points may take together, compilation included.
    """

    point: float
    limit: float
    total: float = float("inf")


class Outlook:
    """How long the next point will take: as the last one, and longer by as many more tiles.

    Args:
      budget: what it must fit into, from now on.
      tile: lanes a program.
      calls: control steps of all lanes, or calls, that a point takes at least.
    """

    def __init__(self, budget: Budget, tile: int, calls: int) -> None:
        self._budget, self._tile, self._calls = budget, tile, calls
        self._until = time.monotonic() + budget.total
        self._last: tuple[int, float] | None = None

    def saw(self, lanes: int, seconds: float) -> None:
        """A control step of all `lanes`, or a call, took so long."""
        self._last = lanes, seconds

    def expected(self, lanes: int) -> float | None:
        """Seconds that a point needs at least; None before the first."""
        if self._last is None:
            return None
        before, seconds = self._last
        return self._calls * seconds * -(-lanes // self._tile) / -(-before // self._tile)

    def obstacle(self, lanes: int) -> str | None:
        """Why there is no time for a point; None where there is."""
        needed, left = self.expected(lanes) or 0.0, self._until - time.monotonic()
        if needed > self._budget.limit:
            return f"would take {needed:.0f} s, more than the {self._budget.limit:g} s that a point may take"
        if needed > left:
            return f"would take {needed:.0f} s, and {max(left, 0.0):.0f} s are left"
        return None


def points(
    load_task: LoadTask,
    backend: str,
    tile: int | None,
    lanes: Sequence[int],
    known: Sequence[tuple[int, float]],
    budget: Budget,
    seed: int,
) -> Iterator[dict[str, Any]]:
    """The points of one engine.

    Args:
      load_task: what is simulated.
      backend: engine.
      tile: lanes a program; None for an engine without programs.
      lanes: numbers of lanes, ascending.
      known: numbers of lanes and control steps a second of points measured before.
      budget: for as many as it allows.
      seed: of the actions, and the policy seed.
    """
    outlook = Outlook(budget, tile or 1, 1 + LEAST)
    for count, rate in known:
        outlook.saw(count, count / rate)
    task = load_task()
    mode = action_mode_for(NATIVE, task)
    told = False
    for count in lanes:
        if why := outlook.obstacle(count):
            yield {"skipped": count, "why": why}
            continue
        yield {"begins": count, "expected_s": outlook.expected(count)}
        try:
            physics = engine_of(task, backend, count, mode, interval=INTERVAL, tile=tile)
            with contextlib.closing(physics):
                if backend != "c" and not told:
                    yield {"compiled": _compiled(physics)}
                    told = True
                speed, steps = _rate(task, physics, count, budget, seed)
        except (
            MemoryError,
            RuntimeError,
        ) as error:  # RuntimeError: what JAX and Warp say when a device's memory is full
            yield {"skipped": count, "why": _first_line(error)}
            continue
        outlook.saw(count, count / speed.median)
        yield {
            "point": {
                "lanes": count,
                "control_steps_per_s": speed.median,
                "range": [speed.low, speed.high],
                "physics_steps_per_s": float(f"{speed.median * task.substeps:.4g}"),
                "queries": speed.count,
                "steps_a_query": steps,
                "peak_rss_mib": peak_rss_mib(),
                "peak_device_mib": _device_peak_mib(),
                "load_average": round(os.getloadavg()[0], 2),
            }
        }


def _compiled(physics: Physics) -> dict[str, Any]:
    # Imported late, as JAX is by it: `c` is measured where JAX does not work.
    from mjx_bench.physics.compiled import Compiled

    assert isinstance(physics, Compiled)
    program = physics.program
    return {
        "trace_s": round(program.trace_s, 2),
        "compile_s": round(program.compile_s, 2),
        "compile_cached": program.cached,
    }


def _rate(task: Task, physics: Physics, lanes: int, budget: Budget, seed: int) -> tuple[Spread, int]:
    """Control steps a second of all lanes together, query by query, and how many each query has.

    Where a control step of all lanes takes long, a query is one of them.

    Raises:
      BenchError: a lane failed.
    """
    states, reset = task.load_init_states(), task.load_reset(seed)
    own = [(states[i], task.fields_of(i)) for i in range(min(lanes, len(states), STARTS))]
    rng = np.random.default_rng(seed)
    ids = np.arange(lanes, dtype=np.int32)
    width = ACTION_DIMS[action_mode_for(NATIVE, task)]
    taken = EPISODE

    def seconds(steps: int) -> float:
        nonlocal taken
        if taken + steps > EPISODE:
            taken = 0
            for lane in range(lanes):
                state, fields = own[lane % len(own)]
                physics.load(lane, state, reset, fields)
        taken += steps
        chunk = WANDER * rng.uniform(-1.0, 1.0, (lanes, steps, width))
        start = time.perf_counter()
        physics.announce(ids, chunk, np.full(lanes, steps))
        for step in range(steps):
            if failed := physics.control_step(ids, chunk[:, step]):
                raise BenchError(f"lane {min(failed)} of {lanes} failed: {failed[min(failed)]}")
        return time.perf_counter() - start

    start = time.monotonic()
    seconds(1)  # finds every cache cold
    one = seconds(1)
    steps = min(INTERVAL, max(1, int(budget.point / LEAST / one)))
    rates = [lanes / one] if steps == 1 else []
    while (
        not rates or (spent := time.monotonic() - start) < budget.point or (len(rates) < LEAST and spent < budget.limit)
    ):
        rates.append(steps * lanes / seconds(steps))
    return Spread.of(rates), steps


def pictures(
    load_task: LoadTask,
    size: int,
    lanes: Sequence[int],
    known: Sequence[tuple[int, float]],
    budget: Budget,
    seed: int,
) -> Iterator[dict[str, Any]]:
    """Pictures a second of the Warp renderer, of all that a policy sees, over the number of lanes a call.

    Args:
      load_task, lanes, budget, seed: as for `points`.
      size: pixels a side.
      known: numbers of lanes and pictures a second of points measured before.
    """
    from mjx_bench.bench.pictures import build_kernels, task_poses
    from mjx_bench.observe.choice import make_renderer

    outlook = Outlook(budget, 1, 1 + LEAST)
    task = load_task()
    cameras = list(task.scene.observed)
    for count, rate in known:
        outlook.saw(count, count * len(cameras) / rate)
    yield {"compiled": {"kernels_s": round(build_kernels(), 2)}}
    few = task_poses(task, min(STARTS, max(lanes)), seed)
    for count in lanes:
        if why := outlook.obstacle(count):
            yield {"skipped": count, "why": why}
            continue
        yield {"begins": count, "expected_s": outlook.expected(count)}
        poses = [few[lane % len(few)] for lane in range(count)]
        rates = []
        try:
            with contextlib.closing(make_renderer("warp", task.scene, cameras, size, size, count)) as renderer:
                renderer.render(poses)
                for _ in range(LEAST):
                    start = time.perf_counter()
                    renderer.render(poses)
                    rates.append(count * len(cameras) / (time.perf_counter() - start))
        except (MemoryError, RuntimeError) as error:
            yield {"skipped": count, "why": _first_line(error)}
            continue
        speed = Spread.of(rates)
        outlook.saw(count, count * len(cameras) / speed.median)
        figures = {"lanes": count, "size": size, "images_per_s": speed.median, "range": [speed.low, speed.high]}
        yield {"point": figures | {"peak_rss_mib": peak_rss_mib(), "load_average": round(os.getloadavg()[0], 2)}}


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or ['no reason given'])[0]}"


def _device_peak_mib() -> float | None:
    """Most memory that JAX has held so far on the device that held most; None where devices do not say, or without JAX."""
    if "jax" not in sys.modules:
        return None
    import jax

    stats = [device.memory_stats() for device in jax.local_devices()]
    peaks = [s["peak_bytes_in_use"] for s in stats if s and "peak_bytes_in_use" in s]
    return round(max(peaks) / 2**20, 1) if peaks else None
