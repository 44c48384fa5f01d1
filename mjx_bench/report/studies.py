"""What LIBERO-MAX's two studies show, from their results folders. Sections 5.3 and 5.5 of the protocol."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mjx_bench.errors import BenchError
from mjx_bench.records import Record, Run
from mjx_bench.report.grid import Column, Grid, interval, number
from mjx_bench.report.pairs import Pair, pairs_of
from mjx_bench.stats import CameraCase, camera_summary, gap_closure
from mjx_bench.types import Arm

# Case id to the case that it was made from, and its strength.
StrengthOf = Callable[[str], tuple[str, float]]

_POINTS = 100.0


def camera_study(mid: Run, reset: Run, strength_of: StrengthOf) -> dict[str, Any]:
    """Numbers of the camera study, as JSON data: those of `stats.camera_summary`, and of `coverage` by strength.

    Args:
      mid: pairs whose Dynamic arm is shifted in mid-episode.
      reset: single arms that begin shifted, of the same cases.
      strength_of: what the case ids of both mean.
    """
    resets = {record.case_id: record for record in reset.records}
    found: dict[str, list[tuple[float, Pair, Record | None]]] = {}
    for pair in pairs_of(mid):
        name, alpha = strength_of(pair.case_id)
        found.setdefault(name, []).append((alpha, pair, resets.get(pair.case_id)))
    cases, left_out = [], []
    coverage: dict[float, list[int]] = {}
    for name, rows in found.items():
        if any(p.scored is None or r is None or r.success is None for _, p, r in rows):
            left_out.append(name)
            continue
        cases.append(_camera_case(rows))
        for alpha, p, _ in rows:
            assert p.dynamic is not None
            counts = coverage.setdefault(alpha, [0, 0])
            counts[0] += p.dynamic.trigger_step is not None
            counts[1] += p.dynamic.first_response_step is not None
    if not cases:
        raise BenchError(f"{mid.directory}: no case has all of its outcomes; run the same command again")
    notes = [f"{len(left_out)} cases lack an outcome (void, or not run yet) and are in no number"] if left_out else []
    if not mid.header.settings.get("sees_pictures", True):
        notes.append(
            f"{mid.header.settings['policy']} sees no pictures: that nothing differs says nothing about cameras"
        )
    return {
        "study": "camera",
        "policy": mid.header.settings["policy"],
        "horizon": mid.header.settings["horizon"],
        "query_interval": mid.header.settings["query_interval"],
        **camera_summary(cases),
        "coverage": [
            {"alpha": a, "triggered": t, "answered": q} for a, (t, q) in sorted(coverage.items(), reverse=True)
        ],
        "left_out": left_out,
        "notes": notes,
    }


def _camera_case(rows: Sequence[tuple[float, Pair, Record | None]]) -> CameraCase:
    base, labels = rows[0][1].base, rows[0][1].labels
    assert base is not None
    resets = {alpha: record for alpha, _, record in rows if record is not None}
    return CameraCase(
        source=labels.source,
        task=f"{base.suite}/{base.task_index}",
        group=f"{labels.category}/{base.suite}/{base.task_index}/{base.init_state_index}",
        base=bool(base.success),
        reset={alpha: bool(record.success) for alpha, record in resets.items()},
        mid={alpha: pair.outcome[1] for alpha, pair, _ in rows},
        # The events' trigger is the hand's coming within 18 cm; in the one arm of a reset it changes nothing.
        entered={alpha: record.trigger_step is not None for alpha, record in resets.items()},
    )


def camera_grids(study: Mapping[str, Any]) -> list[Grid]:
    """The study's tables."""
    percent, points = number(".1f", _POINTS, "%"), number("+.1f", _POINTS)
    columns = (
        Column("alpha", "alpha"),
        Column("base", "Base", percent),
        Column("reset", "Reset", percent),
        Column("mid", "Mid", percent),
        Column("mid_minus_reset", "Mid - Reset", points),
        Column("ci95", "95% CI", interval("+.1f", _POINTS), interval=True),
        Column("ci95_tasks", "by task", interval("+.1f", _POINTS), interval=True),
        Column("reset_never_entered", "Reset never near"),
        Column("reset_entered_and_failed", "near and failed"),
        Column("lost_by_mid", "lost by Mid alone"),
        Column("lost_by_reset", "by Reset alone"),
        Column("triggered", "triggered"),
        Column("answered", "answered"),
    )
    coverage = {row["alpha"]: row for row in study["coverage"]}
    rows = []
    for at in study["alphas"]:
        effect, resets = at["mid_minus_reset"], at["reset_outcomes"]
        rows.append(
            (
                at["alpha"],
                study["base"]["rate"],
                at["reset"]["rate"],
                at["mid"]["rate"],
                effect["mean"],
                effect["ci95"],
                effect["ci95_tasks"],
                resets["never_entered"],
                resets["entered_and_failed"],
                at["lost_by_mid"]["cases"],
                at["lost_by_reset"]["cases"],
                coverage[at["alpha"]]["triggered"],
                coverage[at["alpha"]]["answered"],
            )
        )
    legend = (
        "alpha: strength of the shift. Reset: shifted before the first picture; Mid: in mid-episode. Never near: the hand"
        " did not come within 18 cm. Lost by Mid alone: Base and Reset succeed; by Reset alone: Base and Mid do. By task:"
        " interval with the reference tasks resampled."
    )
    title = f"Camera study: {study['policy']}, H = {study['horizon']}, Q = {study['query_interval']}, {study['cases']} cases"
    return [Grid("camera", title, columns, tuple(rows), legend)]


