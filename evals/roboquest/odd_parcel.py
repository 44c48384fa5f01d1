"""`odd_parcel`: weigh parcels that look alike, put those that are too heavy or too light in the box, and press SUBMIT.

RoboQuest's Odd Parcel with 4, 6 or 8 parcels: all in view, some away on an annex, or one under a cover. Balance, masses,
box, thresholds and score are the benchmark's. What differs:

* Held-out structure classes are our own choice, since the benchmark's are not public; so are a parcel's looks.
* Out of view means on the same counter, 0.80 to 1.20 m to a side, out of every camera at the start; the benchmark may also
  stand an opaque box before a parcel. A cover is the small cloche, whose top and knob are boxes to touch.
* The balance is fixed to the work top: only an event can move it. A pan's rods meet nothing.
* "At rest" is at most 0.03 m/s and 0.2 rad/s, and "released" no contact with hand or fingers. A parcel is in the box if its
  corners are within the walls, as seen from above, and not below the floor; parcels may lie on each other there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from evals.roboquest.constant import Constant
from evals.roboquest.furniture import DECOR
from evals.roboquest.instances import Quest, QuestRecipe
from evals.roboquest.kitchen import TOP_Z, Footprint, waiting
from evals.roboquest.odd_parcel_parts import (
    BALANCE,
    BOX,
    CLOCHE,
    CLOCHE_RADIUS,
    HALF,
    INSIDE,
    MOVED,
    PAN,
    PANS,
    PARCELS,
    USUAL,
    AnswerBox,
    Balance,
    Cloche,
    Pan,
    Parcel,
)
from evals.roboquest.odd_parcel_program import OddParcel
from evals.roboquest.rectangles import Rect, apart
from evals.roboquest.robot import out_of_view
from evals.roboquest.submit import SAG, Submit
from evals.tabletop.draw import NoRoom, Placed
from mjx_bench.task import Atom, Fraction, Noted, Part, Rules, Threshold

NAME = "odd_parcel"
VERSION = "3"  # of the generator: changes when an index comes to stand for another instance
INSTRUCTION = (
    "most of the parcels weigh the same, and fewer than half are heavier or lighter: find out which with the balance, and"
    " put exactly those in the box; leave the balance where it stands, let go of everything, and press the red button;"
    " other things on the counter may be moved"
)
FOOTPRINT = Footprint(1.20, 0.60)
HORIZON = 12_000  # ticks
COUNTS, LEVELS = (4, 6, 8), ("visible", "look", "uncover")
CELLS = tuple({"parcel_count": count, "observability": level} for count in COUNTS for level in LEVELS)
ODD = {4: 1, 6: 2, 8: 3}
DEVIATIONS = (0.12, 0.20)  # kg
# Direction and magnitudes, as far as so many odd parcels can have them; held out are those for evaluation alone.
CLASSES = {
    4: ("H-same", "L-same"),
    6: ("H-same", "L-same", "HL-same", "H-different", "L-different", "HL-different"),
    8: ("H-same", "L-same", "HL-same", "H-different", "L-different", "HL-different"),
}
HELD_OUT = {4: ("L-same",), 6: ("HL-same", "H-different"), 8: ("HL-different", "L-same")}
BALANCE_AT, BALANCE_STRAY, BALANCE_YAW = (-0.22, 0.11), 0.05, math.radians(10.0)
BOX_AT, SUBMIT_AT = (0.40, 0.02), (0.40, -0.22)
AREA = (-0.53, 0.31, -0.24, 0.01)  # of the parcels' middles: x from, x to, y from, y to
ANNEX_X, ANNEX_Y = (0.80, 1.20), (-0.25, -0.02)  # to either side: as far as the base goes
GAP = 0.025  # metres between things on the counter: more than the benchmark's 0.02, for fingers
STILL_SPEED, STILL_SPIN = 0.03, 0.2
FALLEN = 0.05  # metres below the work top at which a parcel has left it
COLOURS = ("brown", "white", "orange", "grey", "teal", "yellow")
_TRIES = 400

SUBMIT = Submit("submit", (0.85, 0.08, 0.08))


def _draw(q: Quest) -> list[Placed]:
    count, level = q.cell["parcel_count"], q.cell["observability"]
    masses = draw_masses(q, count)
    spot = tuple(c + q.poses.between(-BALANCE_STRAY, BALANCE_STRAY) for c in BALANCE_AT)
    yaw = q.poses.yaw(BALANCE_YAW)
    taken: list[Rect] = [
        ((spot[0], spot[1]), (0.18 + PAN[0] + 0.01, PAN[1] + 0.01), yaw),
        (BOX_AT, (INSIDE[0] + 0.02, INSIDE[1] + 0.02), 0.0),
        (SUBMIT_AT, (0.055, 0.05), 0.0),
    ]
    poses: list[tuple[tuple[float, float], float, float]] = []  # middle, turn, height
    away = 1 + int(q.poses.rng.integers(2)) if level == "look" else 0
    stacked = int(q.poses.rng.integers(count // 4 + 1))
    side = 1 if q.poses.rng.integers(2) else -1
    covered = level == "uncover"
    for i in range(count):
        if i < away:
            poses.append(_away(q, taken, side))
        elif covered and i == 0:
            poses.append(_under(q, taken))
        elif i >= count - stacked:
            (x, y), turn, _ = poses[i - (count - stacked) + max(away, int(covered))]
            poses.append(((x, y), turn + q.poses.yaw(0.15), 2 * HALF[2]))
        else:
            poses.append(_spot(q, taken))
    order = q.structure.rng.permutation(count)  # whose place says nothing of its mass
    colour = q.materials.colour(COLOURS[int(q.materials.rng.integers(len(COLOURS)))])
    friction = q.materials.between(0.6, 0.9)
    placed, odd = [], []
    for i, name in enumerate(PARCELS):
        here = i < count
        mass = masses[int(order[i])] if here else USUAL
        (x, y), turn, height = poses[i] if here else (waiting(i), 0.0, 0.0)
        placed.append(Placed(Parcel(name, colour, friction=friction, mass=mass), (x, y), turn, height=height))
        odd.append(Placed(Constant(f"{name}_odd", (0, 0, 0), float(abs(mass - USUAL) > 0.01)), (0.0, 0.0)))
    (x, y) = poses[0][0] if covered else waiting(len(PARCELS))
    return [
        *placed,
        Placed(Cloche(CLOCHE, q.materials.colour("grey"), friction=0.6), (x, y), q.poses.yaw()),
        Placed(Balance(BALANCE, (0.7, 0.7, 0.7)), (spot[0], spot[1]), yaw),
        Placed(AnswerBox(BOX, q.materials.colour("blue")), BOX_AT),
        Placed(SUBMIT, SUBMIT_AT, joints={SUBMIT.joint: SAG}),
        *odd,
        *(Placed(Pan(f"{pan}_pan", (0, 0, 0)), (0.0, 0.0)) for pan in PANS),
    ]


def _tell(q: Quest, placed: Sequence[Placed]) -> str:
    """With the number of parcels in half of the instances."""
    count = {4: "four", 6: "six", 8: "eight"}[q.cell["parcel_count"]]
    return f"there are {count} parcels; {INSTRUCTION}" if q.wording.rng.integers(2) else INSTRUCTION


def draw_masses(q: Quest, count: int) -> list[float]:
    """Masses of `count` parcels, kilograms, the odd ones first."""
    allowed = [c for c in CLASSES[count] if (c in HELD_OUT[count]) is q.held_out]
    direction, magnitude = allowed[int(q.structure.rng.integers(len(allowed)))].split("-")
    number, rng = ODD[count], q.structure.rng
    if magnitude == "same":
        sizes = [DEVIATIONS[int(rng.integers(2))]] * number
    else:
        sizes = [*DEVIATIONS, *(DEVIATIONS[int(rng.integers(2))] for _ in range(number - 2))]
        rng.shuffle(sizes)
    signs = [{"H": 1, "L": -1}.get(direction, 0)] * number
    if direction == "HL":
        signs = [1, -1, *(1 if rng.integers(2) else -1 for _ in range(number - 2))]
        rng.shuffle(signs)
    return [*(USUAL + s * d for s, d in zip(signs, sizes, strict=True)), *[USUAL] * (count - number)]


def _spot(q: Quest, taken: list[Rect]) -> tuple[tuple[float, float], float, float]:
    """A free place before the balance."""
    for _ in range(_TRIES):
        x, y = q.poses.between(*AREA[:2]), q.poses.between(*AREA[2:])
        rect: Rect = ((x, y), HALF[:2], q.poses.yaw())
        if all(apart(rect, other) >= GAP for other in taken):
            taken.append(rect)
            return (x, y), rect[2], 0.0
    raise NoRoom


def _away(q: Quest, taken: list[Rect], side: int) -> tuple[tuple[float, float], float, float]:
    """A free place on the annex at a side: out of every camera at the start, and clear of what the kitchen has there."""
    x0, x1, _, _ = q.kitchen.layout.parts["counter"].rectangle
    end = min(ANNEX_X[1], (x1 if side > 0 else -x0) - math.hypot(*HALF[:2]))
    if end < ANNEX_X[0]:
        raise NoRoom
    about = [((x, y), (scale * r, scale * r), 0.0) for (x, y, scale), r in zip(q.kitchen.decor, DECOR, strict=True)]
    for _ in range(_TRIES):
        x, y = side * q.poses.between(ANNEX_X[0], end), q.poses.between(*ANNEX_Y)
        rect: Rect = ((x, y), HALF[:2], q.poses.yaw())
        free = all(apart(rect, other) >= GAP for other in (*taken, *about))
        if free and out_of_view(q.kitchen.start, _corners(rect)):
            taken.append(rect)
            return (x, y), rect[2], 0.0
    raise NoRoom


def _corners(rect: Rect) -> np.ndarray:
    """[8, 3] of a parcel on the counter, metres."""
    (x, y), (hx, hy), yaw = rect
    c, s = math.cos(yaw), math.sin(yaw)
    return np.array(
        [
            [x + c * a - s * b, y + s * a + c * b, TOP_Z + z]
            for a in (-hx, hx)
            for b in (-hy, hy)
            for z in (0.0, 2 * HALF[2])
        ]
    )


def _under(q: Quest, taken: list[Rect]) -> tuple[tuple[float, float], float, float]:
    """A place with room for the cloche, and another one where it can be put."""
    found = []
    for _ in range(2):
        for _ in range(_TRIES):
            x, y = q.poses.between(*AREA[:2]), q.poses.between(*AREA[2:])
            rect: Rect = ((x, y), (CLOCHE_RADIUS, CLOCHE_RADIUS), 0.0)
            if all(apart(rect, other) >= GAP for other in taken):
                taken.append(rect)
                found.append((x, y))
                break
        else:
            raise NoRoom
    return found[0], q.poses.yaw(), 0.0


def _odd(name: str) -> Atom:
    return Atom("height", (f"{name}_odd_value",), Threshold(">=", 0.5))


def _in_box(name: str) -> tuple[Atom, ...]:
    return Atom("out_of", (f"{name}_whole", f"{BOX}_inside"), Threshold("<=", 0.0)), Atom("free", (name,))


def _still(names: Sequence[str]) -> tuple[Atom, ...]:
    return tuple(
        atom
        for name in names
        for atom in (
            Atom("free", (name,)),
            Atom("speed", (name,), Threshold("<=", STILL_SPEED)),
            Atom("spin", (name,), Threshold("<=", STILL_SPIN)),
        )
    )


_HOME = (BALANCE, f"{BALANCE}_home")
# Which parcels are in the box, the score says: it is whole where they are exactly the odd ones.
GOAL = (*_still(PARCELS), Atom("distance", _HOME, Threshold("<=", MOVED)))
RULES = Rules(
    submit=SUBMIT.press,
    score=Fraction(
        earned=tuple(Part(given=(_odd(name), *_in_box(name))) for name in PARCELS),
        possible=tuple(Part(tests=((_odd(name),), _in_box(name))) for name in PARCELS),
        unwanted=((Atom("distance", _HOME, Threshold(">", MOVED)),),),
        deduction=0.1,
    ),
    whole=True,
    noted=tuple(
        Noted(f"{name} left the counter", (Atom("height", (name,), Threshold("<", TOP_Z - FALLEN)),))
        for name in PARCELS
    ),
)
RECIPE = QuestRecipe(
    name=NAME,
    instruction=INSTRUCTION,
    tell=_tell,
    goal=GOAL,
    horizon=HORIZON,
    footprint=FOOTPRINT,
    draw=_draw,
    rules=RULES,
    cells=CELLS,
    program=OddParcel(FOOTPRINT),
)
