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


def _described(rows: Sequence[dict[str, Any]]) -> Table:
    """Of a suite whose tasks do not all run."""
    table = _table(("id", "task", "group", "domain", "Hz", "horizon", "profile", "evidence", "here"))
    for row in rows:
        here = "runs" if row["runs"] else f"lacks {row['lacks']}"
        cells = (row["control_hz"], row["horizon"], row["profile"])
        evidence = ", ".join(name.replace("_", " ") for name in row["evidence"])
        table.add_row(row["id"], row["name"], row["group"], row["domain"], *(f"{c}" for c in cells), evidence, here)
    return table


def _table(columns: Sequence[str]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold", justify="right" if column in ("index", "horizon", "Hz") else "left")
    return table
