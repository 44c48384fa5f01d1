"""How a gripper can move something that has a joint: hold it between the fingers, or push it with a closed hand.

Everything here is in the canonical frame of the body that the joint moves (see `grasp.canonical`): its z is the world's up,
and headings about z are left out. `forward` is +1 or -1, the sign of the joint's motion that is wanted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from policies.scripted.geometry import Joint
from policies.scripted.grasp import (
    FINGER_HALF_WIDTH,
    HAND_ABOVE,
    HAND_HALF,
    MAX_HALF_OPENING,
    PAD_BELOW,
    TIP_BELOW,
    TIP_DEPTH,
    Grasp,
    find_grasps,
    hand_rotation,
    thinned,
)
from policies.scripted.motion import rotation

_DOWN = np.diag([1.0, -1.0, -1.0])
_TILTS = np.radians([30.0, 50.0, 70.0, 90.0])  # of the hand from straight down
_OPENINGS = (0.016, 0.022, MAX_HALF_OPENING)  # half gaps between the fingers on the way in, metres
_ANGLES = np.arange(12) * np.pi / 12

# Prices, in the unit of a grasp table's cost.
_GRIP = 0.2
_TILT = 0.12  # a radian from straight down
_ASKEW = 0.05  # fingers that close across the motion, and hold by friction alone
_SHORT = 0.5  # pushing close to the axis of a hinge
_ASIDE = 1.0  # a metre from the middle of what is pushed
_GLANCING = 0.6  # pushing along a surface and not into it
_HOOK = 0.3  # from behind a part, where there is little room
_LEANING = 0.15  # faces that lean from the way in, and slip out of the pads
_SHAPED = 0.15  # going in with narrow fingers, which takes time

FIST = (TIP_DEPTH, FINGER_HALF_WIDTH)  # half sizes of a closed pair of fingers, along and across the finger axis
_ROOM = 0.003  # kept between hand and part, metres
_GRID = 0.010  # between points that are tried, metres
_BITE = 0.008  # of a finger on the part that it pushes, metres
_STAND = 0.006  # between fingers and part before they push, metres


@dataclasses.dataclass(frozen=True)
class Contact:
    """One way to take hold of, or to lean on, a moving part.

    Attributes:
      site: [3] grip site, metres.
      rot: [3, 3] orientation of the hand.
      grip: whether the fingers close on the part; if not, they are closed all the way, and push.
      gap: opening of the fingers on the way in, metres.
      width: thickness between the pads, metres; 0 for a push.
      push: [3] direction in which a push starts.
      cost: lower is better.
    """

    site: np.ndarray
    rot: np.ndarray
    grip: bool
    gap: float
    width: float
    push: np.ndarray
    cost: float


@dataclasses.dataclass(frozen=True)
class Travel:
    """Where a joint takes points.

    Attributes:
      hinge: it turns.
      axis: [3] unit vector, in the direction of the motion that is wanted.
      anchor: [3] a point on the axis.
    """

    hinge: bool
    axis: np.ndarray
    anchor: np.ndarray

    def velocity(self, points: np.ndarray) -> np.ndarray:
        """[..., 3] metres a unit of the joint."""
        return np.cross(self.axis, points - self.anchor) if self.hinge else np.broadcast_to(self.axis, points.shape)


def travel_of(joint: Joint, rot: np.ndarray, forward: float) -> Travel:
    """The motion of a joint in a frame that is turned by `rot` [3, 3] from its body's, with the same origin."""
    return Travel(joint.hinge, forward * (rot @ joint.axis), rot @ joint.anchor)


