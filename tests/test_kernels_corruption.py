"""Faults of cameras: what the reference implementation draws, and the compiled form against the plain one."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from kernels.corruption import Fault, rectangle_size, spoil, spoil_frame


def pictures(size: int) -> list[np.ndarray]:
    y, x, c = np.mgrid[0:size, 0:size, 0:3]
    return [((3 * y + 5 * x + 70 * c) % 256).astype(np.uint8), ((y * x + 40 * c) % 251).astype(np.uint8)]


# Size, seed, noise_std, occlusion_fraction, brightness, and the digest of three frames of two cameras as the reference
# implementation's transform (LIBERO-MAX at 525aed0, NumPy 2.4) returns them. 97 pixels a side is an odd number of normals.
GOLDEN = [
    (256, 1234, 24.0, 0.08, 1.0, "bdce9c1a8fc692fb"),
    (256, 4000000000, 36.0, 0.16, 1.0, "5e95747421e665f6"),
    (128, 7, 36.0, 0.16, 0.75, "561ca5983ce8cd33"),
    (97, 99, 24.0, 0.0, 1.25, "0002b54e2a1e60b2"),
    (64, 5, 0.0, 0.5, 1.0, "19fecd0f3cc34f86"),
    (64, 0, 0.0, 0.0, 0.75, "eec347cffe237b31"),
]


@pytest.mark.parametrize(("size", "seed", "std", "fraction", "brightness", "digest"), GOLDEN)
def test_frames_are_the_reference_implementation_s(size, seed, std, fraction, brightness, digest):
    faults = [Fault(seed + k, std, fraction, brightness) for k in range(3)]
    plain = [spoil_frame(pictures(size), fault) for fault in faults]
    assert hashlib.sha256(b"".join(p.tobytes() for frame in plain for p in frame)).hexdigest()[:16] == digest
    compiled = spoil([np.stack([p] * 3) for p in pictures(size)], faults)
    for camera in range(2):
        np.testing.assert_array_equal(compiled[camera], np.stack([frame[camera] for frame in plain]))


def test_lanes_of_a_batch_do_not_know_each_other():
    rng = np.random.default_rng(0)
    cameras = [rng.integers(0, 256, (5, 48, 64, 3), np.uint8) for _ in range(3)]
    faults = [Fault(7 * i, 10.0 * i, 0.1 * i, 0.75) for i in range(5)]
    together = spoil(cameras, faults)
    for i, fault in enumerate(faults):
        alone = spoil([c[i : i + 1] for c in cameras], [fault])
        for a, b, plain in zip(together, alone, spoil_frame([c[i] for c in cameras], fault), strict=True):
            np.testing.assert_array_equal(a[i], b[0])
            np.testing.assert_array_equal(a[i], plain)
    order = [3, 0, 4]
    for a, b in zip(together, spoil([c[order] for c in cameras], [faults[i] for i in order]), strict=True):
        np.testing.assert_array_equal(a[order], b)


@pytest.mark.parametrize("fault", [Fault(3, 24.0, 0.08), Fault(3, 0.0, 0.08), Fault(3, 24.0, 0.0)])
def test_a_camera_that_nobody_sees_draws_all_the_same(fault: Fault):
    agent, wrist = (p[None] for p in pictures(64))
    both = spoil([agent, wrist], [fault])
    hidden, shown = spoil([None, wrist], [fault])
    assert hidden is None
    np.testing.assert_array_equal(shown, both[1])
    shown, hidden = spoil([agent, None], [fault])
    assert hidden is None
    np.testing.assert_array_equal(shown, both[0])
    assert spoil([None, None], [fault]) == [None, None]


def test_rectangles_of_the_official_fractions():
    assert rectangle_size(256, 256, 0.08) == (72, 72)
    assert rectangle_size(256, 256, 0.16) == (102, 102)
    assert rectangle_size(3, 500, 0.0001) == (1, 5)


def test_without_noise_the_rectangle_is_the_first_draw():
    white = np.full((1, 100, 80, 3), 255, np.uint8)
    for out in (spoil([white], [Fault(11, 0.0, 0.25)])[0][0], spoil_frame([white[0]], Fault(11, 0.0, 0.25))[0]):
        theirs = np.random.RandomState(11)
        top, left = theirs.randint(0, 51), theirs.randint(0, 41)
        expected = white[0].copy()
        expected[top : top + 50, left : left + 40] = 0
        np.testing.assert_array_equal(out, expected)


def test_brightness_cuts_off_and_clips():
    grey = np.arange(256, dtype=np.uint8).reshape(1, 16, 16, 1).repeat(3, axis=3)
    [darker] = spoil([grey], [Fault(brightness=0.75)])
    [brighter] = spoil([grey], [Fault(brightness=1.25)])
    np.testing.assert_array_equal(darker, grey.astype(int) * 3 // 4)
    np.testing.assert_array_equal(brighter, np.minimum(grey.astype(int) * 5 // 4, 255))


def test_noise_has_the_strength_that_was_asked_for():
    grey = np.full((1, 256, 256, 3), 128, np.uint8)
    [out] = spoil([grey], [Fault(5, 24.0)])
    # Cutting off moves the mean by half a grey level.
    assert abs(out.mean() - 127.5) < 0.3
    assert abs(out.std() - 24.0) < 0.2
    assert np.corrcoef(out[0, :, :, 0].ravel(), out[0, :, :, 1].ravel())[0, 1] < 0.02, "channels draw for themselves"


def test_pictures_need_not_lie_in_one_piece():
    agent = pictures(64)[0][None]
    np.testing.assert_array_equal(
        spoil([agent[:, ::-1, ::-1]], [Fault(1, 24.0)])[0], spoil([agent[:, ::-1, ::-1].copy()], [Fault(1, 24.0)])[0]
    )


def test_what_is_given_is_not_changed():
    agent = pictures(64)[0][None]
    before = agent.copy()
    spoil([agent], [Fault(1, 24.0, 0.2, 0.75)])
    np.testing.assert_array_equal(agent, before)


@pytest.mark.parametrize(
    ("cameras", "faults", "message"),
    [
        ([np.zeros((1, 8, 8, 3), np.float32)], [Fault()], "float32"),
        ([np.zeros((1, 8, 8, 3), np.uint8), np.zeros((1, 8, 9, 3), np.uint8)], [Fault()], r"\[1, 8, 8, 3\] and uint8"),
        ([np.zeros((8, 8, 3), np.uint8)], [Fault()] * 8, "uint8"),
        ([np.zeros((2, 8, 8, 3), np.uint8)], [Fault()], "1 faults for 2 lanes"),
        ([np.zeros((1, 8, 8, 3), np.uint8)], [Fault(2**32)], "4294967296"),
    ],
)
def test_bad_input(cameras, faults, message):
    with pytest.raises(ValueError, match=message):
        spoil(cameras, faults)
