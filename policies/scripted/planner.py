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
from policies.scripted.grasp import MAX_HALF_OPENING, TIP_BELOW, Grasp, canonical, find_grasps, hand_rotation, lowest_site
from policies.scripted.motion import CLOSED, HALT, OPEN, Waypoint

PICK = ("rise", "over", "open", "shape", "reach")
CLOSE, CARRY = ("close",), ("lift", "carry", "lower")

_STROKE = 0.01  # metres that the gap between the fingers changes a control step
FULLY_OPEN = 2 * MAX_HALF_OPENING
_FULL_STROKE_STEPS = 8
_OUT_OF_REACH = 0.10  # metres beyond the stretched arm at which an object is given up
_NARROW = 0.010  # between each finger and the object when fingers go in half closed
_SQUEEZE_STEPS = 4  # for the grip force to build up once the pads touch
_HOVER = 0.045  # above the grasp when the fingers arrive over the object
_MARGIN = 0.03  # kept above things that are flown over
_SWATH = 0.10  # half width of the corridor that must be clear, about the hand's reach
_CONSIDERED = 64  # grasps compared with the surroundings


@dataclasses.dataclass(frozen=True)
class Hold:
    """A chosen grasp, in the world.

    Attributes:
      index: position in the object's table, to avoid it after a failure.
      site: [3] grip-site position, world metres.
      rot: [3, 3] hand orientation.
      angle: finger axis about world z, radians.
      width: thickness between the pads, metres.
      gap: opening of the fingers on the way in, metres; less than all of it where neighbours leave little room.
    """

    index: int
    site: np.ndarray
    rot: np.ndarray
    angle: float
    width: float
    gap: float


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


def choose(library: Library, task: Task, view: View, atom: Atom, failed: Collection[int]) -> Hold | None:
    """The grasp of the atom's object with the best trade of quality, turning of the wrist, reach, and room around it.

    Args:
      failed: table indices to avoid.

    Returns:
      None when nothing of the object fits between the fingers, or it has gone where the arm cannot follow.
    """
    entity = atom.args[0]
    table, heading = library.grasps(task, view, entity)
    order = [i for i in range(len(table)) if i not in failed] or list(range(len(table)))
    if not order:
        return None
    c, s = np.cos(heading), np.sin(heading)
    turn = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
    origin = view.pos(entity)
    beyond = library.arm(task).overreach
    if beyond(origin[None])[0] > _OUT_OF_REACH:
        return None
    reference = np.arctan2(view.hand_rot[1, 1], view.hand_rot[0, 1])  # of the finger axis now

    def base_cost(i: int) -> float:
        wrist = abs((table[i].angle + heading - reference + np.pi / 2) % np.pi - np.pi / 2)
        return table[i].cost + 0.25 * wrist

    order.sort(key=base_cost)
    order = order[:_CONSIDERED]
    sites = np.array([origin + turn @ table[i].offset for i in order])
    angles = np.array([table[i].angle + heading for i in order])
    tops = np.array([origin[2] + table[i].top for i in order])
    half = np.array([0.5 * table[i].width + _NARROW for i in order])
    near = view.others(entity)
    near = near[(np.abs(near[:, :2] - origin[:2]).max(1) < 0.2) & (near[:, 2] > sites[:, 2].min() - TIP_BELOW)]
    wide_room = lowest_site(_thin(near), sites[:, :2], angles, np.full(len(order), MAX_HALF_OPENING))
    # The table knows that the object itself leaves room for open fingers, not for narrow ones.
    around = _thin(np.vstack([near, view.cloud(entity)]))
    narrow_room = lowest_site(around, sites[:, :2], angles, np.minimum(half, MAX_HALF_OPENING))
    far = beyond(sites) + beyond(sites + (goals.target_point(view, task, atom) - origin))
    base = np.array([base_cost(i) for i in order]) + 20.0 * far

    best, gap, z, lowest = 0, 0.0, 0.0, np.inf
    for room, gaps, extra in ((wide_room, np.full(len(order), FULLY_OPEN), 0.0), (narrow_room, 2 * half, 0.15)):
        height = np.maximum(sites[:, 2], room + 0.004)
        shallow = np.maximum(0.0, height - (tops - 0.010))
        cost = base + extra + 6.0 * (height - sites[:, 2]) + 100.0 * shallow
        k = int(np.argmin(cost))
        if cost[k] < lowest:
            best, gap, z, lowest = k, float(gaps[k]), float(height[k]), float(cost[k])
    site = sites[best].copy()
    # When every way in is blocked, go in anyway: pushing a neighbour aside beats standing still.
    site[2] = min(z, max(site[2], tops[best] - 0.004))
    angle = float(angles[best])
    return Hold(order[best], site, hand_rotation(angle, view.hand_rot), angle, table[order[best]].width, gap)


def _thin(points: np.ndarray, cell: float = 0.005) -> np.ndarray:
    """The highest point [N, 3] of each vertical column of `cell` metres: all that a gripper from above can meet."""
    if len(points) == 0:
        return points
    low = points[:, :2].min(0)
    ij = ((points[:, :2] - low) / cell).astype(np.int64)
    top = np.full(ij.max(0) + 1, -np.inf)
    np.maximum.at(top, (ij[:, 0], ij[:, 1]), points[:, 2])
    i, j = np.nonzero(top > -np.inf)
    return np.column_stack([low[0] + (i + 0.5) * cell, low[1] + (j + 0.5) * cell, top[i, j]])


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
    approach = OPEN
    if hold.gap < FULLY_OPEN - _STROKE:
        # The sign of the action moves the fingers and zero stops them: count the steps from fully open.
        shut = int(round((FULLY_OPEN - hold.gap) / _STROKE)) - 1
        plan.append(Waypoint("open", over, hold.rot, OPEN, tolerance=0.02, dwell=_FULL_STROKE_STEPS))
        plan.append(Waypoint("shape", over, hold.rot, CLOSED, tolerance=0.05, dwell=shut, patience=4))
        approach = HALT
    plan.append(Waypoint("reach", hold.site, hold.rot, approach, tolerance=0.004, speed=0.2, patience=40, funnel=True))
    squeeze = int(np.ceil((FULLY_OPEN - hold.width) / _STROKE)) + _SQUEEZE_STEPS
    plan.append(Waypoint("close", hold.site, hold.rot, CLOSED, tolerance=0.05, dwell=squeeze, patience=4))
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
    let_go = int(np.ceil(hold.width / _STROKE)) + _SQUEEZE_STEPS
    plan.append(Waypoint("release", end, hold.rot, OPEN, tolerance=0.05, dwell=let_go, patience=4))
    plan.append(Waypoint("leave", leave, hold.rot, OPEN, tolerance=0.02))
    return plan
