"""The environment that every command runs in: caches and thread counts, which are our business and not the user's.

Libraries read these variables when they are imported, so `configure` comes before any of them.
Standard library only.
"""

from __future__ import annotations

import os
from pathlib import Path

CACHE_VARIABLE = "MJX_BENCH_CACHE"

# BLAS and OpenMP pools inside a process that already steps lanes in threads of its own cost half the speed, and a BLAS
# that splits its sums differently on another machine changes results.
_SINGLE_THREADED = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def cache_root() -> Path:
    """Folder of everything that is kept between runs: `$MJX_BENCH_CACHE` if set, else `~/.cache/mjx-bench`."""
    override = os.environ.get(CACHE_VARIABLE)
    return Path(override).expanduser() if override else Path.home() / ".cache" / "mjx-bench"


def defaults() -> dict[str, str]:
    """Variable to the value it gets when the user has not set it."""
    cache = cache_root()
    return dict.fromkeys(_SINGLE_THREADED, "1") | {
        "JAX_COMPILATION_CACHE_DIR": str(cache / "jax"),
        "NUMBA_CACHE_DIR": str(cache / "numba"),
        "WARP_CACHE_PATH": str(cache / "warp"),
        "MPLBACKEND": "agg",
    }


def configure() -> None:
    """Sets what the user has not set. Call it before importing numpy, JAX, MuJoCo or Numba; calling it twice is harmless."""
    for name, value in defaults().items():
        os.environ.setdefault(name, value)
