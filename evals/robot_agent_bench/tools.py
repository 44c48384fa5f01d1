"""RobotAgentBench's tools: hands to poses, joints, torso, head, grippers and base, geometry, and rows of actions.

The benchmark names `move_eef_to` and the limits (600 steps a call, 200 replies an episode); the other tools are ours. Poses
are in the base's frame: x ahead, y to the left, z up from the floor. A tool ends when it is there, when nothing moves any
more, or when its steps are spent; nothing avoids obstacles. Not here: the map, rays through pixels, contacts of fingers, a
learned policy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from evals.servo import rotation_to, rounded, times
from mjx_bench.budgets import Decisions
from mjx_bench.control.bimanual import HIGH, HOME, JOINTS, LOW, OPEN, PERIOD, STROKE, action
from mjx_bench.policy import Observation
from mjx_bench.task import Task
from mjx_bench.tools import BadCall, History, Motion, Param, Stop, Told, Tool, Toolset, executed
from policies.reference.limbs import ARMS, SIDES, Library

RESPONSES, STEPS = 200, 600
NEAR, TURNED = 0.005, 0.05  # metres and radians: a pose that counts as reached
THERE = 0.01  # radians, or metres of the lift: a joint that does
DRIVEN, FACED = 0.01, 0.01  # metres and radians of the base
STILL, STALLED = 2e-4, 20  # what moves less than this in a step, for so many steps, is stalled
GAIN = 1.5  # 1/s, of the base's way
TORSO, HEAD, GRIPPERS, BASE = slice(14, 16), slice(16, 18), slice(18, 20), slice(20, 22)

BRIEF = """\
You control a robot with two arms on a wheeled base in a house. The simulation moves only while a call is carried out; a
control step is 1/20 s, and a call runs at most {steps} of them. Poses are in the frame of the base: x ahead, y to the left,
z up from the floor; quaternions are wxyz of the grasp point's frame, whose y axis runs along the left hand and against the
right one, and along whose x axis the pads slide. Grippers are angles: 0 is closed, {open:.3f} open. Several calls in one
reply are carried out in turn. Nothing avoids obstacles. You have {responses} replies; one without a call counts. A bad call
executes nothing. The episode ends by its task, by the tool done, or when replies or {horizon} control steps are used up."""

_ARM = Param("text", "left or right", choices=SIDES)
_POINT = Param("numbers", "x, y, z of the grasp point, metres, in the base's frame", low=-3.0, high=3.0, length=3)
_QUAT = Param("numbers", "w, x, y, z, of length 1; as it is if left out", low=-1.0, high=1.0, length=4, default=None)

# What commands [22] to give next, of an observation; or why there is no more to do.
Plan = Callable[[Observation, int], "np.ndarray | str"]


def toolset(task: Task) -> Toolset:
    """The tools of a task."""
    robot = _Robot(task)
    joint = [Param("number", "", low=float(LOW[i]), high=float(HIGH[i])) for i in range(20)]
    seven = Param(
        "numbers", "seven angles, radians; as told last if left out", low=-math.pi, high=math.pi, length=7, default=None
    )
    speed, rate = (
        Param("number", t, low=-float(m), high=float(m)) for t, m in (("m/s", HIGH[20]), ("rad/s, left", HIGH[21]))
    )
    seconds = Param("number", "seconds", low=PERIOD, high=STEPS * PERIOD)
    tools = (
        Tool("observe", "Observe again; nothing moves.", {}, lambda a, obs: Told()),
        Tool(
            "move_eef_to",
            "Lead a hand in a straight line to a pose; stops within 5 mm and 0.05 rad.",
            {
                "arm": _ARM, "position": _POINT, "quat_wxyz": _QUAT,
                "speed": Param("number", "m/s", low=0.01, high=0.5, default=0.15),
                "use_torso": Param("flag", "whether lift and waist may help", default=False),
            },
            robot.move_eef_to,
        ),
        Tool("move_joints", "Turn the arms' joints.", {"left": seven, "right": seven}, robot.move_joints),
        Tool("set_torso", "Lift, metres, and waist, radians.", {"lift": joint[14], "pitch": joint[15]}, robot.part(TORSO)),
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
            "drive_velocity", "Drive at these speeds.", {"v": speed, "w": rate, "seconds": seconds}, robot.drive_velocity
        ),
        Tool("wait", "Hold everything.", {"seconds": seconds}, robot.wait),
        Tool(
            "step",
            "Execute actions as they are.",
            {"actions": Param("rows", "22 numbers each in [-1, 1]", low=-1.0, high=1.0, length=22, most=STEPS)},
            lambda a, obs: executed(a["actions"]),
        ),
        Tool("ik", "Joints that bring a hand to a pose.", {"arm": _ARM, "position": _POINT, "quat_wxyz": _QUAT}, robot.ik),
        Tool(
            "fk",
            "Where both hands would be.",
            {"joints": Param("numbers", "18 positions: arms, lift, waist, head", low=-math.pi, high=math.pi, length=18)},
            robot.fk,
        ),
        Tool("done", "End the episode.", {"reason": Param("text", "why", most=2000)}, lambda a, obs: Stop("declared_done")),
    )  # fmt: skip
    return Toolset(
        name="robot-agent-bench-1",
        brief=BRIEF.format(steps=STEPS, open=OPEN, responses=RESPONSES, horizon=task.horizon),
        tools=tools,
        state=robot.state,
        budget=Decisions(RESPONSES),
        cameras=task.scene.observed or task.scene.cameras,
        image_size=512,
        history=History(rounds=(0,), packets=2),
        one_call=False,
        answer_ends=False,
        program_steps=STEPS,
    )


class _Robot:
    """The mapping from calls to commands, for one task's robot."""

    def __init__(self, task: Task) -> None:
        self._task, self._library = task, Library()

    def state(self, obs: Observation) -> Mapping[str, Any]:
        """Joints, grippers, the base's pose in its own odometry, and both grasp points."""
        joints, base = obs.joint_pos[0][:JOINTS], obs.joint_pos[0][-3:]
        found: dict[str, Any] = {
            "step": int(obs.step[0]),
            "left_arm": rounded(joints[0:7]),
            "right_arm": rounded(joints[7:14]),
            "torso": rounded(joints[TORSO]),
            "head": rounded(joints[HEAD]),
            "grippers": rounded(joints[GRIPPERS] * OPEN / STROKE),
            "base": rounded(base),
        }
        return found | self._hands(joints[:18])

    def move_eef_to(self, a: Mapping[str, Any], obs: Observation) -> Motion:
        """See the tool."""
        side, goal, torso = a["arm"], a["position"], a["use_torso"]
        start, quat = self._hand(side, obs)
        turn = self._orientation(a["quat_wxyz"], quat)
        held, length = _told(obs), float(np.linalg.norm(goal - start))
        posture = held[:18].copy()
        last, still = start, 0

        def plan(now: Observation, step: int) -> np.ndarray | str:
            nonlocal posture, last, still
            here, facing = self._hand(side, now)
            if np.linalg.norm(goal - here) < NEAR and np.linalg.norm(rotation_to(facing, turn)) < TURNED:
                return "reached"
            share = min(1.0, (step + 1) * a["speed"] * PERIOD / max(length, 1e-9))
            still = still + 1 if np.linalg.norm(here - last) < STILL else 0
            last = here
            if share == 1.0 and still > STALLED:
                return "stalled"
            posture, _ = self._reach(side, posture, start + share * (goal - start), turn, torso)
            held[:18] = posture
            return held

        return self._motion(plan, STEPS, lambda now: self._residual(side, goal, turn, now))

    def move_joints(self, a: Mapping[str, Any], obs: Observation) -> Motion:
        """See the tool."""
        wanted = _told(obs)
        for side in SIDES:
            if a[side] is not None:
                wanted[ARMS[side]] = a[side]
        return self._settle(wanted, slice(0, 14))

    def part(self, where: slice) -> Callable[[Mapping[str, Any], Observation], Motion]:
        """A tool that sets some joints, in the order of its arguments."""

        def use(a: Mapping[str, Any], obs: Observation) -> Motion:
            wanted = _told(obs)
            wanted[where] = list(a.values())
            return self._settle(wanted, where)

        return use

    def set_gripper(self, a: Mapping[str, Any], obs: Observation) -> Motion:
        """See the tool."""
        wanted, index = _told(obs), 18 + SIDES.index(a["arm"])
        wanted[index] = a["theta"]
        return self._settle(wanted, slice(index, index + 1))

    def drive(self, a: Mapping[str, Any], obs: Observation) -> Motion:
        """See the tool."""
        x, y, yaw = obs.joint_pos[0][-3:]
        way = np.array([math.cos(yaw), math.sin(yaw)])
        end = np.array([x, y]) + a["distance"] * way
        return self._roll(obs, lambda base: (float((end - base[:2]) @ way), 0.0), DRIVEN, "left_m")

    def turn(self, a: Mapping[str, Any], obs: Observation) -> Motion:
        """See the tool."""
        end = float(obs.joint_pos[0][-1]) + a["angle"]
        return self._roll(obs, lambda base: (0.0, end - float(base[2])), FACED, "left_rad")

    def drive_velocity(self, a: Mapping[str, Any], obs: Observation) -> Motion:
        """See the tool."""
        wanted, steps = _told(obs), max(1, round(a["seconds"] / PERIOD))
        wanted[BASE] = a["v"], a["w"]
        return self._motion(lambda now, step: wanted, steps)

    def wait(self, a: Mapping[str, Any], obs: Observation) -> Motion:
        """See the tool."""
        wanted = _told(obs)
        return self._motion(lambda now, step: wanted, max(1, round(a["seconds"] / PERIOD)))

    def ik(self, a: Mapping[str, Any], obs: Observation) -> Told:
        """See the tool."""
        turn = self._orientation(a["quat_wxyz"], self._hand(a["arm"], obs)[1])
        posture, miss = self._reach(a["arm"], _told(obs)[:18], a["position"], turn, torso=False)
        return Told({"joints": rounded(posture), "miss_m": round(miss, 4)})

    def fk(self, a: Mapping[str, Any], obs: Observation) -> Told:
        """See the tool."""
        return Told(self._hands(a["joints"]))

    def _motion(self, plan: Plan, steps: int, residual: Any = None) -> Motion:
        def act(now: Observation, step: int) -> np.ndarray | str:
            found = plan(now, step)
            return found if isinstance(found, str) else action(found)

        return Motion(steps, act, "truncated" if steps >= STEPS else "executed", residual)

    def _settle(self, wanted: np.ndarray, where: slice) -> Motion:
        """Holds commands until the joints in `where` are there, or stand still elsewhere."""
        before, still = np.full(20, np.inf), 0

        def plan(now: Observation, step: int) -> np.ndarray | str:
            nonlocal before, still
            here = _measured(now)
            if np.abs(here[where] - wanted[where]).max() < THERE:
                return "reached"
            still = still + 1 if np.abs(here[where] - before[where]).max() < STILL else 0
            before = here
            return "stalled" if still > STALLED else wanted

        return self._motion(plan, STEPS, lambda now: {"left": rounded(wanted[where] - _measured(now)[where])})

    def _roll(
        self, obs: Observation, left: Callable[[np.ndarray], tuple[float, float]], near: float, name: str
    ) -> Motion:
        """Drives by what is left of a way, metres and radians, until it is `near` to nothing."""
        wanted, before, still = _told(obs), np.full(3, np.inf), 0

        def plan(now: Observation, step: int) -> np.ndarray | str:
            nonlocal before, still
            base = now.joint_pos[0][-3:]
            ahead, around = left(base)
            if abs(ahead) + abs(around) < near:
                return "reached"
            still = still + 1 if np.abs(base - before).max() < STILL else 0
            before = base.copy()
            wanted[BASE] = np.clip([GAIN * ahead, GAIN * around], LOW[BASE], HIGH[BASE])
            return "stalled" if still > STALLED else wanted

        return self._motion(plan, STEPS, lambda now: {name: round(sum(left(now.joint_pos[0][-3:])), 4)})

    def _residual(self, side: str, goal: np.ndarray, turn: np.ndarray, obs: Observation) -> Mapping[str, Any]:
        here, facing = self._hand(side, obs)
        off = float(np.linalg.norm(goal - here)), float(np.linalg.norm(rotation_to(facing, turn)))
        return {"left_m": round(off[0], 4), "left_rad": round(off[1], 4)}

    def _orientation(self, quat: np.ndarray | None, now: np.ndarray) -> np.ndarray:
        if quat is None:
            return now
        if abs(float(np.linalg.norm(quat)) - 1.0) > 1e-3:
            raise BadCall("values", "the quaternion's length must be 1")
        return quat / np.linalg.norm(quat)

    def _hand(self, side: str, obs: Observation) -> tuple[np.ndarray, np.ndarray]:
        """[3] grasp point and [4] wxyz of its frame, in the base's frame."""
        found = self._poses(obs.joint_pos[0][:18])
        return found[side]

    def _hands(self, joints: np.ndarray) -> dict[str, Any]:
        return {
            f"{side}_hand": {"position": rounded(p, 4), "quat_wxyz": rounded(q, 4)}
            for side, (p, q) in self._poses(joints).items()
        }

    def _poses(self, joints: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        import mujoco

        with self._library.lock:
            limbs = self._library.limbs(self._task)
            limbs.place(np.asarray(joints), np.zeros(3))
            found = {}
            for side in SIDES:
                quat = np.empty(4)
                mujoco.mju_mat2Quat(quat, limbs.data.site_xmat[limbs.site[side]])
                found[side] = limbs.data.site_xpos[limbs.site[side]].copy(), quat
            return found

    def _reach(
        self, side: str, start: np.ndarray, point: np.ndarray, quat: np.ndarray, torso: bool
    ) -> tuple[np.ndarray, float]:
        """A posture [18] that brings a hand to a pose in the base's frame, and metres by which it misses."""
        ahead, across = ((1.0 if side == "left" else -1.0) * _turned(quat, 1)), _turned(quat, 0)
        with self._library.lock:
            limbs = self._library.limbs(self._task)
            found: tuple[np.ndarray, float] = limbs.reach(
                side, start, np.zeros(3), point, ahead, across, HOME[:18], torso
            )
            return found


def _turned(quat: np.ndarray, axis: int) -> np.ndarray:
    """[3] an axis of the frame that `quat` [4] wxyz turns."""
    unit = np.zeros(4)
    unit[1 + axis] = 1.0
    return times(times(quat, unit), quat * np.array([1.0, -1.0, -1.0, -1.0]))[1:]


def _measured(obs: Observation) -> np.ndarray:
    """[20] joints as commands have them."""
    joints = obs.joint_pos[0][:JOINTS].copy()
    joints[GRIPPERS] *= OPEN / STROKE
    return joints


def _told(obs: Observation) -> np.ndarray:
    """[22] commands that keep everything as it was told last, the base standing; as it is before the first step."""
    found = np.zeros(22)
    found[:JOINTS] = _measured(obs)
    if obs.step[0]:
        found[:18] = obs.ctrl[0][:18]
        found[GRIPPERS] = obs.ctrl[0][GRIPPERS] * OPEN / STROKE
    return found
