"""`bimanual` in JAX: a wheeled robot with two arms for compiled engines. The formula stands there."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from mjx_bench.control.arm import ArmIndex
from mjx_bench.control.arm_jax import Memory, Seen
from mjx_bench.control.bimanual import JOINTS, command, targets


def bimanual(
    action: jax.Array,
    new_goal: jax.Array,
    current: Seen,
    bias: jax.Array,
    ctrl: jax.Array,
    memory: Memory,
    arm: ArmIndex,
) -> tuple[jax.Array, Memory]:
    """Targets of one lane for one physics step.

    Args:
      action: [22], clipped to [-1, 1].
      new_goal, ctrl, arm: as `osc_jax.osc_pose`.
      current: of the joints in the order of the state.
      bias: not used.
      memory: `stale` lanes start from where their joints are.
    """
    now = current.joint_pos
    fresh = jnp.concatenate([now[:JOINTS], jnp.zeros(3)])
    told = jnp.where(memory.stale > 0, fresh, ctrl[arm.actuators])
    wanted = command(action)[None]
    found = targets(wanted, told[None], now[None, -1], arm.torque_low, arm.torque_high, jnp)[0].astype(ctrl.dtype)
    ctrl = jnp.where(new_goal, ctrl.at[arm.actuators].set(found), ctrl)
    return ctrl, memory._replace(stale=jnp.zeros_like(memory.stale))
