"""The model: pictures, text and noisy actions to the flow that carries noise to actions.

Flow time 1 is noise and 0 is data: x_t = t noise + (1 - t) actions, and the model's velocity is that of noise - actions.
The tree of weights has the names and shapes of openpi's checkpoints.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx

from policies.pi05.configs import Config
from policies.pi05.gemma import Gemma
from policies.pi05.sequence import Array, Inputs, Tokens, block_mask, pixels, positions, time_features
from policies.pi05.siglip import SigLIP


class PaliGemma(nnx.Module):
    """The image tower and the language trunk, with the action expert inside the latter."""

    def __init__(self, config: Config, *, rngs: nnx.Rngs) -> None:
        self.img = SigLIP(config, rngs=rngs)
        self.llm = Gemma(config, rngs=rngs)


class Model(nnx.Module):
    """See the module."""

    def __init__(self, config: Config, *, rngs: nnx.Rngs) -> None:
        self.config = config
        width, dim = config.expert.width, config.action_dim
        self.PaliGemma = PaliGemma(config, rngs=rngs)
        self.action_in_proj = nnx.Linear(dim, width, rngs=rngs)
        self.action_out_proj = nnx.Linear(width, dim, rngs=rngs)
        if config.time_conditioned:
            self.time_mlp_in = nnx.Linear(width, width, rngs=rngs)
            self.time_mlp_out = nnx.Linear(width, width, rngs=rngs)
        else:
            self.action_time_mlp_in = nnx.Linear(2 * width, width, rngs=rngs)
            self.action_time_mlp_out = nnx.Linear(width, width, rngs=rngs)
        if config.projects_state:
            self.state_proj = nnx.Linear(dim, width, rngs=rngs)

    def prefix(self, inputs: Inputs) -> Tokens:
        """Pictures, prompt and, where `inputs` has one, the subtask."""
        batch, cameras = inputs.images.shape[:2]
        images = self.PaliGemma.img(pixels(inputs.images.reshape(batch * cameras, *inputs.images.shape[2:])))
        seen = images.reshape(batch, -1, images.shape[-1])
        embedded = [seen, self.PaliGemma.llm.embed(inputs.tokens)]
        valid = [jnp.repeat(inputs.image_mask, seen.shape[1] // cameras, axis=1), inputs.token_mask]
        starts = [jnp.zeros(seen.shape[1] + inputs.tokens.shape[1], bool)]
        if inputs.subtask is not None:
            embedded.append(self.PaliGemma.llm.embed(inputs.subtask.inputs))
            valid.append(inputs.subtask.mask)
            starts.append(jnp.ones(inputs.subtask.inputs.shape[1], bool))
        return Tokens(jnp.concatenate(embedded, 1), jnp.concatenate(valid, 1), jnp.concatenate(starts))

    def suffix(self, state: Array, noisy: jax.Array, time: jax.Array) -> tuple[Tokens, jax.Array | None]:
        """Actions [B, T, A] at flow time [B], after the state [B, A] if it is a token; pi0.5's condition [B, D]."""
        embedded = self.action_in_proj(noisy)
        features = time_features(time, embedded.shape[-1])
        condition = None
        starts = jnp.arange(embedded.shape[1]) == 0
        if self.config.time_conditioned:
            condition = nnx.swish(self.time_mlp_out(nnx.swish(self.time_mlp_in(features))))
        else:
            spread = jnp.broadcast_to(features[:, None], embedded.shape)
            mixed = self.action_time_mlp_in(jnp.concatenate([embedded, spread], -1))
            embedded = self.action_time_mlp_out(nnx.swish(mixed))
        if self.config.projects_state:
            embedded = jnp.concatenate([self.state_proj(jnp.asarray(state))[:, None], embedded], 1)
            starts = jnp.concatenate([jnp.ones(1, bool), starts])
        return Tokens(embedded, jnp.ones(embedded.shape[:2], bool), starts), condition

    def forward(self, inputs: Inputs, noisy: jax.Array, time: jax.Array) -> tuple[jax.Array, jax.Array]:
        """One pass over the whole sequence.

        Args:
          inputs: B lanes.
          noisy: [B, T, A], x_t.
          time: [B].

        Returns:
          velocity: [B, T, A].
          prefix: [B, S, D] of the trunk after its last norm, for `subtask_errors`.
        """
        before, (after, condition) = self.prefix(inputs), self.suffix(inputs.state, noisy, time)
        valid = jnp.concatenate([before.valid, after.valid], 1)
        mask = block_mask(valid, jnp.concatenate([before.starts, after.starts]))
        (read, acted), _ = self.PaliGemma.llm((before.embedded, after.embedded), positions(valid), mask, condition)
        return self.velocity_of(acted, noisy.shape[1]), read

    def velocity_of(self, acted: jax.Array, horizon: int) -> jax.Array:
        """The action expert's tokens [B, .., D] to [B, T, A]; those before the last T are no actions."""
        return self.action_out_proj(acted[:, -horizon:])
