"""Reads datasets of both versions: `open_dataset`, and columns and pictures of an episode when they are asked for."""

from __future__ import annotations

import dataclasses
import functools
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mjx_bench.errors import BenchError, unknown_name
from train.lerobot import schema, stats, video
from train.lerobot.schema import Feature

_FILES_HELD = 2  # of version 3.0, which has many episodes in a file


@dataclasses.dataclass(frozen=True)
class Episode:
    """Where one episode is.

    Attributes:
      length: frames.
      tasks: what it shows, in words.
      data: the parquet file; of version 3.0 it holds others too.
      films: camera to the film and the second at which the episode begins in it.
      stats: feature to statistics; empty where the dataset has none of this episode.
      extra: whatever else the dataset says of it.
    """

    length: int
    tasks: tuple[str, ...]
    data: Path
    films: Mapping[str, tuple[Path, float]]
    stats: Mapping[str, stats.Stats]
    extra: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Dataset:
    """An open dataset.

    Attributes:
      folder: where it is.
      version: "v2.1" or "v3.0".
      fps: frames a second.
      robot_type: as it says.
      features: every column and camera.
      cameras: names of the features that are pictures.
      lengths: int64 [E], frames of each episode.
      tasks: what is shown, in words, by `task_index`.
      info: `info.json`.
      episodes: where each is.
    """

    folder: Path
    version: str
    fps: float
    robot_type: str
    features: Mapping[str, Feature]
    cameras: tuple[str, ...]
    lengths: np.ndarray
    tasks: tuple[str, ...]
    info: Mapping[str, Any]
    episodes: tuple[Episode, ...]

    @functools.cached_property
    def stats(self) -> dict[str, dict[str, np.ndarray]]:
        """Feature to statistics of the whole dataset (`stats.NAMES`), without a look at any video.

        From `stats.json` where there is one. Otherwise merged from those of the episodes, and quantiles counted anew.

        Raises:
          BenchError: there are none, or an episode's are of another length than their feature.
        """
        path = self.folder / schema.STATS
        if path.is_file():
            return stats.from_json(read_json(path))
        if not all(episode.stats for episode in self.episodes):
            raise BenchError(f"{self.folder}: has no statistics; write them with mjx-bench dataset convert")
        for number, episode in enumerate(self.episodes):
            if wrong := stats.misfit(episode.stats, self.features):
                raise BenchError(f"{self.folder}: statistics of episode {number}: {wrong}")
        names = [n for n, f in self.features.items() if not f.visual and f.dtype != "string"]
        own = [self.columns(e) for e in range(len(self.episodes))]
        exact = ((name, np.concatenate([columns[name] for columns in own])) for name in names)
        return stats.of_dataset([episode.stats for episode in self.episodes], exact)

    @functools.cached_property
    def language(self) -> dict[str, list[str]]:
        """Texts of the columns `stage_index` and `subtask_index`, as `stages` and `subtasks`; empty where there are none."""
        own, theirs = self.folder / schema.LANGUAGE, self.folder / schema.SUBTASKS_30
        if own.is_file():
            return read_json(own)
        return {"subtasks": _texts(theirs, "subtask")} if theirs.is_file() else {}

    def columns(self, episode: int) -> dict[str, np.ndarray]:
        """Every column but pictures: [T, *shape], and [T] where a frame has one number.

        Raises:
          BenchError: a file that is missing or broken, or other columns or lengths than the dataset says.
        """
        table = self._table(episode)
        names = [name for name, f in self.features.items() if not f.visual]
        return {name: self._stacked(table, name, episode) for name in names}

    def pictures(self, camera: str, episode: int) -> np.ndarray:
        """uint8 [T, H, W, 3]: what a camera saw, decoded.

        Raises:
          BenchError: no such camera; a film that is missing, broken or too short; pictures of another size.
        """
        self.check_cameras([camera])
        length, feature = self.episodes[episode].length, self.features[camera]
        if feature.dtype == "video":
            path, start = self.episodes[episode].films[camera]
            frames = video.decode(path, start, length, self.fps)
        else:
            from PIL import Image

            path = self.episodes[episode].data
            stored = self._stacked(self._table(episode), camera, episode)
            frames = np.stack([np.asarray(Image.open(io.BytesIO(one["bytes"])).convert("RGB")) for one in stored])
        if frames.shape[1:] != self._shape(camera):
            h, w, _ = frames.shape[1:]
            raise BenchError(f"{path}: pictures of {w} by {h}, where info.json says {feature.shape} of {camera}")
        return frames

    def stored(self, episode: int) -> dict[str, np.ndarray]:
        """As `columns`, and the encoded pictures of cameras that are no videos."""
        table = self._table(episode)
        return {n: self._stacked(table, n, episode) for n, f in self.features.items() if f.dtype != "video"}

    def stored_names(self, episode: int) -> list[str]:
        """Names of the columns in the file of an episode, whatever `features` says."""
        return list(self._table(episode).column_names)

    def check_cameras(self, cameras: list[str]) -> None:
        """Raises `BenchError` with the nearest names for a camera that the dataset does not have."""
        for camera in cameras:
            if camera not in self.cameras:
                raise unknown_name(f"camera of {self.folder}", camera, self.cameras)

    def _shape(self, camera: str) -> tuple[int, ...]:
        """Height, width, channels; LeRobot's older datasets have the channels first."""
        shape = self.features[camera].shape
        return (*shape[1:], 3) if shape[0] == 3 and shape[-1] != 3 else shape

    def _table(self, episode: int) -> Any:
        place = self.episodes[episode]
        table = _read(place.data)
        rows = np.flatnonzero(table["episode_index"].to_numpy() == episode)
        if len(rows) != place.length or (len(rows) and rows[-1] - rows[0] + 1 != len(rows)):
            raise BenchError(
                f"{place.data}: has {len(rows)} frames of episode {episode}, where {place.length} are listed"
            )
        return table.slice(rows[0], len(rows)) if len(rows) else table.slice(0, 0)

    def _stacked(self, table: Any, name: str, episode: int) -> np.ndarray:
        path = self.episodes[episode].data
        if name not in table.column_names:
            raise BenchError(f"{path}: lacks the column {name}; it has {', '.join(table.column_names)}")
        try:
            return schema.stacked(table[name], self.features[name])
        except (BenchError, ValueError, TypeError) as error:
            raise BenchError(f"{path}: column {name}: {error}") from None


