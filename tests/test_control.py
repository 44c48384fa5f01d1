"""The compiled control laws against the textbook formulas in plain NumPy, and what they do at the edges."""

from __future__ import annotations

import mujoco
import numpy as np

from mjx_bench.control.arm import cholesky, solve_lower, solve_lower_transposed
from mjx_bench.control.osc import KD, KP, POSTURE_KD, POSTURE_KP
from tests.scenes import SEED, libero_lanes, libero_scene, wandering

LANE = np.zeros(1, np.int32)
OPEN = np.array([[0, 0, 0, 0, 0, 0, -1.0]])


def at_rest(action_mode: str = "osc_pose"):
    """A lane that has taken one control step, so that its controller has looked at its state."""
    physics = libero_lanes("libero_object", 0, 1, action_mode=action_mode)
    still = np.zeros((1, 8 if action_mode == "joint_position" else 7))
    assert physics.control_step(LANE, still) == {}
    return physics


def forwarded(physics):
    """MuJoCo's own data of lane 0, every stage computed."""
    data = physics._batch.get_data(0)
    mujoco.mj_forward(physics.scene.model, data)
    return data


def commanded(physics, action: np.ndarray) -> np.ndarray:
    """Actuator commands that the law writes for the first physics step of a control step."""
    physics._law(LANE, action[None].astype(float), True, physics._fields, physics._controller, physics.scene.arm)
    return physics._fields.ctrl[0].copy()


def test_osc_torques_equal_the_formulas_with_plain_inverses():
    physics = at_rest()
    arm, model = physics.scene.arm, physics.scene.model
    for action in wandering(20, 1, seed=0)[:, 0]:
        data = forwarded(physics)
        jp, jr = np.zeros((3, model.nv)), np.zeros((3, model.nv))
        mujoco.mj_jacSite(model, data, jp, jr, arm.site)
        jac = np.concatenate([jp, jr])[:, arm.dof]
        full = np.zeros((model.nv, model.nv))
        mujoco.mj_fullM(model, data, full)
        mass = full[np.ix_(arm.dof, arm.dof)]
        q, qd = data.qpos[arm.qpos], data.qvel[arm.dof]
        x, rot = data.site_xpos[arm.site].copy(), data.site_xmat[arm.site].reshape(3, 3).copy()
        ctrl = commanded(physics, action)

        goal_pos = x + 0.05 * np.clip(action[:3], -1, 1)
        goal_mat = physics._controller.goal_mat[0]
        error = 0.5 * sum(np.cross(rot[:, c], goal_mat[:, c]) for c in range(3))
        velocity = jac @ qd
        force = KP * (goal_pos - x) - KD * velocity[:3]
        torque = KP * error - KD * velocity[3:]
        inv = np.linalg.inv(mass)
        wrench = np.concatenate(
            [np.linalg.solve(jac[:3] @ inv @ jac[:3].T, force), np.linalg.solve(jac[3:] @ inv @ jac[3:].T, torque)]
        )
        lam = np.linalg.inv(jac @ inv @ jac.T)
        null = np.eye(7) - inv @ jac.T @ lam @ jac
        posture = mass @ (POSTURE_KP * (physics._controller.reset_joint[0] - q) - POSTURE_KD * qd)
        want = jac.T @ wrench + data.qfrc_bias[arm.dof] + null.T @ posture
        want = np.clip(want, arm.torque_low, arm.torque_high)
        np.testing.assert_allclose(ctrl[arm.actuators], want, rtol=0, atol=1e-9)
        assert physics.control_step(LANE, action[None]) == {}


def test_joint_torques_equal_the_formula():
    physics = at_rest("joint_position")
    arm, model = physics.scene.arm, physics.scene.model
    for action in wandering(10, 1, seed=1, action_dim=8)[:, 0]:
        data = forwarded(physics)
        full = np.zeros((model.nv, model.nv))
        mujoco.mj_fullM(model, data, full)
        goal = data.qpos[arm.qpos] + 0.05 * action[:7]
        wanted = 50 * (goal - data.qpos[arm.qpos]) - 2 * np.sqrt(50) * data.qvel[arm.dof]
        want = full[np.ix_(arm.dof, arm.dof)] @ wanted + data.qfrc_bias[arm.dof]
        ctrl = commanded(physics, action)
        np.testing.assert_allclose(ctrl[arm.actuators], np.clip(want, arm.torque_low, arm.torque_high), atol=1e-9)
        assert physics.control_step(LANE, action[None]) == {}


def test_the_orientation_goal_is_held_while_no_rotation_is_commanded():
    physics = at_rest()
    reset = physics._controller.reset_mat[0].copy()
    assert physics.control_step(LANE, np.array([[0.5, 0, 0.5, 0, 0, 0, 0]])) == {}
    np.testing.assert_array_equal(physics._controller.goal_mat[0], reset)
    before = physics._fields.site_xmat[0, physics.scene.arm.site].reshape(3, 3).copy()
    assert physics.control_step(LANE, np.array([[0, 0, 0, 0, 0, 1.0, 0]])) == {}
    turned = physics._controller.goal_mat[0] @ before.T
    np.testing.assert_allclose(
        turned, [[np.cos(0.5), -np.sin(0.5), 0], [np.sin(0.5), np.cos(0.5), 0], [0, 0, 1]], atol=1e-6
    )


def test_the_gripper_command_moves_a_quarter_a_control_step_and_saturates():
    physics = at_rest()
    seen = []
    for _ in range(6):
        assert physics.control_step(LANE, OPEN) == {}
        seen.append(physics._controller.gripper[0].copy())
    np.testing.assert_allclose(np.array(seen)[:, 0], [0.25, 0.5, 0.75, 1, 1, 1], atol=1e-12)
    np.testing.assert_allclose(np.array(seen)[:, 1], [-0.25, -0.5, -0.75, -1, -1, -1], atol=1e-12)
    np.testing.assert_allclose(physics._fields.ctrl[0, physics.scene.arm.grip_actuators], [0.04, -0.04])


def test_actions_beyond_one_count_as_one():
    task, _, _ = libero_scene("libero_object", 0)
    physics = libero_lanes("libero_object", 0, 2)
    physics.load(1, task.load_init_states()[0], task.load_reset(SEED))
    both = np.array([0, 1], np.int32)
    assert physics.control_step(both, np.array([[1.0, -1, 1, 1, -1, 1, 1], [7.0, -7, 7, 7, -7, 7, 7]])) == {}
    assert physics.snapshot(0).digest() == physics.snapshot(1).digest()


def test_a_singular_matrix_gives_no_effort_in_its_lost_direction_instead_of_nan():
    j = np.array([[1.0, 0, 0], [0, 1, 0], [1, 1, 0]])  # the third row is the sum of the others
    a = j @ j.T
    low, x = np.zeros((3, 3)), np.array([1.0, 2.0, 3.0])
    cholesky(a, low)
    solve_lower(low, x)
    solve_lower_transposed(low, x)
    np.testing.assert_allclose(a @ x, [1.0, 2.0, 3.0], atol=1e-12)
