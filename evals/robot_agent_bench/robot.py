"""A robot with two arms on a wheeled base, in the measures of the AgiBot G1 with two-finger grippers: primitives, no mesh.

Anchors, limits, speeds and masses are those of its vendor's public description; arms weigh twice as much, as the benchmark's
sheet has them. What is simpler here: the base rolls by three planar joints; nothing of the robot collides with itself; each
finger is one pad, so that "finger geoms" are four.

Frame of the base: its origin on the floor, +x ahead, +z up. At zero the arms point sideways, and a hand's axis is its y, its
pads slide along its x. Joints stand in the order of the state (`mjx_bench.control.bimanual`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from evals.robot_agent_bench.shapes import touch
from evals.tabletop.shapes import visual
from mjx_bench.control.bimanual import HIGH, STROKE
from mjx_bench.task import Robot

if TYPE_CHECKING:
    import mujoco

SIDES = ("left", "right")
SHOULDER_X, SHOULDER_Y, SHOULDER_Z = 0.131, (0.2109, 0.2130), 0.9535
WAIST = (0.131, 0.0, 0.6485)
NECK, HEAD = (0.131, 0.0, 1.0895), (0.1812, 0.0, 1.1496)
UPPER, FORE, WRIST, GRASP = 0.305, 0.1975, 0.1805, 0.143  # metres along the arm: elbow, wrist, flange, grasp point

# Axes at zero of the left arm, and limits of its joints; the right arm has -q of the left one in the mirrored pose.
_AXES = ((0, 1, 0), (-1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 1, 0), (0, 0, -1), (0, 1, 0))
_RIGHT_AXES = ((0, -1, 0), (-1, 0, 0), (0, -1, 0), (0, 0, 1), (0, -1, 0), (0, 0, -1), (0, -1, 0))
_LIMITS = ((-3.14, 3.14), (-2.09, 1.48), (-3.10, 3.10), (-1.48, 1.48), (-3.10, 3.10), (-1.74, 1.74), (-3.10, 3.10))
_GAINS, _FORCES = (800.0,) * 4 + (400.0,) * 3, (60.0,) * 4 + (30.0,) * 3
_LINK_MASSES = (0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.5)  # 4.8 kg an arm
BASE_MASS, LIFT_MASS, TORSO_MASS, HEAD_MASS, HAND_MASS, PAD_MASS = 23.2, 3.3, 7.5, 1.1, 0.4, 0.05
PAD = (0.006, 0.040, 0.012)  # half sizes
GRIP_FORCE, GRIP_GAIN = 30.0, 2000.0

ARM_JOINTS = tuple(f"{side}_arm_{i}" for side in SIDES for i in range(1, 8))
TORSO_JOINTS = ("lift", "waist_pitch", "head_yaw", "head_pitch")
GRIPPER_JOINTS = ("left_gripper", "right_gripper")
BASE_JOINTS = ("base_x", "base_y", "base_yaw")
JOINTS = (*ARM_JOINTS, *TORSO_JOINTS, *GRIPPER_JOINTS, *BASE_JOINTS)
_TORSO = {  # range, gain, force
    "lift": ((0.0, 0.55), 20000.0, 2000.0),
    "waist_pitch": ((0.0, math.pi / 2), 2000.0, 100.0),
    "head_yaw": ((-math.pi / 2, math.pi / 2), 100.0, 50.0),
    "head_pitch": ((-0.349, 0.524), 100.0, 50.0),
}
_BASE_GAINS, _BASE_SPEEDS = (4000.0, 4000.0, 1500.0), (float(HIGH[20]), float(HIGH[20]), float(HIGH[21]))

PADS = tuple(tuple(f"{side}_pad_{end}" for side in SIDES) for end in ("a", "b"))
CAMERAS = ("head", "left_wrist", "right_wrist")
TCPS = ("left_tcp", "right_tcp")


def arm_limits(side: str) -> tuple[tuple[float, float], ...]:
    """Of its seven joints, radians."""
    return _LIMITS if side == "left" else tuple((-high, -low) for low, high in _LIMITS)


def _limits() -> tuple[tuple[float, float], ...]:
    torso = [_TORSO[name][0] for name in TORSO_JOINTS]
    speeds = [(-v, v) for v in _BASE_SPEEDS]
    return (*arm_limits("left"), *arm_limits("right"), *torso, (0.0, STROKE), (0.0, STROKE), *speeds)


ROBOT = Robot(
    arm_joints=JOINTS,
    arm_actuators=tuple(f"{name}_servo" for name in JOINTS),
    gripper_joints=(),
    gripper_actuators=(),
    eef_site=TCPS[1],
    hand_body="right_hand",
    torque_limits=(tuple(low for low, _ in _limits()), tuple(high for _, high in _limits())),
    finger_geoms=PADS,  # type: ignore[arg-type]
    hand_geoms=tuple(pad for end in PADS for pad in end),
    other_hands=TCPS[:1],
    grips=tuple(((a,), (b,)) for a, b in zip(*PADS, strict=True)),
)

WHITE, GREY, DARK, BLUE = (0.92, 0.93, 0.94), (0.55, 0.57, 0.60), (0.16, 0.17, 0.19), (0.20, 0.42, 0.70)


def add_robot(spec: mujoco.MjSpec) -> None:
    """Adds the robot at the world's origin, facing +x, with its servos and cameras."""
    base = spec.worldbody.add_body(name="base", gravcomp=1.0)
    _joint(base, "base_x", "slide", (1, 0, 0))
    _joint(base, "base_y", "slide", (0, 1, 0))
    _joint(base, "base_yaw", "hinge", (0, 0, 1))
    _solid(base, BASE_MASS, (0.0, 0.0, 0.15), (0.30, 0.225, 0.15))
    visual(base, "box", (0.30, 0.225, 0.12), WHITE, pos=[0, 0, 0.17], name="base_look")
    visual(base, "box", (0.28, 0.205, 0.05), DARK, pos=[0, 0, 0.06], name="base_skirt")
    touch(base, "box", (0.30, 0.225, 0.15), "robot", pos=[0, 0, 0.15], name="base_body")
    touch(base, "box", (0.15, 0.17, 0.35), "robot", pos=[-0.11, 0, 0.65], name="column_body")
    visual(base, "box", (0.09, 0.11, 0.37), GREY, pos=[-0.11, 0, 0.63], name="column_look")

    lift = base.add_body(name="lift_carriage", gravcomp=1.0)
    _joint(lift, "lift", "slide", (0, 0, 1), _TORSO["lift"][0])
    _solid(lift, LIFT_MASS, (0.0, 0.0, 0.65), (0.10, 0.10, 0.05))
    visual(lift, "box", (0.13, 0.10, 0.05), DARK, pos=[0.01, 0, 0.65], name="lift_look")

    torso = lift.add_body(name="torso", pos=WAIST, gravcomp=1.0)
    _joint(torso, "waist_pitch", "hinge", (0, 1, 0), _TORSO["waist_pitch"][0], armature=0.2)
    _solid(torso, TORSO_MASS, (0.0, 0.0, 0.25), (0.09, 0.13, 0.17))
    visual(torso, "box", (0.085, 0.13, 0.17), WHITE, pos=[0, 0, 0.25], name="torso_look")
    visual(torso, "box", (0.004, 0.08, 0.10), BLUE, pos=[0.086, 0, 0.27], name="torso_front")
    visual(torso, "capsule", (0.06, 0, 0), GREY, fromto=[0, 0, 0, 0, 0, 0.12], name="waist_look")
    touch(torso, "box", (0.09, 0.13, 0.17), "robot", pos=[0, 0, 0.25], name="torso_body")

    neck = torso.add_body(name="neck", pos=_from(NECK, WAIST), gravcomp=1.0)
    _joint(neck, "head_yaw", "hinge", (0, 0, 1), _TORSO["head_yaw"][0], armature=0.1)
    _solid(neck, 0.2, (0, 0, 0.02), (0.03, 0.03, 0.03))
    visual(neck, "capsule", (0.03, 0, 0), GREY, fromto=[0, 0, -0.05, 0.03, 0, 0.05], name="neck_look")
    head = neck.add_body(name="head_body", pos=_from(HEAD, NECK), gravcomp=1.0)
    _joint(head, "head_pitch", "hinge", (0, 1, 0), _TORSO["head_pitch"][0], armature=0.1)
    _solid(head, HEAD_MASS - 0.2, (0.0, 0, 0.04), (0.07, 0.09, 0.07))
    visual(head, "box", (0.06, 0.09, 0.065), WHITE, pos=[0.0, 0, 0.05], name="head_look")
    visual(head, "box", (0.006, 0.075, 0.035), DARK, pos=[0.06, 0, 0.05], name="face_look")
    _camera(head, "head", (0.075, 0.0, 0.02), (1, 0, 0), (0, 0, 1), math.radians(18.0), 65.0)
    for side in SIDES:
        _arm(torso, side)
    _servos(spec)


