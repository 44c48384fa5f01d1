"""Roads of the authored driving courses: from lines in their own notation to vertices, checkpoints and lengths."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from mjx_bench.errors import BenchError

END = 0.2  # metres
_NUMBER = r"-?\d*\.?\d+"
_LINE = re.compile(r"line (?:\(([^)]*)\))?->\(([^)]*)\) n(\d+)")
_ARC = re.compile(
    rf"arc c\(({_NUMBER}),({_NUMBER})\) r({_NUMBER}) ({_NUMBER})->({_NUMBER})(?: deg)? n(\d+)"
    rf"(?: z ({_NUMBER})->({_NUMBER}))?"
)


def vertices(parts: Sequence[str]) -> np.ndarray:
    """The road's vertices [N, 3], metres.

    Args:
      parts: "line (x,y,z)->(x,y,z) n4", its start left out where it is the end of the part before, or "arc c(x,y) r1.5
        -90->90 deg n16 z .25->.5"; n is the number of pieces that a part is cut into.

    Raises:
      BenchError: a part in another notation.
    """
    path: list[np.ndarray] = []
    for part in parts:
        if line := _LINE.fullmatch(part):
            start = _point(line[1]) if line[1] else path[-1]
            piece = np.linspace(start, _point(line[2]), int(line[3]) + 1)
        elif arc := _ARC.fullmatch(part):
            x, y, r, begin, end = (float(v) for v in arc.groups()[:5])
            angle = np.radians(np.linspace(begin, end, int(arc[6]) + 1))
            height = np.linspace(float(arc[7] or 0.0), float(arc[8] or 0.0), len(angle))
            piece = np.stack([x + r * np.cos(angle), y + r * np.sin(angle), height], axis=1)
        else:
            raise BenchError(f"part of a road {part!r}: expected a line or an arc")
        path += list(piece if not path else piece[1:])
    return np.array(path)


def _point(text: str) -> np.ndarray:
    values = [float(v) for v in text.split(",")]
    return np.array([*values, 0.0][:3])


def length(path: np.ndarray) -> float:
    """Of a road [N, 3], seen from above, metres."""
    return float(_distances(path)[-1])


def checkpoints(path: np.ndarray, spacing: float) -> list[int]:
    """Vertices at which to check: the first at or beyond each target, the next target `spacing` metres from that.

    The last vertex is one too, unless the last checkpoint is no more than `END` before it.
    """
    along = _distances(path)
    found: list[int] = []
    target = spacing
    for i, s in enumerate(along):
        if s >= target - 1e-9:
            found.append(i)
            target = s + spacing
    if along[-1] - along[found[-1]] > END:
        found.append(len(path) - 1)
    return found


def heading(path: np.ndarray, vertex: int) -> float:
    """Of the road where it leaves a vertex (or reaches the last one), seen from above, radians."""
    i = min(vertex, len(path) - 2)
    dx, dy = (path[i + 1] - path[i])[:2]
    return float(np.arctan2(dy, dx))


def _distances(path: np.ndarray) -> np.ndarray:
    return np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(path[:, :2], axis=0).T))])
