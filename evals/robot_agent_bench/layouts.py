"""Five floor plans of one home, and where its furniture stands in each. Metres, radians; walls run counter-clockwise.

A piece stands with its back to a wall, so far along it, or free in the room. The coffee table's front faces the sofa's, with
room for the robot between them; the benchmark's sheet has them nearer, where it cannot come to either from the front.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from evals.robot_agent_bench.furniture import BY_NAME

Pose = tuple[float, float, float]  # x, y, yaw
CORRIDOR = 1.95  # between the fronts of the sofa and the coffee table


@dataclasses.dataclass(frozen=True)
class Layout:
    """One floor plan.

    Attributes:
      name: `rab-layout-00` and so on.
      plan: rectangle, L or T.
      polygon: corners [N, 2], counter-clockwise.
      poses: piece to the pose of its frame.
      start: pose of the base where nothing else says it.
    """

    name: str
    plan: str
    polygon: tuple[tuple[float, float], ...]
    poses: Mapping[str, Pose]
    start: Pose

    def walls(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Both ends of each."""
        corners = np.array(self.polygon)
        return list(zip(corners, np.roll(corners, -1, axis=0), strict=True))

    def point(self, piece: str, x: float, y: float) -> np.ndarray:
        """[2] of a point in a piece's frame, in the world's."""
        px, py, yaw = self.poses[piece]
        c, s = math.cos(yaw), math.sin(yaw)
        return np.array([px + c * x - s * y, py + s * x + c * y])

    def work_place(self, piece: str) -> Pose:
        """Of the base, in front of a piece and facing it."""
        ahead = BY_NAME[piece].work
        assert ahead is not None, f"nobody works at the {piece}"
        x, y = self.point(piece, 0.0, -ahead)
        return float(x), float(y), self.poses[piece][2] + math.pi / 2

    def corners(self, piece: str) -> np.ndarray:
        """[4, 2] of what a piece covers of the floor."""
        w, d, _ = BY_NAME[piece].size
        return np.array([self.point(piece, x, y) for x, y in ((-w / 2, 0), (w / 2, 0), (w / 2, d), (-w / 2, d))])


# (wall, metres along it to the middle of the piece) for each.
_Places = Mapping[str, tuple[int, float]]


def _layout(number: int, plan: str, polygon: Sequence[tuple[float, float]], places: _Places, start: Pose) -> Layout:
    corners = np.array(polygon, np.float64)
    poses: dict[str, Pose] = {}
    for name, (wall, along) in places.items():
        a, b = corners[wall], corners[(wall + 1) % len(corners)]
        way = (b - a) / np.linalg.norm(b - a)
        inside = np.array([-way[1], way[0]])
        x, y = a + along * way + (BY_NAME[name].size[1] + 0.02) * inside
        # Its frame's y axis points at the wall.
        poses[name] = (float(x), float(y), math.atan2(-inside[1], -inside[0]) - math.pi / 2)
    sx, sy, yaw = poses["sofa"]
    ahead = np.array([math.sin(yaw), -math.cos(yaw)])
    tx, ty = np.array([sx, sy]) + CORRIDOR * ahead
    poses["coffee_table"] = (float(tx), float(ty), yaw + math.pi)
    return Layout(f"rab-layout-{number:02}", plan, tuple((float(x), float(y)) for x, y in polygon), poses, start)


@functools.cache
def layouts() -> tuple[Layout, ...]:
    """All of them."""
    return (
        _layout(
            0, "rectangle", [(0, 0), (7.6, 0), (7.6, 6.2), (0, 6.2)],
            {
                "kitchen": (2, 2.0), "refrigerator": (2, 3.65), "sofa": (1, 2.6), "side_table": (1, 4.1),
                "shelf": (0, 2.2), "bins": (0, 3.6), "basket_stand": (0, 4.4), "tv_cabinet": (3, 3.2),
                "coat_rack": (3, 5.4), "tote_bench": (3, 4.7),
            },
            (2.2, 3.2, 0.0),
        ),
        _layout(
            1, "rectangle", [(0, 0), (6.8, 0), (6.8, 6.4), (0, 6.4)],
            {
                "kitchen": (3, 2.2), "refrigerator": (3, 0.55), "sofa": (0, 4.6), "side_table": (0, 3.1),
                "shelf": (1, 4.8), "bins": (2, 1.4), "basket_stand": (2, 2.2), "tv_cabinet": (2, 4.0),
                "coat_rack": (3, 4.6), "tote_bench": (3, 5.3),
            },
            (2.6, 4.2, 1.2),
        ),
        _layout(
            2, "L", [(0, 0), (8.0, 0), (8.0, 3.8), (5.6, 3.8), (5.6, 6.2), (0, 6.2)],
            {
                "kitchen": (0, 6.2), "refrigerator": (0, 4.5), "sofa": (5, 2.4), "side_table": (5, 0.9),
                "shelf": (4, 1.2), "bins": (4, 4.4), "basket_stand": (4, 3.4), "tv_cabinet": (0, 2.6),
                "coat_rack": (2, 0.6), "tote_bench": (2, 1.3),
            },
            (4.6, 2.2, 2.4),
        ),
        _layout(
            3, "L", [(0, 0), (5.2, 0), (5.2, 2.2), (7.8, 2.2), (7.8, 6.2), (0, 6.2)],
            {
                "kitchen": (4, 1.7), "refrigerator": (4, 3.4), "sofa": (5, 3.2), "side_table": (5, 4.8),
                "shelf": (0, 3.7), "bins": (3, 2.8), "basket_stand": (3, 2.0), "tv_cabinet": (0, 1.8),
                "coat_rack": (2, 0.6), "tote_bench": (2, 1.4),
            },
            (5.6, 3.6, 3.0),
        ),
        _layout(
            4, "T", [(2.6, 0), (6.2, 0), (6.2, 3.0), (8.4, 3.0), (8.4, 6.4), (0, 6.4), (0, 3.0), (2.6, 3.0)],
            {
                "kitchen": (4, 1.6), "refrigerator": (4, 3.3), "sofa": (5, 1.6), "side_table": (5, 3.0),
                "shelf": (0, 1.2), "bins": (1, 1.4), "basket_stand": (1, 2.3), "tv_cabinet": (4, 4.5),
                "coat_rack": (2, 1.4), "tote_bench": (2, 0.7),
            },
            (4.4, 3.6, -1.6),
        ),
    )  # fmt: skip
