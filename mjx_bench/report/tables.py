"""Which tables a run, an evaluation and a comparison have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mjx_bench.report.grid import Column, Grid, interval, number, p_value

_RATE = number(".1f", 100, "%")
_POINTS = number("+.1f")
_STEPS = number(".1f")

_PAIR_LEGEND = (
    "Base, Dynamic: rate of success. Δ: Dynamic minus Base, percentage points, with its 95% bootstrap interval. kept, "
    "gained, broken, failed: both arms succeed, only Dynamic, only Base, neither. broken / Base: share of Base "
    "successes that the event broke. retained: Dynamic successes over Base successes. p: McNemar's exact test, "
    "two-sided. triggered, answered: share of pairs in which the event fired, and in which the policy was asked again "
    "after it. stale: mean number of actions executed after the event that were chosen before it."
)
_PROGRESS_LEGEND = " progress: mean progress at the end, of the pairs whose task measures it."


def _pair_columns(groups: Iterable[Mapping[str, Any]]) -> tuple[tuple[Column, ...], str]:
    """Columns of `_pair_cells`, with progress only where any group has it, and their legend."""
    columns = [
        Column("pairs", "pairs"),
        Column("base_successes", "Base"),
        Column("base_rate", "Base rate", _RATE),
        Column("dynamic_successes", "Dynamic"),
        Column("dynamic_rate", "Dynamic rate", _RATE),
        Column("delta_pp", "Δ points", _POINTS),
        Column("delta_ci95", "95% CI", interval("+.1f"), interval=True),
        Column("preserved", "kept"),
        Column("gained", "gained"),
        Column("regressed", "broken"),
        Column("failed", "failed"),
        Column("conditional_regression", "broken / Base", _RATE),
        Column("retained_performance", "retained", _RATE),
        Column("mcnemar_p", "p", p_value),
        Column("trigger_coverage", "triggered", _RATE),
        Column("response_coverage", "answered", _RATE),
        Column("mean_stale_actions", "stale", _STEPS),
    ]
    if not any(g["mean_progress"]["pairs"] for g in groups):
        return tuple(columns), _PAIR_LEGEND
    progress = [
        Column("base_mean_progress", "Base progress", number(".2f")),
        Column("dynamic_mean_progress", "Dynamic progress", number(".2f")),
    ]
    return (*columns, *progress), _PAIR_LEGEND + _PROGRESS_LEGEND


def _pair_cells(group: Mapping[str, Any], columns: Sequence[Column]) -> tuple[Any, ...]:
    values = {
        **group,
        **group["outcomes"],
        **{f"{arm}_{what}": group[arm][what] for arm in ("base", "dynamic") for what in ("successes", "rate")},
        **{f"{arm}_mean_progress": group["mean_progress"][arm] for arm in ("base", "dynamic")},
        # The reference counts only queries that both arms made at the same step.
        "response_coverage": _first(group["response_coverage"], group["common_response_coverage"]),
    }
    return tuple(values[c.key] for c in columns)


def _first(*values: Any) -> Any:
    return next((v for v in values if v is not None), None)


def run_grids(summary: Mapping[str, Any]) -> list[Grid]:
    """Tables of one run in pairs: by event, and by everything else."""
    events = summary["events"]
    columns, legend = _pair_columns(events.values())
    rows = [(event, *_pair_cells(group, columns)) for event, group in events.items()]
    grids = [
        Grid(
            "events",
            "By event",
            (Column("event", "event"), *columns),
            (*rows, ("all", *_pair_cells(summary, columns))),
            legend,
            total=True,
        )
    ]
    others = [
        (dimension, name, *_pair_cells(group, columns))
        for dimension, groups in summary["breakdowns"].items()
        for name, group in groups.items()
    ]
    if macro := summary["category_macro"]:
        others.append(("category", "macro mean", *_macro_cells(macro, columns)))
    if others:
        heads = (Column("dimension", "by"), Column("group", "group"), *columns)
        grids.append(
            Grid("breakdowns", "By suite, source, category and event label", heads, tuple(others), legend, left=2)
        )
    return grids


def _macro_cells(macro: Mapping[str, Any], columns: Sequence[Column]) -> tuple[Any, ...]:
    """Unweighted means over categories; counts have none."""
    values = {name: macro[name] for name in ("base_rate", "dynamic_rate", "conditional_regression")}
    values["delta_pp"] = None if macro["delta"] is None else 100 * macro["delta"]
    return tuple(values.get(c.key) for c in columns)


_TASK_LEGEND = (
    "success: instances whose goal held at any step. 95% CI: Wilson's interval of the rate. at end: rate of success "
    "at the last step. steps: mean policy steps to success."
)


def _task_columns(groups: Iterable[Mapping[str, Any]]) -> tuple[Column, ...]:
    columns = [
        Column("instances", "instances"),
        Column("void", "void"),
        Column("successes", "success"),
        Column("rate", "rate", _RATE),
        Column("wilson95", "95% CI", interval(".1f", 100, "%"), interval=True),
        Column("success_end", "at end", _RATE),
        Column("mean_success_step", "steps", number(".0f")),
    ]
    if any(g["mean_progress"] is not None for g in groups):
        columns.append(Column("mean_progress", "progress", number(".2f")))
    return tuple(columns)


def evaluation_grids(summary: Mapping[str, Any]) -> list[Grid]:
    """The table of an evaluation, by task."""
    groups = {**summary["tasks"], "all": summary}
    columns = _task_columns(groups.values())
    rows = tuple((task, *(group[c.key] for c in columns)) for task, group in groups.items())
    return [Grid("tasks", "By task", (Column("task", "task"), *columns), rows, _TASK_LEGEND, total=True)]


def comparison_grids(comparison: Mapping[str, Any]) -> list[Grid]:
    """Tables of a comparison: the policies, their contrasts, and in pairs the profile of events and everything else."""
    policies = comparison["policies"]
    name = Column("policy", "policy")
    settings = [Column("horizon", "H"), Column("query_interval", "Q")]
    if any(p["delay"] for p in policies):
        settings.append(Column("delay", "delay"))
    if len(comparison["arms"]) == 1:
        columns = _task_columns([g for p in policies for g in (p, *p["tasks"].values())])
        whole = tuple((p["name"], *(p[c.key] for c in (*settings, *columns))) for p in policies)
        tasks = tuple(
            (p["name"], task, *(group[c.key] for c in columns)) for p in policies for task, group in p["tasks"].items()
        )
        return [
            Grid("policies", "Policies on their common cases", (name, *settings, *columns), whole, _TASK_LEGEND),
            Grid("tasks", "By task", (name, Column("task", "task"), *columns), tasks, _TASK_LEGEND, left=2),
            *_contrast_grids(comparison),
        ]
    columns, legend = _pair_columns(policies)
    whole = tuple((p["name"], *(p[c.key] for c in settings), *_pair_cells(p, columns)) for p in policies)
    events = tuple(
        (p["name"], event, *_pair_cells(group, columns)) for p in policies for event, group in p["events"].items()
    )
    others = tuple(
        (p["name"], dimension, group_name, *_pair_cells(group, columns))
        for p in policies
        for dimension, groups in p["breakdowns"].items()
        for group_name, group in groups.items()
    )
    heads = (name, Column("dimension", "by"), Column("group", "group"), *columns)
    return [
        Grid("policies", "Policies on their common cases", (name, *settings, *columns), whole, legend),
        _profile(policies),
        *_contrast_grids(comparison),
        Grid("events", "By event", (name, Column("event", "event"), *columns), events, legend, left=2),
        Grid("breakdowns", "By suite, source, category and event label", heads, others, legend, left=3),
        *_agreement_grids(comparison),
        *_cadence_grids(comparison),
    ]


def _profile(policies: Sequence[Mapping[str, Any]]) -> Grid:
    """Δ of every policy on every event, its split between draws, and its mean over source categories."""
    events = list(policies[0]["events"])
    macro = any(p["category_macro"] for p in policies)
    columns = [
        Column("policy", "policy"),
        *(Column(e, e.replace("_", " "), _POINTS) for e in events),
        Column("delta_pp", "all", _POINTS),
        Column("split", "split", number(".1f")),
    ]
    if macro:
        columns.append(Column("category_macro", "category mean", _POINTS))

    def cells(policy: Mapping[str, Any]) -> tuple[Any, ...]:
        deltas = [policy["events"][e]["delta_pp"] for e in events]
        mean = (policy["category_macro"] or {}).get("delta")
        split = policy["split"] and policy["split"]["points"]
        out = (policy["name"], *deltas, policy["delta_pp"], split)
        return (*out, None if mean is None else 100 * mean) if macro else out

    return Grid(
        "profile",
        "Dynamic minus Base by event, percentage points",
        tuple(columns),
        tuple(cells(p) for p in policies),
        "split: largest difference between the Dynamic rates of an event's draws."
        + (" category mean: unweighted over source categories." if macro else ""),
    )


def _agreement_grids(comparison: Mapping[str, Any]) -> list[Grid]:
    names = [p["name"] for p in comparison["policies"]]
    agreement = comparison["agreement"]
    if agreement["mean"] is None:
        return []
    columns = (Column("policy", "policy"), *(Column(name, name, number(".2f")) for name in names))
    rows = tuple((name, *row) for name, row in zip(names, agreement["spearman"], strict=True))
    legend = f"Mean over pairs of policies {agreement['mean']:.2f}."
    return [Grid("agreement", "Spearman's correlation of the losses by event", columns, rows, legend)]


def _cadence_grids(comparison: Mapping[str, Any]) -> list[Grid]:
    columns = (
        Column("policy", "policy"),
        Column("protocol", "protocol"),
        Column("horizon", "H"),
        Column("query_interval", "Q"),
        Column("delay", "delay"),
        Column("pairs", "pairs"),
        Column("base_rate", "Base", _RATE),
        Column("dynamic_rate", "Dynamic", _RATE),
        Column("delta_pp", "Δ points", _POINTS),
    )
    rows = tuple(
        (
            curve["policy"],
            curve["protocol"],
            *(point[field] for field in ("horizon", "query_interval", "delay", "pairs")),
            *(point[arm]["rate"] for arm in ("base", "dynamic")),
            point["delta_pp"],
        )
        for curve in comparison["cadence"]
        for point in curve["points"]
    )
    return [Grid("cadence", "Success over the query interval and the delay", columns, rows, left=2)] if rows else []


_MEASURES = {"base": "Base", "dynamic": "Dynamic", "delta": "Dynamic minus Base"}


def _contrast_grids(comparison: Mapping[str, Any]) -> list[Grid]:
    columns = (
        Column("measure", "of"),
        Column("left", "first"),
        Column("right", "second"),
        Column("left_only", "first only"),
        Column("right_only", "second only"),
        Column("difference_pp", "second minus first", _POINTS),
        Column("ci95", "95% CI", interval("+.1f"), interval=True),
        Column("p", "p", p_value),
        Column("p_holm", "p, Holm", p_value),
    )
    rows = tuple(
        (_MEASURES[measure], *(contrast[c.key] for c in columns[1:]))
        for measure, contrasts in comparison["contrasts"].items()
        for contrast in contrasts
    )
    legend = (
        "first only, second only: cases in which one of them alone succeeds. 95% CI: exact bootstrap of the difference, "
        "percentage points. p: exact and two-sided, McNemar's, and for Dynamic minus Base the sign-flip test. Holm: "
        "adjusted over the policy pairs of a measure."
    )
    return [Grid("contrasts", "Policies against each other, case by case", columns, rows, legend, left=3)]
