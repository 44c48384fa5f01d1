"""Instances of a task: from an index to an initial state and the model fields that are its own.

The scene's model is that of the template, which is drawn like any instance. An instance is built and compiled in the same
way, and the two models are compared: equal in every count and name, they differ in numbers alone.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from evals.tabletop.draw import Draw, NoRoom, Placed
from evals.tabletop.objects import Loose
from evals.tabletop.panda import HOME, ROBOT, START_OPENING
from evals.tabletop.recipes import Recipe
from evals.tabletop.room import empty_room
from evals.tabletop.shapes import TABLE_Z, yaw_quat
from mjx_bench.errors import BenchError
from mjx_bench.seeds import fold_seed

if TYPE_CHECKING:
    import mujoco

# Indices of instances. Nothing that is trained on is ever evaluated.
EVALUATION = range(0, 10_000)
TRAINING = range(10_000, 1_010_000)
TEMPLATE = -1
PROBES = range(-9, -1)  # draws that show which fields vary

DRAWS = 1000  # attempts at an instance in which everything has room
_CACHED = 256  # instances, some 30 kB each


@dataclasses.dataclass(frozen=True)
class Instance:
    """What one index stands for.

    Attributes:
      placed: the things, in the scene's order.
      state: float64 [1 + nq + nv]: time, qpos, qvel.
      fields: MjModel field to its whole array, for those that differ from the scene's model.
    """

    placed: tuple[Placed, ...]
    state: np.ndarray
    fields: Mapping[str, np.ndarray]


class Instances:
    """The instances of one task, made when they are asked for; `mjx_bench.task.InitStates` of its states.

    Args:
      recipe: the task.
    """

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._make = functools.lru_cache(_CACHED)(self._made)

    def __len__(self) -> int:
        return TRAINING.stop

    def __getitem__(self, index: int) -> np.ndarray:
        if not 0 <= index < len(self):
            raise IndexError(f"instance {index}: {self._recipe.name} has 0..{len(self) - 1}")
        return self._make(int(index)).state.copy()

    def instance(self, index: int) -> Instance:
        """The whole of an instance; index `TEMPLATE` is the scene's own."""
        return self._make(int(index))

    def fields(self, index: int) -> Mapping[str, np.ndarray]:
        """Model fields that differ from the scene's in this instance."""
        return self._make(int(index)).fields

    @functools.cached_property
    def template(self) -> mujoco.MjModel:
        """The scene's model."""
        return build(draw(self._recipe, TEMPLATE)).compile()

    @functools.cached_property
    def varied(self) -> tuple[str, ...]:
        """Names of the fields that every instance brings, sorted: those that differ between any of a few draws."""
        return tuple(sorted(set().union(*(differing(self.template, self._model(index)) for index in PROBES))))

    def _model(self, index: int) -> mujoco.MjModel:
        return build(draw(self._recipe, index)).compile()

    def _made(self, index: int) -> Instance:
        placed = draw(self._recipe, index)
        model = build(placed).compile()
        if more := differing(self.template, model) - set(self.varied):
            raise BenchError(f"{self._recipe.name}: instance {index} varies {', '.join(sorted(more))} as no other does")
        fields = {name: np.array(getattr(model, name)) for name in self.varied}
        for array in fields.values():
            array.flags.writeable = False
        return Instance(tuple(placed), initial_state(model, placed), fields)


def draw(recipe: Recipe, index: int) -> list[Placed]:
    """The things of an instance; depends on the task's name and the index alone."""
    for attempt in range(DRAWS):
        seed = fold_seed(f"tabletop/{recipe.name}", f"instance {index}", attempt)
        try:
            return recipe.draw(Draw(np.random.default_rng(seed)))
        except NoRoom:
            continue
    raise BenchError(f"{recipe.name}: no room for the things of instance {index} in {DRAWS} draws")


def build(placed: Sequence[Placed]) -> mujoco.MjSpec:
    """A fresh spec of the scene with these things. Where loose ones start is for qpos to say; here they wait in a row."""
    spec = empty_room()
    for i, item in enumerate(placed):
        if isinstance(item.thing, Loose):
            item.thing.add(spec.worldbody, [2.5, 0.3 * i, TABLE_Z])
        else:
            item.thing.add(
                spec.worldbody, [*item.xy, TABLE_Z + item.height + item.thing.rest_height], yaw_quat(item.yaw)
            )
    return spec


def initial_state(model: mujoco.MjModel, placed: Sequence[Placed]) -> np.ndarray:
    """float64 [1 + nq + nv]: the arm at home, everything at rest."""
    qpos = np.array(model.qpos0, np.float64)
    for name, value in zip(ROBOT.arm_joints, HOME, strict=True):
        qpos[model.joint(name).qposadr[0]] = value
    for name, value in zip(ROBOT.gripper_joints, (START_OPENING, -START_OPENING), strict=True):
        qpos[model.joint(name).qposadr[0]] = value
    for item in placed:
        thing = item.thing
        if isinstance(thing, Loose):
            at = model.joint(thing.free_joint).qposadr[0]
            qpos[at : at + 3] = *item.xy, TABLE_Z + item.height + thing.rest_height
            qpos[at + 3 : at + 7] = yaw_quat(item.yaw)
        for name, value in item.joints.items():
            qpos[model.joint(name).qposadr[0]] = value
    return np.concatenate([[0.0], qpos, np.zeros(model.nv)])


def differing(base: mujoco.MjModel, model: mujoco.MjModel) -> set[str]:
    """Names of the fields in which two models of the same shape differ."""
    return {name for name in array_fields() if not np.array_equal(getattr(model, name), getattr(base, name))}


@functools.cache
def array_fields() -> tuple[str, ...]:
    """Names of MjModel's arrays of numbers that bodies, geoms, sites, joints and materials have.

    `dof_length` only scales when a body falls asleep, which is off.
    """
    import mujoco

    prefixes = ("body_", "geom_", "site_", "jnt_", "dof_", "mat_", "actuator_")
    return tuple(n for n in dir(mujoco.MjModel) if n.startswith(prefixes) and n != "dof_length")
