"""The environment that every command runs in: caches and thread counts, which are our business and not the user's.

Libraries read these variables when they are imported, so `configure` comes before any of them.
Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

CACHE_VARIABLE = "MJX_BENCH_CACHE"

# BLAS and OpenMP pools inside a process that already steps lanes in threads of its own cost half the speed, and a BLAS
# that splits its sums differently on another machine changes results.
_SINGLE_THREADED = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def cache_root() -> Path:
    """Folder of everything that is kept between runs: `$MJX_BENCH_CACHE` if set, else `~/.cache/mjx-bench`."""
    override = os.environ.get(CACHE_VARIABLE)
    return Path(override).expanduser() if override else Path.home() / ".cache" / "mjx-bench"


def unwritable(folder: Path) -> str:
    """Why nothing can be kept in `folder`, made if need be; empty if it can. Leaves nothing behind."""
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=nearest):
            return ""
    except OSError as error:
        return f"{nearest}: {error.strerror or error}"


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


# What threads are in the middle of that cannot be broken off, in words.
_busy: list[str] = []


@contextlib.contextmanager
def busy(what: str) -> Iterator[None]:
    """Around work that no signal breaks off, so that whoever waits for it can be told."""
    _busy.append(what)
    try:
        yield
    finally:
        _busy.remove(what)


def busy_with() -> str:
    """What this process is in the middle of and cannot break off; empty if nothing."""
    return _busy[0] if _busy else ""
