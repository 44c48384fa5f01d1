"""The native suite's tasks, as a source for `evals.registry`: recipes made into `mjx_bench.task.Task`."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from typing import TYPE_CHECKING

import numpy as np

from evals.instances import TEMPLATE
from evals.native import Native, TaskRow
from evals.tabletop import instances as making
from evals.tabletop.geometry import Geometry
from evals.tabletop.instances import Instances
from evals.tabletop.panda import ROBOT
from evals.tabletop.recipes import RECIPES, Recipe
from evals.tabletop.room import CAMERAS, SUBSTEPS
from mjx_bench.task import ControllerReset, Placement, Reset, Scene, Task

if TYPE_CHECKING:
    import mujoco

SUITE = "tabletop"
VERSION = "1"  # of the generators: changes when an index comes to stand for another instance
CONTROL_HZ = 20
HOLD = (0.0,) * 7


def _task(index: int) -> Task:
    return task_of(RECIPES[index], SUITE, index, f"tabletop-{VERSION}")


def task_of(recipe: Recipe, suite: str, index: int, version: str) -> Task:
    """The task of a recipe, its version that of its generator and a digest of its scene."""
    instances = Instances(recipe)
    placed = making.draw(recipe, TEMPLATE)
    # Objects come first in the model too, so in qpos they follow the arm in this order.
    entities = [p.thing.entity() for p in sorted(placed, key=lambda p: p.thing.free_joint is None)]
    spec = _spec(recipe)
    spec.compile()
    digest = hashlib.sha256(spec.to_xml().encode()).hexdigest()
    task = Task(
        suite=suite,
        index=index,
        name=recipe.name,
        version=f"{version}-{digest[:12]}",
        instruction=recipe.instruction,
        scene=Scene(
            key=digest[:32],
            entities={entity.name: entity for entity in entities},
            regions={r.name: r for p in placed for r in p.thing.regions()},
            placements=tuple(Placement("on", entity.name, "table", "table") for entity in entities),
            robot=ROBOT,
            cameras=CAMERAS,
            load_spec=functools.partial(_spec, recipe),
            observed=CAMERAS,
        ),
        goal=recipe.goal,
        objects_of_interest=(),
        horizon=recipe.horizon,
        control_hz=CONTROL_HZ,
        substeps=SUBSTEPS,
        settle_steps=0,
        settle_action=HOLD,
        load_init_states=lambda: instances,
        load_reset=functools.partial(_reset, instances),
        load_fields=instances.fields,
    )
    trigger = task.trigger_entity
    assert trigger is not None, "every goal names an entity"
    geometry = Geometry.of(placed, trigger, task.receptacle, task.goal_entities, instances)
    return dataclasses.replace(
        task, objects_of_interest=task.goal_entities, extra={"instances": instances, "geometry": geometry}
    )


def _spec(recipe: Recipe) -> mujoco.MjSpec:
    return making.build(making.draw(recipe, TEMPLATE))


def _reset(instances: Instances, seed: int) -> Reset:
    return Reset(seed=seed, fixture_pos={}, fixture_quat={}, controller=_controller(instances))


@functools.cache
def _controller(instances: Instances) -> ControllerReset:
    """What a controller that looks at the initial state sees: every instance starts with the arm in the same posture."""
    import mujoco

    model = instances.template
    data = mujoco.MjData(model)
    data.qpos[:] = instances.instance(TEMPLATE).state[1 : 1 + model.nq]
    mujoco.mj_forward(model, data)
    site = model.site(ROBOT.eef_site).id
    dofs = [int(model.joint(name).dofadr[0]) for name in ROBOT.arm_joints]
    jac, inertia = np.zeros((6, model.nv)), np.zeros((model.nv, model.nv))
    mujoco.mj_jacSite(model, data, jac[:3], jac[3:], site)
    mujoco.mj_fullM(model, data, inertia)
    return ControllerReset(
        eef_pos=data.site_xpos[site].copy(),
        eef_mat=data.site_xmat[site].reshape(3, 3).copy(),
        joint_pos=data.qpos[[int(model.joint(name).qposadr[0]) for name in ROBOT.arm_joints]].copy(),
        jac_pos=jac[:3, dofs],
        jac_rot=jac[3:, dofs],
        mass_matrix=inertia[np.ix_(dofs, dofs)],
    )


SOURCE = Native(
    SUITE,
    tuple(TaskRow(SUITE, i, r.name, r.instruction, r.goal, r.horizon) for i, r in enumerate(RECIPES)),
    _task,
)
