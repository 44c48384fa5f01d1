"""`mobile` in JAX: an arm on a base that drives, for compiled engines. The formulas stand there."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from mjx_bench.control.arm import ArmIndex
from mjx_bench.control.arm_jax import Memory, Seen
from mjx_bench.control.mobile import DRIVE, GRIPPER, LEAD, MODE, MOST, SPEEDS
from mjx_bench.control.osc import POS_SCALE
from mjx_bench.control.osc_jax import osc_pose


def mobile_osc(
    action: jax.Array,
    new_goal: jax.Array,
    current: Seen,
    bias: jax.Array,
    ctrl: jax.Array,
    memory: Memory,
    arm: ArmIndex,
) -> tuple[jax.Array, Memory]:
    """Actuator commands of one lane for one physics step.

    Args:
      action: [12], each number clipped to [-1, 1].
      new_goal, bias, ctrl, arm: as `osc_jax.osc_pose`.
      current: arm and base now.
      memory: of the controller.
    """
    base = arm.base
    assert base is not None, "a law that drives is only given to robots with a base"
    here, u = current.base, jnp.clip(action, -1.0, 1.0)
    fresh = memory.stale > 0
    kept = jnp.where(fresh, jnp.concatenate([here, jnp.zeros(1, here.dtype), here]), memory.goal_joint)
    goal_pos = jnp.where(fresh, current.pos, memory.goal_pos)
    goal_mat = jnp.where(fresh, current.mat, memory.goal_mat)
    # 1. The arm's goal rides on the base.
    turned, rides = _about_z(here[2] - kept[6]), action[MODE] > 0.0
    before, now = (jnp.concatenate([at[:2], jnp.zeros(1, here.dtype)]) for at in (kept[4:], here))
    goal_pos = jnp.where(rides, now + turned @ (goal_pos - before), goal_pos)
    goal_mat = jnp.where(rides, turned @ goal_mat, goal_mat)
    # 2. What the arm is told, in the world's axes.
    frame = _about_z(here[2])
    behind = jnp.where(rides, (goal_pos - current.pos) / POS_SCALE, 0.0)
    told = jnp.concatenate([frame @ u[:3] + behind, frame @ u[3:6], action[GRIPPER : GRIPPER + 1]])
    # 3. The base.
    velocity = frame @ (u[DRIVE] * np.asarray(SPEEDS, np.float32))
    lead, lag = (array.astype(np.float32) for array in (LEAD, base.lag))
    target = jnp.clip(kept[:3] + np.float32(base.period) * velocity, here - lead, here + lead)
    ctrl = ctrl.at[base.actuators].set(target + lag * velocity)
    memory = memory._replace(
        goal_pos=goal_pos,
        goal_mat=goal_mat,
        goal_joint=jnp.concatenate([target, kept[3:4], here]),
        stale=jnp.zeros_like(memory.stale),
    )
    return osc_pose(told, new_goal, current, bias, ctrl, memory, arm, MOST)


def _about_z(angle: jax.Array) -> jax.Array:
    """[3, 3] rotation about z by `angle`, radians."""
    c, s, zero, one = jnp.cos(angle), jnp.sin(angle), jnp.zeros_like(angle), jnp.ones_like(angle)
    return jnp.stack([jnp.stack([c, -s, zero]), jnp.stack([s, c, zero]), jnp.stack([zero, zero, one])])
