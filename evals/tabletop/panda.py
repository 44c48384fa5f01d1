"""A Franka Emika Panda with its parallel gripper, built from published figures: no mesh, and two dozen primitives.

Kinematics, joint and torque limits: Franka Control Interface documentation (modified Denavit-Hartenberg parameters). Link
masses: Gaz, Cognetti, Oliva, Robuffo Giordano and De Luca, "Dynamic Identification of the Franka Emika Panda Robot With
Retrieval of Feasible Parameters Using Penalty-Based Optimization" (2019), rounded; each link's inertia is that of a solid
capsule of its mass. The gripper is driven as LIBERO's: the two servos get targets of opposite sign.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from evals.tabletop.shapes import axis_quat, contact, joint, visual
from mjx_bench.task import Robot

if TYPE_CHECKING:
    import mujoco

# (a, d, alpha) of each joint: metres and radians.
_HALF = math.pi / 2
DH = (
    (0.0, 0.333, 0.0),
    (0.0, 0.0, -_HALF),
    (0.0, 0.316, _HALF),
    (0.0825, 0.0, _HALF),
    (-0.0825, 0.384, -_HALF),
    (0.0, 0.0, _HALF),
    (0.088, 0.0, _HALF),
)
FLANGE = 0.107  # of the flange along the last joint's axis
LIMITS = (
    (-2.8973, 2.8973),
    (-1.7628, 1.7628),
    (-2.8973, 2.8973),
    (-3.0718, -0.0698),
    (-2.8973, 2.8973),
    (-0.0175, 3.7525),
    (-2.8973, 2.8973),
)
TORQUES = (87.0, 87.0, 87.0, 87.0, 12.0, 12.0, 12.0)
MASSES = (4.97, 0.65, 3.23, 3.59, 1.23, 1.67, 0.74)
HAND_MASS, FINGER_MASS = 0.73, 0.1
ARMATURE, DAMPING = 0.1, 0.5

# The capsule that stands for each link's mass: from, to in the link's frame, radius.
_MASS_CAPSULES = (
    ((0.0, 0.0, -0.12), (0.0, 0.0, 0.0), 0.06),
    ((0.0, 0.0, 0.0), (0.0, -0.12, 0.0), 0.06),
    ((0.0, 0.0, -0.12), (0.06, 0.0, 0.0), 0.055),
    ((0.0, 0.0, 0.0), (-0.07, 0.09, 0.0), 0.055),
    ((0.0, 0.0, -0.25), (0.0, 0.03, -0.02), 0.05),
    ((0.0, 0.0, 0.0), (0.08, 0.0, 0.0), 0.045),
    ((0.0, 0.0, 0.02), (0.0, 0.0, 0.1), 0.04),
)

# Arm posture at the start: the hand points straight down (q6 = q2 - q4), its grip site 45 cm before the base and 24 cm up.
HOME = (0.0, -0.15530, 0.0, -2.51381, 0.0, 2.35851, 0.78540)

# Gripper, metres: grip site below the flange, finger tips below the site, inside faces from the middle when open.
SITE_BELOW_FLANGE = 0.097
TIP_BELOW_SITE = 0.009
OPEN = 0.04
# Servo targets run past both stops, so that closed fingers press with up to `FORCE` whatever they hold.
TARGETS = (-0.01, 0.05)
GAIN, FORCE = 800.0, 25.0
START_OPENING = 0.02  # each finger, the middle of the targets: a command of zero holds it

ROBOT = Robot(
    arm_joints=tuple(f"robot0_joint{i}" for i in range(1, 8)),
    arm_actuators=tuple(f"robot0_torque{i}" for i in range(1, 8)),
    gripper_joints=("robot0_finger_left", "robot0_finger_right"),
    gripper_actuators=("robot0_grip_left", "robot0_grip_right"),
    eef_site="robot0_grip_site",
    hand_body="robot0_hand",
    torque_limits=(tuple(-t for t in TORQUES), TORQUES),
    finger_geoms=(("robot0_pad_left",), ("robot0_pad_right",)),
    hand_geoms=(*(f"robot0_{part}_{side}" for side in ("left", "right") for part in ("pad", "tip")), "robot0_palm"),
)
HAND_CAMERA = "robot0_eye_in_hand"
HAND_TILT = math.radians(6.0)

WHITE, GREY, DARK = (0.93, 0.94, 0.95), (0.42, 0.44, 0.47), (0.13, 0.14, 0.16)


def add_panda(spec: mujoco.MjSpec, pos: Sequence[float], parent: Any = None) -> None:
    """Adds the arm with its base at `pos` [3] of the world, or of another body, facing +x, and its actuators."""
    base = (parent or spec.worldbody).add_body(name="robot0_base", pos=pos)
    _draw_base(base)
    body: Any = base
    for i, ((a, d, alpha), limits, mass) in enumerate(zip(DH, LIMITS, MASSES, strict=True)):
        body = body.add_body(
            name=f"robot0_link{i + 1}",
            pos=[a, -d * math.sin(alpha), d * math.cos(alpha)],
            quat=axis_quat((1, 0, 0), alpha),
        )
        _set_inertia(body, mass, *_MASS_CAPSULES[i])
        joint(body, "hinge", name=ROBOT.arm_joints[i], axis=[0, 0, 1], range=limits, armature=ARMATURE, damping=DAMPING)
        _LINK_LOOKS[i](body)
    _add_hand(body)
    for name, actuator, torque in zip(ROBOT.arm_joints, ROBOT.arm_actuators, TORQUES, strict=True):
        motor = spec.add_actuator(name=actuator, target=name, trntype=_joint(), ctrlrange=[-torque, torque])
        motor.set_to_motor()
        motor.ctrllimited = True
    for name, actuator, (low, high) in zip(
        ROBOT.gripper_joints, ROBOT.gripper_actuators, (TARGETS, (-TARGETS[1], -TARGETS[0])), strict=True
    ):
        servo = spec.add_actuator(
            name=actuator, target=name, trntype=_joint(), ctrlrange=[low, high], forcerange=[-FORCE, FORCE]
        )
        servo.set_to_position(kp=GAIN)
        servo.ctrllimited = servo.forcelimited = True


def _joint() -> mujoco.mjtTrn:
    import mujoco

    return mujoco.mjtTrn.mjTRN_JOINT


def _set_inertia(body: Any, mass: float, start: Any, end: Any, radius: float) -> None:
    """Gives `body` the mass and inertia of a solid capsule, so that its geoms need none."""
    p, q = np.array(start), np.array(end)
    length = float(np.linalg.norm(q - p))
    cylinder, ball = math.pi * radius**2 * length, 4.0 / 3.0 * math.pi * radius**3
    m_c, m_b = mass * cylinder / (cylinder + ball), mass * ball / (cylinder + ball)
    along = 0.5 * m_c * radius**2 + 0.4 * m_b * radius**2
    # Each half ball's centre lies 3/8 r beyond its end of the cylinder.
    across = m_c * (length**2 / 12 + radius**2 / 4) + m_b * (0.4 * radius**2 + 0.375 * length * radius + length**2 / 4)
    z = (q - p) / length
    turn = np.cross([0.0, 0.0, 1.0], z)
    sine = float(np.linalg.norm(turn))
    angle = math.atan2(sine, float(z[2]))
    body.mass = mass
    body.ipos = (p + q) / 2
    body.iquat = axis_quat(turn.tolist(), angle) if sine > 1e-9 else [1, 0, 0, 0]
    body.inertia = [across, across, along]
    body.explicitinertial = True


def _draw_base(b: Any) -> None:
    visual(b, "cylinder", [0.085, 0.02], DARK, pos=[-0.02, 0, 0.02])
    visual(b, "ellipsoid", [0.115, 0.085, 0.075], WHITE, pos=[-0.04, 0, 0.06])
    visual(b, "cylinder", [0.062, 0.07], WHITE, pos=[0, 0, 0.10])
    visual(b, "cylinder", [0.064, 0.008], GREY, pos=[0, 0, 0.165])


def _draw_1(b: Any) -> None:
    visual(b, "capsule", [0.061], WHITE, fromto=[0, 0, -0.14, 0, 0, -0.01])
    visual(b, "cylinder", [0.062], WHITE, fromto=[0, -0.065, 0, 0, 0.065, 0])
    visual(b, "cylinder", [0.052], GREY, fromto=[0, -0.075, 0, 0, 0.075, 0])


def _draw_2(b: Any) -> None:
    visual(b, "capsule", [0.058], WHITE, fromto=[0, 0, 0, 0, -0.15, 0])
    visual(b, "cylinder", [0.061], GREY, fromto=[0, -0.187, 0, 0, -0.196, 0])


def _draw_3(b: Any) -> None:
    visual(b, "capsule", [0.058], WHITE, fromto=[0, 0, -0.10, 0, 0, -0.05])
    visual(b, "capsule", [0.052], WHITE, fromto=[0.01, 0, -0.05, 0.0825, 0, 0])
    visual(b, "cylinder", [0.054], WHITE, fromto=[0.0825, -0.062, 0, 0.0825, 0.062, 0])
    visual(b, "cylinder", [0.045], GREY, fromto=[0.0825, -0.072, 0, 0.0825, 0.072, 0])


def _draw_4(b: Any) -> None:
    visual(b, "capsule", [0.05], WHITE, fromto=[0, 0, 0, -0.07, 0.06, 0])
    visual(b, "capsule", [0.055], WHITE, fromto=[-0.0825, 0.06, 0, -0.0825, 0.11, 0])
    visual(b, "cylinder", [0.058], GREY, fromto=[-0.0825, 0.148, 0, -0.0825, 0.157, 0])


def _draw_5(b: Any) -> None:
    visual(b, "capsule", [0.055], WHITE, fromto=[0, 0, -0.22, 0, 0.01, -0.16])
    visual(b, "capsule", [0.042], WHITE, fromto=[0, 0.03, -0.17, 0, 0.06, -0.02])
    visual(b, "cylinder", [0.046], WHITE, fromto=[0, 0.0, 0, 0, 0.075, 0])
    visual(b, "capsule", [0.040], WHITE, fromto=[0, 0.03, -0.02, 0, 0.02, 0])


def _draw_6(b: Any) -> None:
    visual(b, "cylinder", [0.044], WHITE, fromto=[0, 0, -0.055, 0, 0, 0.055])
    visual(b, "cylinder", [0.036], GREY, fromto=[0, 0, -0.06, 0, 0, 0.06])
    visual(b, "capsule", [0.04], WHITE, fromto=[0.01, 0, 0, 0.088, 0, 0])


def _draw_7(b: Any) -> None:
    visual(b, "cylinder", [0.044], WHITE, fromto=[0, 0, -0.02, 0, 0, 0.075])
    visual(b, "cylinder", [0.046], GREY, fromto=[0, 0, 0.075, 0, 0, 0.082])
    visual(b, "cylinder", [0.034], DARK, fromto=[0, 0, 0.08, 0, 0, FLANGE])


_LINK_LOOKS = (_draw_1, _draw_2, _draw_3, _draw_4, _draw_5, _draw_6, _draw_7)


def _add_hand(link7: Any) -> None:
    hand = link7.add_body(name=ROBOT.hand_body, pos=[0, 0, FLANGE], quat=axis_quat((0, 0, 1), -math.pi / 4))
    _set_inertia(hand, HAND_MASS, (0, -0.06, 0.03), (0, 0.06, 0.03), 0.03)
    visual(hand, "cylinder", [0.034, 0.008], DARK, pos=[0, 0, 0.004])
    visual(hand, "box", [0.026, 0.094, 0.018], WHITE, pos=[0, 0, 0.026])
    visual(hand, "cylinder", [0.026, 0.018], WHITE, pos=[0, -0.094, 0.026])
    visual(hand, "cylinder", [0.026, 0.018], WHITE, pos=[0, 0.094, 0.026])
    visual(hand, "box", [0.020, 0.088, 0.009], GREY, pos=[0, 0, 0.052])
    contact(hand, "capsule", [0.03], "palm", name="robot0_palm", fromto=[0, -0.075, 0.032, 0, 0.075, 0.032])
    hand.add_site(name=ROBOT.eef_site, pos=[0, 0, SITE_BELOW_FLANGE], size=[0.005] * 3, rgba=[0, 0, 0, 0])
    hand.add_camera(name=HAND_CAMERA, pos=[0.075, 0, -0.01], quat=_hand_view(), fovy=75.0)
    tip = SITE_BELOW_FLANGE + TIP_BELOW_SITE
    # Both slide along the hand's y; the left one opens to positive, the right one to negative positions.
    for side, sign, limits in (("left", 1.0, (0.0, OPEN)), ("right", -1.0, (-OPEN, 0.0))):
        finger = hand.add_body(name=f"robot0_finger_{side}_body")
        _set_inertia(finger, FINGER_MASS, (0, 0.012 * sign, 0.065), (0, 0.012 * sign, tip - 0.01), 0.01)
        joint(finger, "slide", name=f"robot0_finger_{side}", axis=[0, 1, 0], range=limits, damping=40.0, armature=0.2)
        visual(finger, "box", [0.011, 0.007, 0.022], GREY, pos=[0, 0.019 * sign, 0.072])
        visual(finger, "box", [0.010, 0.0065, 0.022], DARK, pos=[0, 0.0075 * sign, tip - 0.022])
        visual(finger, "box", [0.0085, 0.0012, 0.011], (0.62, 0.63, 0.65), pos=[0, 0.0012 * sign, tip - 0.0115])
        contact(
            finger, "box", [0.010, 0.007, 0.012], "pad", name=f"robot0_pad_{side}",
            pos=[0, 0.007 * sign, tip - 0.0125], friction=[1.2, 0.02, 0.0001], condim=4, priority=1,
        )  # fmt: skip
        contact(
            finger, "sphere", [0.0065], "tip", name=f"robot0_tip_{side}", pos=[0, 0.0068 * sign, tip - 0.0065],
            friction=[0.6, 0.005, 0.0001],
        )  # fmt: skip


def _hand_view() -> np.ndarray:
    """Looks along the hand and a little back at the fingers; up in the picture is away from the robot's base."""
    import mujoco

    c, s = math.cos(HAND_TILT), math.sin(HAND_TILT)
    right, up, back = [0.0, 1.0, 0.0], [c, 0.0, s], [s, 0.0, -c]
    quat = np.empty(4)
    mujoco.mju_mat2Quat(quat, np.stack([right, up, back], axis=1).ravel())
    return quat
