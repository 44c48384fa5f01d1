"""The navigation map: a grid of 0.04 m that shows of the static scene what the head camera has faced, and nothing movable.

Deterministic, from geometry alone: the same for every system; what is revealed differs with the robot's motion. A cell is
revealed when a ray from the camera ends in it, within the field of view and 5 m, that no other cell on its way rises above.
Rays are 0.4 degrees apart (3.5 cm at 5 m), and end at the floor, or at obstacles up to 1 m above it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from evals.robot_agent_bench.layouts import Layout
from evals.robot_agent_bench.robot import HEAD, NECK, WAIST

if TYPE_CHECKING:
    import mujoco

CELL, BORDER = 0.04, 0.20
AROUND, FAR = 0.60, 5.0  # metres: known from the start around the base, and seen at most
LOW, HIGH, AIM = 0.05, 1.70, 1.0  # heights between which a thing is in the way, and up to which a ray may end at it
HALF_WIDE, HALF_HIGH = math.radians(45.5), math.radians(32.5)
RAYS, RANGES = 229, 125
CLEARANCE = 0.02
UNEXPLORED, FREE, OBSTACLE = -1, 0, 1
EVERY = 4  # control steps from one look to the next
_CAMERA, _DOWN = (0.075, 0.0, 0.02), math.radians(18.0)  # in the head's frame


@dataclasses.dataclass(frozen=True)
class Raster:
    """A floor plan as cells.

    Attributes:
      origin: [2] lower corner of cell (0, 0), metres.
      height: [I, J] top of the highest static geom over a cell.
      obstacle: bool [I, J] whether one is in the way there.
      shown: bool [I, J] cells that may ever be revealed: in the room, or obstacles.
    """

    origin: np.ndarray
    height: np.ndarray
    obstacle: np.ndarray
    shown: np.ndarray

    def cell(self, points: np.ndarray) -> np.ndarray:
        """int [..., 2] of points [..., 2]; may lie outside."""
        return np.floor((points - self.origin) / CELL).astype(np.int64)

    def has(self, cells: np.ndarray) -> np.ndarray:
        """bool [...] whether cells [..., 2] are in the grid."""
        within: np.ndarray = np.all((cells >= 0) & (cells < self.height.shape), axis=-1)
        return within

    def centres(self) -> np.ndarray:
        """[I, J, 2] metres."""
        i, j = np.meshgrid(*(np.arange(n) for n in self.height.shape), indexing="ij")
        return self.origin + CELL * (np.stack([i, j], -1) + 0.5)


def raster(model: mujoco.MjModel, plan: Layout) -> Raster:
    """The floor plan of a compiled instance: everything of it that never moves."""
    import mujoco

    corners = np.array(plan.polygon)
    origin = corners.min(0) - BORDER
    shape = tuple(np.ceil((corners.max(0) + BORDER - origin) / CELL).astype(int))
    height, obstacle = np.zeros(shape), np.zeros(shape, np.bool_)
    grid = Raster(origin, height, obstacle, obstacle)
    centres = grid.centres()
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    for g in range(model.ngeom):
        body = int(model.geom_bodyid[g])
        if model.body_weldid[body] != 0 or model.geom_type[g] == mujoco.mjtGeom.mjGEOM_PLANE:
            continue
        half = model.geom_aabb[g, 3:]
        mat, pos = (
            data.geom_xmat[g].reshape(3, 3),
            data.geom_xpos[g] + data.geom_xmat[g].reshape(3, 3) @ model.geom_aabb[g, :3],
        )
        rise = float(abs(mat[2]) @ half)
        if pos[2] + rise <= 0.0:
            continue
        flat = (centres - pos[:2]) @ mat[:2, :2]
        over = (abs(flat) <= half[:2] + CELL / 2).all(-1)
        height[over] = np.maximum(height[over], pos[2] + rise)
        if pos[2] + rise > LOW and pos[2] - rise < HIGH:
            obstacle |= over
    return Raster(origin, height, obstacle, obstacle | _inside(plan, centres))


def _inside(plan: Layout, points: np.ndarray) -> np.ndarray:
    """bool [...] whether points [..., 2] lie in the room, by crossings."""
    x, y = points[..., 0], points[..., 1]
    odd = np.zeros(x.shape, np.bool_)
    for (ax, ay), (bx, by) in plan.walls():
        if ay != by:
            odd ^= ((ay > y) != (by > y)) & (x < ax + (y - ay) / (by - ay) * (bx - ax))
    return odd


def camera_of(state: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Of a state [23] (`mjx_bench.control.bimanual`): [3] head camera, its yaw and how far down it looks, radians."""
    lift, waist, neck, head = state[14:18]
    x, y, yaw = state[20:23]
    pitch = _about_y(float(waist))
    at_neck = np.array(WAIST) + pitch @ (np.array(NECK) - WAIST)
    turned = pitch @ _about_z(float(neck))
    at_head = at_neck + turned @ (np.array(HEAD) - NECK)
    mat = turned @ _about_y(float(head))
    eye = at_head + mat @ np.array(_CAMERA) + [0.0, 0.0, float(lift)]
    view = mat @ np.array([math.cos(_DOWN), 0.0, -math.sin(_DOWN)])
    base = _about_z(float(yaw))
    eye, view = base @ eye + [float(x), float(y), 0.0], base @ view
    return eye, math.atan2(view[1], view[0]), math.asin(-view[2])


