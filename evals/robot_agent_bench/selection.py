"""The four context-reasoning tasks: touch the candidate that a context means, with a finger, and no other.

`drink_selection`, `snack_selection`, `waste_selection` and `sofa_object_selection` of RobotAgentBench. The first touch ends
the episode: the right candidate's is success, a wrong one's is failure, and both after one step are failure. Touching
furniture, or a candidate with anything but the fingers, is neither. What differs from the benchmark's sheet:

* A touch is a contact after the last physics step of a control step, whatever its force (there: at least 0.05 N).
* Waste is asked for in the `plain` frame only: of the two bins one alone has a single candidate.
* A `preference` context whose requirement is a single literal is `plain`.
* Drinks and snacks stand on two of the shelf's boards; snacks 0.18 apart, since two bags side by side take 0.22.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np

from evals.robot_agent_bench import contexts
from evals.robot_agent_bench.catalogue import BELONGINGS, DRINKS, SNACKS, WASTE, Item, by_name
from evals.robot_agent_bench.furniture import BOARDS, SEAT, TABLE_TOP
from evals.robot_agent_bench.household import Drawer, Home, Placed
from evals.robot_agent_bench.instances import Drawn, Instances, NoInstance
from evals.robot_agent_bench.layouts import layouts
from evals.robot_agent_bench.tasking import COARSE_HZ, make_task
from evals.robot_agent_bench.wording import BELONGING, DRINK, SHEETS, SNACK
from evals.robot_agent_bench.wording import WASTE as WASTE_WORDS
from mjx_bench.control.bimanual import OPEN
from mjx_bench.task import Atom, Rules, Task

HORIZON = 2400  # 120 s
APPROACH = (0.4, 0.8)  # metres behind the work place at the start


@dataclasses.dataclass(frozen=True)
class Spot:
    """Where a candidate may stand: in the frame of a piece, on something at height `z`; and how it may be turned."""

    x: float
    y: float
    z: float
    turn: float


def _shelf_spots(apart: float) -> tuple[Spot, ...]:
    number = int(0.40 / apart)
    return tuple(
        Spot(i * apart, 0.09, board, math.radians(8)) for board in BOARDS[1:3] for i in range(-number, number + 1)
    )


@dataclasses.dataclass(frozen=True)
class Kind:
    """One of the tasks.

    Attributes:
      name, instruction: of the task; the instruction is what every context asks for.
      piece: where the candidates are.
      number: of candidates; of distractors beside them.
      spots: where; jitter: metres around each, along the piece and into it.
      items: what candidates there are; words: how their facts are said.
      draw: draws what is visible, and a context over it.
    """

    name: str
    instruction: str
    piece: str
    number: int
    spots: tuple[Spot, ...]
    jitter: tuple[float, float]
    items: tuple[Item, ...]
    words: contexts.Words
    draw: Callable[[np.random.Generator], tuple[list[Item], contexts.Context]]

    @property
    def roles(self) -> tuple[str, ...]:
        """Of the candidates: the right one, a near miss, and the rest."""
        return ("target", "near_miss", *(f"other_{i}" for i in range(1, self.number - 1)))


def _choose(rng: np.random.Generator, items: Sequence[Item], number: int) -> list[Item]:
    return [items[i] for i in rng.permutation(len(items))[:number]]


def _context(
    rng: np.random.Generator, visible: list[Item], words: contexts.Words
) -> tuple[list[Item], contexts.Context]:
    context = contexts.draw(rng, visible, words)
    if context is None:
        raise NoInstance
    return visible, context


def _drinks(rng: np.random.Generator) -> tuple[list[Item], contexts.Context]:
    return _context(rng, _choose(rng, DRINKS, 6), DRINK)


def _snacks(rng: np.random.Generator) -> tuple[list[Item], contexts.Context]:
    return _context(rng, _choose(rng, SNACKS, 6), SNACK)


def _belongings(rng: np.random.Generator) -> tuple[list[Item], contexts.Context]:
    return _context(rng, _choose(rng, BELONGINGS, 8), BELONGING)


def sorted_by(sheet: int, items: Sequence[Item]) -> list[Item]:
    """Waste with the bin that it belongs into by today's rules, as one fact more."""
    materials = SHEETS[sheet][1]

    def bin_of(item: Item) -> str:
        clean = item.facts["state"] == "clean" and item.facts["kind"] == "packaging"
        return "recycling" if clean and item.facts["material"] in materials else "waste"

    return [Item(item.thing, {**item.facts, "bin": bin_of(item)}) for item in items]


def _waste(rng: np.random.Generator) -> tuple[list[Item], contexts.Context]:
    sheet = int(rng.integers(len(SHEETS)))
    visible = sorted_by(sheet, _choose(rng, WASTE, 4))
    bins = [item.facts["bin"] for item in visible]
    alone = [item for item in visible if bins.count(item.facts["bin"]) == 1]
    if len(alone) != 1:
        raise NoInstance
    if not any(i.facts["material"] == alone[0].facts["material"] for i in visible if i.name != alone[0].name):
        raise NoInstance
    context = contexts.draw(rng, visible, WASTE_WORDS)
    if context is None or context.answer != alone[0].name:
        raise NoInstance
    return visible, dataclasses.replace(context, text=f"{SHEETS[sheet][0]} {context.text}")


