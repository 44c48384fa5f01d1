"""What training minimises: the flow's squared error, and the cross-entropy of the subtask.

Averages are left to the caller: openpi's is over everything, padded action dimensions and steps after an episode's end
included. RoboQuest's baseline adds the subtask's cross-entropy to ten times the flow's error.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from policies.pi05.model import Model
from policies.pi05.sequence import Inputs, Subtask

FLOW_WEIGHT = 10.0  # against the subtask's cross-entropy, as RoboQuest has it


class Errors(NamedTuple):
    """What a batch costs.

    Attributes:
      flow: float32 [B, T], squared error averaged over the action dimensions.
      subtask: float32 [B], cross-entropy in nats averaged over the tokens of a subtask; zero without one.
    """

    flow: jax.Array
    subtask: jax.Array


def draw(key: jax.Array, shape: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    """Noise [B, T, A] and flow times [B] of a training step, from openpi's distributions and in its order of keys.

    The key is split in three, of which the first is for augmentation; the times are 0.999 Beta(1.5, 1) + 0.001.
    """
    _, noise_key, time_key = jax.random.split(key, 3)
    time = jax.random.beta(time_key, 1.5, 1.0, shape[:1]) * 0.999 + 0.001
    return jax.random.normal(noise_key, shape), time


def errors(model: Model, inputs: Inputs, actions: jax.Array, noise: jax.Array, time: jax.Array) -> Errors:
    """Compares the model's velocity with noise - actions, and its words with those of the subtask.

    Args:
      model: the model.
      inputs: B lanes; with a subtask, actions are conditioned on its true words.
      actions: [B, T, A], normalised and padded.
      noise: [B, T, A].
      time: [B] in (0, 1].
    """
    t = time[:, None, None]
    velocity, read = model.forward(inputs, t * noise + (1.0 - t) * actions, time)
    flow = jnp.mean(jnp.square(velocity - (noise - actions)), axis=-1)
    if inputs.subtask is None:
        return Errors(flow, jnp.zeros(len(actions)))
    return Errors(flow, subtask_errors(model, read, inputs.subtask))


def subtask_errors(model: Model, read: jax.Array, subtask: Subtask) -> jax.Array:
    """Cross-entropy [B] of the subtask's words; its places are the last of the prefix `read`, [B, S, D]."""
    logits = model.PaliGemma.llm.logits(read[:, -subtask.inputs.shape[1] :])
    log_probability = jnp.take_along_axis(jax.nn.log_softmax(logits), subtask.targets[..., None], axis=-1)[..., 0]
    count = jnp.maximum(subtask.mask.sum(1), 1)
    return -jnp.sum(jnp.where(subtask.mask, log_probability, 0.0), axis=1) / count


def total(parts: Errors, with_subtask: bool) -> jax.Array:
    """One number: the mean flow error alone, or the subtask's cross-entropy and ten times the flow's."""
    flow = parts.flow.mean()
    return parts.subtask.mean() + FLOW_WEIGHT * flow if with_subtask else flow
