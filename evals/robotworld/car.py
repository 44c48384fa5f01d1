"""A MuSHR-like car as an MJCF of primitives, and the ground and roads that it drives on.

Wheels, track and wheelbase are the benchmark's. What is not public is ours: the mass of the body (a 3.0 kg box, low), of a
wheel (0.1 kg), the servos' gains, and the contact of a tyre with the road, which is MuJoCo's, of one point and a sphere.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from evals.tabletop.shapes import axis_quat
from mjx_bench.task import Region, Robot

if TYPE_CHECKING:
    import mujoco

CONTROL_HZ, SUBSTEPS, TIMESTEP = 50, 4, 0.005
FRONT, REAR, ASIDE, TYRE = 0.1385, -0.158, 0.115, 0.0488  # of the wheels from the body's origin; radius; metres
BODY_MASS, WHEEL_MASS = 3.0, 0.1
STEER_MOST, WHEEL_MOST = 0.54, 60.0  # radians, rad/s
RIDE = TYRE  # height of the body's origin above the road at rest, metres

WHEELS = (("fl", FRONT, ASIDE), ("fr", FRONT, -ASIDE), ("rl", REAR, ASIDE), ("rr", REAR, -ASIDE))
FIELD = 52.1  # degrees from top to bottom, which is 82 from side to side at 16:9
SAFETY = (0.30, 0.18)  # half sizes of the rectangle around the body's origin that must keep to the road, metres

_RED, _BLACK, _GREY, _ROAD, _LINE = (
    (0.80, 0.12, 0.10, 1), (0.08, 0.08, 0.09, 1), (0.62, 0.64, 0.60, 1), (0.24, 0.25, 0.27, 1), (0.15, 0.35, 0.85, 1),
)  # fmt: skip
_CARGO, _GOAL = (0.78, 0.55, 0.20, 1), (0.15, 0.65, 0.25, 1)


def robot(*, reverse: bool) -> Robot:
    """The car for the control law `drive`: steering left and right, then the four wheels."""
    slow = -WHEEL_MOST if reverse else 0.0
    return Robot(
        arm_joints=(),
        arm_actuators=("steer_fl", "steer_fr", *(f"turn_{name}" for name, _, _ in WHEELS)),
        gripper_joints=(),
        gripper_actuators=(),
        eef_site="car_origin",
        hand_body="car",
        torque_limits=((-STEER_MOST,) * 2 + (slow,) * 4, (STEER_MOST,) * 2 + (WHEEL_MOST,) * 4),
        finger_geoms=((), ()),
    )


def cameras(*, reverse: bool) -> tuple[str, ...]:
    """The one above the course, and the car's own: it looks behind only where it can drive there."""
    return ("agentview", "front", "rear") if reverse else ("agentview", "front")


def regions(margin: float) -> tuple[Region, Region]:
    """The car's rectangle, and the one that must keep away from obstacles: larger by `margin` metres all around."""
    return (
        Region("car_frame", None, (*SAFETY, 0.05)),
        Region("car_hull", None, (SAFETY[0] + margin, SAFETY[1] + margin, 0.05)),
    )


def empty_ground(friction: float, extent: float) -> mujoco.MjSpec:
    """A fresh spec of the ground, lamps and a camera from above that sees `extent` metres."""
    import mujoco

    spec = mujoco.MjSpec()
    spec.option.timestep = TIMESTEP
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.option.cone = mujoco.mjtCone.mjCONE_PYRAMIDAL
    spec.option.impratio = 10.0
    spec.compiler.degree = False
    head = spec.visual.headlight
    head.ambient, head.diffuse, head.specular = [0.0] * 3, [0.0] * 3, [0.0] * 3
    spec.visual.global_.offwidth = spec.visual.global_.offheight = 1024
    spec.stat.extent, spec.stat.center = extent, [0, 0, 0]
    spec.visual.map.znear, spec.visual.map.zfar = 0.005, 10.0
    world = spec.worldbody
    world.add_geom(
        name="ground", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[30, 30, 0.1], rgba=_GREY, contype=1, conaffinity=0,
        friction=[friction, 0.005, 0.0001], group=1,
    )  # fmt: skip
    world.add_light(
        name="sky", pos=[4, -6, 12], dir=[-0.3, 0.4, -1], diffuse=[0.5] * 3, ambient=[0.45] * 3, specular=[0.1] * 3,
        type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL, castshadow=False,
    )  # fmt: skip
    return spec


