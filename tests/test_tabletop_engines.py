"""What the native suite asks of an engine, and what it keeps of a grasp and a push."""

from __future__ import annotations

import dataclasses

import mujoco
import numpy as np
import pytest

from evals.tabletop.panda import ROBOT
from mjx_bench.physics.mujoco_c import MujocoC
from tests.scenes import wandering
from tests.test_tabletop import every_task, instances_of, scene_of

MAX_SLOTS = 60  # contact slots of MJX's JAX engine


@every_task
def test_a_compiled_engine_takes_the_scene_in_few_contact_slots(name: str):
    from mujoco import mjx
    from mujoco.mjx._src.collision_driver import make_condim

    model = scene_of(name)[0].scene.load_spec().compile()
    assert 0 < make_condim(model).size <= MAX_SLOTS
    put_there = mjx.put_model(model, impl="jax")
    assert put_there.nv == model.nv
    assert not model.nmesh


@every_task
def test_what_an_instance_varies_is_expandable_and_traced(name: str):
    """Every field is one that the C engine gives each lane and MJX traces."""
    from mujoco import mjx

    fields = set(instances_of(name).varied)
    traced = {f.name for f in dataclasses.fields(mjx.Model)} | {f.name for f in dataclasses.fields(mjx.ModelJAX)}
    assert fields <= traced
    assert "geom_size" in fields
    assert scene_of(name)[0].load_fields(0).keys() == fields  # type: ignore[misc]


@every_task
def test_held_parts_meet_what_they_must_and_nothing_else(name: str):
    """Visual geoms never collide, every loose object stands on the table, and arm links pass through everything."""
    model = scene_of(name)[1].model
    collides = (model.geom_contype | model.geom_conaffinity) != 0
    assert not collides[model.geom_group == 1].any()
    assert (model.geom_group[collides] == 3).all()
    table = model.geom("table_plane")
    for entity in scene_of(name)[0].scene.entities.values():
        own = [model.geom(g) for g in entity.contact_geoms]
        if entity.kind == "object":
            assert any(g.conaffinity[0] & table.contype[0] for g in own), entity.name
    links = [model.body(f"robot0_link{i}").id for i in range(1, 8)]
    assert not collides[np.isin(model.geom_bodyid, links)].any()


def test_the_arm_is_a_panda():
    model = scene_of("pick_lift")[1].model
    reach = mujoco.MjData(model)
    mujoco.mj_forward(model, reach)
    # All joints at zero: the flange of a Panda is 0.088 ahead of the base and 0.926 up (0.333 + 0.316 + 0.384 - 0.107).
    base, hand = reach.body("robot0_base").xpos, reach.body(ROBOT.hand_body).xpos
    assert np.abs(hand - base - [0.088, 0.0, 0.926]).max() < 1e-9
    assert model.actuator_ctrlrange[:7, 1].tolist() == [87.0] * 4 + [12.0] * 3


# Held and pushed.


def lanes(name: str, count: int) -> MujocoC:
    """An engine whose lane i holds instance i."""
    task, scene, _ = scene_of(name)
    physics = MujocoC(scene, count, "osc_pose", task.substeps)
    states = task.load_init_states()
    for lane in range(count):
        physics.load(lane, states[lane], task.load_reset(0), instances_of(name).fields(lane))
    return physics


def finger_axis(quat: np.ndarray) -> np.ndarray:
    """[n] angle about z of the hand's y axis, from [n, 4] wxyz."""
    w, x, y, z = quat.T
    return np.arctan2(1 - 2 * (x * x + z * z), 2 * (x * y - w * z))


def lead(physics: MujocoC, goal: np.ndarray, axis: np.ndarray, gripper: float, steps: int) -> None:
    """Moves the grip sites towards `goal` [n, 3], the fingers along `axis` [n] modulo a half turn."""
    ids = np.arange(len(goal), dtype=np.int32)
    for _ in range(steps):
        now = physics.kinematics(ids)
        off = (axis - finger_axis(now.eef_quat) + np.pi / 2) % np.pi - np.pi / 2
        action = np.zeros((len(goal), 7))
        action[:, :3] = np.clip(14.0 * (goal - now.eef_pos), -1, 1)
        action[:, 5] = np.where(np.abs(off) < 0.02, 0.0, np.clip(off, -0.5, 0.5))
        action[:, 6] = gripper
        assert not physics.control_step(ids, action)


HELD = [("pick_lift", "red_block", 0.0), ("place_in_bin", "red_ball", 0.0), ("insert_peg", "peg", 0.018)]


@pytest.mark.parametrize(("name", "thing", "above"), HELD)
def test_what_is_held_stays_where_it_is_held(name: str, thing: str, above: float):
    """Grasped `above` its middle, lifted by 20 cm, held for 2 s: it creeps by less than 0.5 mm a second, without shaking."""
    n = 8
    physics = lanes(name, n)
    ids = np.arange(n, dtype=np.int32)
    e = physics.index.entity(thing)
    start = physics.kinematics(ids)
    spot, w, z = start.entity_pos[:, e], start.entity_quat[:, e, 0], start.entity_quat[:, e, 3]
    axis = 2 * np.arctan2(z, w)
    up = np.array([0.0, 0.0, 1.0])
    grip, high = spot + above * up, spot + (0.2 + above) * up
    lead(physics, grip + 0.09 * up, axis, -1, 40)
    lead(physics, grip, axis, -1, 20)
    lead(physics, grip, axis, 1, 12)
    lead(physics, high, axis, 1, 40)
    held = []
    for _ in range(40):
        lead(physics, high, axis, 1, 1)
        now = physics.kinematics(ids)
        held.append(now.entity_pos[:, e] - now.eef_pos)
    path = np.array(held)
    assert (physics.kinematics(ids).entity_pos[:, e, 2] > spot[:, 2] + 0.19).all(), "all were lifted"
    assert np.linalg.norm(path[-1] - path[0], axis=1).max() < 1e-3
    assert np.abs(np.diff(path, axis=0)).max() < 1e-4


@pytest.mark.parametrize("name", ["pick_place", "push_to_region", "stack_three_in_order"])
def test_a_hand_that_runs_into_things_throws_none(name: str):
    """A solver that is cut off early sends things off at 3 m/s and more."""
    n = 8
    physics = lanes(name, n)
    ids = np.arange(n, dtype=np.int32)
    actions = wandering(100, n, 5, down=0.15)
    before = physics.kinematics(ids).entity_pos
    for action in actions:
        assert not physics.control_step(ids, action)
        now = physics.kinematics(ids).entity_pos
        assert np.linalg.norm(now - before, axis=2).max() < 0.1, "2 m/s"
        before = now
