"""`mjx-bench report`: scores a results folder again; needs no simulator."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from scripts.output import Emit, console, note

if TYPE_CHECKING:
    from mjx_bench.records import Run


@dataclasses.dataclass(frozen=True)
class Report:
    """Score a results folder: what the events broke, with confidence intervals, and a picture of one pair."""

    dir: tyro.conf.Positional[Path]
    """Results folder of an earlier run."""
    json: bool = False
    """Print the report as JSON instead of a table."""


def run(options: Report, emit: Emit) -> int:
    """Prints the report and saves it beside the records."""
    show(options.dir, emit if options.json else None)
    return 0


def show(directory: Path, emit: Emit | None) -> bool:
    """Prints the report of a results folder, as JSON through `emit` or as a table, and saves it there.

    Returns whether every case that was asked for was scored: no arm void, none missing.
    """
    from mjx_bench.records import load_run
    from mjx_bench.report import table
    from mjx_bench.report.summary import summarise

    loaded = load_run(directory)
    summary = summarise(loaded)
    if emit is not None:
        emit(summary)
    else:
        out = console()
        out.print(table.render(summary, out.width))
    try:
        save(loaded, summary)
    except OSError as error:  # somebody else's folder can be scored too
        note(f"the report was not saved: {error}")
    return not summary["void"] and not summary["incomplete"]


def save(loaded: Run, summary: dict[str, Any]) -> None:
    """Writes report.json, report.md and, where a relocation was run, pair.png into the results folder."""
    from mjx_bench.report import plot, table

    (loaded.directory / "report.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    (loaded.directory / "report.md").write_text(table.to_markdown(summary), encoding="utf-8")
    written = ["report.json", "report.md"]
    pair = plot.choose_pair(loaded)
    if pair is not None:
        written.append(plot.plot_pair(loaded, pair, loaded.directory / "pair.png").name)
    note(f"{loaded.directory}: {', '.join(written)}")
