"""The image tower: SigLIP's vision transformer, without pooling, and a projection to the trunk's width.

Types as openpi has them: patches and positions in float32, everything after in the compute type, statistics of norms in
float32. The softmax is in float32 here, where openpi's runs in the compute type. Names are those of openpi's checkpoints.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx

from kernels.attention import attention
from policies.pi05 import stack
from policies.pi05.configs import Config, Vision


class MultiHeadDotProductAttention(nnx.Module):
    """Attention of all patches of a picture with each other, with biases."""

    def __init__(self, config: Config, *, rngs: nnx.Rngs) -> None:
        vision, dtype = config.vision, config.dtype
        self.scale, self.implementation = (vision.width // vision.heads) ** -0.5, config.attention
        heads = (vision.heads, vision.width // vision.heads)
        self.query, self.key, self.value = (
            nnx.LinearGeneral(vision.width, heads, dtype=dtype, rngs=rngs) for _ in range(3)
        )
        self.out = nnx.LinearGeneral(heads, vision.width, axis=(-2, -1), dtype=dtype, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """[B, P, D] to [B, P, D]."""
        query, key, value = self.query(x), self.key(x), self.value(x)
        return self.out(attention(query, key, value, scale=self.scale, implementation=self.implementation))


class MlpBlock(nnx.Module):
    """Two dense layers with a GELU (tanh form) between."""

    def __init__(self, vision: Vision, dtype: str, *, rngs: nnx.Rngs) -> None:
        self.Dense_0 = nnx.Linear(vision.width, vision.mlp, dtype=dtype, rngs=rngs)
        self.Dense_1 = nnx.Linear(vision.mlp, vision.width, dtype=dtype, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """[B, P, D] to [B, P, D]."""
        return self.Dense_1(nnx.gelu(self.Dense_0(x), approximate=True))


class EncoderBlock(nnx.Module):
    """Norm, attention, residual, norm, MLP, residual."""

    def __init__(self, config: Config, *, rngs: nnx.Rngs) -> None:
        vision, dtype = config.vision, config.dtype
        self.LayerNorm_0 = nnx.LayerNorm(vision.width, dtype=dtype, rngs=rngs)
        self.MultiHeadDotProductAttention_0 = MultiHeadDotProductAttention(config, rngs=rngs)
        self.LayerNorm_1 = nnx.LayerNorm(vision.width, dtype=dtype, rngs=rngs)
        self.MlpBlock_0 = MlpBlock(vision, dtype, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """[B, P, D] to [B, P, D]."""
        x = x + self.MultiHeadDotProductAttention_0(self.LayerNorm_0(x))
        return x + self.MlpBlock_0(self.LayerNorm_1(x))


class Encoder(nnx.Module):
    """The blocks, and a last norm."""

    def __init__(self, config: Config, *, rngs: nnx.Rngs) -> None:
        vision = config.vision
        self.remat = config.remat
        self.encoderblock = stack.stacked(lambda rngs: EncoderBlock(config, rngs=rngs), vision.depth, rngs)
        self.encoder_norm = nnx.LayerNorm(vision.width, dtype=config.dtype, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """[B, P, D] to [B, P, D]."""
        x, _ = stack.run(self.encoderblock, lambda block, x, _: (block(x), None), x, remat=self.remat)
        return self.encoder_norm(x)


class SigLIP(nnx.Module):
    """Pictures to tokens of the trunk."""

    def __init__(self, config: Config, *, rngs: nnx.Rngs) -> None:
        vision = config.vision
        self.dtype, patch = config.dtype, (vision.patch, vision.patch)
        self.embedding = nnx.Conv(3, vision.width, patch, strides=patch, padding="VALID", dtype="float32", rngs=rngs)
        self.pos_embedding = nnx.Param(jnp.zeros((1, vision.tokens, vision.width)))
        self.Transformer = Encoder(config, rngs=rngs)
        self.head = nnx.Linear(vision.width, config.trunk.width, dtype=config.dtype, rngs=rngs)

    def __call__(self, images: jax.Array) -> jax.Array:
        """float32 [B, S, S, 3] in [-1, 1] to [B, P, width of the trunk], patches row by row."""
        x = self.embedding(images.astype(jnp.float32))
        x = x.reshape(len(x), -1, x.shape[-1]) + self.pos_embedding[...].astype(jnp.float32)
        return self.head(self.Transformer(x.astype(self.dtype)))
