"""A Unitree Go2 on flat ground, as an MJCF of primitives: no mesh, no file.

Lengths, masses, centres of mass, moments of inertia and joint limits are those of Unitree's public description of the Go2
(`go2_description`), its products of inertia left out; posture, gains (25 and 0.5) and the largest torque (23.5 N m, as a
clip) are the benchmark's. Only feet and trunk touch the ground, at a friction of 0.8. A Go2 from an asset package meets it
with most of its links, some of them cylinders: about 900 contact slots on JAX's engine, against 8 here.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from evals.robotworld.scenery import fill, look, sky, view
from mjx_bench.task import Region, Robot

if TYPE_CHECKING:
    import mujoco

CONTROL_HZ, SUBSTEPS, TIMESTEP = 50, 4, 0.005
KP, KD, TORQUE = 25.0, 0.5, 23.5
SCALE = 0.25
LEGS = ("FL", "FR", "RL", "RR")
# Hips, thighs and calves, each in the order of the legs, radians.
POSTURE = (0.1, -0.1, 0.1, -0.1, 0.8, 0.8, 1.0, 1.0, -1.5, -1.5, -1.5, -1.5)
PARTS = ("hip", "thigh", "calf")

HIP = (0.1934, 0.0465)  # of a hip from the trunk, metres
ASIDE, THIGH, CALF, FOOT = 0.0955, 0.213, 0.213, 0.022  # hip to thigh, to calf, to foot; the foot's radius
ARMATURE, FRICTION = 0.01, 0.8
STAND = 0.30  # height of the trunk in that posture under its own weight, about; metres

# Mass, centre of mass and moments of inertia, of the left front leg; sides are mirrored, and hips behind turned round.
TRUNK = (6.921, (0.0211, 0.0, -0.0054), (0.02448, 0.09808, 0.107))
LINKS = {
    "hip": (0.678, (-0.0054, 0.0019, -0.0001), (0.00048, 0.000884, 0.000596)),
    "thigh": (1.152, (-0.0037, -0.0223, -0.0327), (0.00584, 0.0058, 0.00103)),
    "calf": (0.154, (0.0055, -0.001, -0.115), (0.00108, 0.0011, 0.0000329)),
}
FOOT_LINK = (0.04, (0.0, 0.0, 0.0), (0.0000096,) * 3)
LIMITS = {
    "hip": (-1.0472, 1.0472),
    "thigh_F": (-1.5708, 3.4907),
    "thigh_R": (-0.5236, 4.5379),
    "calf": (-2.7227, -0.83776),
}

CAMERAS = ("agentview", "front")
ROBOT = Robot(
    arm_joints=(),
    arm_actuators=tuple(f"{leg}_{part}" for part in PARTS for leg in LEGS),
    gripper_joints=(),
    gripper_actuators=(),
    eef_site="trunk_frame",
    hand_body="trunk",
    torque_limits=(tuple(q - SCALE for q in POSTURE), tuple(q + SCALE for q in POSTURE)),
    finger_geoms=((), ()),
    hand_geoms=("trunk",),
)
# The trunk; the corridor to the goal, in whose frame the goal is; both as the checker reads them.
AHEAD, CORRIDOR = 2.5, 0.6

_WHITE, _DARK, _GREY, _BLUE = (
    (0.86, 0.87, 0.89, 1), (0.16, 0.17, 0.19, 1), (0.45, 0.47, 0.50, 1), (0.15, 0.35, 0.85, 1),
)  # fmt: skip
_FLOOR, _WALL, _TILE, _GOAL, _EDGE = (
    (0.52, 0.56, 0.55, 1), (0.74, 0.80, 0.86, 1), (0.80, 0.83, 0.86, 1), (0.15, 0.65, 0.25, 1), (0.93, 0.75, 0.20, 1),
)  # fmt: skip


def regions() -> tuple[Region, Region]:
    """The trunk's middle, and the corridor that it may not leave to either side."""
    return Region("trunk_frame", None, (0.0, 0.0, 0.0)), Region("corridor", None, (50.0, CORRIDOR, 0.01))


def build() -> mujoco.MjSpec:
    """A fresh spec of the scene."""
    import mujoco

    spec = mujoco.MjSpec()
    spec.option.timestep = TIMESTEP
    spec.option.impratio = 10.0  # so that feet that stand do not creep
    spec.compiler.degree = False
    _surroundings(spec)
    goal = spec.worldbody.add_body(name="goal", pos=[AHEAD, 0, STAND])
    box = mujoco.mjtGeom.mjGEOM_BOX
    look(goal, mujoco.mjtGeom.mjGEOM_CYLINDER, [0.25, 0.002, 0], _GOAL, name="goal_look", pos=[0, 0, 0.002 - STAND])
    for name, y in (("left", CORRIDOR), ("right", -CORRIDOR)):
        size = [AHEAD / 2 + 0.5, 0.015, 0.002]
        look(goal, box, size, _EDGE, name=f"edge_{name}", pos=[-AHEAD / 2, y, 0.002 - STAND])
    goal.add_site(name="corridor", type=box, size=[50.0, CORRIDOR, 0.01], rgba=[0, 0, 0, 0])
    _dog(spec)
    return spec


