"""A driving course as a task: one start, one layout, the car, its rules, and what the expert is shown of the way."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from evals.instances import Starts, reset_to_nothing
from evals.libero_max.eligibility import VISUAL
from evals.libero_max.placing import Layout
from evals.robotworld import car
from mjx_bench.rules import Comparison
from mjx_bench.task import (
    Atom,
    Entity,
    Placement,
    Region,
    Rules,
    Scene,
    Task,
    Threshold,
)

if TYPE_CHECKING:
    import mujoco


@dataclasses.dataclass(frozen=True, eq=False)
class Course:
    """One course.

    Attributes:
      name, instruction, version, horizon, goal, rules: of the task; version is that of the course.
      start: x, y and yaw of the car, metres and radians; it stands still.
      goal_at: x and y of the goal.
      reverse: whether the car has a reverse gear.
      legs: ways [N, 2] for the car's rear axle, metres, and whether each is driven backwards: for an expert.
      build: the scene's spec and regions, bodies `car` and `goal` among them.
    """

    name: str
    instruction: str
    version: str
    horizon: int
    goal: tuple[Atom, ...]
    rules: Rules
    start: tuple[float, float, float]
    goal_at: tuple[float, float]
    reverse: bool
    legs: tuple[tuple[np.ndarray, bool], ...]
    build: Callable[[], tuple[mujoco.MjSpec, dict[str, Region]]]

    def spec(self) -> mujoco.MjSpec:
        """A fresh spec of the scene."""
        return self.build()[0]

    @functools.cached_property
    def state(self) -> np.ndarray:
        """float64 [1 + nq + nv]: the car at its start, everything at rest."""
        model = self.spec().compile()
        qpos, (x, y, yaw) = np.array(model.qpos0, np.float64), self.start
        at = int(model.joint("car_free").qposadr[0])
        qpos[at : at + 7] = x, y, car.RIDE, math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)
        return np.concatenate([[0.0], qpos, np.zeros(model.nv)])


@dataclasses.dataclass(frozen=True)
class Geometry:
    """What `Task.extra["geometry"]` holds: the events that make sense. Nothing may be moved."""

    goal_at: tuple[float, float]
    events: tuple[str, ...] = VISUAL
    spares: tuple[str, ...] = ()

    def layout(self, row: int) -> Layout:
        """The goal alone."""
        goal = np.array(self.goal_at)
        return Layout({"goal": goal}, {"goal": 0.0}, (), goal - 1.0, goal + 1.0)


def atom(measure: str, *args: str, bound: tuple[Comparison, float]) -> Atom:
    """A measure within its bound."""
    return Atom(measure, args, Threshold(*bound))


def task_of(course: Course, suite: str, index: int) -> Task:
    """The task of a course."""
    spec, regions = course.build()
    spec.compile()
    digest = hashlib.sha256(spec.to_xml().encode()).hexdigest()
    return Task(
        suite=suite,
        index=index,
        name=course.name,
        version=f"robotworld-{course.version}-{digest[:12]}",
        instruction=course.instruction,
        scene=Scene(
            key=digest[:32],
            entities={
                "car": Entity("car", "object", "car", "car", "car_free"),
                "goal": Entity("goal", "fixture", "mark", "goal", None),
            },
            regions=regions,
            placements=(Placement("on", "car", "road", "road"),),
            robot=car.robot(reverse=course.reverse),
            cameras=car.cameras(reverse=course.reverse),
            load_spec=course.spec,
            observed=car.cameras(reverse=course.reverse),
        ),
        goal=course.goal,
        objects_of_interest=("car", "goal"),
        horizon=course.horizon,
        control_hz=car.CONTROL_HZ,
        substeps=car.SUBSTEPS,
        settle_steps=0,
        settle_action=(0.0,) * 2,
        load_init_states=functools.partial(Starts, course.name, lambda index: course.state),
        load_reset=reset_to_nothing,
        extra={"geometry": Geometry(course.goal_at), "legs": course.legs},
        rules=course.rules,
        action_modes=("drive",),
        approached="goal",
    )
