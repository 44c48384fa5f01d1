"""Faults of lenses and of the air, by which LIBERO-Plus spoils pictures: blurs, fog and rippled glass.

Every function takes one picture, uint8 [H, W, C], and returns another. Beyond its edge a picture goes on with its edge's
colours. Sums are taken in double precision; results are clipped to 0 to 255 and cut off to a whole grey level.

`motion_blur`, `gaussian_blur` and `zoom_blur` are compiled; `reference` holds the same formulas in plain NumPy, and tests
compare the two. The shuffle of `glass_blur` is sequential by nature, and its reference is a loop.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np

PLASMA_SIDE = 256
# A Gaussian is cut off this many standard deviations away.
TRUNCATE = 4.0

Array = Any


def motion_blur(image: np.ndarray, radius: int, sigma: float, degrees: float) -> np.ndarray:
    """Smears a picture along a line, 2 radius + 1 pixels to one side; weights are the falling half of a Gaussian."""
    weights, rows, columns = motion_kernel(radius, sigma, degrees)
    return _finish(_smear(image.astype(np.float64), weights, rows, columns))


def motion_kernel(radius: int, sigma: float, degrees: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights [2 radius + 1], and the row and column offsets of the pixels that they belong to."""
    steps = np.arange(2 * radius + 1)
    weights = np.exp(-(steps**2) / (2.0 * sigma**2))
    angle = math.radians(degrees)
    offsets = (np.ceil(steps * part - 0.5).astype(np.int64) for part in (math.sin(angle), math.cos(angle)))
    rows, columns = offsets
    return weights / weights.sum(), rows, columns


def gaussian_blur(image: np.ndarray, sigma: float) -> np.ndarray:
    """Blurs a picture by a Gaussian of `sigma` pixels."""
    return _finish(_separable(image.astype(np.float64), gaussian_kernel(sigma)))


def gaussian_kernel(sigma: float) -> np.ndarray:
    """Weights [2 r + 1] of a Gaussian, r = round(`TRUNCATE` sigma)."""
    reach = int(TRUNCATE * sigma + 0.5)
    weights = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2.0 * sigma**2))
    return np.asarray(weights / weights.sum())


def zoom_blur(image: np.ndarray, factors: Sequence[float]) -> np.ndarray:
    """The mean of a picture and of its enlargements about its centre by each factor, interpolated linearly."""
    return _finish(_zoomed(image.astype(np.float64), np.array(factors, np.float64)))


def fog(image: np.ndarray, strength: float, decay: float, rng: np.random.Generator) -> np.ndarray:
    """Lays a plasma fractal over a picture; the brightest pixel stays as bright as it was."""
    height, width = image.shape[:2]
    side = PLASMA_SIDE
    while side < max(height, width):
        side *= 2
    lit = image.astype(np.float64) / 255.0
    brightest = lit.max()
    lit += strength * plasma(side, decay, rng)[:height, :width, None]
    return _finish(np.clip(lit * brightest / (brightest + strength), 0.0, 1.0) * 255.0)


def plasma(side: int, decay: float, rng: np.random.Generator) -> np.ndarray:
    """A plasma fractal, [side, side] from 0 to 1, `side` a power of two: the diamond-square method on a torus.

    At each halving, midpoints are means of their four neighbours plus a uniform number of an amplitude that `decay` divides.
    """
    field = np.zeros((side, side))
    step, amplitude = side, 1.0
    while step > 1:
        half = step // 2
        corners = field[::step, ::step]
        wide = corners + np.roll(corners, -1, 0)
        wide = wide + np.roll(wide, -1, 1)
        field[half::step, half::step] = wide / 4 + rng.uniform(-amplitude, amplitude, corners.shape)
        centres = field[half::step, half::step]
        down = np.roll(centres, 1, 0) + centres + corners + np.roll(corners, -1, 1)
        across = np.roll(centres, 1, 1) + centres + corners + np.roll(corners, -1, 0)
        field[::step, half::step] = down / 4 + rng.uniform(-amplitude, amplitude, corners.shape)
        field[half::step, ::step] = across / 4 + rng.uniform(-amplitude, amplitude, corners.shape)
        step, amplitude = half, amplitude / decay
    field -= field.min()
    return np.asarray(field / field.max())


def glass_blur(image: np.ndarray, sigma: float, reach: int, times: int, rng: np.random.Generator) -> np.ndarray:
    """Blurs a picture, swaps each pixel with one at most `reach` rows and columns away, `times` over, and blurs it again."""
    blurred = gaussian_blur(image, sigma)
    height, width = image.shape[:2]
    moves = rng.integers(-reach, reach, (times, height, width, 2), endpoint=True)
    return gaussian_blur(_shuffled(blurred, moves, reach), sigma)


def _finish(values: np.ndarray) -> np.ndarray:
    # A sum of weights is 1 but for rounding, which must not cost a grey level.
    return np.asarray(np.clip(values + 1e-6, 0.0, 255.0).astype(np.uint8))