def open_dataset(folder: Path) -> Dataset:
    """Opens a dataset of either version, told by its `info.json`.

    Raises:
      BenchError: none there, one of another version, or one whose own lists do not fit together.
    """
    folder = Path(folder)
    path = folder / schema.INFO
    if not path.is_file():
        what = f"is no LeRobot dataset: it has no {schema.INFO}" if folder.is_dir() else "no such folder"
        what = "is a file" if folder.is_file() else what
        raise BenchError(f"{folder}: {what}; give the folder that mjx-bench demos, or LeRobot, wrote")
    info = read_json(path)
    version = str(info.get("codebase_version"))
    if version not in schema.VERSIONS:
        raise BenchError(
            f"{path}: version {version}; this reads {' and '.join(schema.VERSIONS)}: convert it with LeRobot"
        )
    features = schema.features_of(info, path)
    fps = info.get("fps")
    if not isinstance(fps, (int, float)) or not 0 < fps < 1e4:
        raise BenchError(f"{path}: fps = {fps!r}; give frames a second")
    tasks, episodes = (_episodes_21 if version == schema.V21 else _episodes_30)(folder, info, features)
    lengths = np.array([e.length for e in episodes], np.int64)
    for name, found in (("total_episodes", len(episodes)), ("total_frames", int(lengths.sum()))):
        if info.get(name) != found:
            raise BenchError(f"{path}: {name} = {info.get(name)}, and {found} are listed; the dataset is not whole")
    return Dataset(
        folder=folder,
        version=version,
        fps=float(fps),
        robot_type=str(info.get("robot_type") or ""),
        features=features,
        cameras=tuple(name for name, f in features.items() if f.visual),
        lengths=lengths,
        tasks=tasks,
        info=info,
        episodes=episodes,
    )


def read_json(path: Path) -> Any:
    """A JSON file.

    Raises:
      BenchError: missing or broken.
    """
    return _parsed(_text(path), path)


