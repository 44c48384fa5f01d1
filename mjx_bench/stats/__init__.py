"""Statistics of paired outcomes, exact where the reference is exact. NumPy only; no simulator.

Formulas and recipes: section 5 of the LIBERO-MAX protocol. Rates are fractions in [0, 1]; a ratio with an empty
denominator is None, never 0 and never NaN. Nothing is rounded but the reference's bootstrap, whose recipe says so.

`outcomes` (counts, rates, exact tests), `bootstrap` (intervals), `clusters` (cases that are not independent), `profile`
(what breakdowns are summarised by), `camera` and `restoration` (the two studies).
"""

from mjx_bench.stats.bootstrap import (
    SUMMARY_REPLICATES,
    TABLE_REPLICATES,
    exact_interval,
    fast_bootstrap,
    paired_bootstrap,
    resampled_means,
    resampled_sum_law,
)
from mjx_bench.stats.camera import CameraCase, camera_summary
from mjx_bench.stats.clusters import GROUP_REPLICATES, TASK_REPLICATES, group_bootstrap, task_bootstrap
from mjx_bench.stats.outcomes import Z_95, Outcomes, holm, mcnemar_exact, ratio, sign_flip_exact, wilson
from mjx_bench.stats.profile import agreement, macro, spearman, split
from mjx_bench.stats.restoration import GapClosure, gap_closure

__all__ = [
    "GROUP_REPLICATES",
    "SUMMARY_REPLICATES",
    "TABLE_REPLICATES",
    "TASK_REPLICATES",
    "Z_95",
    "CameraCase",
    "GapClosure",
    "Outcomes",
    "agreement",
    "camera_summary",
    "exact_interval",
    "fast_bootstrap",
    "gap_closure",
    "group_bootstrap",
    "holm",
    "macro",
    "mcnemar_exact",
    "paired_bootstrap",
    "ratio",
    "resampled_means",
    "resampled_sum_law",
    "sign_flip_exact",
    "spearman",
    "split",
    "task_bootstrap",
    "wilson",
]
