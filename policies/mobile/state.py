"""What policies of a robot on a driving base read and write: a state of 16 numbers, and the limits of an action's 12."""

from __future__ import annotations

import numpy as np

from mjx_bench.policy import Observation

STATE_DIM = 16
# Largest actions a tick of agents and of demonstrations: of the arm 0.025 m and 0.15 rad, of the base half its speed.
TRANSLATION, ROTATION, BASE = 0.5, 0.3, 0.5


def state16(obs: Observation) -> np.ndarray:
    """float32 [B, 16] RoboQuest's state of a robot.

    Grip site (3) and orientation of the hand (quaternion xyzw, 4) in the base's frame, the base's position (3, metres) and
    orientation (quaternion xyzw, 4) in the world, finger joints (2, metres). A quaternion's last number is never below 0.
    """
    joints = obs.task.scene.robot.base_joints
    x, y, yaw = (obs.articulation[name] for name in joints)
    c, s, none = np.cos(yaw), np.sin(yaw), np.zeros_like(yaw)
    away = obs.eef_pos - np.stack([x, y, none], axis=1)
    eef = np.stack([c * away[:, 0] + s * away[:, 1], c * away[:, 1] - s * away[:, 0], away[:, 2]], axis=1)
    base = np.stack([np.cos(yaw / 2), none, none, np.sin(yaw / 2)], axis=1)  # wxyz
    hand = _product(base * np.array([1.0, -1.0, -1.0, -1.0]), obs.eef_quat)
    parts = [eef, _xyzw(hand), np.stack([x, y, none], axis=1), _xyzw(base), obs.gripper_qpos]
    return np.concatenate(parts, axis=1).astype(np.float32)


def limited(actions: np.ndarray) -> np.ndarray:
    """float32 [..., 12] as demonstrations have them: gripper and mode one way or the other, arm or base, within limits.

    A gripper of 0 or more closes, and a mode of 0 or more drives; in that mode the arm's numbers are 0, else the base's. The
    torso is always told 0.
    """
    out = np.array(actions, np.float32)
    drives = out[..., 11] >= 0.0
    out[..., 6] = np.where(out[..., 6] >= 0.0, 1.0, -1.0)
    out[..., 10], out[..., 11] = 0.0, np.where(drives, 1.0, -1.0)
    out[..., :6] = np.where(drives[..., None], 0.0, out[..., :6])
    out[..., 7:10] = np.where(drives[..., None], out[..., 7:10], 0.0)
    for part, most in ((slice(0, 3), TRANSLATION), (slice(3, 6), ROTATION), (slice(7, 10), BASE)):
        out[..., part] = np.clip(out[..., part], -most, most)
    return out


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """[B, 4] product of quaternions wxyz."""
    w, v = a[:, :1], a[:, 1:]
    other, u = b[:, :1], b[:, 1:]
    scalar = w * other - (v * u).sum(1, keepdims=True)
    return np.concatenate([scalar, w * u + other * v + np.cross(v, u)], axis=1)


def _xyzw(quat: np.ndarray) -> np.ndarray:
    """[B, 4] wxyz to xyzw, of the two that are the same rotation the one whose w is not below 0."""
    quat = np.where(quat[:, :1] < 0.0, -quat, quat)
    return np.concatenate([quat[:, 1:], quat[:, :1]], axis=1)
