"""Odd Parcel as bodies: parcels that look alike, a balance with two hanging pans, the answer box, and a cloche."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from evals.tabletop.fixtures import Fixture
from evals.tabletop.objects import Loose
from evals.tabletop.shapes import add_region, axis_quat, contact, visual
from mjx_bench.task import Entity, Region

PARCELS = tuple(f"parcel_{i}" for i in range(1, 9))
HALF = (0.035, 0.05, 0.025)  # of a parcel, metres
USUAL = 0.25  # kg

BALANCE, BOX, CLOCHE = "balance", "box", "cloche"
PIVOT, ARM, HANG = 0.34, 0.18, 0.28  # metres: height of the beam's axis; to either pan's; from there down to the pan
STOP, PAN_SWING = math.radians(12.0), math.radians(60.0)
STIFFNESS, DAMPING, PAN_DAMPING, ARMATURE = 1.8, 0.25, 0.30, 0.0002
PAN = (0.13, 0.08, 0.004)  # half sizes of its floor
BEAM_JOINT = f"{BALANCE}_beam"
PANS = ("left", "right")
ROD_SIDE, ROD_BACK, ROD = 0.11, 0.076, 0.004
MOVED = 0.02  # metres of the balance from where it stood

INSIDE, BOX_WALL, BOX_HIGH, BOX_FLOOR = (0.05, 0.065), 0.008, 0.06, 0.008  # of the answer box
BOX_SLACK = 0.005
_BOX_ROOM = 0.40  # height of its region: parcels may lie on each other

CLOCHE_RADIUS, CLOCHE_HEIGHT, CLOCHE_WALL, CLOCHE_MASS = 0.080, 0.100, 0.004, 0.30
KNOB_MASS, KNOB_STEM, KNOB_CAP = 0.02, (0.010, 0.020), (0.0125, 0.005)  # radius and height
RING = 16  # boxes around it


@dataclasses.dataclass(frozen=True)
class Parcel(Loose):
    """A parcel of a mass of its own; nothing else tells it from the others."""

    mass: float = USUAL

    category = "parcel"

    @property
    def radius(self) -> float:
        return math.hypot(*HALF[:2])

    @property
    def rest_height(self) -> float:
        return HALF[2]

    def regions(self) -> tuple[Region, ...]:
        return (Region(f"{self.name}_whole", None, HALF),)

    def _geoms(self, body: Any) -> None:
        self._free(body)
        _, y, z = HALF
        tape = tuple(0.55 * c for c in self.colour)
        visual(body, "box", HALF, self.colour, name=f"{self.name}_look")
        visual(body, "box", [0.006, y + 0.0004, z + 0.0004], tape, name=f"{self.name}_tape")
        contact(body, "box", HALF, "whole", mass=self.mass, name=f"{self.name}_body", friction=self._friction)
        add_region(body, self.regions()[0], [0.0, 0.0, 0.0])


@dataclasses.dataclass(frozen=True)
class Balance(Fixture):
    """A beam on a sprung hinge, and a pan that hangs from either end. The joint is the beam's angle."""

    category = "balance"

    @property
    def radius(self) -> float:
        return ARM + PAN[0]

    def entity(self) -> Entity:
        geoms = [f"{BALANCE}_{part}" for part in ("base", "pillar", "bar")]
        geoms += [f"{BALANCE}_{pan}_{part}" for pan in PANS for part in ("floor", "rim0", "rim1", "rim2", "rim3")]
        return Entity(
            BALANCE, "fixture", self.category, BALANCE, None, joints=(BEAM_JOINT,), contact_geoms=tuple(geoms)
        )

    def regions(self) -> tuple[Region, ...]:
        return (Region(f"{BALANCE}_home", None, (0.01, 0.01, 0.01)),)

    def add(self, world: Any, pos: Any, quat: Any) -> None:
        # Where it stood, whatever is done to it.
        add_region(world.add_body(name=f"{BALANCE}_home_body", pos=pos), self.regions()[0], [0.0, 0.0, 0.0])
        root = world.add_body(name=BALANCE, pos=pos, quat=quat)
        dark, steel = (0.20, 0.21, 0.23), (0.70, 0.72, 0.75)
        for part, size, at, mass in (
            ("base", [0.05, 0.08, 0.006], [0.0, 0.0, 0.006], 0.6),
            ("pillar", [0.015, 0.015, 0.15], [0.0, 0.0, 0.162], 0.4),
        ):
            visual(root, "box", size, dark, name=f"{BALANCE}_{part}_look", pos=at)
            contact(root, "box", size, "wall", name=f"{BALANCE}_{part}", pos=at, mass=mass)
        # A dial behind the pointer: ticks at the stops, half way, and level.
        visual(root, "box", [0.045, 0.002, 0.030], (0.95, 0.95, 0.92), name=f"{BALANCE}_dial", pos=[0, -0.019, 0.235])
        for i, share in enumerate((-1.0, -0.5, 0.0, 0.5, 1.0)):
            angle = share * STOP
            at = [-0.12 * math.sin(angle), -0.0215, PIVOT - 0.12 * math.cos(angle)]
            colour = (0.85, 0.1, 0.1) if share == 0.0 else (0.1, 0.1, 0.1)
            visual(
                root, "box", [0.0012, 0.0006, 0.012], colour, name=f"{BALANCE}_tick{i}", pos=at,
                quat=axis_quat((0, 1, 0), angle),
            )  # fmt: skip
        self._beam(root, steel)

    def _beam(self, root: Any, steel: Sequence[float]) -> None:
        beam = root.add_body(name=f"{BALANCE}_beam_body", pos=[0.0, 0.0, PIVOT])
        _hinge(beam, BEAM_JOINT, STOP, DAMPING, STIFFNESS, ARMATURE)
        size, at = [0.195, 0.008, 0.006], [0.0, 0.0, -0.012]
        visual(beam, "box", size, steel, name=f"{BALANCE}_bar_look", pos=at)
        contact(beam, "box", size, "wall", name=f"{BALANCE}_bar", pos=at, mass=0.25)
        needle = [0.0012, 0.0008, 0.060]
        visual(beam, "box", needle, (0.85, 0.1, 0.1), name=f"{BALANCE}_pointer", pos=[0, -0.023, -0.060])
        for pan, side in zip(PANS, (-1.0, 1.0), strict=True):
            self._pan(beam, pan, side * ARM, steel)

    def _pan(self, beam: Any, pan: str, x: float, steel: Sequence[float]) -> None:
        """The pan's body has its origin in the hinge; where its floor is, another one is for whoever looks."""
        body = beam.add_body(name=f"{BALANCE}_{pan}_body", pos=[x, 0.0, 0.0])
        _hinge(body, f"{BALANCE}_{pan}_swing", PAN_SWING, PAN_DAMPING, 0.0, ARMATURE)
        px, py, pz = PAN
        brass = (0.80, 0.68, 0.36)
        rim = 0.020 / 2
        parts = [("floor", list(PAN), [0.0, 0.0, -HANG], 0.20)]
        for i, (sx, sy) in enumerate(((1, 0), (-1, 0), (0, 1), (0, -1))):
            size = [0.002, py, rim] if sx else [px, 0.002, rim]
            parts.append((f"rim{i}", size, [sx * (px - 0.002), sy * (py - 0.002), -HANG + pz + rim], 0.01))
        for part, size, at, mass in parts:
            name = f"{BALANCE}_{pan}_{part}"
            visual(body, "box", size, brass, name=f"{name}_look", pos=at)
            contact(body, "box", size, "wall", name=name, pos=at, mass=mass, friction=[0.8, 0.005, 0.0001])
        for i, side in enumerate((-1, 1)):
            ends = [side * ROD_SIDE, ROD_BACK, -HANG, side * 0.02, 0.0, 0.0]
            visual(body, "capsule", [ROD], steel, name=f"{BALANCE}_{pan}_rod{i}", fromto=ends)
        body.add_body(name=f"{BALANCE}_{pan}_pan", pos=[0.0, 0.0, pz - HANG])


