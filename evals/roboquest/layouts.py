"""Floor plans of kitchens: nine, and their mirror images. The counter of the task is the origin of all of them.

Every kitchen has the same parts; a plan says where each stands, or that it has none. A part's front faces its own -y.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

PLANS = ("one_wall", "l_shape", "u_shape", "galley", "island", "island_l", "island_galley", "peninsula", "with_table")
LAYOUTS = 2 * len(PLANS)

# Depths of counters along walls and of what is tall, metres; and between two rows that face each other.
_DEEP, _TALL, _AISLE = 0.62, 0.66, 1.60
_ABSENT_AT = 12.0  # metres from the origin along x, behind the walls
_NEVER_ZERO = 1e-4  # radians
_LEFT, _RIGHT, _BACK = math.pi / 2, -math.pi / 2, math.pi  # what stands there faces the middle


@dataclasses.dataclass(frozen=True)
class Stand:
    """Where a part stands, seen from above: its middle and size in metres, its turn in radians."""

    x: float
    y: float
    width: float
    depth: float
    yaw: float = 0.0

    def at(self, x: float, y: float) -> tuple[float, float]:
        """World x and y of a point in the part's own axes."""
        c, s = math.cos(self.yaw), math.sin(self.yaw)
        return self.x + c * x - s * y, self.y + s * x + c * y

    @property
    def turn(self) -> float:
        """`yaw`, but never quite 0: a geom along its body's axes is another kind of geom to MuJoCo, by `geom_sameframe`."""
        return self.yaw + _NEVER_ZERO

    @property
    def rectangle(self) -> tuple[float, float, float, float]:
        """x from, x to, y from, y to; parts stand along the axes."""
        across = abs(math.sin(self.yaw)) > 0.5
        hx, hy = (self.depth, self.width) if across else (self.width, self.depth)
        return self.x - hx / 2, self.x + hx / 2, self.y - hy / 2, self.y + hy / 2

    def mirrored(self) -> Stand:
        """The same with left and right exchanged."""
        return dataclasses.replace(self, x=-self.x, yaw=-self.yaw)


@dataclasses.dataclass(frozen=True)
class Layout:
    """One kitchen seen from above.

    Attributes:
      number: 0 .. LAYOUTS - 1.
      parts: `counter`, which is the task's, `run_a`, `run_b`, `fridge`, `cooker` and `table`, where they stand.
      missing: names of those that the kitchen has not.
      room: x from, x to, y from, y to of the walls' insides.
      wall_behind: whether the counter stands at a wall.
      high: middles of the three wall cabinets; window: where it is, and how it is turned.
    """

    number: int
    parts: Mapping[str, Stand]
    missing: frozenset[str]
    room: tuple[float, float, float, float]
    wall_behind: bool
    high: tuple[Stand, Stand, Stand]
    window: Stand

    @property
    def obstacles(self) -> list[tuple[float, float, float, float]]:
        """Rectangles that nothing drives through."""
        return [s.rectangle for name, s in self.parts.items() if name not in self.missing]


def layout(number: int, front: float, depth: float, width: float, aside: float) -> Layout:
    """A plan around the task's counter.

    Args:
      number: of the plan; from `len(PLANS)` on, mirrored.
      front: y of the counter's front edge, metres.
      depth, width: of its top.
      aside: x of its middle.
    """
    name = PLANS[number % len(PLANS)]
    counter = Stand(aside, front + depth / 2, width, depth)
    x0, x1, _, behind = counter.rectangle
    parts: dict[str, Stand] = {"counter": counter}
    wall_behind = not name.startswith("island") and name != "peninsula"
    back = behind if wall_behind else behind + _AISLE + _DEEP  # y of the wall at the back
    left, right, near = x0 - 1.5, x1 + 1.5, front - 3.3

    def along_back(x: float, width: float, depth: float = _DEEP) -> Stand:
        return Stand(x, back - depth / 2, width, depth)

    if wall_behind:
        parts["cooker"] = along_back(x0 - 0.31, 0.60, _DEEP)
        parts["fridge"] = along_back(x1 + 0.42, 0.80, _TALL)
    if name in ("one_wall", "with_table"):
        parts["run_a"] = along_back(x0 - 1.22, 1.2)
        left = x0 - 1.95
    if name == "with_table":
        parts["table"] = Stand(aside + 0.5, front - 2.45, 1.3, 0.8)
        near = front - 4.3
    if name in ("l_shape", "u_shape"):
        left = x0 - 1.3
        parts["run_a"] = Stand(left + _DEEP / 2, back - 1.5, 1.6, _DEEP, _LEFT)
    if name == "u_shape":
        right = x1 + 1.5
        parts["run_b"] = Stand(right - _DEEP / 2, back - 1.75, 1.6, _DEEP, _RIGHT)
    if name == "galley":
        near = front - 2.75
        parts["run_a"] = Stand(aside - 0.7, near + _DEEP / 2, 1.5, _DEEP, _BACK)
        parts["run_b"] = Stand(aside + 0.95, near + _DEEP / 2, 1.5, _DEEP, _BACK)
    # Of the row at the back, where the counter stands free; a peninsula's left end is at the wall, and so is the row's.
    middle = x0 + 1.95 if name == "peninsula" else aside
    if not wall_behind:
        parts["cooker"] = along_back(middle, 0.60)
        parts["run_a"] = along_back(middle - 1.15, 1.6)
        parts["run_b"] = along_back(middle + 1.15, 1.6)
        parts["fridge"] = along_back(middle + 2.4, 0.80, _TALL)
        left, right = min(x0, middle - 1.95) - 1.6, max(x1, middle + 2.8) + 0.9
    if name == "island_l":
        left = x0 - 1.6
        parts["run_b"] = Stand(left + _DEEP / 2, behind - 0.4, 1.8, _DEEP, _LEFT)
    if name == "island_galley":
        right = max(x1 + 1.5, aside + 2.9)
        parts["run_b"] = Stand(right - _DEEP / 2, front - 0.6, 1.6, _DEEP, _RIGHT)
    if name == "peninsula":
        left = x0
    missing = [part for part in ("run_a", "run_b", "fridge", "cooker", "table") if part not in parts]
    for i, part in enumerate(missing):
        parts[part] = Stand(_ABSENT_AT, 2.0 * i, 0.6, 0.6)
    if wall_behind:
        # The cabinets keep off the middle of the wall, where there is the window.
        spots = (x0 + 0.3, x1 - 0.3, x0 - 1.2)
    else:
        spots = (middle - 1.6, middle - 0.85, middle + 1.6)
    high = tuple(Stand(x, back - 0.17, 0.60, 0.34) for x in spots)
    window = Stand(aside if wall_behind else middle + 0.75, back - 0.02, 0.80, 0.04)
    made = Layout(
        number, parts, frozenset(missing), (left, right, near, back), wall_behind, (high[0], high[1], high[2]), window
    )
    return made if number < len(PLANS) else _mirrored(made)


def _mirrored(plan: Layout) -> Layout:
    x0, x1, y0, y1 = plan.room
    return dataclasses.replace(
        plan,
        parts={name: s if name in plan.missing else s.mirrored() for name, s in plan.parts.items()},
        room=(-x1, -x0, y0, y1),
        high=(plan.high[0].mirrored(), plan.high[1].mirrored(), plan.high[2].mirrored()),
        window=plan.window.mirrored(),
    )
