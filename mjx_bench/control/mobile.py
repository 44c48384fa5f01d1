"""An arm on a base that drives: operational-space control in the base's frame, and velocities for the base (12 actions).

An action is [translation 3, axis-angle rotation 3, gripper, forward, left, turn, torso, mode]. The first seven are those of
`osc`, along the axes of the base: a unit is 0.05 m, and 0.5 rad. A unit of base velocity is 1 m/s, and 1 rad/s; positive
turns are to the left. The torso stays where it is, whatever is asked of it. While the mode is above 0 the arm's goal rides
on the base, and a translation moves that goal; otherwise the goal stays where it is in the world, and a translation is from
where the arm is.

The base's servos get targets that its velocities move on, no farther than `LEAD` from where the base is; and, so that a
servo does not lag behind at a steady speed, what it would lag by in advance. `ControllerState.goal_joint` holds the three
targets, a place that is not used, and where the base was at the physics step before: x, y and yaw each time.
"""

from __future__ import annotations

import numba
import numpy as np

from mjx_bench.control.arm import ArmIndex
from mjx_bench.control.osc import POS_SCALE, osc_pose
from mjx_bench.control.state import Array, ControllerState, Fields

ACTION_DIM = 12
GRIPPER, DRIVE, TORSO, MODE = 6, slice(7, 10), 10, 11
SPEEDS = np.array([1.0, 1.0, 1.0])  # m/s, m/s, rad/s of full action
LEAD = np.array([0.03, 0.03, 0.05])  # metres, metres, radians
# Of an arm's translation and rotation, each number between -1 and 1, when they are turned into the world's axes.
MOST = 3.0**0.5


@numba.njit(cache=True, nogil=True)
def _base(
    ids: Array, actions: Array, qpos: Array, site_pos: Array, site_mat: Array, ctrl: Array,
    goal_pos: Array, goal_mat: Array, goal_joint: Array, stale: Array, arm_actions: Array,
    qadr: Array, act: Array, lag: Array, speeds: Array, lead: Array, period: float, site: int, new_goal: bool,
) -> None:  # fmt: skip
    for row in range(ids.shape[0]):
        i = ids[row]
        x, y, yaw = qpos[i, qadr[0]], qpos[i, qadr[1]], qpos[i, qadr[2]]
        kept = goal_joint[i]
        if stale[i]:
            # An instance says where its base stands, so nothing that a reset left is of use.
            stale[i] = False
            kept[0], kept[1], kept[2], kept[3] = x, y, yaw, 0.0
            kept[4], kept[5], kept[6] = x, y, yaw
            for r in range(3):
                goal_pos[i, r] = site_pos[i, site, r]
                for c in range(3):
                    goal_mat[i, r, c] = site_mat[i, site, 3 * r + c]
        cos, sin = np.cos(yaw), np.sin(yaw)
        # 1. The arm's goal rides on the base.
        if actions[row, 11] > 0.0:
            turn_cos, turn_sin = np.cos(yaw - kept[6]), np.sin(yaw - kept[6])
            dx, dy = goal_pos[i, 0] - kept[4], goal_pos[i, 1] - kept[5]
            goal_pos[i, 0] = x + turn_cos * dx - turn_sin * dy
            goal_pos[i, 1] = y + turn_sin * dx + turn_cos * dy
            for c in range(3):
                gx, gy = goal_mat[i, 0, c], goal_mat[i, 1, c]
                goal_mat[i, 0, c] = turn_cos * gx - turn_sin * gy
                goal_mat[i, 1, c] = turn_sin * gx + turn_cos * gy
        kept[4], kept[5], kept[6] = x, y, yaw
        # 2. What the arm is told, in the world's axes.
        for k in range(0, 6, 3):
            ax, ay = min(max(actions[row, k], -1.0), 1.0), min(max(actions[row, k + 1], -1.0), 1.0)
            arm_actions[row, k] = cos * ax - sin * ay
            arm_actions[row, k + 1] = sin * ax + cos * ay
            arm_actions[row, k + 2] = min(max(actions[row, k + 2], -1.0), 1.0)
        if new_goal and actions[row, 11] > 0.0:
            for k in range(3):
                arm_actions[row, k] += (goal_pos[i, k] - site_pos[i, site, k]) / POS_SCALE
        arm_actions[row, 6] = actions[row, 6]
        # 3. The base.
        forward = speeds[0] * min(max(actions[row, 7], -1.0), 1.0)
        left = speeds[1] * min(max(actions[row, 8], -1.0), 1.0)
        velocity = (
            cos * forward - sin * left,
            sin * forward + cos * left,
            speeds[2] * min(max(actions[row, 9], -1.0), 1.0),
        )
        for k in range(3):
            here = qpos[i, qadr[k]]
            kept[k] = min(max(kept[k] + period * velocity[k], here - lead[k]), here + lead[k])
            ctrl[i, act[k]] = kept[k] + lag[k] * velocity[k]


def mobile_osc(
    ids: Array, actions: Array, new_goal: bool, fields: Fields, state: ControllerState, arm: ArmIndex
) -> None:
    """Writes the actuator commands of the lanes `ids` for one physics step.

    Args:
      ids: int32 [n] lanes.
      actions: float64 [n, 12], each number clipped to [-1, 1].
      new_goal: True at the first physics step of a control step, when the action sets the arm's goals.
      fields: arrays of the physics; `ctrl` is written.
      state: controller memory, written in place.
      arm: addresses of arm and base.
    """
    base = arm.base
    assert base is not None, "a law that drives is only given to robots with a base"
    told = np.empty((len(ids), 7))
    _base(
        ids, actions, fields.qpos, fields.site_xpos, fields.site_xmat, fields.ctrl,
        state.goal_pos, state.goal_mat, state.goal_joint, state.stale, told,
        base.qpos, base.actuators, base.lag, SPEEDS, LEAD, base.period, arm.site, new_goal,
    )  # fmt: skip
    osc_pose(ids, told, new_goal, fields, state, arm, MOST)
