"""Pick-and-place plans: waypoints from a view of the scene, a goal atom and a grasp."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Collection

import numpy as np

from mjx_bench.task import Atom, Task
from policies.scripted import goals
from policies.scripted.arm import Arm
from policies.scripted.geometry import SceneShapes, View, load_shapes
from policies.scripted.grasp import MAX_HALF_OPENING, Grasp, canonical, find_grasps, hand_rotation, lowest_site
from policies.scripted.motion import CLOSED, OPEN, Waypoint

PICK, CLOSE, CARRY, RELEASE = ("rise", "over", "reach"), ("close",), ("lift", "carry", "lower"), ("release", "leave")

_CLOSE_STEPS = 8  # the gripper command crosses its range in 8 control steps
_HOVER = 0.045  # above the grasp when the fingers arrive over the object
_MARGIN = 0.03  # kept above things that are flown over
_SWATH = 0.10  # half width of the corridor that must be clear, about the hand's reach
_CONSIDERED = 24  # grasps compared with the surroundings


@dataclasses.dataclass(frozen=True)
class Hold:
    """A chosen grasp, in the world.

    Attributes:
      index: position in the object's table, to avoid it after a failure.
      site: [3] grip-site position, world metres.
      rot: [3, 3] hand orientation.
      angle: finger axis about world z, radians.
      width: thickness between the pads, metres.
    """

    index: int
    site: np.ndarray
    rot: np.ndarray
    angle: float
    width: float


class Library:
    """Shapes and grasp tables of scenes, computed once each. Entries depend on their key alone, so order cannot matter."""

    def __init__(self) -> None:
        self._shapes: dict[str, SceneShapes] = {}
        self._grasps: dict[tuple[str, str, tuple[int, int, int]], list[Grasp]] = {}
        self._arms: dict[str, Arm] = {}
        self._lock = threading.Lock()  # lanes of different scenes may be queried from different threads

    def shapes(self, task: Task) -> SceneShapes:
        key = task.scene.key
        with self._lock:
            if key not in self._shapes:
                self._shapes[key] = load_shapes(task.scene)
            return self._shapes[key]

    def arm(self, task: Task) -> Arm:
        key = task.scene.key
        with self._lock:
            if key not in self._arms:
                self._arms[key] = Arm(task)
            return self._arms[key]

    def grasps(self, task: Task, view: View, entity: str) -> tuple[list[Grasp], float]:
        """Grasps of an object as it lies now, and its heading."""
        lying, heading, lie_key = canonical(view.rot(entity))
        key = (task.scene.key, entity, lie_key)
        with self._lock:
            if key not in self._grasps:
                points = np.vstack([part.points for part in self._shapes[task.scene.key].parts[entity]])
                self._grasps[key] = find_grasps(points @ lying.T)
            return self._grasps[key], heading


def choose(library: Library, task: Task, view: View, entity: str, failed: Collection[int]) -> Hold | None:
    """The grasp of an object with the best trade of quality, turning of the wrist and room around it.

    Returns:
      None when nothing of the object fits between the fingers.
    """
    table, heading = library.grasps(task, view, entity)
    order = [i for i in range(len(table)) if i not in failed] or list(range(len(table)))
    if not order:
        return None
    c, s = np.cos(heading), np.sin(heading)
    turn = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
    origin = view.pos(entity)
    reference = np.arctan2(view.hand_rot[1, 1], view.hand_rot[0, 1])  # of the finger axis now

    def wrist(grasp: Grasp) -> float:
        return abs((grasp.angle + heading - reference + np.pi / 2) % np.pi - np.pi / 2)

    order.sort(key=lambda i: table[i].cost + 0.25 * wrist(table[i]))
    # Neighbouring entries of a table are near copies: a failure rules out what is like it only by its place in the order.
    order = order[:_CONSIDERED]
    sites = np.array([origin + turn @ table[i].offset for i in order])
    angles = np.array([table[i].angle + heading for i in order])
    tops = np.array([origin[2] + table[i].deepest for i in order])
    near = view.others(entity)
    near = near[(np.abs(near[:, :2] - origin[:2]).max(1) < 0.2) & (near[:, 2] > sites[:, 2].min() - 0.03)]
    room = lowest_site(_thin(near), sites[:, :2], angles, np.full(len(order), MAX_HALF_OPENING)) + 0.004
    z = np.maximum(sites[:, 2], room)
    shallow = np.maximum(0.0, z - (tops - 0.004))  # fingers would close above the object
    cost = np.array([table[i].cost + 0.25 * wrist(table[i]) for i in order])
    best = int(np.argmin(cost + 6.0 * (z - sites[:, 2]) + 100.0 * shallow))
    site = sites[best].copy()
    # When every way in is blocked, go in anyway: pushing a neighbour aside beats standing still.
    site[2] = min(z[best], max(sites[best, 2], tops[best] - 0.004))
    return Hold(order[best], site, hand_rotation(angles[best], view.hand_rot), float(angles[best]), table[order[best]].width)


def _thin(points: np.ndarray, cell: float = 0.004) -> np.ndarray:
    """Keeps the highest point of each vertical column of `cell` metres: all that a gripper from above can meet."""
    if len(points) == 0:
        return points
    ij = np.floor(points[:, :2] / cell).astype(np.int64)
    ij -= ij.min(0)
    column = ij[:, 0] * (int(ij[:, 1].max()) + 1) + ij[:, 1]
    order = np.lexsort((points[:, 2], column))
    last = np.flatnonzero(np.append(np.diff(column[order]) != 0, True))
    return points[order[last]]


def clearance(view: View, without: str, start: np.ndarray, end: np.ndarray) -> float:
    """Height of the tallest thing within the hand's reach of the straight path between two points, `-inf` if none."""
    points = view.others(without, coarse=True)
    a, b = start[:2], end[:2]
    along = b - a
    length = max(float(along @ along), 1e-9)
    t = np.clip((points[:, :2] - a) @ along / length, 0.0, 1.0)
    aside = points[:, :2] - a - t[:, None] * along
    return float(points[(aside**2).sum(1) < _SWATH**2, 2].max(initial=-np.inf))