def _dog(spec: mujoco.MjSpec) -> None:
    import mujoco

    box, capsule, sphere = (getattr(mujoco.mjtGeom, f"mjGEOM_{n}") for n in ("BOX", "CAPSULE", "SPHERE"))
    trunk = _body(spec.worldbody, "trunk", [0, 0, STAND], TRUNK, 1)
    trunk.add_freejoint(name="trunk_free")
    trunk.add_site(name="trunk_frame", size=[0.01] * 3, rgba=[0, 0, 0, 0])
    _geom(trunk, box, [0.1881, 0.04675, 0.057], _WHITE, name="trunk", friction=[FRICTION, 0.005, 0.0001])
    look(trunk, box, [0.05, 0.045, 0.035], _DARK, name="head", pos=[0.235, 0, 0.0])
    look(trunk, box, [0.02, 0.02, 0.012], _BLUE, name="lidar", pos=[0.27, 0, -0.045])
    trunk.add_camera(name="front", pos=[0.29, 0, 0.03], xyaxes=[0, -1, 0, 0.26, 0, 0.97], fovy=80.0)
    for leg in LEGS:
        fore, side = (1 if leg[0] == "F" else -1), (1 if leg[1] == "L" else -1)
        hip = _body(trunk, f"{leg}_hip", [fore * HIP[0], side * HIP[1], 0], LINKS["hip"], side, fore)
        _joint(hip, f"{leg}_hip", [1, 0, 0], LIMITS["hip"])
        look(hip, capsule, [0.040, 0, 0], _GREY, name=f"{leg}_hip_look", fromto=[0, 0, 0, 0, side * 0.06, 0])
        thigh = _body(hip, f"{leg}_thigh", [0, side * ASIDE, 0], LINKS["thigh"], side)
        _joint(thigh, f"{leg}_thigh", [0, 1, 0], LIMITS[f"thigh_{leg[0]}"])
        look(thigh, capsule, [0.026, 0, 0], _WHITE, name=f"{leg}_thigh_look", fromto=[0, 0, 0, 0, 0, -THIGH])
        calf = _body(thigh, f"{leg}_calf", [0, 0, -THIGH], LINKS["calf"], side)
        _joint(calf, f"{leg}_calf", [0, 1, 0], LIMITS["calf"])
        look(calf, capsule, [0.014, 0, 0], _DARK, name=f"{leg}_calf_look", fromto=[0, 0, 0, 0, 0, -CALF])
        foot = _body(calf, f"{leg}_foot", [0, 0, -CALF], FOOT_LINK, side)
        _geom(foot, sphere, [FOOT, 0, 0], _DARK, name=f"{leg}_foot", friction=[FRICTION, 0.005, 0.0001])
    for name in ROBOT.arm_actuators:
        servo = spec.add_actuator(name=name, target=f"{name}_joint", trntype=mujoco.mjtTrn.mjTRN_JOINT)
        servo.set_to_position(kp=KP, kv=KD)
        servo.forcelimited, servo.forcerange = True, [-TORQUE, TORQUE]


def _body(parent: Any, name: str, pos: Any, link: tuple[float, Any, Any], side: int, fore: int = 1) -> Any:
    mass, (x, y, z), inertia = link
    middle = [fore * x, side * y, z]
    return parent.add_body(
        name=name, pos=pos, mass=mass, ipos=middle, inertia=inertia, iquat=[1, 0, 0, 0], explicitinertial=True
    )


def _joint(body: Any, name: str, axis: Any, limits: tuple[float, float]) -> None:
    import mujoco

    body.add_joint(
        name=f"{name}_joint", type=mujoco.mjtJoint.mjJNT_HINGE, axis=axis, range=limits, limited=True, armature=ARMATURE
    )


def _geom(body: Any, kind: mujoco.mjtGeom, size: Any, rgba: Any, **more: Any) -> None:
    body.add_geom(type=kind, size=size, rgba=rgba, contype=1, conaffinity=0, group=1, **more)


def _surroundings(spec: mujoco.MjSpec) -> None:
    """Ground, lamps and a camera that sees where it may walk. No headlight: an event turns down all light."""
    import mujoco

    view(spec, 4.0, [0, 0, 0.3])
    spec.visual.map.shadowclip = 3.0
    world = spec.worldbody
    world.add_body(name="ground").add_geom(
        name="ground", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[12, 12, 0.1], rgba=_FLOOR, contype=0, conaffinity=1,
        friction=[FRICTION, 0.005, 0.0001], group=1,
    )  # fmt: skip
    for i, (x, y) in enumerate((x, y) for x in range(-4, 5, 2) for y in range(-4, 5, 2)):
        size = [0.06, 0.06, 0.0015]
        look(world, mujoco.mjtGeom.mjGEOM_BOX, size, _TILE, name=f"tile{i:02}", pos=[x, y, 0.0015])
    box = mujoco.mjtGeom.mjGEOM_BOX
    for name, size, at in (
        ("back", [0.05, 7, 2], [-7, 0]), ("front", [0.05, 7, 2], [7, 0]), ("left", [7, 0.05, 2], [0, 7]),
        ("right", [7, 0.05, 2], [0, -7]),
    ):  # fmt: skip
        look(world, box, size, _WALL, name=f"wall_{name}", pos=[*at, 2])
    sky(world, [2, -2, 6], diffuse=0.45, ambient=0.35)
    fill(world)
    eye, slope = (5.2, 0.0, 3.4), math.atan2(3.4, 5.2)
    world.add_camera(name="agentview", pos=eye, xyaxes=[0, 1, 0, -math.sin(slope), 0, math.cos(slope)], fovy=52.0)
