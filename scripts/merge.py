"""`mjx-bench merge`: puts the shards of a run together."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import tyro

from scripts.output import Emit, note


@dataclasses.dataclass(frozen=True)
class Merge:
    """Put the shards of one run together: the results folder that the run would have left, had it not been divided."""

    shards: tyro.conf.Positional[tuple[Path, ...]]
    """Results folders of all shards."""
    out: Path
    """New results folder."""
    partial: bool = False
    """Take unfinished shards as they are."""
    json: bool = False
    """Print JSON."""


def run(options: Merge, emit: Emit) -> int:
    """Checks, merges and says what came of it."""
    from mjx_bench.records.merge import merge_runs

    merged = merge_runs(options.shards, options.out, partial=options.partial)
    for line in merged.unfinished:
        note(line)
    if options.json:
        emit({**dataclasses.asdict(merged), "directory": str(merged.directory), "shards": len(options.shards)})
    note(f"{merged.directory}: {merged.cases} cases, {merged.arms} arms of {len(options.shards)} shards")
    return 0
