"""How much of the gap between Base and Dynamic a restoration closes. Section 5.5 of the LIBERO-MAX protocol."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence

from mjx_bench.stats.clusters import GROUP_REPLICATES, group_bootstrap
from mjx_bench.stats.outcomes import Outcomes


@dataclasses.dataclass(frozen=True)
class GapClosure:
    """A strategy against the native policy on the same cases; rates are fractions of the cases.

    Attributes:
      native, restored: outcomes without and with the strategy.
      closure: (Base - Dynamic) of native minus (Base - Dynamic) of restored; positive where the strategy narrows the gap.
      ci95: 95% interval of the closure; percentile bootstrap, stratified and clustered.
      won: cases whose Dynamic arm fails natively and succeeds with the strategy.
      lost: the reverse.
    """

    native: Outcomes
    restored: Outcomes
    closure: float | None
    ci95: tuple[float, float] | None
    won: int
    lost: int


def gap_closure(
    native: Sequence[tuple[bool, bool]],
    restored: Sequence[tuple[bool, bool]],
    categories: Sequence[str],
    groups: Sequence[Hashable],
    replicates: int = GROUP_REPLICATES,
    seed: int = 0,
) -> GapClosure:
    """Compares a restoration strategy with the native policy.

    Args:
      native, restored: (Base, Dynamic) success of each case, [N], in one order of cases.
      categories: [N], source category of each case: the strata.
      groups: [N], task and initial state of each case: the clusters.
      replicates, seed: see `group_bootstrap`.

    Raises:
      ValueError: lengths that differ.
    """
    if not len(native) == len(restored) == len(categories) == len(groups):
        raise ValueError(f"{len(native)} native, {len(restored)} restored, {len(categories)} labelled cases")
    closed = [(int(b0) - int(d0)) - (int(b1) - int(d1)) for (b0, d0), (b1, d1) in zip(native, restored, strict=True)]
    return GapClosure(
        native=Outcomes.count(native),
        restored=Outcomes.count(restored),
        closure=sum(closed) / len(closed) if closed else None,
        ci95=group_bootstrap(closed, categories, groups, replicates=replicates, seed=seed),
        won=sum(d1 and not d0 for (_, d0), (_, d1) in zip(native, restored, strict=True)),
        lost=sum(d0 and not d1 for (_, d0), (_, d1) in zip(native, restored, strict=True)),
    )
