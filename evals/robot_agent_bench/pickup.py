"""Picking a product up from the shelf: undisturbed, after a missed grasp, while a hand moves it, while the light alternates.

RobotAgentBench's `shelf_pickup_relocated` (robustness), `shelf_pickup_lighting` (robustness) and `shelf_pickup_missed`
(recovery). The disturbance of the first two is an event: it comes in the Dynamic arm of a pair, and the Base arm is the same
episode without (`evals.robot_agent_bench.disturbances`). What differs from the benchmark's sheet:

* A product is clear of the shelf when it does not touch it and is 0.03 m or more higher than it stood, inside or outside.
* Success ends the episode: 1 s after its completion holds where no other time is asked for, and 3 s of holding steadily.
* The target is a drink or a carton: a bag is wider than the gripper opens. A missed grasp stopped short of it.
* The hand comes from the side to which it will move the target, not from the side away from the robot: there is the shelf.
* The base starts 0.02 to 0.38 m to the left of the target, so that the right hand is the nearer one; there +-0.15 m of it.
* The five steps after which a hold counts are waited for with the product clear of the shelf (and steady, where that is
  asked), before the 1 s or 3 s begin; there they may have passed before.
* `progress` gives the points of a hold, and for steady time, at its first step; `scoring` gives them as the sheet does.
"""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np

from evals.libero_max.eligibility import VISUAL
from evals.robot_agent_bench.catalogue import DRINKS, SNACKS, Item
from evals.robot_agent_bench.clearance import is_clear
from evals.robot_agent_bench.disturbances import case_of
from evals.robot_agent_bench.furniture import BOARDS
from evals.robot_agent_bench.household import MARK, Drawer, Home, Placed
from evals.robot_agent_bench.instances import Drawn, Instances, NoInstance
from evals.robot_agent_bench.layouts import Layout, Pose, layouts
from evals.robot_agent_bench.robot import ROBOT, add_robot
from evals.robot_agent_bench.tasking import CONTROL_HZ, FINE_HZ, Geometry, make_task
from mjx_bench.control.bimanual import HOME, OPEN
from mjx_bench.evidence import samples_of_hold
from mjx_bench.task import Atom, Entity, Fraction, Part, Region, Rules, Task, Threshold
from policies.reference.limbs import Limbs

VERSION = "3"  # of the generator and of what counts
APART, OTHERS = 0.15, 5
HELD_STEPS = 5
CLEAR, STEADY_SPEED, STEADY_SPIN = 0.03, 0.10, 0.5
MOVED, EDGE, ROOM = (0.12, 0.25), 0.42, 0.03  # metres: of the target, from the shelf's middle, to its neighbours
MISSED_BY, MISSED_TURN = (0.03, 0.08), (math.radians(10), math.radians(25))
AHEAD = 0.86  # metres from the base's middle to the target, after a missed grasp
TARGETS = (*DRINKS, *(item for item in SNACKS if item.thing.half[0] < 0.04))
PRODUCTS = (*DRINKS, *SNACKS)

HAND = Entity("visitor_hand", "fixture", "hand", "visitor_hand", None)
START = Region("start_mark", None, (MARK,) * 3)

TOUCHED = Atom("touched", ("target",))
HELD = (Atom("held", ("target",)),)  # for HELD_STEPS in a row
LIFTED = (*HELD, Atom("clear", ("target", "shelf")), Atom("rise", ("target", START.name), Threshold(">=", CLEAR)))
STEADY = (
    *LIFTED,
    Atom("speed", ("target",), Threshold("<=", STEADY_SPEED)),
    Atom("spin", ("target",), Threshold("<=", STEADY_SPIN)),
)


