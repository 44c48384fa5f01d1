"""`mjx-bench sample`: a manifest from a seed."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from mjx_bench.errors import BenchError
from scripts import chosen
from scripts import options as shared
from scripts.output import Emit, note


@dataclasses.dataclass(frozen=True)
class Sample:
    """Draw paired cases for plain suites and write them as a manifest."""

    out: Path
    """File to write."""
    suite: shared.Names = ()
    """Suites to draw from."""
    task: shared.Names = ()
    """Of the suites, tasks to draw on, by index or by name; all if none is given."""
    event: shared.Names = ()
    """Event types to draw; all of version 1 of LIBERO-MAX if none is given."""
    pairs: int = 16
    """Number of pairs."""
    seed: int = 0
    """The same seed always draws the same cases."""


def run(options: Sample, emit: Emit) -> int:
    """Writes the manifest."""
    from mjx_bench.cases import dump_manifest

    shared.at_least(1, pairs=options.pairs)
    shared.at_least(0, seed=options.seed)
    suites, events = shared.plain_suites(shared.flat(options.suite)), shared.events(shared.flat(options.event))
    if not suites:
        raise BenchError("give --suite: which suites to draw from (mjx-bench tasks lists them)")
    text = dump_manifest(
        chosen.draw(chosen.tasks_of(suites, shared.flat(options.task)), options.pairs, options.seed, events)
    )
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(text, encoding="utf-8")
    note(f"{options.out}: {options.pairs} pairs")
    return 0
