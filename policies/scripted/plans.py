"""Pick-and-place plans: waypoints from a view of the scene, a goal atom and a grasp.

A plan goes through the stages rise, over, open, shape, reach | close | lift, carry, lower | release, leave, leaving out
those that are not needed.
"""

from __future__ import annotations

import numpy as np

from mjx_bench.task import Atom, Task
from policies.scripted import goals
from policies.scripted.arm import Arm
from policies.scripted.choice import FULLY_OPEN, Hold
from policies.scripted.grasp import columns, lowest_site
from policies.scripted.inserting import WayIn
from policies.scripted.library import Library
from policies.scripted.motion import CLOSED, HALT, OPEN, Waypoint
from policies.scripted.view import View

PICK = frozenset({"rise", "over", "open", "shape", "reach"})
CLOSE = "close"
CARRY = frozenset({"lift", "carry", "lower", "insert"})

FULL_STROKE_STEPS = 8
_SQUEEZE_STEPS = 4  # for the grip force to build up once the pads touch, or to go
_HOVER = 0.045  # above the grasp when the fingers arrive over the object, metres
_OVER_TOP = 0.024  # above the object that is to be taken, which may be higher beside the grasp, metres
_MARGIN = 0.03  # kept above things that are flown over, metres
_SWATH = 0.10  # half width of the corridor that must be clear, about the hand's reach, metres
_OFF = 0.015  # an object is lifted before it is moved aside, metres
_STEPS_ASIDE = (0.0, 0.015, 0.03, 0.045, 0.06, 0.08)  # metres
_WIDER = 0.006 * np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])  # metres
_ASIDE = 0.025  # close enough to come straight down, metres


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
    top = float(view.cloud(atom.args[0])[:, 2].max())
    wanted = max(site[2] + _HOVER, top + _OVER_TOP, clearance(view, atom.args[0], start, site) + _MARGIN)
    over = np.array([site[0], site[1], min(wanted, arm.ceiling(site + np.array([0.0, 0.0, 0.02])))])
    rise = np.array([start[0], start[1], min(over[2], arm.ceiling(start))])
    aside = float(np.hypot(*(start - over)[:2]))
    plan = []
    if aside > _ASIDE and start[2] < rise[2] - 0.02:
        plan.append(Waypoint("rise", rise, hold.rot, OPEN, tolerance=0.02))
    if aside > _ASIDE or start[2] > over[2]:
        plan.append(Waypoint("over", over, hold.rot, OPEN, tolerance=0.015))
    approach = OPEN
    if hold.gap < FULLY_OPEN - arm.stroke:
        # The sign of the action moves the fingers and zero stops them: count the steps from fully open.
        shut = round((arm.widest - hold.gap) / arm.stroke)
        plan.append(Waypoint("open", over, hold.rot, OPEN, tolerance=0.02, dwell=FULL_STROKE_STEPS))
        plan.append(Waypoint("shape", over, hold.rot, CLOSED, tolerance=0.05, dwell=shut - 1, patience=4))
        approach = HALT
    plan.append(Waypoint("reach", site, hold.rot, approach, tolerance=0.004, speed=0.2, patience=40, funnel=True))
    squeeze = squeeze_steps(arm, hold.width)
    plan.append(Waypoint("close", site, hold.rot, CLOSED, tolerance=0.05, dwell=squeeze, patience=4))
    return plan


def squeeze_steps(arm: Arm, width: float) -> int:
    """Control steps to close from fully open on something of `width` metres, and to press it."""
    return int(np.ceil((arm.widest - width) / arm.stroke)) + _SQUEEZE_STEPS


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
    there = goals.landing(view, task, atom, body)
    (end,), _ = goals.let_go(there, grip[None], np.array([hold.angle]), np.array([0.5 * hold.width]))
    hanging = grip[2] - float(body[:, 2].min())  # grip site above the object's lowest point
    wanted = max(end[2] + _MARGIN, clearance(view, entity, start, end) + hanging + _MARGIN)
    over = np.array([end[0], end[1], min(wanted, arm.ceiling(end + np.array([0.0, 0.0, 0.02])))])
    lift = np.array([start[0], start[1], min(wanted, arm.ceiling(start))])
    leave = np.array([end[0], end[1], max(over[2], min(end[2] + 0.08, arm.ceiling(end)))])
    plan = []
    if np.hypot(*(start - end)[:2]) > _ASIDE:
        step = sidestep(view, entity, start, hold, lift[2])
        if step.any():
            out = start + np.array([*step, _OFF])
            plan.append(
                Waypoint("lift", start + np.array([0.0, 0.0, _OFF]), hold.rot, CLOSED, tolerance=0.006, speed=0.1)
            )
            plan.append(Waypoint("lift", out, hold.rot, CLOSED, tolerance=0.008, speed=0.15))
            lift = np.array([*out[:2], lift[2]])
        if start[2] < lift[2] - 0.02:
            plan.append(Waypoint("lift", lift, hold.rot, CLOSED, tolerance=0.02, speed=0.2))
        plan.append(Waypoint("carry", over, hold.rot, CLOSED, tolerance=0.02, speed=0.21))
    plan.append(Waypoint("lower", end, hold.rot, CLOSED, tolerance=0.005, speed=0.18, patience=40, funnel=True))
    let_go = int(np.ceil(hold.width / arm.stroke)) + _SQUEEZE_STEPS
    plan.append(Waypoint("release", end, hold.rot, OPEN, tolerance=0.05, dwell=let_go, patience=4))
    plan.append(Waypoint("leave", leave, hold.rot, OPEN, tolerance=0.02))
    return plan


