"""`drive` in JAX: a car for compiled engines. The formula stands there."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from mjx_bench.control.arm import ArmIndex
from mjx_bench.control.arm_jax import Memory, Seen
from mjx_bench.control.drive import RADIUS, SPEED, STEERED, STEERING


def drive(
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
      action: [2], clipped to [-1, 1].
      new_goal, ctrl, arm: as `osc_jax.osc_pose`.
      current, bias: not used.
      memory: returned as it is.
    """
    u = jnp.clip(action, -1.0, 1.0)
    wheels = jnp.full(len(arm.actuators) - STEERED, SPEED / RADIUS) * u[0]
    wanted = jnp.concatenate([jnp.full(STEERED, jnp.tan(STEERING * u[1])), wheels])
    low, high = arm.torque_low.astype(np.float32), arm.torque_high.astype(np.float32)
    return jnp.where(new_goal, ctrl.at[arm.actuators].set(jnp.clip(wanted, low, high)), ctrl), memory
