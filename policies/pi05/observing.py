"""From what a robot observes to what the model reads: pictures at its size, the state normalised, the prompt as tokens."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kernels.resize import resize_with_pad, resize_with_pad_jax
from mjx_bench.policy import Observation
from policies.pi05 import tokenizer
from policies.pi05.adapters import Adapter
from policies.pi05.configs import Config
from policies.pi05.sequence import Array, Inputs
from policies.pi05.statistics import Scale
from policies.pi05.tokenizer import Tokenizer

# What a normalised state may be: no robot is there, and a network's float32 would overflow.
FARTHEST = 1e6


class Unusable(ValueError):
    """One request that cannot be answered; it is its own lane's fault and nobody else's."""


def pictures_of(obs: Observation, adapter: Adapter) -> list[Array | None]:
    """uint8 [B, H, W, 3] of each of the model's cameras, None for one that the robot lacks; where the observation has them.

    Raises:
      Unusable: a camera is missing.
    """
    if missing := [name for name in adapter.cameras if name not in obs.images]:
        raise Unusable(f"no picture of {', '.join(missing)}; there are {', '.join(obs.images) or 'none'}")
    images = iter([obs.images[name] for name in adapter.cameras])
    seen = [None if key is None else next(images, None) for key in adapter.pictures]
    return [image[:, :, ::-1] if image is not None and adapter.mirrored else image for image in seen]


def inputs_of(
    config: Config,
    words: Tokenizer,
    scale: Scale,
    pictures: Sequence[Array | None],
    state: np.ndarray,
    prompts: Sequence[str],
) -> Inputs:
    """A query in the model's terms.

    Args:
      config: of the model.
      words: its tokenizer.
      scale: of the state.
      pictures: uint8 [B, H, W, 3] of each camera, None for a missing one; resized where they are, on the host or, if they
        are JAX's, on its device, with the same bits.
      state: [B, s] in the robot's units.
      prompts: B instructions.

    Raises:
      Unusable: pictures that are no uint8 RGB pictures, a state of another size, or one that is not finite.
    """
    if state.ndim != 2 or not np.isfinite(state).all():
        raise Unusable(f"the state must be finite numbers [B, s], not {_described(state)}")
    normalised = scale.normalise(state)
    if (far := np.abs(normalised).max(initial=0.0)) > FARTHEST:
        raise Unusable(
            f"the state lies {far:.3g} times its span away from the data's middle, at most {FARTHEST:g} is read"
        )
    tokens, token_mask = tokenizer.padded(
        [tokenizer.prompt(words, config, text, row) for text, row in zip(prompts, normalised, strict=True)],
        config.prompt_tokens,
    )
    batch, side = len(state), config.vision.image_size
    for p in pictures:
        if p is not None and (p.dtype != np.uint8 or p.ndim != 4 or p.shape[0] != batch or p.shape[3] != 3):
            raise Unusable(f"pictures must be uint8 [{batch}, height, width, 3], not {_described(p)}")
    there = any(isinstance(picture, jax.Array) for picture in pictures)
    return Inputs(
        images=_resized_there(tuple(pictures), batch, side) if there else _resized(pictures, batch, side),
        image_mask=np.broadcast_to([picture is not None for picture in pictures], (batch, len(pictures))),
        tokens=tokens,
        token_mask=token_mask,
        state=np.pad(normalised, ((0, 0), (0, config.action_dim - state.shape[1]))).astype(np.float32),
    )


def _resized(pictures: Sequence[Any], batch: int, side: int) -> np.ndarray:
    """All cameras, uint8 [B, C, S, S, 3]."""
    images = np.zeros((batch, len(pictures), side, side, 3), np.uint8)
    for camera, picture in enumerate(pictures):
        if picture is not None:
            images[:, camera] = resize_with_pad(np.ascontiguousarray(picture), side, side)
    return images


@functools.partial(jax.jit, static_argnums=(1, 2))
def _resized_there(pictures: tuple[Any, ...], batch: int, side: int) -> jax.Array:
    """The same on the device."""
    missing = jnp.zeros((batch, side, side, 3), jnp.uint8)
    return jnp.stack([missing if p is None else resize_with_pad_jax(p, side, side) for p in pictures], 1)


def _described(array: Array) -> str:
    unsound = array.dtype.kind == "f" and not np.isfinite(np.asarray(array)).all()
    return f"{array.dtype} {list(array.shape)}" + (" with a value that is not finite" if unsound else "")