def around(grid: Raster, base: Sequence[float]) -> np.ndarray:
    """bool [I, J]: cells around the base that are known without being looked at."""
    near = np.linalg.norm(grid.centres() - np.array(base[:2]), axis=-1) <= AROUND
    return near & grid.shown


def seen(grid: Raster, eye: np.ndarray, yaw: float, down: float, rays: int = RAYS) -> np.ndarray:
    """bool [I, J]: cells that a camera at `eye` [3] reveals; all rays at once, with a running maximum of slopes."""
    bearings = yaw + np.linspace(-HALF_WIDE, HALF_WIDE, rays)
    way = np.stack([np.cos(bearings), np.sin(bearings)], -1)
    found = np.zeros(grid.height.shape, np.bool_)
    closed, current = (
        np.full(rays, -np.inf),
        np.full(rays, -np.inf),
    )  # of the cells before, and of the one that is crossed
    last = np.full((rays, 2), -(10**6))
    for k in range(1, RANGES + 1):
        d = CELL * k
        cells = grid.cell(eye[:2] + d * way)
        entered = (cells != last).any(-1)
        closed = np.where(entered, np.maximum(closed, current), closed)
        current = np.where(entered, -np.inf, current)
        last = cells
        ok = grid.has(cells)
        at = tuple(np.where(ok[:, None], cells, 0).T)
        tall = np.where(ok, grid.height[at], 0.0)
        target = np.where(ok & grid.obstacle[at], np.minimum(tall, AIM), 0.0)
        slope = (target - eye[2]) / d
        visible = ok & grid.shown[at] & (abs(np.arctan(slope) + down) <= HALF_HIGH) & (slope >= closed)
        found[tuple(cells[visible].T)] = True
        current = np.maximum(current, np.where(ok & (tall > 0.0), (tall + CLEARANCE - eye[2]) / d, -np.inf))
    return found


def seen_plainly(grid: Raster, eye: np.ndarray, yaw: float, down: float, rays: int = RAYS) -> np.ndarray:
    """The same as `seen`, ray by ray and cell by cell."""
    found = np.zeros(grid.height.shape, np.bool_)
    for bearing in yaw + np.linspace(-HALF_WIDE, HALF_WIDE, rays):
        way = np.array([np.cos(bearing), np.sin(bearing)])
        points = [(CELL * k, tuple(grid.cell(eye[:2] + CELL * k * way))) for k in range(1, RANGES + 1)]
        for k, (d, cell) in enumerate(points):
            if not grid.has(np.array(cell)) or not grid.shown[cell]:
                continue
            slope = ((min(grid.height[cell], AIM) if grid.obstacle[cell] else 0.0) - eye[2]) / d
            if abs(np.arctan(slope) + down) > HALF_HIGH:
                continue
            before = [
                (grid.height[c] + CLEARANCE - eye[2]) / e
                for e, c in points[:k]
                if c != cell and grid.has(np.array(c)) and grid.height[c] > 0.0
            ]
            found[cell] |= not before or slope >= max(before)
    return found


