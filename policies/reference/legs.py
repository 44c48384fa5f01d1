"""A leg of three joints, hip about x, thigh and calf about y, as most quadrupeds have it.

Places are from the hip, in the trunk's axes. `aside` is how far to the left of its hip the thigh hangs (below 0: to the
right), `links` are the lengths of thigh and calf, metres; joints are hip, thigh and calf, radians. At zero the leg hangs
straight down.
"""

from __future__ import annotations

import math

import numpy as np


def angles(place: np.ndarray, aside: float, links: tuple[float, float]) -> np.ndarray:
    """[3] joints that bring the foot to `place` [3], its knee behind; as near as it can be where the leg is too short."""
    x, y, z = place
    thigh, calf = links
    level = math.sqrt(max(y * y + z * z - aside * aside, 1e-6))
    hip = math.atan2(z, y) - math.atan2(-level, aside)
    long = x * x + level * level
    bent = math.acos(float(np.clip((long - thigh**2 - calf**2) / (2 * thigh * calf), -1.0, 1.0)))
    knee = -bent
    raised = math.atan2(-x, level) - math.atan2(calf * math.sin(knee), thigh + calf * math.cos(knee))
    return np.array([math.remainder(hip, math.tau), raised, knee])


def foot(joints: np.ndarray, aside: float, links: tuple[float, float]) -> np.ndarray:
    """[3] where the foot is; the inverse of `angles`."""
    hip, thigh, knee = joints
    a, b = links
    down = a * math.cos(thigh) + b * math.cos(thigh + knee)
    ch, sh = math.cos(hip), math.sin(hip)
    x = -a * math.sin(thigh) - b * math.sin(thigh + knee)
    return np.array([x, aside * ch + down * sh, aside * sh - down * ch])


def jacobian(joints: np.ndarray, aside: float, links: tuple[float, float]) -> np.ndarray:
    """[3, 3] of the foot's place by the joints."""
    hip, thigh, knee = joints
    a, b = links
    ch, sh = math.cos(hip), math.sin(hip)
    s1, c1, s2, c2 = math.sin(thigh), math.cos(thigh), math.sin(thigh + knee), math.cos(thigh + knee)
    down = a * c1 + b * c2
    x1, x2 = -(a * c1 + b * c2), -b * c2
    d1, d2 = -(a * s1 + b * s2), -b * s2
    return np.array(
        [
            [0.0, x1, x2],
            [-aside * sh + down * ch, d1 * sh, d2 * sh],
            [aside * ch + down * sh, -d1 * ch, -d2 * ch],
        ]
    )
