"""What a batch costs: the flow's error over several draws, the subtask's cross-entropy, and where things are.

The prefix is read once; its keys and values serve every draw of noise and time, and gradients come back through all of
them. The places of things are told from the image tokens alone, by a head that only exists in training: for each number,
a softmax over all tokens weighs what each of them says.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mjx_bench.seeds import fold_seed
from policies.pi05 import losses, sampling, weights
from policies.pi05.configs import CAMERAS, Config
from policies.pi05.model import Model
from policies.pi05.sequence import block_mask, positions
from policies.pi05.weights import Tree
from train import augment
from train import configs as settings
from train.batches import Batch
from train.parts import Flat

Metrics = dict[str, jax.Array]


def head(config: Config, places: int, seed: int) -> Flat:
    """Starting values of the auxiliary head for so many numbers; empty for none."""
    if not places:
        return {}
    rng = np.random.default_rng(fold_seed("auxiliary head", "initial weights", seed))
    width = config.trunk.width
    return {
        "look": np.zeros((width, places), np.float32),
        "say": rng.normal(0, width**-0.5, (width, places)).astype(np.float32),
    }


def wrists(batch: Batch) -> tuple[bool, ...]:
    """Of each camera that is there, whether it is at a wrist."""
    return tuple("wrist" in name for name in CAMERAS[: batch.inputs.images.shape[1]])


def cost(
    config: Config, how: settings.Config, tree: Tree, head: Flat, batch: Batch, key: jax.Array
) -> tuple[jax.Array, Metrics]:
    """The loss of a batch, and its parts by name.

    Args:
      config: of the model.
      how: of the training.
      tree: weights.
      head: of the auxiliary error, empty for none.
      batch: B frames.
      key: of the step.
    """
    # openpi's order of keys: augmentation, noise, time; `losses.draw` takes the latter two from the same key.
    pictures = jax.random.split(key, 3)[0]
    inputs = batch.inputs._replace(
        images=augment.augmented(jnp.asarray(batch.inputs.images), pictures, wrists(batch), how.augmentation)
    )
    model = weights.bound(config, tree)
    tokens = model.prefix(inputs)
    mask = block_mask(tokens.valid, tokens.starts)
    (read, _), cache = model.PaliGemma.llm((tokens.embedded, None), positions(tokens.valid), mask)
    prefix = sampling.Prefix(cache, tokens.valid)

    metrics = {"flow": _flow_error(model, prefix, inputs.state, jnp.asarray(batch.actions), how.draws, key)}
    total = metrics["flow"]
    if inputs.subtask is not None:
        metrics["subtask"] = losses.subtask_errors(model, read, inputs.subtask).mean()
        total = metrics["subtask"] + losses.FLOW_WEIGHT * metrics["flow"]
    if head:
        seen = tokens.embedded[:, : inputs.images.shape[1] * config.vision.tokens].astype(jnp.float32)
        metrics["places"] = jnp.mean(jnp.square(told(head, seen) - batch.places))
        total = total + how.auxiliary * metrics["places"]
    return total, {"loss": total, **metrics}


def _flow_error(
    model: Model, prefix: sampling.Prefix, state: Any, actions: jax.Array, draws: int, key: jax.Array
) -> jax.Array:
    """Mean over frames and draws; frames stand as often in one batch as there are draws."""

    def again(x: jax.Array, axis: int = 0) -> jax.Array:
        return x if draws == 1 else jnp.concatenate([x] * draws, axis)

    prefix = sampling.Prefix(jax.tree.map(lambda x: again(x, 1), prefix.cache), again(prefix.valid))
    state, actions = again(state), again(actions)
    noise, time = losses.draw(key, actions.shape)
    t = time[:, None, None]
    velocity = sampling.velocity(model, prefix, state, t * noise + (1.0 - t) * actions, time)
    return jnp.mean(jnp.square(velocity - (noise - actions)))


def told(head: Flat, seen: jax.Array) -> jax.Array:
    """Image tokens [B, S, D] to numbers [B, p]."""
    look = jax.nn.softmax(seen @ head["look"], axis=1)
    return jnp.sum(look * (seen @ head["say"]), axis=1)
