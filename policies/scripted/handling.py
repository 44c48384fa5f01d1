"""Plans for drawers, doors, knobs, buttons: which contact to use now, and the way along the joint's path."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from mjx_bench.task import Atom, Task, Threshold
from policies.scripted import goals
from policies.scripted.contacts import Contact, Travel, travel_of
from policies.scripted.geometry import Joint, Mechanism
from policies.scripted.grasp import HALF_TURN, canonical, obstruction, thinned
from policies.scripted.library import Library
from policies.scripted.motion import CLOSED, HALT, OPEN, Waypoint, rotation, rotation_error
from policies.scripted.plans import approach_height, squeeze_steps
from policies.scripted.view import View

APPROACH = frozenset({"rise", "over", "before", "open", "shape", "reach"})
DRIVE = "drive"

_BEYOND = 0.15  # of the joint's range, past the threshold
_OPENED = (0.75, 0.8, 0.85, 0.9)  # of the range, how far things may have to be open to put something in
_PAST = 0.02  # and a bit
_WIDE_OPEN = 0.97
_TURN = 0.10  # price of a radian of wrist
_FAILED = 0.6  # price of a contact like one that failed before
_BLOCKED = 3.0  # price of something in the way of the hand
_SIMILAR = 0.025  # metres between contacts that fail for the same reason
_MISSED = 0.012  # of inverse kinematics (metres, and tenths of radians), beyond which a pose is out of reach
_UNREACHED = 4.0  # price of a pose out of reach
_STANDOFF = 0.05  # of the hand before it goes in, metres
_STEP = 0.025  # metres between waypoints along the path
_PRESS = 0.012  # metres beyond the target, where a push is held up
_CLEAR = 0.002  # kept between the hand and what does not move, metres
_GRAIN = 0.008  # between points that are looked at, metres
_DEEP = 0.015  # in the hand's way, metres


@dataclasses.dataclass(frozen=True)
class Goal:
    """What is wanted of a joint.

    Attributes:
      mechanism: what it moves.
      forward: +1 or -1, the sign of the motion.
      target: position to go for: past the threshold, within the joint's range.
    """

    mechanism: Mechanism
    forward: float
    target: float


def joints_of(task: Task, atom: Atom) -> tuple[tuple[str, ...], Threshold] | None:
    """The joints that an atom judges and the test, None when it judges no joint."""
    name = atom.args[0]
    if name in task.scene.entities:
        owner, joints = task.scene.entities[name], task.scene.entities[name].joints
    elif name in task.scene.regions and (parent := task.scene.regions[name].parent) is not None:
        owner, joints = task.scene.entities[parent], task.scene.regions[name].joints
    else:
        return None
    if atom.predicate not in owner.thresholds or not joints:
        return None
    return joints, owner.thresholds[atom.predicate]


def goal_of(view: View, task: Task, atom: Atom, inside: Atom | None = None) -> Goal | None:
    """The joint to move for an atom: of those that fail its test, the one that lacks least. None when it judges no joint.

    When it is `inside` that counts, the joint is to open as far as putting the object in takes.
    """
    found = joints_of(task, atom)
    if found is None:
        return None
    names, test = found
    forward = direction(test)
    lacking = {name: forward * (test.value - view.joints[name]) for name in names}
    name = min(lacking, key=lambda n: (lacking[n] <= 0.0, lacking[n]))
    mechanism = view.shapes.mechanisms[name]
    joint = mechanism.joint
    if inside is not None:
        return Goal(mechanism, forward, _opening(view, task, inside, joint, forward))
    target = test.value + forward * _BEYOND * (joint.high - joint.low)
    return Goal(mechanism, forward, float(np.clip(target, joint.low, joint.high)))


def direction(test: Threshold) -> float:
    """+1 for a test that asks for more of a joint, -1 for less."""
    return 1.0 if test.comparison in (">", ">=") else -1.0


def open_enough(view: View, task: Task, atom: Atom, inside: Atom) -> bool:
    """Whether the one joint that an opening judges is open far enough for the object of the atom `inside`."""
    found = joints_of(task, atom)
    assert found is not None
    (name,), test = found
    joint, forward = view.shapes.mechanisms[name].joint, direction(test)
    least, most = (_position(joint, forward, fraction) for fraction in (_OPENED[0], _WIDE_OPEN))
    here = forward * view.joints[name]
    return here >= forward * most or (here >= forward * least and _fits(view, task, inside))


def _opening(view: View, task: Task, inside: Atom, joint: Joint, forward: float) -> float:
    """How far to open: no further than it takes, since a drawer hides what stands before its cabinet."""
    for fraction in _OPENED:
        position = _position(joint, forward, fraction)
        if _fits(view.with_joint(joint.name, position), task, inside):
            return position + forward * _PAST * (joint.high - joint.low)
    return _position(joint, forward, 1.0)


def _position(joint: Joint, forward: float, fraction: float) -> float:
    shut, wide = (joint.low, joint.high) if forward > 0 else (joint.high, joint.low)
    return shut + fraction * (wide - shut)


def _fits(view: View, task: Task, inside: Atom) -> bool:
    body = view.shapes.points(inside.args[0]) @ view.rot(inside.args[0]).T
    return goals.fits(view, inside, goals.landing(view, task, inside, body), body)


@dataclasses.dataclass(frozen=True)
class Placed:
    """A contact in the world, with what it moves.

    Attributes:
      contact: as in its table.
      site: [3] grip site now, world metres.
      rot: [3, 3] hand orientation now.
      travel: of the joint, world.
      here: position of the joint now.
    """

    contact: Contact
    site: np.ndarray
    rot: np.ndarray
    travel: Travel
    here: float

    def at(self, joint: float, forward: float) -> tuple[np.ndarray, np.ndarray]:
        """Grip site and hand orientation that keep to the part when the joint is elsewhere."""
        way = forward * (joint - self.here)
        if not self.travel.hinge:
            return self.site + way * self.travel.axis, self.rot
        turn = rotation(way * self.travel.axis)
        return self.travel.anchor + turn @ (self.site - self.travel.anchor), turn @ self.rot


def place(view: View, goal: Goal, contact: Contact) -> Placed:
    """A contact where its part is now."""
    pos, rot = view.moving(goal.mechanism)
    lying, heading, _ = canonical(rot)
    c, s = np.cos(heading), np.sin(heading)
    turn = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
    local = travel_of(goal.mechanism.joint, lying, goal.forward)
    travel = Travel(local.hinge, turn @ local.axis, pos + turn @ local.anchor)
    here = view.joints[goal.mechanism.joint.name]
    return Placed(contact, pos + turn @ contact.site, turn @ contact.rot, travel, here)


def _angle(a: np.ndarray, b: np.ndarray) -> float:
    turn = rotation_error(a, b)
    return float(np.sqrt(turn @ turn))


def choose(library: Library, task: Task, view: View, goal: Goal, failed: Sequence[np.ndarray]) -> Placed | None:
    """The contact with the best trade of quality, turning of the wrist, room around it, and reach.

    Args:
      failed: sites [3] (canonical frame) of contacts that were tried in vain.

    Returns:
      None when the part offers none.
    """
    table = library.contacts(task, view, goal.mechanism, goal.forward)
    if not table:
        return None
    table += tuple(dataclasses.replace(contact, rot=contact.rot @ HALF_TURN) for contact in table)
    placed = [place(view, goal, contact) for contact in table]
    cost = np.array([p.contact.cost + _TURN * _angle(p.rot, view.hand_rot) for p in placed])
    for site in failed:
        far = np.array([((p.contact.site - site) ** 2).sum() for p in placed])
        cost[far < _SIMILAR**2] += _FAILED
    best: tuple[float, Placed] | None = None
    others = thinned(view.around(goal.mechanism, np.mean([p.site for p in placed], 0), 0.35), _GRAIN)
    for k in np.argsort(cost, kind="stable"):
        limit = np.inf if best is None else best[0]
        if cost[k] >= limit:
            break
        total = float(cost[k])
        for pose in _poses(placed[k], goal):
            if total < limit:
                total = max(total, float(cost[k]) + _BLOCKED * _blocked(placed[k].contact, pose, others))
        if total < limit:
            total += _UNREACHED * _unreached(library, task, view, placed[k], goal)
        if total < limit:
            best = total, placed[k]
    assert best is not None
    return best[1]


def _poses(placed: Placed, goal: Goal) -> list[tuple[np.ndarray, np.ndarray]]:
    """Grip site and hand orientation where it starts, half way and where it ends."""
    return [placed.at(float(q), goal.forward) for q in np.linspace(placed.here, goal.target, 3)]


def _blocked(contact: Contact, pose: tuple[np.ndarray, np.ndarray], others: np.ndarray) -> float:
    """How deep things are in the hand's way: from 0 to 1, at `_DEEP`."""
    inner = 0.5 * contact.gap if contact.grip else 0.0
    return min(1.0, max(0.0, obstruction(others, *pose, inner) + _CLEAR) / _DEEP)


