"""An Iris quadrotor with a racket on top, a ball, and half a court, as an MJCF of primitives with a single contact.

Mass, inertia, arms and rotors are RotorS' description of the Iris (Furrer, Burri, Achtelik and Siegwart, "RotorS - A Modular
Gazebo MAV Simulator Framework", 2016), but that the third moment of inertia is the sum of the other two, the most that a
rigid body can have; the benchmark's own are not public. Ball (5 g, 0.1 m), restitution (0.8), the racket's size (0.2 m), the
court and the drone's anchor are those of VolleyBots (Xu et al., 2025), its public source.

The racket is a square of the same area as that disc, because compiled engines have no cylinder against a sphere. Ball and
racket touch without friction, through a spring and a damper: a bounce takes 24 ms, longer than a control step, so that every
one is seen by a checker that looks once a control step.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from evals.robotworld.scenery import add_rotor, fill, look, quadrotor, sky, view

if TYPE_CHECKING:
    import mujoco

CONTROL_HZ, SUBSTEPS, TIMESTEP = 50, 10, 0.002
MASS, INERTIA = 1.5, (0.0347563, 0.0458929, 0.0806)
# Of each rotor: where it sits, metres, and which way it spins; the body turns the other way.
ROTORS = ((0.13, -0.22, 1.0), (-0.13, 0.20, 1.0), (0.13, 0.22, -1.0), (-0.13, -0.20, -1.0))

BALL_MASS, BALL_RADIUS = 0.005, 0.10
RACKET = 0.2 * math.sqrt(math.pi) / 2  # half side, metres
RACKET_HEIGHT, RACKET_THICKNESS = 0.07, 0.005  # of its middle above the drone's; half, metres
COURT = (9.0, 4.5)  # half length and half width, metres
NET_HEIGHT, NEAR_NET = 2.43, 0.01

# Spring and damper of a bounce per kilogram: 1/s^2 and 1/s; they give the duration and the restitution.
STIFFNESS, DAMPING = 17000.0, 17.6

CAMERAS = ("agentview", "onboard")
ROBOT = quadrotor("drone_frame", hand_geoms=("racket",))

_DARK, _GREY, _RED, _YELLOW, _ORANGE = (
    (0.22, 0.24, 0.28, 1), (0.45, 0.47, 0.50, 1), (0.80, 0.16, 0.14, 1), (0.98, 0.85, 0.20, 1), (0.95, 0.50, 0.12, 1),
)  # fmt: skip
_FLOOR, _COURT, _LINE, _NET, _WALL = (
    (0.36, 0.42, 0.48, 1), (0.80, 0.52, 0.32, 1), (0.95, 0.95, 0.92, 1), (0.92, 0.92, 0.95, 0.5), (0.78, 0.83, 0.88, 1),
)  # fmt: skip


def build() -> mujoco.MjSpec:
    """A fresh spec of the scene."""
    import mujoco

    spec = mujoco.MjSpec()
    spec.option.timestep = TIMESTEP
    spec.compiler.degree = False
    _court(spec)
    drone = spec.worldbody.add_body(
        name="drone", pos=[4.5, 0, 2.0], mass=MASS, inertia=INERTIA, ipos=[0, 0, 0], iquat=[1, 0, 0, 0],
        explicitinertial=True,
    )  # fmt: skip
    drone.add_freejoint(name="drone_free")
    _drone(spec, drone)
    ball = spec.worldbody.add_body(name="ball", pos=[4.5, 0, 3.2])
    ball.add_freejoint(name="ball_free")
    ball.add_geom(
        name="ball", type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[BALL_RADIUS, 0, 0], rgba=_YELLOW, mass=BALL_MASS,
        contype=1, conaffinity=0, group=1, **_bounce(),
    )  # fmt: skip
    return spec


def _bounce() -> dict[str, Any]:
    return {"condim": 1, "solref": [-STIFFNESS, -DAMPING], "solimp": [0.95, 0.95, 0.001, 0.5, 2.0]}


def _drone(spec: mujoco.MjSpec, drone: Any) -> None:
    import mujoco

    drone.add_site(name="drone_frame", size=[0.01] * 3, rgba=[0, 0, 0, 0])
    drone.add_geom(
        name="racket", type=mujoco.mjtGeom.mjGEOM_BOX, size=[RACKET, RACKET, RACKET_THICKNESS], rgba=_RED, mass=0.0,
        pos=[0, 0, RACKET_HEIGHT], contype=0, conaffinity=1, group=1, **_bounce(),
    )  # fmt: skip
    look(drone, mujoco.mjtGeom.mjGEOM_BOX, [0.09, 0.05, 0.03], _DARK, name="hull")
    look(drone, mujoco.mjtGeom.mjGEOM_CAPSULE, [0.012, 0.02, 0], _GREY, name="mast", pos=[0, 0, 0.045])
    look(drone, mujoco.mjtGeom.mjGEOM_SPHERE, [0.02, 0, 0], _ORANGE, name="nose", pos=[0.10, 0, 0.0])
    for i, (x, y, spin) in enumerate(ROTORS):
        at = [x, y, 0.0]
        add_rotor(spec, drone, i, at, spin, boom=0.010, disc=0.10, rgba=(_DARK, _GREY))
    drone.add_camera(name="onboard", pos=[-0.6, 0, 0.25], xyaxes=[0, -1, 0, 0.25, 0, 0.97], fovy=90.0)


def _court(spec: mujoco.MjSpec) -> None:
    """Floor, lines, net, lamps and the camera that sees the anchor. No headlight: an event turns down all light."""
    import mujoco

    view(spec, 6.0, [4.5, 0, 2])
    spec.visual.map.shadowclip = 3.0
    world, box = spec.worldbody, mujoco.mjtGeom.mjGEOM_BOX
    long, wide = COURT
    look(world, mujoco.mjtGeom.mjGEOM_PLANE, [14, 10, 0.1], _FLOOR, name="floor")
    look(world, box, [long, wide, 0.002], _COURT, name="ground", pos=[0, 0, 0.002])
    for name, size, at in (
        ("side_a", [long, 0.025], [0, wide - 0.025]), ("side_b", [long, 0.025], [0, 0.025 - wide]),
        ("end", [0.025, wide], [long - 0.025, 0]), ("middle", [0.025, wide], [0, 0]), ("attack", [0.025, wide], [3, 0]),
    ):  # fmt: skip
        look(world, box, [*size, 0.003], _LINE, name=f"line_{name}", pos=[*at, 0.003])
    look(world, box, [0.01, wide, 0.5], _NET, name="net_look", pos=[0, 0, NET_HEIGHT - 0.5])
    for name, y in (("a", wide + 0.1), ("b", -wide - 0.1)):
        post = {"fromto": [0, y, 0, 0, y, NET_HEIGHT], "name": f"post_{name}"}
        look(world, mujoco.mjtGeom.mjGEOM_CAPSULE, [0.04, 0, 0], _GREY, **post)
    for name, size, at in (
        ("back", [0.05, 10, 5], [-14, 0]), ("front", [0.05, 10, 5], [14, 0]), ("left", [14, 0.05, 5], [0, 10]),
        ("right", [14, 0.05, 5], [0, -10]),
    ):  # fmt: skip
        look(world, box, size, _WALL, name=f"wall_{name}", pos=[*at, 5])
    height = 5.0
    world.add_site(name="court", type=box, size=[long, wide, height], pos=[0, 0, height], rgba=[0, 0, 0, 0])
    world.add_site(name="net", type=box, size=[NEAR_NET, 50, height], pos=[0, 0, height], rgba=[0, 0, 0, 0])
    sky(world, [6, -3, 8], diffuse=0.45, ambient=0.35)
    fill(world)
    world.add_camera(name="agentview", pos=[10.2, 0, 2.3], xyaxes=[0, 1, 0, 0, 0, 1], fovy=50.0)
