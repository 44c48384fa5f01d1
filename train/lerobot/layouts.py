"""The two layouts of files: one of each an episode, or few large ones."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from train.lerobot import schema, stats, video
from train.lerobot.schema import Feature

_MB = 1024 * 1024


@dataclasses.dataclass(frozen=True)
class Part:
    """One episode to be written.

    Attributes:
      columns: every feature but videos and those that count: [T, *shape], [T] for shape (1,); `task_index` included, and
        `timestamp` where it is not the frame's number over the frames a second.
      films: camera to a film, and the second at which the episode begins in it.
      stats: feature to statistics; those of the columns are made here where they are not given.
      tasks: what it shows, in words.
      extra: whatever else is to be said of it: numbers and texts.
    """

    columns: Mapping[str, np.ndarray]
    films: Mapping[str, tuple[Path, float]]
    stats: Mapping[str, stats.Stats]
    tasks: tuple[str, ...]
    extra: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class About:
    """What a dataset says of itself.

    Attributes:
      version: "v2.1" or "v3.0".
      fps: frames a second.
      robot_type: name of the robot.
      features: every column and camera, those of `schema.INDEXES` last.
      tasks: what is shown, by `task_index`.
      meta: path in the folder to JSON that is put there as it is.
      info: further keys of `info.json`.
      described: camera or column to what `info.json` says of it beside dtype, shape and names.
    """

    version: str
    fps: float
    robot_type: str
    features: Mapping[str, Feature]
    tasks: Sequence[str]
    meta: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    info: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    described: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)


class Files21:
    """A file an episode."""

    data_path, video_path = schema.DATA_21, schema.VIDEO_21

    def __init__(self, folder: Path, about: About) -> None:
        self._folder, self._about = folder, about
        self._episodes: list[dict[str, Any]] = []
        self._stats: list[dict[str, Any]] = []
        self.films: dict[str, Path] = {}

    def add(
        self, index: int, columns: Mapping[str, np.ndarray], length: int, part: Part, own: Mapping[str, stats.Stats]
    ) -> None:
        names = {"episode_chunk": index // schema.CHUNK, "episode_index": index}
        table = schema.table_of(columns, self._about.features)
        schema.write_parquet(self._folder / self.data_path.format(**names), table)
        for camera, (source, start) in part.films.items():
            path = self._folder / self.video_path.format(video_key=camera, **names)
            if start == 0 and len(video.times(source)) == length:
                with schema.replacing(path) as whole:
                    shutil.copyfile(source, whole)
            else:
                video.copy([(source, start, length)], path, self._about.fps)
            self.films.setdefault(camera, path)
        self._episodes.append({"episode_index": index, "tasks": list(part.tasks), "length": length, **part.extra})
        self._stats.append({"episode_index": index, "stats": stats.to_json(own)})

    def finish(self, whole: Mapping[str, stats.Stats]) -> None:
        """Writes the lists. Version 2.1 itself reads no statistics of the whole; others do, and they cost nothing."""
        tasks = [{"task_index": i, "task": task} for i, task in enumerate(self._about.tasks)]
        schema.write_lines(self._folder / schema.TASKS_21, tasks)
        schema.write_lines(self._folder / schema.EPISODES_21, self._episodes)
        schema.write_lines(self._folder / schema.EPISODES_STATS_21, self._stats)
        schema.write_json(self._folder / schema.STATS, stats.to_json(whole))

    def counted(self, episodes: int) -> dict[str, int]:
        return {"total_videos": episodes * len(self.films), "total_chunks": -(-episodes // schema.CHUNK)}


class Files30:
    """Many episodes in a file."""

    data_path, video_path = schema.DATA_30, schema.VIDEO_30

    def __init__(self, folder: Path, about: About) -> None:
        self._folder, self._about = folder, about
        self._rows: list[dict[str, Any]] = []
        self._tables: list[Any] = []
        self._data = 0
        self._stretches: dict[str, list[tuple[Path, float, int]]] = {}
        self._sizes: dict[str, float] = {}
        self._film: dict[str, int] = {}
        self.films: dict[str, Path] = {}

    def add(
        self, index: int, columns: Mapping[str, np.ndarray], length: int, part: Part, own: Mapping[str, stats.Stats]
    ) -> None:
        table = schema.table_of(columns, self._about.features)
        if self._tables and sum(t.nbytes for t in self._tables) + table.nbytes > schema.DATA_MB * _MB:
            self._write_data()
        self._tables.append(table)
        total = self._rows[-1]["dataset_to_index"] if self._rows else 0
        row: dict[str, Any] = {
            "episode_index": index,
            "tasks": list(part.tasks),
            "length": length,
            **part.extra,
            **_at("data", self._data),
            "dataset_from_index": total,
            "dataset_to_index": total + length,
        }
        for camera, (source, start) in part.films.items():
            # What a stretch of a longer film takes is guessed from its share.
            size = (
                source.stat().st_size * min(1.0, length / max(1, len(video.times(source)))) if source.is_file() else 0
            )
            if self._stretches.get(camera) and self._sizes[camera] + size > schema.VIDEO_MB * _MB:
                self._write_film(camera)
            own_film = self._stretches.setdefault(camera, [])
            before = sum(count for _, _, count in own_film) / self._about.fps
            own_film.append((source, start, length))
            self._sizes[camera] = self._sizes.get(camera, 0.0) + size
            row |= _at(f"videos/{camera}", self._film.get(camera, 0))
            row[f"videos/{camera}/from_timestamp"] = before
            row[f"videos/{camera}/to_timestamp"] = before + length / self._about.fps
        row |= {f"stats/{name}/{k}": v.tolist() for name, s in own.items() for k, v in s.items()}
        self._rows.append(row | _at("meta/episodes", 0))

    def finish(self, whole: Mapping[str, stats.Stats]) -> None:
        """Writes what is held, and the lists."""
        self._write_data()
        for camera in self._stretches:
            self._write_film(camera)
        pa = schema.pyarrow()
        names = dict.fromkeys(name for row in self._rows for name in row)
        rows = pa.table({name: [row.get(name) for row in self._rows] for name in names})
        schema.write_parquet(self._folder / schema.EPISODES_30.format(chunk_index=0, file_index=0), rows)
        schema.write_parquet(self._folder / schema.TASKS_30, named(self._about.tasks, "task"))
        subtasks = self._about.meta.get(schema.LANGUAGE, {}).get("subtasks")
        if subtasks:
            schema.write_parquet(self._folder / schema.SUBTASKS_30, named(subtasks, "subtask"))
        schema.write_json(self._folder / schema.STATS, stats.to_json(whole))

    def counted(self, episodes: int) -> dict[str, int]:
        return {"data_files_size_in_mb": schema.DATA_MB, "video_files_size_in_mb": schema.VIDEO_MB}

    def _write_data(self) -> None:
        path = self._folder / self.data_path.format(**_file(self._data))
        schema.write_parquet(path, schema.pyarrow().concat_tables(self._tables))
        self._tables, self._data = [], self._data + 1

    def _write_film(self, camera: str) -> None:
        number = self._film.get(camera, 0)
        path = self._folder / self.video_path.format(video_key=camera, **_file(number))
        video.copy(self._stretches[camera], path, self._about.fps)
        self.films.setdefault(camera, path)
        self._film[camera], self._stretches[camera], self._sizes[camera] = number + 1, [], 0.0


def named(texts: Sequence[str], name: str) -> Any:
    """Texts by number as pandas would write a table whose index they are, which is how LeRobot looks them up."""
    pa = schema.pyarrow()
    index = f"{name}_index"
    column = {"numpy_type": "int64", "pandas_type": "int64", "metadata": None}
    text = {"numpy_type": "object", "pandas_type": "unicode", "metadata": None}
    pandas = {
        "index_columns": [name],
        "column_indexes": [],
        "columns": [{"name": index, "field_name": index, **column}, {"name": name, "field_name": name, **text}],
        "creator": {"library": "pyarrow", "version": pa.__version__},
        "pandas_version": "2.0.0",
    }
    table = pa.table({index: pa.array(range(len(texts)), pa.int64()), name: pa.array(list(texts), pa.string())})
    return table.replace_schema_metadata({"pandas": json.dumps(pandas)})


def _file(number: int) -> dict[str, int]:
    return {"chunk_index": number // schema.CHUNK, "file_index": number % schema.CHUNK}


def _at(prefix: str, number: int) -> dict[str, int]:
    return {f"{prefix}/{key}": value for key, value in _file(number).items()}
