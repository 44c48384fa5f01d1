"""One home: room, furniture, lights, robot and the things of a task, built from what an instance drew.

Every instance is the same model with other numbers: poses of furniture and walls, colours, lights, sizes and masses. Things
that an instance does not use stand outside the room, and walls that a floor plan lacks below its floor.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from evals.robot_agent_bench.furniture import PIECES, Palette
from evals.robot_agent_bench.layouts import Layout, Pose, layouts
from evals.robot_agent_bench.robot import JOINTS, add_robot, arm_limits
from evals.robot_agent_bench.shapes import box, touch
from evals.robot_agent_bench.things import Thing, add_thing
from evals.tabletop.shapes import visual
from mjx_bench.control.bimanual import HOME, pads

if TYPE_CHECKING:
    import mujoco

WALLS, WALL_HALF = 8, (0.05, 1.3)
AWAY = -4.0  # height of what a floor plan lacks
DECOR = 6
MARK = 0.01  # half size of a mark

PALETTES = (
    Palette((0.60, 0.52, 0.43), (0.88, 0.86, 0.82), (0.72, 0.55, 0.37), (0.33, 0.24, 0.18), (0.36, 0.43, 0.52), (0.90,) * 3),
    Palette((0.47, 0.47, 0.49), (0.80, 0.84, 0.86), (0.85, 0.76, 0.62), (0.25, 0.25, 0.27), (0.55, 0.38, 0.33), (0.86,) * 3),
    Palette((0.68, 0.62, 0.55), (0.92, 0.90, 0.84), (0.55, 0.38, 0.26), (0.20, 0.15, 0.12), (0.42, 0.47, 0.36), (0.93,) * 3),
    Palette((0.40, 0.34, 0.30), (0.78, 0.80, 0.74), (0.80, 0.66, 0.46), (0.40, 0.30, 0.22), (0.62, 0.58, 0.50), (0.80,) * 3),
    Palette((0.74, 0.72, 0.70), (0.84, 0.82, 0.86), (0.66, 0.62, 0.58), (0.30, 0.32, 0.36), (0.28, 0.36, 0.44), (0.95,) * 3),
    Palette((0.55, 0.47, 0.36), (0.90, 0.84, 0.76), (0.76, 0.60, 0.44), (0.28, 0.20, 0.16), (0.60, 0.47, 0.34), (0.88,) * 3),
    Palette((0.52, 0.55, 0.58), (0.86, 0.88, 0.90), (0.90, 0.86, 0.78), (0.45, 0.40, 0.36), (0.47, 0.34, 0.44), (0.92,) * 3),
    Palette((0.62, 0.58, 0.48), (0.82, 0.78, 0.70), (0.62, 0.46, 0.30), (0.22, 0.18, 0.14), (0.32, 0.40, 0.34), (0.84,) * 3),
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Lights:
    """Light of a home.

    Attributes:
      ambient, key: 0 to 1.2, of no direction and from a lamp.
      azimuth, elevation: of the lamp, radians.
      warmth: 0 for 6500 K, 1 for 3000 K.
    """

    ambient: float
    key: float
    azimuth: float
    elevation: float
    warmth: float


@dataclasses.dataclass(frozen=True)
class Placed:
    """A thing in a role, and where its middle is: x, y, z, yaw in the world; None for one that is not used."""

    role: str
    thing: Thing
    pose: tuple[float, float, float, float] | None


@dataclasses.dataclass(frozen=True)
class Home:
    """What an instance drew.

    Attributes:
      layout: number of the floor plan; palette: of the colours.
      lights: as they are.
      things: all roles of the task, in the scene's order.
      base: pose of the robot's base.
      joints: [18] of arms, lift, waist and head; grippers: [2] radians.
      decor: x, y and yaw of each decoration.
      marks: name to where a mark without looks is: x, y, z, yaw. Every instance of a task has the same names.
      hand: pose of the hand that may come to move a thing: x, y, z, yaw; None for tasks without.
    """

    layout: int
    palette: int
    lights: Lights
    things: tuple[Placed, ...]
    base: Pose
    joints: tuple[float, ...]
    grippers: tuple[float, float]
    decor: tuple[Pose, ...]
    marks: Mapping[str, tuple[float, float, float, float]] = dataclasses.field(default_factory=dict)
    hand: tuple[float, float, float, float] | None = None

    @property
    def plan(self) -> Layout:
        return layouts()[self.layout]


class Drawer:
    """Draws the parts of a home that every task has."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def uniform(self, low: float, high: float) -> float:
        return float(self.rng.uniform(low, high))

    def layout(self) -> int:
        return int(self.rng.integers(len(layouts())))

    def looks(self) -> tuple[int, Lights]:
        """A palette and the light."""
        lights = Lights(
            ambient=self.uniform(0.25, 0.6),
            key=self.uniform(0.5, 1.0),
            azimuth=self.uniform(-math.pi, math.pi),
            elevation=math.radians(self.uniform(35, 75)),
            warmth=self.uniform(0, 1),
        )
        return int(self.rng.integers(len(PALETTES))), lights

    def posture(self) -> tuple[float, ...]:
        """Arms, lift, waist and head at the start."""
        arms = []
        for side, home in (("left", HOME[0:7]), ("right", HOME[7:14])):
            for q, (low, high) in zip(home, arm_limits(side), strict=True):
                arms.append(float(np.clip(q + self.uniform(-0.10, 0.10), low, high)))
        return (*arms, self.uniform(0.05, 0.30), 0.0, self.uniform(-0.3, 0.3), float(HOME[17]))

    def before(self, work: Pose, back: tuple[float, float], aside: float, turn: float) -> Pose:
        """A pose of the base some way behind a work place."""
        x, y, yaw = work
        b, s = self.uniform(*back), self.uniform(-aside, aside)
        c, d = math.cos(yaw), math.sin(yaw)
        return x - b * c - s * d, y - b * d + s * c, yaw + self.uniform(-turn, turn)

    def decor(self, plan: Layout) -> tuple[Pose, ...]:
        """Up to six decorations in corners of the room, away from work places."""
        number = int(self.rng.integers(DECOR + 1))
        spots = [_inward(plan, i) for i in range(len(plan.polygon))]
        free = [spot for spot in spots if _is_free(plan, spot)]
        chosen = self.rng.permutation(len(free))[:number]
        return tuple((float(free[i][0]), float(free[i][1]), self.uniform(-math.pi, math.pi)) for i in chosen)


