"""Paired statistics of Base and Dynamic outcomes, exact where the reference is exact. NumPy only.

Formulas and recipes: section 5.1 of the LIBERO-MAX protocol. Rates are fractions in [0, 1]; a ratio with an empty
denominator is None, never 0 and never NaN. Nothing is rounded here but the bootstrap, whose recipe says so.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Iterable, Sequence

import numpy as np

Z_95 = 1.959963984540054
# Replicates that the reference draws for run summaries and for tables.
SUMMARY_REPLICATES = 2000
TABLE_REPLICATES = 5000


@dataclasses.dataclass(frozen=True)
class Outcomes:
    """Counts of the four outcomes of a pair (Base, Dynamic).

    Attributes:
      preserved: success in both, n11.
      gained: failure, then success: n01.
      regressed: success, then failure: n10.
      failed: failure in both, n00.
    """

    preserved: int
    gained: int
    regressed: int
    failed: int

    @classmethod
    def count(cls, pairs: Iterable[tuple[bool, bool]]) -> Outcomes:
        """Counts (base success, dynamic success) pairs."""
        counts = {(b, d): 0 for b in (True, False) for d in (True, False)}
        for base, dynamic in pairs:
            counts[bool(base), bool(dynamic)] += 1
        return cls(counts[True, True], counts[False, True], counts[True, False], counts[False, False])

    @property
    def pairs(self) -> int:
        return self.preserved + self.gained + self.regressed + self.failed

    @property
    def base_successes(self) -> int:
        return self.preserved + self.regressed

    @property
    def dynamic_successes(self) -> int:
        return self.preserved + self.gained

    @property
    def base_rate(self) -> float | None:
        return ratio(self.base_successes, self.pairs)

    @property
    def dynamic_rate(self) -> float | None:
        return ratio(self.dynamic_successes, self.pairs)

    @property
    def delta(self) -> float | None:
        """Dynamic rate minus Base rate, from the counts, so that equal counts give exactly 0."""
        return ratio(self.gained - self.regressed, self.pairs)

    @property
    def conditional_regression(self) -> float | None:
        """Share of Base successes that the change broke: n10 / (n11 + n10)."""
        return ratio(self.regressed, self.base_successes)

    @property
    def retained_performance(self) -> float | None:
        """Dynamic rate over Base rate; above 1 when the change helped."""
        return ratio(self.dynamic_successes, self.base_successes)

    @property
    def mcnemar_p(self) -> float | None:
        return mcnemar_exact(self.gained, self.regressed)


def ratio(numerator: int, denominator: int) -> float | None:
    return numerator / denominator if denominator else None


def wilson(successes: int, n: int, z: float = Z_95) -> tuple[float, float] | None:
    """Wilson score interval of a rate (E. B. Wilson, 1927), clipped to [0, 1]; None for n = 0.

    Raises:
      ValueError: successes outside 0..n.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n}")
    if n == 0:
        return None
    p, z2 = successes / n, z * z
    denominator = 1 + z2 / n
    centre = (p + z2 / (2 * n)) / denominator
    half = z * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n)) / denominator
    return max(0.0, centre - half), min(1.0, centre + half)


def mcnemar_exact(n01: int, n10: int) -> float | None:
    """Exact two-sided McNemar test of n01 against n10 discordant pairs; None when there are none.

    p = min(1, 2 sum_{k <= min(n01, n10)} C(n, k) / 2^n) with n = n01 + n10, in integers up to one rounded division.
    """
    n = n01 + n10
    if n == 0:
        return None
    term = total = 1
    for k in range(min(n01, n10)):
        term = term * (n - k) // (k + 1)  # C(n, k + 1), exactly
        total += term
    return min(1.0, 2 * total / 2**n)


def paired_bootstrap(
    differences: Sequence[int] | np.ndarray, replicates: int = SUMMARY_REPLICATES, seed: int = 0
) -> tuple[float, float] | None:
    """95% percentile interval of the mean difference, the reference's recipe bit for bit.

    Each replicate draws N indices with `random.Random(seed).randrange(N)`, one generator throughout; the means are
    sorted, and the elements floor(0.025 (B - 1)) and floor(0.975 (B - 1)) are rounded to 6 decimals.

    Args:
      differences: integers [N], Dynamic minus Base in record order.
      replicates: B.
      seed: of the generator.

    Returns:
      (low, high) as fractions, None for N = 0.
    """
    values = np.asarray(differences, dtype=np.int64)
    n = len(values)
    if n == 0:
        return None
    sums = np.sort(_resampled_sums(values, replicates, seed))
    low, high = sums[math.floor(0.025 * (replicates - 1))], sums[math.floor(0.975 * (replicates - 1))]
    return round(int(low) / n, 6), round(int(high) / n, 6)


def _resampled_sums(values: np.ndarray, replicates: int, seed: int) -> np.ndarray:
    """Sums of `replicates` resamples, int64 [B], from the very numbers that `randrange` would draw.

    `randrange(n)` takes the top bit_length(n) bits of one 32-bit word of the Mersenne Twister and draws again while the
    result is n or more. NumPy's legacy generator, given Python's state, yields the same words by the million.
    """
    n = len(values)
    state = random.Random(seed).getstate()[1]
    words = np.random.RandomState()
    words.set_state(("MT19937", np.array(state[:-1], dtype=np.uint32), state[-1], 0, 0.0))
    shift = np.uint32(32 - n.bit_length())
    sums = np.empty(replicates, dtype=np.int64)
    done, kept = 0, np.empty(0, dtype=np.uint32)
    while done < replicates:
        fresh = words.randint(0, 2**32, size=max(n, 1 << 18), dtype=np.uint32) >> shift
        kept = np.concatenate([kept, fresh[fresh < n]])
        rows = min(len(kept) // n, replicates - done)
        sums[done : done + rows] = values[kept[: rows * n]].reshape(rows, n).sum(axis=1)
        kept, done = kept[rows * n :], done + rows
    return sums


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down adjustment (1979), in the order given; None stays None and is not counted."""
    order = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    running = 0.0
    for rank, (p, i) in enumerate(order):
        running = max(running, min(1.0, (len(order) - rank) * p))
        adjusted[i] = running
    return adjusted
