"""A Hummingbird quadrotor that carries a payload on a rigid bar, as an MJCF of primitives: no contact, no mesh, no file.

Masses, inertia, arm length, rotor order and largest thrust are the benchmark's. A rotor's reaction torque is 0.016 m times
its thrust, the moment constant of RotorS' description of the Hummingbird (Furrer, Burri, Achtelik and Siegwart, "RotorS - A
Modular Gazebo MAV Simulator Framework", 2016); the benchmark's own is not public.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from evals.robotworld.scenery import add_rotor, look, quadrotor, sky, view

if TYPE_CHECKING:
    import mujoco

CONTROL_HZ = 62  # one physics step a control step
MASS, INERTIA = 0.716, (0.007, 0.007, 0.012)
ARM = 0.17
# Of each rotor: where it sits (degrees), and which way it spins; the body turns the other way.
ROTORS = ((0.0, -1.0), (90.0, 1.0), (180.0, -1.0), (-90.0, 1.0))
BAR = 1.0
PAYLOAD_RATIO = (0.2, 0.3)  # of the drone's mass
PAYLOAD_RADIUS = 0.04
TARGET = (0.0, 0.0, 1.0)

CAMERAS = ("agentview", "onboard")
ROBOT = quadrotor("payload_centre")

_DARK, _ORANGE, _GREY = (0.30, 0.31, 0.34, 1), (0.95, 0.50, 0.12, 1), (0.35, 0.36, 0.38, 1)
_GREEN, _FLOOR, _WALL, _MARK = (
    (0.15, 0.65, 0.25, 1),
    (0.55, 0.58, 0.60, 1),
    (0.80, 0.83, 0.86, 1),
    (0.42, 0.46, 0.50, 1),
)


def build(payload_mass: float) -> mujoco.MjSpec:
    """A fresh spec of the scene, with a payload of that mass in kg."""
    import mujoco

    spec = mujoco.MjSpec()
    spec.option.timestep = 1.0 / CONTROL_HZ
    spec.compiler.degree = False
    _surroundings(spec)
    world = spec.worldbody
    target = world.add_body(name="target", pos=TARGET)
    look(target, mujoco.mjtGeom.mjGEOM_SPHERE, [0.05, 0, 0], _GREEN, name="target_look")
    # The payload is the root of the tree and the drone hangs "upwards" from it: the same mechanism, and the free joint's
    # velocity is then the payload's own.
    payload = world.add_body(name="payload", pos=[0, 0, 1])
    payload.add_freejoint(name="payload_free")
    payload.add_geom(
        name="payload_look", type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[PAYLOAD_RADIUS, 0, 0], rgba=_ORANGE,
        mass=payload_mass, contype=0, conaffinity=0, group=1,
    )  # fmt: skip
    bar = {"fromto": [0, 0, 0, 0, 0, BAR], "name": "bar"}
    look(payload, mujoco.mjtGeom.mjGEOM_CAPSULE, [0.010, 0, 0], _GREY, **bar)
    payload.add_site(name=ROBOT.eef_site, size=[0.005] * 3, rgba=[0, 0, 0, 0])
    _drone(spec, payload)
    return spec


def _drone(spec: mujoco.MjSpec, payload: Any) -> None:
    import mujoco

    drone = payload.add_body(
        name="drone",
        pos=[0, 0, BAR],
        mass=MASS,
        inertia=INERTIA,
        ipos=[0, 0, 0],
        iquat=[1, 0, 0, 0],
        explicitinertial=True,
    )
    drone.add_joint(name="swivel", type=mujoco.mjtJoint.mjJNT_BALL)
    drone.add_site(name="drone_frame", size=[0.01] * 3, rgba=[0, 0, 0, 0])
    look(drone, mujoco.mjtGeom.mjGEOM_BOX, [0.05, 0.05, 0.02], _DARK, name="hull")
    look(drone, mujoco.mjtGeom.mjGEOM_SPHERE, [0.018, 0, 0], _ORANGE, name="nose", pos=[0.06, 0, 0.01])
    for i, (degrees, spin) in enumerate(ROTORS):
        angle = math.radians(degrees)
        at = [ARM * math.cos(angle), ARM * math.sin(angle), 0.0]
        add_rotor(spec, drone, i, at, spin, boom=0.008, disc=0.09, rgba=(_DARK, _GREY))
    drone.add_camera(name="onboard", pos=[0.10, 0, 0.05], xyaxes=[0, -1, 0, 0.82, 0, 0.57], fovy=80.0)


def _surroundings(spec: mujoco.MjSpec) -> None:
    """Floor, lamps and the camera that sees where the drone may start. No headlight: an event turns down all light."""
    import mujoco

    view(spec, 5.0, [0, 0, 1])
    world = spec.worldbody
    look(world, mujoco.mjtGeom.mjGEOM_PLANE, [8, 8, 0.1], _FLOOR, name="floor")
    look(world, mujoco.mjtGeom.mjGEOM_BOX, [0.05, 10, 4], _WALL, name="back_wall", pos=[-6, 0, 4])
    for i, (x, y) in enumerate(((-2, -2), (-2, 2), (2, -2), (2, 2), (0, 0))):
        mark = [0.25, 0.25, 0.002]
        look(world, mujoco.mjtGeom.mjGEOM_BOX, mark, _MARK, name=f"mark{i}", pos=[x, y, 0.002])
    sky(world, [2, -2, 6], diffuse=0.5, ambient=0.45)
    eye = (5.6, 0.0, 3.0)
    slope = math.atan2(eye[2] - 1.3, eye[0])
    up = [-math.sin(slope), 0, math.cos(slope)]
    world.add_camera(name="agentview", pos=eye, xyaxes=[0, 1, 0, *up], fovy=50.0)