@numba.njit(cache=True, nogil=True)
def _smear(image: Array, weights: Array, rows: Array, columns: Array) -> Array:
    height, width, channels = image.shape
    out = np.zeros_like(image)
    for y in range(height):
        for x in range(width):
            for k in range(weights.size):
                v, u = min(max(y + rows[k], 0), height - 1), min(max(x + columns[k], 0), width - 1)
                for c in range(channels):
                    out[y, x, c] += weights[k] * image[v, u, c]
    return out


@numba.njit(cache=True, nogil=True)
def _separable(image: Array, weights: Array) -> Array:
    height, width, channels = image.shape
    reach = weights.size // 2
    down, out = np.zeros_like(image), np.zeros_like(image)
    for y in range(height):
        for k in range(weights.size):
            v = min(max(y + k - reach, 0), height - 1)
            for x in range(width):
                for c in range(channels):
                    down[y, x, c] += weights[k] * image[v, x, c]
    for y in range(height):
        for x in range(width):
            for k in range(weights.size):
                u = min(max(x + k - reach, 0), width - 1)
                for c in range(channels):
                    out[y, x, c] += weights[k] * down[y, u, c]
    return out


@numba.njit(cache=True, nogil=True)
def _zoomed(image: Array, factors: Array) -> Array:
    height, width, channels = image.shape
    out = image.copy()
    for factor in factors:
        for y in range(height):
            v = (y - (height - 1) / 2) / factor + (height - 1) / 2
            top = min(int(v), height - 2)
            for x in range(width):
                u = (x - (width - 1) / 2) / factor + (width - 1) / 2
                left = min(int(u), width - 2)
                for c in range(channels):
                    upper = image[top, left, c] + (u - left) * (image[top, left + 1, c] - image[top, left, c])
                    lower = image[top + 1, left, c] + (u - left) * (
                        image[top + 1, left + 1, c] - image[top + 1, left, c]
                    )
                    out[y, x, c] += upper + (v - top) * (lower - upper)
    return out / (len(factors) + 1)


def _swap(image: Array, moves: Array, reach: int) -> Array:
    out = image.copy()
    times, height, width, _ = moves.shape
    for t in range(times):
        for y in range(height - reach - 1, reach - 1, -1):
            for x in range(width - reach - 1, reach - 1, -1):
                v, u = y + moves[t, y, x, 0], x + moves[t, y, x, 1]
                for c in range(image.shape[2]):
                    kept = out[y, x, c]
                    out[y, x, c] = out[v, u, c]
                    out[v, u, c] = kept
    return out


_shuffled = numba.njit(cache=True, nogil=True)(_swap)


def _smear_plainly(image: np.ndarray, radius: int, sigma: float, degrees: float) -> np.ndarray:
    weights, rows, columns = motion_kernel(radius, sigma, degrees)
    y, x = np.indices(image.shape[:2])
    taken = [
        weight * image[np.clip(y + dy, 0, len(image) - 1), np.clip(x + dx, 0, image.shape[1] - 1)].astype(np.float64)
        for weight, dy, dx in zip(weights, rows, columns, strict=True)
    ]
    return _finish(np.sum(taken, axis=0))


def _gaussian_plainly(image: np.ndarray, sigma: float) -> np.ndarray:
    weights = gaussian_kernel(sigma)
    reach = len(weights) // 2
    out = image.astype(np.float64)
    for axis in (0, 1):
        padded = np.pad(out, [(reach, reach) if a == axis else (0, 0) for a in range(3)], mode="edge")
        windows = np.lib.stride_tricks.sliding_window_view(padded, len(weights), axis=axis)
        out = windows @ weights
    return _finish(out)


def _zoom_plainly(image: np.ndarray, factors: Sequence[float]) -> np.ndarray:
    height, width = image.shape[:2]
    total = image.astype(np.float64)
    for factor in factors:
        v = ((np.arange(height) - (height - 1) / 2) / factor + (height - 1) / 2)[:, None, None]
        u = ((np.arange(width) - (width - 1) / 2) / factor + (width - 1) / 2)[None, :, None]
        top, left = np.minimum(v.astype(int), height - 2), np.minimum(u.astype(int), width - 2)
        part = image.astype(np.float64)
        corners = [part[(top + dy)[..., 0], (left + dx)[..., 0]] for dy in (0, 1) for dx in (0, 1)]
        upper = corners[0] + (u - left) * (corners[1] - corners[0])
        lower = corners[2] + (u - left) * (corners[3] - corners[2])
        total += upper + (v - top) * (lower - upper)
    return _finish(total / (len(factors) + 1))


# The formulas once more, for tests.
reference = SimpleNamespace(
    motion_blur=_smear_plainly, gaussian_blur=_gaussian_plainly, zoom_blur=_zoom_plainly, shuffled=_swap
)
