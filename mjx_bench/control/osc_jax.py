"""`osc` in JAX: operational-space control of an arm's pose for compiled engines. The formulas stand there."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from mjx_bench.control.arm import ArmIndex
from mjx_bench.control.arm_jax import Memory, Seen, cholesky, command, see, solve, solve_lower
from mjx_bench.control.osc import KD, KP, POS_SCALE, POSTURE_KD, POSTURE_KP, ROT_SCALE

_SCALE = np.array([POS_SCALE] * 3 + [ROT_SCALE] * 3, np.float32)


def osc_pose(
    action: jax.Array,
    new_goal: jax.Array,
    current: Seen,
    bias: jax.Array,
    ctrl: jax.Array,
    memory: Memory,
    arm: ArmIndex,
    most: float = 1.0,
) -> tuple[jax.Array, Memory]:
    """Actuator commands of one lane for one physics step.

    Args:
      action: [7] translation, axis-angle rotation (world axes), gripper.
      new_goal: bool [] at the first physics step of a control step, when the action sets the goals.
      current: the arm now.
      bias: [7] gravity, Coriolis and centrifugal torques.
      ctrl: [nu] what the actuators that are not the arm's keep.
      memory: of the controller.
      arm: addresses of the arm.
      most: what translation and rotation are clipped to, either way.

    Returns:
      ctrl: [nu].
      memory: of the controller afterwards.
    """
    seen = see(current, memory)
    # 1. The goal, once a control step; an orientation goal is held while no rotation is commanded.
    delta = jnp.clip(action[:6], -most, most) * _SCALE
    goal_pos = jnp.where(new_goal, seen.pos + delta[:3], memory.goal_pos)
    turned = new_goal & jnp.any(delta[3:] != 0.0)
    goal_mat = jnp.where(turned, _rotation(delta[3:]) @ seen.mat, memory.goal_mat)
    # 2. Task-space inertias: with M = L L^T and Y = L^-1 J^T, J M^-1 J^T = Y^T Y.
    y = solve_lower(cholesky(seen.mass), seen.jac.T)
    inverse_inertia = y.T @ y
    # 3. Forces in task space, position and orientation decoupled.
    velocity = seen.jac @ seen.joint_vel
    turn = 0.5 * jnp.cross(seen.mat, goal_mat, axis=0).sum(axis=1)
    wanted = KP * jnp.concatenate([goal_pos - seen.pos, turn]) - KD * velocity
    blocks = jnp.stack([inverse_inertia[:3, :3], inverse_inertia[3:, 3:]])
    wrench = jax.vmap(lambda a, b: solve(cholesky(a), b))(blocks, wanted.reshape(2, 3)).reshape(6)
    # 4. Posture torque in the null space of the pose.
    posture = POSTURE_KP * (memory.reset_joint - seen.joint_pos) - POSTURE_KD * seen.joint_vel
    spent = solve(cholesky(inverse_inertia), seen.jac @ posture)
    torque = bias + seen.jac.T @ (wrench - spent) + seen.mass @ posture
    memory = memory._replace(goal_pos=goal_pos, goal_mat=goal_mat)
    return command(torque, action[6], memory, ctrl, arm)


def _rotation(vec: jax.Array) -> jax.Array:
    """[3, 3] rotation by the axis-angle vector `vec`, radians; the identity's limit is not taken: see `turned`."""
    squared = jnp.sum(vec * vec)
    angle = jnp.sqrt(jnp.where(squared > 0.0, squared, 1.0))
    q = jnp.concatenate([jnp.cos(angle / 2.0)[None], vec / angle * jnp.sin(angle / 2.0)])
    p = 2.0 / jnp.sum(q * q) * jnp.outer(q, q)
    return jnp.array(
        [
            [1.0 - p[2, 2] - p[3, 3], p[1, 2] - p[3, 0], p[1, 3] + p[2, 0]],
            [p[1, 2] + p[3, 0], 1.0 - p[1, 1] - p[3, 3], p[2, 3] - p[1, 0]],
            [p[1, 3] - p[2, 0], p[2, 3] + p[1, 0], 1.0 - p[1, 1] - p[2, 2]],
        ]
    )
