"""What LeRobot's two versions have in common: features, columns that every dataset has, names of files."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from mjx_bench.errors import BenchError, MissingExtra

V21, V30 = "v2.1", "v3.0"
VERSIONS = (V21, V30)

INFO = "meta/info.json"
STATS = "meta/stats.json"  # which version 2.1 may lack
LANGUAGE = "meta/language.json"  # ours: texts of stage_index and subtask_index
DEMONSTRATIONS = "meta/demonstrations.json"  # ours: where the episodes come from

EPISODES_21, EPISODES_STATS_21, TASKS_21 = "meta/episodes.jsonl", "meta/episodes_stats.jsonl", "meta/tasks.jsonl"
DATA_21 = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"
VIDEO_21 = "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4"

EPISODES_FOLDER_30, TASKS_30, SUBTASKS_30 = "meta/episodes", "meta/tasks.parquet", "meta/subtasks.parquet"
EPISODES_30 = "meta/episodes/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
DATA_30 = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO_30 = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"

CHUNK = 1000  # episodes in a folder of version 2.1, files in one of version 3.0
DATA_MB, VIDEO_MB = 100, 200  # size of a file of version 3.0, at most, where an episode does not need more by itself

VISUAL = ("video", "image")


@dataclasses.dataclass(frozen=True)
class Feature:
    """One column of a dataset, or one camera.

    Attributes:
      dtype: NumPy's name of the numbers, or "string"; "video" or "image" for a camera.
      shape: of one frame; a camera's is (height, width, 3).
      names: of the dimensions, as `info.json` has them; a list, a dict of lists, or None.
    """

    dtype: str
    shape: tuple[int, ...]
    names: Any = None

    @property
    def visual(self) -> bool:
        """Whether it is a camera."""
        return self.dtype in VISUAL

    @property
    def scalar(self) -> bool:
        """Whether a frame has one number of it: LeRobot stores shape (1,) without a dimension."""
        return self.shape == (1,) and not self.visual

    def json(self) -> dict[str, Any]:
        """As in `info.json`."""
        return {"dtype": self.dtype, "shape": list(self.shape), "names": self.names}


# Columns of every dataset, last in the file; LeRobot's writers add them by themselves.
INDEXES = {
    "timestamp": Feature("float32", (1,)),
    "frame_index": Feature("int64", (1,)),
    "episode_index": Feature("int64", (1,)),
    "index": Feature("int64", (1,)),
    "task_index": Feature("int64", (1,)),
}


def features_of(info: Mapping[str, Any], where: Path) -> dict[str, Feature]:
    """The features of an `info.json`.

    Raises:
      BenchError: something else than LeRobot's form.
    """
    try:
        out = {
            name: Feature(str(f["dtype"]), tuple(int(n) for n in f["shape"]), f.get("names"))
            for name, f in info["features"].items()
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BenchError(
            f"{where}: its features are not LeRobot's ({type(error).__name__}: {error}); each needs dtype and shape"
        ) from None
    if missing := [name for name in INDEXES if name not in out]:
        raise BenchError(f"{where}: features lack {', '.join(missing)}, which every LeRobot dataset has")
    return out


def pyarrow() -> ModuleType:
    """The package pyarrow with its parquet part.

    Raises:
      MissingExtra: it is not installed.
    """
    try:
        importlib.import_module("pyarrow.parquet")
        return importlib.import_module("pyarrow")
    except ModuleNotFoundError as error:
        raise MissingExtra(f"datasets need {error.name}: pip install -e '.[train]'") from None


def stacked(column: Any, feature: Feature) -> np.ndarray:
    """A pyarrow column as an array [T, *shape], [T] for shape (1,); strings and pictures' bytes as objects [T].

    Raises:
      BenchError: rows of another shape.
    """
    if feature.dtype == "string" or feature.visual:
        out = np.empty(len(column), object)
        out[:] = column.to_pylist()
        return out
    flat, lists = column.combine_chunks(), 0
    if hasattr(flat, "storage"):  # Hugging Face's type of two dimensions and more
        flat = flat.storage
    while hasattr(flat, "flatten") and hasattr(flat.type, "value_type"):
        flat, lists = flat.flatten(), lists + 1
    shape = (len(column),) if feature.scalar and not lists else (len(column), *feature.shape)
    values = flat.to_numpy(zero_copy_only=False)
    if values.size != int(np.prod(shape)):
        raise BenchError(f"has {values.size} numbers in {len(column)} frames, where info.json says {feature.shape}")
    values = values.astype(feature.dtype, copy=False).reshape(shape)
    return values[:, 0] if feature.scalar and lists else values


def unstacked(values: np.ndarray, feature: Feature) -> Any:
    """The opposite of `stacked`: a pyarrow array, of fixed-size lists for a vector, as LeRobot's writers have it."""
    pa = pyarrow()
    if feature.dtype == "image":
        return pa.array(list(values), pa.struct([("bytes", pa.binary()), ("path", pa.string())]))
    if feature.dtype == "string":
        return pa.array([str(v) for v in values], pa.string())
    out = pa.array(np.ascontiguousarray(values).reshape(-1), pa.from_numpy_dtype(np.dtype(feature.dtype)))
    if feature.scalar:
        return out
    if len(feature.shape) == 1:
        return pa.FixedSizeListArray.from_arrays(out, feature.shape[0])
    for size in reversed(feature.shape):
        count = len(out) // size
        out = pa.ListArray.from_arrays(pa.array(np.arange(count + 1) * size, pa.int32()), out)
    return out


def table_of(columns: Mapping[str, np.ndarray], features: Mapping[str, Feature]) -> Any:
    """A pyarrow table of columns, in the order of `features`."""
    pa = pyarrow()
    stored = [name for name, f in features.items() if f.dtype != "video"]
    return pa.table({name: unstacked(columns[name], features[name]) for name in stored})


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path beside `path` that takes its place when all went well, and is gone otherwise.

    Raises:
      BenchError: it cannot be written, a full disk included.
    """
    part = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.stem}.", suffix=path.suffix, dir=path.parent)
        os.close(handle)
        part = Path(name)
        yield part
        part.chmod(0o644)  # as any file, where mkstemp's are private
        with part.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        raise BenchError(
            f"{path}: cannot write: {error.strerror or error}; free space or the path, or choose another folder"
        ) from None
    finally:
        if part is not None:
            part.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Writes JSON as LeRobot does."""
    with replacing(path) as part:
        part.write_text(json.dumps(value, indent=4, ensure_ascii=False) + "\n", encoding="utf-8")


def write_lines(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes a JSON object a line."""
    with replacing(path) as part:
        part.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def write_parquet(path: Path, table: Any) -> None:
    """Writes a table, compressed as LeRobot's are; the same table gives the same bytes."""
    with replacing(path) as part:
        pyarrow().parquet.write_table(table, part, compression="snappy")
