"""RoboQuest's four tools: a pose for the hand, velocities for the base, waiting, and giving up. Nothing finds or grasps.

Figures and rules are the benchmark's, in words of our own; a robot without a base has no `base`. A task without SUBMIT is an
isolated skill test, and has a budget of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from evals.servo import MODELS, addresses, check_length, increments, rounded, wxyz, xyzw
from mjx_bench.budgets import Decisions
from mjx_bench.policy import Observation
from mjx_bench.task import Task
from mjx_bench.tools import BadCall, History, Motion, Param, Stop, Tool, Toolset, held

DECISIONS, SKILL_DECISIONS = 200, 50
TICKS = 200  # of one call, at most
GAINS, MOST = (0.8, 0.5), (0.015, 0.12)  # of the arm's servo: metres and radians a tick
REACH, LOW, HIGH = 6.0, 0.3, 2.2  # metres: positions that are taken
BASE_MOST = 0.5
DRIVE, MODE = slice(7, 10), 11  # of the 12 actions

BRIEF = """\
You control a robot in a simulation. You have pictures, the robot's proprioception, and what your
calls answer; nothing else tells you what is where. Reply with exactly one tool call each time. No tool finds or grasps
an object. Positions are in metres and orientations are quaternions xyzw of the gripper, in world axes. A gripper value
above 0 closes, below 0 opens, 0 leaves it. {base}The torso is held. A tick is 0.05 s, and a call takes up to {ticks}
ticks: it runs just as many as asked for, and reaching a pose is not promised. {views} {end} The
tool stop, a reply without a call, and running out of your {decisions} decisions all fail. A reply that is not exactly one
valid call costs a decision and moves nothing. Nobody tells you how far you are."""
SUBMIT = """The episode
succeeds only if the goal holds when you press SUBMIT with the gripper, from above; a press at a wrong moment fails."""
ABOARD = "The cameras are fixed to the robot."
HOLD = "The episode ends, and succeeds, when the goal has held for {seconds:g} s."
BASE = "Base velocities are forward, left and turn to the left. "
REJECTION = "the call was not carried out: reply with exactly one valid tool call"


def toolset(task: Task) -> Toolset:
    """The tools of a task, with the benchmark's decisions (200, or 50 of a skill test) and no limit on ticks."""
    drives, rules = bool(task.scene.robot.base_joints), task.rules
    decisions = DECISIONS if rules.submit else SKILL_DECISIONS
    end = SUBMIT if rules.submit else HOLD.format(seconds=((rules.hold or 1) - 1) / task.control_hz)
    ticks = Param("integer", "ticks of 0.05 s", low=1, high=TICKS)
    gripper = Param("number", "above 0 closes, below 0 opens, 0 leaves it", low=-1.0, high=1.0, default=0.0)
    arm = Tool(
        "arm",
        "Move the gripper towards a pose in the world; without a quaternion it keeps its orientation.",
        {
            "position_world_m": Param("numbers", "x, y, z of the gripper", low=-REACH, high=REACH, length=3),
            "quaternion_xyzw": Param("numbers", "orientation, of length 1", low=-1.0, high=1.0, length=4, default=None),
            "gripper": gripper,
            "ticks": _default(ticks, 120),
        },
        lambda a, obs: _arm(a, obs, addresses(task) if drives else None),
    )
    base = Tool(
        "base",
        "Drive; the arm stays as it is relative to the base, and zeros brake.",
        {
            "velocity_body": Param("numbers", "forward, left, turn", low=-BASE_MOST, high=BASE_MOST, length=3),
            "ticks": _default(ticks, 20),
        },
        lambda a, obs: held(_drive(a["velocity_body"]), a["ticks"]),
    )
    wait = Tool(
        "wait",
        "Hold arm and base.",
        {"gripper": gripper, "ticks": _default(ticks, 20)},
        lambda a, obs: held(_still(obs, a["gripper"], drives), a["ticks"]),
    )
    stop = Tool("stop", "Give up: the episode fails.", {}, lambda a, obs: Stop("declared_stop"))
    places = addresses(task)
    return Toolset(
        name="roboquest-2",
        brief=BRIEF.format(base=BASE if drives else "", ticks=TICKS, views=_views(task), end=end, decisions=decisions),
        tools=(arm, *((base,) if drives else ()), wait, stop),
        state=lambda obs: _state(obs, places),
        budget=Decisions(decisions),
        cameras=task.scene.observed or task.scene.cameras,
        image_size=512,
        history=History(rounds=(0,), packets=2),
        one_call=True,
        answer_ends=True,
        rejection=REJECTION,
        horizon=decisions * TICKS,
        program_steps=TICKS,
    )


