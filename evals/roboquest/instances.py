"""Instances of a task in a kitchen: from an index to a kitchen, the things in it, an initial state and model fields.

As on the native suite's table, the scene's model is that of a template, and an instance differs from it in numbers alone.
Random numbers come in the benchmark's five streams, so that what one of them decides does not move with another.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from evals import instances as making
from evals.instances import EVALUATION
from evals.roboquest.kitchen import TOP_Z, Footprint, Kitchen, draw_kitchen, empty_kitchen, waiting
from evals.roboquest.robot import start_qpos
from evals.tabletop.draw import Draw, NoRoom, Placed
from evals.tabletop.instances import DRAWS, stand
from evals.tabletop.objects import Loose
from evals.tabletop.shapes import yaw_quat
from mjx_bench.errors import BenchError
from mjx_bench.rules import GOAL_ALONE
from mjx_bench.task import Atom, Rules

if TYPE_CHECKING:
    import mujoco


@dataclasses.dataclass(frozen=True)
class Quest:
    """What an instance is drawn from.

    Attributes:
      index: of the instance.
      cell: its level: setting by name.
      held_out: whether it is for evaluation, and so of the configurations that are kept for it.
      kitchen: where it takes place.
      scene, structure, poses, materials, wording: random draws, each a stream of its own; `poses` knows what is taken.
    """

    index: int
    cell: Mapping[str, Any]
    held_out: bool
    kitchen: Kitchen
    scene: Draw
    structure: Draw
    poses: Draw
    materials: Draw
    wording: Draw


@dataclasses.dataclass(frozen=True)
class QuestRecipe:
    """One task.

    Attributes:
      name: of the task, and what salts its random numbers.
      instruction: what the policy is told, where instances have no words of their own.
      goal: atoms that must hold at the same instant.
      horizon: budget of ticks.
      footprint: what it takes of the work top.
      draw: the things of one instance, always of the same names, kinds and order.
      rules: when the goal counts.
      cells: levels, which instances take in turn.
      start: x, y and yaw of the robot's base at the start; that of the kitchen if None.
      substeps: physics steps a tick.
      program: of the oracle, see `policies.mobile.program`.
      events: that the task can have beside those of light, cameras and looks.
      tell: what the policy is told in an instance, of the things in it; None for `instruction`.
    """

    name: str
    instruction: str
    goal: tuple[Atom, ...]
    horizon: int
    footprint: Footprint
    draw: Callable[[Quest], list[Placed]]
    rules: Rules = GOAL_ALONE
    cells: tuple[Mapping[str, Any], ...] = ({},)
    start: Callable[[Quest, Sequence[Placed]], tuple[float, float, float]] | None = None
    substeps: int = 25
    program: Any = None
    events: tuple[str, ...] = ()
    tell: Callable[[Quest, Sequence[Placed]], str] | None = None


@dataclasses.dataclass(frozen=True)
class QuestInstance:
    """What one index stands for.

    Attributes:
      placed: the things, in the scene's order.
      cell: its level.
      kitchen: where it takes place.
      start: x, y and yaw of the robot's base.
      state: float64 [1 + nq + nv]: time, qpos, qvel.
      fields: MjModel field to its whole array, for those that vary.
    """

    placed: tuple[Placed, ...]
    cell: Mapping[str, Any]
    kitchen: Kitchen
    start: tuple[float, float, float]
    state: np.ndarray
    fields: Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Drawn:
    """An instance before a model is made of it."""

    quest: Quest
    placed: list[Placed]
    start: tuple[float, float, float]
    told: str


class QuestInstances(making.Instances[Drawn, QuestInstance]):
    """The instances of one task.

    Args:
      recipe: the task.
    """

    probes = range(-17, -1)

    def __init__(self, recipe: QuestRecipe) -> None:
        super().__init__(recipe.name)
        self._recipe = recipe

    def drawn(self, index: int) -> Drawn:
        """See `evals.instances.Instances.drawn`."""
        return draw(self._recipe, index)

    def told(self, index: int) -> str:
        """What the policy is told."""
        return self.drawn(index).told

    def build(self, drawn: Drawn) -> mujoco.MjSpec:
        """See `evals.instances.Instances.build`."""
        return build(self._recipe, drawn)

    def _whole(self, drawn: Drawn, model: mujoco.MjModel, fields: Mapping[str, np.ndarray]) -> QuestInstance:
        state = initial_state(model, drawn.placed, drawn.start)
        return QuestInstance(tuple(drawn.placed), drawn.quest.cell, drawn.quest.kitchen, drawn.start, state, fields)


def streams(name: str, index: int, attempt: int = 0) -> list[Draw]:
    """The five random streams of a task's instance, the benchmark's way: `SeedSequence([salt of the name, seed])`.

    Args:
      name: of the task; the salt is the first four bytes of its SHA-256, little endian.
      index: the seed; templates and probes, below 0, get seeds beyond all others.
      attempt: beyond the first, a number more in the sequence.
    """
    salt = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "little")
    entropy = [salt, index % 2**32, *([attempt] if attempt else [])]
    return [Draw(np.random.default_rng(child)) for child in np.random.SeedSequence(entropy).spawn(5)]


def draw(recipe: QuestRecipe, index: int) -> Drawn:
    """The kitchen and the things of an instance; depends on the task's name and the index alone."""
    held_out = index in EVALUATION
    cell = recipe.cells[index % len(recipe.cells)]
    for attempt in range(DRAWS):
        scene, structure, poses, materials, wording = streams(recipe.name, index, attempt)
        where = draw_kitchen(scene, recipe.footprint, evaluation=held_out)
        quest = Quest(index, cell, held_out, where, scene, structure, poses, materials, wording)
        try:
            placed = recipe.draw(quest)
            start = where.start if recipe.start is None else recipe.start(quest, placed)
        except NoRoom:
            continue
        told = recipe.instruction if recipe.tell is None else recipe.tell(quest, placed)
        return Drawn(quest, placed, start, told)
    raise BenchError(f"{recipe.name}: no room for the things of instance {index} in {DRAWS} draws")


def build(recipe: QuestRecipe, drawn: Drawn) -> mujoco.MjSpec:
    """A fresh spec of the scene. Where loose things start is for qpos to say; here they wait."""
    spec = empty_kitchen(drawn.quest.kitchen, recipe.substeps)
    for i, item in enumerate(drawn.placed):
        thing = item.thing
        if isinstance(thing, Loose):
            thing.add(spec.worldbody, [*waiting(i), TOP_Z + thing.rest_height])
        else:
            thing.add(spec.worldbody, [*item.xy, TOP_Z + item.height + thing.rest_height], yaw_quat(item.yaw))
    return spec


def initial_state(model: mujoco.MjModel, placed: Sequence[Placed], start: tuple[float, float, float]) -> np.ndarray:
    """float64 [1 + nq + nv]: the robot at its start, everything at rest."""
    qpos = np.array(model.qpos0, np.float64)
    for name, value in start_qpos(*start).items():
        qpos[model.joint(name).qposadr[0]] = value
    stand(qpos, model, placed, TOP_Z)
    return np.concatenate([[0.0], qpos, np.zeros(model.nv)])
