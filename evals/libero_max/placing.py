"""Where a moved or inserted object may go, judged by geometry alone: no policy, no simulation, no outcome is looked at.

The reference samples blindly and lets a simulator preflight throw out what collides. Here a spot must first be free: every
distance is between body origins, in the plane, at the case's initial state, so a spot can be judged without a simulator.
Metres, world axes.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Mapping, Sequence

import numpy as np

from mjx_bench.task import Task

# Horizontal reach of an object from its body origin, by category, measured on the collision geometry of LIBERO's own scenes
# at their initial states (a frying pan with its handle).
RADIUS_M = {
    "akita_black_bowl": 0.054,
    "alphabet_soup": 0.035,
    "basket": 0.112,
    "bbq_sauce": 0.028,
    "black_book": 0.069,
    "butter": 0.043,
    "chefmate8_frypan": 0.260,
    "chocolate_pudding": 0.047,
    "cookies": 0.052,
    "cream_cheese": 0.046,
    "glazed_rim_porcelain_ramekin": 0.045,
    "ketchup": 0.034,
    "milk": 0.037,
    "moka_pot": 0.091,
    "new_salad_dressing": 0.032,
    "orange_juice": 0.037,
    "plate": 0.073,
    "porcelain_mug": 0.065,
    "red_coffee_mug": 0.063,
    "salad_dressing": 0.032,
    "tomato_sauce": 0.034,
    "white_bowl": 0.041,
    "white_yellow_mug": 0.071,
    "wine_bottle": 0.022,
    "wooden_tray": 0.176,
    "yellow_book": 0.051,
}
# The box of a fixture in its own frame: x from, x to, y from, y to. Measured likewise, with doors and drawers open even
# where they start closed, because a task may have to open them.
BOX_M = {
    "desk_caddy": (-0.08, 0.08, -0.22, 0.22),
    "flat_stove": (-0.05, 0.25, -0.10, 0.10),
    "microwave": (-0.24, 0.17, -0.35, 0.11),
    "white_cabinet": (-0.12, 0.13, -0.26, 0.11),
    "wine_rack": (-0.13, 0.13, -0.12, 0.13),
    "wooden_cabinet": (-0.12, 0.13, -0.26, 0.11),
    "wooden_two_layer_shelf": (-0.17, 0.18, -0.08, 0.11),
}
# The same with everything shut, where it differs.
SHUT_BOX_M = {
    "microwave": (-0.18, 0.18, -0.16, 0.12),
    "white_cabinet": (-0.12, 0.13, -0.11, 0.11),
    "wooden_cabinet": (-0.12, 0.13, -0.11, 0.11),
}
# Of categories that are not in the tables.
OTHER_RADIUS_M = 0.06
OTHER_BOX_M = (-0.25, 0.25, -0.25, 0.25)
# What must be left between two bodies.
GAP_M = 0.01
# What is moved or inserted keeps at least LIBERO's own spacing, so that a gripper still fits in between.
SPACING_M = 0.12
# Distractors crowd the target by design (2.5), so they need only be clear.
RING_M = (0.09, 0.17)
RING_TRIES = 200
# How far beyond the box around all objects a spot may lie. What is moved must stay within the arm's reach; what is inserted
# must only stay on the table, whose nearest edge is 0.2 from any object of LIBERO's layouts.
REACH_MARGIN_M = 0.05
TABLE_MARGIN_M = 0.15

_DIAGONAL = math.sqrt(0.5)
# The eight candidate directions of the format (1.7), in its order.
DIRECTIONS = (
    (1.0, 0.0),
    (-1.0, 0.0),
    (0.0, 1.0),
    (0.0, -1.0),
    (_DIAGONAL, _DIAGONAL),
    (-_DIAGONAL, _DIAGONAL),
    (_DIAGONAL, -_DIAGONAL),
    (-_DIAGONAL, -_DIAGONAL),
)

# qpos of an initial state: time, 7 arm joints, 2 fingers, then 7 numbers an object (x y z w x y z).
_FIRST_OBJECT = 1 + 9
_OBJECT_STRIDE = 7


@dataclasses.dataclass(frozen=True)
class Fixture:
    """Where a fixture stands.

    Attributes:
      pos: [2] x, y of its origin.
      yaw: rotation about the vertical, radians.
      box: x from, x to, y from, y to in its own frame, with doors and drawers open.
      least: the same as the task leaves it, with those shut that it never opens; None where that is `box`.
    """

    pos: np.ndarray
    yaw: float
    box: tuple[float, float, float, float]
    least: tuple[float, float, float, float] | None = None

    def distance(self, spot: np.ndarray, *, least: bool = False) -> float:
        """From `spot`, [2] in the world, to the box, or to the least one; 0 inside of it."""
        c, s = math.cos(self.yaw), math.sin(self.yaw)
        dx, dy = spot - self.pos
        x, y = c * dx + s * dy, c * dy - s * dx
        x0, x1, y0, y1 = (least and self.least) or self.box
        return math.hypot(max(x0 - x, 0, x - x1), max(y0 - y, 0, y - y1))


@dataclasses.dataclass(frozen=True)
class Layout:
    """What stands where at the start of a case.

    Attributes:
      position: movable object to [2] x, y of its origin.
      radius: movable object to its horizontal reach.
      fixtures: everything that never moves, the table and the floor apart.
      low, high: [2] corners of the box around all movable objects.
    """

    position: Mapping[str, np.ndarray]
    radius: Mapping[str, float]
    fixtures: tuple[Fixture, ...]
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, task: Task, init_state: np.ndarray, policy_seed: int) -> Layout:
        """Reads an initial state, [1 + nq + nv], and the fixtures' poses under the policy seed."""
        entities = task.scene.entities
        position = {}
        for i, name in enumerate(task.scene.objects):
            start = _FIRST_OBJECT + _OBJECT_STRIDE * i
            position[name] = np.array(init_state[start : start + 2], np.float64)
        radius = {name: RADIUS_M.get(entities[name].category, OTHER_RADIUS_M) for name in position}
        reset = task.load_reset(policy_seed)
        opened = _opened(task)
        fixtures = []
        for name, pos in reset.fixture_pos.items():
            w, _, _, z = reset.fixture_quat[name]  # LIBERO turns fixtures about the vertical only
            category = entities[name].category
            least = None if name in opened else SHUT_BOX_M.get(category)
            box = BOX_M.get(category, OTHER_BOX_M)
            fixtures.append(Fixture(np.array(pos[:2], np.float64), 2 * math.atan2(z, w), box, least))
        spots = np.stack(list(position.values()))
        return cls(position, radius, tuple(fixtures), spots.min(0), spots.max(0))

    def without(self, names: Sequence[str]) -> Layout:
        """The layout after those objects have been taken away; the box stays what it was."""
        left = {name: pos for name, pos in self.position.items() if name not in names}
        return dataclasses.replace(self, position=left)

    def put(self, name: str, spot: np.ndarray) -> Layout:
        """The layout with `name` at `spot`."""
        return dataclasses.replace(self, position={**self.position, name: spot})

    def free(
        self, name: str, spot: np.ndarray, margin: float, spacing: float = SPACING_M, *, least: bool = False
    ) -> bool:
        """Whether `name` fits at `spot`, [2]: inside the box and its margin, clear of and spaced from everything else.

        With `least`, doors and drawers that the task never opens are shut.
        """
        if np.any(spot < self.low - margin) or np.any(spot > self.high + margin):
            return False
        reach = self.radius[name] + GAP_M
        objects = all(
            np.linalg.norm(spot - pos) >= max(spacing, reach + self.radius[other])
            for other, pos in self.position.items()
            if other != name
        )
        return objects and all(fixture.distance(spot, least=least) >= reach for fixture in self.fixtures)


