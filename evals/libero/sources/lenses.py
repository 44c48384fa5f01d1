"""What a source's camera does to pictures: LIBERO-Plus's sensor noise, and the grain of LIBERO-PRO's glare.

Official pictures lie upside down, and are spoilt as they lie; so are ours, between two flips.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from evals.libero.sources.camera import CAMERA
from evals.libero.sources.edits import POLICY_SEED, with_lens
from kernels import camera_noise
from mjx_bench.cases import stable_seed
from mjx_bench.task import Task

# Parameters of LIBERO-Plus's sensor noise by family, severity 1 to 10.
MOTION = ((5, 2), (8, 3), (10, 4), (12, 5), (15, 6), (18, 8), (20, 10), (25, 12), (30, 15), (35, 20))  # radius, sigma
MOTION_DEGREES = (-45.0, 45.0)
GAUSSIAN = tuple(float(sigma) for sigma in range(1, 11))
# Largest factor, in hundredths, and the step to it.
ZOOM = ((110, 1), (115, 1), (120, 2), (125, 2), (130, 3), (135, 1), (140, 1), (145, 2), (150, 2), (155, 3))
# Strength, and how fast the plasma's detail fades.
FOG = (
    *((0.5, 3.0), (1.0, 2.8), (1.5, 2.5), (2.0, 2.2), (2.5, 2.0)),
    *((3.0, 1.8), (3.5, 1.6), (4.0, 1.5), (4.5, 1.4), (5.0, 1.3)),
)
# Sigma, how far a pixel goes, how often.
GLASS = (
    *((0.5, 1, 3), (0.7, 1, 3), (0.9, 2, 3), (1.0, 2, 2), (1.1, 3, 2)),
    *((1.3, 3, 2), (1.5, 4, 2), (1.8, 4, 2), (2.2, 5, 1), (2.5, 5, 1)),
)
FAMILIES = ("motion", "gaussian", "zoom", "fog", "glass")
SEVERITIES = 10
COUNT = len(FAMILIES) * SEVERITIES

GRAIN_GAIN, GRAIN_STD = 0.68, 12.0

_NAME = re.compile(r"view_0_0_100_0_0_initstate_0_noise_(\d+)")

Spoil = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def number_of(name: str) -> int | None:
    """The m of `view_0_0_100_0_0_initstate_0_noise_<m>`, 1 to 50; None for another name."""
    match = _NAME.fullmatch(name)
    return int(match.group(1)) if match and 1 <= int(match.group(1)) <= COUNT else None


def family_of(number: int) -> tuple[str, int]:
    """The family and the severity, 1 to 10, of noise `number`."""
    return FAMILIES[(number - 1) // SEVERITIES], (number - 1) % SEVERITIES + 1


def noisy(task: Task, number: int) -> Task:
    """The task seen through a faulty camera: noise `number`, 1 to 50, in the picture of `agentview` alone."""
    return with_lens(task, Noise(number))


def grainy(task: Task) -> Task:
    """The task seen through the cameras of visual_noise_glare."""
    return with_lens(task, Grain(task.scene.observed))


@dataclasses.dataclass(frozen=True)
class Noise:
    """A lens of LIBERO-Plus's sensor noise.

    The reference draws from NumPy's global generator, whose state depends on all that ran before. Here a frame's numbers
    depend on the noise's number and the frame alone, so both arms of a pair see the same.
    """

    number: int

    def __call__(self, images: Mapping[str, np.ndarray], frames: Sequence[int]) -> dict[str, np.ndarray]:
        out = dict(images)
        if CAMERA in images:
            out[CAMERA] = np.stack([self._spoilt(*pair) for pair in zip(images[CAMERA], frames, strict=True)])
        return out

    def _spoilt(self, image: np.ndarray, frame: int) -> np.ndarray:
        rng = np.random.default_rng([stable_seed("mjx-bench-plus-noise-v1", self.number), frame])
        return spoiler_of(self.number)(image[::-1], rng)[::-1]


def spoiler_of(number: int) -> Spoil:
    """What noise `number` does to a picture, uint8 [H, W, C], with numbers from a generator."""
    family, severity = family_of(number)
    at = severity - 1
    if family == "motion":
        radius, sigma = MOTION[at]
        return lambda image, rng: camera_noise.motion_blur(image, radius, sigma, rng.uniform(*MOTION_DEGREES))
    if family == "gaussian":
        return lambda image, rng: camera_noise.gaussian_blur(image, GAUSSIAN[at])
    if family == "zoom":
        largest, step = ZOOM[at]
        factors = tuple(hundredths / 100 for hundredths in range(100, largest + 1, step))
        return lambda image, rng: camera_noise.zoom_blur(image, factors)
    if family == "fog":
        strength, decay = FOG[at]
        return lambda image, rng: camera_noise.fog(image, strength, decay, rng)
    ripple, reach, times = GLASS[at]
    return lambda image, rng: camera_noise.glass_blur(image, ripple, reach, times, rng)


@dataclasses.dataclass(frozen=True)
class Grain:
    """The lens of visual_noise_glare: darker, with one pattern of grain that stays where it is in every frame.

    The reference seeds the pattern with the case's seed, which a camera does not know here: it is the policy seed of all
    published cases, plus the camera's place in the observation.
    """

    observed: tuple[str, ...]

    def __call__(self, images: Mapping[str, np.ndarray], frames: Sequence[int]) -> dict[str, np.ndarray]:
        out = {}
        for i, (name, pictures) in enumerate(images.items()):
            at = self.observed.index(name) if name in self.observed else len(self.observed) + i
            lit = pictures[:, ::-1].astype(np.float64) * GRAIN_GAIN + _grain(POLICY_SEED + at, pictures.shape[1:])
            out[name] = np.clip(lit, 0, 255).astype(np.uint8)[:, ::-1]
        return out


@functools.lru_cache(maxsize=8)
def _grain(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.0, GRAIN_STD, shape)
