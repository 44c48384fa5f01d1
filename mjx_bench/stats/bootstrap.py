"""Bootstrap intervals of a mean paired difference: the reference's recipe, a fast one, and the exact law of both.

All three resample the N pairs with replacement and keep N. They differ in how the distribution of the resampled mean is
found: by the reference's own random numbers, by multinomial counts, or without random numbers at all.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence

import numpy as np

# Replicates that the reference draws for run summaries and for tables.
SUMMARY_REPLICATES = 2000
TABLE_REPLICATES = 5000
TAILS = (0.025, 0.975)


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
    low, high = (sums[math.floor(tail * (replicates - 1))] for tail in TAILS)
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


def fast_bootstrap(
    differences: Sequence[float] | np.ndarray, replicates: int = TABLE_REPLICATES, seed: int = 0
) -> tuple[float, float] | None:
    """95% percentile interval of the mean difference, as `paired_bootstrap` in distribution, from other random numbers.

    A resample only matters by how often it holds each distinct value, and these counts are multinomial: a replicate
    costs the number of distinct values, not N. Nothing is rounded.

    Args:
      differences: numbers [N]; few distinct ones make it fast.
      replicates: B.
      seed: of `numpy.random.default_rng`.

    Returns:
      (low, high) in the unit of the differences, None for N = 0.
    """
    means = resampled_means(differences, replicates, seed)
    return None if means is None else percentiles(means)


def resampled_means(
    differences: Sequence[float] | np.ndarray, replicates: int = TABLE_REPLICATES, seed: int = 0
) -> np.ndarray | None:
    """What `fast_bootstrap` takes percentiles of: means of resamples, f8 [B]; None for N = 0."""
    values, counts = np.unique(np.asarray(differences, dtype=np.float64), return_counts=True)
    n = int(counts.sum())
    if n == 0:
        return None
    rng = np.random.default_rng(seed)
    block = max(1, 4_000_000 // len(values))  # replicates at a time, to bound memory
    parts = [
        rng.multinomial(n, counts / n, size=min(block, replicates - done)) @ values / n
        for done in range(0, replicates, block)
    ]
    return np.concatenate(parts)


def percentiles(means: np.ndarray) -> tuple[float, float]:
    """The 2.5th and 97.5th percentile of replicates, f8 [B], by linear interpolation."""
    low, high = np.quantile(means, TAILS)
    return float(low), float(high)


def exact_interval(strata: Iterable[Sequence[int] | np.ndarray]) -> tuple[float, float] | None:
    """95% interval of the mean difference from the exact bootstrap law, with the size of each stratum fixed.

    Section 5.3 of the protocol: in each stratum the n_s-fold convolution of the empirical law of the differences, the
    strata's sums convolved, divided by N. It is what any bootstrap tends to with more replicates, and has no seed.

    Args:
      strata: integer differences [n_s] of each stratum; one for a plain paired bootstrap.

    Returns:
      (low, high), the smallest means whose cumulative probability reaches 2.5% and 97.5%; None where there are none.
    """
    parts = [values for s in strata if len(values := np.asarray(s, dtype=np.int64))]
    n = sum(len(values) for values in parts)
    if n == 0:
        return None
    lowest, law = resampled_sum_law(parts)
    cumulative = np.cumsum(law)
    low, high = (lowest + int(np.searchsorted(cumulative, tail)) for tail in TAILS)
    return low / n, high / n


def resampled_sum_law(strata: Sequence[np.ndarray]) -> tuple[int, np.ndarray]:
    """The exact law of the sum of a stratified resample.

    The characteristic function of the sum is the product of those of the draws, so one inverse transform gives the
    whole law, to about 1e-15 a probability.

    Args:
      strata: int64 [n_s] each, none empty.

    Returns:
      The lowest sum there can be, and the probabilities of it and of every integer above, f8 [number of sums].
    """
    lowest = sum(len(values) * int(values.min()) for values in strata)
    sums = sum(len(values) * int(values.max()) for values in strata) - lowest + 1
    spectrum = np.ones(sums // 2 + 1, dtype=np.complex128)
    for values in strata:
        pmf = np.bincount(values - values.min(), minlength=1) / len(values)
        spectrum *= np.fft.rfft(pmf, sums) ** len(values)
    law = np.clip(np.fft.irfft(spectrum, sums), 0.0, None)
    return lowest, law / law.sum()
