"""What RoboLab's tasks share here: the native suite's table and arm, at the benchmark's control rate.

What differs from the benchmark in all of them: the hand is a Panda's with parallel fingers, not a Robotiq gripper on a DROID
arm; actions are the arm's own (7 increments under operational-space control, gripper last), not absolute poses of the
flange; physics runs at 210 Hz, not 120; any contact counts as touching, whatever its force; objects are primitives, and what
stands where is drawn by us, because the benchmark's scenes are not public.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from evals.robotworld.contract import contract
from evals.tabletop.geometry import Geometry
from evals.tabletop.recipes import Recipe
from evals.tabletop.tasks import task_of
from mjx_bench.task import Atom, Task

if TYPE_CHECKING:
    import mujoco

CONTROL_HZ = 15
SUBSTEPS = 14


def make(recipe: Recipe, suite: str, index: int, version: str, expert_goal: tuple[Atom, ...]) -> Task:
    """The task of a recipe at the benchmark's rate.

    Args:
      recipe: by the name of a RoboLab task.
      suite, index: of the task.
      version: of the recipe's generator.
      expert_goal: the goal in atoms that the table's expert knows, never met where the recipe's is not.
    """
    assert contract(recipe.name).interface.control_hz == CONTROL_HZ
    task = task_of(recipe, suite, index, f"robotworld-{version}")
    load = functools.partial(_slower, task.scene.load_spec)
    spec = load()
    spec.compile()
    digest = hashlib.sha256(spec.to_xml().encode()).hexdigest()
    geometry: Any = task.extra["geometry"]
    assert isinstance(geometry, Geometry)
    # The table stays where it is, and so does its middle.
    geometry = dataclasses.replace(geometry, events=tuple(e for e in geometry.events if e != "receptacle_relocation"))
    return dataclasses.replace(
        task,
        version=f"robotworld-{version}-{digest[:12]}",
        scene=dataclasses.replace(task.scene, key=digest[:32], load_spec=load),
        control_hz=CONTROL_HZ,
        substeps=SUBSTEPS,
        extra={**task.extra, "geometry": geometry, "expert_goal": expert_goal},
    )


def _slower(load_spec: Callable[[], mujoco.MjSpec]) -> mujoco.MjSpec:
    spec = load_spec()
    spec.option.timestep = 1.0 / (CONTROL_HZ * SUBSTEPS)
    return spec
