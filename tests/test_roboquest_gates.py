"""What the benchmark asks of an instance: it starts apart, at rest and with a score of 0, and can be solved."""

from __future__ import annotations

import dataclasses
from typing import Any

import mujoco
import numpy as np
import pytest

from evals import registry
from evals.roboquest import instances as making
from evals.roboquest import odd_parcel as odd
from evals.roboquest import odd_parcel_parts as odd_parts
from evals.roboquest import puzzle_box as box
from evals.roboquest import puzzle_box_parts as box_parts
from evals.roboquest.instances import QuestRecipe
from evals.roboquest.kitchen import TOP_Z
from evals.roboquest.puzzle_box_program import CAP_TOP
from evals.roboquest.reaching import press_submit
from mjx_bench.checkers import START, judge_of, stack, unstack
from mjx_bench.engines import engine_of
from mjx_bench.task import Task
from mjx_bench.types import Verdict
from policies.mobile.moves import Move
from policies.mobile.view import MobileView
from tests.roboquest_runs import outcomes

RECIPES = {box.NAME: box.RECIPE, odd.NAME: odd.RECIPE}
APART = -0.005  # metres of two things into each other, the benchmark's bound between props


@dataclasses.dataclass(frozen=True)
class Presses:
    """Presses SUBMIT at once."""

    recipe: QuestRecipe

    def start(self, task: Task) -> int:
        return 0

    def next(self, memory: int, view: MobileView) -> tuple[int, Move, str]:
        return memory + 1, press_submit(view, self.recipe.footprint, CAP_TOP), "press SUBMIT"


def made(name: str) -> Task:
    return registry.load_task("roboquest", 3 if name == box.NAME else 4)


class Solved:
    """Initial states in which things are where they belong, or not all of them.

    Args:
      name: of the task.
      spoilt: of Odd Parcel, an odd parcel less and a usual one more in the box.
    """

    def __init__(self, name: str, *, spoilt: bool = False) -> None:
        self._name, self._spoilt = name, spoilt

    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int) -> np.ndarray:
        instances = made(self._name).extra["instances"]
        state, there = instances[index], {p.thing.name: p for p in instances.instance(index).placed}

        def put(thing: str, x: float, y: float, z: float) -> None:
            adr = 1 + instances.template.joint(f"{thing}_free").qposadr[0]
            state[adr : adr + 7] = [x, y, z, 1.0, 0.0, 0.0, 0.0]

        if self._name == box.NAME:
            z = TOP_Z + 2 * box_parts.TRAY_FLOOR + there["item"].thing.rest_height + 0.001
            put("item", *box.TRAY_AT, z)
            return state
        boxed = [n for n in odd_parts.PARCELS if abs(there[n].thing.mass - odd_parts.USUAL) > 0.01]
        if self._spoilt:
            boxed[0] = next(n for n in odd_parts.PARCELS if n not in boxed and there[n].xy[0] < 2.0)
        for layer, name in enumerate(boxed):
            put(name, *odd.BOX_AT, TOP_Z + odd_parts.BOX_FLOOR + odd_parts.HALF[2] * (1 + 2 * layer) + 0.001)
        return state


def pressed(name: str, states: Any, index: int) -> tuple[Verdict, float]:
    task = made(name)
    changes: dict[str, Any] = {} if states is None else {"load_init_states": lambda: states}
    program = {**task.extra, "program": Presses(RECIPES[name])}
    return outcomes(dataclasses.replace(task, extra=program, horizon=400, **changes), "scripted.oracle", [index])[0]


def test_a_press_with_the_item_in_the_tray_succeeds_and_one_at_once_does_not():
    assert pressed(box.NAME, Solved(box.NAME), 0) == (Verdict.SUCCESS, 1.0)
    assert pressed(box.NAME, None, 0) == (Verdict.FAILURE, 0.0)


@pytest.mark.slow
def test_a_press_with_the_odd_parcels_in_the_box_succeeds_and_others_do_not():
    index = 6  # eight parcels, three of them odd
    assert pressed(odd.NAME, Solved(odd.NAME), index) == (Verdict.SUCCESS, 1.0)
    assert pressed(odd.NAME, Solved(odd.NAME, spoilt=True), index) == (Verdict.FAILURE, pytest.approx(0.5))
    assert pressed(odd.NAME, None, index) == (Verdict.FAILURE, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_every_level_starts_apart_and_at_rest_with_a_score_of_nothing(name: str):
    """Instances of both splits; five seconds, twenty ticks of them in which the hand opens."""
    task, recipe = made(name), RECIPES[name]
    levels = len(recipe.cells)
    chosen = [*range(2 * levels), *range(10_000, 10_000 + levels)]
    physics = engine_of(task, "c", len(chosen), "mobile_osc", interval=8)
    ids = np.arange(len(chosen), dtype=np.int32)
    for lane, index in enumerate(chosen):
        drawn = making.draw(recipe, index)
        model = making.build(recipe, drawn).compile()
        data = mujoco.MjData(model)
        state = making.initial_state(model, drawn.placed, drawn.start)
        data.qpos[:] = state[1 : 1 + model.nq]
        mujoco.mj_forward(model, data)
        assert min((contact.dist for contact in data.contact), default=0.0) > APART, index
        physics.load(lane, task.load_init_states()[index], task.load_reset(0), task.fields_of(index))
    before = physics.kinematics(ids).entity_pos.copy()
    for _ in range(100):
        assert physics.control_step(ids, np.tile(task.settle_action, (len(ids), 1))) == {}
    moved = np.abs(physics.kinematics(ids).entity_pos - before).max((1, 2))
    assert moved.max() < 2e-3, dict(zip(chosen, moved, strict=True))
    judge = judge_of(task, physics.index)
    assert judge is not None
    standings = unstack(judge.update(stack([START] * len(chosen)), physics.signals))
    assert {float(standing.progress) for standing in standings} == {0.0}
    physics.close()
