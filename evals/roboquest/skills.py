"""Isolated skill tests: pick an object and place it on a target; drive to an object and pick it. No SUBMIT.

One object and its target in a kitchen; what counts must hold for half a second, and then the episode ends. What differs from
the benchmark: the goal is looked at after every tick, not after every physics step; a budget of ticks stands for the fifty
decisions of an agent; scenes are drawn by us, since the benchmark's are not public; containers are round to look at and
collide as boxes.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from evals.roboquest import routes
from evals.roboquest.instances import Quest, QuestRecipe
from evals.roboquest.kitchen import TOP_Z, Footprint
from evals.roboquest.robot import FRAME
from evals.roboquest.skill_programs import DrivePick, PickPlace
from evals.tabletop.draw import NoRoom, Placed
from evals.tabletop.fixtures import Fixture, Zone
from evals.tabletop.objects import Loose
from evals.tabletop.shapes import add_region, contact, visual
from mjx_bench.evidence import samples_of_hold
from mjx_bench.task import Atom, Entity, Noted, Region, Rules, Threshold

VERSION = "2"  # of the generators: changes when an index comes to stand for another instance
HOLD = samples_of_hold(0.5, 20)
HORIZON = 1200  # ticks
STILL_SPEED, STILL_SPIN, UPRIGHT = 0.03, 0.2, math.radians(15.0)
LIFTED, NEAR = 0.05, 0.8  # metres: of the underside above the work top; of the base's frame from the object
FOOTPRINT = Footprint(1.0, 0.56)
TARGET_HALF, INSIDE = 0.085, 0.004  # of the square on the work top, and what an object keeps within it
FARTHEST = 4  # points of a route at most

# Radius and height of a can, a tin and a bottle, metres, and the bottle's cap.
KINDS = ((0.030, 0.111, 0.0), (0.034, 0.096, 0.0), (0.025, 0.118, 0.017))
COLOURS = ("red", "green", "yellow", "blue")
_SQUARE = 0.88  # half width of a square of a circle's area, in radii


@dataclasses.dataclass(frozen=True)
class Container(Loose):
    """A can, a tin or a bottle.

    Attributes:
      size: radius, height, and height of the cap, metres.
    """

    size: tuple[float, float, float] = KINDS[0]

    category = "container"

    @property
    def radius(self) -> float:
        return self.size[0]

    @property
    def rest_height(self) -> float:
        return (self.size[1] + self.size[2]) / 2

    def regions(self) -> tuple[Region, ...]:
        return (Region(f"{self.name}_foot", None, (0.01, 0.01, 0.001)),)

    def _geoms(self, body: Any) -> None:
        self._free(body)
        r, h, cap = self.size
        whole, side = h + cap, _SQUARE * r
        mass = self.density * math.pi * r * r * whole
        pale = tuple(0.4 + 0.6 * c for c in self.colour)
        low = -whole / 2
        # Never quite where the body's origin is: such a geom is another kind to MuJoCo, by `geom_sameframe`.
        middle = low + h / 2 - 0.0005
        visual(body, "cylinder", [r, h / 2 - 0.002], self.colour, name=f"{self.name}_look", pos=[0, 0, middle])
        visual(body, "cylinder", [1.01 * r, 0.18 * h], pale, name=f"{self.name}_label", pos=[0, 0, middle])
        top = max(cap, 0.004)
        lid = 0.55 * r if cap else 0.94 * r
        visual(
            body,
            "cylinder",
            [lid, top / 2],
            (0.8, 0.8, 0.82),
            name=f"{self.name}_cap",
            pos=[0, 0, low + whole - top / 2],
        )
        contact(
            body, "box", [side, side, whole / 2], "whole", mass=mass, name=f"{self.name}_body", friction=self._friction
        )
        add_region(body, self.regions()[0], [0.0, 0.0, low])


@dataclasses.dataclass(frozen=True)
class Waymark(Fixture):
    """A point of a route that a scripted expert takes: it knows the kitchen. Nobody sees or touches it."""

    category = "waymark"

    @property
    def radius(self) -> float:
        return 0.0  # in nothing's way

    def entity(self) -> Entity:
        return Entity(self.name, "fixture", self.category, self.name, None)

    def add(self, world: Any, pos: Any, quat: Any) -> None:
        world.add_body(name=self.name, pos=pos)


def _container(q: Quest) -> Container:
    size = KINDS[int(q.structure.rng.integers(len(KINDS)))]
    colour = COLOURS[int(q.structure.rng.integers(len(COLOURS)))]
    return Container(
        "container", q.materials.colour(colour), q.materials.between(300.0, 700.0), q.materials.friction(), size
    )


def _pick_place(q: Quest) -> list[Placed]:
    container = _container(q)
    tolerance = TARGET_HALF - INSIDE - max(r for r, *_ in KINDS)
    zone = Zone("target", q.materials.colour("orange"), half=TARGET_HALF, tolerance=tolerance)
    x, y = q.poses.between(-0.3, 0.3), q.poses.between(-0.19, 0.05)
    for _ in range(200):
        at = q.poses.between(x - 0.25, x + 0.25), q.poses.between(-0.22, 0.08)
        if abs(at[0]) < FOOTPRINT.x / 2 - 0.05 and math.dist(at, (x, y)) > TARGET_HALF * math.sqrt(2) + 0.04:
            return [Placed(container, at, q.poses.yaw()), Placed(zone, (x, y))]
    raise NoRoom


def _before_target(q: Quest, placed: Sequence[Placed]) -> tuple[float, float, float]:
    """The robot stands before the target."""
    _, y, yaw = q.kitchen.start
    return placed[1].xy[0], y, yaw


def _drive_pick(q: Quest) -> list[Placed]:
    """The waymarks of the way to the container; the last is where the robot starts."""
    container = _container(q)
    x, y = q.poses.between(-0.35, 0.35), q.poses.between(-0.2, 0.0)
    before = (x, FOOTPRINT.front - routes.TURNING - 0.02)
    if not routes.free(q.kitchen, before):
        raise NoRoom
    start, way = _start(q, before)
    points = [*way, *[before] * (FARTHEST - len(way))]
    marks = [Placed(Waymark(f"way_{i}", (0, 0, 0)), point) for i, point in enumerate(points)]
    return [Placed(container, (x, y), q.poses.yaw()), *marks, Placed(Waymark("way_start", (0, 0, 0)), start)]


def _start(q: Quest, before: routes.Point) -> tuple[routes.Point, list[routes.Point]]:
    """Where the robot starts, with a straight way to `before` or with a detour, as the instance's level has it."""
    x0, x1, y0, y1 = q.kitchen.layout.room
    straight = q.cell["route"] == "straight"
    for _ in range(100):
        at = q.poses.between(x0, x1), q.poses.between(y0, y1)
        near, far = (0.5, 1.8) if straight else (1.0, 6.0)
        if not near < math.dist(at, before) < far or not routes.free(q.kitchen, at):
            continue
        if routes.straight(q.kitchen, at, before) is not straight:
            continue
        way = routes.route(q.kitchen, at, before)
        if way is not None and len(way) < FARTHEST:
            return at, way
    raise NoRoom


