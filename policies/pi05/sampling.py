"""From inputs and noise to actions: the prefix is read once, then Euler steps over the actions alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from policies.pi05.configs import BOS, EOS, PAD
from policies.pi05.gemma import Cache
from policies.pi05.model import Model
from policies.pi05.sequence import Array, Inputs, block_mask, positions

STEPS = 10  # of the flow, unless told otherwise


class Prefix(NamedTuple):
    """What is read once a query.

    Attributes:
      cache: of P tokens.
      valid: bool [B, P].
    """

    cache: Cache
    valid: jax.Array


def read_prefix(model: Model, inputs: Inputs) -> Prefix:
    """Keys and values of pictures, prompt and, where there is one, the subtask."""
    tokens = model.prefix(inputs)
    mask = block_mask(tokens.valid, tokens.starts)
    _, cache = model.PaliGemma.llm((tokens.embedded, None), positions(tokens.valid), mask)
    return Prefix(cache, tokens.valid)


def velocity(model: Model, prefix: Prefix, state: Array, noisy: jax.Array, time: jax.Array) -> jax.Array:
    """The flow [B, T, A] at x_t [B, T, A] and time [B]; only tokens of the action expert are computed."""
    tokens, condition = model.suffix(state, noisy, time)
    count = prefix.valid.sum(1, keepdims=True)
    seen = jnp.broadcast_to(prefix.valid[:, None], (*tokens.valid.shape, prefix.valid.shape[1]))
    mask = jnp.concatenate([seen, block_mask(tokens.valid, tokens.starts)], 2)
    (_, acted), _ = model.PaliGemma.llm(
        (None, tokens.embedded), count + positions(tokens.valid), mask, condition, prefix.cache
    )
    return model.velocity_of(acted, noisy.shape[1])


def sample(model: Model, prefix: Prefix, state: Array, noise: jax.Array, steps: int = STEPS) -> jax.Array:
    """Integrates the flow from noise at time 1 to actions at time 0, [B, T, A] float32."""
    return _euler(lambda x, time: velocity(model, prefix, state, x, time), noise, steps)


def sample_uncached(model: Model, inputs: Inputs, noise: jax.Array, steps: int = STEPS) -> jax.Array:
    """The same with the whole sequence computed anew at each step: what the cache is checked against."""
    return _euler(lambda x, time: model.forward(inputs, x, time)[0], noise, steps)


def _euler(flow: Callable[[jax.Array, jax.Array], jax.Array], noise: jax.Array, steps: int) -> jax.Array:
    dt = -1.0 / steps

    def step(carry: tuple[jax.Array, jax.Array], _: None) -> tuple[tuple[jax.Array, jax.Array], None]:
        x, time = carry
        return (x + dt * flow(x, jnp.broadcast_to(time, x.shape[:1])), time + dt), None

    begin = (noise.astype(jnp.float32), jnp.float32(1.0))
    return jax.lax.scan(step, begin, None, length=steps)[0][0]


class Words(NamedTuple):
    """A subtask that was decoded.

    Attributes:
      tokens: int32 [B, S], PAD after the end; no EOS.
      prefix: with BOS and these tokens behind pictures and prompt.
    """

    tokens: jax.Array
    prefix: Prefix


def decode_subtask(
    model: Model, prefix: Prefix, limit: int, key: jax.Array | None = None, temperature: float = 1.0
) -> Words:
    """Writes a subtask, word by word, until each lane has come to its end or `limit` places are used.

    Args:
      model: the model.
      prefix: of pictures and prompt.
      limit: S, places; the first of them holds BOS.
      key: [B] random keys, one a lane, to draw words by; None takes the most likely one each time.
      temperature: divides the logits when drawing.
    """
    batch, read = prefix.valid.shape
    room = ((0, 0), (0, 0), (0, limit), (0, 0), (0, 0))
    cache = Cache(*(jnp.pad(part, room) for part in prefix.cache))
    valid = jnp.pad(prefix.valid, ((0, 0), (0, limit)))

    def step(
        i: jax.Array, carry: tuple[Cache, jax.Array, jax.Array, jax.Array, jax.Array]
    ) -> tuple[Cache, jax.Array, jax.Array, jax.Array, jax.Array]:
        cache, valid, token, going, out = carry
        place = valid.sum(1, keepdims=True)
        mask = jnp.concatenate([valid, jnp.ones((batch, 1), bool)], 1)[:, None]
        embedded = model.PaliGemma.llm.embed(token[:, None])
        (x, _), new = model.PaliGemma.llm((embedded, None), place, mask, None, cache)
        cache = Cache(
            *(jax.lax.dynamic_update_slice_in_dim(c, n, read + i, 2) for c, n in zip(cache, new, strict=True))
        )
        valid = valid.at[:, read + i].set(going)
        logits = model.PaliGemma.llm.logits(x)[:, 0]
        if key is None:
            token = jnp.argmax(logits, -1)
        else:
            keys = jax.vmap(jax.random.fold_in, (0, None))(key, i)
            token = jax.vmap(jax.random.categorical)(keys, logits / temperature)
        going = going & (token != EOS)
        return cache, valid, token, going, out.at[:, i].set(jnp.where(going, token, PAD))

    begin = (cache, valid, jnp.full(batch, BOS), jnp.ones(batch, bool), jnp.full((batch, limit), PAD))
    cache, valid, _, _, out = jax.lax.fori_loop(0, limit, step, begin)
    return Words(out, Prefix(cache, valid))
