"""Joint-position control, as robosuite 1.4's `JOINT_POSITION` with its default gains (8 actions, 20 Hz).

At every physics step: torque = M (kp (q_goal - q) - kd qdot) + bias, with q_goal = q + 0.05 action at the first physics
step of each control step.
"""

from __future__ import annotations

import numba
import numpy as np

from mjx_bench.control.arm import ArmIndex, drive_gripper
from mjx_bench.control.state import Array, ControllerState, Fields

ACTION_DIM = 8
KP = 50.0
KD = 2.0 * np.sqrt(KP)
# Radians a control step at full action.
JOINT_SCALE = 0.05


@numba.njit(cache=True, nogil=True)
def _torques(
    ids: Array, actions: Array, new_goal: bool,
    qpos: Array, qvel: Array, bias: Array, inertia: Array, ctrl: Array,
    goal_joint: Array, gripper: Array, stale: Array, reset_joint: Array, reset_mass: Array,
    qadr: Array, dof: Array, mass_adr: Array, act: Array, low: Array, high: Array,
    grip_step: float, grip_act: Array, grip_bias: Array, grip_scale: Array,
) -> None:  # fmt: skip
    wanted = np.empty(7)
    mass = np.empty((7, 7))
    q = np.empty(7)
    for row in range(ids.shape[0]):
        i = ids[row]
        seen = not stale[i]
        stale[i] = False
        for k in range(7):
            q[k] = qpos[i, qadr[k]] if seen else reset_joint[i, k]
            for c in range(7):
                if not seen:
                    mass[k, c] = reset_mass[i, k, c]
                else:
                    mass[k, c] = inertia[i, mass_adr[k, c]] if mass_adr[k, c] >= 0 else 0.0
        for k in range(7):
            if new_goal:
                goal_joint[i, k] = q[k] + JOINT_SCALE * min(max(actions[row, k], -1.0), 1.0)
            speed = qvel[i, dof[k]] if seen else 0.0
            wanted[k] = KP * (goal_joint[i, k] - q[k]) - KD * speed
        for k in range(7):
            s = bias[i, dof[k]]
            for c in range(7):
                s += mass[k, c] * wanted[c]
            ctrl[i, act[k]] = min(max(s, low[k]), high[k])
        drive_gripper(actions[row, 7], grip_step, gripper[i], ctrl[i], grip_act, grip_bias, grip_scale)


def joint_position(
    ids: Array, actions: Array, new_goal: bool, fields: Fields, state: ControllerState, arm: ArmIndex
) -> None:
    """Writes the actuator commands of the lanes `ids` for one physics step.

    Args:
      ids: int32 [n] lanes.
      actions: float64 [n, 8] seven joint deltas, then the gripper; clipped to [-1, 1].
      new_goal: True at the first physics step of a control step, when the action sets the goals.
      fields, state, arm: as `osc.osc_pose`.
    """
    _torques(
        ids, actions, new_goal, fields.qpos, fields.qvel, fields.qfrc_bias, fields.M, fields.ctrl,
        state.goal_joint, state.gripper, state.stale, state.reset_joint, state.reset_mass,
        arm.qpos, arm.dof, arm.mass, arm.actuators, arm.torque_low, arm.torque_high,
        arm.grip_step, arm.grip_actuators, arm.grip_bias, arm.grip_scale,
    )  # fmt: skip
