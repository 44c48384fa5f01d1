"""What every scene has: floor, table, lights, the camera that looks at it all, the arm, and the physics options."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evals.tabletop.panda import HAND_CAMERA, add_panda
from evals.tabletop.shapes import SOLREF, TABLE_Z, contact, look_at, visual

if TYPE_CHECKING:
    import mujoco

SUBSTEPS, TIMESTEP = 10, 0.005  # 20 control steps a second
CAMERAS = ("agentview", HAND_CAMERA)
BASE_XY = (-0.6, 0.0)  # of the arm; the workspace is around the origin

_TABLE_HALF = (0.62, 0.72)  # of the table top, metres
_TABLE_CENTRE = (-0.1, 0.0)
WOOD, LEG = (0.80, 0.70, 0.57), (0.25, 0.26, 0.29)
FLOOR, WALL = (0.36, 0.40, 0.45), (0.62, 0.68, 0.72)


def empty_room() -> mujoco.MjSpec:
    """A fresh spec with everything but a task's own objects."""
    import mujoco

    spec = mujoco.MjSpec()
    spec.option.timestep = TIMESTEP
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.option.cone = mujoco.mjtCone.mjCONE_PYRAMIDAL
    # A held object creeps by 0.1 to 0.2 mm a second with this, and by ten times that with MuJoCo's own.
    spec.option.impratio = 20.0
    spec.default.geom.solref = SOLREF
    # One or two iterations do nearly always; 16 were the most in 10^5 steps of pushing. Cut off before it has converged, the
    # solver throws light objects through the room.
    spec.option.iterations = 30
    spec.option.ls_iterations = 30
    spec.option.solver = mujoco.mjtSolver.mjSOL_NEWTON
    # The trees that midphase walks are built of the scene's own sizes, and an instance brings others.
    spec.option.disableflags = int(mujoco.mjtDisableBit.mjDSBL_MIDPHASE)
    spec.compiler.degree = False
    _light(spec)
    world = spec.worldbody
    x, y = _TABLE_CENTRE
    visual(world, "plane", [4, 4, 0.1], FLOOR, name="floor")
    visual(world, "box", [0.05, 4, 2], WALL, name="back_wall", pos=[-1.8, 0, 1.9])
    visual(world, "box", [*_TABLE_HALF, 0.02], WOOD, name="table_top", pos=[x, y, TABLE_Z - 0.02])
    for i, (sx, sy) in enumerate(((1, 1), (1, -1), (-1, 1), (-1, -1))):
        half = (TABLE_Z - 0.04) / 2
        at = [x + sx * (_TABLE_HALF[0] - 0.05), y + sy * (_TABLE_HALF[1] - 0.05), half]
        visual(world, "box", [0.03, 0.03, half], LEG, name=f"table_leg{i}", pos=at)
    # The plane goes on beyond the table: nothing that is pushed over an edge is lost, and an object that an instance does
    # not use waits on it, out of sight.
    contact(
        world, "plane", [4, 4, 0.1], "table", name="table_plane", pos=[0, 0, TABLE_Z], friction=[0.4, 0.005, 0.0001]
    )
    eye = (0.66, 0.0, TABLE_Z + 0.56)
    world.add_camera(name="agentview", pos=eye, quat=look_at(eye, (-0.08, 0.0, TABLE_Z + 0.09)), fovy=38.0)
    add_panda(spec, [*BASE_XY, TABLE_Z])
    return spec


def _light(spec: mujoco.MjSpec) -> None:
    """Two lamps; none on the camera, because an event that turns down the light must turn down all of it."""
    head = spec.visual.headlight
    head.ambient, head.diffuse, head.specular = [0.0] * 3, [0.0] * 3, [0.0] * 3
    spec.visual.quality.shadowsize = 4096
    spec.visual.global_.offwidth = spec.visual.global_.offheight = 1024
    spec.stat.extent, spec.stat.center = 1.0, [0.0, 0.0, TABLE_Z]
    spec.visual.map.znear, spec.visual.map.zfar = 0.01, 20.0
    world = spec.worldbody
    world.add_light(
        name="lamp", pos=[0.6, -0.7, 2.6], dir=[-0.3, 0.4, -1.0], diffuse=[0.62, 0.60, 0.57], ambient=[0.26] * 3,
        specular=[0.25] * 3, castshadow=True, attenuation=[1, 0, 0], cutoff=42.0, exponent=1.0,
    )  # fmt: skip
    world.add_light(
        name="window", pos=[-0.5, 1.8, 2.4], dir=[0.2, -0.8, -0.8], diffuse=[0.30, 0.32, 0.36], ambient=[0.12] * 3,
        specular=[0.05] * 3, castshadow=False, attenuation=[1, 0, 0], cutoff=90.0, exponent=0.0,
    )  # fmt: skip