def insert(
    library: Library, task: Task, view: View, atom: Atom, hold: Hold, way: WayIn, grip: np.ndarray, start: np.ndarray
) -> list[Waypoint]:
    """From `start` [3], holding the object, up, down before the place, in, open, and out again."""
    entity, arm = atom.args[0], library.arm(task)
    outside, inside = way.outside + grip, way.inside + grip
    hanging = float(start[2] - view.cloud(entity)[:, 2].min())
    wanted = max(outside[2] + _MARGIN, clearance(view, entity, start, outside) + hanging + _MARGIN)
    over = np.array([*outside[:2], min(wanted, arm.ceiling(outside))])
    up = np.array([*start[:2], min(wanted, arm.ceiling(start))])
    let_go = int(np.ceil(hold.width / arm.stroke)) + _SQUEEZE_STEPS
    steps = [Waypoint("lift", up, hold.rot, CLOSED, tolerance=0.02, speed=0.2)] if start[2] < up[2] - 0.02 else []
    return [
        *steps,
        Waypoint("carry", over, hold.rot, CLOSED, tolerance=0.015, speed=0.21),
        Waypoint("lower", outside, hold.rot, CLOSED, tolerance=0.006, speed=0.18, patience=40),
        Waypoint("insert", inside, hold.rot, CLOSED, tolerance=0.005, speed=0.12, patience=40),
        Waypoint("release", inside, hold.rot, OPEN, tolerance=0.05, dwell=let_go, patience=4),
        Waypoint("leave", outside, hold.rot, OPEN, tolerance=0.03),
    ]


def sidestep(view: View, entity: str, start: np.ndarray, hold: Hold, height: float) -> np.ndarray:
    """[2] the shortest way aside from which an object and the hand on it can go straight up from `start` [3] to `height`.

    Zero where nothing is above them, and where nowhere near is free.
    """
    cloud, hand = view.cloud(entity), np.array([hold.angle])
    near = columns(view.near(entity, start[:2], 0.25, above=float(cloud[:, 2].min())))
    near = near[near[:, 2] < height]
    origin = view.pos(entity)
    body = cloud - origin
    for length in _STEPS_ASIDE:
        for turn in np.arange(8 if length else 1) * np.pi / 4:
            step = length * np.array([np.cos(turn), np.sin(turn)])
            around = [step, *(step + d for d in _WIDER)]
            free = all(goals.rest_height(body, origin[:2] + d, near) < origin[2] + _OFF for d in around)
            room = lowest_site(near, (start[:2] + step)[None], hand, np.array([0.5 * hold.width]))[0]
            if free and room < start[2] + _OFF:
                return step
    return np.zeros(2)


def lift(library: Library, task: Task, view: View, atom: Atom, hold: Hold, start: np.ndarray) -> list[Waypoint]:
    """From `start` [3], holding the object, straight up until it counts as lifted, and stay there."""
    up = goals.LIFTED + 0.03 - view.pos(atom.args[0])[2]
    top = np.array([start[0], start[1], min(start[2] + up, library.arm(task).ceiling(start))])
    return [Waypoint("lift", top, hold.rot, CLOSED, tolerance=0.005, speed=0.2, dwell=40)]


def approach_height(view: View, without: str, start: np.ndarray, end: np.ndarray, least: float) -> float:
    """Height to fly at from `start` [3] to `end` [3], over everything that is in between; metres."""
    return max(least, clearance(view, without, start, end) + _MARGIN)


def clearance(view: View, without: str, start: np.ndarray, end: np.ndarray) -> float:
    """Height of the tallest thing within the hand's reach of the straight path between two points, `-inf` if none."""
    points = view.corners(without)
    a, along = start[:2], (end - start)[:2]
    length = max(float(along @ along), 1e-9)
    t = np.clip((points[:, :2] - a) @ along / length, 0.0, 1.0)
    aside = points[:, :2] - a - t[:, None] * along
    return float(points[(aside**2).sum(1) < _SWATH**2, 2].max(initial=-np.inf))
