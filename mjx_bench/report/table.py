"""The summary as a table, in the terminal and in Markdown, from the same cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mjx_bench.report.grid import Grid
from mjx_bench.report.tables import comparison_grids

if TYPE_CHECKING:
    from rich.console import RenderableType

COLUMNS = (
    "event",
    "pairs",
    "void",
    "base",
    "dynamic",
    "Δ points",
    "95% CI",
    "kept",
    "gained",
    "broken",
    "failed",
    "broken / base",
    "triggered",
    "answered",
    "stale",
)
LEGEND = (
    "base, dynamic: successes at any step, and at the last where that differs. Δ: dynamic minus base. kept, gained, "
    "broken, failed: both arms succeed, only dynamic, only base, neither. broken / base: share of base successes that "
    "the event broke. triggered, answered: share of pairs in which the event fired, and in which the policy was asked "
    "again after it. stale: mean number of actions executed after the event that were chosen before it. Void pairs "
    "count in no rate."
)


EVALUATION_COLUMNS = ("task", "instances", "void", "success", "rate", "95% CI", "steps")
EVALUATION_LEGEND = (
    "success: instances whose goal held at any step, and at the last where that differs. 95% CI: Wilson's interval of "
    "the rate. steps: mean policy steps to success. Void instances count in no rate."
)


PROGRESS = "progress"
PROGRESS_LEGEND = " progress: mean at the end, by the task's rules, of the arms whose task has a measure of it."


def columns(summary: dict[str, Any]) -> tuple[str, ...]:
    """Heads of the cells of `rows`; progress is among them where any task measures it."""
    heads = EVALUATION_COLUMNS if "tasks" in summary else COLUMNS
    return (*heads, PROGRESS) if _has_progress(summary) else heads


def legend(summary: dict[str, Any]) -> str:
    """What the columns mean."""
    text = EVALUATION_LEGEND if "tasks" in summary else LEGEND
    return text + PROGRESS_LEGEND if _has_progress(summary) else text


def _has_progress(summary: dict[str, Any]) -> bool:
    progress = summary["mean_progress"]
    return progress is not None if "tasks" in summary else progress["pairs"] > 0


def rows(summary: dict[str, Any]) -> list[tuple[str, ...]]:
    """One row of cells an event (a task, in an evaluation), in order, and a last one for all."""
    tasks = "tasks" in summary
    groups = {**(summary["tasks"] if tasks else summary["events"]), "all": summary}
    more = _has_progress(summary)
    return [
        (*(_task_row(name, group) if tasks else _row(name, group)), *([_progress(group)] if more else []))
        for name, group in groups.items()
    ]


def _progress(group: dict[str, Any]) -> str:
    progress = group["mean_progress"]
    if not isinstance(progress, dict):
        return _number(progress, ".2f")
    return f"{progress['base']:.2f} → {progress['dynamic']:.2f}" if progress["pairs"] else "-"


def _row(name: str, group: dict[str, Any]) -> tuple[str, ...]:
    interval, o = group["delta_ci95"], group["outcomes"]
    return (
        name,
        str(group["pairs"]),
        str(group["void"]),
        _arm("base", group),
        _arm("dynamic", group),
        _number(group["delta_pp"], "+.1f"),
        "-" if interval is None else f"{interval[0]:+.1f} .. {interval[1]:+.1f}",
        str(o["preserved"]),
        str(o["gained"]),
        str(o["regressed"]),
        str(o["failed"]),
        _number(group["conditional_regression"], ".0%"),
        _number(group["trigger_coverage"], ".0%"),
        _number(group["response_coverage"], ".0%"),
        _number(group["mean_stale_actions"], ".1f"),
    )


def _task_row(name: str, group: dict[str, Any]) -> tuple[str, ...]:
    interval, end = group["wilson95"], group["success_end"]
    success = f"{group['successes']}/{group['instances']}"
    return (
        name,
        str(group["instances"]),
        str(group["void"]),
        success if end == group["rate"] else f"{success}, at end {_number(end, '.1%')}",
        _number(group["rate"], ".1%"),
        "-" if interval is None else f"{interval[0]:.1%} .. {interval[1]:.1%}",
        _number(group["mean_success_step"], ".0f"),
    )


def _arm(name: str, group: dict[str, Any]) -> str:
    if not group["pairs"]:
        return "-"
    end = group["success_end"][name]
    cell = f"{group[name]['successes']}/{group['pairs']} {_number(group[name]['rate'], '.1%')}"
    return cell if end in (None, group["success_any"][name]) else f"{cell}, at end {_number(end, '.1%')}"


def _number(value: float | None, spec: str) -> str:
    if value is None:
        return "-"
    # A delta of exactly zero has no sign, and must not look like a rounded one.
    return "0" if value == 0 and spec.startswith("+") else format(value, spec)


def title(summary: dict[str, Any]) -> str:
    if summary["policy"] is None:
        return f"results of the reference · {summary['cases']} cases"
    return f"{summary['policy']} · H = {summary['horizon']}, Q = {summary['query_interval']} · {summary['cases']} cases"


def render(summary: dict[str, Any], width: int = 120) -> RenderableType:
    """The table with its legend and notes, for a rich console of `width` characters.

    What does not fit beside the events goes below, under the events again.
    """
    from rich.console import Group
    from rich.text import Text

    tables = _tables(columns(summary), rows(summary), width, total=True)
    return Group(
        Text(title(summary), style="italic"), *tables, Text(legend(summary), style="dim"), *_notes(summary["notes"])
    )


_LONG = 45  # rows of a table that a terminal is not given


def render_comparison(comparison: dict[str, Any], width: int = 120) -> RenderableType:
    """The tables of a comparison but the longest, which are for files, with its notes."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = []
    for grid in comparison_grids(comparison):
        if grid.name == "contrasts" and len(grid.rows) > _LONG:
            parts.append(Text(f"{grid.title}: {len(grid.rows)} rows; see --tables, --html or --json", style="italic"))
        elif grid.name in ("policies", "profile", "contrasts"):
            parts += [Text(grid.title, style="italic"), *_tables(grid.heads, grid.shown, width, grid.total, grid.left)]
            parts.append(Text(grid.legend, style="dim"))
    if (agreement := comparison["agreement"]) and agreement["mean"] is not None:
        parts.append(
            Text(f"Spearman's correlation of the policies' event losses, mean over pairs: {agreement['mean']:.2f}")
        )
    return Group(*parts, *_notes(comparison["notes"]))