@dataclasses.dataclass(frozen=True)
class Kind:
    """One of the tasks.

    Attributes:
      name, instruction, horizon: of the task.
      goal: must hold for so many seconds.
      points: of touch, holding, clear of the shelf, steady, and what holds at the end.
      missed: the episode starts after a missed grasp.
      event: the disturbance that its Dynamic arm has; None for one without.
    """

    name: str
    instruction: str
    horizon: int
    goal: tuple[Atom, ...]
    seconds: float
    points: tuple[float, ...]
    missed: bool = False
    event: str | None = None

    @property
    def rules(self) -> Rules:
        """When the goal counts, and progress in the sheet's points."""
        latches = (((TOUCHED,),), (HELD,), (LIFTED,), (STEADY,))
        earned = [Part(p, latches=(i,)) for i, p in enumerate(self.points[:4]) if p]
        return Rules(
            hold=HELD_STEPS - 1 + samples_of_hold(self.seconds, CONTROL_HZ),
            at_once=True,
            score=Fraction((*earned, Part(self.points[4], self.goal)), (Part(sum(self.points)),), latches),
        )


KINDS = (
    Kind(
        "shelf_pickup_relocated", "pick up the product that you are told from the shelf", 180 * CONTROL_HZ, LIFTED, 1.0,
        (10, 20, 30, 0, 40), event="target_carried",
    ),
    Kind(
        "shelf_pickup_lighting", "pick up the product that you are told from the shelf and hold it", 180 * CONTROL_HZ,
        STEADY, 3.0, (10, 20, 20, 20, 30), event="illumination_alternation",
    ),
    Kind(
        "shelf_pickup_missed", "pick up the drink that you are told from the shelf and hold it", 120 * CONTROL_HZ, STEADY,
        3.0, (10, 20, 20, 20, 30), missed=True,
    ),
)  # fmt: skip


def _spots(drawer: Drawer) -> list[tuple[float, float]]:
    """Places on two boards, (along the shelf, height), in random order."""
    spots = [(i * APART, board) for board in BOARDS[1:3] for i in range(-2, 3)]
    return [spots[i] for i in drawer.rng.permutation(len(spots))]


def draw(kind: Kind, drawer: Drawer) -> Drawn:
    """An instance.

    Raises:
      NoInstance: the target cannot be moved as far as it should be, the hand cannot be where a grasp was missed, or the
        robot would stand or reach into the shelf.
    """
    rng, number = drawer.rng, drawer.layout()
    plan = layouts()[number]
    yaw = plan.poses["shelf"][2]
    pool = DRINKS if kind.missed else TARGETS
    target: Item = pool[int(rng.integers(len(pool)))]
    rest = [item for item in PRODUCTS if item.name != target.name]
    items = [target, *(rest[i] for i in rng.permutation(len(rest))[:OTHERS])]
    things, along = [], []
    for role, item, (x, board) in zip(_roles(), items, _spots(drawer), strict=False):
        x, y = x + drawer.uniform(-0.008, 0.008), 0.09 + drawer.uniform(-0.01, 0.01)
        at, half = plan.point("shelf", x, y), item.thing.half
        turn = yaw + drawer.uniform(-math.radians(5), math.radians(5))
        things.append(Placed(role, item.thing, (float(at[0]), float(at[1]), board + half[2], turn)))
        along.append((x, board, half[0]))
    moved = _room(drawer, along)
    x, board, _ = along[0]
    place = plan.work_place("shelf")
    aside = x - drawer.uniform(0.12, 0.28)
    work = (*(np.array(place[:2]) + plan.point("shelf", aside, 0.0) - plan.point("shelf", 0.0, 0.0)), place[2])
    posture, opening, base = drawer.posture(), OPEN, drawer.before(work, (0.2, 0.8), 0.10, math.radians(15.0))
    pose = things[0].pose
    assert pose is not None, "the target is used"
    if kind.missed:
        base = drawer.before(_missing(plan, aside), (0.0, 0.02), 0.0, 0.0)
        posture, opening = _missed(drawer, base, np.array(pose[:3]), target, posture)
    palette, lights = drawer.looks()
    home = Home(
        layout=number,
        palette=palette,
        lights=lights,
        things=tuple(things),
        base=base,
        joints=posture,
        grippers=(OPEN, opening),
        decor=drawer.decor(plan),
        marks={START.name: pose},
        hand=(float(pose[0]), float(pose[1]), -1.5, yaw if moved > 0 else yaw + math.pi),
    )
    if not is_clear(home, "shelf"):
        raise NoInstance
    told = f"Pick up the {target.name.replace('_', ' ')} from the shelf."
    intervals = [round(CONTROL_HZ * drawer.uniform(2.0, 3.0)) for _ in range(2)]
    axis = np.array([math.cos(yaw), math.sin(yaw)]) * moved
    facts = {
        "products": {placed.role: item.name for placed, item in zip(things, items, strict=True)},
        "moved_m": [float(axis[0]), float(axis[1]), 0.0],
        "along_m": moved,
        "intervals": intervals,
        "hand_waits_m": [0.0, 0.0, -1.5 - float(pose[2])],
        "board": board,
    }
    return Drawn(home, told, facts)


