"""Puzzle Box as bodies: the chest with its sliding layer, what is in it, and the tray.

Bolts, decoys and the lid are bars and plates on slide joints, a millimetre above the deck. A bolt's tip meets the notch that
it sits in, and no other slider: each link of the chain has a contact bit of its own. What an instance lacks lies in the
counter.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from evals.roboquest.puzzle_box_layout import (
    BOLT_DEPTH,
    DECK_BACK,
    DECK_FRONT,
    DECK_X,
    HALF_WIDTH,
    HANDLE_FROM_END,
    HANDLE_RADIUS,
    LID,
    LID_DEPTH,
    LID_HANDLE,
    LID_TRAVEL,
    OPENS,
    RELOCK_SHORT,
    TRAVEL,
    Bar,
    Layout,
)
from evals.tabletop.fixtures import Fixture
from evals.tabletop.objects import Loose
from evals.tabletop.shapes import CONTACT_GROUP, add_region, contact, visual, yaw_quat
from mjx_bench.task import Entity, Region, Threshold

NAME, ITEM, TRAY = "chest", "item", "tray"
CHAIN, DECOYS = 6, 2  # most bolts and most decoys
BOLTS = tuple(f"bolt_{i}" for i in range(1, CHAIN + 1))
SLIDERS = (*BOLTS, *(f"decoy_{i}" for i in range(1, DECOYS + 1)), "lid")
JOINTS = {part: f"{NAME}_{part}" for part in SLIDERS}

FLOOR, DECK, LAYER = 0.010, 0.075, (0.076, 0.088)  # heights of the floor's and the deck's top, and of the sliding layer
CAVITY = (0.11, 0.07)  # half sizes
BELOW_LAYER = 0.004  # of the item's top
ABOVE_LAYER, COVER_HALF = 0.004, 0.003  # of the cover's underside; half its thickness
HANDLE_HALF = 0.030
MASSES = {"lid": 0.16, "bolt": 0.07, "decoy": 0.06}
HANDLE_MASS = 0.02
DAMPING, DRY_FRICTION = 6.0, 1.2  # N s/m and N, of every slider
SPRING, SPRING_FRICTION = 100.0, 0.2  # of the decoy that drives bolt 1 back, N/m and N
RELEASED, LID_RELEASED = 0.02, 0.03  # travel from which on a bolt holds nothing: bolts that hold bolts, the lid's bolt
SHORT_OF_OPEN = 0.02  # of the lid's travel, from which on it is open
_SOLREF, _SOLIMP, _FRICTION = [0.006, 1.0], [0.98, 0.999, 0.001, 0.5, 2.0], [0.6, 0.005, 0.0001]

# Contact bits: those that hands and objects bring (`tabletop.shapes`), and one for each link, the last for rod and striker.
_HANDS_AND_OBJECTS = 2 | 4 | 16 | 32
_LINK = tuple(128 << i for i in range(CHAIN + 1))
_AWAY = -0.5  # metres below the work top: in the counter

WOODS = (
    ((0.62, 0.43, 0.26), (0.79, 0.61, 0.40), (0.47, 0.30, 0.17)),
    ((0.50, 0.31, 0.20), (0.72, 0.50, 0.33), (0.36, 0.21, 0.13)),
    ((0.74, 0.60, 0.42), (0.87, 0.76, 0.57), (0.57, 0.43, 0.28)),
    ((0.42, 0.33, 0.27), (0.66, 0.56, 0.46), (0.29, 0.22, 0.18)),
)  # deck, sliders, cover
BLACKS = ((0.05, 0.05, 0.06), (0.10, 0.09, 0.08), (0.07, 0.08, 0.10), (0.12, 0.12, 0.12))  # handles

TRAY_HALF, TRAY_MARGIN = (0.07, 0.10), 0.012  # of its inside; what the item keeps within it
TRAY_FLOOR, TRAY_RIM = 0.006, 0.006  # half thicknesses
_TRAY_ROOM = 0.30  # height of the region over its floor, metres


def opened(lid: str) -> float:
    """Travel of the lid from which on it is open."""
    return LID_TRAVEL[lid] - SHORT_OF_OPEN


@dataclasses.dataclass(frozen=True)
class Item(Loose):
    """What is in the chest: round to look at, a box to touch.

    Attributes:
      size: radius and height, metres.
      kind: what it is: a tangerine, a tomato or a candle.
    """

    size: tuple[float, float] = (0.030, 0.055)
    kind: str = "tangerine"

    category = "item"

    @property
    def half(self) -> tuple[float, float, float]:
        """Half sizes of its box."""
        side = 0.88 * self.size[0]
        return side, side, self.size[1] / 2

    @property
    def radius(self) -> float:
        return self.size[0]

    @property
    def rest_height(self) -> float:
        return self.size[1] / 2

    def regions(self) -> tuple[Region, ...]:
        """The corners of its box."""
        return tuple(Region(name, None, (0.0005, 0.0005, 0.0005)) for name in CORNERS)

    def _geoms(self, body: Any) -> None:
        self._free(body)
        r, h = self.size
        round_, straight = ([r, r, h / 2], [0.004, 0.004]) if self.kind != "candle" else ([0.004] * 3, [r, h / 2])
        visual(body, "ellipsoid", round_, self.colour, name=f"{self.name}_round")
        visual(body, "cylinder", straight, self.colour, name=f"{self.name}_straight")
        top = (0.25, 0.42, 0.16) if self.kind != "candle" else (0.15, 0.14, 0.13)
        visual(body, "cylinder", [0.003, 0.004], top, name=f"{self.name}_stem", pos=[0, 0, h / 2 + 0.001])
        mass = self.density * math.pi * r * r * h
        contact(body, "box", self.half, "whole", mass=mass, name=f"{self.name}_body", friction=[2.0, 0.005, 0.0001])
        for i, region in enumerate(self.regions()):
            signs = [1 if i & bit else -1 for bit in (1, 2, 4)]
            add_region(body, region, [s * h for s, h in zip(signs, self.half, strict=True)])


CORNERS = tuple(f"{ITEM}_corner_{i}" for i in range(8))


@dataclasses.dataclass(frozen=True)
class Tray(Fixture):
    """A floor with four rims, fixed."""

    rim: float = 0.012  # half height

    category = "tray"

    @property
    def radius(self) -> float:
        return math.hypot(*TRAY_HALF) + 2 * TRAY_RIM

    def entity(self) -> Entity:
        geoms = (f"{self.name}_floor", *(f"{self.name}_rim{i}" for i in range(4)))
        return Entity(self.name, "fixture", self.category, self.name, None, contact_geoms=geoms)

    def regions(self) -> tuple[Region, ...]:
        x, y = (half - TRAY_MARGIN for half in TRAY_HALF)
        return (Region(f"{self.name}_inside", None, (x, y, _TRAY_ROOM / 2)),)

    def add(self, world: Any, pos: Any, quat: Any) -> None:
        root = world.add_body(name=self.name, pos=pos, quat=quat)
        x, y = TRAY_HALF
        t = TRAY_RIM
        parts = [("floor", [x + 2 * t, y + 2 * t, TRAY_FLOOR], [0, 0, TRAY_FLOOR])]
        up = 2 * TRAY_FLOOR + self.rim
        for i, (sx, sy) in enumerate(((1, 0), (-1, 0), (0, 1), (0, -1))):
            size = [t, y + 2 * t, self.rim] if sx else [x, t, self.rim]
            parts.append((f"rim{i}", size, [sx * (x + t), sy * (y + t), up]))
        pale = tuple(0.4 + 0.6 * c for c in self.colour)
        for part, size, at in parts:
            visual(root, "box", size, pale if part == "floor" else self.colour, name=f"{self.name}_{part}_look", pos=at)
            contact(root, "box", size, "wall", name=f"{self.name}_{part}", pos=at)
        add_region(root, self.regions()[0], [0, 0, 2 * TRAY_FLOOR + _TRAY_ROOM / 2 - 0.005])


@dataclasses.dataclass(frozen=True)
class Seen(Fixture):
    """A place on the chest that anybody sees, and that moves with its part: a handle's foot, or a bar's inner end.

    Where the cover hides a bar's inner end, this one is at its handle. The x axis is the way in which the part slides out.
    """

    category = "place"

    @property
    def radius(self) -> float:
        return 0.0  # in nothing's way

    def entity(self) -> Entity:
        return Entity(self.name, "fixture", self.category, f"{NAME}_{self.name}", None)

    def add(self, world: Any, pos: Any, quat: Any) -> None:
        """The chest has it."""


@dataclasses.dataclass(frozen=True)
class Chest(Fixture):
    """The chest.

    Attributes:
      layout: its plan; height: of the item, metres.
      wood, handles: numbers of the colours.
    """

    layout: Layout = dataclasses.field(default_factory=lambda: Layout("x+", (0, 0.04), -1, (), (), (), 0, False))
    height: float = 0.05
    wood: int = 0
    handles: int = 0

    category = "chest"

    @property
    def radius(self) -> float:
        return math.hypot(DECK_X, DECK_FRONT)

    @property
    def bars(self) -> dict[str, Bar]:
        """Sliders that there are, the lid not among them, by name."""
        named = [*zip(BOLTS, self.layout.bolts, strict=False)]
        return dict([*named, *((f"decoy_{i}", bar) for i, bar in enumerate(self.layout.decoys, 1))])

    @property
    def platform(self) -> float:
        """Height of what the item stands on, above the work top."""
        return LAYER[0] - BELOW_LAYER - self.height

    def entity(self) -> Entity:
        geoms = [f"{NAME}_{part}" for part in ("floor", "left", "right", "front", "back", "platform")]
        geoms += [f"{NAME}_cover{i}" for i in range(3)]
        for part in SLIDERS:
            geoms += [f"{NAME}_{part}_{piece}" for piece in ("a", "b", "c", "handle")]
        return Entity(
            NAME, "fixture", self.category, NAME, None, joints=tuple(JOINTS.values()), contact_geoms=tuple(geoms),
            thresholds={"open": Threshold(">=", RELEASED), "turnon": Threshold(">=", LID_RELEASED)},
        )  # fmt: skip

    def regions(self) -> tuple[Region, ...]:
        small = (0.005, 0.005, 0.005)
        at = (Region(f"{part}_at", NAME, small, (JOINTS[part],)) for part in SLIDERS)
        return (*at, Region("lid_half_open", None, small), Region("item_start", None, small))

    def add(self, world: Any, pos: Any, quat: Any) -> None:
        root = world.add_body(name=NAME, pos=pos, quat=quat)
        self._case(root)
        regions = {region.name: region for region in self.regions()}
        bars = self.bars
        for part in SLIDERS[:-1]:
            self._bar(root, part, bars.get(part), regions[f"{part}_at"])
        self._lid(root, regions["lid_at"])
        self._cover(root)
        (wx, wy), far = OPENS[self.layout.lid], opened(self.layout.lid) / 2
        half_open = add_region(root, regions["lid_half_open"], [far * wx, far * wy, 0.0])
        # Its y axis is the way of the lid; never quite the chest's, which to MuJoCo is another kind of site.
        half_open.quat = yaw_quat(math.atan2(wy, wx) - math.pi / 2 + 1e-4)
        add_region(root, regions["item_start"], [*self.layout.item, self.platform + self.height / 2])

    def _case(self, root: Any) -> None:
        deck, back = WOODS[self.wood][0], DECK_BACK[self.layout.lid]
        (cx, cy), z = CAVITY, DECK / 2
        middle, deep = (DECK_FRONT + back) / 2, (back - DECK_FRONT) / 2
        x, y = self.layout.item
        stand = (self.platform - FLOOR) / 2
        dark = tuple(0.45 * c for c in deck)
        for part, size, at in (
            ("floor", [DECK_X, deep, FLOOR / 2], [0, middle, FLOOR / 2]),
            ("left", [(DECK_X - cx) / 2, deep, z], [-(DECK_X + cx) / 2, middle, z]),
            ("right", [(DECK_X - cx) / 2, deep, z], [(DECK_X + cx) / 2, middle, z]),
            ("front", [cx, (-cy - DECK_FRONT) / 2, z], [0, (DECK_FRONT - cy) / 2, z]),
            ("back", [cx, (back - cy) / 2, z], [0, (back + cy) / 2, z]),
            ("platform", [0.032, 0.032, stand], [x, y, FLOOR + stand]),
        ):
            visual(
                root, "box", size, dark if part in ("floor", "platform") else deck, name=f"{NAME}_{part}_look", pos=at
            )
            contact(root, "box", size, "wall", name=f"{NAME}_{part}", pos=at)

    def _bar(self, root: Any, part: str, bar: Bar | None, region: Region) -> None:
        """A bolt or decoy; the body's x axis is the way in which it withdraws, its origin the tip's edge."""
        decoy = part.startswith("decoy")
        number = 0 if decoy else int(part[5:])
        here = bar or Bar((0.0, 0.0), (1.0, 0.0), 0.12)
        body = root.add_body(
            name=f"{NAME}_{part}_body",
            pos=[*here.tip, 0.0 if bar else _AWAY - 0.05 * SLIDERS.index(part)],
            quat=yaw_quat(math.atan2(here.way[1], here.way[0])),
        )
        driver = part == "decoy_1" and self.layout.relock
        _slide(body, JOINTS[part], [-TRAVEL if decoy else 0.0, TRAVEL], spring=driver)
        begin, end = here.notch or (0.4 * here.length, 0.6 * here.length)
        depth = BOLT_DEPTH if here.notch else 0.0
        pieces = _notched(here.length, HALF_WIDTH, begin, end, depth, here.side)
        # A tip meets what it holds; a notch what holds it.
        tip, notch = (0, 0) if decoy else (_LINK[number - 1], _LINK[number] if number < CHAIN else 0)
        mass = MASSES["decoy" if decoy else "bolt"]
        self._slider(
            body, part, pieces, (tip, 0, 0), notch, mass, [here.length - HANDLE_FROM_END, 0.0], WOODS[self.wood][1]
        )
        add_region(body, region, [0, 0, LAYER[1]])
        seen = bar is None or not self.layout.hides(part, bar)
        body.add_body(name=f"{NAME}_{part}_end", pos=[0.0 if seen else here.length - HANDLE_FROM_END, 0.0, LAYER[1]])
        # In the floor, unseen: a striker under bolt 1, and the rod that the first decoy drives against it.
        if part in ("bolt_1", "decoy_1"):
            at = [0.04, 0.0]
            if part == "decoy_1" and driver:
                bolt = self.layout.bolts[0]
                face = np.array(bolt.at(0.04 + TRAVEL + 0.005 + RELOCK_SHORT + 0.005)) - here.tip
                (wx, wy) = here.way
                at = [float(face @ (wx, wy)), float(face @ (-wy, wx))]
            bits = (_LINK[CHAIN], 0) if part == "decoy_1" else (0, _LINK[CHAIN])
            z = FLOOR / 2 if self.layout.relock else _AWAY - (0.1 if part == "decoy_1" else 0.3)
            _solid(body, f"{NAME}_{part}_rod", [0.005, 0.008, 0.003], [*at, z], bits)

    def _lid(self, root: Any, region: Region) -> None:
        """The lid; the body's x axis is the way in which it opens, its origin its middle."""
        wx, wy = OPENS[self.layout.lid]
        along, across = LID if wx else (LID[1], LID[0])
        body = root.add_body(name=f"{NAME}_lid_body", quat=yaw_quat(math.atan2(wy, wx)))
        _slide(body, JOINTS["lid"], [0.0, LID_TRAVEL[self.layout.lid]])
        begin, end = (value + along for value in self.layout.lid_notch)
        pieces = [
            ([x - along, *rest], size)
            for (x, *rest), size in _notched(2 * along, across, begin, end, LID_DEPTH, self.layout.lid_side)
        ]
        (hx, hy) = LID_HANDLE[self.layout.lid]
        handle = [hx * wx + hy * wy, hy * wx - hx * wy]
        light = tuple(min(1.0, 1.1 * c) for c in WOODS[self.wood][1])
        self._slider(body, "lid", pieces, (0, 0, 0), _LINK[0], MASSES["lid"], handle, light)
        add_region(body, region, [0, 0, 0])

    def _slider(
        self,
        body: Any,
        part: str,
        pieces: Sequence[tuple[Sequence[float], Sequence[float]]],
        holds: Sequence[int],
        held: int,
        mass: float,
        handle: Sequence[float],
        colour: Sequence[float],
    ) -> None:
        middle, half = (LAYER[0] + LAYER[1]) / 2, (LAYER[1] - LAYER[0]) / 2
        area = sum(4 * size[0] * size[1] for _, size in pieces)
        for piece, bits, (at, size) in zip("abc", holds, pieces, strict=True):
            pos, name = [*at, middle], f"{NAME}_{part}_{piece}"
            own = (mass - HANDLE_MASS) * 4 * size[0] * size[1] / area
            visual(body, "box", [*size, half], colour, pos=pos, name=f"{name}_look")
            _solid(body, name, [*size, half], pos, (bits, _HANDS_AND_OBJECTS | held), own)
        grip = body.add_body(name=f"{NAME}_{part}_grip", pos=[*handle, LAYER[1]])
        at = [0.0, 0.0, HANDLE_HALF]
        visual(grip, "cylinder", [HANDLE_RADIUS, HANDLE_HALF], BLACKS[self.handles], pos=at, name=f"{NAME}_{part}_knob")
        straight = HANDLE_HALF - HANDLE_RADIUS
        contact(
            grip, "capsule", [HANDLE_RADIUS, straight], "handle", mass=HANDLE_MASS, name=f"{NAME}_{part}_handle",
            pos=at, friction=[1.5, 0.005, 0.0001], condim=4, solref=_SOLREF, solimp=_SOLIMP,
        )  # fmt: skip

    def _cover(self, root: Any) -> None:
        z = LAYER[1] + ABOVE_LAYER + COVER_HALF
        plates = [*self.layout.cover, *[None] * (3 - len(self.layout.cover))]
        for i, rect in enumerate(plates):
            x0, x1, y0, y1 = rect or (-0.02, 0.02, -0.02, 0.02)
            size = [(x1 - x0) / 2, (y1 - y0) / 2, COVER_HALF]
            at = [(x0 + x1) / 2, (y0 + y1) / 2, z if rect else _AWAY - 0.6 - 0.05 * i]
            visual(root, "box", size, WOODS[self.wood][2], name=f"{NAME}_cover{i}_look", pos=at)
            contact(root, "box", size, "wall", name=f"{NAME}_cover{i}", pos=at)


