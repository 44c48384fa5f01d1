"""Instances of a task on the table: from an index to things and where they stand."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from evals import instances as making
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

DRAWS = 1000  # attempts at an instance in which everything has room


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


class Instances(making.Instances[list[Placed], Instance]):
    """The instances of one task.

    Args:
      recipe: the task.
    """

    probes = range(-9, -1)

    def __init__(self, recipe: Recipe) -> None:
        super().__init__(recipe.name)
        self._recipe = recipe

    def drawn(self, index: int) -> list[Placed]:
        """See `evals.instances.Instances.drawn`."""
        return draw(self._recipe, index)

    def build(self, drawn: list[Placed]) -> mujoco.MjSpec:
        """See `evals.instances.Instances.build`."""
        return build(drawn)

    def _whole(self, drawn: list[Placed], model: mujoco.MjModel, fields: Mapping[str, np.ndarray]) -> Instance:
        return Instance(tuple(drawn), initial_state(model, drawn), fields)


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
    stand(qpos, model, placed, TABLE_Z)
    return np.concatenate([[0.0], qpos, np.zeros(model.nv)])


def stand(qpos: np.ndarray, model: mujoco.MjModel, placed: Sequence[Placed], top: float) -> None:
    """Writes into `qpos` where loose things stand on a top at that height, and how far joints of fixtures are."""
    for item in placed:
        thing = item.thing
        if isinstance(thing, Loose):
            at = model.joint(thing.free_joint).qposadr[0]
            qpos[at : at + 3] = *item.xy, top + item.height + thing.rest_height
            qpos[at + 3 : at + 7] = yaw_quat(item.yaw)
        for name, value in item.joints.items():
            qpos[model.joint(name).qposadr[0]] = value
