"""Faults of cameras, as LIBERO-MAX's `set_sensor_corruption` and `set_lighting` make them.

A frame is one picture of every camera at one control step. Its numbers come from one `RandomState`, which the cameras use
one after another in the order of the observation. Of each picture, in this order:

1. as float32, times the brightness. By 0.75 or 1.25 a grey level stays exact;
2. where there is noise, plus normal(0, std) for every number of the picture, row by row. The draw is a double, the sum is
   taken in double and rounded to float32 once;
3. where there is an occlusion of fraction f, a rectangle of round(H sqrt f) by round(W sqrt f) pixels, at least one each,
   becomes zero. `randint` draws its first row, then its first column;
4. clipped to 0 to 255 and cut off to a whole grey level.

What is zero draws nothing: without noise, the rectangle's place is the first draw. Rows are counted as the pictures lie in
the observation; LIBERO's lie there upside down.

`spoil_frame` is the reference; `spoil` gives the same bits and takes 0.40 of its time (two cameras at 256 pixels a side on
one CPU), because nearly all of it goes into the draws.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numba
import numpy as np

from kernels.legacy_random import CHUNK, Array, Stream, integer, normals, stream


@dataclasses.dataclass(frozen=True)
class Fault:
    """What is wrong with a frame.

    Attributes:
      seed: of the frame's generator, 32 bits.
      noise_std: grey levels.
      occlusion_fraction: of the picture's area.
      brightness: what grey levels are multiplied by.
    """

    seed: int = 0
    noise_std: float = 0.0
    occlusion_fraction: float = 0.0
    brightness: float = 1.0


def rectangle_size(height: int, width: int, fraction: float) -> tuple[int, int]:
    """Height and width, in pixels, of the rectangle that covers `fraction` of a picture."""
    side = math.sqrt(fraction)
    return max(1, round(height * side)), max(1, round(width * side))


def spoil_frame(pictures: Sequence[np.ndarray], fault: Fault) -> list[np.ndarray]:
    """One frame in plain NumPy.

    Args:
      pictures: uint8 [H, W, C] of every camera, in the order in which they draw.
    """
    rng = np.random.RandomState(fault.seed)
    out = []
    for picture in pictures:
        work = picture.astype(np.float32)
        work *= np.float32(fault.brightness)
        if fault.noise_std:
            work += rng.normal(0.0, fault.noise_std, work.shape)
        if fault.occlusion_fraction:
            height, width = picture.shape[:2]
            rows, columns = rectangle_size(height, width, fault.occlusion_fraction)
            top = rng.randint(0, height - rows + 1)
            left = rng.randint(0, width - columns + 1)
            work[top : top + rows, left : left + columns] = 0
        out.append(np.clip(work, 0, 255).astype(np.uint8))
    return out


def spoil(cameras: Sequence[np.ndarray | None], faults: Sequence[Fault]) -> list[np.ndarray | None]:
    """Frames of `n` lanes, each with its own fault.

    Args:
      cameras: uint8 [n, H, W, C] of every camera, in the order in which they draw. None stands for a camera whose pictures
        nobody asked for: its draws are taken all the same.
      faults: n of them.

    Returns:
      uint8 [n, H, W, C] of every camera, None where it was None.

    Raises:
      ValueError: cameras of unequal shapes or another type, or a seed outside 32 bits.
    """
    shown = [c for c in cameras if c is not None]
    if not shown:
        return list(cameras)
    _check(shown, len(faults))
    _, height, width, _ = shown[0].shape
    out = [None if c is None else np.empty(c.shape, np.uint8) for c in cameras]
    # Nobody sees what is drawn after the last camera that is shown.
    last = max(i for i, c in enumerate(cameras) if c is not None)
    unseen, chunk = np.empty(shown[0].shape[1:], np.uint8), np.empty(CHUNK)
    for lane, fault in enumerate(faults):
        source = stream(fault.seed)
        rows, columns = 0, 0
        if fault.occlusion_fraction:
            rows, columns = rectangle_size(height, width, fault.occlusion_fraction)
        for before, after in zip(cameras[: last + 1], out, strict=False):
            picture = unseen if before is None else np.ascontiguousarray(before[lane])
            target = unseen if after is None else after[lane]
            _spoil(source, picture, np.float32(fault.brightness), fault.noise_std, rows, columns, chunk, target)
    return out


def _check(cameras: Sequence[np.ndarray], lanes: int) -> None:
    kinds = {f"{c.dtype} {list(c.shape)}" for c in cameras}
    if len(kinds) > 1 or cameras[0].dtype != np.uint8 or cameras[0].ndim != 4:
        raise ValueError(
            f"the cameras of a frame must be uint8 [n, H, W, C] of one size, not {' and '.join(sorted(kinds))}"
        )
    if len(cameras[0]) != lanes:
        raise ValueError(f"{lanes} faults for {len(cameras[0])} lanes")


@numba.njit(cache=True, nogil=True)
def _spoil(
    source: Stream,
    picture: Array,
    brightness: np.float32,
    noise_std: float,
    rows: int,
    columns: int,
    chunk: Array,
    out: Array,
) -> None:
    """One picture; noise is added as it comes, because writing a picture's worth of doubles down costs more."""
    height, width = picture.shape[:2]
    before, after = picture.reshape(-1), out.reshape(-1)
    done = 0
    while done < before.size:
        n = before.size - done
        if noise_std != 0.0:
            n = normals(source, n, chunk)
            was, is_now = before[done : done + n], after[done : done + n]
            for k in range(n):
                lit = np.float64(np.float32(was[k]) * brightness)
                is_now[k] = _grey_level(np.float32(lit + (0.0 + noise_std * chunk[k])))
        else:
            for k in range(n):
                after[k] = _grey_level(np.float32(before[k]) * brightness)
        done += n
    if rows > 0:
        top = integer(source, height - rows + 1)
        left = integer(source, width - columns + 1)
        out[top : top + rows, left : left + columns] = 0


@numba.njit(cache=True, nogil=True, inline="always")
def _grey_level(x: Any) -> Any:
    return np.uint8(np.int32(min(max(x, np.float32(0.0)), np.float32(255.0))))
