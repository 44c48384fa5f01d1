"""`discover_tidy_room`: touch whatever has to be put away, which nobody lists, and little else.

Task discovery of RobotAgentBench, its kind of scenario that tidies up. What the robot is told is a household's memory and a
request; a thing has to be put away if it is waste, or if the memory gives it another place than where it lies. An episode
ends when all N of these were touched with a finger, when N + 2 different things were, or after 600 s; progress is the share
of the N. What differs from the benchmark's sheet:

* One of the four kinds of scenario. N is 3 to 5, among 8 things on the sofa and the coffee table; there it is 3 to 10.
* A touch is a contact after the last physics step of a control step, whatever its force; a thing that a hand holds touches
  nothing.
* The robot starts between sofa and table, facing either, and may see a target then.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from evals.robot_agent_bench.catalogue import BELONGINGS, WASTE, Item
from evals.robot_agent_bench.furniture import SEAT, TABLE_TOP
from evals.robot_agent_bench.household import MARK, Drawer, Home, Placed
from evals.robot_agent_bench.instances import Drawn, Instances, NoInstance
from evals.robot_agent_bench.layouts import layouts
from evals.robot_agent_bench.tasking import COARSE_HZ, CONTROL_HZ, make_task
from mjx_bench.control.bimanual import OPEN
from mjx_bench.errors import BenchError
from mjx_bench.task import Atom, Finds, Region, Rules, Task, Threshold

NAME = "discover_tidy_room"
VERSION = "2"  # of the generator
INSTRUCTION = "touch everything that has to be put away, and little else"
HORIZON = 600 * CONTROL_HZ
FEWEST, MOST, THINGS, SPARE = 3, 5, 8, 2

# Roles of what has to be put away in every instance, of what has to be in some, and of what never has.
WANTED = tuple(f"target_{i}" for i in range(1, FEWEST + 1))
EITHER = tuple(f"either_{i}" for i in range(1, MOST - FEWEST + 1))
BESIDE = tuple(f"other_{i}" for i in range(1, THINGS - MOST + 1))
ROLES = (*WANTED, *EITHER, *BESIDE)
# A mark above the floor says that the thing has to be put away, one below it that it has not.
MARKS = tuple(Region(f"{role}_asked", None, (MARK,) * 3) for role in EITHER)
ASKED, NOT_ASKED = 1.0, -1.0
GOAL = tuple(Atom("touched", (role,)) for role in (*WANTED, *EITHER))
RULES = Rules(
    finds=Finds(
        tuple(Atom("touched", (role,)) for role in BESIDE),
        SPARE,
        (*((),) * FEWEST, *((Atom("height", (mark.name,), Threshold(">=", 0.0)),) for mark in MARKS)),
    )
)

PLACES = ("coffee table", "sofa", "side table", "drawer", "storage basket", "tote bag")
_SPOTS = (
    *(("sofa", x, y, SEAT) for y in (0.12, 0.36) for x in (-0.45, 0.0, 0.45)),
    *(("coffee_table", x, 0.16, TABLE_TOP) for x in (-0.40, -0.13, 0.13, 0.40)),
)
REQUESTS = (
    "Please tidy up in here.",
    "Could you put the room in order?",
    "Show me what has to be put away.",
    "Things lie about; find what does not belong where it is.",
    "Get the room ready to be cleaned.",
)
_IDLE = ("The plants are watered on Sundays.", "Nobody uses the upper shelf.", "The window stays closed at night.")
_WASTE = "Waste never stays where it is."


def memory(homes: dict[str, str], drawer: Drawer) -> str:
    """The sentences of a household, in random order, and a request."""
    sentences = [f"The {name.replace('_', ' ')} belongs on the {place}." for name, place in sorted(homes.items())]
    sentences += [_WASTE, *_IDLE[:2]]
    order = drawer.rng.permutation(len(sentences))
    return " ".join([*(sentences[i] for i in order), REQUESTS[int(drawer.rng.integers(len(REQUESTS)))]])


def misplaced(text: str, lying: dict[str, str]) -> set[str]:
    """What has to be put away, by reading.

    Args:
      text: what the robot is told.
      lying: name of each thing that it sees to where it lies.

    Raises:
      BenchError: a thing that is no waste, and that the memory has no place for.
    """
    waste, found = {item.name for item in WASTE}, set()
    for name, here in lying.items():
        if name in waste:
            found.add(name)
            continue
        said = [place for place in PLACES if f"The {name.replace('_', ' ')} belongs on the {place}." in text]
        if len(said) != 1:
            raise BenchError(f"the household's memory has {len(said)} places for the {name}; it must have one")
        if said[0] != here:
            found.add(name)
    return found


def draw(drawer: Drawer) -> Drawn:
    """An instance.

    Raises:
      NoInstance: of what was drawn.
    """
    rng, number = drawer.rng, drawer.layout()
    plan = layouts()[number]
    spots = [_SPOTS[i] for i in rng.permutation(len(_SPOTS))[:THINGS]]
    asked = int(rng.integers(FEWEST, MOST + 1))
    waste = [WASTE[i] for i in rng.permutation(len(WASTE))[: int(rng.integers(1, 3))]]
    own = [BELONGINGS[i] for i in rng.permutation(len(BELONGINGS))]
    items: list[Item] = [*waste, *own[: THINGS - len(waste)]]
    moved = {item.name for item in items[:asked]}
    homes: dict[str, str] = {}
    for item, (piece, *_) in zip(items, spots, strict=True):
        here = piece.replace("_", " ")
        if item in waste:
            continue
        elsewhere = [place for place in PLACES if place != here]
        homes[item.name] = elsewhere[int(rng.integers(len(elsewhere)))] if item.name in moved else here
    homes |= {item.name: PLACES[int(rng.integers(len(PLACES)))] for item in own if item.name not in homes}
    told = memory(homes, drawer)
    lying = {item.name: piece.replace("_", " ") for item, (piece, *_) in zip(items, spots, strict=True)}
    if misplaced(told, lying) != moved:
        raise NoInstance
    things = []
    for role, item, (piece, x, y, z) in zip(ROLES, items, spots, strict=True):
        at = plan.point(piece, x + drawer.uniform(-0.02, 0.02), y + drawer.uniform(-0.02, 0.02))
        turn = plan.poses[piece][2] + drawer.uniform(-0.35, 0.35)
        things.append(Placed(role, item.thing, (float(at[0]), float(at[1]), z + item.thing.half[2], turn)))
    x, y, yaw = plan.work_place("sofa" if rng.random() < 0.5 else "coffee_table")
    palette, lights = drawer.looks()
    home = Home(
        layout=number,
        palette=palette,
        lights=lights,
        things=tuple(things),
        base=drawer.before((x, y, yaw), (0.35, 0.50), 0.10, math.radians(15.0)),
        joints=drawer.posture(),
        grippers=(OPEN, OPEN),
        decor=drawer.decor(plan),
        marks={mark.name: (0.0, 0.0, ASKED if FEWEST + i < asked else NOT_ASKED, 0.0) for i, mark in enumerate(MARKS)},
    )
    facts = {
        "products": {placed.role: item.name for placed, item in zip(things, items, strict=True)},
        "pieces": {placed.role: piece for placed, (piece, *_) in zip(things, spots, strict=True)},
    }
    return Drawn(home, told, facts)


def reads(instances: Instances, instance: int) -> Sequence[str]:
    """The roles of what has to be put away, found by reading what is told and seeing where things lie."""
    facts = instances.drawn(instance).facts
    products, pieces = facts["products"], facts["pieces"]
    lying = {name: pieces[role].replace("_", " ") for role, name in products.items()}
    found = misplaced(instances.told(instance), lying)
    # One place after the other.
    return tuple(sorted((role for role, name in products.items() if name in found), key=lambda r: (pieces[r], r)))


def make(suite: str, index: int) -> Task:
    """The task."""
    instances = Instances(NAME, draw, COARSE_HZ)
    return make_task(
        suite, index, NAME, instances, GOAL, RULES, HORIZON, INSTRUCTION,
        version=VERSION, approached=WANTED[0], regions=MARKS,
        extra={
            "reads": lambda instance: reads(instances, instance),
            "work": lambda instance, role: instances.drawn(instance).facts["pieces"][role],
            "reach": "down",
        },
    )  # fmt: skip
