"""`mjx-bench tasks`: what there is to run, and what a benchmark has beside that."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from scripts import options as shared
from scripts.output import Emit, console

if TYPE_CHECKING:
    from rich.table import Table


@dataclasses.dataclass(frozen=True)
class Tasks:
    """List the tasks of one or more suites, or of all; those of a benchmark that do not run here say what they lack."""

    suite: shared.Names = ()
    """Suites to list."""
    json: bool = False
    """Print one JSON list instead of a table."""


def run(options: Tasks, emit: Emit) -> int:
    """Prints a row a task: suite, index, name, instruction, goal, horizon, and of some suites more."""
    from evals import registry

    names = shared.suites(shared.flat(options.suite)) or registry.suites()
    listed = {name: registry.listing(name) for name in names}
    if options.json:
        emit([row for rows in listed.values() for row in rows])
        return 0
    if plain := [row for rows in listed.values() for row in rows if "runs" not in row]:
        console().print(_plain(plain))
    for name, rows in listed.items():
        if described := [row for row in rows if "runs" in row]:
            if plain:
                console().print()
            console().print(_described(described))
            running = sum(row["runs"] for row in described)
            console().print(f"{name}: {running} of {len(described)} tasks run here; --json has their conditions.")
    return 0


def _plain(rows: Sequence[dict[str, Any]]) -> Table:
    table = _table(("suite", "index", "horizon", "instruction", "goal"))
    for row in rows:
        table.add_row(
            row["suite"], str(row["index"]), str(row["horizon"]), row["instruction"], " and ".join(row["goal"])
        )
    return table


# What a suite whose tasks do not all run may say of them: column to field.
_COLUMNS = {
    "id": "id", "task": "name", "group": "group", "family": "family", "domain": "domain", "Hz": "control_hz",
    "horizon": "horizon", "profile": "profile", "evidence": "evidence",
}  # fmt: skip


def _described(rows: Sequence[dict[str, Any]]) -> Table:
    """Of a suite whose tasks do not all run: what it says of them, and whether they do."""
    columns = {column: field for column, field in _COLUMNS.items() if field in rows[0]}
    table = _table((*columns, "here"))
    for row in rows:
        cells = (row[field] for field in columns.values())
        said = (", ".join(name.replace("_", " ") for name in c) if isinstance(c, list) else f"{c}" for c in cells)
        table.add_row(*said, "runs" if row["runs"] else f"lacks {row['lacks']}")
    return table


def _table(columns: Sequence[str]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold", justify="right" if column in ("index", "horizon", "Hz") else "left")
    return table