def _views(task: Task) -> str:
    """What the cameras are fixed to."""
    model = MODELS.of(task)
    names = task.scene.observed or task.scene.cameras
    still = [name for name in names if int(model.camera(name).bodyid[0]) == 0]
    if not still:
        return ABOARD
    rest = "" if len(still) == len(names) else "; the others are fixed to the robot"
    return f"Standing still in the room: {', '.join(still)}{rest}."


def _default(param: Param, ticks: int) -> Param:
    return Param(param.kind, f"{param.about}; {ticks} if not given", param.low, param.high, default=ticks)


def _arm(a: Mapping[str, Any], obs: Observation, places: Mapping[str, tuple[int, int]] | None) -> Motion:
    position, quat = a["position_world_m"], a["quaternion_xyzw"]
    if not LOW <= position[2] <= HIGH:
        raise BadCall("values", f"the height must be within {LOW} and {HIGH}, and is {position[2]:g}")
    if quat is not None:
        check_length(quat)
    goal = obs.eef_quat[0].copy() if quat is None else wxyz(quat)

    def action(now: Observation, tick: int) -> np.ndarray:
        told = increments(now, position, goal, GAINS, MOST)
        if places is None:
            return np.array([*told, a["gripper"]])
        # Its arm's axes are the base's.
        yaw = float(now.qpos[0, places[now.task.scene.robot.base_joints[2]][0]])
        turn = np.array([[np.cos(yaw), np.sin(yaw), 0.0], [-np.sin(yaw), np.cos(yaw), 0.0], [0.0, 0.0, 1.0]])
        return np.array([*(turn @ told[:3]), *(turn @ told[3:]), a["gripper"], 0.0, 0.0, 0.0, 0.0, -1.0])

    return Motion(a["ticks"], action)


def _drive(velocity: np.ndarray) -> np.ndarray:
    action = np.zeros(12)
    action[DRIVE], action[MODE] = velocity, 1.0
    return action


def _still(obs: Observation, gripper: float, drives: bool) -> np.ndarray:
    action = np.zeros(12 if drives else 7)
    action[6] = gripper
    if drives:
        action[MODE] = -1.0
    return action


def _state(obs: Observation, places: Mapping[str, tuple[int, int]]) -> dict[str, Any]:
    """Proprioception: the gripper's and the base's pose, and the robot's own joints, fingers last."""
    robot = obs.task.scene.robot
    names = (*robot.base_joints, *robot.arm_joints, *robot.gripper_joints)
    at = [places[name] for name in names]
    found = {
        "gripper_position_world_m": rounded(obs.eef_pos[0]),
        "gripper_quaternion_xyzw": rounded(xyzw(obs.eef_quat[0])),
        "joint_positions": rounded(obs.qpos[0, [q for q, _ in at]]),
        "joint_velocities": rounded(obs.qvel[0, [v for _, v in at]]),
        "step": int(obs.step[0]),
        "simulated_time_s": round(int(obs.step[0]) / obs.task.control_hz, 2),
    }
    if robot.base_joints:
        x, y, yaw = (float(obs.qpos[0, places[name][0]]) for name in robot.base_joints)
        found["base_position_world_m"] = rounded([x, y, 0.0])
        found["base_quaternion_xyzw"] = rounded([0.0, 0.0, np.sin(yaw / 2), np.cos(yaw / 2)])
    return found