def _arm(torso: Any, side: str) -> None:
    left = side == "left"
    sign, y = (1.0, SHOULDER_Y[0]) if left else (-1.0, -SHOULDER_Y[1])
    axes = _AXES if left else _RIGHT_AXES
    # Where each joint is beyond the one before, along the arm, and the capsule of its link.
    steps = (0.0, 0.0, UPPER, 0.0, FORE, 0.0, WRIST)
    links = {2: (UPPER, 0.045), 4: (FORE, 0.042), 6: (WRIST, 0.038)}
    body: Any = torso
    for i, (step, axis, limits) in enumerate(zip(steps, axes, arm_limits(side), strict=True), 1):
        pos = _from((SHOULDER_X, y, SHOULDER_Z), WAIST) if i == 1 else (0.0, sign * step, 0.0)
        body = body.add_body(name=f"{side}_link_{i}", pos=pos, gravcomp=1.0)
        _joint(body, f"{side}_arm_{i}", "hinge", axis, limits, armature=0.2, damping=0.5)
        length, radius = links.get(i, (0.06, 0.04))
        middle = sign * length / 2 if i in links else 0.0
        _solid(body, _LINK_MASSES[i - 1], (0, middle, 0), (0.04, max(length / 2, 0.04), 0.04))
        if i in links:
            ends = [0, 0, 0, 0, sign * length, 0]
            visual(body, "capsule", (radius, 0, 0), WHITE if i < 6 else GREY, fromto=ends, name=f"{side}_link_{i}_look")
            # Shorter than it looks, so that the next link's capsule begins where this one ends.
            ends = [0, sign * 0.05, 0, 0, sign * (length - 0.02), 0]
            touch(body, "capsule", (radius, 0, 0), "robot", fromto=ends, name=f"{side}_link_{i}_body")
        elif i in (3, 5):
            visual(body, "sphere", (0.05 - 0.002 * i, 0, 0), BLUE, name=f"{side}_link_{i}_look")
    _hand(body, side, sign)


