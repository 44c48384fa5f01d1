"""RoboQuest's robot: its cameras, what its twelve actions do, and the state that policies read."""

from __future__ import annotations

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from evals import registry
from evals.roboquest import robot
from mjx_bench.control import mobile_jax
from mjx_bench.control.arm_jax import Memory, Seen, jacobian
from mjx_bench.errors import BenchError
from mjx_bench.physics.choice import make_physics
from mjx_bench.physics.mujoco_c import MujocoC
from mjx_bench.policy import Observation, settling
from policies.mobile.state import limited, state16
from policies.simple import Zero

TASK = registry.load_task("roboquest", 1)
LANE = np.zeros(1, np.int32)


@functools.cache
def engine() -> MujocoC:
    physics = make_physics("c", TASK.scene, (), 1, "mobile_osc", TASK.substeps)
    assert isinstance(physics, MujocoC)
    return physics


def fresh() -> MujocoC:
    """One lane of instance 0, settled as an episode is."""
    physics = engine()
    physics.load(0, TASK.load_init_states()[0], TASK.load_reset(0), TASK.load_fields(0))
    step(physics, TASK.settle_steps, settling(TASK, 12))
    return physics


def step(physics: MujocoC, ticks: int, action: np.ndarray) -> None:
    for _ in range(ticks):
        assert physics.control_step(LANE, action[None]) == {}


def told(**parts: float | tuple[float, ...]) -> np.ndarray:
    """An action by its parts: move, turn, grip, base, torso, mode."""
    at = {"move": slice(0, 3), "turn": slice(3, 6), "grip": 6, "base": slice(7, 10), "torso": 10, "mode": 11}
    action = np.zeros(12)
    for name, value in parts.items():
        action[at[name]] = value
    return action


def observe(physics: MujocoC) -> Observation:
    k = physics.kinematics(LANE)
    return Observation(
        task=TASK, step=np.zeros(1, np.int64), **{f.name: getattr(k, f.name) for f in dataclasses.fields(k)}
    )


def base(physics: MujocoC) -> np.ndarray:
    return np.array([physics.kinematics(LANE).articulation[name][0] for name in robot.ROBOT.base_joints])


def hand(physics: MujocoC) -> np.ndarray:
    """[3] grip site in the base's frame."""
    return state16(observe(physics))[0, :3]


def test_cameras_are_where_the_benchmark_has_them():
    model = TASK.extra["instances"].template
    data = mujoco.MjData(model)
    for name, value in robot.start_qpos(0.0, 0.0, 0.0).items():
        data.qpos[model.joint(name).qposadr[0]] = value
    mujoco.mj_forward(model, data)
    # Rows of the rotation from a camera's axes (right, up, back) to the base's.
    left = [[-0.20197, 0.52813, -0.82479], [-0.9793, -0.09726, 0.17753], [0.01354, 0.84358, 0.53684]]
    right = [[0.20197, 0.52813, -0.82479], [-0.9793, 0.09726, -0.17753], [-0.01354, 0.84358, 0.53684]]
    wrist = [[0.07087, 0.95933, -0.27324], [-0.99694, 0.05904, -0.0513], [-0.03308, 0.27603, 0.96058]]
    for name, pos, look, fovy in (
        ("robot0_agentview_left", [-0.5, 0.35, 1.75], left, 60),
        ("robot0_agentview_right", [-0.5, -0.35, 1.75], right, 60),
        ("robot0_eye_in_hand", [0.2686, -0.0063, 1.403], wrist, 75),
    ):
        camera = model.camera(name).id
        np.testing.assert_allclose(data.cam_xpos[camera], pos, atol=1e-3)
        np.testing.assert_allclose(data.cam_xmat[camera].reshape(3, 3), look, atol=1e-3)
        assert model.cam_fovy[camera] == fovy
    assert TASK.scene.cameras == tuple(robot.CAMERAS)


def test_nothing_moves_while_nothing_is_told_but_the_hand_that_opens():
    physics = fresh()
    assert physics.kinematics(LANE).gripper_qpos[0] == pytest.approx([0.04, -0.04], abs=2e-3)
    before, where = base(physics), hand(physics)
    step(physics, 40, told())
    assert np.abs(base(physics) - before).max() < 5e-4
    assert np.abs(hand(physics) - where).max() < 2e-3


