"""`puzzle_box`: withdraw the bolts, slide the lid, stand what is inside in the tray, and press SUBMIT.

RoboQuest's Puzzle Box: chains of 4, 5 or 6 bolts, in view or partly under a cover, up to two decoys, one of which may drive
bolt 1 back. Measures, forces, thresholds, stages and held-out classes are the benchmark's. What differs:

* Cover: present or absent, as in the paper; present hides the repository's "partial" locks. Its slot is 0.17 x 0.09 m, and
  where the cover would cross the slot it is cut back.
* A layout is drawn by us within the benchmark's ranges. The deck stays on the footprint, so the chest's turn is within 45
  degrees on islands too.
* The item is round to look at and a box to touch, and its bounding box is that box, whichever way it lies. Floor, platform,
  tray and item are shapes of our own. Handles are capsules to touch.
* "Released" is no contact with hand or fingers: the arm's links do not collide.
* Tests of an instant see poses and contacts as the last physics step of a tick found them. "Ever" is read every 20 ticks,
  from the 20th on, and at the end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from evals.roboquest.constant import Constant
from evals.roboquest.instances import Quest, QuestRecipe
from evals.roboquest.kitchen import TOP_Z, Footprint
from evals.roboquest.puzzle_box_layout import (
    COVERED,
    DECK_BACK,
    DECK_FRONT,
    DECK_X,
    HELD_OUT,
    LIDS,
    Layout,
    NoLayout,
    draw_layout,
)
from evals.roboquest.puzzle_box_parts import (
    BLACKS,
    BOLTS,
    CORNERS,
    ITEM,
    SLIDERS,
    TRAY,
    WOODS,
    Chest,
    Item,
    Seen,
    Tray,
)
from evals.roboquest.puzzle_box_parts import NAME as CHEST
from evals.roboquest.puzzle_box_program import PuzzleBox
from evals.roboquest.submit import SAG, Submit
from evals.tabletop.draw import NoRoom, Placed
from mjx_bench.task import Atom, Fraction, Noted, Part, Rules, Threshold

NAME = "puzzle_box"
VERSION = "2"  # of the generator: changes when an index comes to stand for another instance
INSTRUCTION = (
    "take {} out of the wooden chest and stand it in the tray: the lid slides aside once the bolts with round black handles"
    " that lock it are out, in any order that works; let go of everything, then press the red button: the first press counts"
)
FOOTPRINT = Footprint(1.20, 0.66)
HORIZON = 12_000  # ticks
CELLS = tuple({"chain_length": chain, "cover": cover} for chain in HELD_OUT for cover in COVERED)
TRAY_AT, TRAY_YAW, SUBMIT_AT = (0.42, -0.04), math.pi / 2, (0.42, -0.30)
CHEST_X, CHEST_Y, CHEST_YAW = (-0.34, -0.06), (-0.22, 0.12), math.pi / 4
HANDLES_X, HANDLES_Y = 0.57, (-0.31, 0.18)  # where all handles are, world
RIGHT = 0.295  # metres: the deck stays to the left of it
OUT = 0.30  # metres from its start at which the item is out
FALLEN = 0.05  # metres below the work top at which something has left it
SAMPLE = 20  # ticks between looks for what has ever been
KINDS = (
    # What it is, colour, least and most radius, least and most height.
    ("tangerine", "orange", (0.024, 0.031), (0.042, 0.056)),
    ("tangerine", "orange", (0.028, 0.032), (0.050, 0.062)),
    ("tomato", "red", (0.026, 0.032), (0.040, 0.054)),
    ("candle", "white", (0.020, 0.028), (0.048, 0.062)),
)
_LAYOUTS, _POSES = 300, 200  # tries

SUBMIT = Submit("submit", (0.85, 0.08, 0.08))
LENGTH = Constant("chain_length", (0, 0, 0))


def _tell(q: Quest, placed: Sequence[Placed]) -> str:
    item = placed[0].thing
    assert isinstance(item, Item)
    return INSTRUCTION.format(f"the {item.kind}")


def _draw(q: Quest) -> list[Placed]:
    chain, cover = q.cell["chain_length"], q.cell["cover"]
    allowed = [lid for lid in LIDS if (lid == HELD_OUT[chain]) is q.held_out]
    lid = allowed[int(q.structure.rng.integers(len(allowed)))]
    decoys = int(q.structure.rng.integers(3))
    layout = _layout(q, lid, chain, cover, decoys)
    spot, yaw = _pose(q, layout)
    kind, name, radii, heights = KINDS[int(q.structure.rng.integers(len(KINDS)))]
    size = q.structure.between(*radii), q.structure.between(*heights)
    colour = q.materials.colour(name)
    item = Item(ITEM, colour, q.materials.between(400.0, 700.0), size=size, kind=kind)
    wood, handles = int(q.materials.rng.integers(len(WOODS))), int(q.materials.rng.integers(len(BLACKS)))
    chest = Chest(CHEST, WOODS[wood][0], layout, size[1], wood, handles)
    tray = Tray(TRAY, q.materials.colour(("teal", "grey", "white")[int(q.materials.rng.integers(3))]))
    c, s = math.cos(yaw), math.sin(yaw)
    x, y = layout.item
    return [
        Placed(item, (spot[0] + c * x - s * y, spot[1] + s * x + c * y), yaw, height=chest.platform + 0.0003),
        Placed(chest, spot, yaw),
        Placed(tray, TRAY_AT, TRAY_YAW),
        Placed(SUBMIT, SUBMIT_AT, joints={SUBMIT.joint: SAG}),
        Placed(Constant(LENGTH.name, (0, 0, 0), float(chain)), (0.0, 0.0)),
        *(Placed(Seen(f"{part}_grip", (0, 0, 0)), spot) for part in SLIDERS),
        *(Placed(Seen(f"{part}_end", (0, 0, 0)), spot) for part in SLIDERS[:-1]),
    ]


def _layout(q: Quest, lid: str, chain: int, cover: str, decoys: int) -> Layout:
    for _ in range(_LAYOUTS):
        try:
            return draw_layout(q.structure.rng, lid, chain, cover, decoys)
        except NoLayout:
            continue
    raise NoRoom


def _pose(q: Quest, layout: Layout) -> tuple[tuple[float, float], float]:
    """A pose of the chest in which it lies on the footprint, beside tray and button, and every handle is in reach."""
    deck = [(x, y) for x in (-DECK_X, DECK_X) for y in (DECK_FRONT, DECK_BACK[layout.lid])]
    handles = [bar.at(bar.length - 0.02 + travel) for bar in (*layout.bolts, *layout.decoys) for travel in (0.0, 0.05)]
    for _ in range(_POSES):
        (x, y), yaw = (q.poses.between(*CHEST_X), q.poses.between(*CHEST_Y)), q.poses.yaw(CHEST_YAW)
        c, s = math.cos(yaw), math.sin(yaw)

        def at(p: tuple[float, float], x: float = x, y: float = y, c: float = c, s: float = s) -> tuple[float, float]:
            return x + c * p[0] - s * p[1], y + s * p[0] + c * p[1]

        corners, grips = [at(p) for p in deck], [at(p) for p in handles]
        lies = all(-FOOTPRINT.x / 2 <= a <= RIGHT and abs(b) <= FOOTPRINT.y / 2 for a, b in corners)
        if lies and all(abs(a) <= HANDLES_X and HANDLES_Y[0] <= b <= HANDLES_Y[1] for a, b in grips):
            return (x, y), yaw
    raise NoRoom


INSIDE = tuple(Atom("out_of", (corner, f"{TRAY}_inside"), Threshold("<=", 0.0)) for corner in CORNERS)
PLACED = (*INSIDE, Atom("supported", (ITEM, TRAY)), Atom("free", (ITEM,)))
GOAL = (*PLACED, Atom("free", (CHEST,)))
# What has ever been: the lid half open; the item out, or in the tray.
_HALF, _OUT = 0, 1
LATCHES = (
    ((Atom("side", ("lid_at", "lid_half_open"), Threshold(">=", 0.0)),),),
    ((Atom("distance", (ITEM, "item_start"), Threshold(">", OUT)),), INSIDE),
)


def _bolt(i: int) -> Part:
    """Bolt i, where there is one: withdrawn, or the item is out."""
    out = Atom("turnon" if i == 1 else "open", (f"{BOLTS[i - 1]}_at",))
    return Part(given=(LENGTH.at_least(i - 0.5),), tests=((out,),), latches=(_OUT,))


RULES = Rules(
    submit=SUBMIT.press,
    score=Fraction(
        earned=(
            *(_bolt(i) for i in range(1, len(BOLTS) + 1)),
            Part(1 / 3, tests=(PLACED,), latches=(_HALF, _OUT)),
            Part(1 / 3, tests=(PLACED,), latches=(_OUT,)),
            Part(1 / 3, tests=(PLACED,)),
        ),
        possible=(*(Part(given=(LENGTH.at_least(i - 0.5),)) for i in range(1, len(BOLTS) + 1)), Part()),
        latches=LATCHES,
        every=SAMPLE,
    ),
    noted=(Noted("the item left the counter", (Atom("height", (ITEM,), Threshold("<", TOP_Z - FALLEN)),)),),
)
RECIPE = QuestRecipe(
    name=NAME,
    instruction=INSTRUCTION.format("what is inside"),
    tell=_tell,
    goal=GOAL,
    horizon=HORIZON,
    footprint=FOOTPRINT,
    draw=_draw,
    rules=RULES,
    cells=CELLS,
    program=PuzzleBox(FOOTPRINT),
)
