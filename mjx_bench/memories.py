"""Memories of checkers: tuples, perhaps of tuples, of arrays with lanes along the first axis. NumPy and JAX alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def lanes(start: Any, number: int) -> Any:
    """The memory of `number` episodes before their first sample, arrays [B, ...]."""
    return _map(lambda value: np.repeat(np.asarray(value)[None], number, axis=0), start)


def where(mask: Any, one: Any, other: Any) -> Any:
    """Of two memories of one form: the first in lanes where `mask` (bool [B]) holds, else the second."""

    def choose(a: Any, b: Any) -> Any:
        rank = max(np.ndim(a), np.ndim(b))
        wide = mask.reshape(mask.shape + (1,) * (rank - 1)) if rank > 1 else mask
        return _np(mask).where(wide, a, b).astype(getattr(a, "dtype", None) or np.asarray(b).dtype)

    return _map(choose, one, other)


def leaves(memory: Any) -> list[Any]:
    """The arrays of a memory, in order."""
    return [leaf for part in memory for leaf in leaves(part)] if isinstance(memory, tuple) else [memory]


def pack(memory: Any, row: Any) -> Any:
    """A memory of single numbers a lane, written to the front of a float array [B, n] like `row`."""
    parts = [leaf.astype(row.dtype)[:, None] for leaf in leaves(memory)]
    return _np(row).concatenate([*parts, row[:, len(parts) :]], axis=1)


def unpack(row: Any, start: Any) -> Any:
    """The inverse of `pack`, of the form of `start`."""
    columns = iter(range(row.shape[1]))
    return _map(lambda value: row[:, next(columns)].astype(value.dtype), start)


def _map(function: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """`function` of the arrays of memories of one form."""
    if not isinstance(tree, tuple):
        return function(tree, *others)
    parts = [_map(function, *values) for values in zip(tree, *others, strict=True)]
    return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)


def _np(array: Any) -> Any:
    return array.__array_namespace__()
