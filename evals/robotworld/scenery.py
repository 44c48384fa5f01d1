"""What scenes of drones and legs share: geoms that are only looked at, lamps, and rotors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mjx_bench.task import Robot

if TYPE_CHECKING:
    import mujoco

THRUST = 6.003189  # newtons, the most of one rotor
MOMENT = 0.016  # metres: reaction torque of a rotor over its thrust


def look(body: Any, kind: mujoco.mjtGeom, size: Any, rgba: Any, **where: Any) -> Any:
    """Adds a geom that weighs nothing and collides with nothing."""
    return body.add_geom(type=kind, size=size, rgba=rgba, mass=0.0, contype=0, conaffinity=0, group=1, **where)


def view(spec: mujoco.MjSpec, extent: float, centre: Sequence[float]) -> None:
    """How large a scene is to cameras and lamps. No headlight: an event turns down all light."""
    head = spec.visual.headlight
    head.ambient, head.diffuse, head.specular = [0.0] * 3, [0.0] * 3, [0.0] * 3
    spec.visual.global_.offwidth = spec.visual.global_.offheight = 1024
    spec.stat.extent, spec.stat.center = extent, centre
    spec.visual.map.znear, spec.visual.map.zfar = 0.01, 10.0


def sky(world: Any, pos: Sequence[float], diffuse: float, ambient: float) -> None:
    """Adds a lamp that casts shadows."""
    _lamp(world, "sky", pos, [-0.3, 0.3, -1], (diffuse, ambient, 0.1), castshadow=True)


def fill(world: Any) -> None:
    """Adds a lamp from the other side, so that no wall is black."""
    _lamp(world, "fill", [0, 0, 8], [0.5, -0.5, -0.7], (0.2, 0.1, 0.0), castshadow=False)


def _lamp(world: Any, name: str, pos: Any, direction: Any, light: tuple[float, float, float], castshadow: bool) -> None:
    import mujoco

    diffuse, ambient, specular = light
    world.add_light(
        name=name, pos=pos, dir=direction, diffuse=[diffuse] * 3, ambient=[ambient] * 3, specular=[specular] * 3,
        type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL, castshadow=castshadow,
    )  # fmt: skip


def quadrotor(eef_site: str, hand_geoms: tuple[str, ...] = ()) -> Robot:
    """A robot of four rotors, on the body `drone`."""
    return Robot(
        arm_joints=(),
        arm_actuators=tuple(f"rotor{i}" for i in range(4)),
        gripper_joints=(),
        gripper_actuators=(),
        eef_site=eef_site,
        hand_body="drone",
        torque_limits=((0.0,) * 4, (THRUST,) * 4),
        finger_geoms=((), ()),
        hand_geoms=hand_geoms,
    )


def add_rotor(
    spec: mujoco.MjSpec, drone: Any, i: int, at: Sequence[float], spin: float, *, boom: float, disc: float, rgba: Any
) -> None:
    """Adds rotor `i` with what holds it.

    Args:
      spec, drone: where.
      i: its number.
      at: [3] in the drone's frame, metres.
      spin: which way it turns about the drone's up axis, 1 or -1; the body turns the other way.
      boom, disc: radii that are looked at, metres.
      rgba: of the boom and of the disc.
    """
    import mujoco

    look(drone, mujoco.mjtGeom.mjGEOM_CAPSULE, [boom, 0, 0], rgba[0], name=f"boom{i}", fromto=[0, 0, 0, *at])
    look(drone, mujoco.mjtGeom.mjGEOM_CYLINDER, [disc, 0.003, 0], rgba[1], name=f"disc{i}", pos=[*at[:2], 0.02])
    site = drone.add_site(name=f"rotor{i}_site", pos=at, size=[0.005] * 3, rgba=[0, 0, 0, 0])
    motor = spec.add_actuator(
        name=f"rotor{i}", target=site.name, trntype=mujoco.mjtTrn.mjTRN_SITE,
        gear=[0, 0, 1, 0, 0, -spin * MOMENT], ctrlrange=[0, THRUST],
    )  # fmt: skip
    motor.set_to_motor()
    motor.ctrllimited = True
