"""What a goal atom asks of one object: where to put it down, and whether it is there.

The tests for `on` and `in` are LIBERO's, without the contact test (an observation holds poses only).
"""

from __future__ import annotations

import dataclasses

import numpy as np

from mjx_bench.task import Atom, Task
from policies.scripted.grasp import columns, lowest_site
from policies.scripted.view import View

LIFTED = 1.0  # height at which an object counts as lifted, world metres
_GAP = 0.003  # height above the support at which an object is let go
_CELL = 0.006
_OFF_BOTTOM = 0.03  # of a region, metres: what stays higher is caught on something
_WIDEST = 0.6  # of a region's half size, for places beside its middle
_GRIDS = (0.3, 0.1, 0.04)  # the same, between places
_ASIDE = 0.3  # metres of height that a metre beside the middle is worth
_EDGE = 0.1  # the same of a metre that the object would rest higher if it came down a little beside
_NEARLY = 0.010 * np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])  # metres


def target_point(view: View, task: Task, atom: Atom) -> np.ndarray:
    """[3] the point over which the subject's origin belongs: the support's origin, or the region's centre; world."""
    place = atom.args[1]
    return view.pos(place).copy() if place in task.scene.entities else view.region(place)[0]


def satisfied(view: View, task: Task, atom: Atom) -> bool:
    """Whether an atom of on, in, inside or up holds, as far as poses tell."""
    subject = view.pos(atom.args[0])
    if atom.predicate == "up":
        return bool(subject[2] >= LIFTED)
    place = atom.args[1]
    if place in task.scene.entities:
        below = view.pos(place)
        aside = float(np.hypot(*(subject - below)[:2]))
        return bool(aside < 0.03 and 0.0 <= subject[2] - below[2] < 0.2)
    centre, rot, half = view.region(place)
    if atom.predicate == "in":
        extent = np.abs(rot @ half)
        d = subject - centre
        return bool((np.abs(d[:2]) < extent[:2]).all() and -extent[2] - 0.01 < d[2] < extent[2])
    if atom.predicate == "inside":
        return bool((np.abs(rot.T @ (subject - centre)) < half).all())
    d = rot @ (subject - centre)
    return bool((np.abs(d[:2]) < half[:2]).all() and half[2] - 0.005 < d[2] < half[2] + 0.10)


@dataclasses.dataclass(frozen=True)
class Landing:
    """Where an object can be let go.

    Attributes:
      spots: [S, 3] resting places of its origin, world metres.
      price: [S] of each beside the others, in metres of height: for what is not the middle, and for what is near an edge.
      near: [N, 3] tops of all that the hand could meet.
    """

    spots: np.ndarray
    price: np.ndarray
    near: np.ndarray


def landing(view: View, task: Task, atom: Atom, body: np.ndarray) -> Landing:
    """The places for the atom's object, with surface `body` [N, 3] about its origin, turned as it will be there.

    That is the middle alone, unless it is taken, in a region that takes things in, or several things go on one region; then
    it is a grid, with finer ones about the best. Of several things on a region, the first goes to the side far from the arm.
    """
    middle = target_point(view, task, atom)
    near = columns(view.near(atom.args[0], middle[:2], 0.25))
    there = Landing(np.array([[*middle[:2], _rest(view, body, middle[:2], near, middle)]]), np.zeros(1), near)
    sharing = [a.args[0] for a in task.goal if a.predicate == "on" and a.args[1:] == atom.args[1:]]
    if atom.predicate == "on":
        best = _WIDEST * float(np.linspace(1.0, -1.0, len(sharing))[sharing.index(atom.args[0])])
        alone = atom.args[1] not in task.scene.regions or len(sharing) < 2
    else:
        best, alone = 0.0, fits(view, atom, there, body)
    return there if alone else _grids(view, atom, body, middle, near, np.array([best, 0.0]))


def _grids(view: View, atom: Atom, body: np.ndarray, middle: np.ndarray, near: np.ndarray, best: np.ndarray) -> Landing:
    """Places all over a region; `best` [2] is the one that is wanted, in half sizes of the region."""
    _, rot, half = view.region(atom.args[1])
    extent = np.full(2, float(half[:2].min())) if atom.predicate == "inside" else np.abs(rot @ half)[:2]
    spots, price, centre = np.zeros((0, 3)), np.zeros(0), np.zeros(2)
    for step in _GRIDS:
        for u in (-2.0, -1.0, 0.0, 1.0, 2.0):
            for v in (-2.0, -1.0, 0.0, 1.0, 2.0):
                d = centre + step * np.array([u, v])
                if np.abs(d).max() > _WIDEST:
                    continue
                at = middle[:2] + d * extent
                rest = _rest(view, body, at, near, middle)
                edge = max(0.0, max(_rest(view, body, at + beside, near, middle) for beside in _NEARLY) - rest)
                aside = float(np.hypot(*((d - best) * extent)))
                spots = np.vstack([spots, [*at, rest]])
                price = np.append(price, _ASIDE * aside + _EDGE * edge)
        centre = (spots[int(np.argmin(price + spots[:, 2])), :2] - middle[:2]) / extent
    return Landing(spots, price, near)


def fits(view: View, atom: Atom, there: Landing, body: np.ndarray) -> bool:
    """Whether an object would come to rest near the bottom of a region that takes things in, at the lowest of its places."""
    centre, rot, half = view.region(atom.args[1])
    lowest = float(there.spots[:, 2].min()) + float(body[:, 2].min())
    return lowest < centre[2] - float(np.abs(rot @ half)[2]) + _OFF_BOTTOM


def let_go(
    there: Landing, grip: np.ndarray, angle: np.ndarray, half_opening: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Where hands let go.

    Args:
      there: places for the object.
      grip: [G, 3] grip sites relative to the object's origin.
      angle: [G] finger axes about world z.
      half_opening: [G] inner faces of the fingers from the centre.

    Returns:
      [G, 3] grip-site positions, world: the object just above what it would rest on, or as low as the hand can go, at the
      place that is best for this hand; and [G] how far that is from the ideal, metres.
    """
    best = np.full(len(grip), np.inf)
    sites = np.empty((len(grip), 3))
    for spot, price in zip(there.spots, there.price, strict=True):
        site = spot + grip + np.array([0.0, 0.0, _GAP])
        # Fingers open by about a centimetre before the object is free.
        clear = lowest_site(there.near, site[:, :2], angle, half_opening + 0.010)
        site[:, 2] = np.maximum(site[:, 2], clear + 0.006)
        cost = site[:, 2] - grip[:, 2] - _GAP + price
        better = cost < best - 1e-9
        best[better], sites[better] = cost[better], site[better]
    return sites, best - float((there.spots[:, 2] + there.price).min())


def _rest(view: View, body: np.ndarray, xy: np.ndarray, near: np.ndarray, centre: np.ndarray) -> float:
    """Height of the origin of an object with surface `body` that is let down at `xy` [2]."""
    rest = max(rest_height(body, xy, near), view.shapes.ground - float(body[:, 2].min()))
    # Nothing below: trust the region's own height.
    return rest if np.isfinite(rest) else float(centre[2] - body[:, 2].min())


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
