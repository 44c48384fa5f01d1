"""Dataclasses of [B, ...] arrays whose rows can be taken out and put back: the parts of a lane's snapshot."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Self

import numpy as np


class LaneArrays:
    """Base of dataclasses whose every field is an array with lanes along the first axis."""

    def row(self: Any, lane: int) -> dict[str, np.ndarray]:
        """A copy of one lane's values, by field name."""
        return {f.name: getattr(self, f.name)[lane].copy() for f in dataclasses.fields(self)}

    def take(self, lanes: Any) -> Self:
        """The rows of some lanes: an index array, or a slice."""
        return type(self)(**{name: array[lanes] for name, array in vars(self).items()})

    def set_row(self: Any, lane: int, row: Mapping[str, np.ndarray]) -> None:
        """Puts back what `row` returned, in any lane."""
        for f in dataclasses.fields(self):
            getattr(self, f.name)[lane] = row[f.name]
