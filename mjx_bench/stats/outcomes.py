"""Counts of paired outcomes, the rates that follow from them, and exact tests. Section 5.1 of the LIBERO-MAX protocol."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import accumulate

Z_95 = 1.959963984540054


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
    """Wilson score interval of a rate (E. B. Wilson, 1927); from 0 where nothing succeeds, to 1 where all does.

    None for n = 0.

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
    # What rounding leaves at the ends is no probability.
    return 0.0 if successes == 0 else centre - half, 1.0 if successes == n else centre + half


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


def sign_flip_exact(differences: Iterable[int]) -> float | None:
    """Exact two-sided sign-flip test of a mean paired difference of 0; None where no difference is other than 0.

    Under the hypothesis each difference is as likely as its negative. p is the probability that the sum of the differences
    with random signs is at least as far from 0 as it is. For differences of -1, 0 and 1 this is McNemar's exact test; it
    carries that test to the difference of two paired differences, which lies in -2..2 (an extension of ours).

    Args:
      differences: integers; a common factor changes nothing.
    """
    sizes: Counter[int] = Counter()
    observed = 0
    for difference in differences:
        observed += difference
        if difference:
            sizes[abs(difference)] += 1
    n = sum(sizes.values())
    if n == 0:
        return None
    if observed == 0:
        return 1.0
    *rest, (most, count) = sorted(sizes.items(), key=lambda item: item[1])
    sums = {0: 1}  # sum with signs to the number of patterns that give it, of all sizes but the commonest
    for size, number in rest:
        new: Counter[int] = Counter()
        for k, ways in enumerate(_binomials(number)):
            for total, before in sums.items():
                new[total + size * (2 * k - number)] += before * ways
        sums = dict(new)
    # at_least[k]: patterns of the commonest size with k or more plus signs.
    at_least = [*accumulate(reversed(_binomials(count)))][::-1]
    upper = 0
    for total, patterns in sums.items():
        plus = max(0, math.ceil(Fraction(abs(observed) - total + most * count, 2 * most)))
        upper += patterns * at_least[plus] if plus <= count else 0
    return 2 * upper / 2**n


def _binomials(n: int) -> list[int]:
    """C(n, k) for k = 0..n."""
    row = [1]
    for k in range(n):
        row.append(row[-1] * (n - k) // (k + 1))
    return row


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down adjustment (1979), in the order given; None stays None and is not counted."""
    order = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    running = 0.0
    for rank, (p, i) in enumerate(order):
        running = max(running, min(1.0, (len(order) - rank) * p))
        adjusted[i] = running
    return adjusted
