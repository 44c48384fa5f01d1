"""The benchmark's robot: a Panda on a base that drives to all sides, with its three cameras.

What the benchmark gives: the base's footprint, cameras, the reach of a grasp (0.10 to 0.70 m ahead of the base's frame),
action and state. Ours are the mount of the arm, the masses, and the posture at the start, which puts the hand's camera where
the benchmark has it; the torso has no joint, since it never moves.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from evals.tabletop import panda
from evals.tabletop.shapes import CONTACT_GROUP, SOLREF, visual
from mjx_bench.task import Region, Robot

if TYPE_CHECKING:
    import mujoco

BODY = "robot0_mobile"
ENTITY = "robot_base"
# Metres ahead of, behind and to either side of the base's frame.
AHEAD, BEHIND, ASIDE = 0.15, 0.55, 0.35
MOUNT = (-0.05, 0.0, 0.75)  # of the arm, in the base's frame
MASS, INERTIA = 120.0, (6.0, 6.0, 8.0)  # kg; kg m^2
CHASSIS = 0.62  # metres, its height; what stands out above is the torso
# Of the servos that hold and move the base: N/m and Nm/rad; N s/m and Nm s/rad; N and Nm.
STIFFNESS, DAMPING, FORCE = (20000.0, 20000.0, 4000.0), (3200.0, 3200.0, 400.0), (900.0, 900.0, 250.0)

AGENT_LEFT, AGENT_RIGHT, IN_HAND = "robot0_agentview_left", "robot0_agentview_right", panda.HAND_CAMERA
CAMERAS = (AGENT_LEFT, AGENT_RIGHT, IN_HAND)
# Of the camera on the left: where it is, and its axes (right, up, back) as columns, in the base's frame.
_EYE = (-0.5, 0.35, 1.75)
_LOOK = ((-0.20197, 0.52813, -0.82479), (-0.9793, -0.09726, 0.17753), (0.01354, 0.84358, 0.53684))
# Of the hand's camera, at the start.
_HAND_EYE = (0.2686, -0.0063, 1.403)
_HAND_LOOK = ((0.07087, 0.95933, -0.27324), (-0.99694, 0.05904, -0.05130), (-0.03308, 0.27603, 0.96058))
_HAND_BEHIND = 0.05  # the hand's frame behind its camera, metres
_FOV, _HAND_FOV = 60.0, 75.0  # degrees
_VIEW_MARGIN = 0.02  # tangent of an angle, beyond a picture's edge

# Arm posture at the start: the hand points straight down (q6 = q2 - q4).
HOME = (0.0, -0.84055, 0.0, -2.21800, 0.0, 1.37745, 0.78540)
START_OPENING = panda.START_OPENING

# Contacts of the base and of what it runs into; the classes of `tabletop.shapes` have the bits below.
BASE_BIT = 64

ROBOT: Robot = dataclasses.replace(
    panda.ROBOT,
    base_joints=("robot0_base_x", "robot0_base_y", "robot0_base_yaw"),
    base_actuators=("robot0_drive_x", "robot0_drive_y", "robot0_drive_yaw"),
    gripper_speed=2.0,  # 0.1 a tick
)
FRAME = Region("robot_base_frame", None, ((AHEAD + BEHIND) / 2, ASIDE, 0.01))
# Actions of the ticks before a policy acts: nothing moves, and the hand opens.
SETTLE_TICKS, SETTLE = 10, (*(0.0,) * 6, -1.0, *(0.0,) * 5)


def add_robot(spec: mujoco.MjSpec) -> None:
    """Adds the robot; qpos says where it stands, its base's frame first: x, y and yaw in the world."""
    import mujoco

    base = spec.worldbody.add_body(name=BODY)
    base.mass, base.ipos, base.inertia = MASS, [-0.2, 0.0, 0.25], INERTIA
    base.explicitinertial = True
    slide, hinge = mujoco.mjtJoint.mjJNT_SLIDE, mujoco.mjtJoint.mjJNT_HINGE
    for name, kind, axis in zip(
        ROBOT.base_joints, (slide, slide, hinge), ((1, 0, 0), (0, 1, 0), (0, 0, 1)), strict=True
    ):
        base.add_joint(name=name, type=kind, axis=axis)
    _draw(base)
    middle = (AHEAD - BEHIND) / 2
    base.add_geom(
        name="robot0_chassis", type=mujoco.mjtGeom.mjGEOM_BOX, size=[FRAME.half_size[0], ASIDE, CHASSIS / 2 - 0.02],
        pos=[middle, 0, CHASSIS / 2], contype=BASE_BIT, conaffinity=0, group=CONTACT_GROUP, mass=0.0, solref=SOLREF,
        friction=[0.2, 0.005, 0.0001],
    )  # fmt: skip
    base.add_site(name=FRAME.name, type=mujoco.mjtGeom.mjGEOM_BOX, size=FRAME.half_size, rgba=[0, 0, 0, 0])
    for name, side in ((AGENT_LEFT, 1.0), (AGENT_RIGHT, -1.0)):
        eye, look = _eye(side)
        base.add_camera(name=name, pos=eye, quat=_quat(look), fovy=_FOV)
    panda.add_panda(spec, MOUNT, base)
    camera = spec.camera(IN_HAND)
    # In the hand's frame, which at the start is x ahead, y to the right, z down.
    down = np.diag([1.0, -1.0, -1.0])
    camera.pos, camera.quat = [_HAND_BEHIND, -_HAND_EYE[1], 0.0], _quat(down @ np.array(_HAND_LOOK))
    for i, (name, actuator) in enumerate(zip(ROBOT.base_joints, ROBOT.base_actuators, strict=True)):
        servo = spec.add_actuator(
            name=actuator, target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT, forcerange=[-FORCE[i], FORCE[i]]
        )
        servo.set_to_position(kp=STIFFNESS[i], kv=DAMPING[i])
        servo.forcelimited = True