def _unreached(library: Library, task: Task, view: View, placed: Placed, goal: Goal) -> float:
    """How much of the way is out of the arm's reach, from 0 to 1."""
    arm, joints = library.arm(task), view.joint_pos
    site, rot = placed.site, placed.rot
    missed = 0.0
    poses = [(site - _STANDOFF * rot[:, 2], rot), (site, rot)]
    poses += [placed.at(q, goal.forward) for q in np.linspace(placed.here, goal.target, 4)[1:]]
    for where, how in poses:
        joints, left = arm.reach(where, how, joints)
        missed += min(1.0, max(0.0, left - _MISSED) / 0.05)
    return missed / len(poses)


def plan(library: Library, task: Task, view: View, placed: Placed, goal: Goal) -> list[Waypoint]:
    """From the hand's place now to the part, with it to the goal, and away."""
    arm, contact = library.arm(task), placed.contact
    site, rot = placed.site, placed.rot
    before = site - _STANDOFF * rot[:, 2]
    shut = CLOSED if not contact.grip else OPEN
    wanted = approach_height(view, "", view.eef, before, before[2])
    over = np.array([before[0], before[1], max(before[2], min(wanted, arm.ceiling(before)))])
    rise = np.array([view.eef[0], view.eef[1], min(over[2], arm.ceiling(view.eef))])
    steps = []
    if view.eef[2] < rise[2] - 0.02:
        steps.append(Waypoint("rise", rise, view.hand_rot, shut, tolerance=0.02))
    steps.append(Waypoint("over", over, rot, shut, tolerance=0.015))
    if over[2] > before[2] + 0.02:
        steps.append(Waypoint("before", before, rot, shut, tolerance=0.01))
    approach = shut
    if contact.grip and contact.gap < arm.widest - 2.0 * arm.stroke:
        shape = round((arm.widest - contact.gap) / arm.stroke)
        steps.append(Waypoint("open", before, rot, OPEN, tolerance=0.02, dwell=8))
        steps.append(Waypoint("shape", before, rot, CLOSED, tolerance=0.05, dwell=shape - 1, patience=4))
        approach = HALT
    steps.append(Waypoint("reach", site, rot, approach, tolerance=0.005, speed=0.2, patience=40, funnel=True))
    if contact.grip:
        squeeze = squeeze_steps(arm, contact.width)
        steps.append(Waypoint("close", site, rot, CLOSED, tolerance=0.05, dwell=squeeze, patience=4))
    return steps + drive(placed, goal)