def add_car(spec: mujoco.MjSpec, friction: float, margin: float, *, reverse: bool) -> None:
    """Adds the car with its actuators, cameras and `regions(margin)`; where it is, qpos says."""
    import mujoco

    car = spec.worldbody.add_body(name="car", pos=[0, 0, RIDE])
    car.add_freejoint(name="car_free")
    car.add_geom(
        name="car_body", type=mujoco.mjtGeom.mjGEOM_BOX, size=[0.18, 0.08, 0.03], pos=[-0.01, 0, 0.025], rgba=_RED,
        mass=BODY_MASS, contype=0, conaffinity=0, group=1,
    )  # fmt: skip
    car.add_geom(
        name="car_cabin", type=mujoco.mjtGeom.mjGEOM_BOX, size=[0.08, 0.06, 0.025], pos=[-0.03, 0, 0.08], rgba=_BLACK,
        mass=0.0, contype=0, conaffinity=0, group=1,
    )  # fmt: skip
    car.add_site(name="car_origin", size=[0.01] * 3, rgba=[0, 0, 0, 0])
    for region in regions(margin):
        _site(car, region, [0, 0, 0])
    car.add_camera(name="front", pos=[0.22, 0, 0.24], quat=_looking(1.0, math.radians(9.0)), fovy=FIELD)
    if reverse:
        car.add_camera(name="rear", pos=[-0.22, 0, 0.24], quat=_looking(-1.0, math.radians(35.0)), fovy=FIELD)
    for name, x, y in WHEELS:
        holder = car
        if x > 0:
            holder = car.add_body(name=f"knuckle_{name}", pos=[x, y, 0], mass=0.05, inertia=[2e-5] * 3)
            holder.explicitinertial = True
            holder.add_joint(
                name=f"steering_{name}", type=mujoco.mjtJoint.mjJNT_HINGE, axis=[0, 0, 1], damping=[0.05, 0, 0],
                armature=0.002,
            )  # fmt: skip
            _actuator(spec, f"steer_{name}", f"steering_{name}", STEER_MOST).set_to_position(kp=8.0)
        wheel = holder.add_body(name=f"wheel_{name}", pos=[0, 0, 0] if x > 0 else [x, y, 0])
        wheel.add_joint(name=f"spin_{name}", type=mujoco.mjtJoint.mjJNT_HINGE, axis=[0, 1, 0], armature=0.0005)
        wheel.add_geom(
            name=f"tyre_{name}", type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[TYRE, 0, 0], mass=WHEEL_MASS, contype=0,
            conaffinity=1, friction=[friction, 0.005, 0.0001], rgba=[0, 0, 0, 0], group=3,
        )  # fmt: skip
        wheel.add_geom(
            name=f"look_{name}", type=mujoco.mjtGeom.mjGEOM_CYLINDER, size=[TYRE, 0.0205, 0],
            quat=axis_quat((1, 0, 0), math.pi / 2), rgba=_BLACK, mass=0.0, contype=0, conaffinity=0, group=1,
        )  # fmt: skip
    for name, _, _ in WHEELS:
        _actuator(spec, f"turn_{name}", f"spin_{name}", WHEEL_MOST).set_to_velocity(kv=0.05)


def _actuator(spec: mujoco.MjSpec, name: str, joint: str, most: float) -> Any:
    import mujoco

    servo = spec.add_actuator(name=name, target=joint, trntype=mujoco.mjtTrn.mjTRN_JOINT, ctrlrange=[-most, most])
    servo.ctrllimited = True
    return servo


def add_road(spec: mujoco.MjSpec, path: np.ndarray, width: float, friction: float) -> list[Region]:
    """Adds a road along vertices [N, 3]: a site a part, and slabs where it is off the ground. Returns its regions."""
    import mujoco

    found = []
    for i, (a, b) in enumerate(itertools.pairwise(path)):
        length = float(np.linalg.norm(b - a))
        region = Region(f"road_{i:02}", None, (length / 2, width / 2, 0.01))
        quat, middle = _along(b - a), (a + b) / 2
        _site(spec.worldbody, region, middle, quat)
        found.append(region)
        low = max(a[2], b[2]) == 0.0
        look = {"contype": 0, "conaffinity": 0} if low else {"contype": 1, "conaffinity": 0}
        spec.worldbody.add_geom(
            name=f"slab_{i:02}", type=mujoco.mjtGeom.mjGEOM_BOX, size=[length / 2 + 0.02, width / 2, 0.002 if low else 0.1],
            pos=middle if low else middle - _up(quat) * 0.1, quat=quat, rgba=_ROAD, group=1,
            friction=[friction, 0.005, 0.0001], **look,
        )  # fmt: skip
    for i in range(1, len(path) - 1):
        before, after = path[i] - path[i - 1], path[i + 1] - path[i]
        if path[i][2] > 0.0 and abs(bend := before[0] * after[1] - before[1] * after[0]) > 1e-9:
            _corner(spec, f"corner_{i:02}", path[i], (before, after), -math.copysign(width / 2, bend), friction)
    return found


