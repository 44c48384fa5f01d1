"""The restoration study's operator and gate: thresholds on both sides, OpenCV's filters with the study's numbers."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.corruption import Fault, spoil_frame
from kernels.restoration import (
    Damage,
    damage_of,
    noise_level,
    occlusion_mask,
    restore,
    restore_if_needed,
)

cv2 = pytest.importorskip("cv2")

NOTHING = np.zeros((256, 256), bool)


def scene(size: int = 256) -> np.ndarray:
    """A table, a box with hard edges and a textured ball, like nothing in particular."""
    y, x = np.mgrid[0:size, 0:size] / size
    picture = np.stack([150 + 60 * y, 140 + 50 * x, 120 + 40 * y], -1)
    picture[(x > 0.2) & (x < 0.45) & (y > 0.3) & (y < 0.7)] = (200, 40, 50)
    ball = (x - 0.7) ** 2 + (y - 0.6) ** 2 < 0.02
    picture[ball] = (picture + 30 * np.sin(40 * x + 25 * y)[..., None])[ball] * 0.6
    return picture.clip(0, 255).astype(np.uint8)


def with_hole(picture: np.ndarray, top: int, left: int, height: int, width: int) -> np.ndarray:
    out = picture.copy()
    out[top : top + height, left : left + width] = 0
    return out


def test_the_rectangles_of_the_official_faults_are_found():
    for seed, (std, fraction, side) in enumerate([(24.0, 0.08, 72), (36.0, 0.16, 102)] * 3):
        [spoilt] = spoil_frame([scene()], Fault(seed, std, fraction))
        [white] = spoil_frame([np.full_like(spoilt, 255)], Fault(seed, std, fraction))
        dead = ~white.any(-1)
        assert dead.sum() == side**2
        mask = occlusion_mask(spoilt)
        assert mask[dead].all()
        assert (mask & ~dead).sum() <= 4, "noise may blacken a few pixels that touch the rectangle"


def test_the_mask_is_where_the_rectangle_is():
    mask = occlusion_mask(with_hole(scene(), 20, 30, 40, 50))
    expected = NOTHING.copy()
    expected[20:60, 30:80] = True
    np.testing.assert_array_equal(mask, expected)


@pytest.mark.parametrize(
    ("height", "width", "found"),
    [
        (8, 17, True),  # 136 pixels; 0.2% of the picture are 131.07
        (8, 16, False),  # too small
        (7, 60, False),  # too flat
        (60, 7, False),  # too narrow
        (140, 140, True),  # 29.9%
        (141, 140, False),  # over 30%: dark, not occluded
    ],
)
def test_which_rectangles_count(height: int, width: int, found: bool):
    mask = occlusion_mask(with_hole(scene(), 50, 60, height, width))
    assert mask.sum() == (height * width if found else 0)


@pytest.mark.parametrize(("bite", "found"), [(15, True), (16, False)])
def test_a_shape_that_is_not_a_rectangle_does_not_count(bite: int, found: bool):
    """40 x 40 without a corner: 15 x 15 leave 85.9% of the bounding box, 16 x 16 leave 84%."""
    picture = with_hole(scene(), 50, 50, 40, 40)
    picture[50 : 50 + bite, 50 : 50 + bite] = 200
    assert occlusion_mask(picture).any() == found


def test_black_is_two_grey_levels_in_every_channel():
    picture = scene()
    picture[50:90, 50:90] = (2, 2, 2)
    assert occlusion_mask(picture).sum() == 1600
    picture[50:90, 50:90] = (0, 3, 0)
    assert not occlusion_mask(picture).any()


@pytest.mark.parametrize("std", [6.0, 12.0, 24.0, 36.0])
def test_the_noise_level_is_the_noise(std: float):
    rng = np.random.default_rng(0)
    picture = (scene() * 0.3 + 90 + rng.normal(0, std, scene().shape)).clip(0, 255).astype(np.uint8)
    assert abs(noise_level(picture, NOTHING) / std - 1) < 0.05


def test_flat_parts_and_straight_edges_are_no_noise():
    picture = np.zeros((256, 256, 3), np.uint8)
    picture += np.arange(256, dtype=np.uint8)[:, None, None] // 2
    picture[:, 128:] += 90
    assert noise_level(picture, NOTHING) == 0.0
    assert noise_level(scene(), NOTHING) < 1.0


def test_only_the_green_channel_outside_the_mask_and_its_border_counts():
    rng = np.random.default_rng(1)
    picture = np.full((256, 256, 3), 128, np.uint8)
    picture[..., [0, 2]] = rng.integers(0, 256, (256, 256, 2))
    picture[60:200, 60:200] = rng.integers(0, 256, (140, 140, 3))
    mask = NOTHING.copy()
    mask[60:200, 60:200] = True
    assert noise_level(picture, mask) == 0.0
    border = picture[55:205, 55:205]
    assert noise_level(border, NOTHING[:150, :150]) > 12.0
    assert noise_level(picture, ~NOTHING) == 0.0, "nothing left to measure"


def test_the_gate_opens_at_its_thresholds():
    mask = NOTHING.copy()
    mask.ravel()[:2294] = True  # 3.5003%
    assert Damage(mask, 0.0).needs_repair
    mask.ravel()[2293] = False  # 3.4988%
    assert not Damage(mask, 11.99).needs_repair
    assert Damage(NOTHING, 12.0).needs_repair


def test_clean_pictures_pass_and_spoilt_ones_are_repaired():
    clean = scene()
    assert restore_if_needed(clean) is clean
    for seed, (std, fraction) in enumerate([(24.0, 0.08), (36.0, 0.16)]):
        [spoilt] = spoil_frame([clean], Fault(seed, std, fraction))
        damage = damage_of(spoilt)
        assert damage.needs_repair
        repaired = restore_if_needed(spoilt)
        np.testing.assert_array_equal(repaired, restore(spoilt, damage.mask))
        error = [np.abs(p.astype(int) - clean).mean() for p in (spoilt, repaired)]
        assert error[1] < 0.6 * error[0]


def test_the_operator_is_opencv_s_with_the_study_s_numbers():
    [spoilt] = spoil_frame([scene()], Fault(3, 24.0, 0.08))
    mask = occlusion_mask(spoilt)
    filled = cv2.inpaint(spoilt, mask.astype(np.uint8) * 255, 3, cv2.INPAINT_TELEA)
    np.testing.assert_array_equal(restore(spoilt, mask), cv2.bilateralFilter(filled, 5, 45, 2))
    assert np.array_equal(filled[~mask], spoilt[~mask]), "inpainting leaves the rest alone"


def test_a_hole_in_a_ramp_is_filled_with_the_ramp():
    y, x = np.mgrid[0:64, 0:64]
    ramp = np.stack([60 + 2 * x, 60 + 2 * y, 40 + x + y], -1).astype(np.uint8)
    holed = with_hole(ramp, 24, 24, 12, 12)
    repaired = restore(holed, occlusion_mask(holed))
    assert np.abs(repaired.astype(int) - ramp)[24:36, 24:36].mean() < 3.0


def test_the_smoothing_is_the_bilateral_filter():
    """Tomasi and Manduchi (1998), written out: a disc of radius 2, colours compared by the sum over channels."""
    rng = np.random.default_rng(2)
    picture = (scene(32) + rng.normal(0, 20, (32, 32, 3))).clip(0, 255).astype(np.uint8)
    padded = np.pad(picture, ((2, 2), (2, 2), (0, 0)), "reflect").astype(float)
    total, weights = np.zeros((32, 32, 3)), np.zeros((32, 32, 1))
    for dy in range(-2, 3):
        for dx in range(-2, 3):
            if dy * dy + dx * dx > 4:
                continue
            other = padded[2 + dy : 34 + dy, 2 + dx : 34 + dx]
            distance = np.abs(other - picture).sum(-1, keepdims=True)
            weight = np.exp(-0.5 * (distance / 45.0) ** 2 - 0.5 * (dy * dy + dx * dx) / 2.0**2)
            total += weight * other
            weights += weight
    smooth = restore(picture, np.zeros((32, 32), bool))
    assert np.abs(smooth - total / weights).max() < 1.0


@pytest.mark.parametrize("shape", [(8, 8), (8, 8, 4), (1, 8, 8, 3)])
def test_bad_input(shape):
    with pytest.raises(ValueError, match="uint8"):
        occlusion_mask(np.zeros(shape, np.uint8))
