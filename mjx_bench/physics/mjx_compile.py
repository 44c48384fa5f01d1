"""The one place where physics is compiled for JAX: which compiler options, how precise, how long it took."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.scipy.linalg
from jax import monitoring
from jax.custom_batching import sequential_vmap

# XLA's CPU backend fuses the long chains of small operations of a kinematic tree so that each element of the result
# computes the chain again: one batched step of an arm got 400 times slower. `mjx-bench bench engine` measures the ratio.
CPU_OPTIONS: dict[str, str | bool] = {"xla_cpu_use_fusion_emitters": False}

# Tensor cores round factors to 10 bits unless told otherwise, which a contact does not survive.
MATMUL_PRECISION = "highest"

# One at a time: a second engine of the same scene then finds the first one's program in the persistent cache.
_LOCK = threading.Lock()


def compiler_options(platform: str) -> dict[str, str | bool]:
    """The options that every physics function is compiled with on `platform` (cpu, gpu, tpu)."""
    return dict(CPU_OPTIONS) if platform == "cpu" else {}


@dataclasses.dataclass(frozen=True)
class Program:
    """A compiled function.

    Attributes:
      call: takes the arguments that it was compiled for.
      trace_s, compile_s: seconds in Python, and in XLA or its persistent cache.
      cached: whether the persistent cache held it.
    """

    call: Callable[..., Any]
    trace_s: float
    compile_s: float
    cached: bool


def compile_program(function: Callable[..., Any], *args: jax.ShapeDtypeStruct, stock: bool = False) -> Program:
    """Compiles `function` for arguments of the shapes of `args`, on the default device.

    Args:
      function: to compile.
      args: shapes and types.
      stock: leaves out `CPU_OPTIONS`, for the measurement that justifies them.
    """
    options = {} if stock else compiler_options(jax.default_backend())
    on_cpu = jax.default_backend() == "cpu" and not stock
    with _LOCK, jax.default_matmul_precision(MATMUL_PRECISION), _lane_by_lane() if on_cpu else contextlib.nullcontext():
        start = time.perf_counter()
        lowered = jax.jit(function).lower(*args)
        traced = time.perf_counter()
        with _counted_hits() as hits:
            call = lowered.compile(compiler_options=options)
        done = time.perf_counter()
    return Program(call, traced - start, done - traced, bool(hits))


_HIT = "/jax/compilation_cache/cache_hits"


@contextlib.contextmanager
def _counted_hits() -> Iterator[list[str]]:
    """Collects what this thread takes from the persistent cache."""
    thread, hits = threading.get_ident(), []

    def listen(event: str, **_: Any) -> None:
        if event == _HIT and threading.get_ident() == thread:
            hits.append(event)

    monitoring.register_event_listener(listen)
    try:
        yield hits
    finally:
        monitoring.unregister_event_listener(listen)


@sequential_vmap
def _factor(matrix: jax.Array) -> jax.Array:
    return _CHO_FACTOR(matrix)[0]


@sequential_vmap
def _solve(factor: jax.Array, vector: jax.Array) -> jax.Array:
    return _CHO_SOLVE((factor, False), vector)


_CHO_FACTOR, _CHO_SOLVE = jax.scipy.linalg.cho_factor, jax.scipy.linalg.cho_solve


@contextlib.contextmanager
def _lane_by_lane() -> Iterator[None]:
    """Gives MJX, while it is traced, Cholesky solves that take one lane after another.

    JAX's own for a batch deadlock on a CPU: LAPACK's kernel hands parts of the batch to the thread pool and waits for them in
    a thread of that pool, and as soon as every thread waits so, nobody is left to do the work (jaxlib 0.10.2; 45 joints, 8
    lanes and 2 processors were enough). One lane at a time they are also twice as fast.
    """
    linalg = jax.scipy.linalg
    linalg.cho_factor = lambda a, lower=False, **_: (_factor(a), False)
    linalg.cho_solve = lambda factor, b, **_: _solve(factor[0], b)
    try:
        yield
    finally:
        linalg.cho_factor, linalg.cho_solve = _CHO_FACTOR, _CHO_SOLVE
