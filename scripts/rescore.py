"""`mjx-bench rescore`: judges a results folder again; needs no simulator."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from scripts.output import Emit, console

if TYPE_CHECKING:
    from mjx_bench.rescore import Rescored


@dataclasses.dataclass(frozen=True)
class Rescore:
    """Judge every arm of a results folder again, from the signals in its records, and list what comes out otherwise."""

    dir: tyro.conf.Positional[Path]
    """Results folder."""
    json: bool = False
    """Print JSON instead of text."""


def run(options: Rescore, emit: Emit) -> int:
    """Judges and prints; 1 if anything differs from the records, or cannot be judged."""
    from mjx_bench.rescore import rescore

    result = rescore(options.dir)
    if options.json:
        emit({"agrees": result.agrees, **dataclasses.asdict(result)})
    else:
        _print(result)
    return 0 if result.agrees else 1


def _print(result: Rescored) -> None:
    out = console()
    for m in result.mismatches:
        out.print(
            f"differs: {m.case_id} {m.arm}: {m.field} is {m.recorded!r} in the record, {m.recomputed!r} from its signals",
            markup=False,
        )
    for kind, arms in (("damaged", result.damaged), ("void", result.void)):
        for arm in arms:
            out.print(f"{kind}: {arm.case_id} {arm.arm}: {arm.reason}", markup=False)
    line = f"{result.arms} arms judged again, {len(result.mismatches)} fields differ"
    for count, what in ((len(result.damaged), "arms damaged"), (len(result.void), "void arms not judged")):
        line += f", {count} {what}" if count else ""
    out.print(line)
    if result.triggers_unchecked:
        out.print(f"{result.triggers_unchecked} arms have a trigger that reads contacts, whose step was not checked")
