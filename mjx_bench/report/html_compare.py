"""The page of several policies on their common cases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mjx_bench.report import cadence, html_page, html_plots
from mjx_bench.report.html_plots import ARM_KEYS, OUTCOME_KEYS, event_name, figure, keys
from mjx_bench.report.pairs import DIMENSIONS
from mjx_bench.report.tables import comparison_grids

_LONG = 20  # rows above which a table is folded


def render(comparison: Mapping[str, Any]) -> str:
    """The page; it stands alone like that of a run."""
    policies, common = comparison["policies"], comparison["common"]
    grids = {grid.name: grid for grid in comparison_grids(comparison)}
    paired = len(comparison["arms"]) > 1
    sections = [
        html_page.table_section("Result", grids["policies"]),
        html_page.notes_section(comparison["notes"]),
        _plots(policies) if paired else _rates(policies),
        _cadence(comparison["cadence"]),
        html_page.table_section("Against each other", grids["contrasts"], folded=len(grids["contrasts"].rows) > _LONG),
        html_page.table_section("Do the same events hurt?", grids["agreement"]) if "agreement" in grids else "",
        html_page.table_section("Numbers by event", grids["events"]) if paired else "",
        html_page.table_section("Numbers by task", grids["tasks"]) if not paired else "",
        html_page.table_section("Numbers by group", grids["breakdowns"], folded=True) if paired else "",
    ]
    return html_page.document(
        f"{len(policies)} results on {common['cases']} common cases", " · ".join(p["name"] for p in policies), sections
    )


def _rates(policies: list[Mapping[str, Any]]) -> str:
    rows = [(p["name"], p) for p in policies]
    return f"<section><h2>Policies</h2>{figure('Success rate with 95% Wilson intervals', html_plots.rates(rows))}</section>"


def _plots(policies: list[Mapping[str, Any]]) -> str:
    rows = [(p["name"], p) for p in policies]
    events = list(policies[0]["events"])
    losses = [(p["name"], [*(p["events"][e]["delta_pp"] for e in events), p["delta_pp"]]) for p in policies]
    parts = [
        figure("From Base to Dynamic", html_plots.arrows(rows), keys(base="Base", regression="loss", recovery="gain")),
        figure("Success rate with 95% Wilson intervals", html_plots.profile(rows), ARM_KEYS),
        figure("What became of the pairs", html_plots.partition(rows), OUTCOME_KEYS),
        figure(
            "Event profile: Dynamic minus Base, percentage points",
            html_plots.heat_map("Event profile", [*map(event_name, events), "all"], losses),
        ),
    ]
    for dimension in DIMENSIONS:
        groups = list(dict.fromkeys(g for p in policies for g in p["breakdowns"][dimension]))
        if len(groups) > 1:
            cells = [
                (p["name"], [p["breakdowns"][dimension].get(g, {}).get("delta_pp") for g in groups]) for p in policies
            ]
            heat = html_plots.heat_map(
                f"Change by {dimension}", [html_page.group_name(dimension, g) for g in groups], cells
            )
            parts.append(figure(f"Dynamic minus Base by {dimension}, percentage points", heat))
    parts += [
        figure("Coverage", html_plots.coverage(rows), html_plots.COVERAGE_KEYS),
        figure(html_page.STALE, html_plots.stale_histogram(rows)),
    ]
    return f"<section><h2>Policies</h2>{''.join(parts)}</section>"


def _cadence(curves: list[Mapping[str, Any]]) -> str:
    legend = keys(base="Base", dynamic="Dynamic", gap="gap, Base minus Dynamic")
    figures = [
        figure(f"{curve['policy']}, {curve['protocol']}", cadence.plot(curve, f"cadence-{i}"), legend)
        for i, curve in enumerate(curves)
    ]
    return f"<section><h2>Over the settings</h2>{''.join(figures)}</section>" if figures else ""
