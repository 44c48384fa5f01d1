"""The control laws in JAX against the compiled ones of the C engine, from the states of a rollout and at the edges."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mjx_bench.control.arm_jax import Memory, Seen, cholesky, jacobian, solve
from mjx_bench.control.joint_jax import joint_position
from mjx_bench.control.osc_jax import osc_pose
from mjx_bench.physics.mujoco_c import MujocoC
from tests.arm_scene import arm_scene, initial_state, reset_of
from tests.scenes import wandering

LANES = 8
IDS = np.arange(LANES, dtype=np.int32)
LAWS = {"osc_pose": (osc_pose, 7), "joint_position": (joint_position, 8)}


def single(array: np.ndarray) -> jax.Array:
    return jnp.asarray(array, jnp.float32)


@functools.cache
def law_of(mode: str):
    """The law over lanes, compiled once: (arrays of `seen`, memory, action [n, A], new_goal) to (ctrl [n, nu], memory)."""
    law, arm = LAWS[mode][0], arm_scene()[0].arm

    def lane(pos, mat, cdof, com, mass, q, qd, bias, ctrl, memory, action, new_goal):
        seen = Seen(pos, mat.reshape(3, 3), jacobian(pos, cdof, com), mass, q, qd, np.zeros(0))
        return law(action, new_goal, seen, bias, ctrl, memory, arm)

    return jax.jit(jax.vmap(lane, in_axes=(*[0] * 11, None)))


def in_jax(physics: MujocoC, mode: str, action: np.ndarray, *, new_goal: bool) -> tuple[np.ndarray, Memory]:
    """What the law in JAX makes of the C engine's lanes as they are."""
    f, state, arm = physics._fields, physics._controller, physics.scene.arm
    rows = IDS[:, None]
    inputs = (
        f.site_xpos[:, arm.site], f.site_xmat[:, arm.site], f.cdof[rows, arm.dof], f.subtree_com[:, arm.root],
        np.where(arm.mass >= 0, f.M[:, arm.mass], 0.0),
        f.qpos[rows, arm.qpos], f.qvel[rows, arm.dof], f.qfrc_bias[rows, arm.dof], f.ctrl,
    )  # fmt: skip
    memory = Memory(**{name: single(getattr(state, name)) for name in Memory._fields})
    return law_of(mode)(*map(single, inputs), memory, single(action), new_goal)


@pytest.mark.parametrize("mode", LAWS)
def test_torques_goals_and_fingers_equal_those_of_the_compiled_law(mode: str):
    physics = MujocoC(arm_scene()[0], LANES, mode, 10)
    for lane in IDS:
        physics.load(lane, initial_state(lane), reset_of())
    arm, state = physics.scene.arm, physics._controller
    for step, action in enumerate(wandering(26, LANES, seed=1, action_dim=LAWS[mode][1])):
        if step % 2:
            action[:, 3:6] = 0.0  # the orientation goal is held
        if step == 13:
            state.stale[::2] = True  # as after a restored state
        kept = [state.row(lane) for lane in IDS]
        for new_goal in (True, False):
            ctrl, memory = in_jax(physics, mode, action, new_goal=new_goal)
            physics._law(IDS, action, new_goal, physics._fields, state, arm)
            wanted = physics._fields.ctrl
            # Nm, of up to 80: single precision loses a few digits in the task-space inertias.
            np.testing.assert_allclose(ctrl[:, arm.actuators], wanted[:, arm.actuators], rtol=0, atol=2e-3)
            np.testing.assert_allclose(ctrl[:, arm.grip_actuators], wanted[:, arm.grip_actuators], rtol=0, atol=1e-8)
            for name in ("goal_pos", "goal_mat", "goal_joint", "gripper"):
                np.testing.assert_allclose(getattr(memory, name), getattr(state, name), rtol=0, atol=2e-6, err_msg=name)
            assert not np.asarray(memory.stale).any()
            assert not state.stale.any()
        for lane in IDS:
            state.set_row(lane, kept[lane])
        assert physics.control_step(IDS, action) == {}


def test_a_singular_matrix_gives_no_effort_in_its_lost_direction_instead_of_nan():
    j = np.array([[1.0, 0, 0], [0, 1, 0], [1, 1, 0]], np.float32)  # the third row is the sum of the others
    a = j @ j.T
    x = solve(cholesky(jnp.asarray(a)), jnp.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(a @ np.asarray(x), [1.0, 2.0, 3.0], atol=1e-5)
