"""`mjx-bench suite`: builds the cases of LIBERO-MAX, checks them and says what is in them."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from mjx_bench.errors import BenchError
from scripts import options as shared
from scripts.output import Emit, console, note


@dataclasses.dataclass(frozen=True)
class Build:
    """Choose the cases, preflight them, and write the manifest, Lite and their checksums. The same command goes on."""

    name: tyro.conf.Positional[Literal["libero-max"]]
    """What to build."""
    out: Path | None = None
    """Folder to write; where suites are looked for by name, if not given."""
    workers: int = 2
    """Processes that preflight cases, each about 2 GB."""
    renderer: Literal["auto", "gl", "warp"] = "auto"
    """What takes the pictures that preflight looks at."""
    part: int = 1
    """Fill cells to one part-th only: 10 builds a tenth, for a trial."""
    json: bool = False
    """Print the summary as JSON."""


@dataclasses.dataclass(frozen=True)
class Check:
    """Check a built suite, or any manifest: checksums, counts, and that Lite and every case follow from the rules."""

    path: tyro.conf.Positional[Path]
    """Folder of a built suite, or a manifest."""
    json: bool = False
    """Print the findings as JSON."""


@dataclasses.dataclass(frozen=True)
class Show:
    """Say what is in a suite: counts by event, source, category and variant."""

    name: tyro.conf.Positional[str]
    """`libero-max` or `libero-max-lite`, or a manifest's file."""
    folder: Path | None = None
    """Where the suite was built, if not in its usual place."""
    json: bool = False
    """Print JSON instead of a table."""


@dataclasses.dataclass(frozen=True)
class Suite:
    """Build, check or show the cases of LIBERO-MAX."""

    action: (
        Annotated[Build, tyro.conf.subcommand("build")]
        | Annotated[Check, tyro.conf.subcommand("check")]
        | Annotated[Show, tyro.conf.subcommand("show")]
    )

    @property
    def json(self) -> bool:
        return self.action.json


def run(options: Suite, emit: Emit) -> int:
    """Runs one of the three; 1 if a check finds something."""
    if isinstance(options.action, Build):
        return _build(options.action, emit)
    if isinstance(options.action, Check):
        return _check(options.action, emit)
    return _show(options.action, emit)


def _build(options: Build, emit: Emit) -> int:
    from evals import registry
    from evals.libero import tasks
    from evals.libero_max import construction, pool, suite
    from evals.libero_max.screening import Screen
    from mjx_bench.observe.choice import choose

    shared.at_least(1, workers=options.workers, part=options.part)
    out = options.out or suite.default_folder()
    renderer, platform = choose(options.renderer)
    out.mkdir(parents=True, exist_ok=True)
    note(f"pictures by {platform}; scenes that are not in the cache are built first")
    scenes = [(name, index) for name in (*pool.SUITES, *tasks.variant_suites()) for index in range(pool.TASKS)]
    if failed := registry.build(scenes, seeds=(suite.POLICY_SEED,), workers=options.workers, progress=note):
        raise BenchError(f"LIBERO could not build {failed[0]}")
    told = _NowAndThen()
    screen = Screen(out / suite.VERDICTS, options.workers, renderer, told.cases, told.scene)
    built = construction.build(screen.check, part=options.part, told=note)
    summary = suite.write(built, out)
    if options.json:
        emit(summary)
    else:
        _print(summary[suite.MAX], suite.MAX)
    note(f"{out / suite.FILES[suite.MAX]}: manifest {summary[suite.MAX]['manifest_sha256'][:12]}")
    return 0


class _NowAndThen:
    """Says how far a build is, at most every `INTERVAL_S`."""

    INTERVAL_S = 20.0

    def __init__(self) -> None:
        self._said = time.monotonic()
        self._scenes = 0

    def cases(self, done: int, of: int) -> None:
        self._say(f"  {done} of {of} cases")

    def scene(self, line: str) -> None:
        self._scenes += 1
        self._say(f"  {self._scenes} scenes, {line}")

    def _say(self, line: str) -> None:
        if time.monotonic() - self._said >= self.INTERVAL_S:
            self._said = time.monotonic()
            note(line)


def _check(options: Check, emit: Emit) -> int:
    from evals.libero_max import suite_check

    note(f"{options.path}: every case is made from its rules again; of 8,000 that takes minutes")
    findings = suite_check.check(options.path)
    if options.json:
        emit({"path": str(options.path), "problems": findings})
    out = console()
    for line in findings:
        if not options.json:
            out.print(f"[red]wrong[/red] {line}", highlight=False)
    if not findings and not options.json:
        out.print(f"{options.path}: as it should be", highlight=False)
    return 1 if findings else 0


def _show(options: Show, emit: Emit) -> int:
    from evals.libero_max import suite
    from mjx_bench.cases import load_manifest

    path = Path(options.name)
    manifest = load_manifest(path) if path.is_file() else suite.load_suite(options.name, options.folder)
    found = suite.counts(manifest)
    if options.json:
        emit(found)
    else:
        _print(found, options.name)
    return 0


def _print(found: dict[str, Any], name: str) -> None:
    from rich.table import Table

    table = Table(title=f"{name}: {found['cases']} cases, {found['source_tasks']} varied tasks")
    table.add_column("by")
    table.add_column("")
    table.add_column("cases", justify="right")
    for key, values in found.items():
        if isinstance(values, dict):
            for i, (value, count) in enumerate(values.items()):
                table.add_row(key if i == 0 else "", value, str(count))
    console().print(table)
