"""Measures of driving, on the ground: headings, roads, and what a rectangle may not touch. NumPy and JAX alike.

Arguments are regions. A road is a chain of them: the x axis of each runs along the road, and its half size in x is half its
length. Rectangles and boxes are seen from above, with their half sizes in x and y.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mjx_bench.measures import Measure
from mjx_bench.signals import SignalIndex, Signals
from mjx_bench.task import Scene


def _facing(a: str, b: str, scene: Scene, index: SignalIndex) -> Measure:
    one, other = index.region(a), index.region(b)

    def angle(s: Signals) -> Any:
        (ax, ay), (bx, by) = ((s.region_mat[:, r, 0, 0], s.region_mat[:, r, 1, 0]) for r in (one, other))
        xp = ax.__array_namespace__()
        return abs(xp.arctan2(ax * by - ay * bx, ax * bx + ay * by))

    return angle


def _roll(a: str, scene: Scene, index: SignalIndex) -> Measure:
    region = index.region(a)

    def angle(s: Signals) -> Any:
        side, up = s.region_mat[:, region, 2, 1], s.region_mat[:, region, 2, 2]
        return abs(side.__array_namespace__().arctan2(side, up))

    return angle


def _pitch(a: str, scene: Scene, index: SignalIndex) -> Measure:
    region = index.region(a)

    def angle(s: Signals) -> Any:
        nose = s.region_mat[:, region, 2, 0]
        xp = nose.__array_namespace__()
        return abs(xp.arcsin(xp.clip(nose, -1.0, 1.0)))

    return angle


def _astray(a: str, *road: Any) -> Measure:
    *names, scene, index = road
    region, nearest = index.region(a), _nearest(names, scene, index)
    hx, hy, _ = scene.regions[a].half_size
    corners = np.array([(hx, hy), (hx, -hy), (-hx, hy), (-hx, -hy)], np.float32)

    def farthest(s: Signals) -> Any:
        across = (s.region_mat[:, region, None, :2, :2] * corners[None, :, None, :]).sum(-1)
        return nearest(s, s.region_pos[:, region, None, :2] + across)[0].max(1) ** 0.5

    return farthest


def _below(a: str, *road: Any) -> Measure:
    *names, scene, index = road
    region, nearest = index.region(a), _nearest(names, scene, index)

    def under(s: Signals) -> Any:
        return nearest(s, s.region_pos[:, region, None, :2])[1][:, 0] - s.region_pos[:, region, 2]

    return under


def _nearest(names: Sequence[str], scene: Scene, index: SignalIndex) -> Callable[[Signals, Any], tuple[Any, Any]]:
    """Of the point of a road that is nearest from above to points [B, P, 2]: its distance squared and its height, [B, P]."""
    parts = np.array([index.region(name) for name in names])
    half = np.array([scene.regions[name].half_size[0] for name in names], np.float32)

    def nearest(s: Signals, points: Any) -> tuple[Any, Any]:
        middle, way = s.region_pos[:, parts][:, None], s.region_mat[:, parts][:, None, :, :, 0]  # [B, 1, R, 3]
        xp = points.__array_namespace__()
        off, level = points[:, :, None] - middle[..., :2], way[..., :2]
        square = (level * level).sum(-1)
        # Lanes that hold nothing yet have no axes.
        along = xp.clip((off * level).sum(-1) / xp.where(square > 0.0, square, 1.0), -half, half)
        away = ((off - along[..., None] * level) ** 2).sum(-1)
        height = middle[..., 2] + along * way[..., 2]
        which = away.argmin(-1)[..., None]
        return away.min(-1), xp.take_along_axis(height, which, axis=-1)[..., 0]

    return nearest


def _gap(a: str, b: str, scene: Scene, index: SignalIndex) -> Measure:
    one, other = index.region(a), index.region(b)
    half = np.array([*scene.regions[a].half_size[:2], *scene.regions[b].half_size[:2]], np.float32)

    def between(s: Signals) -> Any:
        mats = s.region_mat[:, one, :2, :2], s.region_mat[:, other, :2, :2]
        axes = mats[0].__array_namespace__().concatenate(mats, axis=-1)  # [B, 2, 4]: of both, those on the ground
        # How far the two reach along each axis, from their middles, and how far these are apart.
        reach = (abs((axes[:, :, :, None] * axes[:, :, None, :]).sum(1)) * half).sum(-1)
        d = s.region_pos[:, other, :2] - s.region_pos[:, one, :2]
        return (abs((axes * d[:, :, None]).sum(1)) - reach).max(-1)

    return between


def _beyond(a: str, b: str, scene: Scene, index: SignalIndex) -> Measure:
    one, other = index.region(a), index.region(b)
    (hx, hy, _), half = scene.regions[a].half_size, np.array(scene.regions[b].half_size[:2], np.float32)
    corners = np.array([(hx, hy), (hx, -hy), (-hx, hy), (-hx, -hy)], np.float32)

    def out(s: Signals) -> Any:
        across = (s.region_mat[:, one, None, :2, :2] * corners[None, :, None, :]).sum(-1)
        d = across + (s.region_pos[:, one, :2] - s.region_pos[:, other, :2])[:, None]  # [B, 4, 2]
        local = (d[..., None] * s.region_mat[:, other, None, :2, :2]).sum(-2)
        return (abs(local) - half).max(-1).max(-1)

    return out


def _out_of(a: str, b: str, scene: Scene, index: SignalIndex) -> Measure:
    one, other = index.region(a), index.region(b)
    half, room = (np.array(scene.regions[name].half_size, np.float32) for name in (a, b))
    corners = np.stack(np.meshgrid(*([-1.0, 1.0],) * 3, indexing="ij"), -1).reshape(8, 3).astype(np.float32) * half

    def out(s: Signals) -> Any:
        across = (s.region_mat[:, one, None] * corners[None, :, None]).sum(-1)  # [B, 8, 3]
        d = across + (s.region_pos[:, one] - s.region_pos[:, other])[:, None]
        local = (d[..., None] * s.region_mat[:, other, None]).sum(-2)
        return (abs(local) - room).max(-1).max(-1)

    return out


def _side(a: str, b: str, scene: Scene, index: SignalIndex) -> Measure:
    one, other = index.region(a), index.region(b)

    def along(s: Signals) -> Any:
        return ((s.region_pos[:, one] - s.region_pos[:, other]) * s.region_mat[:, other, :, 1]).sum(-1)

    return along


# Name to number of arguments (None: two or more) and builder.
#   facing(a, b): radians between the x axes, seen from above.
#   roll(a), pitch(a): radians about the x axis and about the y axis, without their sign.
#   astray(a, *road): metres from the middle of the road to the corner of a rectangle that is farthest from it.
#   below(a, *road): metres that a is lower than the road where it is nearest.
#   gap(a, b): metres between two rectangles along the axis that separates them most; below 0 where they overlap.
#   beyond(a, b): metres by which the corner of a that is farthest out lies outside b; below 0 where all lie inside.
#   out_of(a, b): the same of boxes, in all three of b's axes.
#   side(a, b): metres from b to a along the y axis of b.
ON_GROUND: dict[str, tuple[int | None, Callable[..., Measure]]] = {
    "facing": (2, _facing),
    "roll": (1, _roll),
    "pitch": (1, _pitch),
    "astray": (None, _astray),
    "below": (None, _below),
    "gap": (2, _gap),
    "beyond": (2, _beyond),
    "out_of": (2, _out_of),
    "side": (2, _side),
}
