"""Repair of spoilt camera pictures, as in LIBERO-MAX's restoration study: fill dead rectangles, then smooth the noise.

Of one picture at a time, from nothing but the picture: `occlusion_mask` finds dead rectangles, `noise_level` estimates the
noise in what is left, `needs_repair` is the study's gate, `restore` its operator. Inpainting and bilateral filter are
OpenCV's, which the caller must have installed.

The study does not say by which filter it estimates the noise. Here it is Immerkaer's difference of two Laplacians ("Fast
noise variance estimation", 1996), which no constant, ramp or straight edge along an axis answers to; and the median of its
absolute value, which the few pixels at real edges hardly move.
"""

from __future__ import annotations

import dataclasses

import numpy as np

# Thresholds of the study; areas are shares of the picture.
DARK = 2  # grey levels, in every channel
MIN_AREA, MAX_AREA = 0.002, 0.30
MIN_SIDE = 8  # pixels
MIN_FILL = 0.85  # of the bounding box
GATE_NOISE = 12.0  # grey levels
GATE_AREA = 0.035

TELEA_RADIUS = 3  # pixels
BILATERAL_DIAMETER = 5  # pixels
BILATERAL_COLOUR_SIGMA = 45.0  # grey levels
BILATERAL_SPACE_SIGMA = 2.0  # pixels

# The filter's weights squared sum to 36; half of a normal's absolute values lie below 0.6745 standard deviations.
_RESPONSE_PER_SIGMA = 6.0 * 0.6745


@dataclasses.dataclass(frozen=True)
class Damage:
    """What is wrong with a picture, as far as it shows.

    Attributes:
      mask: bool [H, W] dead pixels.
      noise: standard deviation in grey levels.
    """

    mask: np.ndarray
    noise: float

    @property
    def needs_repair(self) -> bool:
        """Whether the study's gate opens."""
        return self.noise >= GATE_NOISE or float(self.mask.mean()) >= GATE_AREA


def damage_of(picture: np.ndarray) -> Damage:
    """Measures one picture, uint8 [H, W, 3]."""
    mask = occlusion_mask(picture)
    return Damage(mask, noise_level(picture, mask))


def restore(picture: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Fills the dead pixels from their surroundings (Telea 2004), then smooths noise but not edges (bilateral filter).

    Args:
      picture: uint8 [H, W, 3].
      mask: bool [H, W] pixels to fill.

    Returns:
      uint8 [H, W, 3].
    """
    import cv2

    filled = picture
    if mask.any():
        filled = cv2.inpaint(picture, mask.astype(np.uint8), TELEA_RADIUS, cv2.INPAINT_TELEA)
    return cv2.bilateralFilter(filled, BILATERAL_DIAMETER, BILATERAL_COLOUR_SIGMA, BILATERAL_SPACE_SIGMA)


def restore_if_needed(picture: np.ndarray) -> np.ndarray:
    """The study's gated strategy: a picture that shows no damage is returned as it is."""
    damage = damage_of(picture)
    return restore(picture, damage.mask) if damage.needs_repair else picture


def occlusion_mask(picture: np.ndarray) -> np.ndarray:
    """Finds dead rectangles: large, compact, nearly filled groups of black pixels (touching by a side or a corner).

    Args:
      picture: uint8 [H, W, 3].

    Returns:
      bool [H, W]; empty if it would cover over 30% of the picture, which is then dark and not occluded.

    Raises:
      ValueError: another type or shape.
    """
    if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3:
        raise ValueError(f"a picture must be uint8 [H, W, 3], not {picture.dtype} {list(picture.shape)}")
    import cv2

    dark = np.all(picture <= DARK, axis=-1)
    _, labels, boxes, _ = cv2.connectedComponentsWithStats(dark.astype(np.uint8), connectivity=8)
    width, height, area = (boxes[:, k] for k in (cv2.CC_STAT_WIDTH, cv2.CC_STAT_HEIGHT, cv2.CC_STAT_AREA))
    dead = (
        (area >= MIN_AREA * dark.size) & (np.minimum(width, height) >= MIN_SIDE) & (area >= MIN_FILL * width * height)
    )
    dead[0] = False  # the rest of the picture
    mask = dead[labels]
    return mask if mask.mean() <= MAX_AREA else np.zeros_like(mask)


def noise_level(picture: np.ndarray, mask: np.ndarray) -> float:
    """Standard deviation of the noise in the green channel, in grey levels.

    Args:
      picture: uint8 [H, W, 3].
      mask: bool [H, W] pixels without information. Neither they nor what the filter sees them from is counted.

    Returns:
      The estimate; 0 where nothing is left to measure. Noise that was cut off at black or white counts for less.
    """
    green = picture[..., 1].astype(np.int32)
    # [1, -2, 1] down and across.
    rows = green[:-2] - 2 * green[1:-1] + green[2:]
    response = rows[:, :-2] - 2 * rows[:, 1:-1] + rows[:, 2:]
    rows = mask[:-2] | mask[1:-1] | mask[2:]
    seen = ~(rows[:, :-2] | rows[:, 1:-1] | rows[:, 2:])
    values = np.abs(response[seen])
    return float(np.median(values)) / _RESPONSE_PER_SIGMA if values.size else 0.0
