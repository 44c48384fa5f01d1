"""What an agent may read of a RobotWorld robot, by its control law: the channels of its contract, as plain numbers.

Values are ideal, without a sensor's noise or delay. A quadruped's velocity command is left out, since its task has none; its
goal is told as an offset in the axes of its heading, x ahead and y to the left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from evals.robotworld import juggle
from evals.servo import addresses, rounded
from mjx_bench.policy import Observation
from mjx_bench.task import Task

State = Callable[[Observation], Mapping[str, Any]]

WHEELS, FRONT = ("fl", "fr", "rl", "rr"), ("fl", "fr")


def channels(task: Task) -> State:
    """Of an observation, what is told."""
    return _BY_LAW[task.action_modes[0]](task)


def _arm(task: Task) -> State:
    def state(obs: Observation) -> Mapping[str, Any]:
        return {
            "step": int(obs.step[0]),
            "gripper_position_m": rounded(obs.eef_pos[0], 4),
            "gripper_quaternion_wxyz": rounded(obs.eef_quat[0], 4),
            "joint_positions_rad": rounded(obs.joint_pos[0], 4),
            "gripper_opening_m": round(float(np.abs(obs.gripper_qpos[0]).sum()), 4),
        }

    return state


def _car(task: Task) -> State:
    """Wheel speeds, steering angles, body gyro, roll and pitch, and what the servos were told last."""
    places = addresses(task)

    def state(obs: Observation) -> Mapping[str, Any]:
        qpos, qvel = obs.qpos[0], obs.qvel[0]
        w, x, y, z = qpos[3:7]
        return {
            "step": int(obs.step[0]),
            "wheel_speeds_rad_s": rounded([qvel[places[f"spin_{name}"][1]] for name in WHEELS]),
            "steering_rad": rounded([qpos[places[f"steering_{name}"][0]] for name in FRONT], 4),
            "gyro_rad_s": rounded(qvel[3:6], 4),
            "roll_rad": round(float(np.arctan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y))), 4),
            "pitch_rad": round(float(np.arcsin(np.clip(2 * (w * y - z * x), -1.0, 1.0))), 4),
            "servos_told": rounded(obs.ctrl[0]),
        }

    return state


def _rotors(task: Task) -> State:
    """The drone's attitude and velocities (world axes), where task and payload or ball are from it, and how these move."""
    import mujoco

    model = task.scene.load_spec().compile()
    data, body = mujoco.MjData(model), model.body(task.scene.robot.hand_body).id
    entities = task.scene.entities
    places = addresses(task)

    def state(obs: Observation) -> Mapping[str, Any]:
        data.qpos, data.qvel = obs.qpos[0], obs.qvel[0]
        mujoco.mj_forward(model, data)
        spin = np.zeros(6)
        mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_BODY, body, spin, 0)
        turn, drone = data.xmat[body].reshape(3, 3), data.xpos[body]
        found: dict[str, Any] = {
            "step": int(obs.step[0]),
            "quaternion_wxyz": rounded(data.xquat[body], 4),
            "linear_velocity_m_s": rounded(spin[3:], 4),
            "angular_velocity_rad_s": rounded(spin[:3], 4),
            "heading": rounded(turn[:, 0], 4),
            "up": rounded(turn[:, 2], 4),
            "rotors_told": rounded(obs.ctrl[0], 4),
        }
        if task.name == juggle.NAME:
            found |= {
                "position_m": rounded(drone, 4),
                "anchor_minus_drone_m": rounded(np.subtract(juggle.ANCHOR, drone), 4),
            }
        for i, (name, entity) in enumerate(entities.items()):
            found[f"{name}_minus_drone_m"] = rounded(obs.entity_pos[0, i] - drone, 4)
            if entity.free_joint is not None:
                at = places[entity.free_joint][1]
                found[f"{name}_velocity_m_s"] = rounded(obs.qvel[0, at : at + 3], 4)
        return found

    return state


def _legs(task: Task) -> State:
    """Body velocities and gravity in the trunk's axes, joints and what they were told last, and where the goal is."""
    goal = list(task.scene.entities).index("goal")

    def state(obs: Observation) -> Mapping[str, Any]:
        w, x, y, z = obs.qpos[0, 3:7]
        turn = np.array(
            [
                [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
                [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
            ]
        )
        ahead = np.arctan2(turn[1, 0], turn[0, 0])
        away = obs.entity_pos[0, goal, :2] - obs.qpos[0, :2]
        c, s = np.cos(ahead), np.sin(ahead)
        return {
            "step": int(obs.step[0]),
            "linear_velocity_m_s": rounded(turn.T @ obs.qvel[0, :3], 4),
            "angular_velocity_rad_s": rounded(obs.qvel[0, 3:6], 4),
            "projected_gravity": rounded(-turn[2], 4),
            "joint_positions_rad": rounded(obs.qpos[0, 7:], 4),
            "joint_velocities_rad_s": rounded(obs.qvel[0, 6:], 4),
            "targets_told": rounded(obs.ctrl[0], 4),
            "goal_offset_m": rounded([c * away[0] + s * away[1], c * away[1] - s * away[0]], 4),
        }

    return state


_BY_LAW: Mapping[str, Callable[[Task], State]] = {
    "osc_pose": _arm,
    "drive": _car,
    "rotors": _rotors,
    "posture": _legs,
}
