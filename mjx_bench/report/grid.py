"""One table as data, and the same cells as Markdown, CSV and LaTeX.

CSV is for programs: raw numbers, full precision, an interval as two columns. Markdown and LaTeX are for people:
rounded.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import re
from collections.abc import Callable, Sequence
from typing import Any


@dataclasses.dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
      key: its name in CSV; an interval's two columns end in `_low` and `_high`.
      head: its name for people.
      show: a raw cell as people read it; never called with None, which is shown as a dash.
      interval: whether cells are (low, high).
    """

    key: str
    head: str
    show: Callable[[Any], str] = str
    interval: bool = False


@dataclasses.dataclass(frozen=True)
class Grid:
    """A table.

    Attributes:
      name: of its files, without an ending.
      title: one line.
      columns: as many as each row has cells.
      rows: raw cells; None where there is no value.
      legend: what the columns mean.
      total: whether the last row is of all others.
      left: columns from the left that are words, not numbers.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]
    legend: str = ""
    total: bool = False
    left: int = 1

    @property
    def heads(self) -> tuple[str, ...]:
        return tuple(c.head for c in self.columns)

    @property
    def shown(self) -> list[tuple[str, ...]]:
        """The rows as people read them."""
        return [
            tuple("-" if cell is None else c.show(cell) for c, cell in zip(self.columns, row, strict=True))
            for row in self.rows
        ]


def number(spec: str, scale: float = 1.0, unit: str = "") -> Callable[[Any], str]:
    """Formats a number; a signed one that is exactly zero has no sign, as it must not look rounded."""

    def show(value: Any) -> str:
        return "0" if value == 0 and spec.startswith("+") else format(scale * value, spec) + unit

    return show


def interval(spec: str, scale: float = 1.0, unit: str = "") -> Callable[[Any], str]:
    """Formats (low, high)."""
    return lambda bounds: f"{scale * bounds[0]:{spec}}{unit} .. {scale * bounds[1]:{spec}}{unit}"


def p_value(p: Any) -> str:
    """Three significant digits; in powers of ten below a thousandth."""
    return f"{p:.3f}" if p >= 0.001 else f"{p:.2e}"


def to_markdown(grid: Grid) -> str:
    """A heading, the table and its legend."""
    aligned = ["---" if i < grid.left else "---:" for i in range(len(grid.columns))]
    body = [tuple(cell.replace("|", "\\|") for cell in row) for row in grid.shown]
    if grid.total and body:
        body[-1] = tuple(f"**{cell}**" for cell in body[-1])
    lines = [f"## {grid.title}", "", *(f"| {' | '.join(row)} |" for row in (grid.heads, aligned, *body))]
    return "\n".join([*lines, "", grid.legend]).rstrip() + "\n"


def to_csv(grid: Grid) -> str:
    """Raw cells under keys; a missing value is an empty cell."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        key for c in grid.columns for key in ((f"{c.key}_low", f"{c.key}_high") if c.interval else (c.key,))
    )
    for row in grid.rows:
        cells: list[Any] = []
        for column, cell in zip(grid.columns, row, strict=True):
            cells += (list(cell) if cell is not None else [None, None]) if column.interval else [cell]
        writer.writerow(cells)
    return out.getvalue()


_LATEX = {
    "\\": r"\textbackslash{}",
    **{c: f"\\{c}" for c in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "Δ": r"$\Delta$",
    "π": r"$\pi$",
    "−": "$-$",
    "→": r"$\to$",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
}


def latex_text(text: str) -> str:
    """Text with all that LaTeX would take for a command escaped; a minus before a digit becomes a real one."""
    out = []
    for i, char in enumerate(text):
        minus = char == "-" and text[i + 1 : i + 2].isdigit() and not text[i - 1 : i].isalnum()
        out.append("$-$" if minus else _LATEX.get(char, char))
    return "".join(out)


def _latex_cell(text: str) -> str:
    """As `latex_text`; powers of ten are set as such, and an interval in brackets."""
    if power := re.fullmatch(r"(\d\.\d+)e-0*(\d+)", text):
        return rf"${power[1]}\times10^{{-{power[2]}}}$"
    if bounds := re.fullmatch(r"(\S+) \.\. (\S+)", text):
        return f"[{latex_text(bounds[1])}, {latex_text(bounds[2])}]"
    return latex_text(text)


def to_latex(grid: Grid) -> str:
    """A `table` float with booktabs rules, for any document that loads that package."""
    body = [[_latex_cell(cell) for cell in row] for row in grid.shown]
    rows = [" & ".join(row) + r" \\" for row in body]
    if grid.total and rows:
        rows.insert(len(rows) - 1, r"\midrule")
    columns = "l" * grid.left + "r" * (len(grid.columns) - grid.left)
    heads = " & ".join(latex_text(h) for h in grid.heads)
    return "\n".join(
        [
            "% needs \\usepackage{booktabs}",
            r"\begin{table}[t]",
            r"\centering",
            rf"\caption{{{latex_text(grid.title)}.{' ' + latex_text(grid.legend) if grid.legend else ''}}}",
            rf"\label{{tab:{grid.name}}}",
            rf"\begin{{tabular}}{{@{{}}{columns}@{{}}}}",
            r"\toprule",
            heads + r" \\",
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


FORMATS: dict[str, Callable[[Grid], str]] = {"md": to_markdown, "csv": to_csv, "tex": to_latex}


def texts(grids: Sequence[Grid], notes: Sequence[str] = ()) -> dict[str, str]:
    """File name to text, of every grid in every format.

    `notes`, what must be known of the numbers, end the legends; a CSV file has none, so they are a file of their own too.
    """
    said = " ".join(f"{note}." for note in notes)
    out = {"notes.txt": "".join(f"{note}\n" for note in notes)} if notes else {}
    for grid in grids:
        whole = dataclasses.replace(grid, legend=f"{grid.legend} {said}".strip())
        out |= {f"{grid.name}.{ending}": write(whole) for ending, write in FORMATS.items()}
    return out
