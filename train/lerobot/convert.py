"""From one version to the other, without encoding a picture again."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from mjx_bench.errors import BenchError
from train.lerobot import read, schema, stats
from train.lerobot.layouts import About, Part
from train.lerobot.read import Dataset
from train.lerobot.write import check_free, write_dataset

# Of `info.json`, what only one of the versions has.
_OF_ONE = ("total_videos", "total_chunks", "data_files_size_in_mb", "video_files_size_in_mb")
_LISTS = {schema.INFO, schema.STATS}


def convert(source: Dataset, folder: Path, version: str, told: Callable[[int], None] = lambda done: None) -> None:
    """Writes a dataset again in a version, everything that it says included.

    Args:
      source: what to convert.
      folder: new; it is there once it is whole.
      version: "v2.1" or "v3.0".
      told: called with the number of episodes done.

    Raises:
      BenchError: a source that is not whole, or a folder that is there or cannot be written.
    """
    check_free(folder)
    about = About(
        version=version,
        fps=source.fps,
        robot_type=source.robot_type,
        features=source.features,
        tasks=source.tasks,
        meta=_meta(source),
        info={k: v for k, v in source.info.items() if k not in _OF_ONE},
        described={name: _beside(source.info["features"][name]) for name in source.features},
    )
    with whole_folder(folder) as part:
        write_dataset(part, about, _parts(source), told)


@contextlib.contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A folder beside `folder` that becomes it when all went well, and is gone otherwise.

    Raises:
      BenchError: it cannot be written.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    except OSError as error:
        raise BenchError(f"{folder}: cannot write: {error.strerror or error}; choose another folder") from None
    try:
        yield part
        part.chmod(0o755)
        if folder.exists():
            folder.rmdir()
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _parts(source: Dataset) -> Iterator[Part]:
    for index, episode in enumerate(source.episodes):
        columns = source.stored(index)
        own: dict[str, stats.Stats] = dict(episode.stats)
        for camera in source.cameras:
            if camera not in own:
                own[camera] = stats.of_pictures(source.pictures(camera, index))
        yield Part(columns, episode.films, own, episode.tasks, episode.extra)


def _meta(source: Dataset) -> dict[str, Any]:
    """Files of the folder `meta` that belong to neither version, and texts of subtasks."""
    found = {f"meta/{p.name}": p for p in sorted((source.folder / "meta").glob("*.json"))}
    out = {name: read.read_json(path) for name, path in found.items() if name not in _LISTS}
    return out | ({schema.LANGUAGE: source.language} if source.language else {})


def _beside(feature: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in feature.items() if k not in ("dtype", "shape", "names")}