def _inward(plan: Layout, corner: int) -> np.ndarray:
    """[2] a point 0.22 m from both walls of a corner, inside the room."""
    corners = np.array(plan.polygon)
    here = corners[corner]
    before, after = corners[corner - 1] - here, corners[(corner + 1) % len(corners)] - here
    point: np.ndarray = here + 0.22 * (before / np.linalg.norm(before) + after / np.linalg.norm(after))
    return point if inside(plan, point) else here


def inside(plan: Layout, point: Sequence[float] | np.ndarray) -> bool:
    """Whether a point [2] lies in the room, by crossings."""
    x, y = point
    odd = False
    for (ax, ay), (bx, by) in plan.walls():
        if (ay > y) != (by > y) and x < ax + (y - ay) / (by - ay) * (bx - ax):
            odd = not odd
    return odd


def _is_free(plan: Layout, spot: np.ndarray) -> bool:
    if not inside(plan, spot):
        return False
    return all(np.linalg.norm(plan.corners(name) - spot, axis=1).min() > 0.35 for name in plan.poses)


def build(home: Home, physics_hz: int) -> mujoco.MjSpec:
    """A fresh spec of the scene."""
    import mujoco

    spec = mujoco.MjSpec()
    spec.option.timestep = 1.0 / physics_hz
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.option.cone = mujoco.mjtCone.mjCONE_PYRAMIDAL
    spec.option.solver = mujoco.mjtSolver.mjSOL_NEWTON
    spec.option.iterations = 30
    spec.option.ls_iterations = 30
    spec.option.impratio = 10.0
    # The trees that midphase walks are built of the scene's own sizes, and an instance brings others.
    spec.option.disableflags = int(mujoco.mjtDisableBit.mjDSBL_MIDPHASE)
    spec.compiler.degree = False
    palette, plan = PALETTES[home.palette], home.plan
    _light(spec, home.lights)
    world = spec.worldbody
    visual(world, "plane", [12, 12, 0.1], palette.floor, name="floor_look", pos=[4, 3, 0])
    touch(world, "plane", [12, 12, 0.1], "floor", name="floor", pos=[4, 3, 0])
    _walls(world, plan, palette)
    for piece in PIECES:
        x, y, yaw = plan.poses[piece.name]
        piece.add(world, [x, y, 0.0], yaw_quat(yaw), palette)
    for i in range(DECOR):
        _decor(world, i, home.decor[i] if i < len(home.decor) else None)
    add_robot(spec)
    for i, placed in enumerate(home.things):
        add_thing(world, placed.role, placed.thing, [0.5 * i, -3.0, 0.2])
    for name, (x, y, z, yaw) in home.marks.items():
        mark = world.add_body(name=f"{name}_body", pos=[x, y, z], quat=yaw_quat(yaw))
        mark.add_site(name=name, pos=[0, 0, 0], size=[MARK] * 3, rgba=[0, 0, 0, 0])
    if home.hand is not None:
        add_hand(world, home.hand)
    middle = np.array(plan.polygon).mean(0)
    world.add_camera(name="agentview", pos=[middle[0], middle[1], 7.5], xyaxes=[1, 0, 0, 0, 1, 0], fovy=60.0)
    return spec


SKIN, SLEEVE = (0.80, 0.60, 0.48), (0.24, 0.30, 0.46)


