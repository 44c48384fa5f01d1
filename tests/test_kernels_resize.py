"""Resizing with padding against the function that openpi's clients call."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from kernels.resize import resize_with_pad, resize_with_pad_jax

SIZES = [
    ((256, 256), (224, 224)),  # LIBERO's pictures to pi0.5's
    ((128, 128), (224, 224)),
    ((64, 64), (512, 512)),
    ((480, 640), (224, 224)),  # padding above and below
    ((640, 360), (224, 224)),  # padding left and right
    ((100, 87), (61, 90)),
    ((37, 100), (90, 61)),
    ((101, 99), (7, 11)),
    ((90, 160), (223, 225)),
    ((224, 224), (224, 300)),  # padding only
]
IDS = [f"{h}x{w}-{a}x{b}" for (h, w), (a, b) in SIZES]


def pictures(shape: tuple[int, int]) -> np.ndarray:
    """[2, H, W, 3]: noise, where rounding shows, and smooth ramps with hard edges, which pictures are made of."""
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, (*shape, 3), np.uint8)
    ramp = np.add.outer(np.arange(shape[0]), np.arange(shape[1]))[..., None] * np.array([1, 2, 3]) % 256
    return np.stack([noise, ramp.astype(np.uint8)])


@pytest.mark.parametrize(("size", "new_size"), SIZES, ids=IDS)
def test_the_reference_is_what_openpi_sends(size, new_size):
    image_tools = pytest.importorskip("openpi_client.image_tools")
    images = pictures(size)
    ours = resize_with_pad(images, *new_size)
    assert ours.dtype == np.uint8
    np.testing.assert_array_equal(ours, image_tools.resize_with_pad(images, *new_size))


@pytest.mark.parametrize(("size", "new_size"), SIZES, ids=IDS)
def test_the_device_form_gives_the_same_bits(size, new_size):
    images = pictures(size)
    ours = np.asarray(resize_with_pad_jax(images, *new_size))
    assert ours.dtype == np.uint8
    np.testing.assert_array_equal(ours, resize_with_pad(images, *new_size))


def test_random_sizes_give_the_same_bits():
    rng = np.random.default_rng(1)
    for h, height, width in rng.integers(9, 60, (5, 3)).tolist():
        images = rng.integers(0, 256, (1, h, rng.integers(h // 2 + 1, 100), 3), np.uint8)
        expected = resize_with_pad(images, height, width)
        np.testing.assert_array_equal(resize_with_pad_jax(images, height, width), expected)


def test_tall_pictures_are_one_grey_level_off_at_most():
    image = pictures((200, 40))
    error = np.asarray(resize_with_pad_jax(image, 64, 64)).astype(int) - resize_with_pad(image, 64, 64)
    assert np.abs(error).max() <= 1


def test_leading_axes_are_kept():
    images = pictures((48, 64)).reshape(2, 1, 48, 64, 3)
    for resize in (resize_with_pad, resize_with_pad_jax):
        out = np.asarray(resize(images, 32, 32))
        assert out.shape == (2, 1, 32, 32, 3)
        assert not out[:, :, :4].any()
        assert not out[:, :, -4:].any()
        np.testing.assert_array_equal(out[1, 0], np.asarray(resize(images[1, 0], 32, 32)))


def test_pictures_of_the_right_size_are_left_alone():
    images = pictures((32, 32))
    assert resize_with_pad(images, 32, 32) is images
    np.testing.assert_array_equal(resize_with_pad_jax(images, 32, 32), images)


@pytest.mark.parametrize("resize", [resize_with_pad, resize_with_pad_jax])
@pytest.mark.parametrize(
    ("shape", "dtype", "size", "message"),
    [
        ((8, 8, 3), np.float32, (4, 4), "uint8"),
        ((8, 8, 4), np.uint8, (4, 4), r"\[8, 8, 4\]"),
        ((8, 8), np.uint8, (4, 4), "uint8"),
        ((8, 8, 3), np.uint8, (0, 4), "8x8 to 0x4"),
        ((900, 4, 3), np.uint8, (64, 64), "nothing of a picture of 900x4"),
    ],
)
def test_bad_input(resize, shape, dtype, size, message):
    with pytest.raises(ValueError, match=message):
        resize(np.zeros(shape, dtype), *size)


def test_one_program_a_size():
    before = resize_with_pad_jax._cache_size()
    for _ in range(3):
        jax.block_until_ready(resize_with_pad_jax(pictures((50, 50)), 21, 23))
    assert resize_with_pad_jax._cache_size() == before + 1