def _corner(
    spec: mujoco.MjSpec, name: str, at: np.ndarray, ways: tuple[np.ndarray, np.ndarray], aside: float, friction: float
) -> None:
    """Adds the wedge that two slabs leave open where the road bends at `at` [3], `aside` metres to its left."""
    import mujoco

    edges = [at + aside * np.array([-w[1], w[0], 0.0]) / math.hypot(w[0], w[1]) for w in ways]
    top = np.array([at, *edges])
    spec.add_mesh(name=name, uservert=np.concatenate([top, top - [0.0, 0.0, at[2]]]).ravel())
    spec.worldbody.add_geom(
        name=name, type=mujoco.mjtGeom.mjGEOM_MESH, meshname=name, rgba=_ROAD, contype=1, conaffinity=0, group=1,
        friction=[friction, 0.005, 0.0001],
    )  # fmt: skip


def add_marks(
    spec: mujoco.MjSpec,
    marks: Sequence[tuple[str, np.ndarray, float]],
    *,
    seen: bool = True,
    patch: tuple[float, float] = (0.5, 0.4),
) -> list[Region]:
    """Adds points of the course (name, [3], yaw): the goal as a green patch, any other as a blue line across the road.

    `patch` is half of the patch's length and width, metres.
    """
    import mujoco

    found = []
    for name, at, yaw in marks:
        quat = axis_quat((0, 0, 1), yaw)
        region = Region(name, None, (0.05, 0.5, 0.01))
        _site(spec.worldbody, region, at, quat)
        found.append(region)
        if not seen:
            continue
        goal = name == "goal_mark"
        spec.worldbody.add_geom(
            name=f"{name}_look", type=mujoco.mjtGeom.mjGEOM_BOX, size=[*patch, 0.003] if goal else [0.04, 0.5, 0.003],
            pos=at + np.array([0, 0, 0.002]), quat=quat, rgba=_GOAL if goal else _LINE, contype=0, conaffinity=0, group=1,
        )  # fmt: skip
    return found


def add_boxes(spec: mujoco.MjSpec, boxes: Sequence[tuple[str, Sequence[float], Sequence[float]]]) -> list[Region]:
    """Adds obstacles (name, middle in x and y, whole sizes [3]) that stand on the ground; touches are a checker's to see."""
    import mujoco

    found = []
    for name, (x, y), size in boxes:
        half = [v / 2 for v in size]
        region = Region(name, None, (half[0], half[1], half[2]))
        _site(spec.worldbody, region, [x, y, half[2]])
        found.append(region)
        spec.worldbody.add_geom(
            name=f"{name}_look", type=mujoco.mjtGeom.mjGEOM_BOX, size=half, pos=[x, y, half[2]], rgba=_CARGO, contype=0,
            conaffinity=0, group=1,
        )  # fmt: skip
    return found


def add_area(
    spec: mujoco.MjSpec, name: str, middle: tuple[float, float], half: tuple[float, float], *, seen: bool
) -> Region:
    """Adds a rectangle on the ground, painted in white if it is seen."""
    import mujoco

    region = Region(name, None, (*half, 0.005))
    _site(spec.worldbody, region, [*middle, 0.0])
    if seen:
        spec.worldbody.add_geom(
            name=f"{name}_look", type=mujoco.mjtGeom.mjGEOM_BOX, size=[*half, 0.002], pos=[*middle, 0.001],
            rgba=[0.95, 0.95, 0.92, 1], contype=0, conaffinity=0, group=1,
        )  # fmt: skip
    return region


def _site(body: Any, region: Region, pos: Any, quat: Any = (1.0, 0.0, 0.0, 0.0)) -> None:
    import mujoco

    body.add_site(
        name=region.name, type=mujoco.mjtGeom.mjGEOM_BOX, size=region.half_size, pos=pos, quat=quat, rgba=[0, 0, 0, 0]
    )


def _along(way: np.ndarray) -> np.ndarray:
    """[4] wxyz of a frame whose x axis points along `way` [3] and whose y axis is level."""
    yaw, pitch = math.atan2(way[1], way[0]), -math.atan2(way[2], math.hypot(way[0], way[1]))
    (cy, sy), (cp, sp) = ((math.cos(a / 2), math.sin(a / 2)) for a in (yaw, pitch))
    return np.array([cy * cp, -sy * sp, cy * sp, sy * cp])


def _up(quat: np.ndarray) -> np.ndarray:
    w, x, y, z = quat
    return np.array([2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)])


def _looking(way: float, down: float) -> np.ndarray:
    """[4] wxyz of a camera that looks along x (1) or against it (-1), tilted down."""
    import mujoco

    back = np.array([-way * math.cos(down), 0.0, math.sin(down)])
    right = np.array([0.0, -way, 0.0])
    quat = np.empty(4)
    mujoco.mju_mat2Quat(quat, np.stack([right, np.cross(back, right), back], axis=1).ravel())
    return quat
