"""Normalisation of states and actions: what the model reads and writes lies around [-1, 1].

The formulas are openpi's: z-scores for pi0, quantiles for every other model, nothing clipped. A dimension that hardly varies
in the data would be blown up by them, to thousands for a deviation of a millimetre: it is normalised to the one value that
the formula gives for the constant itself.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from mjx_bench.errors import BenchError

Kind = Literal["quantile", "zscore"]

# What a dimension must at least span (quantiles) or deviate by (z-score), in its own unit; less counts as constant.
FLAT = 1e-4

_EPSILON = 1e-6
_FIELDS: dict[Kind, tuple[str, str]] = {"quantile": ("q01", "q99"), "zscore": ("mean", "std")}


@dataclasses.dataclass(frozen=True)
class Scale:
    """The statistics of one vector that its kind of normalisation needs.

    Attributes:
      kind: "quantile" or "zscore".
      low: [n] first percentile, or mean.
      span: [n] from the first to the 99th percentile, or standard deviation.
      features: names of the n dimensions, if they are known.
    """

    kind: Kind
    low: np.ndarray
    span: np.ndarray
    features: tuple[str, ...] | None = None

    @property
    def flat(self) -> np.ndarray:
        """Bool [n], the dimensions that count as constant."""
        return self.span < FLAT

    def check(self, what: str, features: Sequence[str]) -> None:
        """Refuses statistics of other features than these.

        Raises:
          BenchError: with the first feature that differs, or the numbers.
        """
        if self.features is None:
            if len(self.low) < len(features):
                raise BenchError(f"{what}: statistics of {len(self.low)} dimensions, and {len(features)} are needed")
        elif self.features != tuple(features):
            pairs = zip((*self.features, None), (*features, None), strict=False)
            theirs, ours = next(pair for pair in pairs if pair[0] != pair[1])
            raise BenchError(f"{what}: the statistics were made from {theirs}, where {ours} is needed")

    def normalise(self, x: np.ndarray) -> np.ndarray:
        """[..., m] with m <= n in its own units to float64 [..., m]."""
        low, span = self.low[: x.shape[-1]], self.span[: x.shape[-1]]
        ratio = np.where(self.flat[: x.shape[-1]], 0.0, (x - low) / (span + _EPSILON))
        return ratio * 2.0 - 1.0 if self.kind == "quantile" else ratio

    def restore(self, y: np.ndarray) -> np.ndarray:
        """The way back, for [..., m] with m of any size: dimensions without statistics stay as they are."""
        known = min(y.shape[-1], len(self.low))
        ratio = (y[..., :known] + 1.0) / 2.0 if self.kind == "quantile" else y[..., :known]
        restored = ratio * (self.span[:known] + _EPSILON) + self.low[:known]
        if self.kind == "zscore":  # openpi pads the deviation with one, and adds epsilon to it
            return np.concatenate([restored, y[..., known:] * (1.0 + _EPSILON)], -1)
        return np.concatenate([restored, y[..., known:]], -1)


@dataclasses.dataclass(frozen=True)
class Statistics:
    """Of a dataset's states and actions.

    Attributes:
      tables: "state" and "actions" to mean, std, q01 and q99, each [n] or None, as the file has them.
      kind: what the model that they belong to was trained with; None where the file does not say.
      features: "state" and "actions" to the names of their dimensions; empty where the file does not say.
    """

    tables: Mapping[str, Mapping[str, Sequence[float] | None]]
    kind: Kind | None = None
    features: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)

    def scale(self, vector: Literal["state", "actions"], kind: Kind) -> Scale:
        """What normalises one of the vectors.

        Raises:
          BenchError: statistics of another kind, without the numbers that this kind needs, or with impossible ones.
        """
        if self.kind not in (None, kind):
            raise BenchError(f"statistics of kind {self.kind}, and the model is normalised by {kind}")
        if vector not in self.tables:
            raise BenchError(f"no statistics of {vector!r}; there are {', '.join(self.tables) or 'none'}")
        first, second = (self._column(vector, name) for name in _FIELDS[kind])
        if first.shape != second.shape:
            raise BenchError(f"statistics of {vector}: {len(first)} and {len(second)} numbers")
        span = second - first if kind == "quantile" else second
        if (span < 0.0).any():
            names = "q99 below q01" if kind == "quantile" else "a negative deviation"
            raise BenchError(f"statistics of {vector}: {names} in dimension {int(np.argmax(span < 0.0))}")
        names_known = self.features.get(vector)
        if names_known is not None and len(names_known) != len(first):
            raise BenchError(f"statistics of {vector}: {len(first)} numbers for {len(names_known)} features")
        return Scale(kind, first, span, names_known)

    def _column(self, vector: str, name: str) -> np.ndarray:
        values = self.tables[vector].get(name)
        if values is None:
            raise BenchError(f"statistics of {vector} have no {name}")
        try:
            column = np.asarray(values, np.float64)
        except (TypeError, ValueError):
            column = np.zeros((0, 0))
        if column.ndim != 1 or not np.isfinite(column).all():
            raise BenchError(f"statistics of {vector}: {name} is no list of finite numbers")
        return column


def unit(state: Sequence[str], actions: Sequence[str]) -> Statistics:
    """Statistics of vectors that lie in [-1, 1] already: what a model without data is run with."""
    tables = {
        vector: {"mean": [0.0] * n, "std": [1.0] * n, "q01": [-1.0] * n, "q99": [1.0] * n}
        for vector, n in (("state", len(state)), ("actions", len(actions)))
    }
    return Statistics(tables, None, {"state": tuple(state), "actions": tuple(actions)})


def read(path: Path) -> Statistics:
    """Reads `norm_stats.json`, openpi's or ours.

    Raises:
      BenchError: no such file, or another one.
    """
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
        tables = data["norm_stats"]
        columns = {
            vector: {name: table.get(name) for name in ("mean", "std", "q01", "q99")}
            for vector, table in tables.items()
        }
        features = {vector: tuple(map(str, names)) for vector, names in data.get("features", {}).items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BenchError(f"{path}: no statistics as openpi writes them: {type(error).__name__}: {error}") from None
    kind = data.get("kind")
    if kind not in (None, *_FIELDS):
        raise BenchError(f"{path}: statistics of unknown kind {kind!r}; known: {', '.join(_FIELDS)}")
    return Statistics(columns, kind, features)


def write(path: Path, statistics: Statistics) -> None:
    """Writes openpi's file, with the kind and the features beside what openpi reads."""
    data: dict[str, Any] = {"norm_stats": {v: dict(table) for v, table in statistics.tables.items()}}
    if statistics.kind is not None:
        data["kind"] = statistics.kind
    if statistics.features:
        data["features"] = {vector: list(names) for vector, names in statistics.features.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=1, default=_number) + "\n", encoding="utf-8")


def _number(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.floating) and math.isfinite(value):
        return float(value)
    raise TypeError(f"{type(value).__name__} in statistics")
