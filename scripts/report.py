"""`mjx-bench report`: scores a results folder again; needs no simulator."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from mjx_bench.errors import BenchError
from scripts.output import Emit, check_writable, console, note

if TYPE_CHECKING:
    from mjx_bench.records import Run


PAGE = "report.html"


@dataclasses.dataclass(frozen=True)
class Report:
    """Score a results folder: what succeeded, what the events broke, with confidence intervals, and a page (report.html)."""

    dir: tyro.conf.Positional[Path | None] = None
    """Results folder of an earlier run."""
    from_reference: Path | None = None
    """Score the reference implementation's paired_results.jsonl instead of a folder."""
    html: Path | None = None
    """Write the page here too; it needs no other file and no network."""
    json: bool = False
    """Print the report as JSON instead of a table."""


def run(options: Report, emit: Emit) -> int:
    """Prints the report; that of a folder is saved beside the records."""
    to_json = emit if options.json else None
    if options.html is not None:
        check_writable(options.html)
    if options.dir is not None and options.from_reference is None:
        show(options.dir, to_json, options.html)
    elif options.from_reference is not None and options.dir is None:
        summary = reference_summary(options.from_reference)
        _print(summary, to_json)
        if options.html is not None:
            from mjx_bench.report import html_page

            write_page(options.html, html_page.render(summary))
    else:
        raise BenchError("give either a results folder or --from-reference (a file of the reference), one of them")
    return 0


def show(directory: Path, emit: Emit | None, html: Path | None = None) -> bool:
    """Prints the report of a results folder, as JSON through `emit` or as a table, and saves it there.

    The page is also written to `html`, if given.

    Returns whether every case that was asked for was scored: no arm void, none missing.
    """
    from mjx_bench.records import load_run
    from mjx_bench.report import html_page
    from mjx_bench.report.evaluation import summarise_evaluation
    from mjx_bench.report.html_media import damaged_note, gallery
    from mjx_bench.report.summary import summarise

    loaded = load_run(directory)
    summary = summarise(loaded) if len(loaded.arms) > 1 else summarise_evaluation(loaded)
    _print(summary, emit)
    shown = gallery(loaded)
    page = html_page.render(summary, loaded, shown)
    try:
        save(loaded, summary, page)
        if shown.damaged:
            note(damaged_note(shown.damaged))
    except OSError as error:  # somebody else's folder can be scored too
        note(f"the report was not saved: {error}")
    if html is not None:
        write_page(html, page)
    return not summary["void"] and not summary["incomplete"]


def write_page(path: Path, page: str) -> None:
    """Writes the page where the user asked for it; `BenchError` where it cannot be written."""
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise BenchError(
            f"{path}: cannot write the page: {error.strerror or error}; free the path, or choose another one"
        ) from None
    note(f"{path}: a page for a browser")


def _print(summary: dict[str, Any], emit: Emit | None) -> None:
    from mjx_bench.report import table

    if emit is not None:
        emit(summary)
    else:
        out = console()
        out.print(table.render(summary, out.width))


def reference_summary(path: Path) -> dict[str, Any]:
    """The report of the reference's result lines, with None for what they do not record."""
    from mjx_bench.reference import read_reference
    from mjx_bench.report.pairs import Scored
    from mjx_bench.report.summary import summarise_outcomes

    lines = read_reference(path)
    pairs = [
        (
            line.change_type,
            Scored(
                outcome=(line.base, line.dynamic),
                end=None,
                trigger_step=line.event_step,
                first_response_step=None,
                common_response_step=line.response_step,
                stale_actions=line.exposure,
            ),
        )
        for line in lines
    ]
    unknown = {"first_response_step"}
    # Optional in a line; where no line has one, it was not recorded.
    optional = {"trigger_step": "event_step", "common_response_step": "response_step"}
    unknown |= {ours for ours, theirs in optional.items() if all(getattr(line, theirs) is None for line in lines)}
    note = "the file holds only pairs whose event was answered by a query of both arms: coverage is of these alone"
    return summarise_outcomes(pairs, unknown=unknown, notes=[note])


def save(loaded: Run, summary: dict[str, Any], page: str) -> None:
    """Writes report.json, report.md, report.html and, where a relocation was run, pair.png into the results folder."""
    from mjx_bench.report import plot, table

    (loaded.directory / "report.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    (loaded.directory / "report.md").write_text(table.to_markdown(summary), encoding="utf-8")
    (loaded.directory / PAGE).write_text(page, encoding="utf-8")
    written = ["report.json", "report.md", PAGE]
    pair = plot.choose_pair(loaded)
    if pair is not None:
        written.append(plot.plot_pair(loaded, pair, loaded.directory / "pair.png").name)
    note(f"{loaded.directory}: {', '.join(written)}")
