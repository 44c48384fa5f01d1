"""The six families of evidence of RobotWorld: of each a record that has it, one that has not, and both sides of the line.

What is judged are the rules of tasks that run, on signals made up for them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from evals import registry
from evals.robotworld.contract import load
from mjx_bench.checkers import START, Judge, stack, unstack
from mjx_bench.predicates import goal_index
from mjx_bench.signals import Signals
from mjx_bench.task import Atom, Entity, Rules, Scene, Threshold
from mjx_bench.types import Verdict

MUG, JUGGLE, PUSH = 2, 5, 6


@functools.cache
def judge(task: int) -> Judge:
    made = registry.load_task("robotworld", task)
    return Judge(made.goal, made.rules, made.scene, goal_index(made.atoms, made.scene))


def succeeds(made: Judge, s: Signals, *, at_horizon: bool = True) -> bool:
    """Whether an episode of these steps is a success; it ends where its rules end it."""
    standing = START
    for t in range(len(s.eef_pos)):
        (standing,) = unstack(made.update(stack([standing]), s.take(slice(t, t + 1))))
        if (end := made.end(standing, at_horizon=False)) is not None:
            return end[0] is Verdict.SUCCESS
    end = made.end(standing, at_horizon=at_horizon)
    return end is not None and end[0] is Verdict.SUCCESS


def blank(task: int, steps: int) -> tuple[Signals, Any]:
    made = registry.load_task("robotworld", task)
    index = goal_index(made.atoms, made.scene)
    s = Signals.zeros(steps, index)
    s.region_mat[:] = np.eye(3)
    return s, index


def mug(aside: float = 0.0, touch: bool = True, held: bool = False) -> bool:
    """A mug on the table, `aside` of its middle: where it must be, and touched by the table alone."""
    made = registry.load_task("robotworld", MUG)
    s, index = blank(MUG, 1)
    for column, pair in enumerate(index.touches):
        s.touch[:, column] = held if "hand:any" in pair else touch
    at = s.entity_pos[:, index.entity("white_mug")]
    at[:, 0], at[:, 2] = aside, made.scene.regions["table_middle"].half_size[2] + 0.01
    return succeeds(judge(MUG), s, at_horizon=False)


def leaning(
    degrees: float = 0.0, pace: float = 0.0, steps: int = 101, gap: int | None = None, aside: float = 0.0
) -> bool:
    """A quadruped at its goal: what it may lean, move, and leave its corridor, for how long."""
    s, index = blank(PUSH, steps)
    a = math.radians(degrees)
    s.region_mat[:, index.region("trunk_frame")] = [
        [math.cos(a), 0, math.sin(a)],
        [0, 1, 0],
        [-math.sin(a), 0, math.cos(a)],
    ]
    s.entity_vel[:, 0, 0] = pace
    if gap is not None:
        s.region_pos[gap, index.region("trunk_frame"), 0] = 1.0
    s.region_pos[0, index.region("trunk_frame"), 1] = aside
    return succeeds(judge(PUSH), s)


def opened(*shares: float) -> bool:
    """Of three drawers exactly two are to be open: identities, counts and the state of joints."""
    drawers = {
        name: Entity(
            name, "fixture", "drawer", name, None, (f"{name}_slide",),
            thresholds={"open": Threshold(">=", 0.3), "close": Threshold("<", 0.3)},
        )
        for name in ("a", "b", "c")
    }  # fmt: skip
    goal = (Atom("open", ("a",)), Atom("open", ("b",)), Atom("close", ("c",)))
    scene: Any = Scene("", drawers, {}, (), None, (), None)  # type: ignore[arg-type]
    index = goal_index(goal, scene)
    s = Signals.zeros(1, index)
    s.joint_qpos[0] = shares
    return succeeds(Judge(goal, Rules(), scene, index), s)


def kept_up(hits: int = 4, apart: int = 60, peak: float = 4.0, drop: bool = False) -> bool:
    """A ball that is hit so often, so many steps apart, from arcs so high."""
    at = [10 + i * apart for i in range(hits)]
    s, index = blank(JUGGLE, at[-1] + 40)
    ball, drone = s.entity_pos[:, index.entity("ball")], s.region_pos[:, index.region("drone_frame")]
    ball[:], drone[:] = (4.5, 0.0, 2.2), (4.5, 0.0, 2.0)
    s.region_pos[:, index.region("court"), 2] = 5.0
    for hit in at:
        s.touch[hit, 0] = True
        ball[hit - apart // 2 if hit > 10 else 5, 2] = peak
    if drop:
        ball[-1, 2] = 0.1
    return succeeds(judge(JUGGLE), s)


class Case(NamedTuple):
    """A family's record of each kind."""

    family: str
    judged: Callable[..., bool]
    positive: dict[str, Any]
    negative: dict[str, Any]
    within: dict[str, Any]
    beyond: dict[str, Any]


def case(family: str, judged: Callable[..., bool], *records: dict[str, Any]) -> Case:
    return Case(family, judged, *records)


CASES = (
    case("position_orientation", mug, {}, {"aside": 0.3}, {"aside": 0.0499}, {"aside": 0.0501}),
    case("position_orientation", leaning, {}, {"degrees": 90.0}, {"degrees": 19.99}, {"degrees": 20.01}),
    case("contact_motion", mug, {}, {"touch": False}, {"held": False}, {"held": True}),
    case("contact_motion", leaning, {}, {"pace": 1.0}, {"pace": 0.1}, {"pace": 0.1001}),
    case("persistence", leaning, {"steps": 300}, {"steps": 10}, {"steps": 101}, {"steps": 100}),
    case("persistence", leaning, {"steps": 300}, {"gap": 100}, {"steps": 300, "gap": 198}, {"steps": 300, "gap": 199}),
    case("events_order", kept_up, {"hits": 8}, {"hits": 1}, {"hits": 4}, {"hits": 3}),
    case("events_order", kept_up, {}, {"apart": 5}, {"apart": 26}, {"apart": 25}),
    case("events_order", kept_up, {}, {"peak": 3.0}, {"peak": 3.5001}, {"peak": 3.5}),
    case("path_safety", leaning, {}, {"aside": 5.0}, {"steps": 300, "aside": 0.5999}, {"steps": 300, "aside": 0.6001}),
    case("path_safety", kept_up, {}, {"drop": True}, {"peak": 4.5}, {"peak": 4.5001}),
)  # fmt: skip


@pytest.mark.parametrize("family", CASES, ids=lambda c: c.family)
def test_a_family_has_its_records(family: Case):
    judged = family.judged
    assert judged(**family.positive)
    assert not judged(**family.negative)
    assert judged(**family.within)
    assert not judged(**family.beyond)


def test_the_state_of_objects_is_counted_and_has_its_line():
    assert opened(0.3, 0.9, 0.0)
    assert opened(0.3, 0.3, 0.2999), "on the line it is open"
    assert not opened(0.2999, 0.9, 0.0)
    assert not opened(0.9, 0.9, 0.9), "one too many"
    assert not opened(0.9, 0.0, 0.9), "the wrong ones"


def test_no_family_is_left_out():
    told = {family for c in load() for family in c.families}
    assert told == {c.family for c in CASES} | {"object_state"}
