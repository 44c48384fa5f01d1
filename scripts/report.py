"""`mjx-bench report`: scores a results folder again; needs no simulator."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from mjx_bench.errors import BenchError
from scripts.output import Emit, check_writable, console, note

if TYPE_CHECKING:
    from mjx_bench.records import Run
    from mjx_bench.report.grid import Grid
    from mjx_bench.report.results import Results


PAGE = "report.html"
REFERENCE = "paired_results.jsonl"  # the name under which the reference implementation writes its results


@dataclasses.dataclass(frozen=True)
class Report:
    """Score results: what succeeded, what the events broke, with confidence intervals, and a page (report.html).

    Several results are compared on the cases that they have in common.
    """

    results: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Results folders of earlier runs, or files of the reference implementation (paired_results.jsonl)."""
    from_reference: Path | None = None
    """Score the reference implementation's paired_results.jsonl; the same as naming the file without this."""
    html: Path | None = None
    """Write the page here too; it needs no other file and no network."""
    missing_fails: bool = False
    """Count an arm that is missing or void as a failure, as the Lite score does; without, its pair is in no number."""
    tables: Path | None = None
    """Write every table into this folder, as Markdown, CSV and LaTeX."""
    json: bool = False
    """Print the report as JSON instead of a table."""


def run(options: Report, emit: Emit) -> int:
    """Prints the report; that of one folder is saved beside the records."""
    to_json = emit if options.json else None
    if options.html is not None:
        check_writable(options.html)
    paths = [_checked(path) for path in options.results]
    if options.from_reference is not None:
        paths.append(options.from_reference)
    if not paths:
        raise BenchError("give results to report: folders of earlier runs, or a file of the reference")
    if len(paths) > 1:
        _compare(paths, to_json, options)
    elif _is_reference(paths[0], options):
        summary = reference_summary(paths[0])
        _print(summary, to_json)
        if options.html is not None:
            from mjx_bench.report import html_page

            write_page(options.html, html_page.render(summary))
        if options.tables is not None:
            from mjx_bench.report import tables

            _write_tables(options.tables, tables.run_grids(summary), summary["notes"])
    else:
        show(paths[0], to_json, options.html, options.tables, options.missing_fails)
    return 0


def _checked(path: Path) -> Path:
    """The results at `path`: a folder of ours, or a file of the reference, which may be named by its folder."""
    if path.is_dir() and not (path / "run.json").exists() and (path / REFERENCE).is_file():
        return path / REFERENCE
    if path.is_file() and (path.parent / "run.json").exists():
        raise BenchError(f"{path}: a file of a results folder; give the folder, {path.parent}")
    return path


def _is_reference(path: Path, options: Report) -> bool:
    return path.is_file() or path is options.from_reference


def _compare(paths: Sequence[Path], emit: Emit | None, options: Report) -> None:
    from mjx_bench.records import load_run
    from mjx_bench.report import compare, html_compare, tables
    from mjx_bench.report.results import results_of

    found = [
        reference_results(path) if _is_reference(path, options) else results_of(load_run(path), options.missing_fails)
        for path in paths
    ]
    comparison = compare.compare(found)
    if emit is not None:
        emit(comparison)
    else:
        from mjx_bench.report import table

        out = console()
        out.print(table.render_comparison(comparison, out.width))
    if options.html is not None:
        write_page(options.html, html_compare.render(comparison))
    if options.tables is not None:
        _write_tables(options.tables, tables.comparison_grids(comparison), comparison["notes"])


def _write_tables(folder: Path, grids: Sequence[Grid], notes: Sequence[str]) -> None:
    from mjx_bench.report import grid

    files = grid.texts(grids, notes)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise BenchError(f"{folder}: cannot write tables: {error.strerror or error}; choose another folder") from None
    note(f"{folder}: {', '.join(files)}")


def show(
    directory: Path,
    emit: Emit | None,
    html: Path | None = None,
    tables_folder: Path | None = None,
    missing_fails: bool = False,
) -> bool:
    """Prints the report of a results folder, as JSON through `emit` or as a table, and saves it there.

    The page is also written to `html`, and every table into `tables_folder`, if given.

    Returns whether every case that was asked for was scored: no arm void, none missing.
    """
    from mjx_bench.records import load_run
    from mjx_bench.report import html_page, tables
    from mjx_bench.report.evaluation import summarise_evaluation
    from mjx_bench.report.html_media import damaged_note, gallery
    from mjx_bench.report.summary import summarise

    loaded = load_run(directory)
    summary = summarise(loaded, missing_fails) if len(loaded.arms) > 1 else summarise_evaluation(loaded)
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
    if tables_folder is not None:
        make = tables.run_grids if len(loaded.arms) > 1 else tables.evaluation_grids
        _write_tables(tables_folder, make(summary), summary["notes"])
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
    from mjx_bench.report.summary import summarise_outcomes

    results = reference_results(path)
    pairs = [(case.labels, case.scored) for case in results.cases.values() if case.scored is not None]
    return summarise_outcomes(pairs, unknown=results.unknown, notes=results.notes)


def reference_results(path: Path) -> Results:
    """The reference's result lines as a policy's results."""
    from mjx_bench.reference import read_reference
    from mjx_bench.report.pairs import Labels, Scored
    from mjx_bench.report.results import CaseResult, Results
    from mjx_bench.types import Arm

    lines = read_reference(path)
    cases = {}
    for line in lines:
        labels = Labels(line.change_type, line.suite, line.category, line.difficulty, line.severity, line.draw)
        scored = Scored(
            outcome=(line.base, line.dynamic),
            end=None,
            trigger_step=line.event_step,
            first_response_step=None,
            common_response_step=line.response_step,
            stale_actions=line.exposure,
        )
        cases[line.pair_id] = CaseResult(labels, line.execution, scored=scored)
    unknown = {"first_response_step"}
    # Optional in a line; where no line has one, it was not recorded.
    optional = {"trigger_step": "event_step", "common_response_step": "response_step"}
    unknown |= {ours for ours, theirs in optional.items() if all(getattr(line, theirs) is None for line in lines)}
    return Results(
        path=str(path),
        policy=None,
        horizon=None,
        query_interval=None,
        delay=0,
        arms=tuple(Arm),
        cases=cases,
        benchmark=None,
        settings={},
        unknown=frozenset(unknown),
        notes=(
            "the file holds only pairs whose event was answered by a query of both arms: coverage is of these alone",
        ),
    )


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