@dataclasses.dataclass
class NavigationMap:
    """What one robot knows of a floor plan. It is told states and changes; `grid` and `picture` only read.

    Attributes:
      plan: the floor plan's cells.
      known: bool [I, J].
      trajectory: x, y and yaw, a point each 0.10 m or 0.1 rad.
    """

    plan: Raster
    known: np.ndarray
    trajectory: list[tuple[float, float, float]]

    @classmethod
    def empty(cls, plan: Raster) -> NavigationMap:
        return cls(plan, np.zeros(plan.height.shape, np.bool_), [])

    def update(self, state: np.ndarray, *, look: bool = True) -> int:
        """Takes in a state [23]; returns how many cells are newly known. `look` where the camera's view counts (5 Hz)."""
        before = int(self.known.sum())
        x, y, yaw = (float(v) for v in state[20:23])
        self.known |= around(self.plan, (x, y))
        if look:
            self.known |= seen(self.plan, *camera_of(state))
        if not self.trajectory or _moved(self.trajectory[-1], (x, y, yaw)):
            self.trajectory.append((x, y, yaw))
        return int(self.known.sum()) - before

    @property
    def area(self) -> float:
        """Square metres that are known."""
        return float(self.known.sum()) * CELL**2

    def grid(self) -> np.ndarray:
        """int8 [I, J]: -1 unexplored, 0 free, 1 obstacle."""
        shown = np.where(self.plan.obstacle, OBSTACLE, FREE)
        return np.where(self.known & self.plan.shown, shown, UNEXPLORED).astype(np.int8)

    def picture(self, scale: int = 4) -> np.ndarray:
        """uint8 [J * scale, I * scale, 3], y upwards: grey unexplored, white free, black obstacle, blue way, red robot."""
        tones = np.array([255, 0, 128], np.uint8)[self.grid()]
        image = np.repeat(tones.T[::-1, :, None], 3, axis=2).repeat(scale, 0).repeat(scale, 1)
        for x, y, _ in self.trajectory:
            _dot(image, self._pixel((x, y), scale), 1, (40, 80, 220))
        if self.trajectory:
            x, y, yaw = self.trajectory[-1]
            for along, across in ((a, b) for a in np.linspace(-0.2, 0.3, 26) for b in np.linspace(-0.2, 0.2, 21)):
                if abs(across) <= 0.2 * (0.3 - along) / 0.5:
                    c, s = math.cos(yaw), math.sin(yaw)
                    _dot(
                        image,
                        self._pixel((x + c * along - s * across, y + s * along + c * across), scale),
                        0,
                        (210, 30, 30),
                    )
        return image

    def _pixel(self, point: tuple[float, float], scale: int) -> tuple[int, int]:
        u, v = (np.array(point) - self.plan.origin) / CELL * scale
        return self.plan.height.shape[1] * scale - 1 - int(v), int(u)


def _moved(a: tuple[float, float, float], b: tuple[float, float, float]) -> bool:
    return math.hypot(b[0] - a[0], b[1] - a[1]) >= 0.10 or abs(b[2] - a[2]) >= 0.1


def _dot(image: np.ndarray, at: tuple[int, int], radius: int, colour: tuple[int, int, int]) -> None:
    row, column = at
    if 0 <= row < image.shape[0] and 0 <= column < image.shape[1]:
        image[max(row - radius, 0) : row + radius + 1, max(column - radius, 0) : column + radius + 1] = colour


def _about_y(angle: float) -> np.ndarray:
    c, s = math.cos(angle), math.sin(angle)
    return np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])


def _about_z(angle: float) -> np.ndarray:
    c, s = math.cos(angle), math.sin(angle)
    return np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
