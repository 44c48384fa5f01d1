"""Looks for everything that would go wrong when a dataset is trained on, before it does."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mjx_bench.errors import BenchError, unknown_name
from train.lerobot import read, schema, stats, video
from train.lerobot.read import Dataset

TIME_TOLERANCE = 1e-4  # seconds between a frame and its picture, LeRobot's own
_NUMBERS = 1e-5  # of a column's range, between statistics as written and counted
_PICTURES = 0.03  # of the brightness, the same for pictures: they were described before they were encoded
_FLAT = 1e-6  # of a column's largest number: its q01 and q99 are the same


@dataclasses.dataclass(frozen=True)
class Fault:
    """One thing that is wrong.

    Attributes:
      kind: files, features, cameras, timestamps, counts, values, statistics, videos, language or instances.
      text: what and where, in one line.
      episode: in which, None for the whole.
    """

    kind: str
    text: str
    episode: int | None = None


@dataclasses.dataclass(frozen=True)
class Report:
    """What was found.

    Attributes:
      faults: what is wrong.
      constant: column to its dimensions that never change, or hardly ever (`q01` equals `q99`), by name or number.
      episodes, frames: how many were looked at.
    """

    faults: tuple[Fault, ...]
    constant: Mapping[str, tuple[str, ...]]
    episodes: int = 0
    frames: int = 0


def check(folder: Path, *, decode: bool = True, told: Callable[[int, int], None] = lambda done, total: None) -> Report:
    """Checks a dataset.

    Args:
      folder: where it is.
      decode: look into every picture too; without, a film's index only.
      told: called with (episodes done, episodes).
    """
    try:
        dataset = read.open_dataset(folder)
    except BenchError as error:
        return Report((Fault("files", str(error)),), {})
    faults = list(_of_whole(dataset))
    columns: list[dict[str, np.ndarray]] = []
    for index in range(len(dataset.lengths)):
        try:
            own = dataset.columns(index)
        except BenchError as error:
            faults.append(Fault("files", str(error), index))
        else:
            columns.append(own)
            faults += _of_columns(dataset, index, own)
        for camera in dataset.cameras:
            faults += _of_film(dataset, index, camera, decode)
        told(index + 1, len(dataset.lengths))
    faults += _of_statistics(dataset, columns)
    return Report(tuple(faults), constant(dataset, columns), len(dataset.lengths), int(dataset.lengths.sum()))


def require(dataset: Dataset, columns: Mapping[str, Sequence[int]], cameras: Sequence[str]) -> None:
    """Refuses a dataset that lacks what is to be trained on.

    Args:
      dataset: the dataset.
      columns: name to the shape of a frame.
      cameras: names.

    Raises:
      BenchError: another camera, another column, or another shape, with the nearest names.
    """
    dataset.check_cameras(list(cameras))
    for name, shape in columns.items():
        if name not in dataset.features:
            raise unknown_name(
                f"column of {dataset.folder}", name, (n for n, f in dataset.features.items() if not f.visual)
            )
        if dataset.features[name].shape != tuple(shape):
            raise BenchError(
                f"{dataset.folder}: {name} has shape {dataset.features[name].shape}, and {tuple(shape)} is needed;"
                " choose a configuration for this robot"
            )


def constant(dataset: Dataset, columns: Sequence[Mapping[str, np.ndarray]]) -> dict[str, tuple[str, ...]]:
    """Column to its dimensions whose normalisation would divide by nothing."""
    out = {}
    for name, feature in dataset.features.items():
        own = [c[name] for c in columns if name in c]
        if feature.visual or feature.dtype in ("string", "int64", "bool") or len(feature.shape) > 1 or not own:
            continue
        values = np.concatenate(own).reshape(sum(map(len, own)), -1)
        low, high = (
            np.nanquantile(values, [0.01, 0.99], axis=0) if np.isfinite(values).any() else (values[0], values[0])
        )
        flat = np.flatnonzero(high - low <= _FLAT * np.maximum(1.0, np.abs(values).max(0)))
        if len(flat):
            labels = (
                feature.names if isinstance(feature.names, list) and len(feature.names) == values.shape[1] else None
            )
            out[name] = tuple(str(labels[i]) if labels else str(i) for i in flat)
    return out


def _of_whole(dataset: Dataset) -> Iterator[Fault]:
    known = {name for name, f in dataset.features.items() if f.dtype == "video"}
    films = dataset.folder / "videos"
    depth = "*/*" if dataset.version == schema.V21 else "*"
    there = {p.name for p in films.glob(depth) if p.is_dir()} if films.is_dir() else set()
    for name in sorted(there - known):
        close = difflib.get_close_matches(name, known, n=1)
        yield Fault("cameras", f"{films}: has films of {name}, which info.json does not name" + _meant(close))
    for name in sorted(known - there):
        close = difflib.get_close_matches(name, there, n=1)
        yield Fault("cameras", f"{films}: has no film of {name}, which info.json names" + _meant(close))
    for name, texts in (("stage", "stages"), ("subtask", "subtasks")):
        if f"{name}_index" in dataset.features and not dataset.language.get(texts):
            yield Fault("language", f"{dataset.folder}: has {name}_index, and no texts for it")
    path = dataset.folder / schema.DEMONSTRATIONS
    if path.is_file():
        yield from _of_instances(dataset, read.read_json(path))


def _meant(close: Sequence[str]) -> str:
    return f"; {close[0]}?" if close else ""


def _of_instances(dataset: Dataset, told: Mapping[str, Any]) -> Iterator[Fault]:
    allowed, kept = range(*told["training_instances"]), range(*told["evaluation_instances"])
    if max(allowed.start, kept.start) < min(allowed.stop, kept.stop):
        yield Fault("instances", f"{dataset.folder}: instances for training and for evaluation overlap")
    seen: set[tuple[str, int]] = set()
    for index, episode in enumerate(dataset.episodes):
        instance, task = episode.extra.get("instance"), str(episode.extra.get("task"))
        if instance is None:
            continue
        if instance not in allowed or instance in kept:
            yield Fault("instances", f"instance {instance} of {task} is for evaluation", index)
        if (task, instance) in seen:
            yield Fault("instances", f"instance {instance} of {task} is shown twice", index)
        seen.add((task, instance))


def _of_columns(dataset: Dataset, index: int, columns: Mapping[str, np.ndarray]) -> Iterator[Fault]:
    episode = dataset.episodes[index]
    path, count = episode.data, np.arange(episode.length)
    others = [n for n in dataset.stored_names(index) if n not in dataset.features]
    if others:
        yield Fault("features", f"{path}: has columns that info.json does not name: {', '.join(others)}", index)
    late = np.flatnonzero(~(np.abs(columns["timestamp"] - count / dataset.fps) <= TIME_TOLERANCE))
    if len(late):
        k = int(late[0])
        yield Fault(
            "timestamps",
            f"{path}: frame {k} is at {columns['timestamp'][k]:.4f} s, and belongs at {k / dataset.fps:.4f} s;"
            f" {len(late)} of {episode.length} frames are shifted",
            index,
        )
    first = int(dataset.lengths[:index].sum())
    for name, want in (("frame_index", count), ("index", first + count)):
        if not np.array_equal(columns[name], want):
            k = int(np.flatnonzero(columns[name] != want)[0])
            yield Fault("counts", f"{path}: {name} is {columns[name][k]} in frame {k}, expected {want[k]}", index)
    if not ((columns["task_index"] >= 0) & (columns["task_index"] < len(dataset.tasks))).all():
        yield Fault("counts", f"{path}: task_index goes beyond the {len(dataset.tasks)} tasks", index)
    elif lost := {dataset.tasks[i] for i in columns["task_index"]} - set(episode.tasks):
        yield Fault("counts", f"{path}: shows {min(lost)!r}, which the list of episodes does not say of it", index)
    for name, texts in (("stage_index", "stages"), ("subtask_index", "subtasks")):
        known = dataset.language.get(texts, [])
        if name in columns and known and not ((columns[name] >= 0) & (columns[name] < len(known))).all():
            yield Fault("language", f"{path}: {name} goes beyond the {len(known)} texts", index)
    for name, values in columns.items():
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            k = int(np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(1))[0])
            yield Fault("values", f"{path}: {name} is not finite in frame {k}", index)
        elif name in episode.stats and (wrong := _differing(values, episode.stats[name])) is not None:
            yield Fault("statistics", f"episode {index}: {wrong} of {name} is not that of its numbers", index)
    for name in dataset.features:
        if episode.stats and name not in episode.stats and dataset.features[name].dtype != "string":
            yield Fault("statistics", f"episode {index}: has no statistics of {name}", index)


def _differing(values: np.ndarray, told: stats.Stats) -> str | None:
    """The first statistic that is wrong."""
    own = stats.of_column(values)
    room = _NUMBERS * np.maximum(np.abs(own["max"]), np.abs(own["min"])) + 1e-9
    for name in ("count", "min", "max", "mean", "std"):
        if name not in told or told[name].shape != own[name].shape:
            return name
        if not (np.abs(told[name] - own[name]) <= (0 if name == "count" else room)).all():
            return name
    flat = values.reshape(len(values), -1).astype(np.float64)
    for name, q in zip(stats.QUANTILE_NAMES, stats.QUANTILES, strict=True):
        if name not in told:
            continue
        # Whatever the rule between two numbers, so many lie below and so many above.
        at, margin = told[name].reshape(-1), np.broadcast_to(room, own["max"].shape).reshape(-1) * 100
        below, up_to = (flat < at - margin).mean(0), (flat <= at + margin).mean(0)
        if (below > q + 1.0 / len(flat)).any() or (up_to < q - 1.0 / len(flat)).any():
            return name
    return None


def _of_film(dataset: Dataset, index: int, camera: str, decode: bool) -> Iterator[Fault]:
    episode = dataset.episodes[index]
    try:
        if dataset.features[camera].dtype == "video":
            path, start = episode.films[camera]
            shown = video.times(path)
            ends = [e for e in dataset.episodes if e.films[camera][0] == path]
            want = sum(e.length for e in ends)
            if len(shown) != want:
                yield Fault("videos", f"{path}: has {len(shown)} frames, where its episodes have {want}", index)
                return
            own = shown[np.searchsorted(shown, start - 0.5 / dataset.fps) :][: episode.length]
            apart = np.abs(own - start - np.arange(len(own)) / dataset.fps)
            if len(own) < episode.length or (apart > TIME_TOLERANCE).any():
                yield Fault("videos", f"{path}: its frames are not at the times of episode {index}'s", index)
                return
        if decode:
            found, told = stats.of_pictures(dataset.pictures(camera, index)), episode.stats.get(camera)
            # The mean alone: LeRobot 0.4 squares bytes as bytes, so that the deviations it writes are wrong.
            if (
                told
                and np.size(told["mean"]) == len(found["mean"])
                and np.abs(told["mean"].reshape(-1) - found["mean"].reshape(-1)).max() > _PICTURES
            ):
                yield Fault("statistics", f"episode {index}: those of {camera} are not those of its pictures", index)
    except BenchError as error:
        yield Fault("videos", str(error), index)


def _of_statistics(dataset: Dataset, columns: Sequence[Mapping[str, np.ndarray]]) -> Iterator[Fault]:
    """Of the whole; the quantiles may be exact, or LeRobot's mean of the episodes' own."""
    if not all(e.stats for e in dataset.episodes):
        yield Fault("statistics", f"{dataset.folder}: some episodes have no statistics")
        return
    path = dataset.folder / schema.STATS
    wrong = [stats.misfit(e.stats, dataset.features) for e in dataset.episodes]
    if any(wrong):
        yield from (Fault("statistics", f"episode {i}: {text}", i) for i, text in enumerate(wrong) if text)
        return
    if len(columns) < len(dataset.episodes) or (dataset.version == schema.V21 and not path.is_file()):
        return
    try:
        told = stats.from_json(read.read_json(path))
    except BenchError as error:
        yield Fault("statistics", str(error))
        return
    if text := stats.misfit(told, dataset.features):
        yield Fault("statistics", f"{path}: {text}")
        return
    merged = stats.merged_all([e.stats for e in dataset.episodes])
    for name, own in merged.items():
        if name not in told:
            yield Fault("statistics", f"{path}: has none of {name}")
            continue
        room = _NUMBERS * np.maximum(np.abs(own["max"]), np.abs(own["min"])) + 1e-9
        exact = None if dataset.features[name].visual else stats.of_column(np.concatenate([c[name] for c in columns]))
        for k, value in told[name].items():
            ways = [w[k] for w in (own, exact) if w is not None and k in w]
            allowed = room * (1000 if k in stats.QUANTILE_NAMES else 1)
            if k in stats.NAMES and not any(
                w.shape == value.shape and (np.abs(w - value) <= allowed).all() for w in ways
            ):
                yield Fault("statistics", f"{path}: {k} of {name} is not that of the episodes")
                break
