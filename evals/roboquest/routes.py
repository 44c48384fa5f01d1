"""Ways for the robot's base through a kitchen: a grid search over where its frame may be, whichever way it is turned."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable

import numpy as np

from evals.roboquest.kitchen import Kitchen, clear_of
from evals.roboquest.robot import ASIDE, BEHIND

Point = tuple[float, float]

# A disc around the base's frame that holds its footprint, whichever way it is turned, and some more; metres.
TURNING = math.hypot(BEHIND, ASIDE) + 0.03
_CELL = 0.1  # metres


def free(k: Kitchen, at: Point) -> bool:
    """Whether the base may turn here."""
    return clear_of(k, at[0], at[1], TURNING)


def straight(k: Kitchen, a: Point, b: Point) -> bool:
    """Whether the base may go from one point to another without a bend."""
    steps = max(1, math.ceil(math.dist(a, b) / 0.05))
    return all(free(k, (a[0] + (b[0] - a[0]) * i / steps, a[1] + (b[1] - a[1]) * i / steps)) for i in range(steps + 1))


def route(k: Kitchen, start: Point, goal: Point) -> list[Point] | None:
    """Points on the way from a free point to another, with neither of them, no more than it takes; None without a way."""
    found = _search(lambda p: free(k, p), start, goal)
    if found is None:
        return None
    way, kept = [start, *found, goal], [0]
    while kept[-1] < len(way) - 1:
        ahead = range(len(way) - 1, kept[-1], -1)
        kept.append(next((i for i in ahead if straight(k, way[kept[-1]], way[i])), kept[-1] + 1))
    return [way[i] for i in kept[1:-1]]


def _search(open_: Callable[[Point], bool], start: Point, goal: Point) -> list[Point] | None:
    """A*, on a grid that begins at `start`."""

    def at(cell: tuple[int, int]) -> Point:
        return start[0] + _CELL * cell[0], start[1] + _CELL * cell[1]

    end = (round((goal[0] - start[0]) / _CELL), round((goal[1] - start[1]) / _CELL))
    best: dict[tuple[int, int], float] = {(0, 0): 0.0}
    before: dict[tuple[int, int], tuple[int, int]] = {}
    heap: list[tuple[float, tuple[int, int]]] = [(0.0, (0, 0))]
    known: dict[tuple[int, int], bool] = {end: True}
    while heap:
        _, cell = heapq.heappop(heap)
        if cell == end:
            way = []
            while cell in before:
                way.append(at(cell))
                cell = before[cell]
            return way[:0:-1]
        for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1)):
            near = (cell[0] + dx, cell[1] + dy)
            if near not in known:
                known[near] = open_(at(near))
            cost = best[cell] + math.hypot(dx, dy)
            if known[near] and cost < best.get(near, np.inf):
                best[near], before[near] = cost, cell
                heapq.heappush(heap, (cost + math.dist(near, end), near))
    return None
