"""Pictures of a dataset, decoded once: a memory-mapped file of raw pixels a camera, for random access.

A film can only be read in order. The files lie in the cache, under a name made from what the films are; another dataset,
or the same one changed, has another name.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np

from kernels.resize import resize_with_pad
from mjx_bench.errors import BenchError
from mjx_bench.runtime import cache_root
from train.lerobot.read import Dataset


@dataclasses.dataclass(frozen=True)
class Pictures:
    """uint8 [N, side, side, 3] on the disk; another process that is given this opens the file itself.

    Attributes:
      path: of the file.
      shape: of all pictures.
    """

    path: Path
    shape: tuple[int, int, int, int]

    @functools.cached_property
    def _pixels(self) -> np.ndarray:
        return np.memmap(self.path, np.uint8, "r", shape=self.shape)

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        """uint8 [B, side, side, 3] of these frames, int64 [B]."""
        return self._pixels[rows]

    def __reduce__(self) -> tuple[type[Pictures], tuple[Path, tuple[int, int, int, int]]]:
        return Pictures, (self.path, self.shape)


def pictures(dataset: Dataset, camera: str, side: int, progress: Callable[[str], None] | None = None) -> Pictures:
    """Of all frames, episode after episode.

    Args:
      dataset: an open one.
      camera: one of its cameras.
      side: pixels; pictures of another size are resized as they are before a query.
      progress: is told, in a line, when films are decoded.

    Raises:
      BenchError: a film that is missing or broken, or a disk without room for the pixels.
    """
    frames = int(dataset.lengths.sum())
    path = cache_root() / "frames" / f"{_key(dataset, camera, side)}.u8"
    size = frames * side * side * 3
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        if (free := shutil.disk_usage(path.parent).free) < size:
            raise BenchError(
                f"{path.parent}: the decoded pictures of {camera} take {size / 1e9:.1f} GB, and {free / 1e9:.1f} GB are"
                " free; set MJX_BENCH_CACHE to a folder with room"
            )
        if progress is not None:
            progress(f"decoding {camera} of {dataset.folder}: {frames} pictures, once ({size / 1e6:.0f} MB)")
        # Under a name of this process: another training may be decoding the same films.
        partial = path.with_suffix(f".{os.getpid()}.partial")
        try:
            with partial.open("wb") as file:
                for episode in range(len(dataset.lengths)):
                    file.write(resize_with_pad(dataset.pictures(camera, episode), side, side).tobytes())
            if (written := partial.stat().st_size) != size:
                raise BenchError(
                    f"{dataset.folder}: {camera} has {written // (side * side * 3)} pictures, not {frames}"
                )
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    return Pictures(path, (frames, side, side, 3))


def _key(dataset: Dataset, camera: str, side: int) -> str:
    films = {str(path) for episode in dataset.episodes for path, _ in [episode.films.get(camera, (episode.data, 0.0))]}
    try:
        stats = [(path, Path(path).stat().st_size, Path(path).stat().st_mtime_ns) for path in sorted(films)]
    except OSError as error:
        raise BenchError(
            f"{error.filename}: a film of {camera} is missing; check it with mjx-bench dataset check"
        ) from None
    said = json.dumps([str(dataset.folder.resolve()), camera, side, dataset.lengths.tolist(), stats])
    return hashlib.sha256(said.encode()).hexdigest()[:24]
