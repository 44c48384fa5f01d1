"""Rotors that lag behind their throttle: one number a rotor, and nothing below it (4 actions).

At the first physics step of a control step, with u the action and F the largest thrust:

    s_wanted = sqrt(clip((u + 1) / 2, 0, 1))      s <- s + 0.43 (s_wanted - s)      thrust = F s^2

u = 0 asks for half of the largest thrust. The lag is that of a Hummingbird at 62 control steps a second (OmniDrones). The
throttle s is not kept: it is the square root of the thrust that the actuator was told last.
"""

from __future__ import annotations

import numpy as np

from mjx_bench.control.arm import ArmIndex
from mjx_bench.control.state import Array, ControllerState, Fields

LAG = 0.43


def rotors(ids: Array, actions: Array, new_goal: bool, fields: Fields, state: ControllerState, arm: ArmIndex) -> None:
    """Writes the thrusts of the lanes `ids` for one physics step.

    Args:
      ids: int32 [n] lanes.
      actions: float64 [n, 4]; clipped to [-1, 1].
      new_goal: True at the first physics step of a control step; thrusts hold until the next.
      fields: arrays of the physics; `ctrl` is read and written.
      state: not used.
      arm: `actuators` are the rotors, and `torque_high` their largest thrusts, newtons.
    """
    if not new_goal:
        return
    at = ids[:, None], arm.actuators
    wanted = np.sqrt(np.clip((actions + 1.0) / 2.0, 0.0, 1.0))
    throttle = np.sqrt(fields.ctrl[at] / arm.torque_high)
    throttle = throttle + LAG * (wanted - throttle)
    fields.ctrl[at] = arm.torque_high * throttle**2
