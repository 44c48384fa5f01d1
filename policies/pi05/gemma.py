"""The language trunk and the action expert: two streams of tokens with weights of their own and one attention.

Stream 0 carries pictures and text, stream 1 the actions. The weights of stream 1 have openpi's suffix `_1`. Statistics of
norms, rotations, logits and softmax are float32; weights are cast to the type of what they meet.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from kernels.attention import attention
from policies.pi05 import stack
from policies.pi05.configs import Config, Expert
from policies.pi05.sequence import Array

_EPSILON = 1e-6
_MAX_WAVELENGTH = 10_000.0

# One entry a stream: an array [B, T_i, D_i], or None for a stream without tokens.
Streams = tuple[Any, Any]


class Cache(NamedTuple):
    """Keys, after rotation, and values of tokens that were read before: [L, B, S, K, H] each."""

    keys: jax.Array
    values: jax.Array


def rotate(x: jax.Array, positions: jax.Array) -> jax.Array:
    """Rotary positions, on halves: x [B, T, N, H] and positions int [B, T] to [B, T, N, H]."""
    half = x.shape[-1] // 2
    wavelength = _MAX_WAVELENGTH ** (jnp.arange(half, dtype=jnp.float32) * (2.0 / x.shape[-1]))
    angle = positions[..., None, None].astype(jnp.float32) / wavelength
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1).astype(x.dtype)


class RMSNorm(nnx.Module):
    """RMS norm; an adaptive one takes scale, shift and the gate of what follows, in this order, from a condition."""

    def __init__(self, width: int, dtype: str, *, adaptive: bool, rngs: nnx.Rngs) -> None:
        if adaptive:
            self.Dense_0 = nnx.Linear(width, 3 * width, dtype=dtype, rngs=rngs)
        else:
            self.scale = nnx.Param(jnp.zeros(width))

    def __call__(self, x: jax.Array, condition: jax.Array | None) -> tuple[jax.Array, jax.Array | None]:
        """[B, T, D] and, for an adaptive one, [B, D] to [B, T, D] and a gate [B, 1, D] or None."""
        wide = x.astype(jnp.float32)
        normed = wide * jax.lax.rsqrt(jnp.mean(wide**2, -1, keepdims=True) + _EPSILON)
        if condition is None:
            return (normed * (1 + self.scale[...])).astype(x.dtype), None
        scale, shift, gate = jnp.split(self.Dense_0(condition)[:, None], 3, axis=-1)
        return (normed * (1 + scale) + shift).astype(x.dtype), gate


class Einsum(nnx.Module):
    """One weight `w`, cast to the type of its input."""

    def __init__(self, *shape: int) -> None:
        self.w = nnx.Param(jnp.zeros(shape))

    def __call__(self, equation: str, x: jax.Array) -> jax.Array:
        return jnp.einsum(equation, x, self.w[...].astype(x.dtype))


class Attention(nnx.Module):
    """Attention over the tokens of both streams, and over cached ones before them."""

    def __init__(self, config: Config) -> None:
        n, k, h = config.heads, config.kv_heads, config.head_dim
        d, d_1 = config.trunk.width, config.expert.width
        self.scale, self.implementation = h**-0.5, config.attention
        self.q_einsum, self.q_einsum_1 = (Einsum(n, w, h) for w in (d, d_1))
        self.kv_einsum, self.kv_einsum_1 = (Einsum(2, k, w, h) for w in (d, d_1))
        self.attn_vec_einsum, self.attn_vec_einsum_1 = (Einsum(n, h, w) for w in (d, d_1))

    def __call__(
        self, xs: Streams, positions: jax.Array, mask: jax.Array, cache: Cache | None
    ) -> tuple[Streams, Cache]:
        """Tokens [B, T_i, D_i] to as many; also the keys and values of these tokens, [B, T, K, H] (one layer's)."""
        weights = ((self.q_einsum, self.kv_einsum), (self.q_einsum_1, self.kv_einsum_1))
        queries, new = [], []
        for x, (q, kv) in zip(xs, weights, strict=True):
            if x is not None:
                queries.append(q("btd,ndh->btnh", x))
                new.append(kv("bsd,ckdh->cbskh", x))
        query = rotate(jnp.concatenate(queries, 1), positions) * self.scale
        key, value = jnp.concatenate(new, 2)
        key = rotate(key, positions)
        kept = Cache(key, value)
        if cache is not None:
            key, value = (jnp.concatenate(pair, 1) for pair in ((cache.keys, key), (cache.values, value)))
        read = attention(query, key, value, mask, scale=1.0, implementation=self.implementation)
        out: list[jax.Array | None] = []
        start = 0
        for x, vec in zip(xs, (self.attn_vec_einsum, self.attn_vec_einsum_1), strict=True):
            end = start + (0 if x is None else x.shape[1])
            out.append(None if x is None else vec("btnh,nhd->btd", read[:, start:end]))
            start = end
        return (out[0], out[1]), kept


class FeedForward(nnx.Module):
    """GELU of one projection gates another."""

    def __init__(self, expert: Expert) -> None:
        self.gating_einsum = nnx.Param(jnp.zeros((2, expert.width, expert.mlp)))
        self.linear = nnx.Param(jnp.zeros((expert.mlp, expert.width)))

    def __call__(self, x: jax.Array) -> jax.Array:
        """[B, T, D] to [B, T, D]."""
        gate, up = self.gating_einsum[...].astype(x.dtype)
        rows = x.reshape(-1, x.shape[-1])  # with two axes of rows, gradients take four times as long on a CPU
        out = (nnx.gelu(rows @ gate, approximate=True) * (rows @ up)) @ self.linear[...].astype(x.dtype)
        return out.reshape(x.shape)


def _normed(norms: tuple[RMSNorm, RMSNorm], xs: Streams, conditions: Streams) -> tuple[Streams, Streams]:
    """Both streams after their norms, and their gates."""
    (x, gate), (x_1, gate_1) = (
        (None, None) if x is None else norm(x, condition)
        for norm, x, condition in zip(norms, xs, conditions, strict=True)
    )
    return (x, x_1), (gate, gate_1)


def _residual(xs: Streams, ys: Streams, gates: Streams) -> Streams:
    first, second = (
        x if x is None else (x + y if gate is None else x + y * gate) for x, y, gate in zip(xs, ys, gates, strict=True)
    )
    return first, second


class Block(nnx.Module):
    """Norm, attention, gated residual, norm, MLP, gated residual."""

    def __init__(self, config: Config, *, rngs: nnx.Rngs) -> None:
        trunk, expert, dtype, adaptive = config.trunk, config.expert, config.dtype, config.time_conditioned
        self.pre_attention_norm = RMSNorm(trunk.width, dtype, adaptive=False, rngs=rngs)
        self.pre_attention_norm_1 = RMSNorm(expert.width, dtype, adaptive=adaptive, rngs=rngs)
        self.attn = Attention(config)
        self.pre_ffw_norm = RMSNorm(trunk.width, dtype, adaptive=False, rngs=rngs)
        self.pre_ffw_norm_1 = RMSNorm(expert.width, dtype, adaptive=adaptive, rngs=rngs)
        self.mlp, self.mlp_1 = FeedForward(trunk), FeedForward(expert)

    def __call__(
        self, xs: Streams, positions: jax.Array, mask: jax.Array, condition: jax.Array | None, cache: Cache | None
    ) -> tuple[Streams, Cache]:
        """See `Gemma`; of one layer."""
        conditions = (None, condition)
        norms = (self.pre_attention_norm, self.pre_attention_norm_1)
        normed, gates = _normed(norms, xs, conditions)
        read, kept = self.attn(normed, positions, mask, cache)
        xs = _residual(xs, read, gates)
        normed, gates = _normed((self.pre_ffw_norm, self.pre_ffw_norm_1), xs, conditions)
        mlps = (self.mlp, self.mlp_1)
        first, second = (None if x is None else mlp(x) for x, mlp in zip(normed, mlps, strict=True))
        return _residual(xs, (first, second), gates), kept


class Embedder(nnx.Module):
    """The token table."""

    def __init__(self, config: Config) -> None:
        self.input_embedding = nnx.Param(jnp.zeros((config.vocabulary, config.trunk.width)))


class Gemma(nnx.Module):
    """Token table, blocks, and a last norm for each stream."""

    def __init__(self, config: Config, *, rngs: nnx.Rngs) -> None:
        self.dtype, self.remat = config.dtype, config.remat
        self.embedder = Embedder(config)
        self.layers = stack.stacked(lambda rngs: Block(config, rngs=rngs), config.depth, rngs)
        self.final_norm = RMSNorm(config.trunk.width, config.dtype, adaptive=False, rngs=rngs)
        self.final_norm_1 = RMSNorm(config.expert.width, config.dtype, adaptive=config.time_conditioned, rngs=rngs)

    def embed(self, tokens: Array) -> jax.Array:
        """int [B, T] to [B, T, D]: rows of the table, times the root of D in the table's own type."""
        rows = self.embedder.input_embedding[...][tokens]
        return (rows * jnp.sqrt(rows.shape[-1]).astype(rows.dtype)).astype(self.dtype)

    def logits(self, x: jax.Array) -> jax.Array:
        """[B, T, D] after the last norm to float32 [B, T, V], with the table as the output layer (as Gemma has it)."""
        table = self.embedder.input_embedding[...].astype(x.dtype)
        return jnp.einsum("btd,vd->btv", x, table, preferred_element_type=jnp.float32)

    def __call__(
        self,
        xs: Streams,
        positions: jax.Array,
        mask: jax.Array,
        condition: jax.Array | None = None,
        cache: Cache | None = None,
    ) -> tuple[Streams, Cache]:
        """Runs all layers.

        Args:
          xs: tokens [B, T_i, D_i] of each stream; T is their sum.
          positions: int [B, T].
          mask: bool [B, T, S + T], true where a token may look: at S cached ones, then at these.
          condition: [B, D_1] of the adaptive norms of stream 1; None in a model that has none.
          cache: of S tokens read before.

        Returns:
          the tokens after the last norm, and the cache of these T tokens alone.
        """
        first, second = (x if x is None else x.astype(self.dtype) for x in xs)

        def body(block: Block, xs: Streams, cache: Cache | None) -> tuple[Streams, Cache]:
            return block(xs, positions, mask, condition, cache)

        xs, kept = stack.run(self.layers, body, (first, second), cache, remat=self.remat)
        return _normed((self.final_norm, self.final_norm_1), xs, (None, condition))[0], kept
