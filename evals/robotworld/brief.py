"""What an agent is told before a RobotWorld episode: the robot that acts, what its actions do, what packets hold, the rules.

The words are of the scene, the control law and the channels that run, and figures are read from these. A contract's own
words are about the benchmark's robots and sensors, and some of them are false of ours.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from evals.robotworld import budget, go2, hummingbird, iris, juggle
from evals.robotworld.channels import Channels, cameras
from evals.servo import MODELS, POSITION, ROTATION
from mjx_bench.control.drive import RADIUS, SPEED, STEERED, STEERING
from mjx_bench.control.rotors import LAG
from mjx_bench.task import Task

BRIEF = """\
You control a robot: {robot}. The simulation moves only while one of your calls is carried out. A control step is 1/{hz} s, \
{substeps} of physics, and the episode has {horizon} control steps.

{action} {below} Nothing plans or balances for you. The same command is repeated for every step of a call, without a ramp, \
and a call runs just as many steps as it asks for. World axes: z is up.

A packet holds the current observation and up to four earlier ones, every second round. An observation's fields:
{fields}
The current one also has:
{spent}
Values are the simulator's own, rounded.{pictures}

Several calls in one reply are carried out one after the other. A bad call is refused and moves nothing. Neither a text nor \
a claim of success ends the episode. Calls and turns that execute no control step count against you: {consecutive} in a \
row{total} end it."""

# Of the account, in the current observation of a packet.
SPENT = {
    "nonaction_in_a_row": "calls and turns that executed no control step, since one did",
    "nonaction_total": "all of these",
    "nonaction_limits": "how many in a row, and how many in all, end the episode; null where there is no limit",
}
# What the numbers of an action are of, in their order.
NUMBERS = {
    "rotors": "rotors 0 to 3",
    "posture": "four hips, four thighs, four calves, each front left, front right, rear left, rear right",
}


@dataclasses.dataclass(frozen=True)
class Words:
    """Of a task's robot: what it is, what an action does, and what runs below it."""

    robot: str
    action: str
    below: str


def brief(task: Task, told: Channels, limits: budget.Limits) -> str:
    """The interface of a task in words."""
    its = _BY_LAW[task.action_modes[0]](task)
    return BRIEF.format(
        robot=its.robot,
        hz=task.control_hz,
        substeps="one step" if task.substeps == 1 else f"{task.substeps} steps",
        horizon=task.horizon,
        action=its.action,
        below=its.below,
        fields=_listed(told.about),
        spent=_listed(SPENT),
        pictures=_pictures(task),
        consecutive=limits.consecutive,
        total="" if limits.total is None else f", or {limits.total} in all,",
    )


def _listed(about: Mapping[str, str]) -> str:
    return "\n".join(f"- {name}: {text}" for name, text in about.items())


def _arm(task: Task) -> Words:
    base = _placed(MODELS.of(task).body("robot0_base").pos)
    return Words(
        robot="a Panda arm of seven joints with a Panda hand of two parallel fingers, at a table",
        action=(
            "You give poses of the gripper, the point between the fingertips, in world axes: x ahead of the arm, y to its"
            f" left, z up, metres; the arm's base is at {base}. What a call leaves out stays as it is when the call begins,"
            " and the gripper as told last. A gripper_close of 0.5 or more closes, less opens, while the arm moves."
        ),
        below=(
            f"At every step the hand is led towards the pose by at most {POSITION:g} m and {ROTATION:g} rad along each axis,"
            " under operational-space control."
        ),
    )


def _car(task: Task) -> Words:
    low = task.scene.robot.torque_limits[0][STEERED]
    joint = float(np.tan(STEERING))
    gears = "A negative speed drives backwards." if low < 0.0 else "There is no reverse gear: a negative speed is 0."
    return Words(
        robot="a small car; all four wheels are driven, and the front ones steer",
        action=(
            f"An action is a speed and a steering, each within -1 and 1. Speed 1 turns all wheels at {SPEED:g} m/s over"
            f" {RADIUS:g} m, which is {SPEED / RADIUS:g} rad/s. {gears} Steering 1 is a central angle of {STEERING:g} rad,"
            " to the left, of the one front wheel that a bicycle would have; the joints of both front wheels are sent to its"
            f" tangent, {joint:.3f} rad."
        ),
        below="Servos of wheel speeds and steering angles follow the command.",
    )


def _rotors(task: Task) -> Words:
    model, most = MODELS.of(task), task.scene.robot.torque_limits[1][0]
    names = task.scene.robot.arm_actuators
    arms = ", ".join(_placed(model.site(f"{name}_site").pos[:2]) for name in names)
    turns = ", ".join(f"{float(model.actuator(name).gear[5]):+g}" for name in names)
    kind = (
        f"an Iris quadrotor of {iris.MASS:g} kg with a racket on top"
        if task.name == juggle.NAME
        else f"a Hummingbird quadrotor of {hummingbird.MASS:g} kg, with a payload below it on a rigid bar of"
        f" {hummingbird.BAR:g} m that swings freely"
    )
    return Words(
        robot=kind,
        action=(
            f"An action is four numbers u within -1 and 1, one a rotor: (u + 1) / 2 of its largest thrust, {most:.3f} N."
            f" In the drone's axes, x ahead, y to the left and z up, {NUMBERS['rotors']} are at x, y = {arms} m, and turn it"
            f" about z with {turns} Nm for each newton."
        ),
        below=(
            f"Rotors lag: at each control step the square root of a rotor's share of thrust goes {LAG:g} of the way to that"
            " which is asked for."
        ),
    )


def _legs(task: Task) -> Words:
    low, high = (np.array(limits) for limits in task.scene.robot.torque_limits)
    middle, scale = (low + high) / 2.0, (high - low) / 2.0
    return Words(
        robot="a Unitree Go2 quadruped on flat ground; it is pushed now and then",
        action=(
            f"An action is twelve numbers u, one a joint: {NUMBERS['posture']}. A joint's target is its posture plus"
            f" {scale[0]:g} u, rad, not clipped and not added up; the posture is"
            f" {', '.join(f'{float(v):g}' for v in np.round(middle, 6))}."
        ),
        below=(
            f"Each joint's servo has stiffness {go2.KP:g} Nm/rad, damping {go2.KD:g} Nms/rad and at most {go2.TORQUE:g} Nm."
        ),
    )


_BY_LAW: Mapping[str, Callable[[Task], Words]] = {"osc_pose": _arm, "drive": _car, "rotors": _rotors, "posture": _legs}


def _pictures(task: Task) -> str:
    """Each camera: what it is fixed to, and how much it sees."""
    if not (names := cameras(task)):
        return " There are no pictures."
    model = MODELS.of(task)
    found = []
    for name in names:
        camera = model.camera(name)
        body = model.body(int(camera.bodyid[0])).name
        where = "stands still" if body == "world" else f"rides on the {body.removeprefix('robot0_')}"
        found.append(f"{name} ({where}, field of view {float(camera.fovy[0]):g} degrees)")
    return f" If you take pictures, an observation has one of each camera, square: {', '.join(found)}."


def _placed(at: Any) -> str:
    return f"({', '.join(f'{float(v):g}' for v in np.round(np.asarray(at, np.float64), 4) + 0.0)})"