def out_of_view(start: tuple[float, float, float], corners: np.ndarray) -> bool:
    """Whether none of the cameras shows any of a convex body, the arm as it is at the start; pictures are square.

    Args:
      start: x, y (metres) and yaw (radians) of the base's frame.
      corners: [n, 3] of the body, world, metres.
    """
    x, y, yaw = start
    c, s = math.cos(yaw), math.sin(yaw)
    base = (corners - [x, y, 0.0]) @ np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
    hand = np.array(_HAND_EYE), np.array(_HAND_LOOK), _HAND_FOV
    return all(_beyond(base, *camera) for camera in ((*_eye(1.0), _FOV), (*_eye(-1.0), _FOV), hand))


def _eye(side: float) -> tuple[np.ndarray, np.ndarray]:
    """[3] place and [3, 3] axes (columns) of the camera on the left (1.0) or, its mirror image, on the right (-1.0)."""
    mirror = np.outer([1.0, side, 1.0], [side, 1.0, 1.0])
    return np.array(_EYE) * [1.0, side, 1.0], np.array(_LOOK) * mirror


def _beyond(points: np.ndarray, eye: np.ndarray, look: np.ndarray, fov: float) -> bool:
    """Whether all points [n, 3] lie beyond the same edge of a camera's picture; `look` has its axes as columns."""
    right, up, back = ((points - eye) @ look).T
    edge = -back * (math.tan(math.radians(fov / 2)) + _VIEW_MARGIN)
    return any(bool((side > edge).all()) for side in (right, -right, up, -up))


def _quat(axes: np.ndarray) -> np.ndarray:
    """[4] wxyz of a rotation [3, 3]."""
    import mujoco

    quat = np.empty(4)
    mujoco.mju_mat2Quat(quat, np.ascontiguousarray(axes, np.float64).ravel())
    return quat


def _draw(base: Any) -> None:
    middle, half = (AHEAD - BEHIND) / 2, (AHEAD + BEHIND) / 2
    white, dark, grey = panda.WHITE, panda.DARK, panda.GREY
    visual(base, "box", [half, ASIDE, 0.12], dark, pos=[middle, 0, 0.17])
    visual(base, "box", [half - 0.01, ASIDE - 0.01, 0.006], grey, pos=[middle, 0, 0.296])
    visual(base, "box", [half - 0.03, ASIDE - 0.03, 0.15], white, pos=[middle, 0, 0.45])
    visual(base, "box", [0.16, 0.14, 0.065], dark, pos=[MOUNT[0], 0, 0.665])
    visual(base, "cylinder", [0.12, 0.01], grey, pos=[MOUNT[0], 0, MOUNT[2] - 0.012])
    for x in (AHEAD - 0.12, 0.12 - BEHIND):
        for y in (ASIDE - 0.06, 0.06 - ASIDE):
            visual(base, "cylinder", [0.05, 0.03], (0.08, 0.08, 0.09), fromto=[x, y - 0.03, 0.05, x, y + 0.03, 0.05])


def start_qpos(x: float, y: float, yaw: float) -> dict[str, float]:
    """Joint to its position at the start of an episode, the base's frame at x and y (metres), turned by yaw (radians)."""
    fingers = (START_OPENING, -START_OPENING)
    return {
        **dict(zip(ROBOT.base_joints, (x, y, yaw), strict=True)),
        **dict(zip(ROBOT.arm_joints, HOME, strict=True)),
        **dict(zip(ROBOT.gripper_joints, fingers, strict=True)),
    }