def _hand(flange: Any, side: str, sign: float) -> None:
    hand = flange.add_body(name=f"{side}_hand", gravcomp=1.0)
    _solid(hand, HAND_MASS, (0, sign * 0.045, 0), (0.04, 0.045, 0.03))
    visual(hand, "box", (0.036, 0.04, 0.018), DARK, pos=[0, sign * 0.045, 0], name=f"{side}_hand_look")
    touch(hand, "box", (0.04, 0.045, 0.03), "robot", pos=[0, sign * 0.045, 0], name=f"{side}_palm")
    hand.add_site(name=f"{side}_tcp", pos=[0, sign * GRASP, 0], size=[0.005] * 3, rgba=[0, 0, 0, 0])
    tilt = math.radians(15.0)
    # On the side that is up where the hand points ahead at home: its -z.
    _camera(hand, f"{side}_wrist", (0.0, -sign * 0.03, -0.06), (0, sign, 0), (0, 0, -1), tilt, 58.0)
    for end, way in (("a", 1.0), ("b", -1.0)):
        pad = hand.add_body(name=f"{side}_finger_{end}", gravcomp=1.0)
        name = f"{side}_gripper" if end == "a" else f"{side}_gripper_b"
        _joint(pad, name, "slide", (way, 0, 0), (0.0, STROKE), armature=0.5)
        at = [way * PAD[0], sign * GRASP, 0]
        _solid(pad, PAD_MASS, at, PAD)
        visual(pad, "box", PAD, GREY, pos=at, name=f"{side}_pad_{end}_look")
        visual(
            pad, "box", (0.006, 0.03, 0.010), DARK, pos=[way * 0.010, sign * 0.10, 0], name=f"{side}_finger_{end}_look"
        )
        touch(
            pad,
            "box",
            PAD,
            "robot",
            pos=at,
            name=f"{side}_pad_{end}",
            friction=[1.2, 0.01, 0.001],
            condim=4,
            priority=1,
        )


