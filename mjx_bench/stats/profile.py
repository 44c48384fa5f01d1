"""What breakdowns are summarised by: macro means, the split between draws, and how far event profiles agree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from mjx_bench.stats.outcomes import Outcomes


def macro(groups: Iterable[Outcomes]) -> dict[str, float | None]:
    """Unweighted means over groups (the protocol: over source categories): a large one counts no more than a small one.

    Returns:
      `base_rate`, `dynamic_rate`, `delta` and `conditional_regression`, fractions. A group for which one is not defined
      has no part in its mean; None where it is defined for none.
    """
    found = list(groups)
    out: dict[str, float | None] = {}
    for name in ("base_rate", "dynamic_rate", "delta", "conditional_regression"):
        values = [value for group in found if (value := getattr(group, name)) is not None]
        out[name] = float(np.mean(values)) if values else None
    return out


def split(rates: Mapping[str, Mapping[int, float | None]]) -> tuple[str, float] | None:
    """The event whose draws differ most in success rate.

    Args:
      rates: event to draw to Dynamic success rate.

    Returns:
      The event and the difference between its best and its worst draw, a fraction; the first of equals. None where no
      event has two draws with a rate.
    """
    found: tuple[str, float] | None = None
    for event, draws in rates.items():
        known = [rate for rate in draws.values() if rate is not None]
        if len(known) > 1 and (found is None or max(known) - min(known) > found[1]):
            found = event, max(known) - min(known)
    return found


def spearman(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Spearman's rank correlation, equal values sharing their mean rank; None where one side is constant or has one
    value.

    Raises:
      ValueError: sequences of different lengths.
    """
    if len(a) != len(b):
        raise ValueError(f"{len(a)} values against {len(b)}")
    x, y = _ranks(a), _ranks(b)
    x, y = x - x.mean() if len(x) else x, y - y.mean() if len(y) else y
    scale = float(np.sqrt((x @ x) * (y @ y)))
    return float(np.clip((x @ y) / scale, -1.0, 1.0)) if scale > 0 else None


def _ranks(values: Sequence[float]) -> np.ndarray:
    """Ranks from 1, f8 [N], the mean of their places for equal values."""
    _, inverse, counts = np.unique(np.asarray(values, dtype=np.float64), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: np.ndarray = (last - (counts - 1) / 2)[inverse]
    return ranks


def agreement(profiles: Sequence[Sequence[float | None]]) -> tuple[list[list[float | None]], float | None]:
    """How far policies agree on which events hurt: Spearman's correlation of every two profiles of event losses.

    Args:
      profiles: [P][E], the loss of each policy on each event, in one order of events. An event that one policy of a
      pair has
        no loss for is left out of that pair.

    Returns:
      The matrix [P][P] (1 on its diagonal, None where undefined), and the mean over pairs of different policies that
      have one.
    """
    n = len(profiles)
    matrix: list[list[float | None]] = [[1.0 if i == j else None for j in range(n)] for i in range(n)]
    pairs: list[float] = []
    for i in range(n):
        for j in range(i + 1, n):
            both = [(a, b) for a, b in zip(profiles[i], profiles[j], strict=True) if a is not None and b is not None]
            found = spearman([a for a, _ in both], [b for _, b in both])
            matrix[i][j] = matrix[j][i] = found
            if found is not None:
                pairs.append(found)
    return matrix, float(np.mean(pairs)) if pairs else None