def restoration_study(runs: Mapping[str, Run]) -> dict[str, Any]:
    """Numbers of the restoration study, as JSON data.

    Args:
      runs: strategy to results folder, all of the same cases; `native`, without repair, is what others are held
        against.

    Returns:
      `strategies`, each with `base` and `dynamic` (successes, cases), `gap`, `closure` (against native, with `ci95`,
      `won` and `lost`), `opened_base` and `opened_dynamic` (share of the queries whose gate opened in any picture; of
      Dynamic, those after the event), and `repair_ms_base`, `repair_ms_dynamic`: of a query, `mean` and `p95` over
      arms.
    """
    of = {name: {p.case_id: p for p in pairs_of(run)} for name, run in runs.items()}
    scored = [case for case in of["native"] if all(pairs[case].scored is not None for pairs in of.values())]
    if not scored:
        raise BenchError("no case has an outcome in every strategy; run the same command again")
    native = [of["native"][case].outcome for case in scored]
    labels = [of["native"][case] for case in scored]
    categories = [p.labels.category or "plain" for p in labels]
    groups = [(b.suite, b.task_index, b.init_state_index) for p in labels if (b := p.base)]
    strategies = []
    for name, run in runs.items():
        found = gap_closure(native, [of[name][case].outcome for case in scored], categories, groups)
        costs = {arm: [_costs(run, of[name][case], arm) for case in scored] for arm in Arm}
        strategies.append(
            {
                "strategy": name,
                "base": found.restored.base_successes,
                "dynamic": found.restored.dynamic_successes,
                "cases": found.restored.pairs,
                "gap": -(found.restored.delta or 0.0),
                "closure": None if name == "native" else found.closure,
                "ci95": None if name == "native" else found.ci95,
                "won": None if name == "native" else found.won,
                "lost": None if name == "native" else found.lost,
                **{f"opened_{arm}": _share(costs[arm]) for arm in Arm},
                **{f"repair_ms_{arm}": _milliseconds(costs[arm]) for arm in Arm},
            }
        )
    header = runs["native"].header.settings
    missing = len(of["native"]) - len(scored)
    return {
        "study": "restoration",
        "policy": header["policy"],
        "horizon": header["horizon"],
        "query_interval": header["query_interval"],
        "cases": len(scored),
        "strategies": strategies,
        "notes": [f"{missing} cases lack an outcome in some strategy and are in no number"] if missing else [],
    }


@dataclasses.dataclass(frozen=True)
class _Costs:
    """Of one arm's own queries: how many, how many with an open gate, and milliseconds a query."""

    queries: int
    opened: int
    milliseconds: float | None


