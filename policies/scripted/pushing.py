"""Plans for objects that the gripper cannot take: half-open fingers push them over what they stand on.

Two fingers cradle what is round and hold what is flat, so the object goes straight before them.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from mjx_bench.task import Atom, Task
from policies.scripted import goals
from policies.scripted.arm import Arm
from policies.scripted.grasp import FINGER_HALF_WIDTH, TIP_BELOW, TIP_DEPTH, hand_rotation, obstruction
from policies.scripted.library import Library
from policies.scripted.motion import CLOSED, HALT, OPEN, Waypoint, rotation
from policies.scripted.plans import FULL_STROKE_STEPS, approach_height
from policies.scripted.view import View

APPROACH = frozenset({"rise", "over", "open", "shape", "before", "lower"})
PUSH = "push"

_GAP = 0.040  # between the fingers, metres
_BEHIND = 0.02  # of the fingers before they push, metres
_ABOVE = 0.006  # of the finger tips above what the object stands on, metres
_SPEED = 0.15  # m/s
_TILTS = np.radians([0.0, 20.0, 35.0, 50.0])  # of the hand over the object
_BLOCKED = 50.0  # radians of tilt that a metre in the hand's way is worth
_TALL = 0.03  # of the fingers, over which they can touch, metres
_SINK = 0.1  # metres down a metre: what slopes away from the fingers lifts them
_LAG = 0.12  # of its way, by which the object stays behind the hand
_FAR = 0.02  # at most, metres: an object that did not lag would still be where it belongs
_IN = 0.06  # of the way in along the fingers, metres


@dataclasses.dataclass(frozen=True)
class Push:
    """A straight push.

    Attributes:
      start: [2] the object's origin before it, world metres.
      end: [2] and after it.
      along: [2] its direction.
      back: grip site behind the object's origin when the fingers touch it, metres.
      height: of the grip site, world.
      hand: [3, 3] orientation of the hand: fingers side by side, upright or leaning over the object.
    """

    start: np.ndarray
    end: np.ndarray
    along: np.ndarray
    back: float
    height: float
    hand: np.ndarray

    def site(self, origin: np.ndarray, extra: float = 0.0) -> np.ndarray:
        """[3] grip site behind an object at `origin` [2], `extra` metres short of touching it."""
        return np.array([*(origin - (self.back + extra) * self.along), self.height])


def aim(arm: Arm, view: View, task: Task, atom: Atom) -> Push:
    """The push that takes the atom's object straight to where it belongs, the hand as upright as things around allow."""
    entity = atom.args[0]
    origin, goal = view.pos(entity)[:2], goals.target_point(view, task, atom)[:2]
    way = goal - origin
    length = float(np.hypot(*way))
    along = way / length if length > 1e-6 else np.array([1.0, 0.0])
    cloud, near = view.cloud(entity), view.near(entity, origin, 0.3)
    base = max(float(cloud[:, 2].min()), view.shapes.ground)
    upright = hand_rotation(float(np.arctan2(along[1], along[0])) + np.pi / 2, view.hand_rot)
    best: tuple[float, Push] | None = None
    for tilt in _TILTS:
        # Leaning forward: the fingers point down and back, the hand is over the object.
        hand = rotation(tilt * np.array([-along[1], along[0], 0.0])) @ upright
        height = base + _ABOVE + TIP_BELOW * np.cos(tilt) + FINGER_HALF_WIDTH * np.sin(tilt)
        push = Push(origin, goal, along, _back(cloud - np.array([*origin, height]), along, tilt), height, hand)
        blocked = max(0.0, obstruction(near, push.site(origin, _BEHIND), hand, 0.5 * _GAP))
        cost = tilt + _BLOCKED * blocked
        if best is None or cost < best[0]:
            best = cost, push
    assert best is not None
    push = best[1]
    return dataclasses.replace(push, hand=arm.turned(view, [push.site(origin, _BEHIND), push.site(goal)], push.hand))


def _back(points: np.ndarray, along: np.ndarray, tilt: float) -> float:
    """Grip site behind the origin when fingers that lean by `tilt` touch points [N, 3] about (origin, site's height)."""
    s, t, z = points[:, :2] @ along, points[:, :2] @ np.array([-along[1], along[0]]), points[:, 2]
    touched = (np.abs(t) < 0.5 * _GAP + TIP_DEPTH) & (z > -TIP_BELOW) & (z < _TALL)
    # In the plane of the lean, the fingers' front is a line through (half their width, 0) that leans forward.
    front = np.sin(tilt) * z[touched] + FINGER_HALF_WIDTH
    return float(((front - np.cos(tilt) * s[touched]) / np.cos(tilt)).max(initial=0.0))


def plan(library: Library, task: Task, view: View, push: Push) -> list[Waypoint]:
    """From the hand's place now to behind the object, with it to the goal, and away."""
    arm, here, hand = library.arm(task), view.eef, push.hand
    start, end = push.site(push.start, _BEHIND), push.site(push.end)
    length = float(np.hypot(*(end - start)[:2]))
    end += np.array([*(min(_FAR, _LAG * length) * push.along), -_SINK * length])
    before = start - _IN * hand[:, 2]
    wanted = approach_height(view, "", here, before, before[2])
    over = np.array([*before[:2], min(wanted, arm.ceiling(before))])
    rise = np.array([*here[:2], min(over[2], arm.ceiling(here))])
    far = float(np.hypot(*(before - here)[:2])) > 0.15  # the fingers have opened by the time the hand is there
    steps = [Waypoint("rise", rise, view.hand_rot, OPEN, tolerance=0.02)] if here[2] < rise[2] - 0.02 else []
    line = (end - start) / float(np.sqrt((end - start) @ (end - start)))
    return [
        *steps,
        Waypoint("over", over, hand, OPEN, tolerance=0.015),
        Waypoint("open", over, hand, OPEN, tolerance=0.02, dwell=0 if far else FULL_STROKE_STEPS),
        Waypoint("shape", over, hand, CLOSED, tolerance=0.05, dwell=_shape(arm), patience=4),
        Waypoint("before", before, hand, HALT, tolerance=0.015),
        Waypoint("lower", start, hand, HALT, tolerance=0.006, patience=40),
        Waypoint(PUSH, end, hand, HALT, tolerance=0.004, speed=_SPEED, patience=80, line=line),
        Waypoint("leave", push.site(push.end, _BEHIND), hand, HALT, tolerance=0.01),
    ]


def _shape(arm: Arm) -> int:
    return round((arm.widest - _GAP) / arm.stroke) - 1
