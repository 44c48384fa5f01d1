"""Rectangles on a work top, turned any way."""

from __future__ import annotations

import math

# Middle, half sizes and turn, metres and radians.
Rect = tuple[tuple[float, float], tuple[float, float], float]


def apart(a: Rect, b: Rect) -> float:
    """Gap between two rectangles along the axis that separates them most, metres; below 0 where they overlap."""
    away = b[0][0] - a[0][0], b[0][1] - a[0][1]
    gaps = []
    for turn in (a[2], a[2] + math.pi / 2, b[2], b[2] + math.pi / 2):
        ux, uy = math.cos(turn), math.sin(turn)
        reach = sum(
            half[0] * abs(ux * math.cos(yaw) + uy * math.sin(yaw))
            + half[1] * abs(uy * math.cos(yaw) - ux * math.sin(yaw))
            for _, half, yaw in (a, b)
        )
        gaps.append(abs(away[0] * ux + away[1] * uy) - reach)
    return max(gaps)
