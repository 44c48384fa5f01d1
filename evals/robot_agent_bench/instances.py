"""Instances of a task in a household: from an index to a home, and what is told."""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from evals import instances as making
from evals.instances import TEMPLATE
from evals.robot_agent_bench.household import Drawer, Home, build, initial_state
from mjx_bench.errors import BenchError
from mjx_bench.seeds import fold_seed

if TYPE_CHECKING:
    import mujoco

_DRAWS = 200
# Draws of all tasks share models in which they pose a robot (`clearance`, `pickup`), and threads ask for them.
_POSING = threading.Lock()


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


@dataclasses.dataclass(frozen=True)
class Built:
    """A home as the engine has it: float64 [1 + nq + nv] state, and MjModel field to its whole array."""

    state: np.ndarray
    fields: Mapping[str, np.ndarray]


class Instances(making.Instances[Drawn, Built]):
    """The instances of one task.

    Args:
      task: name of the task.
      make: draws an instance.
      physics_hz: physics steps a second.
    """

    probes = range(-13, -1)
    also = ("light_pos", "light_dir", "light_pos0", "light_dir0", "light_diffuse", "light_ambient")

    def __init__(self, task: str, make: Callable[[Drawer], Drawn], physics_hz: int) -> None:
        super().__init__(task)
        self.physics_hz = physics_hz
        self._draw = make
        self._draws = functools.lru_cache(1024)(self._drawn)

    def drawn(self, index: int) -> Drawn:
        """See `evals.instances.Instances.drawn`."""
        return self._draws(int(index))

    def build(self, drawn: Drawn) -> mujoco.MjSpec:
        """See `evals.instances.Instances.build`."""
        return build(drawn.home, self.physics_hz)

    def told(self, index: int) -> str:
        """What the robot is told."""
        return self.drawn(index).told

    def sizes(self, index: int) -> dict[str, tuple[float, float, float]]:
        """Half sizes [3] of the thing in every role."""
        return {placed.role: placed.thing.half for placed in self.drawn(index).home.things}

    def spec(self) -> mujoco.MjSpec:
        """A fresh spec of the scene."""
        return self.build(self.drawn(TEMPLATE))

    def _drawn(self, index: int) -> Drawn:
        for attempt in range(_DRAWS):
            seed = fold_seed(f"robot_agent_bench/{self.name}", f"instance {index}", attempt)
            try:
                with _POSING:
                    return self._draw(Drawer(np.random.default_rng(seed)))
            except NoInstance:
                continue
        raise BenchError(f"{self.name}: instance {index} could not be drawn in {_DRAWS} attempts")

    def _whole(self, drawn: Drawn, model: mujoco.MjModel, fields: Mapping[str, np.ndarray]) -> Built:
        return Built(initial_state(model, drawn.home), fields)