def _notched(
    length: float, half: float, begin: float, end: float, depth: float, side: int
) -> list[tuple[list[float], list[float]]]:
    """Middles and half sizes [2] of the three boxes of a bar from x = 0 to `length` with a notch in one side."""
    rest = half - depth / 2
    return [
        ([begin / 2, 0.0], [begin / 2, half]),
        ([(begin + end) / 2, -side * depth / 2], [(end - begin) / 2, rest]),
        ([(end + length) / 2, 0.0], [(length - end) / 2, half]),
    ]


def _slide(body: Any, name: str, limits: Sequence[float], *, spring: bool = False) -> None:
    import mujoco

    body.add_joint(
        name=name, type=mujoco.mjtJoint.mjJNT_SLIDE, axis=[1, 0, 0], range=limits, damping=[DAMPING, 0, 0],
        frictionloss=SPRING_FRICTION if spring else DRY_FRICTION, stiffness=[SPRING if spring else 0.0, 0, 0],
        solref_limit=_SOLREF, solimp_limit=_SOLIMP,
    )  # fmt: skip


def _solid(
    body: Any, name: str, size: Sequence[float], pos: Sequence[float], bits: tuple[int, int], mass: float = 0.0
) -> None:
    """A box that collides by bits of its own."""
    import mujoco

    body.add_geom(
        type=mujoco.mjtGeom.mjGEOM_BOX, name=name, size=size, pos=pos, contype=bits[0], conaffinity=bits[1],
        group=CONTACT_GROUP, mass=mass, friction=_FRICTION, solref=_SOLREF, solimp=_SOLIMP,
    )  # fmt: skip
