"""A car that is told a speed and a steering angle: two servos turn the front wheels, the others turn wheels (2 actions).

At the first physics step of a control step, with u the actions, clipped to [-1, 1]:

    steering servos: tan(0.488 u1) rad        wheels: 3 u0 / 0.05 rad/s

each within the actuator's limits: a lower limit of 0 is a car without a reverse gear. Both commands hold, without a ramp.
The figures are RobotWorld's.
"""

from __future__ import annotations

import numpy as np

from mjx_bench.control.arm import ArmIndex
from mjx_bench.control.state import Array, ControllerState, Fields

SPEED, STEERING, RADIUS = 3.0, 0.488, 0.05  # m/s, radians, metres
STEERED = 2  # the first actuators steer


def drive(ids: Array, actions: Array, new_goal: bool, fields: Fields, state: ControllerState, arm: ArmIndex) -> None:
    """Writes the servos' targets of the lanes `ids` for one physics step.

    Args:
      ids: int32 [n] lanes.
      actions: float64 [n, 2]: speed and steering, positive to the left; clipped to [-1, 1].
      new_goal: True at the first physics step of a control step; targets hold until the next.
      fields: arrays of the physics; `ctrl` is written.
      state: not used.
      arm: `actuators` are two for steering, then those of wheels; `torque_low` and `torque_high` their limits.
    """
    if not new_goal:
        return
    u = np.clip(actions, -1.0, 1.0)
    wanted = np.repeat(SPEED * u[:, :1] / RADIUS, len(arm.actuators), axis=1)
    wanted[:, :STEERED] = np.tan(STEERING * u[:, 1:])
    fields.ctrl[ids[:, None], arm.actuators] = np.clip(wanted, arm.torque_low, arm.torque_high)