KINDS = (
    Kind(
        "drink_selection", "touch the drink that the context means, and no other", "shelf", 6, _shelf_spots(0.12),
        (0.01, 0.015), DRINKS, DRINK, _drinks,
    ),
    Kind(
        "snack_selection", "touch the snack that the context means, and nothing else", "shelf", 6, _shelf_spots(0.18),
        (0.012, 0.015), SNACKS, SNACK, _snacks,
    ),
    Kind(
        "waste_selection", "touch the piece of waste that the context means, and no other", "coffee_table", 4,
        tuple(Spot(x, 0.15, TABLE_TOP, math.radians(30)) for x in (-0.36, -0.12, 0.12, 0.36)),
        (0.02, 0.04), WASTE, WASTE_WORDS, _waste,
    ),
    Kind(
        "sofa_object_selection", "touch the thing on the sofa that the context means, and no other", "sofa", 8,
        tuple(Spot(x, y, SEAT, math.radians(20)) for y in (0.12, 0.38) for x in (-0.57, -0.19, 0.19, 0.57)),
        (0.02, 0.02), BELONGINGS, BELONGING, _belongings,
    ),
)  # fmt: skip
# Beside the snacks stand two drinks, which no context means.
BESIDE = {"snack_selection": 2}


def draw(kind: Kind, drawer: Drawer) -> Drawn:
    """An instance of a task.

    Raises:
      NoInstance: of what was drawn.
    """
    rng, number = drawer.rng, drawer.layout()
    plan = layouts()[number]
    visible, context = kind.draw(rng)
    items = {item.name: item for item in visible}
    order = [context.answer, context.near]
    order += [name for name in items if name not in order]
    beside = _choose(rng, DRINKS, BESIDE.get(kind.name, 0))
    roles = [*zip(kind.roles, (items[name] for name in order), strict=True)]
    roles += [(f"beside_{i + 1}", item) for i, item in enumerate(beside)]
    spots = [kind.spots[i] for i in rng.permutation(len(kind.spots))[: len(roles)]]
    yaw = plan.poses[kind.piece][2]
    things = []
    for (role, item), spot in zip(roles, spots, strict=True):
        x = spot.x + drawer.uniform(-kind.jitter[0], kind.jitter[0])
        y = spot.y + drawer.uniform(-kind.jitter[1], kind.jitter[1])
        at = plan.point(kind.piece, x, y)
        turn = yaw + drawer.uniform(-spot.turn, spot.turn)
        things.append(Placed(role, item.thing, (float(at[0]), float(at[1]), spot.z + item.thing.half[2], turn)))
    work = plan.work_place(kind.piece)
    palette, lights = drawer.looks()
    home = Home(
        layout=number,
        palette=palette,
        lights=lights,
        things=tuple(things),
        base=drawer.before(work, APPROACH, 0.15, math.radians(15.0)),
        joints=drawer.posture(),
        grippers=(OPEN, OPEN),
        decor=drawer.decor(plan),
    )
    facts = {
        "products": {role: item.name for role, item in roles},
        "frame": context.frame,
        "answer": context.answer,
    }
    return Drawn(home, context.text, facts)


def goal(kind: Kind) -> tuple[tuple[Atom, ...], Rules]:
    """The right touch, and what else ends an episode."""
    wrong = (*kind.roles[1:], *(f"beside_{i + 1}" for i in range(BESIDE.get(kind.name, 0))))
    return (Atom("touched", ("target",)),), Rules(failures=tuple(Atom("touched", (role,)) for role in wrong))


def understand(kind: Kind, text: str, visible: Sequence[str]) -> str:
    """The candidate that a context means.

    Args:
      kind: the task.
      text: the context.
      visible: names of the candidates.

    Raises:
      BenchError: it cannot be read, or means none or several of them.
    """
    items = [by_name(kind.items)[name] for name in visible]
    for number, (sheet, _) in enumerate(SHEETS):
        if text.startswith(sheet):
            text, items = text.removeprefix(sheet + " "), sorted_by(number, items)
    return contexts.check(text, items, kind.words)


def make(kind: Kind, suite: str, index: int) -> Task:
    """The task."""
    instances = Instances(kind.name, lambda drawer: draw(kind, drawer), COARSE_HZ)
    wanted, rules = goal(kind)

    def reads(instance: int) -> str:
        """The role of the candidate that the context of an instance means, found by reading it."""
        products: dict[str, str] = instances.drawn(instance).facts["products"]
        meant = understand(kind, instances.told(instance), [products[role] for role in kind.roles])
        return next(role for role, name in products.items() if name == meant)

    return make_task(
        suite, index, kind.name, instances, wanted, rules, HORIZON, kind.instruction,
        extra={"reads": reads, "work": kind.piece, "reach": "ahead" if kind.piece == "shelf" else "down"},
    )  # fmt: skip
