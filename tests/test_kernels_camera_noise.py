"""LIBERO-Plus's camera faults: the compiled forms against the plain ones, and what each must and must not do."""

from __future__ import annotations

import numpy as np
import pytest

from kernels import camera_noise as noise

RNG = np.random.default_rng(0)
PICTURE = RNG.integers(0, 256, (61, 64, 3), dtype=np.uint8)
FLAT = np.full((40, 40, 3), 137, np.uint8)


def close(a: np.ndarray, b: np.ndarray) -> None:
    """Equal but for sums taken in another order: a level at most, in few pixels."""
    off = np.abs(a.astype(int) - b.astype(int))
    assert off.max() <= 1
    assert (off > 0).mean() < 1e-3


@pytest.mark.parametrize(("radius", "sigma", "degrees"), [(5, 2, 0.0), (15, 6, 37.0), (35, 20, -45.0)])
def test_motion_blur_is_the_plain_sum(radius, sigma, degrees):
    close(
        noise.motion_blur(PICTURE, radius, sigma, degrees), noise.reference.motion_blur(PICTURE, radius, sigma, degrees)
    )


@pytest.mark.parametrize("sigma", [1.0, 4.0, 10.0])
def test_gaussian_blur_is_the_plain_sum_and_scipy_s(sigma):
    blurred = noise.gaussian_blur(PICTURE, sigma)
    close(blurred, noise.reference.gaussian_blur(PICTURE, sigma))
    ndimage = pytest.importorskip("scipy.ndimage")
    theirs = ndimage.gaussian_filter(PICTURE.astype(float), (sigma, sigma, 0), mode="nearest")
    assert np.abs(blurred - theirs).max() <= 1.0


@pytest.mark.parametrize("largest", [110, 155])
def test_zoom_blur_is_the_plain_mean(largest):
    factors = tuple(f / 100 for f in range(100, largest + 1, 3))
    close(noise.zoom_blur(PICTURE, factors), noise.reference.zoom_blur(PICTURE, factors))


def test_glass_swaps_pixels_and_loses_none():
    moves = RNG.integers(-2, 2, (2, 61, 64, 2), endpoint=True)
    plain = noise.reference.shuffled(PICTURE, moves, 2)
    np.testing.assert_array_equal(noise._shuffled(PICTURE, moves, 2), plain)
    np.testing.assert_array_equal(np.sort(plain.reshape(-1, 3), axis=0), np.sort(PICTURE.reshape(-1, 3), axis=0))
    assert (plain != PICTURE).mean() > 0.5


def test_an_even_picture_stays_even_under_every_blur():
    rng = np.random.default_rng(1)
    for blurred in (
        noise.motion_blur(FLAT, 12, 5, 20.0),
        noise.gaussian_blur(FLAT, 3.0),
        noise.zoom_blur(FLAT, (1.0, 1.1, 1.2)),
        noise.glass_blur(FLAT, 1.0, 2, 2, rng),
    ):
        np.testing.assert_array_equal(blurred, FLAT)


def test_motion_goes_along_its_line_only():
    point = np.zeros((41, 41, 3), np.uint8)
    point[20, 20] = 255
    spread = noise.motion_blur(point, 5, 3, 0.0)[..., 0]
    assert np.flatnonzero(spread.any(1)).tolist() == [20]  # one row
    assert spread[20, 21:].sum() == 0  # to one side
    steep = noise.motion_blur(point, 5, 3, 90.0)[..., 0]
    assert np.flatnonzero(steep.any(0)).tolist() == [20]


def test_fog_is_a_plasma_that_repeats_with_its_seed_and_fades_detail():
    one, same, other = (noise.plasma(256, 2.0, np.random.default_rng(s)) for s in (3, 3, 4))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)
    assert (one.min(), one.max()) == (0.0, 1.0)

    def rough(decay: float) -> float:
        return float(np.abs(np.diff(noise.plasma(256, decay, np.random.default_rng(5)), axis=0)).mean())

    assert rough(1.3) > 2 * rough(3.0)
    foggy = noise.fog(PICTURE, 2.0, 2.0, np.random.default_rng(3))
    assert foggy.std() < PICTURE.std()
    assert foggy.max() <= PICTURE.max()