def _away(q: Quest, placed: Sequence[Placed]) -> tuple[float, float, float]:
    """The robot faces the counter, or whatever is between them, more or less."""
    x, y = placed[-1].xy
    ahead = math.atan2(placed[0].xy[1] - y, placed[0].xy[0] - x)
    return x, y, ahead + q.poses.between(-0.5, 0.5)


def _settled(name: str) -> tuple[Atom, ...]:
    return (
        Atom("free", (name,)),
        Atom("speed", (name,), Threshold("<=", STILL_SPEED)),
        Atom("spin", (name,), Threshold("<=", STILL_SPIN)),
    )


# An object that started on the work top and is so much lower has left it, metres.
FALLEN = Noted("left the counter", (Atom("height", ("container_foot",), Threshold("<", TOP_Z - 0.05)),))

PICK_PLACE = QuestRecipe(
    name="skill_pick_place",
    instruction="put the container in the orange square on the counter",
    goal=(
        Atom("on", ("container", "target_area")),
        Atom("supported", ("container", "counter")),
        Atom("tilt", ("container_foot",), Threshold("<=", UPRIGHT)),
        *_settled("container"),
    ),
    horizon=HORIZON,
    footprint=FOOTPRINT,
    draw=_pick_place,
    rules=Rules(hold=HOLD, at_once=True, noted=(FALLEN,)),
    start=_before_target,
    program=PickPlace("container", "target"),
    events=("target_relocation",),
)
DRIVE_PICK = QuestRecipe(
    name="skill_drive_pick",
    instruction="drive to the container on the counter and pick it up",
    goal=(
        Atom("height", ("container_foot",), Threshold(">=", TOP_Z + LIFTED)),
        Atom("touched", ("container",)),
        Atom("apart", ("container", FRAME.name), Threshold("<=", NEAR)),
    ),
    horizon=HORIZON,
    footprint=FOOTPRINT,
    draw=_drive_pick,
    rules=Rules(hold=HOLD, at_once=True, noted=(FALLEN,)),
    cells=({"route": "straight"}, {"route": "detour"}),
    start=_away,
    program=DrivePick("container", tuple(f"way_{i}" for i in range(FARTHEST)), FOOTPRINT),
)