def pick(view: View, entity: str, hold: Hold, start: np.ndarray) -> list[Waypoint]:
    """From `start` [3] over the object, down, and close."""
    high = max(hold.site[2] + _HOVER, clearance(view, entity, start, hold.site) + _MARGIN)
    over = np.array([hold.site[0], hold.site[1], high])
    aside = float(np.hypot(*(start - over)[:2]))
    plan = []
    if aside > 0.02 and start[2] < high - 0.02:
        plan.append(Waypoint("rise", np.array([start[0], start[1], high]), hold.rot, OPEN, tolerance=0.02))
    if aside > 0.02 or start[2] > high:
        plan.append(Waypoint("over", over, hold.rot, OPEN, tolerance=0.015))
    plan.append(Waypoint("reach", hold.site, hold.rot, OPEN, tolerance=0.004, speed=0.2, patience=40, funnel=True))
    plan.append(Waypoint("close", hold.site, hold.rot, CLOSED, tolerance=0.05, dwell=_CLOSE_STEPS, patience=4))
    return plan


def place(
    view: View, task: Task, atom: Atom, hold: Hold, grip: np.ndarray, rot: np.ndarray, start: np.ndarray, shapes: SceneShapes
) -> list[Waypoint]:
    """From `start` [3], holding the object, up, over the support, down, and open.

    Args:
      grip: [3] grip site relative to the object's origin, world axes.
      rot: [3, 3] orientation of the object's root while it is carried.
    """
    entity = atom.args[0]
    body = np.vstack([part.points for part in shapes.parts[entity]]) @ rot.T
    end = goals.put_down(view, task, atom, body, grip, hold.angle, 0.5 * hold.width)
    hanging = grip[2] - float(body[:, 2].min())  # grip site above the object's lowest point
    high = max(end[2] + 0.03, clearance(view, entity, start, end) + hanging + _MARGIN)
    over = np.array([end[0], end[1], high])
    leave = np.array([end[0], end[1], max(high, end[2] + 0.08)])
    plan = []
    if np.hypot(*(start - end)[:2]) > 0.025:
        if start[2] < high - 0.02:
            lift = np.array([start[0], start[1], high])
            plan.append(Waypoint("lift", lift, hold.rot, CLOSED, tolerance=0.02, speed=0.2))
        plan.append(Waypoint("carry", over, hold.rot, CLOSED, tolerance=0.02, speed=0.21))
    plan.append(Waypoint("lower", end, hold.rot, CLOSED, tolerance=0.005, speed=0.18, patience=40, funnel=True))
    plan.append(Waypoint("release", end, hold.rot, OPEN, tolerance=0.05, dwell=_CLOSE_STEPS, patience=4))
    plan.append(Waypoint("leave", leave, hold.rot, OPEN, tolerance=0.02))
    return plan
