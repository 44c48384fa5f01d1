"""`mjx-bench study`: the two studies that LIBERO-MAX makes besides its main table."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from mjx_bench.errors import BenchError
from scripts import chosen, cost, running
from scripts import options as shared
from scripts.output import Emit, console, note

if TYPE_CHECKING:
    from mjx_bench.report.grid import Grid


@dataclasses.dataclass(frozen=True, kw_only=True)
class StudyOptions(chosen.CaseOptions, shared.RunOptions):
    """What both studies are told."""

    query_interval: int = 8
    """Q, the actions executed before the policy is asked again."""
    horizon: int | None = None
    """H, the actions used of each answer; all that the policy returns if not given."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Camera(StudyOptions):
    """Camera cases shifted before the first picture (Reset) and in mid-episode (Mid), at several strengths.

    Of each case seven outcomes are compared: Base, and Reset and Mid at three strengths. Folders OUT/mid and OUT/reset.
    """

    alpha: tuple[float, ...] = (0.25, 0.5, 1.0)
    """Strengths: what position, yaw and field of view of the shift are multiplied by."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Restoration(StudyOptions):
    """Sensor-noise cases with the policy's pictures as they are, all of them repaired, and those repaired that show damage.

    Folders OUT/native, OUT/always and OUT/gated.
    """


@dataclasses.dataclass(frozen=True, kw_only=True)
class Study:
    """Run one of LIBERO-MAX's studies; the same command again goes on where the last one ended."""

    what: Annotated[
        Annotated[Camera, tyro.conf.subcommand("camera")] | Annotated[Restoration, tyro.conf.subcommand("restoration")],
        tyro.conf.arg(name=""),
    ]

    @property
    def json(self) -> bool:
        """Whether standard output is for JSON only."""
        return self.what.json


def run(options: Study, emit: Emit) -> int:
    """Runs and reports; 1 if a case could not be scored."""
    what = options.what
    return _camera(what, emit) if isinstance(what, Camera) else _restoration(what, emit)


def _camera(options: Camera, emit: Emit) -> int:
    from evals.libero_max import studies
    from mjx_bench.records import load_run
    from mjx_bench.report.studies import camera_grids, camera_study
    from mjx_bench.settings import check_settings

    if not options.alpha or any(not 0 < a <= 1 for a in options.alpha) or len(set(options.alpha)) < len(options.alpha):
        raise BenchError(f"--alpha {' '.join(f'{a:g}' for a in options.alpha)}: give different strengths in (0, 1]")
    policy = running.begin(options)
    settings = running.settings_of(options, horizon=options.horizon, query_interval=options.query_interval)
    check_settings(settings, policy)
    manifest, load = chosen.choose(options, options.scene_form, event=studies.CAMERA)
    parts = {
        name: make(manifest, options.alpha) for name, make in (("mid", studies.mid_task), ("reset", studies.reset))
    }
    if options.dry_run:
        runs = [(part, {options.out / name: settings}) for name, part in parts.items()]
        return cost.say(runs, policy, load, emit if options.json else None)
    _check_strengths(options.out / "mid", options.alpha)
    for name, part in parts.items():
        note(f"{name}: {len(part.cases)} cases")
        cases = running.select(part, options.shard)
        running.evaluate(cases, {options.out / name: settings}, policy, load, running.cluster_of(options))
    study = camera_study(load_run(options.out / "mid"), load_run(options.out / "reset"), studies.strength_of)
    _show(study, camera_grids(study), options, emit)
    return 1 if study["left_out"] else 0


def _check_strengths(folder: Path, alphas: Sequence[float]) -> None:
    """Raises `BenchError` where the folder of an earlier run was made with others."""
    from evals.libero_max.studies import strength_of
    from mjx_bench.records import load_run

    if (folder / "run.json").exists():
        before = {strength_of(case_id)[1] for case_id in load_run(folder).case_ids}
        if before != set(alphas):
            was = " ".join(f"{alpha:g}" for alpha in sorted(before))
            raise BenchError(f"{folder}: made with --alpha {was}; give the same to go on, or another --out")


def _restoration(options: Restoration, emit: Emit) -> int:
    from evals.libero_max import studies
    from mjx_bench.observe.repair import STRATEGIES
    from mjx_bench.records import load_run
    from mjx_bench.report.studies import restoration_grids, restoration_study
    from mjx_bench.settings import check_settings

    policy = running.begin(options)
    if not policy.spec.cameras:
        raise BenchError(
            f"this study repairs a policy's pictures, and {options.policy} sees none; choose one with cameras"
        )
    runs = {
        options.out / strategy: running.settings_of(
            options, horizon=options.horizon, query_interval=options.query_interval, restoration=strategy
        )
        for strategy in STRATEGIES
        if strategy != "off"
    }
    for settings in runs.values():
        check_settings(settings, policy)
    manifest, load = chosen.choose(options, options.scene_form, event=studies.NOISE)
    if options.dry_run:
        return cost.say([(manifest, runs)], policy, load, emit if options.json else None)
    cases = running.select(manifest, options.shard)
    running.evaluate(cases, runs, policy, load, running.cluster_of(options))
    study = restoration_study({folder.name: load_run(folder) for folder in runs})
    _show(study, restoration_grids(study), options, emit)
    return 1 if study["notes"] else 0


def _show(study: dict[str, Any], grids: Sequence[Grid], options: StudyOptions, emit: Emit) -> None:
    """Prints the study, and saves it as study.json and its tables as Markdown, CSV and LaTeX in OUT."""
    from mjx_bench.report import grid, table

    if options.json:
        emit(study)
    else:
        to = console()
        to.print(table.render_grids(grids, study["notes"], to.width))
    texts = {"study.json": json.dumps(study, indent=2) + "\n"} | grid.texts(grids)
    _save(options.out, texts)


def _save(out: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        (out / name).write_text(text, encoding="utf-8")
    note(f"{out}: {', '.join(texts)}")
