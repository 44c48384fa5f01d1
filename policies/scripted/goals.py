"""What a goal atom asks of one object: where to put it down, and whether it is there.

The tests for `on` and `in` are LIBERO's, without the contact test (an observation holds poses only).
"""

from __future__ import annotations

import numpy as np

from mjx_bench.task import Atom, Task
from policies.scripted.grasp import columns, lowest_site
from policies.scripted.view import View

_GAP = 0.003  # height above the support at which an object is let go
_CELL = 0.006


def doable(task: Task, atom: Atom) -> bool:
    """Whether the experts know how: put an object that can be carried on or in something that need not be opened."""
    if atom.predicate not in ("on", "in"):
        return False
    subject, region = task.scene.entities.get(atom.args[0]), task.scene.regions.get(atom.args[1])
    closed = atom.predicate == "in" and region is not None and region.joints
    return subject is not None and subject.kind == "object" and not closed


def target_point(view: View, task: Task, atom: Atom) -> np.ndarray:
    """[3] the point over which the subject's origin belongs: the support's origin, or the region's centre; world."""
    place = atom.args[1]
    return view.pos(place).copy() if place in task.scene.entities else view.region(place)[0]


def satisfied(view: View, task: Task, atom: Atom) -> bool:
    """Whether a doable atom holds as far as poses tell."""
    subject, place = view.pos(atom.args[0]), atom.args[1]
    if place in task.scene.entities:
        below = view.pos(place)
        aside = float(np.hypot(*(subject - below)[:2]))
        return bool(aside < 0.03 and 0.0 <= subject[2] - below[2] < 0.2)
    centre, rot, half = view.region(place)
    if atom.predicate == "in":
        extent = np.abs(rot @ half)
        d = subject - centre
        return bool((np.abs(d[:2]) < extent[:2]).all() and -extent[2] - 0.01 < d[2] < extent[2])
    d = rot @ (subject - centre)
    return bool((np.abs(d[:2]) < half[:2]).all() and half[2] - 0.005 < d[2] < half[2] + 0.10)


def put_down(
    view: View, task: Task, atom: Atom, body: np.ndarray, grip: np.ndarray, angle: float, half_opening: float
) -> np.ndarray:
    """Where the grip site lets go.

    Args:
      view: the scene now.
      task, atom: what to achieve.
      body: [N, 3] the carried object's surface about its origin, in its present orientation.
      grip: [3] grip site relative to the object's origin.
      angle: finger axis about world z.
      half_opening: inner faces of the fingers from the centre.

    Returns:
      [3] grip-site position, world: the object just above what it would rest on, or as low as the hand can go.
    """
    centre = target_point(view, task, atom)
    near = columns(view.near(atom.args[0], centre[:2], 0.16))
    rest = rest_height(body, centre[:2], near)
    if not np.isfinite(rest):  # nothing below: trust the region's own height
        rest = float(centre[2] - body[:, 2].min())
    site = np.array([centre[0] + grip[0], centre[1] + grip[1], rest + grip[2] + _GAP])
    # Fingers open by about a centimetre before the object is free.
    clear = lowest_site(near, site[None, :2], np.array([angle]), np.array([half_opening + 0.010]))[0]
    site[2] = max(site[2], float(clear) + 0.006)
    return site


def rest_height(body: np.ndarray, xy: np.ndarray, support: np.ndarray) -> float:
    """Height of an object's origin when it is lowered straight onto a support.

    Args:
      body: [N, 3] its surface about its origin.
      xy: [2] where its origin comes down.
      support: [M, 3] surface points of everything below, world.

    Returns:
      Metres; `-inf` when no point of the support lies under it.
    """
    reach = float(np.abs(body[:, :2]).max()) + _CELL
    n = int(np.ceil(2 * reach / _CELL)) + 1
    under = np.full((n, n), np.inf)
    over = np.full((n, n), -np.inf)
    i = ((body[:, :2] + reach) / _CELL).astype(int)
    np.minimum.at(under, (i[:, 0], i[:, 1]), body[:, 2])
    d = support[:, :2] - xy + reach
    inside = ((d > 0) & (d < n * _CELL)).all(1)
    j = (d[inside] / _CELL).astype(int)
    np.maximum.at(over, (j[:, 0], j[:, 1]), support[inside, 2])
    gap = over - under
    return float(gap.max())