def _servos(spec: mujoco.MjSpec) -> None:
    import mujoco

    limits = _limits()
    gains = (*_GAINS, *_GAINS, *(_TORSO[n][1] for n in TORSO_JOINTS), GRIP_GAIN, GRIP_GAIN, *_BASE_GAINS)
    forces = (*_FORCES, *_FORCES, *(_TORSO[n][2] for n in TORSO_JOINTS), GRIP_FORCE, GRIP_FORCE, *(1e4,) * 3)
    for name, actuator, bounds, gain, force in zip(JOINTS, ROBOT.arm_actuators, limits, gains, forces, strict=True):
        servo = spec.add_actuator(
            name=actuator, target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT, ctrlrange=bounds, forcerange=[-force, force]
        )
        if name in BASE_JOINTS:
            servo.set_to_velocity(kv=gain)
        else:
            servo.set_to_position(kp=gain, dampratio=1.0)
        servo.ctrllimited = servo.forcelimited = True
    for side in SIDES:
        spec.add_equality(
            name=f"{side}_pads", type=mujoco.mjtEq.mjEQ_JOINT, objtype=mujoco.mjtObj.mjOBJ_JOINT,
            name1=f"{side}_gripper_b", name2=f"{side}_gripper", data=[0, 1, *(0,) * 10],
            solref=[0.01, 1.0],
        )  # fmt: skip


def _joint(
    body: Any, name: str, kind: str, axis: Sequence[float], limits: tuple[float, float] | None = None, *,
    armature: float = 0.0, damping: float = 0.0,
) -> None:  # fmt: skip
    import mujoco

    joint = body.add_joint(
        name=name, type=getattr(mujoco.mjtJoint, f"mjJNT_{kind.upper()}"), axis=axis, armature=armature,
        damping=[damping, 0, 0],
    )  # fmt: skip
    if limits is not None:
        joint.range = limits


def _solid(body: Any, mass: float, at: Sequence[float], half: Sequence[float]) -> None:
    """The mass and inertia of a solid box."""
    x, y, z = (4.0 * h * h for h in half)
    body.explicitinertial = True
    body.mass, body.ipos, body.iquat = mass, at, [1, 0, 0, 0]
    body.inertia = [mass * (y + z) / 12, mass * (x + z) / 12, mass * (x + y) / 12]


def _camera(
    body: Any, name: str, pos: Sequence[float], ahead: Sequence[float], up: Sequence[float], down: float, fovy: float
) -> None:
    """A camera that looks along `ahead`, tilted by `down` radians towards -`up`."""
    import numpy as np

    forward, top = np.asarray(ahead, float), np.asarray(up, float)
    view = math.cos(down) * forward - math.sin(down) * top
    right = np.cross(view, top)
    right /= np.linalg.norm(right)
    body.add_camera(name=name, pos=pos, xyaxes=[*right, *np.cross(right, view)], fovy=fovy)


def _from(point: Sequence[float], origin: Sequence[float]) -> tuple[float, ...]:
    return tuple(p - o for p, o in zip(point, origin, strict=True))
