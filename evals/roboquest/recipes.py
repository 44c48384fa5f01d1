"""A recipe made into a task: its scene, its robot, what judges it, and the oracle's program."""

from __future__ import annotations

import functools
import hashlib
from typing import TYPE_CHECKING

import numpy as np

from evals.instances import TEMPLATE
from evals.libero_max.eligibility import VISUAL
from evals.libero_max.placing import Layout
from evals.roboquest import instances as making
from evals.roboquest import robot
from evals.roboquest.instances import QuestInstances, QuestRecipe
from evals.roboquest.kitchen import COUNTER
from mjx_bench.task import ControllerReset, Entity, Placement, Reset, Scene, Task

if TYPE_CHECKING:
    import mujoco

CONTROL_HZ = 20
BASE = Entity(robot.ENTITY, "fixture", "robot", robot.BODY, None, joints=robot.ROBOT.base_joints)


# Where an event may put a thing: so far to either side of the base's frame and ahead of it, so far within the footprint; m.
_ASIDE, _AHEAD, _INSIDE = 0.40, 0.68, 0.06


class Geometry:
    """What `Task.extra["geometry"]` holds: the events of a recipe's task, and where things stand in an instance."""

    spares: tuple[str, ...] = ()

    def __init__(self, recipe: QuestRecipe, instances: QuestInstances) -> None:
        self.events = (*VISUAL, *recipe.events)
        self._footprint, self._instances = recipe.footprint, instances

    def layout(self, row: int) -> Layout:
        """What stands where in an instance: every thing as a circle, in a box that the arm reaches from its start."""
        instance, f = self._instances.instance(row), self._footprint
        standing = [p for p in instance.placed if p.thing.radius > 0.0]
        x, y, _ = instance.start
        return Layout(
            position={p.thing.name: np.array(p.xy) for p in standing},
            radius={p.thing.name: p.thing.radius for p in standing},
            fixtures=(),
            low=np.array([max(-f.x / 2, x - _ASIDE), -f.y / 2]) + _INSIDE,
            high=np.array([min(f.x / 2, x + _ASIDE), min(f.y / 2, y + _AHEAD)]) - _INSIDE,
        )


def quest_task(recipe: QuestRecipe, suite: str, index: int, version: str) -> Task:
    """The task of a recipe.

    Args:
      recipe: what it is.
      suite, index: where it is listed.
      version: of its generator; changes when an index comes to stand for another instance.
    """
    instances = QuestInstances(recipe)
    placed = making.draw(recipe, TEMPLATE).placed
    # Objects come first, and in qpos they follow the robot in this order.
    things = [p.thing.entity() for p in sorted(placed, key=lambda p: p.thing.free_joint is None)]
    entities = [*things, COUNTER, BASE]
    spec = _spec(recipe)
    spec.compile()
    digest = hashlib.sha256(spec.to_xml().encode()).hexdigest()
    regions = [r for p in placed for r in p.thing.regions()]
    return Task(
        suite=suite,
        index=index,
        name=recipe.name,
        version=f"roboquest-{version}-{digest[:12]}",
        instruction=recipe.instruction,
        scene=Scene(
            key=digest[:32],
            entities={entity.name: entity for entity in entities},
            regions={r.name: r for r in (*regions, robot.FRAME)},
            placements=tuple(Placement("on", e.name, COUNTER.name, COUNTER.name) for e in things),
            robot=robot.ROBOT,
            cameras=robot.CAMERAS,
            load_spec=functools.partial(_spec, recipe),
            observed=robot.CAMERAS,
        ),
        goal=recipe.goal,
        objects_of_interest=(),
        horizon=recipe.horizon,
        control_hz=CONTROL_HZ,
        substeps=recipe.substeps,
        settle_steps=robot.SETTLE_TICKS,
        settle_action=robot.SETTLE,
        load_init_states=lambda: instances,
        load_reset=functools.partial(_reset, instances),
        load_fields=instances.fields,
        load_instruction=None if recipe.tell is None else instances.told,
        extra={"instances": instances, "geometry": Geometry(recipe, instances), "program": recipe.program},
        rules=recipe.rules,
        action_modes=("mobile_osc",),
    )


def _spec(recipe: QuestRecipe) -> mujoco.MjSpec:
    return making.build(recipe, making.draw(recipe, TEMPLATE))


def _reset(instances: QuestInstances, seed: int) -> Reset:
    """The arm's posture at the start, which its null space keeps to; all else the controller reads off the state."""
    controller = ControllerReset(
        eef_pos=np.zeros(3),
        eef_mat=np.eye(3),
        joint_pos=np.array(robot.HOME),
        jac_pos=np.zeros((3, 7)),
        jac_rot=np.zeros((3, 7)),
        mass_matrix=np.eye(7),
    )
    return Reset(seed=seed, fixture_pos={}, fixture_quat={}, controller=controller)
