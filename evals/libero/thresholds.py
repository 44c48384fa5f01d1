"""Finds the joint position at which a true/false test flips, by asking the test.

LIBERO's fixtures answer "is this joint position open?" in code. Asking keeps us from copying that code, and from being
wrong about a fixture that a later version adds.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from mjx_bench.task import Threshold

# Joint positions are radians or metres of household furniture: nothing flips outside this range.
_LIMIT = 10.0
_PROBES = 401


class NotAThreshold(Exception):
    """The test does not flip exactly once over joint positions."""


def find_threshold(test: Callable[[float], bool]) -> Threshold:
    """Returns the comparison that `test` makes.

    `q < v` and `q <= w` are the same test when w is the float just below v; the one whose number is shorter to write is
    what a person wrote. Raises `NotAThreshold` when the test is constant or flips more than once on a grid over
    [-10, 10].
    """
    grid = [-_LIMIT + 2 * _LIMIT * i / (_PROBES - 1) for i in range(_PROBES)]
    answers = [bool(test(q)) for q in grid]
    flips = [i for i in range(1, _PROBES) if answers[i] != answers[i - 1]]
    if len(flips) != 1:
        raise NotAThreshold(f"flips {len(flips)} times between {-_LIMIT} and {_LIMIT}")
    below, above = _bisect(test, grid[flips[0] - 1], grid[flips[0]])
    true_above = bool(test(above))
    # The boundary lies between two neighbouring floats; name it by the neater of the two.
    if len(repr(below)) < len(repr(above)):
        return Threshold(">" if true_above else "<=", below)
    return Threshold(">=" if true_above else "<", above)


def _bisect(test: Callable[[float], bool], below: float, above: float) -> tuple[float, float]:
    """Neighbouring floats between which the test flips."""
    at_below = bool(test(below))
    while math.nextafter(below, above) != above:
        # Halving the interval is slow near zero, where floats are dense: 1,100 steps, once per fixture, is nothing.
        middle = below + (above - below) / 2
        if not below < middle < above:
            middle = math.nextafter(below, above)
        if bool(test(middle)) == at_below:
            below = middle
        else:
            above = middle
    return below + 0.0, above + 0.0  # -0.0 would be written with its sign