def test_the_base_goes_where_it_is_told_in_its_own_axes_and_the_arm_rides_along():
    physics = fresh()
    for velocity, way in (
        ((-0.5, 0, 0), (-1, 0)),
        ((0, 0.4, 0), (0, 1)),
        ((0.3, -0.2, 0.0), (0.3 / 0.36, -0.2 / 0.36)),
    ):
        before, where = base(physics), hand(physics)
        step(physics, 20, told(base=velocity, mode=1))
        assert np.abs(hand(physics) - where).max() < 0.05
        step(physics, 40, told(mode=1))  # the arm sways when the base starts and stops at once
        after = base(physics)
        c, s = math.cos(before[2]), math.sin(before[2])
        moved = np.array([[c, s], [-s, c]]) @ (after - before)[:2]
        speed = math.hypot(*velocity[:2])
        np.testing.assert_allclose(moved, speed * np.array(way), atol=0.01)
        assert abs(after[2] - before[2]) < 0.01
        assert np.abs(hand(physics) - where).max() < 0.004
    before = base(physics)
    step(physics, 20, told(base=(0, 0, 0.4), mode=1))
    step(physics, 40, told(mode=1))
    assert base(physics)[2] - before[2] == pytest.approx(0.4, abs=0.01), "a turn above 0 is to the left"
    assert np.abs(hand(physics) - where).max() < 0.004


def test_in_arm_mode_the_hand_keeps_its_turn_in_the_world_while_the_base_turns():
    turned = {}
    for mode in (-1.0, 1.0):
        physics = fresh()
        before = physics.kinematics(LANE).eef_quat[0]
        step(physics, 10, told(base=(0, 0, 0.3), mode=mode))
        turned[mode] = 2.0 * math.acos(min(1.0, abs(float(before @ physics.kinematics(LANE).eef_quat[0]))))
    assert turned[-1.0] < 0.07
    assert turned[1.0] == pytest.approx(0.15, abs=0.03)


def test_the_arm_moves_along_the_axes_of_the_base():
    physics = fresh()  # the base faces the world's +y
    step(physics, 20, told(base=(-0.3, 0, 0.5), mode=1))
    step(physics, 10, told(mode=1))
    for way in ((1, 0, 0), (0, 1, 0), (0, 0, -1)):
        before = hand(physics)
        step(physics, 8, told(move=tuple(0.5 * w for w in way)))
        moved = hand(physics) - before
        step(physics, 8, told())
        assert moved @ np.array(way) > 0.03
        assert np.linalg.norm(moved - (moved @ np.array(way)) * np.array(way)) < 0.01
    before = state16(observe(physics))[0, 3:7]
    step(physics, 8, told(turn=(0, 0, 0.3)))
    step(physics, 8, told())
    after = state16(observe(physics))[0, 3:7]
    turned = 2.0 * math.acos(min(1.0, abs(float(before @ after))))
    assert turned > 0.15
    assert np.abs(base(physics)[2] - (math.pi / 2 + 0.5)) < 0.02


def test_the_torso_number_does_nothing_and_the_gripper_moves_a_tenth_a_tick():
    found = []
    for torso in (0.0, 1.0):
        physics = fresh()
        step(physics, 5, told(move=(0.2, 0, 0), grip=1.0, torso=torso))
        found.append(physics.kinematics(LANE).qpos[0])
    np.testing.assert_array_equal(*found)
    physics = fresh()
    for tick in range(1, 21):
        step(physics, 1, told(grip=1.0))
        assert physics._controller.gripper[0] == pytest.approx([1.0 - 0.1 * tick, 0.1 * tick - 1.0], abs=1e-9)


def test_a_push_against_the_base_moves_it_less_than_a_millimetre():
    physics = fresh()
    body, before = physics.scene.model.body(robot.BODY).id, base(physics)
    physics._fields.xfrc_applied[0, body, :3] = [12.0, -12.0, 0.0]
    step(physics, 20, told())
    physics._fields.xfrc_applied[0, body, :3] = 0.0
    assert np.abs(base(physics) - before)[:2].max() < 1e-3


