"""Instances of a task: from an index to an initial state and the model fields that are its own.

A scene's model is that of the template, which is drawn like any instance. An instance is built and compiled in the same
way, and the two models are compared: equal in every count and name, they differ in numbers alone.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import numpy as np

from mjx_bench.control.state import ControllerReset
from mjx_bench.errors import BenchError
from mjx_bench.task import Reset

if TYPE_CHECKING:
    import mujoco

# Indices of instances. Nothing that is trained on is ever evaluated.
EVALUATION = range(0, 10_000)
TRAINING = range(10_000, 1_010_000)
TEMPLATE = -1

_CACHED = 256  # instances, 30 to 60 kB each


class Starts:
    """Initial states [1 + nq + nv] by index, of `EVALUATION` and `TRAINING`; `mjx_bench.task.InitStates`.

    Args:
      name: of the task.
      state: of an index.
    """

    def __init__(self, name: str, state: Callable[[int], np.ndarray]) -> None:
        self.name, self._state = name, state

    def __len__(self) -> int:
        return TRAINING.stop

    def __getitem__(self, index: int) -> np.ndarray:
        if not 0 <= index < len(self):
            raise IndexError(f"instance {index}: {self.name} has 0..{len(self) - 1}")
        return self._state(int(index)).copy()


class Made(Protocol):
    """What one index stands for: at least a float64 [1 + nq + nv] state, and MjModel fields to their whole arrays."""

    @property
    def state(self) -> np.ndarray: ...

    @property
    def fields(self) -> Mapping[str, np.ndarray]: ...


_Drawn = TypeVar("_Drawn")
_Instance = TypeVar("_Instance", bound=Made)


class Instances(Starts, abc.ABC, Generic[_Drawn, _Instance]):
    """The instances of one task, made when they are asked for.

    Args:
      name: of the task.
    """

    probes: range  # indices below the template's: draws that show which fields vary
    also: tuple[str, ...] = ()  # fields that are compared beside `array_fields`

    def __init__(self, name: str) -> None:
        self._make = functools.lru_cache(_CACHED)(self._made)
        super().__init__(name, lambda index: self._make(index).state)

    @abc.abstractmethod
    def drawn(self, index: int) -> _Drawn:
        """What an instance is built of; depends on the task's name and the index alone."""

    @abc.abstractmethod
    def build(self, drawn: _Drawn) -> mujoco.MjSpec:
        """A fresh spec of it."""

    @abc.abstractmethod
    def _whole(self, drawn: _Drawn, model: mujoco.MjModel, fields: Mapping[str, np.ndarray]) -> _Instance: ...

    def instance(self, index: int) -> _Instance:
        """The whole of an instance; index `TEMPLATE` is the scene's own."""
        return self._make(int(index))

    def fields(self, index: int) -> Mapping[str, np.ndarray]:
        """Model fields that differ from the scene's in this instance."""
        return self._make(int(index)).fields

    @functools.cached_property
    def template(self) -> mujoco.MjModel:
        """The scene's model."""
        return self.build(self.drawn(TEMPLATE)).compile()

    @functools.cached_property
    def varied(self) -> tuple[str, ...]:
        """Names of the fields that every instance brings, sorted: those that differ between any of a few draws."""
        models = (self.build(self.drawn(index)).compile() for index in self.probes)
        return tuple(sorted(set().union(*(differing(self.template, model, self.also) for model in models))))

    def _made(self, index: int) -> _Instance:
        drawn = self.drawn(index)
        model = self.build(drawn).compile()
        if more := differing(self.template, model, self.also) - set(self.varied):
            raise BenchError(f"{self.name}: instance {index} varies {', '.join(sorted(more))} as no other does")
        fields = {name: np.array(getattr(model, name)) for name in self.varied}
        for array in fields.values():
            array.flags.writeable = False
        return self._whole(drawn, model, fields)


def differing(base: mujoco.MjModel, model: mujoco.MjModel, also: tuple[str, ...] = ()) -> set[str]:
    """Names of the fields in which two models of the same shape differ, of `array_fields` and those that are named."""
    return {n for n in (*array_fields(), *also) if not np.array_equal(getattr(model, n), getattr(base, n))}


@functools.cache
def array_fields() -> tuple[str, ...]:
    """Names of MjModel's arrays of numbers that bodies, geoms, sites, joints and materials have.

    `dof_length` only scales when a body falls asleep, which is off.
    """
    import mujoco

    prefixes = ("body_", "geom_", "site_", "jnt_", "dof_", "mat_", "actuator_")
    return tuple(n for n in dir(mujoco.MjModel) if n.startswith(prefixes) and n != "dof_length")


def reset_to_nothing(seed: int) -> Reset:
    """Of a task whose control law keeps nothing that a seed could fix: it starts from where the robot is."""
    return Reset(seed=seed, fixture_pos={}, fixture_quat={}, controller=_nothing())


@functools.cache
def _nothing() -> ControllerReset:
    return ControllerReset(np.zeros(3), np.eye(3), np.zeros(7), np.zeros((3, 7)), np.zeros((3, 7)), np.zeros((7, 7)))
