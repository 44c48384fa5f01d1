"""The `lean` form of a household, for engines that compute every contact that there could be.

What meets each other is fingers, palms, things, the floor, and the furniture that the task is at. All else is looked at and
met by nothing: other furniture, walls, and the robot's base, column, torso and arms, which drive and reach through what
they would run into. Nothing else differs: bodies, joints, masses, pictures, instances and their numbers are the same.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from evals.robot_agent_bench.furniture import BY_NAME
from evals.robot_agent_bench.robot import PADS, SIDES
from mjx_bench.task import Entity, Task

if TYPE_CHECKING:
    import mujoco

REVISION = 1  # changes when a lean scene does: part of a task's version

_HANDS = {*(pad for end in PADS for pad in end), *(f"{side}_palm" for side in SIDES)}


def lean_task(task: Task) -> Task:
    """The task on the lean form of its scene."""
    scene, work = task.scene, task.extra["work"]
    pieces = (work,) if isinstance(work, str) else ("sofa", "coffee_table")
    return dataclasses.replace(
        task,
        scene=dataclasses.replace(
            scene,
            key=f"{scene.key}-lean{REVISION}",
            entities={name: _met(entity, pieces) for name, entity in scene.entities.items()},
            load_spec=functools.partial(_load, scene.load_spec, pieces),
            exact=scene,
        ),
        version=f"{task.version}-lean{REVISION}",
    )


def _met(entity: Entity, pieces: Collection[str]) -> Entity:
    """An entity without the geoms that meet nothing."""
    far = entity.name in BY_NAME and entity.name not in pieces
    return dataclasses.replace(entity, contact_geoms=()) if far else entity


def _load(exact: Callable[[], mujoco.MjSpec], pieces: Collection[str]) -> mujoco.MjSpec:
    spec = exact()
    things = {body.name for body in spec.bodies for joint in body.joints if joint.name == f"{body.name}_free"}
    for geom in spec.geoms:
        if geom.parent.name not in {*pieces, *things} and geom.name not in {*_HANDS, "floor"}:
            geom.contype = geom.conaffinity = 0
    return spec