@dataclasses.dataclass(frozen=True)
class Pan(Fixture):
    """The middle of a pan's floor, which anybody sees; the balance has it."""

    category = "place"

    @property
    def radius(self) -> float:
        return 0.0  # in nothing's way

    def entity(self) -> Entity:
        return Entity(self.name, "fixture", self.category, f"{BALANCE}_{self.name}", None)

    def add(self, world: Any, pos: Any, quat: Any) -> None:
        """The balance has it."""


@dataclasses.dataclass(frozen=True)
class AnswerBox(Fixture):
    """An open box, fixed."""

    category = "box"

    @property
    def radius(self) -> float:
        return math.hypot(*(half + BOX_WALL for half in INSIDE))

    def entity(self) -> Entity:
        geoms = (f"{self.name}_floor", *(f"{self.name}_wall{i}" for i in range(4)))
        return Entity(self.name, "fixture", self.category, self.name, None, contact_geoms=geoms)

    def regions(self) -> tuple[Region, ...]:
        x, y = (half + BOX_SLACK for half in INSIDE)
        return (Region(f"{self.name}_inside", None, (x, y, _BOX_ROOM / 2)),)

    def add(self, world: Any, pos: Any, quat: Any) -> None:
        root = world.add_body(name=self.name, pos=pos, quat=quat)
        (x, y), t, up = INSIDE, BOX_WALL / 2, BOX_FLOOR + BOX_HIGH / 2
        pale = tuple(0.5 + 0.5 * c for c in self.colour)
        floor = [x + 2 * t, y + 2 * t, BOX_FLOOR / 2]
        visual(root, "box", floor, pale, name=f"{self.name}_floor_look", pos=[0, 0, BOX_FLOOR / 2])
        contact(root, "box", floor, "wall", name=f"{self.name}_floor", pos=[0, 0, BOX_FLOOR / 2])
        for i, (sx, sy) in enumerate(((1, 0), (-1, 0), (0, 1), (0, -1))):
            size = [t, y + 2 * t, BOX_HIGH / 2] if sx else [x, t, BOX_HIGH / 2]
            at = [sx * (x + t), sy * (y + t), up]
            visual(root, "box", size, self.colour, name=f"{self.name}_wall{i}_look", pos=at)
            contact(root, "box", size, "wall", name=f"{self.name}_wall{i}", pos=at)
        add_region(root, self.regions()[0], [0, 0, BOX_FLOOR + _BOX_ROOM / 2 - BOX_SLACK])


