"""A kitchen around the counter of a task: the same parts in every instance, where a layout puts them, in a style's colours.

The world's axes are the task's frame: x along the counter's front edge, y away from the robot, z up from the floor, the
origin of x and y in the middle of the task's footprint. Everything here is static; what varies are poses, sizes and colours
of geoms. Only work top, floor, walls and the boxes of what stands on the floor collide.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from evals.roboquest.furniture import HIGH_Z, Standing, furnish
from evals.roboquest.furniture import TOP_Z as TOP_Z
from evals.roboquest.layouts import LAYOUTS, Layout, layout
from evals.roboquest.robot import BASE_BIT, add_robot
from evals.roboquest.styles import DEVELOPMENT, EVALUATION, STYLES, Style
from evals.tabletop.draw import Draw
from evals.tabletop.shapes import CONTACT_GROUP, SOLREF, visual, yaw_quat
from mjx_bench.task import Entity

if TYPE_CHECKING:
    import mujoco

TICK = 0.05  # seconds
START_GAP = 0.20  # of the base's frame from the counter's front edge, metres
COUNTER = Entity("counter", "fixture", "counter", "kitchen", None, contact_geoms=("counter_block",))

_CEILING = 2.6
_TABLE_BIT = 1  # what loose objects stand on, in the classes of `tabletop.shapes`
_WAITING = (9.0, -3.0, 0.3)  # x, first y, metres between neighbours: the shelf of what an instance does not use
_CLEAR = 0.02  # metres between the footprint and what the kitchen itself puts on the counter


@dataclasses.dataclass(frozen=True)
class Footprint:
    """What a task takes of a work top.

    Attributes:
      x, y: size along and across the front edge, metres.
      inset: of its front edge behind the work top's, metres.
    """

    x: float
    y: float
    inset: float = 0.03

    @property
    def front(self) -> float:
        """y of the work top's front edge."""
        return -self.y / 2 - self.inset


@dataclasses.dataclass(frozen=True)
class Kitchen:
    """One kitchen.

    Attributes:
      layout: where its parts are.
      style: number of its colours.
      footprint: of the task.
      decor: three things that stand about on the work top.
    """

    layout: Layout
    style: int
    footprint: Footprint
    decor: tuple[Standing, ...]

    @property
    def start(self) -> tuple[float, float, float]:
        """x, y and yaw of the robot's base at the start: before the footprint's middle, facing the counter."""
        return 0.0, self.footprint.front - START_GAP, math.pi / 2


def draw_kitchen(d: Draw, footprint: Footprint, *, evaluation: bool) -> Kitchen:
    """A kitchen of the styles for evaluation, or of those for development."""
    styles = EVALUATION if evaluation else DEVELOPMENT
    style, number = int(d.rng.integers(styles.start, styles.stop)), int(d.rng.integers(LAYOUTS))
    return kitchen(d, footprint, number, style)


def kitchen(d: Draw, footprint: Footprint, number: int, style: int) -> Kitchen:
    """The kitchen of a layout and a style by number; the rest is drawn."""
    spare = d.between(0.5, 1.0)  # of the work top's width, for the kitchen's own things
    width, aside = footprint.x + spare + 0.5, d.between(-0.15, 0.15)
    depth = max(0.68, footprint.y + footprint.inset + 0.06)
    plan = layout(number, footprint.front, depth, width, aside)
    x0, x1, _, y1 = plan.parts["counter"].rectangle
    ends = (-footprint.x / 2 - _CLEAR, footprint.x / 2 + _CLEAR)
    spots = []
    for i in range(3):
        # Nothing of it is wider than 8 cm to either side.
        low, high = (x0 + 0.09, ends[0] - 0.08) if (i % 2 == 0) else (ends[1] + 0.08, x1 - 0.09)
        far = y1 - 0.12 - (0.2 if i == 2 else 0.0)
        spots.append((d.between(low, max(low, high)), far - d.between(0.0, 0.06), d.between(0.85, 1.15)))
    return Kitchen(plan, style, footprint, tuple(spots))


def waiting(i: int) -> tuple[float, float]:
    """x and y of the i-th place for a thing that an instance does not use; it waits at the height of a work top."""
    return _WAITING[0], _WAITING[1] + i * _WAITING[2]


def empty_kitchen(k: Kitchen, substeps: int) -> mujoco.MjSpec:
    """A fresh spec with everything but a task's own things.

    Args:
      k: which kitchen.
      substeps: physics steps a tick.
    """
    import mujoco

    spec = mujoco.MjSpec()
    spec.option.timestep = TICK / substeps
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.option.cone = mujoco.mjtCone.mjCONE_PYRAMIDAL
    # As on the native suite's table, whose room says why.
    spec.option.impratio = 20.0
    spec.option.iterations = spec.option.ls_iterations = 30
    spec.option.solver = mujoco.mjtSolver.mjSOL_NEWTON
    spec.option.disableflags = int(mujoco.mjtDisableBit.mjDSBL_MIDPHASE)
    spec.default.geom.solref = SOLREF
    spec.compiler.degree = False
    _light(spec, k)
    spec.worldbody.add_body(name=COUNTER.body)
    _room(spec, k, STYLES[k.style])
    _blocks(spec, k)
    furnish(spec, k.layout, k.style, k.decor)
    add_robot(spec)
    return spec