def find_contacts(points: np.ndarray, travel: Travel, limit: int = 40) -> tuple[Contact, ...]:
    """Tabulates contacts of a moving part.

    Args:
      points: [N, 3] its surface.
      travel: what is wanted of it.
      limit: how many to keep of each kind and each tilt of the hand.

    Returns:
      Contacts by rising cost, checked against the part itself and against nothing else.
    """
    found: list[Contact] = []
    if len(points):
        for turn, tilt, straight in _frames(points, travel):
            for some in (_grips(points, travel, turn, tilt, straight), _pushes(points, travel, turn, tilt)):
                found += sorted(some, key=_order)[:limit]
    return tuple(sorted(found, key=_order))


def _order(contact: Contact) -> tuple[float, ...]:
    return contact.cost, *contact.site, *contact.rot.ravel()


def _frames(points: np.ndarray, travel: Travel) -> Iterator[tuple[np.ndarray, float, float | None]]:
    """Frames in which the hand points down: rotation into the frame, tilt of the hand, and its azimuth there."""
    yield np.eye(3), 0.0, None
    velocity = travel.velocity(points)
    fastest = velocity[int(np.argmax((velocity**2).sum(1)))]
    level = float(np.hypot(fastest[0], fastest[1]))
    if level < 0.3 * float(np.sqrt(fastest @ fastest)):
        return
    for sign in (-1.0, 1.0):
        towards = sign * np.array([fastest[0], fastest[1], 0.0]) / level
        for tilt in _TILTS:
            axis = np.cross(towards, [0.0, 0.0, -1.0])  # takes the way the hand points to straight down
            yield rotation(tilt * axis), float(tilt), float(np.arctan2(towards[1], towards[0]))


def _grips(
    points: np.ndarray, travel: Travel, turn: np.ndarray, tilt: float, straight: float | None
) -> Iterator[Contact]:
    """Grasps, from the table that objects have, in one frame."""
    origin = points.mean(0)
    local = (points - origin) @ turn.T
    # A tilted hand turns its fingers into the plane of the tilt, or across it.
    angles = _ANGLES if straight is None else (straight % np.pi, (straight + np.pi / 2) % np.pi)
    span = _span(points, travel)
    for half in _OPENINGS:
        for grasp in find_grasps(local, 24, angles, half, TIP_DEPTH):
            site = origin + turn.T @ grasp.offset
            rot = turn.T @ hand_rotation(grasp.angle, _DOWN)
            velocity = travel.velocity(site)
            speed = float(np.sqrt(velocity @ velocity))
            # A part that turns about the fingers' middle is driven by the pads' width, whichever way they face.
            across = 1.0 - abs(float(rot[:, 1] @ velocity)) / speed if speed > 0.01 * span else 0.0
            turning = travel.hinge and speed < 0.3 * span
            shaped = _SHAPED if half < MAX_HALF_OPENING else 0.0
            shaped += _LEANING * _lean(local, grasp, half)
            cost = _GRIP + shaped + grasp.cost + _TILT * tilt + (0.0 if turning else _ASKEW * across)
            if travel.hinge and not turning:
                cost += _SHORT * (1.0 - speed / span)
            elif turning and abs(float(travel.axis[2])) < 0.9:
                continue
            yield Contact(site, rot, True, 2.0 * half, grasp.width, np.zeros(3), cost)


def _lean(local: np.ndarray, grasp: Grasp, reach: float) -> float:
    """How far the faces between the pads lean from the way in: their slopes, added."""
    u = np.array([np.cos(grasp.angle), np.sin(grasp.angle), 0.0])
    d = local - grasp.offset
    s, t, z = d @ u, d[:, 1] * u[0] - d[:, 0] * u[1], d[:, 2]
    between = (np.abs(s) < reach) & (np.abs(t) < 0.009)
    low, high = s[between & (z > -PAD_BELOW) & (z < 0.0)], s[between & (z >= 0.0) & (z < PAD_BELOW)]
    if not len(low) or not len(high):
        return 1.0
    return (abs(float(low.max() - high.max())) + abs(float(low.min() - high.min()))) / PAD_BELOW


