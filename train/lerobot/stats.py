"""Statistics of columns and pictures, as LeRobot 0.4 has them, with exact quantiles."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from train.lerobot.schema import VISUAL, Feature

QUANTILES = (0.01, 0.1, 0.5, 0.9, 0.99)
QUANTILE_NAMES = tuple(f"q{round(100 * q):02d}" for q in QUANTILES)
NAMES = ("min", "max", "mean", "std", "count", *QUANTILE_NAMES)

Stats = Mapping[str, np.ndarray]

# Frames whose pictures are looked at, of an episode of n: all up to 100, and then n ** 0.75, up to 10,000.
_ALL, _MOST, _POWER = 100, 10_000, 0.75
_WIDE, _NARROW = 300, 150  # pixels: a wider picture is thinned to about the second


def of_column(values: np.ndarray) -> dict[str, np.ndarray]:
    """Statistics over frames.

    Args:
      values: [T, ...] numbers or booleans.

    Returns:
      float64 [...] each, [1] for one number a frame; `count`, int64 [1], is T.
    """
    numbers = values.astype(np.float64)
    numbers = numbers[:, None] if numbers.ndim == 1 else numbers
    return _described(numbers, len(values))


def of_pictures(frames: np.ndarray) -> dict[str, np.ndarray]:
    """Statistics over some of an episode's pictures, spread evenly.

    Args:
      frames: uint8 [T, H, W, 3].

    Returns:
      float64 [3, 1, 1] each, black 0 and white 1; `count`, int64 [1], is the number of pictures looked at.
    """
    shown = frames[sampled(len(frames))]
    height, width = shown.shape[1:3]
    if max(height, width) >= _WIDE:
        step = max(1, int((width if width > height else height) / _NARROW))
        shown = shown[:, ::step, ::step]
    # The 256 values of a byte, counted: several times as fast as sorting pixels.
    counts = np.stack([np.bincount(shown[..., c].ravel(), minlength=256) for c in range(3)])
    levels, total = np.arange(256) / 255.0, counts[0].sum()
    below = np.cumsum(counts, 1)
    mean = counts @ levels / total
    variance = (counts * (levels - mean[:, None]) ** 2).sum(1) / total
    out = {
        "min": levels[(counts > 0).argmax(1)],
        "max": levels[255 - (counts[:, ::-1] > 0).argmax(1)],
        "mean": mean,
        "std": np.sqrt(variance),
    }
    for name, q in zip(QUANTILE_NAMES, QUANTILES, strict=True):
        out[name] = levels[(below > q * (total - 1)).argmax(1)]
    return {name: value.reshape(3, 1, 1) for name, value in out.items()} | {"count": np.array([len(shown)])}


def sampled(length: int) -> np.ndarray:
    """int [n]: the frames of an episode whose pictures count, LeRobot's own choice."""
    count = max(min(_ALL, length), min(int(length**_POWER), _MOST))
    return np.round(np.linspace(0, length - 1, count)).astype(int)


def of_columns(columns: Mapping[str, np.ndarray], features: Mapping[str, Feature]) -> dict[str, dict[str, np.ndarray]]:
    """Feature to statistics; text and pictures have none."""
    numbers = {name for name, f in features.items() if f.dtype not in ("string", *VISUAL)}
    return {name: of_column(values) for name, values in columns.items() if name in numbers}


def merged(parts: Sequence[Stats]) -> dict[str, np.ndarray]:
    """Statistics of all episodes from those of each: exact but for the quantiles, which are LeRobot's weighted means."""
    counts = np.array([float(part["count"][0]) for part in parts])
    total = counts.sum()

    def weighted(values: np.ndarray) -> np.ndarray:
        return np.tensordot(counts, values, 1) / total

    means = np.stack([part["mean"] for part in parts])
    mean = weighted(means)
    spread = np.stack([np.square(part["std"]) for part in parts]) + np.square(means - mean)
    out = {
        "min": np.min([part["min"] for part in parts], 0),
        "max": np.max([part["max"] for part in parts], 0),
        "mean": mean,
        "std": np.sqrt(weighted(spread)),
        "count": np.array([int(total)]),
    }
    for name in QUANTILE_NAMES:
        if all(name in part for part in parts):
            out[name] = weighted(np.stack([part[name] for part in parts]))
    return out


def merged_all(parts: Sequence[Mapping[str, Stats]]) -> dict[str, dict[str, np.ndarray]]:
    """`merged` of every feature that all episodes have statistics of."""
    return {name: merged([part[name] for part in parts]) for name in parts[0] if all(name in part for part in parts)}


def of_dataset(
    parts: Sequence[Mapping[str, Stats]], columns: Iterable[tuple[str, np.ndarray]]
) -> dict[str, dict[str, np.ndarray]]:
    """Statistics of a whole dataset.

    Args:
      parts: of each episode.
      columns: name and all frames' numbers, of the columns whose quantiles are to be exact.
    """
    return merged_all(parts) | {name: of_column(values) for name, values in columns}


def misfit(told: Mapping[str, Stats], features: Mapping[str, Feature]) -> str | None:
    """The first statistic that does not have a number for each dimension of its feature (of pictures, each colour)."""
    for name in (name for name in features if name in told):
        size = 3 if features[name].visual else math.prod(features[name].shape)
        for k in NAMES:
            if k in told[name] and (found := np.size(told[name][k])) != (want := 1 if k == "count" else size):
                return (
                    f"{k} of {name} has {found} numbers, where {want} are needed; take those of {name} out, and they"
                    " are counted again"
                )
    return None


def from_json(value: Mapping[str, Any]) -> dict[str, dict[str, np.ndarray]]:
    """Feature to statistics, of what a file has as lists."""
    return {name: {k: np.asarray(v) for k, v in own.items()} for name, own in value.items()}


def to_json(stats: Mapping[str, Stats]) -> dict[str, dict[str, list[Any]]]:
    """The opposite of `from_json`."""
    return {name: {k: np.asarray(v).tolist() for k, v in own.items()} for name, own in stats.items()}


def _described(values: np.ndarray, count: int) -> dict[str, np.ndarray]:
    quantiles = np.quantile(values, QUANTILES, axis=0)
    return {
        "min": values.min(0),
        "max": values.max(0),
        "mean": values.mean(0),
        "std": values.std(0),
        "count": np.array([count]),
        **dict(zip(QUANTILE_NAMES, quantiles, strict=True)),
    }
