"""Joint targets around a posture: each of a legged robot's servos is told an angle, and holds it by its own PD (12 actions).

At the first physics step of a control step, with u the actions:

    target = (low + high) / 2 + u (high - low) / 2

low and high are the targets of u = -1 and u = 1; actions are not clipped, so these are no limits. Targets hold, without a
ramp. Gains and the largest torque are the actuators' own.
"""

from __future__ import annotations

from mjx_bench.control.arm import ArmIndex
from mjx_bench.control.state import Array, ControllerState, Fields


def posture(ids: Array, actions: Array, new_goal: bool, fields: Fields, state: ControllerState, arm: ArmIndex) -> None:
    """Writes the servos' targets of the lanes `ids` for one physics step.

    Args:
      ids: int32 [n] lanes.
      actions: float64 [n, 12].
      new_goal: True at the first physics step of a control step; targets hold until the next.
      fields: arrays of the physics; `ctrl` is written.
      state: not used.
      arm: `actuators` are the servos; `torque_low` and `torque_high` their targets of u = -1 and 1, radians.
    """
    if not new_goal:
        return
    middle, half = (arm.torque_high + arm.torque_low) / 2.0, (arm.torque_high - arm.torque_low) / 2.0
    fields.ctrl[ids[:, None], arm.actuators] = middle + half * actions