def _span(points: np.ndarray, travel: Travel) -> float:
    """Speed of the part's fastest point a unit of the joint."""
    return float(np.sqrt((travel.velocity(points) ** 2).sum(1).max()))


def _pushes(points: np.ndarray, travel: Travel, turn: np.ndarray, tilt: float) -> Iterator[Contact]:
    """Places for closed fingers in one frame: against a side of the part, or on top of what goes down."""
    span, middle = _span(points, travel), 0.5 * (points.min(0) + points.max(0))
    local, tried = points @ turn.T, thinned(points, _GRID)
    for point in tried[:: max(1, len(tried) // 300)]:
        p, velocity = turn @ point, turn @ travel.velocity(point)
        speed = float(np.sqrt(velocity @ velocity))
        if speed < 0.3 * span:
            continue
        velocity = velocity / speed
        level = float(np.hypot(velocity[0], velocity[1]))
        if level > 0.6:
            site, across = _beside(local, p, velocity[:2] / level)
            aim = np.array([velocity[0] / level, velocity[1] / level, 0.0])
            glancing = 1.0 - level
        elif velocity[2] < -0.8:
            site, across = _above(local, p)
            aim, glancing = np.array([0.0, 0.0, -1.0]), 1.0 + float(velocity[2])
        else:
            continue
        if site is None:
            continue
        aside = float(np.sqrt(((point - middle) ** 2).sum())) if not travel.hinge else 0.0
        cost = _TILT * tilt + _GLANCING * glancing + _ASIDE * aside + across
        if travel.hinge:
            cost += _SHORT * (1.0 - speed / span)
        headings = [float(np.arctan2(aim[1], aim[0])) + np.pi / 2] if aim[2] == 0.0 else _ANGLES[::3]
        for angle in headings:
            rot = turn.T @ hand_rotation(angle, _DOWN)
            yield Contact(turn.T @ site, rot, False, 0.0, 0.0, turn.T @ aim, cost)


def _beside(local: np.ndarray, p: np.ndarray, ahead: np.ndarray) -> tuple[np.ndarray | None, float]:
    """Fingers upright behind point `p` [3], to push it along `ahead` [2]; the site (None: no room) and what it costs."""
    d = local - p
    s, t, z = d[:, :2] @ ahead, d[:, :2] @ np.array([-ahead[1], ahead[0]]), d[:, 2]
    deep = z > -TIP_BELOW - _ROOM
    wide = np.abs(t) < FIST[0] + _ROOM
    behind = s[deep & wide & (s < -0.002)]
    if len(behind) and float(behind.max()) > -(2.0 * FIST[1] + _STAND + _ROOM):
        return None, 0.0
    centre = -(FIST[1] + _STAND)
    hand = (np.abs(s - centre) < HAND_HALF[1] + _ROOM) & (np.abs(t) < HAND_HALF[0] + _ROOM)
    if (hand & (z > HAND_ABOVE - _ROOM)).any():
        return None, 0.0
    face = wide & (np.abs(s) < 0.003) & (z > -TIP_BELOW)
    if not face.any() or float(z[face].max()) < _BITE - TIP_BELOW or not (z[face] > -0.004).any():
        return None, 0.0
    # The middle of the fingers should meet something; an edge that only one of them touches twists the wrist.
    edge = 0.15 if not (face & (t > 0.004)).any() or not (face & (t < -0.004)).any() else 0.0
    cost = edge + (_HOOK if len(behind) else 0.0)
    return p + np.array([*(centre * ahead), 0.0]), cost


def _above(local: np.ndarray, p: np.ndarray) -> tuple[np.ndarray | None, float]:
    """Finger tips on top of point `p` [3]."""
    d = local - p
    under = np.abs(d[:, :2]).max(1) < FIST[0] + _ROOM
    if (d[under, 2] > 0.002).any():
        return None, 0.0
    return p + np.array([0.0, 0.0, TIP_BELOW + _STAND]), 0.0