def _room(spec: mujoco.MjSpec, k: Kitchen, style: Style) -> None:
    x0, x1, y0, y1 = k.layout.room
    world = spec.worldbody
    visual(world, "plane", [9, 9, 0.1], style.floor, name="floor")
    middle, half = ((x0 + x1) / 2, (y0 + y1) / 2), ((x1 - x0) / 2, (y1 - y0) / 2)
    walls = (
        ("back", [middle[0], y1 + 0.05], [half[0] + 0.1, 0.05]),
        ("front", [middle[0], y0 - 0.05], [half[0] + 0.1, 0.05]),
        ("left", [x0 - 0.05, middle[1]], [0.05, half[1]]),
        ("right", [x1 + 0.05, middle[1]], [0.05, half[1]]),
    )
    shade = tuple(0.8 * c for c in style.wall)
    for name, at, size in walls:
        visual(world, "box", [*size, _CEILING / 2], style.wall, name=f"wall_{name}", pos=[*at, _CEILING / 2])
        foot = [size[0] + 0.006, size[1] + 0.006, 0.04]
        visual(world, "box", foot, shade, name=f"skirting_{name}", pos=[*at, 0.04])
    splash = [half[0], 0.004, (HIGH_Z - TOP_Z) / 2]
    visual(world, "box", splash, style.splash, name="splash", pos=[middle[0], y1 - 0.004, (HIGH_Z + TOP_Z) / 2])


def _blocks(spec: mujoco.MjSpec, k: Kitchen) -> None:
    """What collides: the work top as a solid block, the rest with the base alone."""
    import mujoco

    parts, (x0, x1, y0, y1) = k.layout.parts, k.layout.room
    box, plane = mujoco.mjtGeom.mjGEOM_BOX, mujoco.mjtGeom.mjGEOM_PLANE
    kitchen_body = spec.body(COUNTER.body)
    heights = {"counter": TOP_Z, "run_a": TOP_Z, "run_b": TOP_Z, "cooker": TOP_Z, "fridge": 1.8, "table": 0.75}
    for name, height in heights.items():
        s = parts[name]
        _collider(
            kitchen_body, f"{name}_block", box, [s.width / 2, s.depth / 2, height / 2], [s.x, s.y, height / 2],
            yaw_quat(s.turn), _TABLE_BIT if name == "counter" else 0,
        )  # fmt: skip
    for name, at, turned in (
        ("back", (0, y1), (1, 0, 0)),
        ("front", (0, y0), (-1, 0, 0)),
        ("left", (x0, 0), (0, 1, 0)),
        ("right", (x1, 0), (0, -1, 0)),
    ):
        # A quarter turn that leaves the plane's normal pointing into the room.
        half = 0.5**0.5
        quat = [half, *(half * c for c in turned)]
        _collider(kitchen_body, f"{name}_plane", plane, [9, 9, 0.1], [*at, 0], quat, 0)
    world = spec.worldbody
    shelf_x, shelf_y, _ = _WAITING
    _collider(world, "floor_plane", plane, [9, 9, 0.1], [0, 0, 0], [1, 0, 0, 0], _TABLE_BIT, base=0)
    shelf = [0.3, 3.6, TOP_Z / 2]
    _collider(world, "waiting_block", box, shelf, [shelf_x, shelf_y + 3.2, TOP_Z / 2], [1, 0, 0, 0], _TABLE_BIT, base=0)


def _collider(
    body: Any, name: str, kind: Any, size: Sequence[float], pos: Sequence[float], quat: Any, contype: int,
    base: int = BASE_BIT,
) -> None:  # fmt: skip
    body.add_geom(
        name=name, type=kind, size=size, pos=pos, quat=quat, contype=contype, conaffinity=base, group=CONTACT_GROUP,
        mass=0.0, friction=[0.6, 0.005, 0.0001],
    )  # fmt: skip


def _light(spec: mujoco.MjSpec, k: Kitchen) -> None:
    """Two lamps without shadows; none on the camera, because an event that turns down the light must turn down all of it."""
    head = spec.visual.headlight
    head.ambient, head.diffuse, head.specular = [0.0] * 3, [0.0] * 3, [0.0] * 3
    spec.visual.global_.offwidth = spec.visual.global_.offheight = 1024
    spec.visual.quality.offsamples = 4
    spec.stat.extent, spec.stat.center = 1.0, [0.0, 0.0, TOP_Z]
    spec.visual.map.znear, spec.visual.map.zfar = 0.01, 30.0
    y = k.footprint.front
    for name, pos, aim, strength, ambient in (
        ("lamp", [0.5, y - 0.5, 2.5], [-0.2, 0.3, -1.0], 0.52, 0.25),
        ("window", [-1.0, y + 1.5, 2.4], [0.3, -0.7, -0.8], 0.26, 0.12),
    ):
        spec.worldbody.add_light(
            name=name, pos=pos, dir=aim, diffuse=[strength] * 3, ambient=[ambient] * 3, specular=[0.12] * 3,
            castshadow=False, attenuation=[1, 0, 0], cutoff=90.0, exponent=0.0,
        )  # fmt: skip


def clear_of(k: Kitchen, x: float, y: float, room: float) -> bool:
    """Whether a disc of radius `room` metres on the floor keeps off everything, walls too."""
    x0, x1, y0, y1 = k.layout.room
    if not (x0 + room <= x <= x1 - room and y0 + room <= y <= y1 - room):
        return False
    return all(
        max(a - x, 0.0, x - b) ** 2 + max(c - y, 0.0, y - d) ** 2 >= room**2 for a, b, c, d in k.layout.obstacles
    )
