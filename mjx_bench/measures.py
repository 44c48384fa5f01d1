"""What an atom with a bound compares: numbers read from signals, one a lane, in NumPy and JAX alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mjx_bench.signals import SignalIndex, Signals

# Signals to float [B].
Measure = Callable[[Signals], Any]

# Measures of the velocity of their first argument, an object with a free joint.
VELOCITIES = ("speed", "pace", "forward", "spin")


def _point(name: str, index: SignalIndex) -> Callable[[Signals], Any]:
    """Where an entity or a region is, [B, 3]."""
    if name in index.entities:
        entity = index.entity(name)
        return lambda s: s.entity_pos[:, entity]
    region = index.region(name)
    return lambda s: s.region_pos[:, region]


def _length(vector: Any) -> Any:
    return (vector[:, 0] ** 2 + vector[:, 1] ** 2 + vector[:, 2] ** 2) ** 0.5


def _from_vertical(vector: Any) -> Any:
    """Radians between [B, 3] and the world's z axis; 0 for a vector of length 0."""
    across = (vector[:, 0] ** 2 + vector[:, 1] ** 2) ** 0.5
    return across.__array_namespace__().arctan2(across, vector[:, 2])


def _distance(a: str, b: str, index: SignalIndex) -> Measure:
    one, other = _point(a, index), _point(b, index)
    return lambda s: _length(one(s) - other(s))


def _apart(a: str, b: str, index: SignalIndex) -> Measure:
    one, other = _point(a, index), _point(b, index)

    def apart(s: Signals) -> Any:
        d = one(s) - other(s)
        return (d[:, 0] ** 2 + d[:, 1] ** 2) ** 0.5

    return apart


def _height(a: str, index: SignalIndex) -> Measure:
    point = _point(a, index)
    return lambda s: point(s)[:, 2]


def _hang(a: str, b: str, index: SignalIndex) -> Measure:
    lower, upper = _point(a, index), _point(b, index)
    return lambda s: _from_vertical(upper(s) - lower(s))


def _tilt(a: str, index: SignalIndex) -> Measure:
    region = index.region(a)
    return lambda s: _from_vertical(s.region_mat[:, region, :, 2])


def _velocity(first: int) -> Callable[[str, SignalIndex], Measure]:
    def build(a: str, index: SignalIndex) -> Measure:
        mover = index.mover(a)
        return lambda s: _length(s.entity_vel[:, mover, first : first + 3])

    return build


def _rise(a: str, b: str, index: SignalIndex) -> Measure:
    one, other = _point(a, index), _point(b, index)
    return lambda s: one(s)[:, 2] - other(s)[:, 2]


def _level(a: str, b: str, index: SignalIndex) -> Measure:
    rise = _rise(a, b, index)
    return lambda s: abs(rise(s))


def _pace(a: str, index: SignalIndex) -> Measure:
    mover = index.mover(a)
    return lambda s: (s.entity_vel[:, mover, 0] ** 2 + s.entity_vel[:, mover, 1] ** 2) ** 0.5


def _forward(a: str, b: str, index: SignalIndex) -> Measure:
    mover, region = index.mover(a), index.region(b)
    return lambda s: (s.entity_vel[:, mover, :3] * s.region_mat[:, region, :, 0]).sum(-1)


# Name to number of arguments and builder. Arguments are entities or regions, except where it says otherwise.
#   distance(a, b): metres between them.            height(a): metres above the world's origin.
#   apart(a, b): the same, seen from above.         level(a, b): metres between their heights.
#   rise(a, b): metres that a is higher than b, below 0 where it is lower.
#   hang(a, b): radians between the vertical and the line from a up to b.
#   tilt(a): radians between the vertical and the z axis of a region.
#   speed(a), spin(a): m/s and rad/s of an object's root body.       pace(a): m/s, seen from above.
#   forward(a, b): m/s of an object's root body along the x axis of a region, below 0 backwards.
MEASURES: dict[str, tuple[int, Callable[..., Measure]]] = {
    "distance": (2, _distance),
    "apart": (2, _apart),
    "level": (2, _level),
    "rise": (2, _rise),
    "height": (1, _height),
    "hang": (2, _hang),
    "tilt": (1, _tilt),
    "speed": (1, _velocity(0)),
    "pace": (1, _pace),
    "forward": (2, _forward),
    "spin": (1, _velocity(3)),
}