def _opened(task: Task) -> set[str]:
    """Fixtures that the goal names or that start open."""
    problem = task.extra.get("bddl")
    start = (
        [] if problem is None else [task.entity_of(atom.args[0]) for atom in problem.init if atom.predicate == "open"]
    )
    return {*task.goal_entities, *(name for name in start if name is not None)}


def free_direction(
    layout: Layout, name: str, distance: float, seed: int, *, grasped: str | None = None
) -> tuple[float, float] | None:
    """A direction in which `name` can move by `distance`: the one that `seed` picks among the free ones, None if none is.

    Args:
      layout: where everything is.
      name: what is moved.
      distance: metres.
      seed: picks among the free directions.
      grasped: what the task grasps, where that is not what is moved. No gripper closes around `name` then: in a crowded
        layout, where no direction is free, it need only be clear of everything, but spaced from this.
    """
    start = layout.position[name]
    spots = [d for d in DIRECTIONS if layout.free(name, start + distance * np.array(d), REACH_MARGIN_M)]
    if not spots and grasped is not None:
        away = layout.position[grasped]
        for d in DIRECTIONS:
            spot = start + distance * np.array(d)
            if np.linalg.norm(spot - away) >= SPACING_M and layout.free(name, spot, REACH_MARGIN_M, 0.0, least=True):
                spots.append(d)
    return spots[seed % len(spots)] if spots else None


def free_offset(
    layout: Layout, name: str, target: str, offset: tuple[float, float]
) -> tuple[tuple[float, float], int] | None:
    """Where to put `name` beside `target`: the offset, turned by the first multiple of 90 degrees whose spot is free.

    Args:
      layout: with or without `name`, which does not stand in its own way.
      name: what is put.
      target: what the offset is from.
      offset: the preferred one.

    Returns:
      The offset and the degrees (0, 90, 270 or 180, tried in this order), None if no spot is free. The opposite side
      comes last because it is where the arm may be.
    """
    x, y = offset
    for degrees, turned in ((0, (x, y)), (90, (-y, x)), (270, (y, -x)), (180, (-x, -y))):
        if layout.free(name, layout.position[target] + np.array(turned), TABLE_MARGIN_M):
            # Adding zero turns -0.0 into 0.0.
            return (turned[0] + 0.0, turned[1] + 0.0), degrees
    return None


def free_ring(layout: Layout, target: str, names: Sequence[str], count: int, seed: int) -> dict[str, np.ndarray] | None:
    """Offsets, [2], of `count` objects around `target`, drawn as the format does (2.5) until every spot is free.

    Args:
      layout: the whole of it; the objects that are drawn are taken away before spots are judged.
      target: the centre.
      names: what to choose from, sorted.
      count: how many.
      seed: of `random.Random`; the first draw is the format's own.

    Returns:
      Object to offset in the order of placing, None after `RING_TRIES` draws without a free one.
    """
    rng = random.Random(seed)
    centre = layout.position[target]
    for _ in range(RING_TRIES):
        chosen = list(names)
        rng.shuffle(chosen)
        chosen = chosen[:count]
        phase = rng.uniform(0, 2 * math.pi)
        offsets = {}
        for i, name in enumerate(chosen):
            angle = phase + i * 2 * math.pi / count
            radius = rng.uniform(*RING_M)
            offsets[name] = np.array([round(radius * math.cos(angle), 8), round(radius * math.sin(angle), 8)])
        filled = layout.without(chosen)
        for name, offset in offsets.items():
            if not filled.free(name, centre + offset, TABLE_MARGIN_M, spacing=0.0):
                break
            filled = filled.put(name, centre + offset)
        else:
            return offsets
    return None