def _costs(run: Run, pair: Pair, arm: Arm) -> _Costs:
    record = pair.base if arm is Arm.BASE else pair.dynamic
    assert record is not None
    opened = np.zeros(0, np.bool_)
    if "repaired" in record.arrays:
        opened = np.any(np.asarray(run.array(record, "repaired")), axis=1, keepdims=True)[:, 0]
    if arm is Arm.DYNAMIC:
        # Before the event the arm is its base's; one whose event never fired is nothing but that.
        steps = np.asarray(run.array(record, "query_steps"))
        opened = opened[steps >= (record.trigger_step if record.trigger_step is not None else np.inf)]
    seconds = record.timing.get("repair_s")
    ms = None if seconds is None or not len(opened) else 1000 * seconds / len(opened)
    return _Costs(len(opened), int(opened.sum()), ms)


def _share(costs: Sequence[_Costs]) -> float | None:
    queries = sum(c.queries for c in costs)
    return sum(c.opened for c in costs) / queries if queries else None


def _milliseconds(costs: Sequence[_Costs]) -> dict[str, float] | None:
    values = [c.milliseconds for c in costs if c.milliseconds is not None]
    return {"mean": float(np.mean(values)), "p95": float(np.quantile(values, 0.95))} if values else None


def restoration_grids(study: Mapping[str, Any]) -> list[Grid]:
    """The study's tables."""
    percent, points = number(".1f", _POINTS, "%"), number("+.1f", _POINTS)
    ms = number(".1f")
    columns = (
        Column("strategy", "strategy"),
        Column("base", "Base"),
        Column("dynamic", "Dynamic"),
        Column("gap", "gap", points),
        Column("closure", "closed", points),
        Column("ci95", "95% CI", interval("+.1f", _POINTS), interval=True),
        Column("won", "won"),
        Column("lost", "lost"),
        Column("opened_base", "gate open, Base", percent),
        Column("opened_dynamic", "Dynamic", percent),
        Column("ms_base", "ms a query, Base", ms),
        Column("ms_base_p95", "p95", ms),
        Column("ms_dynamic", "Dynamic", ms),
        Column("ms_dynamic_p95", "p95", ms),
    )
    rows = []
    for s in study["strategies"]:
        costs = [(s[f"repair_ms_{arm}"] or {}).get(name) for arm in Arm for name in ("mean", "p95")]
        outcome = (s["strategy"], s["base"], s["dynamic"], s["gap"], s["closure"], s["ci95"], s["won"], s["lost"])
        rows.append((*outcome, s["opened_base"], s["opened_dynamic"], *costs))
    legend = (
        f"Base, Dynamic: successes of {study['cases']}. gap: Base minus Dynamic; closed: of native's gap, percentage points."
        " won, lost: Dynamic arms that succeed with the strategy alone, or natively alone. gate open: share of queries with"
        " damage in a picture; of Dynamic, after the event."
    )
    title = f"Restoration study: {study['policy']}, H = {study['horizon']}, Q = {study['query_interval']}"
    return [Grid("restoration", title, columns, tuple(rows), legend)]


def sweep_grid(settings: Sequence[Mapping[str, Any]]) -> Grid:
    """The settings of a sweep side by side: summaries of `summary.summarise`, each with its `delay`."""
    percent, points = number(".1f", _POINTS, "%"), number("+.1f")
    columns = (
        Column("horizon", "H"),
        Column("query_interval", "Q"),
        Column("delay", "delay"),
        Column("pairs", "pairs"),
        Column("base", "Base", percent),
        Column("dynamic", "Dynamic", percent),
        Column("delta_pp", "Dynamic - Base", points),
        Column("delta_ci95", "95% CI", interval("+.1f"), interval=True),
        Column("mean_stale_actions", "stale", number(".1f")),
    )
    rows = [
        (
            s["horizon"],
            s["query_interval"],
            s["delay"],
            s["pairs"],
            s["base"]["rate"],
            s["dynamic"]["rate"],
            s["delta_pp"],
            s["delta_ci95"],
            s["mean_stale_actions"],
        )
        for s in settings
    ]
    legend = (
        "Dynamic - Base in percentage points. stale: mean number of actions executed after the event, chosen before it."
    )
    return Grid(
        "sweep", f"{settings[0]['policy']}: action horizon and query interval", columns, tuple(rows), legend, left=3
    )
