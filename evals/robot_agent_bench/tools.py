"""RobotAgentBench's tools: hands to poses, joints, torso, head, grippers and base, rows of actions, geometry, and the map.

The benchmark names `move_eef_to` and the limits (600 steps a call, 200 replies an episode); the other tools are ours. Poses
are in the base's frame: x ahead, y to the left, z up from the floor. What moves is in `commanding`, what is computed in
`geometry`, what is kept of an episode in `sensing`. A learned policy as a tool is missing: there is none for this robot yet.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from evals.robot_agent_bench.commanding import GRIPPERS, HEAD, STEPS, TORSO, Commands, checked, told
from evals.robot_agent_bench.geometry import Geometry
from evals.robot_agent_bench.sensing import Homes, Senses
from evals.servo import rounded
from mjx_bench.budgets import Decisions
from mjx_bench.control.bimanual import HIGH, JOINTS, LOW, OPEN, PERIOD, STROKE
from mjx_bench.policy import Observation
from mjx_bench.task import Task
from mjx_bench.tools import History, Param, Recall, Stop, Told, Tool, Toolset
from policies.reference.limbs import SIDES

RESPONSES = 200
SIZE = 512  # pixels a side of pictures

BRIEF = """\
You control a robot with two arms on a wheeled base in a house. The simulation moves only while a call is carried out; a
control step is 1/20 s, and a call runs at most {steps} of them: what is asked for beyond is cut off. Poses are in the frame
of the base: x ahead, y to the left, z up from the floor; quaternions are wxyz. A hand's is that of its grasp point, whose y
axis runs along the left hand and against the right one, and along whose x axis the pads slide; a camera's x axis is to the
right of its picture, y up, and it looks along -z. Grippers are angles: 0 is closed, {open:.3f} open. The base's own place is
measured in the world. Several calls in one reply are carried out in turn. Nothing avoids obstacles. The answer to a call
says how many steps it took, why it stopped, what is left to go, and which hands' fingers touch something. You have
{responses} replies; one without a call counts. A bad call executes nothing. The episode ends by its task, by the tool done,
or when replies or {horizon} control steps are used up."""

_ARM = Param("text", "left or right", choices=SIDES)
_POINT = Param("numbers", "x, y, z of the grasp point, metres", low=-20.0, high=20.0, length=3)
_QUAT = Param("numbers", "w, x, y, z, of length 1; as it is if left out", low=-1.0, high=1.0, length=4, default=None)
_SPEED = Param("number", "m/s", low=0.01, high=0.5, default=0.15)
_SECONDS = Param("number", "seconds", low=PERIOD, high=600.0)
_SEVEN = Param(
    "numbers", "seven angles, radians; as told last if left out", low=-math.pi, high=math.pi, length=7, default=None
)
_PIXEL = Param("number", "pixels from the upper left corner", low=0.0, high=float(SIZE))
_FLAG = Param("flag", "whether lift and waist may help", default=False)


def toolset(task: Task) -> Toolset:
    """The tools of a task."""
    cameras = task.scene.observed or task.scene.cameras
    geometry, homes = Geometry(task, cameras, SIZE), Homes(task)
    return Toolset(
        name="robot-agent-bench-2",
        brief=BRIEF.format(steps=STEPS, open=OPEN, responses=RESPONSES, horizon=task.horizon),
        tools=(*_looking(geometry, cameras), *_moving(Commands(geometry))),
        state=lambda obs: _state(geometry, obs),
        budget=Decisions(RESPONSES),
        cameras=cameras,
        image_size=SIZE,
        history=History(rounds=(0,), packets=2),
        one_call=False,
        answer_ends=False,
        program_steps=STEPS,
        tracker=lambda instance: Senses(homes, instance),
    )


def _moving(robot: Commands) -> tuple[Tool, ...]:
    joint = [Param("number", "", low=float(LOW[i]), high=float(HIGH[i])) for i in range(20)]
    speed, rate = (
        Param("number", t, low=-float(m), high=float(m)) for t, m in (("m/s", HIGH[20]), ("rad/s, left", HIGH[21]))
    )
    both: dict[str, Param] = {}
    for side in SIDES:
        both |= {f"{side}_position": _POINT, f"{side}_quat_wxyz": _QUAT}
    frame = Param("text", "of the pose: base or world", choices=("base", "world"), default="base")
    turning = Param("number", "rad/s at most", low=0.05, high=math.pi, default=math.pi)
    rows = Param("rows", "22 numbers each in [-1, 1]", low=-1.0, high=1.0, length=22, most=2 * STEPS)
    return (
        Tool(
            "move_eef_to",
            "Lead a hand in a straight line to a pose; stops within 5 mm and 0.05 rad.",
            {"arm": _ARM, "position": _POINT, "quat_wxyz": _QUAT, "frame": frame, "speed": _SPEED, "use_torso": _FLAG},
            robot.move_eef_to,
        ),
        Tool(
            "move_both_eef_to",
            "Lead both hands at once, likewise, to poses in the frame of the base.",
            {**both, "speed": _SPEED},
            robot.move_both_eef_to,
        ),
        Tool(
            "move_joints",
            "Turn the arms' joints.",
            {"left": _SEVEN, "right": _SEVEN, "speed": turning},
            robot.move_joints,
        ),
        Tool(
            "set_torso", "Lift, metres, and waist, radians.", {"lift": joint[14], "pitch": joint[15]}, robot.part(TORSO)
        ),
        Tool("look", "Turn the head.", {"yaw": joint[16], "pitch": joint[17]}, robot.part(HEAD)),
        Tool("set_gripper", "Open or close a hand.", {"arm": _ARM, "theta": joint[18]}, robot.set_gripper),
        Tool(
            "drive",
            "Go straight by so many metres; negative goes back.",
            {"distance": Param("number", "metres", low=-5.0, high=5.0)},
            robot.drive,
        ),
        Tool("turn", "Turn to the left.", {"angle": Param("number", "radians", low=-6.3, high=6.3)}, robot.turn),
        Tool(
            "drive_velocity",
            "Drive at these speeds.",
            {"v": speed, "w": rate, "seconds": _SECONDS},
            robot.drive_velocity,
        ),
        Tool("wait", "Hold everything.", {"seconds": _SECONDS}, robot.wait),
        Tool("step", "Execute actions as they are.", {"actions": rows}, robot.step),
        Tool(
            "done",
            "End the episode.",
            {"reason": Param("text", "why", most=2000)},
            lambda a, obs: Stop("declared_done"),
        ),
    )


def _looking(geometry: Geometry, cameras: tuple[str, ...]) -> tuple[Tool, ...]:
    """What moves nothing."""

    def joints(obs: Observation) -> Any:
        return obs.joint_pos[0][:18]

    def ik(a: Mapping[str, Any], obs: Observation) -> Told:
        turn = checked(a["quat_wxyz"], geometry.hands(joints(obs))[a["arm"]][1])
        posture, miss = geometry.reach(a["arm"], told(obs)[:18], a["position"], turn, a["use_torso"])
        return Told({"joints": rounded(posture), "miss_m": round(miss, 4)})

    def pixel_ray(a: Mapping[str, Any], obs: Observation) -> Told:
        origin, way = geometry.ray(a["camera"], a["u"], a["v"], joints(obs))
        return Told({"origin": rounded(origin, 4), "direction": rounded(way, 5)})

    def recall(senses: Senses) -> Told:
        return senses.told_map()

    near = dataclasses.replace(_POINT, low=-3.0, high=3.0)
    positions = Param("numbers", "18 positions: arms, lift, waist, head", low=-math.pi, high=math.pi, length=18)
    return (
        Tool(
            "observe",
            "Observe again, with the measured poses of the cameras; nothing moves.",
            {},
            lambda a, obs: Told({"cameras": geometry.cameras_told(joints(obs))}),
        ),
        Tool(
            "get_map",
            "What is known of the house from above: rows of cells from large y to small, along x from origin_m (the lower"
            " left corner, world): # an obstacle, . free, ? not seen yet; and your way so far (x, y, yaw). Movable things"
            " are not on it.",
            {},
            lambda a, obs: Recall(recall),
        ),
        Tool(
            "pixel_ray",
            "The ray that a pixel of a picture shows: its origin and direction.",
            {"camera": Param("text", "which", choices=cameras), "u": _PIXEL, "v": _PIXEL},
            pixel_ray,
        ),
        Tool(
            "ik",
            "Joints that bring a hand to a pose.",
            {"arm": _ARM, "position": near, "quat_wxyz": _QUAT, "use_torso": _FLAG},
            ik,
        ),
        Tool(
            "fk", "Where both hands would be.", {"joints": positions}, lambda a, obs: Told(geometry.told(a["joints"]))
        ),
    )


def _state(geometry: Geometry, obs: Observation) -> dict[str, Any]:
    """Joints, grippers, the base's pose in the world, and both grasp points."""
    joints, base = obs.joint_pos[0][:JOINTS], obs.joint_pos[0][-3:]
    return {
        "step": int(obs.step[0]),
        "left_arm": rounded(joints[0:7]),
        "right_arm": rounded(joints[7:14]),
        "torso": rounded(joints[TORSO]),
        "head": rounded(joints[HEAD]),
        "grippers": rounded(joints[GRIPPERS] * OPEN / STROKE),
        "base": rounded(base),
        **geometry.told(joints[:18]),
    }