@dataclasses.dataclass(frozen=True)
class Cloche(Loose):
    """A dome with a knob, opaque, over one parcel. The origin is the middle of its rim."""

    category = "cloche"

    @property
    def radius(self) -> float:
        return CLOCHE_RADIUS

    @property
    def rest_height(self) -> float:
        return 0.0

    def _contacts(self) -> list[str]:
        return [*(f"{self.name}_ring{i}" for i in range(RING)), f"{self.name}_top", f"{self.name}_knob"]

    def _geoms(self, body: Any) -> None:
        self._free(body)
        r, h, t = CLOCHE_RADIUS, CLOCHE_HEIGHT, CLOCHE_WALL
        shell, middle = CLOCHE_MASS - KNOB_MASS, r - t / 2
        wide = middle * math.tan(math.pi / RING) + 0.001
        top_share = r / (r + 2 * h)
        for i in range(RING):
            angle = 2 * math.pi * i / RING
            at, quat = [middle * math.cos(angle), middle * math.sin(angle), h / 2], axis_quat((0, 0, 1), angle)
            visual(body, "box", [t / 2, wide, h / 2], self.colour, name=f"{self.name}_ring{i}_look", pos=at, quat=quat)
            # It stands on four of them: a contact for each corner of the others would be all that the solver does.
            short = 0.0 if i % 4 == 0 else 0.001
            size, at = [t / 2, wide, (h - short) / 2], [at[0], at[1], (h + short) / 2]
            contact(
                body, "box", size, "whole", name=f"{self.name}_ring{i}", pos=at, quat=quat,
                mass=shell * (1 - top_share) / RING, friction=self._friction,
            )  # fmt: skip
        visual(body, "cylinder", [r, t / 2], self.colour, name=f"{self.name}_top_look", pos=[0, 0, h + t / 2])
        side = r / math.sqrt(2)
        contact(
            body, "box", [side, side, t / 2], "whole", name=f"{self.name}_top", pos=[0, 0, h + t / 2],
            mass=shell * top_share, friction=self._friction,
        )  # fmt: skip
        (r1, h1), (r2, h2) = KNOB_STEM, KNOB_CAP
        metal = (0.75, 0.72, 0.60)
        foot = h + t
        visual(body, "cylinder", [r1, h1 / 2], metal, name=f"{self.name}_stem_look", pos=[0, 0, foot + h1 / 2])
        visual(body, "cylinder", [r2, h2 / 2], metal, name=f"{self.name}_cap_look", pos=[0, 0, foot + h1 + h2 / 2])
        contact(
            body, "box", [0.9 * r1, 0.9 * r1, (h1 + h2) / 2], "whole", name=f"{self.name}_knob",
            pos=[0, 0, foot + (h1 + h2) / 2], mass=KNOB_MASS, friction=[1.5, 0.01, 0.0001],
        )  # fmt: skip


def _hinge(body: Any, name: str, limit: float, damping: float, stiffness: float, armature: float) -> None:
    import mujoco

    body.add_joint(
        name=name, type=mujoco.mjtJoint.mjJNT_HINGE, axis=[0, 1, 0], range=[-limit, limit], damping=[damping, 0, 0],
        stiffness=[stiffness, 0, 0], armature=armature,
    )  # fmt: skip
