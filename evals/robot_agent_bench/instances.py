"""Instances of a task: from an index to a home, an initial state, the model fields that are its own, and what is told.

The scene's model is that of the template, which is drawn like any instance; an instance's own model has the same counts and
names, and differs in numbers alone.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from evals.robot_agent_bench.household import Drawer, Home, build, initial_state
from evals.tabletop.instances import TEMPLATE, TRAINING, array_fields
from mjx_bench.errors import BenchError
from mjx_bench.seeds import fold_seed

if TYPE_CHECKING:
    import mujoco

PROBES = range(-13, -1)  # draws that show which fields vary
_LIGHT_FIELDS = ("light_pos", "light_dir", "light_pos0", "light_dir0", "light_diffuse", "light_ambient")
_DRAWS = 200


class NoInstance(Exception):
    """A draw that makes no instance; the next one is tried."""


@dataclasses.dataclass(frozen=True)
class Drawn:
    """What one index stands for.

    Attributes:
      home: everything that is built.
      told: what the robot is told.
      facts: what only tests and scripted experts read, JSON.
    """

    home: Home
    told: str
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)


class Instances:
    """The instances of one task, made when they are asked for; `mjx_bench.task.InitStates` of its states.

    Args:
      task: name of the task.
      make: draws an instance.
      physics_hz: physics steps a second.
    """

    def __init__(self, task: str, make: Callable[[Drawer], Drawn], physics_hz: int) -> None:
        self.task, self.physics_hz = task, physics_hz
        self._draw = make
        self.drawn = functools.lru_cache(1024)(self._drawn)
        self._made = functools.lru_cache(256)(self._make)

    def __len__(self) -> int:
        return TRAINING.stop

    def __getitem__(self, index: int) -> np.ndarray:
        if not 0 <= index < len(self):
            raise IndexError(f"instance {index}: {self.task} has 0..{len(self) - 1}")
        return self._made(int(index))[0].copy()

    def told(self, index: int) -> str:
        """What the robot is told."""
        return self.drawn(int(index)).told

    def sizes(self, index: int) -> dict[str, tuple[float, float, float]]:
        """Half sizes [3] of the thing in every role."""
        return {placed.role: placed.thing.half for placed in self.drawn(int(index)).home.things}

    def fields(self, index: int) -> Mapping[str, np.ndarray]:
        """Model fields that differ from the scene's."""
        return self._made(int(index))[1]

    def spec(self) -> mujoco.MjSpec:
        """A fresh spec of the scene."""
        return build(self.drawn(TEMPLATE).home, self.physics_hz)

    def _drawn(self, index: int) -> Drawn:
        for attempt in range(_DRAWS):
            seed = fold_seed(f"robot_agent_bench/{self.task}", f"instance {index}", attempt)
            try:
                return self._draw(Drawer(np.random.default_rng(seed)))
            except NoInstance:
                continue
        raise BenchError(f"{self.task}: instance {index} could not be drawn in {_DRAWS} attempts")

    @functools.cached_property
    def template(self) -> mujoco.MjModel:
        """The scene's model."""
        return self.spec().compile()

    @functools.cached_property
    def varied(self) -> tuple[str, ...]:
        """Names of the fields that every instance brings, sorted."""
        models = [build(self.drawn(index).home, self.physics_hz).compile() for index in PROBES]
        return tuple(sorted(set().union(*(_differing(self.template, model) for model in models))))

    def _make(self, index: int) -> tuple[np.ndarray, Mapping[str, np.ndarray]]:
        home = self.drawn(index).home
        model = build(home, self.physics_hz).compile()
        if more := _differing(self.template, model) - set(self.varied):
            raise BenchError(f"{self.task}: instance {index} varies {', '.join(sorted(more))} as no other does")
        fields = {name: np.array(getattr(model, name)) for name in self.varied}
        for array in fields.values():
            array.flags.writeable = False
        return initial_state(model, home), fields


def _differing(base: mujoco.MjModel, model: mujoco.MjModel) -> set[str]:
    names = (*array_fields(), *_LIGHT_FIELDS)
    return {name for name in names if not np.array_equal(getattr(model, name), getattr(base, name))}
