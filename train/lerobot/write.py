"""Writes datasets of both versions from episodes that are ready: columns, and films as files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from mjx_bench.errors import BenchError
from train.lerobot import schema, stats, video
from train.lerobot.layouts import About, Files21, Files30, Part
from train.lerobot.schema import V21


def check_free(folder: Path) -> None:
    """Raises `BenchError` where a dataset, or anything else, is in the way."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BenchError(f"{folder}: is there already; give a folder that is not, or an empty one")


def write_dataset(
    folder: Path, about: About, parts: Iterable[Part], told: Callable[[int], None] = lambda done: None
) -> None:
    """Writes a dataset; `info.json`, without which nothing reads it, comes last.

    Args:
      folder: where to.
      about: what it says of itself.
      parts: the episodes, in order; looked at once.
      told: called with the number of episodes done.

    Raises:
      BenchError: an episode that does not fit the features or is not finite, a film that is missing or too short, or a file
        that cannot be written.
    """
    made = (Files21 if about.version == V21 else Files30)(folder, about)
    total, whole = 0, []
    exact: dict[str, list[np.ndarray]] = {}
    for index, part in enumerate(parts):
        columns, length = _completed(part, index, total, about)
        described: dict[str, stats.Stats] = {**stats.of_columns(columns, about.features), **part.stats}
        own = {name: described[name] for name in about.features if name in described}
        made.add(index, columns, length, part, own)
        for name, values in columns.items():
            if about.features[name].dtype not in ("string", "image"):
                exact.setdefault(name, []).append(values)
        whole.append(own)
        total += length
        told(index + 1)
    if not whole:
        raise BenchError(f"{folder}: there is no episode to write")
    made.finish(stats.of_dataset(whole, ((name, np.concatenate(rows)) for name, rows in exact.items())))
    for name, value in about.meta.items():
        schema.write_json(folder / name, value)
    features = {name: f.json() | dict(about.described.get(name, {})) for name, f in about.features.items()}
    for camera, path in made.films.items():
        features[camera].setdefault("info", video.facts(path))
    fps = int(about.fps) if float(about.fps).is_integer() else about.fps
    counted = {
        "codebase_version": about.version,
        "robot_type": about.robot_type,
        "total_episodes": len(whole),
        "total_frames": total,
        "total_tasks": len(about.tasks),
        **made.counted(len(whole)),
        "chunks_size": schema.CHUNK,
        "fps": fps,
        "splits": {"train": f"0:{len(whole)}"},
        "data_path": made.data_path,
        "video_path": made.video_path if made.films else None,
        "features": features,
    }
    schema.write_json(folder / schema.INFO, counted | {k: v for k, v in about.info.items() if k not in counted})


def _completed(part: Part, index: int, total: int, about: About) -> tuple[dict[str, np.ndarray], int]:
    """All stored columns in the features' order, and the number of frames."""
    length = len(part.columns["task_index"])
    count = np.arange(length)
    counted = {
        "timestamp": (count / about.fps).astype(np.float32),
        **part.columns,
        "frame_index": count,
        "episode_index": np.full(length, index),
        "index": total + count,
    }
    out = {}
    for name, feature in about.features.items():
        if feature.dtype == "video":
            if name not in part.films:
                raise BenchError(f"episode {index}: has no film of {name}")
            continue
        if name not in counted:
            raise BenchError(f"episode {index}: lacks {name}")
        values = counted[name]
        if feature.dtype not in ("string", "image"):
            values = np.asarray(values).astype(feature.dtype, copy=False)
            want = (length,) if feature.scalar else (length, *feature.shape)
            if values.shape != want:
                raise BenchError(f"episode {index}: {name} has shape {values.shape}, expected {want}")
            if values.dtype.kind == "f" and not np.isfinite(values).all():
                frame = int(np.flatnonzero(~np.isfinite(values.reshape(length, -1)).all(1))[0])
                raise BenchError(f"episode {index}: {name} is not finite in frame {frame}")
        out[name] = values
    return out, length
