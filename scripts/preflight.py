"""`mjx-bench preflight`: judges the scenes that events leave, before any policy runs."""

from __future__ import annotations

import contextlib
import dataclasses
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro

from scripts import options as shared
from scripts.output import Emit, console, note

if TYPE_CHECKING:
    from mjx_bench.cases import Case
    from mjx_bench.preflight import Verdict
    from mjx_bench.task import Task


@dataclasses.dataclass(frozen=True)
class Preflight:
    """Apply every event of a manifest at its initial state, and check that the scene stays fit to work in.

    What moved must not fall, slide away, lose its support or touch anything new, and the event must show in the picture.
    """

    manifest: tyro.conf.Positional[Path]
    """File of cases."""
    limit: int | None = None
    """Check only this many cases, spread over the event types."""
    renderer: Literal["auto", "gl", "warp", "none"] = "auto"
    """What takes the pictures; `none` leaves out what is judged by them."""
    json: bool = False
    """Print JSON instead of a table."""


def run(options: Preflight, emit: Emit) -> int:
    """Checks and reports; 1 if a case fails."""
    shared.at_least(1, limit=options.limit)

    from evals import registry
    from mjx_bench.cases import load_manifest, select
    from mjx_bench.judged import task_key
    from mjx_bench.observe.choice import choose
    from mjx_bench.schedule import load_tasks

    manifest = select(load_manifest(options.manifest), options.limit)
    left_out = {c.case_id: reason for c in manifest.cases if (reason := registry.missing_source(c)) is not None}
    here = dataclasses.replace(manifest, cases=tuple(c for c in manifest.cases if c.case_id not in left_out))
    registry.prepare(here.cases, progress=note)
    tasks = load_tasks(here, registry.load_case)
    by_task: dict[Any, list[Case]] = defaultdict(list)
    for case in here.cases:
        by_task[task_key(case)].append(case)
    renderer, platform = (None, "none") if options.renderer == "none" else choose(options.renderer)
    verdicts = [v for key, cases in by_task.items() for v in _check(tasks[key], cases, renderer)]
    verdicts.sort(key=lambda v: [c.case_id for c in here.cases].index(v.case_id))
    summary = {
        "cases": len(verdicts),
        "passed": sum(v.passed for v in verdicts),
        "failed": {v.case_id: list(v.problems) for v in verdicts if not v.passed},
        "pictures_only": sum(not v.moved and v.passed for v in verdicts),
        "pixel_change": {v.case_id: v.pixel_change for v in verdicts if v.pixel_change is not None},
        "renderer": platform,
        "left_out": left_out,
    }
    if options.json:
        emit(summary)
    else:
        _print(summary)
    return 1 if summary["failed"] else 0


def _check(task: Task, cases: list[Case], renderer: str | None) -> list[Verdict]:
    from mjx_bench import preflight
    from mjx_bench.observe.choice import make_renderer
    from mjx_bench.observe.pictures import Pictures
    from mjx_bench.physics.scene import compile_scene

    scene, size = compile_scene(task.scene, ()), preflight.PICTURE_SIZE
    if renderer is None:
        return [preflight.Preflight(task, scene).check(case) for case in cases]
    with contextlib.closing(
        Pictures(make_renderer(renderer, task.scene, task.scene.observed[:1], size, size), task.scene)
    ) as pictures:
        checker = preflight.Preflight(task, scene, pictures)
        return [checker.check(case) for case in cases]


def _print(summary: dict[str, Any]) -> None:
    out = console()
    for case_id, problems in summary["failed"].items():
        out.print(f"[red]fails[/red] {case_id}: {'; '.join(problems)}", highlight=False)
    out.print(f"{summary['passed']} of {summary['cases']} cases pass; pictures: {summary['renderer']}", highlight=False)
    if summary["left_out"]:
        out.print(f"{len(summary['left_out'])} cases are left out: their sources are not installed")
