"""`posture` in JAX: joint targets for compiled engines. The formula stands there."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from mjx_bench.control.arm import ArmIndex
from mjx_bench.control.arm_jax import Memory, Seen


def posture(
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
      action: [12].
      new_goal, ctrl, arm: as `osc_jax.osc_pose`.
      current, bias: not used.
      memory: returned as it is.
    """
    middle = ((arm.torque_high + arm.torque_low) / 2.0).astype(np.float32)
    half = ((arm.torque_high - arm.torque_low) / 2.0).astype(np.float32)
    return jnp.where(new_goal, ctrl.at[arm.actuators].set(middle + half * action), ctrl), memory
