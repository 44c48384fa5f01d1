"""Rotations wxyz, for reference controllers."""

from __future__ import annotations

import math

import numpy as np


def matrix(quat: np.ndarray) -> np.ndarray:
    """[3, 3] of a rotation wxyz."""
    w, x, y, z = quat / np.linalg.norm(quat)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def yaw_of(quat: np.ndarray) -> float:
    """Radians about the vertical."""
    w, x, y, z = quat
    return math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