def drive(placed: Placed, goal: Goal) -> list[Waypoint]:
    """From the contact along the joint's path to the goal, and away."""
    contact, way = placed.contact, abs(goal.target - placed.here)
    radius = float(np.sqrt((placed.travel.velocity(placed.site) ** 2).sum()))
    count = max(1, int(np.ceil(way * radius / _STEP)), int(np.ceil(way / 0.2)) if placed.travel.hinge else 1)
    steps = []
    for q in np.linspace(placed.here, goal.target, count + 1)[1:]:
        site, rot = placed.at(float(q), goal.forward)
        last = q == goal.target
        if not contact.grip:
            velocity = placed.travel.velocity(site)
            site = site + (0.006 + (_PRESS if last else 0.0)) * velocity / float(np.sqrt(velocity @ velocity))
        steps.append(
            Waypoint(DRIVE, site, rot, CLOSED, tolerance=0.005 if last else 0.015, speed=0.15, patience=30, dwell=0)
        )
    end = steps[-1]
    back = end.pos - 0.08 * end.rot[:, 2]
    if contact.grip:
        steps.append(Waypoint("release", end.pos, end.rot, OPEN, tolerance=0.05, dwell=8, patience=4))
        steps.append(Waypoint("leave", back, end.rot, OPEN, tolerance=0.02))
    else:
        steps.append(Waypoint("leave", back, end.rot, CLOSED, tolerance=0.02, patience=30))
    return steps
