"""MuJoCo's textures as the Warp renderer reads them: pyramids of ever smaller copies, made as OpenGL drivers make them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import mujoco
import numpy as np
import warp as wp

from mjx_bench.observe import warp_structs as structs

_RGB = int(mujoco.mjtTextureRole.mjTEXROLE_RGB)
_FLAT = int(mujoco.mjtTexture.mjTEXTURE_2D)
_SKY = int(mujoco.mjtTexture.mjTEXTURE_SKYBOX)
_SRGB = int(mujoco.mjtColorSpace.mjCOLORSPACE_SRGB)


@dataclasses.dataclass(frozen=True)
class TextureTable:
    """The textures that some materials and the sky need, on the device.

    Attributes:
      pyramids: what kernels read.
      first: int32 [M + 1] index of each material's texture; the last row is for geoms without a material.
      mapping: int32 [M + 1] UNTEXTURED, BY_PLANE, BY_CUBE or BY_SIDES.
      repeat: float32 [M + 1, 2]; per_metre: int32 [M + 1].
      sky: index of the sky's, -1 if there is none; sky_mapping: as for materials.
    """

    pyramids: structs.Textures
    first: np.ndarray
    mapping: np.ndarray
    repeat: np.ndarray
    per_metre: np.ndarray
    sky: int
    sky_mapping: int


def load_textures(model: mujoco.MjModel, materials: Iterable[int], detail: int) -> TextureTable:
    """Reads the textures of `materials` and the sky, from the first copy of at most `detail` texels a side on."""
    pyramids: list[tuple[list[np.ndarray], bool]] = []
    index: dict[int, tuple[int, int]] = {-1: (-1, structs.UNTEXTURED)}  # texture to its first pyramid and mapping
    used = {int(model.mat_texid[m, _RGB]) for m in materials}
    sky = next((int(t) for t in np.flatnonzero(model.tex_type == _SKY)), -1)
    for texture in sorted((used | {sky}) - {-1}):
        sides = _sides(model, texture)
        flat = bool(model.tex_type[texture] == _FLAT)
        mapping = structs.BY_PLANE if flat else structs.BY_CUBE if len(sides) == 1 else structs.BY_SIDES
        index[texture] = len(pyramids), mapping
        pyramids += [(pyramid(side, detail), flat) for side in sides]
    rows = [index.get(int(model.mat_texid[m, _RGB]), index[-1]) for m in range(model.nmat)]
    first, mappings = np.array([*rows, index[-1]], np.int32).T
    return TextureTable(
        _upload(pyramids),
        first,
        mappings,
        np.vstack([model.mat_texrepeat.reshape(-1, 2), np.ones((1, 2), np.float32)]),
        np.append(model.mat_texuniform, 0).astype(np.int32),
        *index[sky],
    )


def _sides(model: mujoco.MjModel, texture: int) -> list[np.ndarray]:
    """A texture's pictures, uint8 [H, W, 3]: one, or the six sides of a cube in OpenGL's order."""
    start = model.tex_adr[texture]
    height, width, channels = (int(x[texture]) for x in (model.tex_height, model.tex_width, model.tex_nchannel))
    pixels = model.tex_data[start : start + height * width * channels].reshape(height, width, channels)[..., :3]
    if model.tex_type[texture] == _FLAT:
        return [_LINEAR[pixels] if model.tex_colorspace[texture] == _SRGB else pixels]
    return list(pixels.reshape(1 if height == width else 6, width, width, 3))


def _linear_table() -> np.ndarray:
    """sRGB bytes to linear ones (IEC 61966-2-1): OpenGL decodes textures of that colour space when it reads them."""
    value = np.arange(256) / 255.0
    linear = np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)
    return np.rint(255.0 * linear).astype(np.uint8)


_LINEAR = _linear_table()


def pyramid(picture: np.ndarray, detail: int) -> list[np.ndarray]:
    """A picture, uint8 [H, W, 3], and its smaller copies down to one pixel; only those of at most `detail` a side."""
    levels = [picture]
    while max(levels[-1].shape[:2]) > 1:
        levels.append(_halved(levels[-1]))
    return [level for level in levels if max(level.shape[:2]) <= detail]


def _halved(picture: np.ndarray) -> np.ndarray:
    """Half the size: each pixel is what the four around its centre give.

    So an odd side loses no row, as it would if pairs were taken; a line on a texture's edge is the seam of a floor's planks.
    """
    halved: np.ndarray = picture
    for axis in (0, 1):
        old = picture.shape[axis]
        new = max(old // 2, 1)
        at = np.clip((np.arange(new) + 0.5) * old / new - 0.5, 0, old - 1)
        low = at.astype(np.int64)
        weight = (at - low).astype(np.float32).reshape(-1, *[1] * (2 - axis))
        nearer = halved.take(low, axis)
        halved = nearer + weight * (halved.take(np.minimum(low + 1, old - 1), axis).astype(np.float32) - nearer)
    return np.rint(halved).astype(np.uint8)


def rows(kind: Any, count: int) -> Any:
    """`count` zeroed rows of one of the structs, as a NumPy record array."""
    return np.zeros(count, kind.numpy_dtype())


def _upload(pyramids: list[tuple[list[np.ndarray], bool]]) -> structs.Textures:
    """Pyramids on the device; the flag is whether a texture repeats."""
    heads = rows(structs.Pyramid, len(pyramids))
    levels: list[tuple[int, int, int]] = []
    texels = [np.zeros(0, np.uint8)]
    start = 0
    for head, (pictures, repeats) in zip(heads, pyramids, strict=True):
        head["first"], head["count"], head["repeats"] = len(levels), len(pictures), repeats
        for picture in pictures:
            levels.append((start, picture.shape[1], picture.shape[0]))
            texels.append(picture.ravel())
            start += picture.size
    table = rows(structs.Level, len(levels))
    for name, column in zip(("start", "width", "height"), zip(*levels, strict=True), strict=False):
        table[name] = column
    out = structs.Textures()
    out.texels = wp.array(np.concatenate(texels), dtype=wp.uint8)
    out.levels = wp.array(table, dtype=structs.Level)
    out.pyramids = wp.array(heads, dtype=structs.Pyramid)
    return out
