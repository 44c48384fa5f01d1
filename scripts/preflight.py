"""`mjx-bench preflight`: judges the scenes that events leave, before any policy runs."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from scripts import options as shared
from scripts.output import Emit, console, note

if TYPE_CHECKING:
    from mjx_bench.cases import Case
    from mjx_bench.preflight import Verdict


@dataclasses.dataclass(frozen=True)
class Preflight:
    """Apply every event of a manifest at its initial state, and check that the scene stays fit to work in.

    What moved must not fall, slide away, lose its support or touch anything new. Pictures are not compared.
    """

    manifest: tyro.conf.Positional[Path]
    """File of cases."""
    limit: int | None = None
    """Check only this many cases, spread over the event types."""
    json: bool = False
    """Print JSON instead of a table."""


def run(options: Preflight, emit: Emit) -> int:
    """Checks and reports; 1 if a case fails."""
    shared.at_least(1, limit=options.limit)

    from evals import registry
    from mjx_bench.cases import load_manifest, select
    from mjx_bench.schedule import load_tasks, task_key

    manifest = select(load_manifest(options.manifest), options.limit)
    left_out = {c.case_id: reason for c in manifest.cases if (reason := registry.missing_source(c)) is not None}
    here = dataclasses.replace(manifest, cases=tuple(c for c in manifest.cases if c.case_id not in left_out))
    registry.prepare(here.cases, progress=note)
    tasks = load_tasks(here, registry.load_case)
    by_task: dict[Any, list[Case]] = defaultdict(list)
    for case in here.cases:
        by_task[task_key(case)].append(case)
    verdicts = [v for key, cases in by_task.items() for v in _check(tasks[key], cases)]
    verdicts.sort(key=lambda v: [c.case_id for c in here.cases].index(v.case_id))
    summary = {
        "cases": len(verdicts),
        "passed": sum(v.passed for v in verdicts),
        "failed": {v.case_id: list(v.problems) for v in verdicts if not v.passed},
        "pictures_only": sum(not v.moved and v.passed for v in verdicts),
        "left_out": left_out,
    }
    if options.json:
        emit(summary)
    else:
        _print(summary)
    return 1 if summary["failed"] else 0


def _check(task: Any, cases: list[Case]) -> list[Verdict]:
    from mjx_bench import preflight
    from mjx_bench.physics.scene import compile_scene

    checker = preflight.Preflight(task, compile_scene(task.scene, ()))
    return [checker.check(case) for case in cases]


def _print(summary: dict[str, Any]) -> None:
    out = console()
    for case_id, problems in summary["failed"].items():
        out.print(f"[red]fails[/red] {case_id}: {'; '.join(problems)}", highlight=False)
    out.print(
        f"{summary['passed']} of {summary['cases']} cases pass"
        f" ({summary['pictures_only']} change pictures only, which are not compared)"
    )
    if summary["left_out"]:
        out.print(f"{len(summary['left_out'])} cases are left out: their sources are not installed")