def add_hand(world: Any, pose: Sequence[float]) -> None:
    """Adds a human hand to look at: a palm, four fingers, a thumb and a forearm that comes from +x. It meets nothing."""
    body = world.add_body(name="visitor_hand", pos=list(pose[:3]), quat=yaw_quat(pose[3]))
    visual(body, "box", [0.045, 0.015, 0.0425], SKIN, pos=[0.08, 0, 0], name="visitor_palm")
    for i in range(4):
        z = 0.033 - 0.022 * i
        visual(body, "capsule", [0.009], SKIN, fromto=[0.035, 0, z, -0.045, -0.02, z], name=f"visitor_finger_{i}")
    visual(body, "capsule", [0.009], SKIN, fromto=[0.06, 0, 0.03, -0.02, 0.045, 0.045], name="visitor_thumb")
    visual(body, "capsule", [0.035], SLEEVE, fromto=[0.14, 0, 0, 0.39, 0, 0], name="visitor_forearm")


def initial_state(model: mujoco.MjModel, home: Home) -> np.ndarray:
    """float64 [1 + nq + nv]: everything at rest."""
    qpos = np.array(model.qpos0, np.float64)
    opening = pads(np.array(home.grippers))
    values = (*home.joints, *opening, *home.base)
    for name, value in zip((*JOINTS, "left_gripper_b", "right_gripper_b"), (*values, *opening), strict=True):
        qpos[model.joint(name).qposadr[0]] = value
    for i, placed in enumerate(home.things):
        at = model.joint(f"{placed.role}_free").qposadr[0]
        x, y, z, yaw = placed.pose or (0.5 * i, -3.0, placed.thing.half[2], 0.0)
        qpos[at : at + 7] = x, y, z, *yaw_quat(yaw)
    return np.concatenate([[0.0], qpos, np.zeros(model.nv)])


def yaw_quat(yaw: float) -> list[float]:
    """[4] wxyz of a rotation about z, radians."""
    return [math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)]


def _walls(world: Any, plan: Layout, palette: Palette) -> None:
    ends = plan.walls()
    for i in range(WALLS):
        thick, high = WALL_HALF
        if i < len(ends):
            a, b = ends[i]
            way = b - a
            length, yaw = float(np.linalg.norm(way)), math.atan2(way[1], way[0])
            x, y = (a + b) / 2 + thick * np.array([way[1], -way[0]]) / length
            pos, half = [x, y, high], [length / 2 + 2 * thick, thick, high]
        else:
            pos, half, yaw = [4.0, 3.0, AWAY], [0.5, thick, high], 0.0
        body = world.add_body(name=f"wall_{i}", pos=pos, quat=yaw_quat(yaw))
        box(body, half, palette.wall, "furniture", f"wall_{i}")


def _decor(world: Any, i: int, pose: Pose | None) -> None:
    """A plant in a pot, or a box; it is not touched."""
    x, y, yaw = pose or (4.0, 3.0, 0.0)
    body = world.add_body(name=f"decor_{i}", pos=[x, y, 0.0 if pose else AWAY], quat=yaw_quat(yaw))
    if i % 2:
        visual(body, "box", [0.12, 0.10, 0.14], (0.66, 0.52, 0.36), pos=[0, 0, 0.14], name=f"decor_{i}_box")
        return
    visual(body, "cylinder", [0.10, 0.12], (0.60, 0.36, 0.26), pos=[0, 0, 0.12], name=f"decor_{i}_pot")
    visual(body, "sphere", [0.17], (0.22, 0.42, 0.20), pos=[0, 0, 0.42], name=f"decor_{i}_leaves")


def _light(spec: mujoco.MjSpec, lights: Lights) -> None:
    """A lamp and light of no direction; none on the camera: an event that turns down the light must turn down all of it."""
    import mujoco

    head = spec.visual.headlight
    head.ambient, head.diffuse, head.specular = [0.0] * 3, [0.0] * 3, [0.0] * 3
    spec.visual.global_.offwidth, spec.visual.global_.offheight = 1280, 1280
    spec.visual.quality.shadowsize = 4096
    spec.stat.extent, spec.stat.center = 8.0, [4.0, 3.0, 1.0]
    spec.visual.map.znear, spec.visual.map.zfar = 0.005, 5.0
    tint = np.array([1.0, 1.0, 1.0]) - lights.warmth * np.array([0.0, 0.12, 0.30])
    c, s, e = math.cos(lights.azimuth), math.sin(lights.azimuth), lights.elevation
    spec.worldbody.add_light(
        name="lamp", pos=[4.0 + 3 * c, 3.0 + 3 * s, 6.0], type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL,
        dir=[-c * math.cos(e), -s * math.cos(e), -math.sin(e)], castshadow=False,
        diffuse=[*(0.8 * lights.key * tint)], ambient=[*((lights.ambient + 0.15) * tint)], specular=[0.1] * 3,
    )  # fmt: skip
