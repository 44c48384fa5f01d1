"""`mjx-bench tasks`: what there is to run."""

from __future__ import annotations

import dataclasses

from scripts import options as shared
from scripts.output import Emit, console


@dataclasses.dataclass(frozen=True)
class Tasks:
    """List the tasks of one or more suites, or of all."""

    suite: shared.Names = ()
    """Suites to list."""
    json: bool = False
    """Print one JSON list instead of a table."""


def run(options: Tasks, emit: Emit) -> int:
    """Prints a row a task: suite, index, name, instruction, goal, horizon."""
    from evals import registry

    names = shared.suites(shared.flat(options.suite)) or registry.suites()
    rows = [row for name in names for row in registry.task_table(name)]
    if options.json:
        emit(rows)
        return 0

    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in ("suite", "index", "horizon", "instruction", "goal"):
        table.add_column(column, overflow="fold", justify="right" if column in ("index", "horizon") else "left")
    for row in rows:
        table.add_row(
            row["suite"], str(row["index"]), str(row["horizon"]), row["instruction"], " and ".join(row["goal"])
        )
    console().print(table)
    return 0
