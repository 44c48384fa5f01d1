"""`mjx-bench dataset`: what is in a LeRobot dataset, whether it is whole, and the way from one version to the other."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro

from mjx_bench.errors import BenchError
from scripts.output import Emit, console, note

if TYPE_CHECKING:
    from train.lerobot.check import Report
    from train.lerobot.read import Dataset


@dataclasses.dataclass(frozen=True)
class DatasetFiles:
    """Look at a LeRobot dataset (v2.1 or v3.0), check it, or convert it to the other version."""

    action: tyro.conf.Positional[Literal["show", "check", "convert"]]
    """show: what it holds; check: timestamps, counts, numbers, statistics and every picture; convert: to another version."""
    path: tyro.conf.Positional[Path]
    """Folder of the dataset."""
    to: Literal["lerobot-v2.1", "lerobot-v3.0"] | None = None
    """Version to convert to."""
    out: Path | None = None
    """New folder, for convert."""
    quick: bool = False
    """Check without decoding pictures."""
    json: bool = False
    """Print JSON instead of text."""


def run(options: DatasetFiles, emit: Emit) -> int:
    """Shows, checks or converts; 1 for a dataset that is not whole."""
    if options.action == "convert" and (options.to is None or options.out is None):
        raise BenchError("dataset convert needs --to lerobot-v2.1 or lerobot-v3.0, and --out, a new folder")
    if options.action != "convert" and (options.to is not None or options.out is not None):
        raise BenchError(f"dataset {options.action} writes nothing, so it takes neither --to nor --out")

    from train.lerobot.read import open_dataset

    if options.action == "check":
        from train.lerobot.check import check

        report = check(options.path, decode=not options.quick)
        return _say_report(options.path, report, emit if options.json else None)
    dataset = open_dataset(options.path)
    if options.action == "convert":
        from train.lerobot.convert import convert

        assert options.to is not None
        assert options.out is not None
        convert(dataset, options.out, options.to.removeprefix("lerobot-"))
        note(f"{options.out}: {len(dataset.lengths)} episodes as {options.to}")
        dataset = open_dataset(options.out)
    found = _facts(dataset)
    emit(found)
    if not options.json:
        for name, value in found.items():
            text = ", ".join(map(str, value)) if isinstance(value, list) else value
            console().print(f"{name.replace('_', ' ')}: {text}", markup=False, highlight=False)
    return 0


def _facts(dataset: Dataset) -> dict[str, Any]:
    size = sum(p.stat().st_size for p in dataset.folder.rglob("*") if p.is_file())
    facts: dict[str, Any] = {
        "dataset": str(dataset.folder),
        "version": dataset.version,
        "robot": dataset.robot_type,
        "episodes": len(dataset.lengths),
        "frames": int(dataset.lengths.sum()),
        "frames_of_an_episode": [int(dataset.lengths.min()), int(dataset.lengths.max())],
        "frames_a_second": dataset.fps,
        "megabytes": round(size / 1e6, 2),
        "tasks": list(dataset.tasks),
        "cameras": [f"{c} {'x'.join(map(str, dataset.features[c].shape))}" for c in dataset.cameras],
        "columns": [f"{n} {f.dtype} {list(f.shape)}" for n, f in dataset.features.items() if not f.visual],
    }
    return facts | {name: list(texts) for name, texts in dataset.language.items()}


def _say_report(folder: Path, report: Report, emit: Emit | None) -> int:
    if emit is not None:
        emit({"dataset": str(folder), "whole": not report.faults, **dataclasses.asdict(report)})
    groups: dict[str, list[Any]] = defaultdict(list)
    for fault in report.faults:
        groups[fault.kind].append(fault)
    out = console()
    if emit is None:
        for kind, faults in groups.items():
            for fault in faults[:3]:
                out.print(f"{kind}: {fault.text}", markup=False, highlight=False, soft_wrap=True)
            if len(faults) > 3:
                out.print(f"{kind}: and {len(faults) - 3} more", markup=False, highlight=False)
        for name, dimensions in report.constant.items():
            out.print(f"constant: {name}: {', '.join(dimensions)}", markup=False, highlight=False, soft_wrap=True)
    if report.faults:
        note(f"{folder}: {len(report.faults)} faults in {report.episodes} episodes")
    else:
        note(f"{folder}: whole: {report.episodes} episodes, {report.frames} frames")
    return 1 if report.faults else 0
