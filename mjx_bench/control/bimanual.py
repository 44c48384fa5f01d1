"""A wheeled robot with two arms: position targets for its joints, velocities for its base (22 actions, 20 Hz).

At the first physics step of a control step, with u the actions, clipped to [-1, 1]: a command is the home posture at u = 0,
an end of its range at u = -1 and u = 1, and linear between. Then

    joints:  s <- s + clip(limit(command) - s, -r, r)            base:  v <- v + clip(command - v, -a, a)

with s a servo's target, r and a what it may change by in a control step. The base has no sideways motion: its servos get
(v cos yaw, v sin yaw) and the yaw rate. Neither s nor v is kept: both are what the servos were told last.

Ranges are RobotAgentBench's; home, speeds and accelerations are ours, within the figures of the AgiBot G1's description.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mjx_bench.control.arm import ArmIndex
from mjx_bench.control.state import Array, ControllerState, Fields

PERIOD = 0.05  # seconds of a control step
# Places in actions, and in the state up to the grippers: both arms, lift, waist, head yaw and pitch, both grippers.
LEFT, RIGHT, TORSO, GRIPPERS, BASE = slice(0, 7), slice(7, 14), slice(14, 18), slice(18, 20), slice(20, 22)
JOINTS, ACTIONS, STATE = 20, 22, 23

CLOSED, OPEN = 0.0, math.pi / 4
STROKE = 0.05  # metres of each pad from the middle, open
_ARM = (0.869, -1.008, -1.198, -1.387, 1.858, 0.949, 0.587)
LOW = np.array([*(-math.pi,) * 14, 0.0, 0.0, -math.pi / 2, -0.349, CLOSED, CLOSED, -0.18, -0.25])
HIGH = np.array([*(math.pi,) * 14, 0.55, math.pi / 2, math.pi / 2, 0.524, OPEN, OPEN, 0.18, 0.25])
HOME = np.array([*_ARM, *(-q for q in _ARM), 0.10, 0.0, 0.0, 0.35, OPEN, OPEN, 0.0, 0.0])
# Of joints a second: radians, metres for the lift.
SPEED = np.array([*(math.pi,) * 14, 0.1, 0.5, 1.0, 1.0, OPEN / 0.5, OPEN / 0.5])
ACCELERATION = np.array([0.4, 0.8])  # m/s^2, rad/s^2
_MOST = SPEED * PERIOD * np.array([*(1.0,) * 18, *(STROKE / OPEN,) * 2])  # of servos: grippers' are told metres


def command(actions: Any) -> Any:
    """Actions [..., 22] to commands [..., 22]: radians, metres, m/s and rad/s."""
    xp = actions.__array_namespace__()
    u = xp.clip(actions, -1.0, 1.0)
    return HOME + xp.where(u < 0.0, u * (HOME - LOW), u * (HIGH - HOME))


def action(commands: Array) -> Array:
    """The inverse of `command`: commands [..., 22], which are clipped to their ranges, to actions [..., 22]."""
    off = np.clip(commands, LOW, HIGH) - HOME
    down, up = HOME - LOW, HIGH - HOME
    return np.where(off < 0.0, off / np.where(down > 0.0, down, 1.0), off / np.where(up > 0.0, up, 1.0))


def pads(grippers: Any) -> Any:
    """Gripper angles, radians, to how far each pad is from the middle, metres."""
    return STROKE * grippers / OPEN


def bimanual(ids: Array, actions: Array, new_goal: bool, fields: Fields, state: ControllerState, arm: ArmIndex) -> None:
    """Writes the servos' targets of the lanes `ids` for one physics step.

    Args:
      ids: int32 [n] lanes.
      actions: float64 [n, 22]: left arm, right arm, lift, waist pitch, head yaw, head pitch, left and right gripper, forward
        speed, yaw rate.
      new_goal: True at the first physics step of a control step; targets hold until the next.
      fields: arrays of the physics; `ctrl` is read and written.
      state: `stale` lanes start from where their joints are.
      arm: joints and actuators in the order of the state: the 20 joints, then base x, y and yaw.
    """
    if not new_goal:
        return
    at = ids[:, None], arm.actuators
    told, now = fields.ctrl[at], fields.qpos[ids[:, None], arm.qpos]
    told = np.where(state.stale[ids, None], np.concatenate([now[:, :JOINTS], np.zeros((len(ids), 3))], axis=1), told)
    state.stale[ids] = False
    fields.ctrl[at] = targets(command(actions), told, now[:, -1], arm.torque_low, arm.torque_high, np)


def targets(wanted: Any, told: Any, yaw: Any, low: Any, high: Any, xp: Any) -> Any:
    """Targets [n, 23] of the servos.

    Args:
      wanted: [n, 22] commands.
      told: [n, 23] targets of the control step before.
      yaw: [n] of the base, radians.
      low, high: [23] limits of the actuators.
      xp: `numpy` or `jax.numpy`.
    """
    goal = xp.concatenate([wanted[:, : GRIPPERS.start], pads(wanted[:, GRIPPERS])], axis=1)
    goal = xp.clip(goal, low[:JOINTS], high[:JOINTS])
    joints = told[:, :JOINTS] + xp.clip(goal - told[:, :JOINTS], -_MOST, _MOST)
    cos, sin = xp.cos(yaw), xp.sin(yaw)
    before = xp.stack([told[:, JOINTS] * cos + told[:, JOINTS + 1] * sin, told[:, JOINTS + 2]], axis=1)
    most = ACCELERATION * PERIOD
    forward, turn = (before + xp.clip(wanted[:, BASE] - before, -most, most)).T
    base = xp.stack([forward * cos, forward * sin, turn], axis=1)
    return xp.concatenate([joints, base], axis=1)