def _roles() -> tuple[str, ...]:
    return ("target", *(f"other_{i}" for i in range(1, OTHERS + 1)))


def _room(drawer: Drawer, along: list[tuple[float, float, float]]) -> float:
    """How far along the shelf the target may be moved, to a place free of its neighbours."""
    x, board, half = along[0]
    for _ in range(20):
        moved = drawer.uniform(*MOVED) * (1.0 if drawer.rng.random() < 0.5 else -1.0)
        beside = [(p, h) for p, b, h in along[1:] if b == board]
        if abs(x + moved) <= EDGE and all(abs(x + moved - p) >= half + h + ROOM for p, h in beside):
            return moved
    raise NoInstance


def _missing(plan: Layout, aside: float) -> Pose:
    """Of the base after a missed grasp."""
    x, y = plan.point("shelf", aside, 0.09 - AHEAD)
    return float(x), float(y), plan.work_place("shelf")[2]


@functools.cache
def _limbs() -> Limbs:
    import mujoco

    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    add_robot(spec)
    return Limbs(spec.compile(), ROBOT)


def _missed(
    drawer: Drawer, base: Pose, target: np.ndarray, item: Item, posture: tuple[float, ...]
) -> tuple[tuple[float, ...], float]:
    """A posture in which the right hand has stopped short of the target, turned off it; and how wide it is open."""
    limbs, yaw = _limbs(), base[2]
    forward = np.array([math.cos(yaw), math.sin(yaw), 0.0])
    across = np.array([-forward[1], forward[0], 0.0])
    short = item.thing.half[1] + 0.04 + drawer.uniform(*MISSED_BY)
    point = target - short * forward + drawer.uniform(-0.03, 0.03) * across
    turn = drawer.uniform(*MISSED_TURN) * (1.0 if drawer.rng.random() < 0.5 else -1.0)
    way = math.cos(turn) * forward + math.sin(turn) * across
    slides = math.cos(turn) * across - math.sin(turn) * forward
    low = np.array([1.97, -0.38, -1.60, -1.42, 1.08, -0.44, -1.02])
    for arm in (HOME[7:14], -low):
        start = np.array([*posture[:7], *arm, float(np.clip(target[2] - 0.85, 0.0, 0.5)), *posture[15:18]])
        found, miss = limbs.reach("right", start, np.array(base), point, way, slides, start)
        limbs.place(found, np.array(base))
        _, points, _ = limbs.hand("right")
        if miss < 0.004 and points @ way > 0.99:
            return tuple(float(q) for q in found), drawer.uniform(0.2, 1.0) * OPEN
    raise NoInstance


def make(kind: Kind, suite: str, index: int) -> Task:
    """The task."""
    instances = Instances(kind.name, lambda drawer: draw(kind, drawer), FINE_HZ)
    events = tuple(event for event in VISUAL if event != "camera_shift")
    own = {} if kind.event is None else {kind.event: case_of}
    return make_task(
        suite, index, kind.name, instances, kind.goal, kind.rules, kind.horizon, kind.instruction,
        version=VERSION, regions=(START,), extra_entities=(HAND,), geometry=Geometry("target", events),
        extra={"reads": lambda instance: "target", "work": "shelf", "reach": "ahead", "lifts": True, "own_events": own},
    )  # fmt: skip
