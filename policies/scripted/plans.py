"""Pick-and-place plans: waypoints from a view of the scene, a goal atom and a grasp.

A plan goes through the stages rise, over, open, shape, reach | close | lift, carry, lower | release, leave, leaving out
those that are not needed.
"""

from __future__ import annotations

import numpy as np

from mjx_bench.task import Atom, Task
from policies.scripted import goals
from policies.scripted.choice import FULLY_OPEN, Hold
from policies.scripted.library import Library
from policies.scripted.motion import CLOSED, HALT, OPEN, Waypoint
from policies.scripted.view import View

PICK = frozenset({"rise", "over", "open", "shape", "reach"})
CLOSE = "close"
CARRY = frozenset({"lift", "carry", "lower"})

_STROKE = 0.01  # metres that the gap between the fingers changes a control step
_FULL_STROKE_STEPS = 8
_SQUEEZE_STEPS = 4  # for the grip force to build up once the pads touch, or to go
_HOVER = 0.045  # above the grasp when the fingers arrive over the object, metres
_MARGIN = 0.03  # kept above things that are flown over, metres
_SWATH = 0.10  # half width of the corridor that must be clear, about the hand's reach, metres
_ASIDE = 0.025  # close enough to come straight down, metres


def pick_and_place(
    library: Library, task: Task, view: View, atom: Atom, hold: Hold, start: np.ndarray
) -> tuple[list[Waypoint], np.ndarray]:
    """The whole plan for one atom from `start` [3]; also the grip site relative to the object's origin [3], world axes."""
    entity = atom.args[0]
    grip = hold.site - view.pos(entity)
    steps = pick(library, task, view, atom, hold, start)
    return steps + place(library, task, view, atom, hold, grip, view.rot(entity), hold.site), grip


def visit(view: View, task: Task, atom: Atom) -> list[Waypoint]:
    """Over the thing that an atom is about, and no further: for what the experts do not know how to do."""
    name = atom.args[0]
    where = view.pos(name) if name in task.scene.entities else view.region(name)[0]
    below = view.near("", where[:2], _SWATH)
    top = max(float(where[2]), float(below[:, 2].max(initial=-np.inf)))
    return [Waypoint("visit", np.array([where[0], where[1], top + _HOVER]), view.hand_rot, OPEN, tolerance=0.02)]


def pick(library: Library, task: Task, view: View, atom: Atom, hold: Hold, start: np.ndarray) -> list[Waypoint]:
    """From `start` [3] over the object, down, and close."""
    arm, site = library.arm(task), hold.site
    wanted = max(site[2] + _HOVER, clearance(view, atom.args[0], start, site) + _MARGIN)
    over = np.array([site[0], site[1], min(wanted, arm.ceiling(site + np.array([0.0, 0.0, 0.02])))])
    rise = np.array([start[0], start[1], min(over[2], arm.ceiling(start))])
    aside = float(np.hypot(*(start - over)[:2]))
    plan = []
    if aside > _ASIDE and start[2] < rise[2] - 0.02:
        plan.append(Waypoint("rise", rise, hold.rot, OPEN, tolerance=0.02))
    if aside > _ASIDE or start[2] > over[2]:
        plan.append(Waypoint("over", over, hold.rot, OPEN, tolerance=0.015))
    approach = OPEN
    if hold.gap < FULLY_OPEN - _STROKE:
        # The sign of the action moves the fingers and zero stops them: count the steps from fully open.
        shut = round((FULLY_OPEN - hold.gap) / _STROKE)
        plan.append(Waypoint("open", over, hold.rot, OPEN, tolerance=0.02, dwell=_FULL_STROKE_STEPS))
        plan.append(Waypoint("shape", over, hold.rot, CLOSED, tolerance=0.05, dwell=shut - 1, patience=4))
        approach = HALT
    plan.append(Waypoint("reach", site, hold.rot, approach, tolerance=0.004, speed=0.2, patience=40, funnel=True))
    squeeze = int(np.ceil((FULLY_OPEN - hold.width) / _STROKE)) + _SQUEEZE_STEPS
    plan.append(Waypoint("close", site, hold.rot, CLOSED, tolerance=0.05, dwell=squeeze, patience=4))
    return plan


def place(
    library: Library,
    task: Task,
    view: View,
    atom: Atom,
    hold: Hold,
    grip: np.ndarray,
    rot: np.ndarray,
    start: np.ndarray,
) -> list[Waypoint]:
    """From `start` [3], holding the object, up, over the support, down, and open.

    Args:
      grip: [3] grip site relative to the object's origin, world axes.
      rot: [3, 3] orientation of the object's root while it is carried.
    """
    entity, arm = atom.args[0], library.arm(task)
    body = library.shapes(task).points(entity) @ rot.T
    end = goals.put_down(view, task, atom, body, grip, hold.angle, 0.5 * hold.width)
    hanging = grip[2] - float(body[:, 2].min())  # grip site above the object's lowest point
    wanted = max(end[2] + _MARGIN, clearance(view, entity, start, end) + hanging + _MARGIN)
    over = np.array([end[0], end[1], min(wanted, arm.ceiling(end + np.array([0.0, 0.0, 0.02])))])
    lift = np.array([start[0], start[1], min(wanted, arm.ceiling(start))])
    leave = np.array([end[0], end[1], max(over[2], min(end[2] + 0.08, arm.ceiling(end)))])
    plan = []
    if np.hypot(*(start - end)[:2]) > _ASIDE:
        if start[2] < lift[2] - 0.02:
            plan.append(Waypoint("lift", lift, hold.rot, CLOSED, tolerance=0.02, speed=0.2))
        plan.append(Waypoint("carry", over, hold.rot, CLOSED, tolerance=0.02, speed=0.21))
    plan.append(Waypoint("lower", end, hold.rot, CLOSED, tolerance=0.005, speed=0.18, patience=40, funnel=True))
    let_go = int(np.ceil(hold.width / _STROKE)) + _SQUEEZE_STEPS
    plan.append(Waypoint("release", end, hold.rot, OPEN, tolerance=0.05, dwell=let_go, patience=4))
    plan.append(Waypoint("leave", leave, hold.rot, OPEN, tolerance=0.02))
    return plan


def clearance(view: View, without: str, start: np.ndarray, end: np.ndarray) -> float:
    """Height of the tallest thing within the hand's reach of the straight path between two points, `-inf` if none."""
    points = view.corners(without)
    a, along = start[:2], (end - start)[:2]
    length = max(float(along @ along), 1e-9)
    t = np.clip((points[:, :2] - a) @ along / length, 0.0, 1.0)
    aside = points[:, :2] - a - t[:, None] * along
    return float(points[(aside**2).sum(1) < _SWATH**2, 2].max(initial=-np.inf))
