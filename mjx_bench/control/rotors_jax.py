"""`rotors` in JAX: lagging rotors for compiled engines. The formula stands there."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from mjx_bench.control.arm import ArmIndex
from mjx_bench.control.arm_jax import Memory, Seen
from mjx_bench.control.rotors import LAG


def rotors(
    action: jax.Array,
    new_goal: jax.Array,
    current: Seen,
    bias: jax.Array,
    ctrl: jax.Array,
    memory: Memory,
    arm: ArmIndex,
) -> tuple[jax.Array, Memory]:
    """Thrusts of one lane for one physics step.

    Args:
      action: [4], clipped to [-1, 1].
      new_goal, ctrl, arm: as `osc_jax.osc_pose`.
      current, bias: not used.
      memory: returned as it is.
    """
    most = arm.torque_high.astype(np.float32)
    wanted = jnp.sqrt(jnp.clip((action + 1.0) / 2.0, 0.0, 1.0))
    throttle = jnp.sqrt(ctrl[arm.actuators] / most)
    throttle = throttle + LAG * (wanted - throttle)
    return jnp.where(new_goal, ctrl.at[arm.actuators].set(most * throttle**2), ctrl), memory