def test_the_law_in_jax_is_the_compiled_one():
    lanes = 4
    ids, rows = np.arange(lanes, dtype=np.int32), np.arange(lanes)[:, None]
    physics = make_physics("c", TASK.scene, (), lanes, "mobile_osc", TASK.substeps)
    assert isinstance(physics, MujocoC)
    for lane in ids.tolist():
        physics.load(lane, TASK.load_init_states()[lane], TASK.load_reset(0), TASK.load_fields(lane))
    arm, f, state = physics.scene.arm, physics._fields, physics._controller
    assert arm.base is not None
    driven = arm.base

    def one(pos, mat, cdof, com, mass, q, qd, at, bias, ctrl, memory, action, new_goal):
        seen = Seen(pos, mat.reshape(3, 3), jacobian(pos, cdof, com), mass, q, qd, at)
        return mobile_jax.mobile_osc(action, new_goal, seen, bias, ctrl, memory, arm)

    law = jax.jit(jax.vmap(one, in_axes=(*[0] * 12, None)))
    drawn = np.random.default_rng(5).uniform(-1.0, 1.0, (8, lanes, 12))
    for tick, action in enumerate(drawn):
        action[:, 11] = np.where(tick % 4 < 2, 1.0, -1.0)
        if tick == 5:
            state.stale[::2] = True  # as after a restored state
        kept = [state.row(lane) for lane in ids]
        for new_goal in (True, False):
            memory = Memory(**{n: jnp.asarray(getattr(state, n), jnp.float32) for n in Memory._fields})
            inputs = (
                f.site_xpos[:, arm.site], f.site_xmat[:, arm.site], f.cdof[rows, arm.dof], f.subtree_com[:, arm.root],
                np.where(arm.mass >= 0, f.M[:, arm.mass], 0.0), f.qpos[rows, arm.qpos], f.qvel[rows, arm.dof],
                f.qpos[rows, driven.qpos], f.qfrc_bias[rows, arm.dof], f.ctrl,
            )  # fmt: skip
            ctrl, after = law(*(jnp.asarray(a, jnp.float32) for a in inputs), memory, jnp.asarray(action), new_goal)
            physics._law(ids, action, new_goal, f, state, arm)
            # Nm, of up to 87: single precision loses a few digits in the task-space inertias.
            np.testing.assert_allclose(ctrl[:, arm.actuators], f.ctrl[:, arm.actuators], rtol=0, atol=2e-2)
            np.testing.assert_allclose(ctrl[:, driven.actuators], f.ctrl[:, driven.actuators], rtol=0, atol=2e-6)
            for name in ("goal_pos", "goal_mat", "goal_joint", "gripper"):
                np.testing.assert_allclose(getattr(after, name), getattr(state, name), rtol=0, atol=5e-6, err_msg=name)
        for lane in ids.tolist():
            state.set_row(lane, kept[lane])
        assert physics.control_step(ids, action) == {}


def test_the_state_is_what_mujoco_says_of_hand_and_base():
    physics = fresh()
    step(physics, 15, told(base=(-0.3, 0.1, 0.5), mode=1))
    model, data = physics.scene.model, mujoco.MjData(physics.scene.model)
    data.qpos = physics.kinematics(LANE).qpos[0]
    mujoco.mj_kinematics(model, data)
    body = model.body(robot.BODY).id
    site, held = model.site(robot.ROBOT.eef_site).id, model.body(robot.ROBOT.hand_body).id
    frame = data.xmat[body].reshape(3, 3)
    found = state16(observe(physics))[0].astype(float)
    np.testing.assert_allclose(found[:3], frame.T @ (data.site_xpos[site] - data.xpos[body]), atol=1e-6)
    for quat, want in (
        (found[3:7], frame.T @ data.xmat[held].reshape(3, 3)),
        (found[10:14], frame),
    ):
        mat = np.empty(9)
        mujoco.mju_quat2Mat(mat, np.array([quat[3], *quat[:3]]))
        np.testing.assert_allclose(mat.reshape(3, 3), want, atol=1e-6)
    np.testing.assert_allclose(found[7:10], data.xpos[body], atol=1e-6)
    np.testing.assert_allclose(found[14:], physics.kinematics(LANE).gripper_qpos[0], atol=1e-6)
    assert found.shape == (16,)


def test_actions_as_demonstrations_have_them():
    raw = np.array(
        [[1, -1, 0.2, 0.9, 0, -0.1, 0.0, 0.3, 0.3, 0.3, 0.7, -0.2], [1, 1, 1, 1, 1, 1, -0.1, 0.9, -0.2, -1, 1, 0.0]]
    )
    np.testing.assert_allclose(
        limited(raw),
        [[0.5, -0.5, 0.2, 0.3, 0, -0.1, 1, 0, 0, 0, 0, -1], [0, 0, 0, 0, 0, 0, -1, 0.5, -0.2, -0.5, 0, 1]],
        atol=1e-7,
    )


def test_zero_knows_how_wide_an_action_is_and_a_fixed_arm_takes_none_of_them():
    assert Zero().act([None], observe(fresh()), np.zeros(1, np.uint64))[0].shape == (1, 16, 12)
    table = registry.load_task("tabletop", 0)
    with pytest.raises(BenchError, match="drives a base"):
        make_physics("c", table.scene, (), 1, "mobile_osc", table.substeps)
