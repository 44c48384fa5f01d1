"""Attention with shared key heads and a mask: JAX's own, and the formula written out beside it.

`attention` leaves the choice of the program to `jax.nn.dot_product_attention`; `attention_reference` says what it computes.
Both take products in the type of their inputs with sums in float32, and the softmax in float32.
"""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp

Implementation = Literal["xla", "cudnn"]

# What a forbidden logit becomes: finite, so that a query without any key averages all values and is no NaN.
MASKED = -2.3819763e38


def attention(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    mask: jax.Array | None = None,
    *,
    scale: float,
    implementation: Implementation = "xla",
) -> jax.Array:
    """Softmax of scaled products, times values.

    Args:
      query: [B, T, N, H].
      key, value: [B, S, K, H], with N a multiple of K; query head n reads head n // (N / K).
      mask: bool [B, T, S], true where a query may look at a key; None for everywhere.
      scale: factor of the logits.
      implementation: "cudnn" needs an NVIDIA GPU and half precision.

    Returns:
      [B, T, N, H] in the type of the inputs.
    """
    wide = None if mask is None else mask[:, None]
    return jax.nn.dot_product_attention(query, key, value, mask=wide, scale=scale, implementation=implementation)


def attention_reference(
    query: jax.Array, key: jax.Array, value: jax.Array, mask: jax.Array | None = None, *, scale: float
) -> jax.Array:
    """`attention`, as its formula reads."""
    batch, queries, heads, size = query.shape
    shared = key.shape[2]
    grouped = query.reshape(batch, queries, shared, heads // shared, size)
    logits = jnp.einsum("btkgh,bskh->bkgts", grouped, key, preferred_element_type=jnp.float32) * scale
    if mask is not None:
        logits = jnp.where(mask[:, None, None], logits, MASKED)
    weights = jnp.exp(logits - logits.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    out = jnp.einsum("bkgts,bskh->btkgh", weights.astype(value.dtype), value)
    return out.reshape(batch, queries, heads, size)
