"""Things of another size: a spec's body tree scaled about its origin, with everything that hangs on its size."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from evals.libero.sources.edits import model_of, pose_at, with_reset, with_spec, with_states
from mjx_bench.task import Reset, Task

if TYPE_CHECKING:
    import mujoco

# Where things come to rest on each workspace, metres.
SURFACE_M = {"main_table": 0.9, "kitchen_table": 0.9, "study_table": 0.8851, "living_room_table": 0.4368, "floor": 0.0}

# LIBERO-PRO's object_shape.
PRO_FACTOR = 0.5


def scaled(task: Task, name: str, factor: float) -> Task:
    """The task with one entity `factor` times as large, of the same density, standing on what it stood on.

    LIBERO-PRO writes the factor into a compiled model's `mesh_scale`, which nothing reads any more. Here meshes and shapes
    are scaled before the model is compiled. Joints keep their ranges: a drawer opens as far as it did.
    """
    scene = task.scene
    entity = scene.entities[name]

    def change(spec: mujoco.MjSpec, textured: bool) -> None:
        scale(spec, spec.body(entity.body), factor)

    def state(row: np.ndarray) -> np.ndarray:
        pose = row[pose_at(task, name)]
        low = lowest(task, name, row, None)
        # Some of LIBERO's states start a little inside of the floor, which throws out what is small.
        pose[2] = max(low, SURFACE_M[task.extra["workspace"]]) + factor * (pose[2] - low)
        return row

    def reset(old: Reset) -> Reset:
        pos = dict(old.fixture_pos)
        low = lowest(task, name, np.asarray(task.load_init_states()[0]), old)
        pos[name] = np.array([*pos[name][:2], low + factor * (pos[name][2] - low)])
        return dataclasses.replace(old, fixture_pos=pos)

    regions = dict(scene.regions)
    for key, region in scene.regions.items():
        if region.parent == name:
            x, y, z = region.half_size
            regions[key] = dataclasses.replace(region, half_size=(factor * x, factor * y, factor * z))
    changed = with_spec(task, f"{name}-x{factor:g}", change)
    changed = dataclasses.replace(changed, scene=dataclasses.replace(changed.scene, regions=regions))
    return with_reset(changed, reset) if entity.kind == "fixture" else with_states(changed, state)


def scale(spec: mujoco.MjSpec, body: mujoco.MjsBody, factor: float) -> None:
    """Scales a body and what hangs on it about its origin; its own place stays."""
    meshes: set[str] = set()
    _scale_tree(body, factor, meshes)
    for mesh in meshes:
        spec.mesh(mesh).scale = factor * np.array(spec.mesh(mesh).scale)


def _scale_tree(body: mujoco.MjsBody, factor: float, meshes: set[str]) -> None:
    if body.explicitinertial:
        body.mass *= factor**3
        body.ipos = factor * np.array(body.ipos)
        body.inertia = factor**5 * np.array(body.inertia)
        body.fullinertia = factor**5 * np.array(body.fullinertia)
    for geom in body.geoms:
        geom.pos = factor * np.array(geom.pos)
        geom.size = factor * np.array(geom.size)
        geom.mass *= factor**3  # not a number where the density says it
        if geom.meshname:
            meshes.add(geom.meshname)
    for part in (*body.sites, *body.joints):
        part.pos = factor * np.array(part.pos)
    for site in body.sites:
        site.size = factor * np.array(site.size)
    for child in body.bodies:
        child.pos = factor * np.array(child.pos)
        _scale_tree(child, factor, meshes)


def lowest(task: Task, name: str, row: np.ndarray, reset: Reset | None) -> float:
    """The height of the lowest point of an entity's colliding shapes in an initial state, world metres."""
    import mujoco

    model = model_of(task.scene)
    data = mujoco.MjData(model)
    data.qpos[:] = row[1 : 1 + model.nq]
    mujoco.mj_kinematics(model, data)
    root = model.body(task.scene.entities[name].body).id
    low = lowest_point(model, data, root)
    if reset is None:
        return low
    # A fixture turns about the vertical only, so that its place in the model and at the reset differ by a height.
    return low + float(reset.fixture_pos[name][2] - model.body_pos[root][2])


def lowest_point(model: mujoco.MjModel, data: mujoco.MjData, root: int) -> float:
    """The height of the lowest point of the colliding shapes of a body that hangs on the world, metres."""
    inside = (model.body_rootid[model.geom_bodyid] == root) & ((model.geom_contype | model.geom_conaffinity) != 0)
    return min(_lowest_of(model, data, int(geom)) for geom in np.flatnonzero(inside))


def _lowest_of(model: mujoco.MjModel, data: mujoco.MjData, geom: int) -> float:
    up = data.geom_xmat[geom].reshape(3, 3)[2]
    if (mesh := int(model.geom_dataid[geom])) >= 0:
        start, count = model.mesh_vertadr[mesh], model.mesh_vertnum[mesh]
        return float(data.geom_xpos[geom][2] + (model.mesh_vert[start : start + count] @ up).min())
    centre, half = model.geom_aabb[geom][:3], model.geom_aabb[geom][3:]
    return float(data.geom_xpos[geom][2] + up @ centre - np.abs(up) @ half)