def render_grids(grids: Sequence[Grid], notes: Sequence[str], width: int = 120) -> RenderableType:
    """Tables one after the other, each with its legend, and notes."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = []
    for grid in grids:
        parts += [Text(grid.title, style="italic"), *_tables(grid.heads, grid.shown, width, grid.total, grid.left)]
        parts.append(Text(grid.legend, style="dim"))
    return Group(*parts, *_notes(notes))


def _notes(notes: Sequence[str]) -> list[RenderableType]:
    from rich.text import Text

    return [Text(f"note: {n}", style="bold red" if n.startswith("FAULT") else "yellow") for n in notes]


def _tables(
    head: Sequence[str], body: Sequence[tuple[str, ...]], width: int, total: bool, left: int = 1
) -> list[RenderableType]:
    """One table, or several where it is too wide, each with the `left` columns that name a row."""
    from rich import box
    from rich.table import Table

    tables: list[RenderableType] = []
    for shown in _panels(head, body, width, left):
        table = Table(box=box.SIMPLE_HEAVY, padding=(0, 1, 0, 0))
        for i in shown:
            table.add_column(head[i], justify="left" if i < left else "right", overflow="fold")
        for cells in body:
            last = total and cells is body[-1]
            if last:
                table.add_section()
            table.add_row(*(cells[i] for i in shown), style="bold" if last else None)
        tables.append(table)
    return tables


def _panels(head: Sequence[str], body: Sequence[tuple[str, ...]], width: int, left: int) -> list[list[int]]:
    """Indices of the columns of each table: those that name a row, then as many as fit, and at least one."""
    # A column takes its widest cell and two characters of space, a table two more.
    wide = [max(len(cells[i]) for cells in (head, *body)) + 2 for i in range(len(head))]
    panels = [list(range(left))]
    for i in range(left, len(head)):
        if len(panels[-1]) > left and sum(wide[j] for j in panels[-1]) + wide[i] + 2 > width:
            panels.append(list(range(left)))
        panels[-1].append(i)
    return panels


def to_markdown(summary: dict[str, Any]) -> str:
    """The same as a Markdown page."""
    head = columns(summary)
    lines = [f"# {title(summary)}", "", "| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
    *events, total = rows(summary)
    lines += ["| " + " | ".join(cells) + " |" for cells in events]
    lines += ["| " + " | ".join(f"**{cell}**" for cell in total) + " |", "", legend(summary)]
    if summary["notes"]:
        lines += ["", *(f"* {note}" for note in summary["notes"])]
    return "\n".join(lines) + "\n"
