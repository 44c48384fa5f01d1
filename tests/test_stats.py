"""Statistics against published numbers to the last digit, and against slow, plain forms of themselves."""

from __future__ import annotations

import json
import math
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats as scipy_stats

from mjx_bench.stats import Outcomes, holm, mcnemar_exact, paired_bootstrap, wilson

RUN = (
    Path(__file__).resolve().parents[1].parent
    / "shared"
    / "data"
    / "libero_max"
    / "results"
    / "v1"
    / "runs"
    / "pi05_physical"
)
needs_run = pytest.mark.skipif(not RUN.exists(), reason="the published run is not next to this checkout")


@pytest.fixture(scope="module")
def published() -> tuple[list[dict[str, Any]], dict[str, Any]]:
    lines = (RUN / "paired_results.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines], json.loads((RUN / "benchmark_summary.json").read_text())["metrics"]


def ours(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The published summary's fields, from our functions."""
    pairs = [(r["control_correct"], r["intervention_correct"]) for r in rows]
    o = Outcomes.count(pairs)

    def rounded(values: Any) -> Any:
        return None if values is None else [round(v, 6) for v in values]

    return {
        "episodes": o.pairs,
        "outcome_table": {
            "preserved_capability": o.preserved,
            "intervention_side_gain": o.gained,
            "regression_under_change": o.regressed,
            "persistent_failure": o.failed,
        },
        "control_accuracy": round(o.base_rate, 6),
        "control_accuracy_95ci_wilson": rounded(wilson(o.base_successes, o.pairs)),
        "scenario_aware_outcome_accuracy": round(o.dynamic_rate, 6),
        "scenario_aware_outcome_accuracy_95ci_wilson": rounded(wilson(o.dynamic_successes, o.pairs)),
        "paired_robustness_delta": round(o.delta, 6),
        "paired_robustness_delta_95ci_bootstrap": list(paired_bootstrap([int(d) - int(b) for b, d in pairs])),
        "regression_rate": None if o.conditional_regression is None else round(o.conditional_regression, 6),
        "mcnemar_exact_two_sided_p": o.mcnemar_p,
    }


@needs_run
@pytest.mark.parametrize(
    ("group", "field"),
    [
        ("overall", None),
        ("by_change_type", "change_type"),
        ("by_change_family", "change_family"),
        ("by_severity", "severity"),
        ("by_intervention_draw", "intervention_draw_id"),
    ],
)
def test_the_published_summary_to_the_last_digit(published: Any, group: str, field: str | None):
    rows, metrics = published
    expected = {"all": metrics[group]} if field is None else metrics[group]
    for name, want in expected.items():
        got = ours([r for r in rows if field is None or str(r[field]) == name])
        assert {k: want[k] for k in got} == got, name


# Counts (n11, n01, n10, n00), p as published; of runs whose pairs we do and do not have.
@pytest.mark.parametrize(
    ("counts", "base", "dynamic", "delta", "p"),
    [
        ((1076, 27, 213, 19), 0.965543, 0.826217, -0.139326, 4.795549348663333e-37),
        ((1033, 9, 285, 8), 0.987266, 0.780524, -0.206742, 2.592445290135945e-72),
        ((332, 8, 14, 6), 0.961111, 0.944444, -0.016667, 0.28627872467041016),
        ((84, 6, 9, 0), 0.939394, 0.909091, -0.030303, 0.60723876953125),
        ((342, 6, 6, 6), 0.966667, 0.966667, 0.0, 1.0),
        ((79, 4, 87, 4), 0.954023, 0.477011, -0.477011, 2.260482665715688e-21),
        ((142, 2, 12, 0), 0.987179, 0.923077, -0.064103, 0.012939453125),
        ((97, 1, 85, 3), 0.978495, 0.526882, -0.451613, 2.248897290378544e-24),
    ],
)
def test_published_counts(counts: tuple[int, ...], base: float, dynamic: float, delta: float, p: float):
    o = Outcomes(*counts)
    assert (round(o.base_rate, 6), round(o.dynamic_rate, 6), round(o.delta, 6)) == (base, dynamic, delta)
    assert o.mcnemar_p == p


def test_published_ratios():
    # MolmoAct2 of the main table: conditional regression 20.8%, retained performance 0.8332.
    o = Outcomes(preserved=5091, gained=264, regressed=1336, failed=1309)
    assert (o.pairs, o.base_successes, o.dynamic_successes) == (8000, 6427, 5355)
    assert round(100 * o.conditional_regression, 1) == 20.8
    assert round(o.retained_performance, 4) == 0.8332


def test_empty_denominators_are_none():
    o = Outcomes(0, 0, 0, 0)
    assert {o.base_rate, o.dynamic_rate, o.delta, o.conditional_regression, o.retained_performance, o.mcnemar_p} == {
        None
    }
    assert wilson(0, 0) is None
    for n in (1, 3, 7, 50):
        none, every = wilson(0, n), wilson(n, n)
        assert none is not None
        assert every is not None
        assert (none[0], every[1]) == (0.0, 1.0)
        assert none[1] == pytest.approx(1 - every[0], abs=1e-15)
    assert paired_bootstrap([]) is None
    never = Outcomes(0, 3, 0, 2)
    assert never.conditional_regression is None
    assert never.retained_performance is None
    assert mcnemar_exact(0, 0) is None


def test_outcomes_count():
    assert Outcomes.count([(True, True), (False, True), (True, False), (True, False)]) == Outcomes(1, 1, 2, 0)


@pytest.mark.parametrize(("k", "n"), [(0, 1), (1, 1), (0, 20), (7, 20), (20, 20), (1289, 1335)])
def test_wilson_against_scipy(k: int, n: int):
    want = scipy_stats.binomtest(k, n).proportion_ci(0.95, method="wilson")
    assert wilson(k, n) == pytest.approx((want.low, want.high), abs=1e-12)


def test_wilson_refuses_impossible_counts():
    for k, n in [(-1, 5), (6, 5)]:
        with pytest.raises(ValueError, match="of 5"):
            wilson(k, n)


@pytest.mark.parametrize(("a", "b"), [(0, 1), (1, 0), (0, 30), (3, 3), (5, 12), (27, 213)])
def test_mcnemar_against_its_definition(a: int, b: int):
    n = a + b
    exact = min(Fraction(1), 2 * sum(Fraction(math.comb(n, k), 2**n) for k in range(min(a, b) + 1)))
    assert mcnemar_exact(a, b) == float(exact)
    assert mcnemar_exact(a, b) == mcnemar_exact(b, a)
    assert mcnemar_exact(a, b) == pytest.approx(scipy_stats.binomtest(a, n).pvalue, rel=1e-9)


def test_mcnemar_of_thousands_does_not_overflow():
    assert 0 < mcnemar_exact(800, 1200) < 1e-15


def plain_bootstrap(values: list[int], replicates: int, seed: int) -> tuple[float, float]:
    rng = random.Random(seed)
    n = len(values)
    means = sorted(sum(values[rng.randrange(n)] for _ in range(n)) / n for _ in range(replicates))
    return tuple(round(means[math.floor(q * (replicates - 1))], 6) for q in (0.025, 0.975))


# Powers of two reject half of the draws; 1 keeps drawing until a zero bit comes.
@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 64, 99, 1000])
@pytest.mark.parametrize("seed", [0, 5])
def test_bootstrap_draws_what_python_draws(n: int, seed: int):
    values = [random.Random(n).choice([-1, 0, 1]) for _ in range(n)] if n > 3 else [1, 0, -1][:n]
    assert paired_bootstrap(values, 211, seed) == plain_bootstrap(values, 211, seed)
    assert paired_bootstrap(np.array(values), 211, seed) == plain_bootstrap(values, 211, seed)


def test_bootstrap_of_no_difference_is_exactly_zero():
    assert paired_bootstrap([0] * 50) == (0.0, 0.0)


def test_holm():
    # Hand-worked: sorted .01 .02 .03 .04 -> 4x.01, 3x.02, 2x.03 = .06, max(.06, .04).
    assert holm([0.04, 0.01, None, 0.03, 0.02]) == pytest.approx([0.06, 0.04, None, 0.06, 0.06])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([]) == []
    assert holm([None]) == [None]
