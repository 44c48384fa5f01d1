"""`joint` in JAX: joint-position control for compiled engines. The formula stands there."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from mjx_bench.control.arm import ArmIndex
from mjx_bench.control.arm_jax import Memory, Seen, command, see
from mjx_bench.control.joint import JOINT_SCALE, KD, KP


def joint_position(
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
      action: [8] seven joint deltas, then the gripper; clipped to [-1, 1].
      new_goal, current, bias, ctrl, memory, arm: as `osc_jax.osc_pose`.
    """
    seen = see(current, memory)
    moved = seen.joint_pos + JOINT_SCALE * jnp.clip(action[:7], -1.0, 1.0)
    goal = jnp.where(new_goal, moved, memory.goal_joint)
    torque = bias + seen.mass @ (KP * (goal - seen.joint_pos) - KD * seen.joint_vel)
    return command(torque, action[7], memory._replace(goal_joint=goal), ctrl, arm)
