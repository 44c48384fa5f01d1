"""Whether two workers are worth two: the same run on one worker and on several, in turns."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from mjx_bench.bench.figures import Spread
from mjx_bench.bench.where import Sampler
from mjx_bench.sessions import Session

# What `mjx_bench.workers` calls its threads.
THREADS = "scene"


def measure(run: Callable[[int], Session], threads: int, repeats: int) -> dict[str, Any]:
    """Runs with one worker and with `threads`, `repeats` times in turns.

    Args:
      run: number of threads to the session of a whole run; what it runs must not depend on earlier calls.
      threads: at least 2.
      repeats: at least 1.

    Returns:
      speedup: wall seconds of one worker over those of several.
      cpu_ratio: processor seconds of several workers over those of one: above 1 is work that sharing the machine adds.
      busy_fraction: of the workers, see `Session`.
      processors_in_use: processor seconds a wall second.
      where: label to share of the workers' time (see `bench.where`), of one worker and of several, last repetition.
      control_steps: of one run, the same in all.
    """
    speedup, cpu, busy, in_use = [], [], [], []
    where: dict[str, dict[str, float]] = {}
    for turn in range(repeats):
        sessions = {}
        for n in (1, threads) if turn % 2 == 0 else (threads, 1):
            with Sampler(THREADS) as sampler:
                sessions[n] = run(n)
            where[str(n)] = sampler.shares()
        one, several = sessions[1], sessions[threads]
        assert one.control_steps == several.control_steps, "what is executed does not depend on the workers"
        speedup.append(one.wall_s / several.wall_s)
        cpu.append(several.cpu_s / one.cpu_s)
        busy.append(several.busy_fraction)
        in_use.append(several.cpu_s / several.wall_s)
    spreads = {"speedup": speedup, "cpu_ratio": cpu, "busy_fraction": busy, "processors_in_use": in_use}
    return {
        **{name: dataclasses.asdict(Spread.of(values)) for name, values in spreads.items()},
        "control_steps": one.control_steps,
        "where": where,
    }
