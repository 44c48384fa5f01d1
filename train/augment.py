"""Variations of pictures, on the device and from a key: a random crop enlarged again, a turn, and colours.

The rules are openpi's: crop and turn are not for cameras at a wrist, where they would say another pose of the hand.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from policies.pi05.sequence import pixels
from train.configs import Augmentation

_GREY = jnp.array([0.299, 0.587, 0.114])  # ITU-R BT.601


def augmented(images: jax.Array, key: jax.Array, wrist: tuple[bool, ...], how: Augmentation) -> jax.Array:
    """Every picture varied by itself.

    Args:
      images: uint8 [B, C, S, S, 3].
      key: of the step.
      wrist: of each camera, whether it is at a wrist.
      how: by how much.

    Returns:
      float32 [B, C, S, S, 3] in [-1, 1].
    """
    batch = images.shape[0]
    out = []
    for camera, at_wrist in enumerate(wrist):
        move, colour = jax.random.split(jax.random.fold_in(key, camera))
        picture = (pixels(images[:, camera]) + 1.0) / 2.0
        if not at_wrist and (how.crop or how.rotation):
            picture = jax.vmap(lambda x, k: _moved(x, k, how))(picture, jax.random.split(move, batch))
        if how.brightness or how.contrast or how.saturation:
            picture = jax.vmap(lambda x, k: _coloured(x, k, how))(picture, jax.random.split(colour, batch))
        out.append(picture * 2.0 - 1.0)
    return jnp.stack(out, 1)


def _moved(image: jax.Array, key: jax.Array, how: Augmentation) -> jax.Array:
    """[S, S, 3], cropped, enlarged and turned about its middle: one bilinear look-up; the edge goes on outside."""
    side = image.shape[0]
    place, turn = jax.random.split(key)
    kept = 1.0 - how.crop
    corner = jax.random.uniform(place, (2,)) * (how.crop * side)
    grid = jnp.arange(side) + 0.5 - side / 2.0
    if not how.rotation:  # rows and columns by themselves: two products of matrices
        rows, columns = (_weights(corner[i] + kept * (grid + side / 2.0) - 0.5, side) for i in (0, 1))
        return jnp.einsum("ij,jkc,lk->ilc", rows, image, columns)
    angle = jax.random.uniform(turn, minval=-1.0, maxval=1.0) * math.radians(how.rotation)
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    row = cos * grid[:, None] - sin * grid[None, :]
    column = sin * grid[:, None] + cos * grid[None, :]
    where = [corner[i] + kept * (x + side / 2.0) - 0.5 for i, x in enumerate((row, column))]
    return jnp.stack(
        [jax.scipy.ndimage.map_coordinates(image[..., c], where, order=1, mode="nearest") for c in range(3)], -1
    )


def _weights(at: jax.Array, side: int) -> jax.Array:
    """[S, S]: the weight of each of `side` pixels in what is read at each place; beyond the edge, the edge's."""
    distance = jnp.abs(jnp.clip(at, 0.0, side - 1.0)[:, None] - jnp.arange(side)[None, :])
    return jnp.maximum(0.0, 1.0 - distance)


def _coloured(image: jax.Array, key: jax.Array, how: Augmentation) -> jax.Array:
    """[S, S, 3] in [0, 1] with brightness, contrast and saturation changed, in this order."""
    by = jax.random.uniform(key, (3,), minval=-1.0, maxval=1.0)
    image = jnp.clip(image * (1.0 + how.brightness * by[0]), 0.0, 1.0)
    middle = (image @ _GREY).mean()
    image = jnp.clip(middle + (image - middle) * (1.0 + how.contrast * by[1]), 0.0, 1.0)
    grey = (image @ _GREY)[..., None]
    return jnp.clip(grey + (image - grey) * (1.0 + how.saturation * by[2]), 0.0, 1.0)
