"""What an agent may read of a RobotWorld robot, by its control law: the channels of its contract, as plain numbers.

Values are ideal, without a sensor's noise or delay. A quadruped's velocity command is left out, since its task has none; its
goal is told as an offset in the axes of its heading, x ahead and y to the left.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from evals.robotworld import juggle
from evals.servo import MODELS, addresses, rounded
from mjx_bench.policy import Observation
from mjx_bench.task import Task
from policies.reference.turns import matrix

WHEELS, FRONT = ("fl", "fr", "rl", "rr"), ("fl", "fr")
STEP = {"step": "control steps executed so far"}


@dataclasses.dataclass(frozen=True)
class Channels:
    """What is told of a robot.

    Attributes:
      about: field to what it is, with its unit and axes; every field of `read`.
      read: of an observation of one lane, field to plain numbers.
    """

    about: Mapping[str, str]
    read: Callable[[Observation], Mapping[str, Any]]


def cameras(task: Task) -> tuple[str, ...]:
    """Cameras whose pictures an agent is given: a drone's and a quadruped's contract has numbers alone, a car's no map."""
    mode, scene = task.action_modes[0], task.scene
    if mode in ("rotors", "posture"):
        return ()
    return tuple(name for name in scene.observed or scene.cameras if mode != "drive" or name != "agentview")


def channels(task: Task) -> Channels:
    """What a task tells an agent."""
    return _BY_LAW[task.action_modes[0]](task)


def _arm(task: Task) -> Channels:
    about = {
        **STEP,
        "gripper_position_m": "x, y, z of the point between the fingertips, world axes",
        "gripper_quaternion_wxyz": "its orientation, world axes: z runs along the fingers, which slide along y",
        "joint_positions_rad": "the arm's seven joints, from the base",
        "gripper_opening_m": "how far apart the fingers are",
    }

    def state(obs: Observation) -> Mapping[str, Any]:
        return {
            "step": int(obs.step[0]),
            "gripper_position_m": rounded(obs.eef_pos[0], 4),
            "gripper_quaternion_wxyz": rounded(obs.eef_quat[0], 4),
            "joint_positions_rad": rounded(obs.joint_pos[0], 4),
            "gripper_opening_m": round(float(np.abs(obs.gripper_qpos[0]).sum()), 4),
        }

    return Channels(about, state)


def _car(task: Task) -> Channels:
    """Wheel speeds, steering angles, body gyro, roll and pitch, and what the servos were told last."""
    places = addresses(task)
    about = {
        **STEP,
        "wheel_speeds_rad_s": "front left, front right, rear left, rear right",
        "steering_rad": "of the joints of the front wheels, left and right; positive is to the left",
        "gyro_rad_s": "of the body, about its axes: x ahead, y to the left, z up",
        "roll_rad": "of the body; positive is to the right",
        "pitch_rad": "of the body; positive is nose down",
        "servos_told": "the last targets: two steering joints, rad, then four wheels, rad/s, in these orders",
    }

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

    return Channels(about, state)


def _rotors(task: Task) -> Channels:
    """The drone's attitude and velocities (world axes), where task and payload or ball are from it, and how these move."""
    import mujoco

    model = MODELS.of(task)
    data, body = mujoco.MjData(model), model.body(task.scene.robot.hand_body).id
    entities = task.scene.entities
    places = addresses(task)
    about = {
        **STEP,
        "quaternion_wxyz": "the drone's orientation, world axes",
        "linear_velocity_m_s": "of the drone, world axes",
        "angular_velocity_rad_s": "of the drone, world axes",
        "heading": "the drone's x axis, in world axes",
        "up": "the drone's z axis, in world axes",
        "rotors_told": "thrusts of the four rotors, newtons",
    }
    if task.name == juggle.NAME:
        about["position_m"] = "of the drone, world axes"
        about["anchor_minus_drone_m"] = "the middle of the places where the drone starts, from the drone, world axes"
    for name, entity in entities.items():
        about[f"{name}_minus_drone_m"] = f"the {name}, from the drone, world axes"
        if entity.free_joint is not None:
            about[f"{name}_velocity_m_s"] = f"of the {name}, world axes"
            if task.name != juggle.NAME:
                about[f"{name}_angular_velocity_rad_s"] = f"of the {name}, world axes"

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
                if task.name != juggle.NAME:
                    own = obs.qvel[0, at + 3 : at + 6]  # in the body's axes
                    turned = data.xmat[model.body(entity.body).id].reshape(3, 3) @ own
                    found[f"{name}_angular_velocity_rad_s"] = rounded(turned, 4)
        return found

    return Channels(about, state)


def _legs(task: Task) -> Channels:
    """Body velocities and gravity in the trunk's axes, joints and what they were told last, and where the goal is."""
    goal = list(task.scene.entities).index("goal")
    joints = "leg by leg, front left, front right, rear left, rear right: hip, thigh, calf"
    about = {
        **STEP,
        "linear_velocity_m_s": "of the trunk, in its axes: x ahead, y to the left, z up",
        "angular_velocity_rad_s": "of the trunk, in its axes",
        "projected_gravity": "which way is down, in the trunk's axes, of length 1",
        "joint_positions_rad": f"angles, {joints}",
        "joint_velocities_rad_s": "likewise",
        "targets_told": "the servos' last targets, rad, in the order of an action, not in that of the joints",
        "goal_offset_m": "the goal from the trunk, level: ahead and to the left of its heading",
    }

    def state(obs: Observation) -> Mapping[str, Any]:
        turn = matrix(obs.qpos[0, 3:7])
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

    return Channels(about, state)


_BY_LAW: Mapping[str, Callable[[Task], Channels]] = {
    "osc_pose": _arm,
    "drive": _car,
    "rotors": _rotors,
    "posture": _legs,
}
