"""The summary as a table, in the terminal and in Markdown, from the same cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
    "base, dynamic: successes at any step, and at the last where that differs. Δ: dynamic minus base. kept, gained, broken, "
    "failed: both arms succeed, only dynamic, only base, neither. broken / base: share of base successes that the event "
    "broke. triggered, answered: share of pairs in which the event fired, and in which the policy was asked again after it. "
    "stale: mean number of actions executed after the event that were chosen before it. Void pairs count in no rate."
)


EVALUATION_COLUMNS = ("task", "instances", "void", "success", "rate", "95% CI", "steps")
EVALUATION_LEGEND = (
    "success: instances whose goal held at any step, and at the last where that differs. 95% CI: Wilson's interval of the "
    "rate. steps: mean policy steps to success. Void instances count in no rate."
)


def columns(summary: dict[str, Any]) -> tuple[str, ...]:
    """Heads of the cells of `rows`."""
    return EVALUATION_COLUMNS if "tasks" in summary else COLUMNS


def legend(summary: dict[str, Any]) -> str:
    """What the columns mean."""
    return EVALUATION_LEGEND if "tasks" in summary else LEGEND


def rows(summary: dict[str, Any]) -> list[tuple[str, ...]]:
    """One row of cells an event (a task, in an evaluation), in order, and a last one for all."""
    if "tasks" in summary:
        return [_task_row(task, group) for task, group in summary["tasks"].items()] + [_task_row("all", summary)]
    return [_row(event, group) for event, group in summary["events"].items()] + [_row("all", summary)]


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
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    head, body = columns(summary), rows(summary)
    tables = []
    for shown in _panels(head, body, width):
        table = Table(box=box.SIMPLE_HEAVY, padding=(0, 1, 0, 0))
        for i in shown:
            table.add_column(head[i], justify="left" if i == 0 else "right", overflow="fold")
        for cells in body:
            if cells is body[-1]:
                table.add_section()
            table.add_row(*(cells[i] for i in shown), style="bold" if cells is body[-1] else None)
        tables.append(table)
    notes = [Text(f"note: {n}", style="bold red" if n.startswith("FAULT") else "yellow") for n in summary["notes"]]
    return Group(Text(title(summary), style="italic"), *tables, Text(legend(summary), style="dim"), *notes)


def _panels(head: tuple[str, ...], body: list[tuple[str, ...]], width: int) -> list[list[int]]:
    """Indices of the columns of each table: the events, then as many as fit, and at least one."""
    # A column takes its widest cell and two characters of space, a table two more.
    wide = [max(len(cells[i]) for cells in (head, *body)) + 2 for i in range(len(head))]
    panels: list[list[int]] = [[0]]
    for i in range(1, len(head)):
        if len(panels[-1]) > 1 and sum(wide[j] for j in panels[-1]) + wide[i] + 2 > width:
            panels.append([0])
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
