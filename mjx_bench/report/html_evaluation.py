"""The sections of the HTML page that an evaluation has in place of a paired run's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mjx_bench.report import html_plots
from mjx_bench.report.html_plots import percent


def headline(summary: Mapping[str, Any]) -> str:
    """The one number that matters, then the rest."""
    bounds, steps = summary["wilson95"], summary["mean_success_step"]
    interval = "" if bounds is None else f"95% interval {percent(bounds[0])} to {percent(bounds[1])}"
    progress = summary["mean_progress"]
    rows = [
        ("Instances", str(summary["instances"]), f"scored, of {summary['cases']} cases; {summary['void']} void"),
        ("Steps to success", "–" if steps is None else f"{steps:.0f}", "policy steps, mean over successes"),
    ]
    if progress is not None:
        rows.append(("Progress", f"{progress:.2f}", "at the end, by the tasks' rules; mean of those that measure it"))
    if summary["success_end"] != summary["rate"]:
        meaning = "everything else counts success at any step"
        rows.insert(0, ("Success at the last step", percent(summary["success_end"]), meaning))
    return (
        f'<section><h2>Result</h2><dl class="tiles"><div class="tile base"><dt>All tasks</dt>'
        f"<dd><b>{percent(summary['rate'])}</b> success"
        f"<span>{summary['successes']} of {summary['instances']} instances</span><span>{interval}</span></dd></div></dl>"
        f"{html_plots.facts(rows)}</section>"
    )


def plots(summary: Mapping[str, Any]) -> str:
    """Success rates by task."""
    if not summary["instances"]:
        return "<section><h2>By task</h2><p>Nothing has been scored, so there is nothing to plot.</p></section>"
    rows = [*((html_plots.event_name(task), group) for task, group in summary["tasks"].items()), ("all", summary)]
    return (
        "<section><h2>By task</h2>"
        f"{html_plots.figure('Success rate with 95% Wilson intervals', html_plots.rates(rows))}</section>"
    )
