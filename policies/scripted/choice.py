"""Which of an object's grasps to use here and now."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from mjx_bench.task import Atom, Task
from policies.scripted import goals
from policies.scripted.grasp import MAX_HALF_OPENING, TIP_BELOW, columns, hand_rotation, lowest_site
from policies.scripted.inserting import Inserting, WayIn, covered
from policies.scripted.library import Library
from policies.scripted.view import View

FULLY_OPEN = 2 * MAX_HALF_OPENING

# Prices, in the unit of a table's cost (a fifth is a grasp that often fails).
_TURN = 0.25  # a radian of wrist
_FAR = 20.0  # a metre beyond a comfortable stretch, at the object or where it goes
_RAISED = 6.0  # a metre higher than the table's grasp, to clear neighbours
_DROPPED = 12.0  # a metre from where the object would lie when it is let go
_SHALLOW = 100.0  # a metre of pad missing from the 10 mm that hold an object
_HALF_CLOSED = 0.15  # going in with narrow fingers, which takes time
_NO_WAY = 0.5  # metres for a grasp with which the object cannot be moved in under a roof
_LETTING_GO = 0.010  # metres that a finger opens until the object is free
_FAILED = 0.5  # a grasp like one that failed before

_CLEAR = 0.004  # kept between gripper and neighbours, metres
_BITE = 0.010  # depth of the pads on the object that holds it, metres
_NARROW = 0.010  # between each finger and the object when the fingers go in half closed, metres
_OUT_OF_REACH = 0.06  # metres beyond a comfortable stretch at which a grasp is not tried
_SIMILAR = 0.02  # metres between grasps that fail for the same reason


@dataclasses.dataclass(frozen=True)
class Hold:
    """A chosen grasp, in the world.

    Attributes:
      offset: [3] the grip site in the object's canonical frame, as in its table: names the grasp after the object has moved.
      site: [3] grip-site position, world metres.
      rot: [3, 3] hand orientation.
      angle: finger axis about world z, radians.
      width: thickness between the pads, metres.
      gap: opening of the fingers on the way in, metres; less than all of it where neighbours leave little room.
      way: into the place, where that has a roof.
    """

    offset: np.ndarray
    site: np.ndarray
    rot: np.ndarray
    angle: float
    width: float
    gap: float
    way: WayIn | None = None


def choose(library: Library, task: Task, view: View, atom: Atom, failed: Sequence[np.ndarray]) -> Hold | None:
    """The grasp of the atom's object with the best trade of quality, turning of the wrist, reach, and room around it.

    Args:
      failed: offsets [3] of grasps that were tried in vain.

    Returns:
      None when nothing of the object fits between the fingers, or it has gone where the arm cannot follow.
    """
    entity = atom.args[0]
    table, heading = library.grasps(task, view, entity)
    if not table:
        return None
    origin = view.pos(entity)
    c, s = np.cos(heading), np.sin(heading)
    turn = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
    offsets = np.array([grasp.offset for grasp in table])
    widths = np.array([grasp.width for grasp in table])
    sites = origin + offsets @ turn.T
    angles = np.array([grasp.angle for grasp in table]) + heading

    arm = library.arm(task)
    reach = arm.overreach(sites)
    if reach.min() > _OUT_OF_REACH:
        return None
    there, raised = np.zeros(len(table)), np.zeros(len(table))
    ways: list[tuple[float, WayIn] | None] = [None] * len(table)
    if len(atom.args) > 1:
        there = arm.overreach(sites + (goals.target_point(view, task, atom) - origin))
        body = library.shapes(task).points(entity) @ view.rot(entity).T
        landing = goals.landing(view, task, atom, body)
        _, raised = goals.let_go(landing, sites - origin, angles, 0.5 * widths)
        if covered(view, atom, landing, body):
            inserting = Inserting(view, task, atom, body)
            ways = [
                inserting.best(
                    site - origin, hand_rotation(float(angle), view.hand_rot), 0.5 * float(width) + _LETTING_GO
                )
                for site, angle, width in zip(sites, angles, widths, strict=True)
            ]
            raised = np.array([_NO_WAY if way is None else way[0] for way in ways])
    now = np.arctan2(view.hand_rot[1, 1], view.hand_rot[0, 1])  # the finger axis is the hand's y
    wrist = np.abs((angles - now + np.pi / 2) % np.pi - np.pi / 2)
    cost = np.array([grasp.cost for grasp in table]) + _TURN * wrist + _FAR * (reach + there) + _DROPPED * raised
    cost[reach > _OUT_OF_REACH] = np.inf
    for offset in failed:
        cost[((offsets - offset) ** 2).sum(1) < _SIMILAR**2] += _FAILED

    # Two ways in: fingers open, for which the table has checked the object itself, or half closed, for which it has not.
    near = columns(view.near(entity, origin[:2], 0.2, above=float(sites[:, 2].min()) - TIP_BELOW))
    around = columns(np.vstack([near, view.cloud(entity)]))
    half = np.minimum(0.5 * widths + _NARROW, MAX_HALF_OPENING)
    wide = np.full(len(table), MAX_HALF_OPENING)
    approaches = (
        (0.0, wide, lowest_site(near, sites[:, :2], angles, wide)),
        (_HALF_CLOSED, half, lowest_site(around, sites[:, :2], angles, half)),
    )
    tops = origin[2] + np.array([grasp.top for grasp in table])
    best: tuple[float, int, float, float] | None = None
    for extra, opening, room in approaches:
        height = np.maximum(sites[:, 2], room + _CLEAR)
        total = cost + extra + _RAISED * (height - sites[:, 2]) + _SHALLOW * np.maximum(0.0, height - (tops - _BITE))
        k = int(np.argmin(total))
        if best is None or total[k] < best[0]:
            best = float(total[k]), k, 2.0 * float(opening[k]), float(height[k])
    assert best is not None
    _, k, gap, z = best
    site = sites[k].copy()
    # When every way in is blocked, go in anyway: pushing a neighbour aside beats standing still.
    site[2] = min(z, max(site[2], tops[k] - _CLEAR))
    angle = float(angles[k])
    ends = [site, site + (goals.target_point(view, task, atom) - origin)] if len(atom.args) > 1 else [site]
    rot = arm.turned(view, ends, hand_rotation(angle, view.hand_rot))
    return Hold(offsets[k], site, rot, angle, float(widths[k]), gap, way[1] if (way := ways[k]) else None)
