"""Putting an object into a place with a roof: lowered in front of it, then moved in sideways."""

from __future__ import annotations

import dataclasses

import numpy as np

from mjx_bench.task import Atom, Task
from policies.scripted import goals
from policies.scripted.grasp import obstruction, thinned
from policies.scripted.view import View

_CELL = 0.011  # metres: wider than points on furniture are apart
_STEP = 0.01  # metres
_DEPTH = 0.009  # of the object's middle behind the region's mouth, at least, metres
_OUTSIDE = 0.16  # of the object's middle before the region's mouth, metres
_LATERAL = (0.0, 0.03, -0.03, 0.06, -0.06)  # of its way from the middle, metres
_CLEAR = 0.001  # kept between the hand and everything, metres


@dataclasses.dataclass(frozen=True)
class WayIn:
    """A level way into a region.

    Attributes:
      outside: [3] of the object's origin before it goes in, world metres.
      inside: [3] where it is let go.
    """

    outside: np.ndarray
    inside: np.ndarray


def covered(view: View, atom: Atom, there: goals.Landing, body: np.ndarray) -> bool:
    """Whether what is let down on a region would come to lie on its roof."""
    if atom.predicate not in ("in", "inside"):
        return False
    centre, rot, half = view.region(atom.args[1])
    lowest = float(there.spots[:, 2].min()) + float(body[:, 2].min())
    return lowest > float(centre[2] + np.abs(rot @ half)[2]) - 0.01


class Inserting:
    """The ways into one region for one object.

    Args:
      view: the scene now.
      task, atom: what to achieve.
      body: [N, 3] the object's surface about its origin, in its present orientation.
    """

    def __init__(self, view: View, task: Task, atom: Atom, body: np.ndarray):
        centre, rot, half = view.region(atom.args[1])
        self._around = thinned(view.near(atom.args[0], centre[:2], 0.35), 0.005)
        self._body = thinned(body, 0.005)
        self._low = self._around.min(0) - _CELL
        ijk = ((self._around - self._low) / _CELL).astype(int)
        self._full = np.zeros(ijk.max(0) + 2, bool)
        self._full[tuple(ijk.T)] = True
        self._columns = goals.columns(self._around)
        # (outwards, origin at the mouth, from there to the middle, aside of it), where the object fits.
        self._lanes: list[tuple[np.ndarray, np.ndarray, float, float]] = []
        for axis in (0, 1):
            for sign in (1.0, -1.0):
                out = sign * rot[:, axis]
                reach = float(half[axis]) - _DEPTH
                for aside in _LATERAL:
                    mouth = centre + reach * out + aside * rot[:, 1 - axis]
                    height = self._floor(mouth, float(centre[2] - half[2]), float(centre[2] + half[2]))
                    if height is not None:
                        lane = np.array([mouth[0], mouth[1], height])
                        if self._free_out(lane, out):
                            self._lanes.append((out, lane, reach, abs(aside)))

    def _collides(self, origin: np.ndarray) -> bool:
        ijk = ((self._body + origin - self._low) / _CELL).astype(int)
        inside = ((ijk >= 0) & (ijk < self._full.shape)).all(1)
        return bool(self._full[tuple(ijk[inside].T)].any())

    def _floor(self, at: np.ndarray, low: float, high: float) -> float | None:
        """The lowest height of the origin at which the object is free."""
        for height in np.arange(low - 0.02, high, 0.003):
            if not self._collides(np.array([at[0], at[1], height])):
                return float(height)
        return None

    def _free_out(self, lane: np.ndarray, out: np.ndarray) -> bool:
        """Whether the object can move out level, and then up."""
        far = lane + _OUTSIDE * out
        if any(self._collides(lane + d * out) for d in np.arange(0.0, _OUTSIDE, _STEP)):
            return False
        return goals.rest_height(self._body, far[:2], self._columns) < far[2]

    def best(self, grip: np.ndarray, rot: np.ndarray, inner: float) -> tuple[float, WayIn] | None:
        """The way in for one grasp that gets farthest.

        Args:
          grip: [3] grip site relative to the object's origin.
          rot: [3, 3] hand orientation.
          inner: inner face of each finger from the middle when they let go, metres.

        Returns:
          What it costs, metres from the middle of the region; None when hand or object do not fit.
        """
        found: tuple[float, WayIn] | None = None
        for out, lane, reach, aside in self._lanes:
            for depth in np.arange(0.0, reach, _STEP):
                origin = lane - depth * out
                cost = aside + reach - float(depth)
                if obstruction(self._around, origin + grip, rot, inner) > -_CLEAR or self._collides(origin):
                    break
                if found is None or cost < found[0]:
                    found = cost, WayIn(lane + _OUTSIDE * out, origin)
        return found
