"""The one place where physics is compiled for JAX: which compiler options, how precise, how long it took."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg
from jax import monitoring
from jax.custom_batching import custom_vmap

from mjx_bench import runtime

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
    with _LOCK, traced_as_physics(), runtime.busy("a compilation"):
        start = time.perf_counter()
        lowered = jax.jit(function).lower(*args)
        traced = time.perf_counter()
        with _counted_hits() as hits:
            call = lowered.compile(compiler_options=options)
        done = time.perf_counter()
    return Program(call, traced - start, done - traced, bool(hits))


@contextlib.contextmanager
def traced_as_physics() -> Iterator[None]:
    """Around everything that traces physics: precise products, and on a CPU solves that cannot deadlock."""
    on_cpu = jax.default_backend() == "cpu"
    with jax.default_matmul_precision(MATMUL_PRECISION), _small_batches() if on_cpu else contextlib.nullcontext():
        yield


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


_CHO_FACTOR, _CHO_SOLVE = jax.scipy.linalg.cho_factor, jax.scipy.linalg.cho_solve

# Multiplications of one call below which jaxlib factors a batch in the thread that asks for it, with a margin of two.
_ALONE = 3e5


@custom_vmap
def _factor(matrix: jax.Array) -> jax.Array:
    return _CHO_FACTOR(matrix)[0]


@custom_vmap
def _solve(factor: jax.Array, vector: jax.Array) -> jax.Array:
    return _CHO_SOLVE((factor, False), vector)


def _in_groups(function: Callable[..., jax.Array], axis_size: int, batched: Any, *args: jax.Array) -> Any:
    """The batching rule of both: over groups of lanes that are small enough."""
    args = tuple(a if b else jnp.broadcast_to(a, (axis_size, *a.shape)) for a, b in zip(args, batched, strict=True))
    group = max(1, int(_ALONE // args[0].shape[-1] ** 3))
    parts = [jax.vmap(function)(*(a[i : i + group] for a in args)) for i in range(0, axis_size, group)]
    return jnp.concatenate(parts), True


_factor.def_vmap(functools.partial(_in_groups, lambda a: _CHO_FACTOR(a)[0]))
_solve.def_vmap(functools.partial(_in_groups, lambda factor, b: _CHO_SOLVE((factor, False), b)))


@contextlib.contextmanager
def _small_batches() -> Iterator[None]:
    """Gives MJX, while it is traced for a CPU, Cholesky solves that take a few lanes at a time.

    For a larger batch JAX's own may deadlock: LAPACK's kernel hands parts of the batch to the thread pool and waits for them
    in a thread of that pool; as soon as every thread waits so, nobody is left to do the work. On 2 processors, 8 lanes with
    45 degrees of freedom were enough (jaxlib 0.10.2; from 0.11 on it no longer does this).
    """
    linalg = jax.scipy.linalg
    linalg.cho_factor = lambda a, lower=False, **_: (_factor(a), False)
    linalg.cho_solve = lambda factor, b, **_: _solve(factor[0], b)
    try:
        yield
    finally:
        linalg.cho_factor, linalg.cho_solve = _CHO_FACTOR, _CHO_SOLVE
