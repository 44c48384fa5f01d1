"""Bootstrap intervals that resample clusters: cases of one task or one initial state are not independent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from mjx_bench.stats.bootstrap import percentiles

TASK_REPLICATES = 50_000
GROUP_REPLICATES = 10_000
_BLOCK = 4_000_000  # numbers drawn at a time, to bound memory


def task_bootstrap(
    values: Sequence[float] | np.ndarray,
    sources: Sequence[str],
    tasks: Sequence[Hashable],
    weights: Mapping[str, float] | None = None,
    replicates: int = TASK_REPLICATES,
    seed: int = 0,
) -> tuple[float, float] | None:
    """95% percentile interval of a weighted mean, resampling reference tasks with all their cases, jointly in all
    sources.

    A replicate draws as many tasks as there are, with replacement, and takes along every case of a drawn task, from
    whatever source. Within a source the cases are pooled; the sources' means are added with fixed weights. Section 5.3
    of the protocol.

    Args:
      values: [N], of a case, e.g. the difference of two outcomes.
      sources: [N], a key of `weights` each.
      tasks: [N], the reference task that each case descends from.
      weights: share of each source, 0.7 and 0.3 of Plus and PRO in the benchmark; its share of the cases if not given.
      replicates: B; one that drew no case of some source is left out.
      seed: of the generator.

    Returns:
      (low, high) in the unit of the values, None for N = 0.

    Raises:
      ValueError: lengths that differ, a source without a weight, or a weighted source without a case.
    """
    return _bootstrap(values, sources, tasks, weights, replicates, seed, joint=True)


def group_bootstrap(
    values: Sequence[float] | np.ndarray,
    strata: Sequence[str],
    groups: Sequence[Hashable],
    weights: Mapping[str, float] | None = None,
    replicates: int = GROUP_REPLICATES,
    seed: int = 0,
) -> tuple[float, float] | None:
    """95% percentile interval of a mean, resampling groups of cases within each stratum.

    Section 5.3: source, task and initial configuration are a group, a source is a stratum. Section 5.5: strata are
    source categories. A replicate draws, in every stratum, as many of its groups as it has, pools their cases, and adds
    the strata's means with fixed weights. Groups of one case each in one stratum make it the plain bootstrap.

    Args:
      values: [N], of a case.
      strata: [N], a key of `weights` each.
      groups: [N]; equal groups of different strata are different groups.
      weights: share of each stratum; its share of the cases if not given.
      replicates: B.
      seed: of the generator.

    Returns:
      (low, high) in the unit of the values, None for N = 0.

    Raises:
      ValueError: as `task_bootstrap`.
    """
    return _bootstrap(values, strata, groups, weights, replicates, seed, joint=False)


def _bootstrap(
    values: Sequence[float] | np.ndarray,
    strata: Sequence[str],
    clusters: Sequence[Hashable],
    weights: Mapping[str, float] | None,
    replicates: int,
    seed: int,
    joint: bool,
) -> tuple[float, float] | None:
    data = np.asarray(values, dtype=np.float64)
    if not len(data) == len(strata) == len(clusters):
        raise ValueError(f"{len(data)} values, {len(strata)} strata and {len(clusters)} clusters")
    if not len(data):
        return None
    if weights is None:
        weights = {name: number / len(strata) for name, number in sorted(Counter(strata).items())}
    if set(strata) != set(weights):
        raise ValueError(f"strata {sorted(set(strata))} and weights of {sorted(weights)}")
    names = list(weights)
    stratum = np.array([names.index(s) for s in strata])
    index = {c: i for i, c in enumerate(dict.fromkeys(clusters))}
    cluster = np.array([index[c] for c in clusters])
    # Sum of the values and number of cases, [clusters, strata].
    sums, sizes = np.zeros((len(index), len(names))), np.zeros((len(index), len(names)))
    np.add.at(sums, (cluster, stratum), data)
    np.add.at(sizes, (cluster, stratum), 1)

    rng = np.random.default_rng(seed)
    means = np.zeros(replicates)
    block = max(1, _BLOCK // len(index))
    for start in range(0, replicates, block):
        rows = slice(start, min(start + block, replicates))
        draws = (
            rng.multinomial(len(index), np.full(len(index), 1 / len(index)), size=rows.stop - start) if joint else None
        )
        for s, name in enumerate(names):
            own = np.flatnonzero(sizes[:, s])
            times = draws if draws is not None else _draw(rng, len(own), rows.stop - start)
            mine = slice(None) if draws is not None else own
            cases = times @ sizes[mine, s]
            with np.errstate(invalid="ignore"):  # no case of this stratum: the replicate is left out
                means[rows] += weights[name] * (times @ sums[mine, s]) / cases
    return percentiles(means[np.isfinite(means)])


def _draw(rng: np.random.Generator, n: int, replicates: int) -> np.ndarray:
    """How often each of n clusters is drawn in n draws with replacement, int64 [replicates, n]."""
    return rng.multinomial(n, np.full(n, 1 / n), size=replicates)
