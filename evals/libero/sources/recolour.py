"""LIBERO-PRO's object_texture: what the task ends at looks like what it stands on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evals.libero.sources.edits import with_spec
from mjx_bench.errors import BenchError
from mjx_bench.task import Task

if TYPE_CHECKING:
    import mujoco

# The colour of each workspace. LIBERO-PRO's is known for all but the living room, which gets that of the tables.
_TABLE = (0.72, 0.63, 0.50)
COLOUR = {
    "main_table": _TABLE,
    "kitchen_table": _TABLE,
    "living_room_table": _TABLE,
    "floor": (0.35, 0.34, 0.32),
    "study_table": (0.50, 0.36, 0.20),
}
SHOWN_GROUP = 1


def destination_of(task: Task) -> str:
    """The entity that the goal brings something to; where there is none, the one that the goal is about."""
    name = task.receptacle or task.trigger_entity
    if name is None:
        raise BenchError(f"{task.suite} task {task.index}: its goal names no entity")
    return name


def blended(task: Task) -> Task:
    """The task with its goal's destination in the colour of its workspace, without texture."""
    body, colour = task.scene.entities[destination_of(task)].body, COLOUR[task.extra["workspace"]]

    def change(spec: mujoco.MjSpec, textured: bool) -> None:
        for geom in _geoms(spec.body(body)):
            if geom.group != SHOWN_GROUP:
                continue
            geom.rgba = [*colour, 1.0]
            if geom.material:
                material = spec.material(geom.material)
                material.rgba = [*colour, 1.0]
                material.textures = [""] * len(material.textures)

    return with_spec(task, "blended", change, seen_only=True)


def _geoms(body: mujoco.MjsBody) -> list[mujoco.MjsGeom]:
    return [*body.geoms, *(geom for child in body.bodies for geom in _geoms(child))]
