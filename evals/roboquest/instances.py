"""Instances of a task in a kitchen: from an index to a kitchen, the things in it, an initial state and model fields.

As on the native suite's table, the scene's model is that of a template, and an instance differs from it in numbers alone.
Random numbers come in the benchmark's five streams, so that what one of them decides does not move with another.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from evals.roboquest.kitchen import TOP_Z, Footprint, Kitchen, draw_kitchen, empty_kitchen, waiting
from evals.roboquest.robot import start_qpos
from evals.tabletop.draw import Draw, NoRoom, Placed
from evals.tabletop.instances import DRAWS, EVALUATION, TEMPLATE, TRAINING, differing
from evals.tabletop.objects import Loose
from evals.tabletop.shapes import yaw_quat
from mjx_bench.errors import BenchError
from mjx_bench.rules import GOAL_ALONE
from mjx_bench.task import Atom, Rules

if TYPE_CHECKING:
    import mujoco

PROBES = range(-17, -1)  # draws that show which fields vary
_CACHED = 256  # instances, some 60 kB each


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
      instruction: what the policy is told.
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
class _Drawn:
    """An instance before a model is made of it."""

    quest: Quest
    placed: list[Placed]
    start: tuple[float, float, float]


class QuestInstances:
    """The instances of one task, made when they are asked for; `mjx_bench.task.InitStates` of its states.

    Args:
      recipe: the task.
    """

    def __init__(self, recipe: QuestRecipe) -> None:
        self._recipe = recipe
        self._make = functools.lru_cache(_CACHED)(self._made)

    def __len__(self) -> int:
        return TRAINING.stop

    def __getitem__(self, index: int) -> np.ndarray:
        if not 0 <= index < len(self):
            raise IndexError(f"instance {index}: {self._recipe.name} has 0..{len(self) - 1}")
        return self._make(int(index)).state.copy()

    def instance(self, index: int) -> QuestInstance:
        """The whole of an instance; index `TEMPLATE` is the scene's own."""
        return self._make(int(index))

    def fields(self, index: int) -> Mapping[str, np.ndarray]:
        """Model fields that differ from the scene's in this instance."""
        return self._make(int(index)).fields

    @functools.cached_property
    def template(self) -> mujoco.MjModel:
        """The scene's model."""
        return self._model(draw(self._recipe, TEMPLATE))

    @functools.cached_property
    def varied(self) -> tuple[str, ...]:
        """Names of the fields that every instance brings, sorted: those that differ between any of a few draws."""
        found = (differing(self.template, self._model(draw(self._recipe, index))) for index in PROBES)
        return tuple(sorted(set().union(*found)))

    def _model(self, drawn: _Drawn) -> mujoco.MjModel:
        return build(self._recipe, drawn).compile()

    def _made(self, index: int) -> QuestInstance:
        drawn = draw(self._recipe, index)
        model = self._model(drawn)
        if more := differing(self.template, model) - set(self.varied):
            raise BenchError(f"{self._recipe.name}: instance {index} varies {', '.join(sorted(more))} as no other does")
        fields = {name: np.array(getattr(model, name)) for name in self.varied}
        for array in fields.values():
            array.flags.writeable = False
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


def draw(recipe: QuestRecipe, index: int) -> _Drawn:
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
        return _Drawn(quest, placed, start)
    raise BenchError(f"{recipe.name}: no room for the things of instance {index} in {DRAWS} draws")


def build(recipe: QuestRecipe, drawn: _Drawn) -> mujoco.MjSpec:
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
    for item in placed:
        thing = item.thing
        if isinstance(thing, Loose):
            at = model.joint(thing.free_joint).qposadr[0]
            qpos[at : at + 3] = *item.xy, TOP_Z + item.height + thing.rest_height
            qpos[at + 3 : at + 7] = yaw_quat(item.yaw)
        for name, value in item.joints.items():
            qpos[model.joint(name).qposadr[0]] = value
    return np.concatenate([[0.0], qpos, np.zeros(model.nv)])
