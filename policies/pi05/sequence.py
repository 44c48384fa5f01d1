"""What the model reads, and who may look at whom in it.

The sequence is: pictures, prompt, subtask if there is one, then (pi0) the state, then the actions. It is cut into blocks; a
token looks at its own block and at those before it. Pictures and prompt are one block, every token of the subtask is one of
its own, so is the state, and the actions are one.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

# Inputs come from the host, and are traced inside a compiled function.
Array = jax.Array | np.ndarray


class Subtask(NamedTuple):
    """A subtask's text as the model is taught it.

    Attributes:
      inputs: int32 [B, S], BOS and then the text; actions look at these.
      targets: int32 [B, S], the text and then EOS: what each place is to predict.
      mask: bool [B, S], places in use.
    """

    inputs: Array
    targets: Array
    mask: Array


class Inputs(NamedTuple):
    """One query of B lanes, in the model's own terms.

    Attributes:
      images: [B, C, S, S, 3], cameras in the order of `configs.CAMERAS`; uint8, or float32 in [-1, 1].
      image_mask: bool [B, C], cameras that are there.
      tokens: int32 [B, P] of the prompt, padded on the right.
      token_mask: bool [B, P].
      state: float32 [B, A], normalised and padded; read where it is a token of its own.
      subtask: for training, or None.
    """

    images: Array
    image_mask: Array
    tokens: Array
    token_mask: Array
    state: Array
    subtask: Subtask | None = None


class Tokens(NamedTuple):
    """A piece of the sequence.

    Attributes:
      embedded: [B, T, D].
      valid: bool [B, T]; what is not is looked at by nobody.
      starts: bool [T], true where a block begins.
    """

    embedded: jax.Array
    valid: jax.Array
    starts: jax.Array


def block_mask(valid: jax.Array, starts: jax.Array) -> jax.Array:
    """Who may look at whom.

    Args:
      valid: bool [B, T].
      starts: bool [T] or [B, T], true where a block begins.

    Returns:
      bool [B, T, T]: the row's token may look at the column's. Tokens that are not valid neither look nor are seen.
    """
    block = jnp.cumsum(jnp.broadcast_to(starts, valid.shape), axis=1)
    return (block[:, None, :] <= block[:, :, None]) & valid[:, None, :] & valid[:, :, None]


def positions(valid: jax.Array) -> jax.Array:
    """Place of each token among the valid ones, int [B, T]; what is not valid repeats the place before it."""
    return jnp.cumsum(valid, axis=1) - 1


def pixels(images: Array) -> jax.Array:
    """uint8 grey levels to float32 in [-1, 1]; float32 as it is."""
    levels = jnp.asarray(images)
    return levels.astype(jnp.float32) / 255.0 * 2.0 - 1.0 if levels.dtype == jnp.uint8 else levels


def time_features(time: jax.Array, width: int) -> jax.Array:
    """Flow time [B] to float32 [B, width]: sines, then cosines, of periods spaced evenly in their logarithm, 0.004 to 4."""
    fraction = jnp.linspace(0.0, 1.0, width // 2)
    period = 4e-3 * (4.0 / 4e-3) ** fraction
    angle = time.astype(jnp.float32)[:, None] * (1.0 / period * 2.0 * jnp.pi)
    return jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], axis=-1)