def _episodes_21(
    folder: Path, info: Mapping[str, Any], features: Mapping[str, Feature]
) -> tuple[tuple[str, ...], tuple[Episode, ...]]:
    tasks = _by_index(_lines(folder / schema.TASKS_21), "task_index", folder / schema.TASKS_21)
    rows = _by_index(_lines(folder / schema.EPISODES_21), "episode_index", folder / schema.EPISODES_21)
    path = folder / schema.EPISODES_STATS_21
    own = {int(row["episode_index"]): stats.from_json(row["stats"]) for row in (_lines(path) if path.is_file() else [])}
    size = int(info.get("chunks_size") or schema.CHUNK)
    episodes = []
    for index, row in enumerate(rows):
        names = {"episode_chunk": index // size, "episode_index": index}
        films = {
            camera: (folder / str(info["video_path"]).format(video_key=camera, **names), 0.0)
            for camera, f in features.items()
            if f.dtype == "video"
        }
        data = folder / str(info["data_path"]).format(**names)
        extra = {k: v for k, v in row.items() if k not in ("episode_index", "tasks", "length")}
        episodes.append(Episode(int(row["length"]), tuple(row["tasks"]), data, films, own.get(index, {}), extra))
    return tuple(str(row["task"]) for row in tasks), tuple(episodes)


def _episodes_30(
    folder: Path, info: Mapping[str, Any], features: Mapping[str, Feature]
) -> tuple[tuple[str, ...], tuple[Episode, ...]]:
    tasks = _texts(folder / schema.TASKS_30, "task")
    paths = sorted((folder / schema.EPISODES_FOLDER_30).glob("*/*.parquet"))
    if not paths:
        raise BenchError(f"{folder / schema.EPISODES_FOLDER_30}: has no parquet file; the dataset is not whole")
    rows = _by_index([row for path in paths for row in _read(path).to_pylist()], "episode_index", paths[0])
    episodes = []
    for row in rows:
        own: dict[str, dict[str, np.ndarray]] = {}
        films = {}
        for camera in (c for c, f in features.items() if f.dtype == "video"):
            at = {k: int(row[f"videos/{camera}/{k}"]) for k in ("chunk_index", "file_index")}
            film = folder / str(info["video_path"]).format(video_key=camera, **at)
            films[camera] = (film, float(row[f"videos/{camera}/from_timestamp"]))
        for key, value in row.items():
            if key.startswith("stats/") and value is not None:
                _, name, stat = key.split("/")
                own.setdefault(name, {})[stat] = np.asarray(value)
        at = {k: int(row[f"data/{k}"]) for k in ("chunk_index", "file_index")}
        extra = {k: v for k, v in row.items() if "/" not in k and k not in _LISTED_30}
        data = folder / str(info["data_path"]).format(**at)
        episodes.append(Episode(int(row["length"]), tuple(row["tasks"]), data, films, own, extra))
    return tuple(tasks), tuple(episodes)


def _texts(path: Path, name: str) -> list[str]:
    """The texts of a table that LeRobot wrote, by number; pandas calls an index without a name as below."""
    rows = _by_index(_read(path).to_pylist(), f"{name}_index", path)
    return [str(row.get(name, row.get("__index_level_0__"))) for row in rows]


_LISTED_30 = ("episode_index", "tasks", "length", "dataset_from_index", "dataset_to_index")


def _by_index(rows: list[dict[str, Any]], key: str, path: Path) -> list[dict[str, Any]]:
    """Rows in the order of their numbers, which must be 0, 1, 2, ..."""
    try:
        rows = sorted(rows, key=lambda row: int(row[key]))
    except (KeyError, TypeError):
        raise BenchError(f"{path}: a row lacks {key}") from None
    if [int(row[key]) for row in rows] != list(range(len(rows))):
        raise BenchError(f"{path}: {key} does not count 0 to {len(rows) - 1}; rows are missing or double")
    return rows


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise BenchError(f"{path}: cannot be read: {why}; the dataset is not whole") from None


def _parsed(text: str, path: Path, where: str = "") -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise BenchError(f"{path}{where}: is no JSON ({error}); the dataset is not whole") from None


def _lines(path: Path) -> list[dict[str, Any]]:
    lines = _text(path).splitlines()
    return [_parsed(line, path, f", line {i}") for i, line in enumerate(lines, 1) if line.strip()]


def _read(path: Path) -> Any:
    """A parquet file as a table."""
    if not path.is_file():
        raise BenchError(f"{path}: this file is missing; the dataset is not whole")
    return _held(str(path), path.stat().st_mtime_ns)


@functools.lru_cache(_FILES_HELD)
def _held(path: str, changed: int) -> Any:
    pa = schema.pyarrow()
    try:
        return pa.parquet.ParquetFile(path).read()
    except (pa.ArrowException, OSError, ValueError) as error:
        why = str(error).splitlines()[0]
        raise BenchError(f"{path}: is no whole parquet file ({why}); copy it again") from None
