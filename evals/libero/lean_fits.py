"""Which of LIBERO's entities have a lean form, and how each of their bodies is fitted.

LIBERO's objects and fixtures collide as many small boxes: a bowl has 40, a tin 21, a cabinet 36.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from evals.libero.lean_shapes import Box, Fit, Layer, Primitive, around, as_is, ball, can, ring, stack

SOLID = Layer.BODY | Layer.SIDE | Layer.GRIP


def carton(boxes: Sequence[Box]) -> list[Primitive]:
    """The largest box, and a narrow one for the gable on top of it (body axis y)."""
    block = max(boxes, key=lambda b: b.half.prod())
    ridge = around([b for b in boxes if b is not block], Layer.GRIP)
    half = np.array(ridge.size)
    half[2] /= 2  # a gable is as wide as its roof at half its height
    return [
        Primitive("box", tuple(block.half), block.pos, block.rot, SOLID),
        dataclasses.replace(ridge, size=tuple(half)),
    ]


def basket(boxes: Sequence[Box]) -> list[Primitive]:
    """Its five boxes; the bottom goes down to where the walls end."""
    bottom, *walls = boxes
    floor = around([bottom], Layer.FLOOR | Layer.BODY)
    low = min(b.corners[:, 2].min() for b in boxes)
    top = floor.pos[2] + floor.size[2]
    floor = dataclasses.replace(
        floor, size=(*floor.size[:2], (top - low) / 2), pos=np.array([*floor.pos[:2], (top + low) / 2])
    )
    return [floor, *as_is(Layer.WALL | Layer.EDGE)(walls)]


def bowl(boxes: Sequence[Box]) -> list[Primitive]:
    """A foot, eight upper walls that fingers close on, and a ball inside that the walls of others meet."""
    foot = [b for b in boxes if b.corners[:, 2].max() < 0.01]
    upper = [b for b in boxes if b.pos[2] > 0.025]
    lower = [b for b in boxes if b.pos[2] < 0.025 and b.corners[:, 2].max() > 0.01]
    outline = np.concatenate([b.corners for b in [*upper, *lower]])
    radius, height = ball(np.hypot(outline[:, 0], outline[:, 1]), outline[:, 2])
    return [
        around(foot, Layer.BODY, (0.85, 0.85, 1.0)),
        *ring(upper, 8, Layer.GRIP | Layer.EDGE),
        Primitive("sphere", (radius,), np.array([0.0, 0.0, height]), np.eye(3), Layer.BALL),
    ]


def ramekin(boxes: Sequence[Box]) -> list[Primitive]:
    """A bottom, and eight walls on which a bowl may sit."""
    bottom = [b for b in boxes if b.corners[:, 2].max() < 0.01]
    walls = [b for b in boxes if b.corners[:, 2].max() > 0.01]
    foot = around(bottom, Layer.BODY | Layer.FLOOR, (0.85, 0.85, 1.0))
    return [foot, *ring(walls, 8, Layer.RIM | Layer.EDGE)]


def plate(boxes: Sequence[Box]) -> list[Primitive]:
    """A level middle, thick enough to stand on, and eight slanted boxes around it."""
    middle = min(boxes, key=lambda b: float(np.hypot(b.pos[0], b.pos[1])))
    rim = [b for b in boxes if b is not middle]
    low, top = min(b.corners[:, 2].min() for b in boxes), middle.corners[:, 2].max()
    half = np.abs(middle.rot @ middle.half)
    floor = Primitive(
        "box",
        (half[0], half[1], (top - low) / 2),
        np.array([0.0, 0.0, (top + low) / 2]),
        np.eye(3),
        Layer.BODY | Layer.FLOOR,
    )
    return [floor, *ring(rim, 8, Layer.RIM)]


def cabinet(boxes: Sequence[Box]) -> list[Primitive]:
    """The body as a block, and its top, on which things stand."""
    block = around(boxes, Layer.WALL)
    sunk = 0.006  # a bowl's ball reaches below its foot
    top = block.pos[2] + block.size[2]
    return [
        dataclasses.replace(
            block, size=(*block.size[:2], block.size[2] - sunk), pos=block.pos - np.array([0.0, 0.0, sunk])
        ),
        Primitive(
            "box",
            (block.size[0], block.size[1], sunk),
            np.array([*block.pos[:2], top - sunk]),
            np.eye(3),
            Layer.FLOOR,
        ),
    ]


def drawer(boxes: Sequence[Box]) -> list[Primitive]:
    """Front, bottom, two sides, back and handle."""
    front = [b for b in boxes if -0.08 < b.pos[1] < -0.05 and abs(b.pos[0]) < 0.02 and b.half.max() > 0.08]
    handle = [b for b in boxes if b.pos[1] < -0.08]
    bottom, left, right, back = _shell([b for b in boxes if b.pos[1] > -0.05])
    return [
        around(front, Layer.WALL),
        around(handle, Layer.GRIP),
        around([bottom], Layer.FLOOR),
        *(around([b], Layer.WALL) for b in (left, right, back)),
    ]


def closed_drawer(boxes: Sequence[Box]) -> list[Primitive]:
    """Front and handle: nothing gets behind them."""
    return drawer(boxes)[:2]


def _shell(boxes: Sequence[Box]) -> tuple[Box, Box, Box, Box]:
    bottom = min(boxes, key=lambda b: b.pos[2])
    left, right = min(boxes, key=lambda b: b.pos[0]), max(boxes, key=lambda b: b.pos[0])
    return bottom, left, right, max(boxes, key=lambda b: b.pos[1])


_BOTTLE = Layer.BODY | Layer.GRIP

# Category to the end of a body's name, after the entity's, to the fit of that body.
FITS: Mapping[str, Mapping[str, Fit]] = {
    "alphabet_soup": {"main": can(1)},
    "tomato_sauce": {"main": can(1)},
    "cream_cheese": {"main": as_is(SOLID)},
    "butter": {"main": as_is(SOLID)},
    "chocolate_pudding": {"main": as_is(SOLID)},
    "milk": {"main": carton},
    "orange_juice": {"main": carton},
    "salad_dressing": {"main": stack(1, (-0.02, 0.03), (SOLID, _BOTTLE, _BOTTLE))},
    "ketchup": {"main": stack(1, (-0.02, 0.015, 0.04), (SOLID, _BOTTLE, _BOTTLE, _BOTTLE))},
    "bbq_sauce": {"main": stack(2, (-0.01, 0.025), (SOLID, _BOTTLE, _BOTTLE))},
    "basket": {"main": basket},
    "akita_black_bowl": {"main": bowl},
    "cookies": {"main": as_is(Layer.BODY | Layer.FLOOR | Layer.GRIP)},
    "glazed_rim_porcelain_ramekin": {"main": ramekin},
    "plate": {"main": plate},
    "wooden_cabinet": {
        "base": cabinet,
        "cabinet_top": drawer,
        "cabinet_middle": closed_drawer,
        "cabinet_bottom": closed_drawer,
    },
    "flat_stove": {
        "burner": lambda boxes: [around(boxes, Layer.FLOOR)],
        "button": lambda boxes: [around(boxes, Layer.WALL | Layer.GRIP, (0.9, 0.9, 1.0))],
    },
}
