"""Where a parallel gripper pointing down can take an object, found from the object's surface points alone.

Frames. An object at rest is its *canonical* orientation (its own up direction turned to world z by the shortest rotation)
turned by a *heading* about z. Grasps are tabulated in the canonical frame, once for each way of lying, and turned with
the object. In the grasp's own frame `u` runs along the finger axis, `w` across it, `z` up.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np

# The Panda gripper about its grip site, metres, read from the collision meshes of robosuite's model.
MAX_HALF_OPENING = 0.0383  # inner face of a pad from the centre, fingers open at rest
FINGER_DEPTH = 0.0285  # of one finger along u, outwards from the pad's face
TIP_DEPTH = 0.0185  # the same, within 15 mm of the tip
FINGER_HALF_WIDTH = 0.0105  # across u
TIP_BELOW = 0.0092  # finger tip below the site
PAD_BELOW, PAD_ABOVE = 0.0044, 0.0116  # rubber pad about the site
HAND_ABOVE = 0.031  # underside of the hand above the site
HAND_HALF = (0.104, 0.032)  # hand along u and across it
HALF_TURN = np.diag([-1.0, -1.0, 1.0])  # about the way the hand points: the gripper is the same after it
_HAND_LENGTH = 0.2  # of the hand and its wrist, behind the site

_CELL = 0.0025  # height map, metres
_ANGLES = np.arange(12) * np.pi / 12
_HALVES_APART = 0.011  # between the middles of the two halves of a pad's width, metres
_MAX_SKEW = 1.0  # slopes of both faces against the pads, added: beyond it the object turns or slips out
_TIP_GAP = 0.004  # wanted between finger tips and whatever is below them
_SIDE_GAP = 0.0025  # between a finger's face and the object's side
_TOP_INSET = 0.008  # of what counts as between the fingers, from their faces


@dataclasses.dataclass(frozen=True)
class Grasp:
    """One way to take an object, in its canonical frame.

    Attributes:
      offset: [3] grip site relative to the object's origin, metres.
      angle: direction of the finger axis about z, radians in [0, pi).
      width: thickness between the pads, metres.
      top: height of the material between the fingers above the object's origin, metres.
      cost: lower is better; 0 is a centred grasp on parallel faces.
    """

    offset: np.ndarray
    angle: float
    width: float
    top: float
    cost: float


def canonical(rot: np.ndarray) -> tuple[np.ndarray, float, tuple[int, int, int]]:
    """Splits an orientation into a way of lying and a heading: `rot` is about `Rz(heading) @ lying`.

    The way of lying is snapped to a grid of up directions, so that equal poses share a table whatever came before.

    Returns:
      (lying [3, 3], heading in radians, key of the snapped up direction).
    """
    x, y, z = (int(v) for v in np.rint(rot[2] * 20.0))  # the world's up in the body frame is the matrix's last row
    up = np.array([x, y, z], float)
    up /= np.sqrt(up @ up)
    if up[2] < -0.999:
        lying = np.diag([1.0, -1.0, -1.0])
    else:  # Rodrigues for the rotation that takes `up` to z, written without trigonometry
        ax, ay = up[1], -up[0]
        k = np.array([[0.0, 0.0, ay], [0.0, 0.0, -ax], [-ay, ax, 0.0]])
        lying = np.eye(3) + k + k @ k / (1.0 + up[2])
    m = rot @ lying.T
    return lying, float(np.arctan2(m[1, 0] - m[0, 1], m[0, 0] + m[1, 1])), (x, y, z)


def _slide(grid: np.ndarray, reach: int, axis: int) -> np.ndarray:
    """Running maximum over `2 * reach + 1` cells along an axis; outside the grid is empty."""
    pad = [(0, 0), (0, 0)]
    pad[axis] = (reach, reach)
    padded = np.pad(grid, pad, constant_values=-np.inf)
    return np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1, axis).max(-1)


def _shift(grid: np.ndarray, cells: int) -> np.ndarray:
    """`out[i] = grid[i + cells]` along u; outside the grid is empty."""
    out = np.full_like(grid, -np.inf)
    if cells >= 0:
        out[: len(grid) - cells] = grid[cells:]
    else:
        out[-cells:] = grid[:cells]
    return out


def _cells(length: float) -> int:
    return int(np.ceil(length / _CELL - 1e-9))


def find_grasps(
    points: np.ndarray,
    limit: int = 64,
    angles: Iterable[float] = _ANGLES,
    half_opening: float = MAX_HALF_OPENING,
    depth: float = FINGER_DEPTH,
) -> list[Grasp]:
    """Tabulates grasps of one object.

    Args:
      points: [N, 3] surface points about the object's origin, canonical frame.
      limit: how many to keep.
      angles: directions of the finger axis to try, radians.
      half_opening: inner faces of the fingers from the centre on the way in, metres.
      depth: of a finger along its axis, metres.

    Returns:
      Grasps by rising cost; empty when nothing fits between the fingers.
    """
    found: list[Grasp] = []
    if len(points) == 0:
        return found
    for angle in angles:
        found += _grasps_along(points, float(angle), half_opening, depth)
    found.sort(key=lambda g: (g.cost, g.angle))
    return found[:limit]


def _grasps_along(points: np.ndarray, angle: float, half_opening: float, depth: float) -> list[Grasp]:
    c, s = np.cos(angle), np.sin(angle)
    turned = np.column_stack([c * points[:, 0] + s * points[:, 1], c * points[:, 1] - s * points[:, 0], points[:, 2]])
    low = turned[:, :2].min(0) - 0.02
    n = np.ceil((turned[:, :2].max(0) + 0.02 - low) / _CELL).astype(int) + 1
    height = np.full((n[0], n[1]), -np.inf)
    iu, iw = ((turned[:, :2] - low) / _CELL).astype(int).T
    np.maximum.at(height, (iu, iw), turned[:, 2])

    # Lowest height of the site at which fingers, hand and floor leave room, for each position of the site.
    finger = _slide(_slide(height, _cells(depth / 2 + _SIDE_GAP), 0), _cells(FINGER_HALF_WIDTH + 0.002), 1)
    out = round((half_opening + depth / 2) / _CELL)
    hand = _slide(_slide(height, _cells(HAND_HALF[0]), 0), _cells(HAND_HALF[1]), 1)
    bottom = float(turned[:, 2].min())
    free = np.maximum(np.maximum(_shift(finger, out), _shift(finger, -out)), bottom) + TIP_BELOW + _TIP_GAP
    free = np.maximum(free, hand - HAND_ABOVE + _TIP_GAP)
    top = _slide(_slide(height, _cells(half_opening - _TOP_INSET), 0), _cells(0.006), 1)
    site = np.maximum(free, top - 0.020)
    fits = top - site >= 0.004

    by_w = turned[np.argsort(turned[:, 1], kind="stable")]
    found = []
    for j in range(0, n[1], 2):
        column = np.flatnonzero(fits[:, j])
        if not len(column):
            continue
        w = low[1] + (j + 0.5) * _CELL
        a, b = np.searchsorted(by_w[:, 1], (w - 0.009, w + 0.009))
        for run in np.split(column, np.flatnonzero(np.diff(column) > 1) + 1):
            i = int(run[len(run) // 2])
            for _ in range(2):  # fingers close symmetrically: recentre on what they will touch
                contact = _contact(by_w[a:b], low[0] + (i + 0.5) * _CELL, w, float(site[i, j]), half_opening)
                if contact is None:
                    break
                i = int((contact[0] - low[0]) / _CELL)
                if not (0 <= i < n[0] and fits[i, j]):
                    contact = None
                    break
            if contact is None:
                continue
            u, width, skew = contact
            if skew > _MAX_SKEW:
                continue
            z = float(site[i, j])
            above = float(top[i, j])
            # Slopes and metres in one sum: a face turned by 6 degrees costs as much as 5 cm off the centre along w.
            cost = 2.0 * skew + 4.0 * abs(w) + 2.0 * abs(u) + 4.0 * width + 8.0 * max(0.0, 0.012 - (above - z))
            found.append(Grasp(np.array([c * u - s * w, s * u + c * w, z]), angle, width, above, cost))
    return found


def _contact(slab: np.ndarray, u: float, w: float, z: float, reach: float) -> tuple[float, float, float] | None:
    """What pads centred on (u, w, z) touch: centre along u, thickness, and how far its faces are from facing each other.

    `slab` [M, 3] holds the points within a pad's width of w; `reach` is where the pads start from.
    """
    near = slab[(np.abs(slab[:, 0] - u) < reach - _SIDE_GAP)]
    near = near[(near[:, 2] > z - PAD_BELOW) & (near[:, 2] < z + PAD_ABOVE)]
    if len(near) < 4:
        return None
    left, right = float(near[:, 0].min()), float(near[:, 0].max())
    before, after = near[near[:, 1] < w - 0.002], near[near[:, 1] > w + 0.002]
    if not len(before) or not len(after):
        return None  # an edge or a corner would slip out sideways
    right_turns = abs(float(after[:, 0].max() - before[:, 0].max()))
    left_turns = abs(float(after[:, 0].min() - before[:, 0].min()))
    return 0.5 * (left + right), right - left, (right_turns + left_turns) / _HALVES_APART


def columns(points: np.ndarray, cell: float = 0.005) -> np.ndarray:
    """The highest point [M, 3] of each vertical column of `cell` metres: all that a gripper from above can meet."""
    if len(points) == 0:
        return points
    low = points[:, :2].min(0)
    ij = ((points[:, :2] - low) / cell).astype(np.int64)
    top = np.full(ij.max(0) + 1, -np.inf)
    np.maximum.at(top, (ij[:, 0], ij[:, 1]), points[:, 2])
    i, j = np.nonzero(top > -np.inf)
    return np.column_stack([low[0] + (i + 0.5) * cell, low[1] + (j + 0.5) * cell, top[i, j]])


def thinned(points: np.ndarray, cell: float) -> np.ndarray:
    """One point [M, 3] of each cube of `cell` metres."""
    if len(points) == 0:
        return points
    ijk = np.floor((points - points.min(0)) / cell).astype(np.int64)
    size = ijk.max(0) + 1
    _, first = np.unique((ijk[:, 0] * size[1] + ijk[:, 1]) * size[2] + ijk[:, 2], return_index=True)
    return points[first]


def lowest_site(points: np.ndarray, xy: np.ndarray, angle: np.ndarray, half_opening: np.ndarray) -> np.ndarray:
    """Lowest height of the grip site at which a gripper coming straight down stays clear of points.

    Args:
      points: [N, 3] obstacles, world; `columns` of them will do.
      xy: [G, 2] positions of the site.
      angle: [G] directions of the finger axis about world z.
      half_opening: [G] inner face of the fingers from the centre.

    Returns:
      [G] heights, `-inf` where nothing is in the way. No margin is added in z.
    """
    d = points[None, :, :2] - xy[:, None]
    c, s = np.cos(angle)[:, None], np.sin(angle)[:, None]
    u, w = np.abs(c * d[..., 0] + s * d[..., 1]), np.abs(c * d[..., 1] - s * d[..., 0])
    inner = half_opening[:, None] - _SIDE_GAP
    in_finger = (u > inner) & (u < inner + FINGER_DEPTH + 2 * _SIDE_GAP) & (w < FINGER_HALF_WIDTH + 0.004)
    in_hand = (u < HAND_HALF[0] + 0.004) & (w < HAND_HALF[1] + 0.004)
    z = points[None, :, 2]
    need = np.where(in_finger, z + TIP_BELOW, -np.inf)
    need = np.maximum(need, np.where(in_hand, z - HAND_ABOVE, -np.inf))
    return need.max(1, initial=-np.inf)


def obstruction(points: np.ndarray, site: np.ndarray, rot: np.ndarray, inner: float) -> float:
    """How deep points lie in a hand of any orientation, or in its way in, straight from behind.

    Args:
      points: [N, 3] obstacles, world.
      site: [3] grip site.
      rot: [3, 3] hand orientation.
      inner: inner face of each finger from the middle; 0 for closed fingers.

    Returns:
      Metres; negative, down to -1 cm, when all is free.
    """
    d = points @ rot - site @ rot
    x, y, ahead = np.abs(d[:, 0]), np.abs(d[:, 1]), d[:, 2]
    close = (ahead < TIP_BELOW + 0.01) & (ahead > -_HAND_LENGTH) & (x < HAND_HALF[1] + 0.01) & (y < HAND_HALF[0] + 0.01)
    x, y, ahead = x[close], y[close], ahead[close]
    beside = inner + TIP_DEPTH - y
    if inner > 0.0:
        beside = np.minimum(beside, y - inner)
    fingers = np.minimum(np.minimum(beside, FINGER_HALF_WIDTH - x), TIP_BELOW - ahead)
    hand = np.minimum(np.minimum(HAND_HALF[0] - y, HAND_HALF[1] - x), -HAND_ABOVE - ahead)
    return float(np.maximum(fingers, hand).max(initial=-0.01))


def hand_rotation(angle: float, like: np.ndarray) -> np.ndarray:
    """[3, 3] hand orientation that points down with its finger axis at `angle` about world z (modulo a half turn).

    The fingers move along the hand's y and point along its z. Of the two such orientations it is the one nearer to `like`
    [3, 3], so that the wrist never turns more than 90 degrees.
    """
    axis = np.array([np.cos(angle), np.sin(angle), 0.0])
    if axis @ like[:, 1] < 0:
        axis = -axis
    down = np.array([0.0, 0.0, -1.0])
    return np.column_stack([np.cross(axis, down), axis, down])
