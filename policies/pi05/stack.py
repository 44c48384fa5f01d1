"""Layers of one shape under one name: their weights have a leading axis L, and one compiled body runs over it."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import jax
from flax import nnx

Carry = TypeVar("Carry")
Layer = TypeVar("Layer", bound=nnx.Module)

_WRITTEN_OUT = contextvars.ContextVar("_WRITTEN_OUT", default=False)


@contextlib.contextmanager
def written_out() -> Iterator[None]:
    """Programs that are traced inside have a body for each layer, and no loop: XLA counts what a loop does once."""
    token = _WRITTEN_OUT.set(True)
    try:
        yield
    finally:
        _WRITTEN_OUT.reset(token)


def stacked(make: Callable[[nnx.Rngs], Layer], depth: int, rngs: nnx.Rngs) -> Layer:
    """`depth` layers as one module whose weights are stacked."""
    created: Layer = nnx.vmap(make, in_axes=0, out_axes=0)(rngs.split(depth))
    return created


def run(
    layers: Layer,
    body: Callable[[Layer, Carry, Any], tuple[Carry, Any]],
    carry: Carry,
    inputs: Any = None,
    *,
    remat: bool,
) -> tuple[Carry, Any]:
    """Calls `body(layer, carry, inputs of the layer)` for one layer after the other, as `jax.lax.scan` does.

    Args:
      layers: from `stacked`.
      body: returns the next carry and the layer's output.
      carry: before the first layer.
      inputs: a tree of arrays [L, ...] or None.
      remat: see `Config.remat`.

    Returns:
      carry: after the last layer.
      outputs: stacked, [L, ...].
    """
    graph, weights = nnx.split(layers)

    def step(carry: Carry, xs: tuple[Any, Any]) -> tuple[Carry, Any]:
        return body(nnx.merge(graph, xs[0]), carry, xs[1])

    return jax.lax.scan(jax.checkpoint(step) if remat else step, carry, (weights, inputs), unroll=_WRITTEN_OUT.get())
