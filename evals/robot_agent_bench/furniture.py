"""Fixed furniture: boxes, in a frame whose +y points into the piece, with the middle of its front on the floor as origin.

Sizes are the benchmark sheet's. Appliances, doors and drawers are closed blocks here: no task that runs opens one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from evals.robot_agent_bench.shapes import Colour, box, touch
from evals.tabletop.shapes import visual

BOARDS = (0.45, 0.78, 1.11, 1.42)  # tops of the shelf's boards
SHELF_HALF, SHELF_DEPTH, PLACE_APART = 0.475, 0.32, 0.12
TABLE_TOP, SEAT = 0.46, 0.44


@dataclasses.dataclass(frozen=True)
class Palette:
    """Colours of a home: floor, walls, wood, dark wood, cloth of the sofa, white goods."""

    floor: Colour
    wall: Colour
    wood: Colour
    dark: Colour
    cloth: Colour
    white: Colour


@dataclasses.dataclass(frozen=True)
class Piece:
    """A piece of furniture.

    Attributes:
      name: of body and entity.
      size: along the front, into the piece, and up, metres.
      build: adds geoms to its body.
      work: how far before its front the middle of the robot's base stands to work at it; None where nobody works.
    """

    name: str
    size: tuple[float, float, float]
    build: Callable[[Any, Palette], None]
    work: float | None = 0.50

    @property
    def contacts(self) -> tuple[str, ...]:
        """Names of its geoms that collide; known once it is built."""
        return tuple(_CONTACTS.get(self.name, ()))

    def add(self, world: Any, pos: Sequence[float], quat: Sequence[float], palette: Palette) -> None:
        """Adds its body, front middle at `pos` [3]."""
        body = world.add_body(name=self.name, pos=pos, quat=quat)
        self.build(body, palette)
        _CONTACTS[self.name] = [g.name for g in body.geoms if g.contype or g.conaffinity]


_CONTACTS: dict[str, list[str]] = {}


def _block(body: Any, name: str, size: Sequence[float], colour: Colour, base: float = 0.0, **more: Any) -> None:
    w, d, h = size
    box(body, [w / 2, d / 2, h / 2], colour, "furniture", name, pos=[0, d / 2, base + h / 2], **more)


def _shelf(body: Any, p: Palette) -> None:
    for i, top in enumerate(BOARDS):
        at = [0, SHELF_DEPTH / 2, top - 0.01]
        box(body, [SHELF_HALF, SHELF_DEPTH / 2, 0.01], p.wood, "furniture", f"shelf_board_{i}", pos=at)
    for i, x in enumerate((-SHELF_HALF - 0.01, SHELF_HALF + 0.01)):
        box(body, [0.01, SHELF_DEPTH / 2, 0.75], p.dark, "furniture", f"shelf_side_{i}", pos=[x, SHELF_DEPTH / 2, 0.75])
    box(body, [SHELF_HALF, 0.005, 0.75], p.dark, "furniture", "shelf_back", pos=[0, SHELF_DEPTH + 0.005, 0.75])


def _table(body: Any, p: Palette) -> None:
    box(body, [0.60, 0.30, 0.015], p.wood, "furniture", "coffee_table_top", pos=[0, 0.30, TABLE_TOP - 0.015])
    # Legs and drawer as one block that the base runs into.
    box(body, [0.56, 0.26, 0.10], p.dark, "furniture", "coffee_table_drawer", pos=[0, 0.30, 0.345])
    for i, (x, y) in enumerate(((-0.55, 0.05), (0.55, 0.05), (-0.55, 0.55), (0.55, 0.55))):
        visual(body, "box", [0.025, 0.025, 0.13], p.dark, pos=[x, y, 0.13], name=f"coffee_table_leg_{i}")
    visual(body, "box", [0.06, 0.01, 0.008], p.white, pos=[0, 0.035, 0.36], name="coffee_table_handle")


def _sofa(body: Any, p: Palette) -> None:
    soft = tuple(min(1.0, 1.12 * c) for c in p.cloth)
    box(body, [0.80, 0.275, SEAT / 2 - 0.05], p.cloth, "furniture", "sofa_seat", pos=[0, 0.275, SEAT / 2 + 0.05])
    for i, x in enumerate((-0.4, 0.4)):
        visual(body, "box", [0.39, 0.27, 0.02], soft, pos=[x, 0.275, SEAT - 0.019], name=f"sofa_cushion_{i}")
    box(body, [0.80, 0.15, 0.425], p.cloth, "furniture", "sofa_back", pos=[0, 0.70, 0.425])
    for i, x in enumerate((-0.875, 0.875)):
        box(body, [0.075, 0.425, 0.30], p.cloth, "furniture", f"sofa_arm_{i}", pos=[x, 0.425, 0.30])


def _open_box(
    body: Any,
    name: str,
    inner: Sequence[float],
    rim: float,
    colour: Colour,
    middle: Sequence[float],
    stand: Colour | None,
) -> None:
    """An open box with its rim at height `rim`, on a stand down to the floor."""
    (w, d, h), (x, y), t = inner, middle, 0.006
    floor = rim - h
    box(body, [w / 2 + t, d / 2 + t, t / 2], colour, "furniture", f"{name}_floor", pos=[x, y, floor - t / 2])
    for i, (sx, sy) in enumerate(((1, 0), (-1, 0), (0, 1), (0, -1))):
        half = [t / 2 if sx else w / 2 + t, t / 2 if sy else d / 2, h / 2]
        at = [x + sx * (w + t) / 2, y + sy * (d + t) / 2, floor + h / 2]
        box(body, half, colour, "furniture", f"{name}_wall_{i}", pos=at)
    if stand is not None:
        half = [w / 2 - 0.02, d / 2 - 0.02, (floor - t) / 2]
        box(body, half, stand, "furniture", f"{name}_stand", pos=[x, y, half[2]])


GREY_BIN, BLUE_BIN = (0.42, 0.43, 0.45), (0.15, 0.36, 0.68)


def _bins(body: Any, p: Palette) -> None:
    for name, x, colour in (("waste_bin", -0.18, GREY_BIN), ("recycling_bin", 0.18, BLUE_BIN)):
        _open_box(body, name, (0.24, 0.24, 0.34), 0.40, colour, (x, 0.13), p.dark)


def _basket(body: Any, p: Palette) -> None:
    _open_box(body, "storage_basket", (0.32, 0.24, 0.16), 0.48, (0.72, 0.58, 0.38), (0, 0.13), p.dark)


def _bench(body: Any, p: Palette) -> None:
    _open_box(body, "tote_bag", (0.30, 0.16, 0.28), 0.55, (0.86, 0.82, 0.70), (0, 0.15), None)
    box(body, [0.25, 0.15, 0.132], p.wood, "furniture", "bench", pos=[0, 0.15, 0.132])


def _rack(body: Any, p: Palette) -> None:
    touch(body, "capsule", [0.02, 0.825], "furniture", name="coat_rack_pole", pos=[0, 0.2, 0.825])
    visual(body, "cylinder", [0.02, 0.825], p.dark, pos=[0, 0.2, 0.825], name="coat_rack_look")
    visual(body, "box", [0.20, 0.20, 0.012], p.dark, pos=[0, 0.2, 0.012], name="coat_rack_foot")
    for i, (x, y, z) in enumerate(((0.07, 0, 1.48), (-0.07, 0, 1.50), (0, 0.07, 1.53), (0, -0.07, 1.55))):
        ends = [0, 0.2, z, x, 0.2 + y, z + 0.03]
        visual(body, "capsule", [0.008], p.white, fromto=ends, name=f"coat_rack_hook_{i}")


def _cabinet(body: Any, p: Palette) -> None:
    _block(body, "tv_cabinet_body", (1.40, 0.40, 0.50), p.wood)
    visual(body, "box", [0.50, 0.02, 0.29], (0.05, 0.05, 0.06), pos=[0, 0.28, 0.86], name="tv_look")


def _side_table(body: Any, p: Palette) -> None:
    _block(body, "side_table_body", (0.45, 0.45, 0.55), p.dark)


def _kitchen(body: Any, p: Palette) -> None:
    _block(body, "counter_body", (2.40, 0.62, 0.88), p.white)
    visual(body, "box", [1.20, 0.31, 0.01], p.dark, pos=[0, 0.31, 0.89], name="counter_top")
    goods = ((-0.85, 0.50, 0.40, 0.30, p.white), (-0.15, 0.26, 0.34, 0.38, GREY_BIN), (0.45, 0.28, 0.32, 0.32, p.dark))
    for i, (x, w, d, h, colour) in enumerate(goods):
        visual(body, "box", [w / 2, d / 2, h / 2], colour, pos=[x, 0.36, 0.90 + h / 2], name=f"appliance_{i}")
    visual(body, "box", [0.16, 0.005, 0.10], (0.08, 0.09, 0.10), pos=[-0.90, 0.158, 1.05], name="microwave_door")


def _refrigerator(body: Any, p: Palette) -> None:
    _block(body, "refrigerator_body", (0.70, 0.66, 1.50), p.white)
    visual(body, "box", [0.01, 0.02, 0.25], p.dark, pos=[0.28, -0.02, 0.95], name="refrigerator_handle")


PIECES = (
    Piece("shelf", (0.99, 0.33, 1.50), _shelf),
    Piece("coffee_table", (1.20, 0.60, 0.46), _table),
    Piece("sofa", (1.90, 0.85, 0.85), _sofa, 0.45),
    Piece("bins", (0.62, 0.26, 0.40), _bins),
    Piece("basket_stand", (0.36, 0.26, 0.48), _basket),
    Piece("tote_bench", (0.50, 0.30, 0.55), _bench),
    Piece("coat_rack", (0.40, 0.40, 1.65), _rack),
    Piece("tv_cabinet", (1.40, 0.40, 1.15), _cabinet),
    Piece("side_table", (0.45, 0.45, 0.55), _side_table),
    Piece("kitchen", (2.40, 0.62, 1.28), _kitchen),
    Piece("refrigerator", (0.70, 0.66, 1.50), _refrigerator, None),
)
BY_NAME = {piece.name: piece for piece in PIECES}
