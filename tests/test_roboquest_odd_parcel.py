"""Odd Parcel: classes of masses, what the balance reads, the score at its thresholds, the oracle."""

from __future__ import annotations

import dataclasses
import functools
import math

import mujoco
import numpy as np
import pytest

from evals.roboquest import instances as making
from evals.roboquest import odd_parcel as odd
from evals.roboquest import odd_parcel_parts as parts
from evals.roboquest.odd_parcel_program import odd_ones
from evals.roboquest.recipes import quest_task
from evals.roboquest.rectangles import apart
from mjx_bench.checkers import START, Standing, stack, unstack
from mjx_bench.signals import HAND, PRESS, touch_pair
from mjx_bench.types import Verdict
from tests import roboquest_runs

TOP = 0.92


def masses(index: int) -> list[float]:
    placed = {p.thing.name: p for p in making.draw(odd.RECIPE, index).placed}
    return [placed[name].thing.mass for name in parts.PARCELS if placed[name].xy[0] < 2.0]


def test_levels_run_through_and_classes_are_held_out():
    def kind(found: list[float]) -> str:
        off = [round(m - parts.USUAL, 6) for m in found if abs(m - parts.USUAL) > 0.01]
        assert {abs(d) for d in off} <= set(odd.DEVIATIONS)
        assert len(off) == odd.ODD[len(found)]
        direction = ("H" if max(off) > 0 else "") + ("L" if min(off) < 0 else "")
        return f"{direction}-{'same' if len({abs(d) for d in off}) == 1 else 'different'}"

    for index in range(18):
        found = masses(index)
        assert len(found) == odd.CELLS[index % 9]["parcel_count"]
        assert kind(found) in odd.HELD_OUT[len(found)]
        found = masses(10_000 + index)
        assert kind(found) in set(odd.CLASSES[len(found)]) - set(odd.HELD_OUT[len(found)])


def test_what_is_hidden_is_out_of_the_way_and_nothing_overlaps():
    seen = {"visible": 0, "look": 0, "uncover": 0}
    for index in range(27):
        drawn = making.draw(odd.RECIPE, index)
        placed = {p.thing.name: p for p in drawn.placed}
        level = drawn.quest.cell["observability"]
        lying = [placed[n] for n in parts.PARCELS if placed[n].xy[0] < 2.0]
        away = [p for p in lying if abs(p.xy[0]) >= 0.80]
        assert len(away) in ((1, 2) if level == "look" else (0,))
        cloche = placed[parts.CLOCHE]
        under = [p for p in lying if math.dist(p.xy, cloche.xy) < 0.01]
        assert len(under) == (1 if level == "uncover" else 0)
        stacked = [p for p in lying if p.height > 0]
        assert len(stacked) <= len(lying) // 4
        floor = [(p.xy, parts.HALF[:2], p.yaw) for p in lying if p.height == 0]
        gaps = [apart(a, b) for i, a in enumerate(floor) for b in floor[:i]]
        assert min(gaps) >= odd.GAP - 1e-9
        seen[level] += bool(away or under)
    assert seen["look"] == seen["uncover"] == 9


def test_gaps_between_rectangles():
    a = ((0.0, 0.0), (0.1, 0.2), 0.0)
    assert apart(a, ((0.35, 0.0), (0.2, 0.1), 0.0)) == pytest.approx(0.05)
    assert apart(a, ((0.35, 0.0), (0.2, 0.1), math.pi / 2)) == pytest.approx(0.15)
    assert apart(a, ((0.15, 0.0), (0.1, 0.1), 0.0)) < 0.0


@pytest.mark.parametrize(("left", "right", "linear"), [(0.25, 0.25, 0.0), (0.37, 0.25, -6.74), (0.25, 0.45, 11.24)])
def test_the_balance_reads_what_its_closed_form_says(left: float, right: float, linear: float):
    angle = settled(left, right, out=0.07)
    # Spring against loads at the arms' ends, and the bar that hangs a little below the pivot.
    spring = parts.STIFFNESS * angle + 0.25 * 9.81 * 0.012 * math.sin(angle)
    assert spring == pytest.approx((right - left) * 9.81 * parts.ARM * math.cos(angle), abs=0.004)
    assert math.degrees(angle) == pytest.approx(linear, abs=0.45), "which is nearly linear"


def test_the_balance_stops_at_twelve_degrees_and_reads_the_same_wherever_the_load_lies():
    assert math.degrees(settled(0.0, 0.45, out=0.0)) == pytest.approx(12.0, abs=0.4)
    near, far = (settled(0.25, 0.37, out=out) for out in (0.0, 0.07))
    assert near == pytest.approx(far, abs=math.radians(0.1))


def settled(left: float, right: float, out: float) -> float:
    """The beam's angle after seven seconds with a mass on either pan, `out` metres from the pan's middle, radians."""
    spec = mujoco.MjSpec()
    spec.option.timestep, spec.option.integrator = 0.002, mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.option.impratio, spec.compiler.degree = 20.0, False
    parts.Balance(parts.BALANCE, (0, 0, 0)).add(spec.worldbody, [0, 0, TOP], [1, 0, 0, 0])
    for name, side, mass in (("a", -1, left), ("b", 1, right)):
        if mass:
            at = [side * (parts.ARM + out), 0.0, TOP + parts.PIVOT - parts.HANG + 0.004 + parts.HALF[2] + 0.001]
            parts.Parcel(name, (0, 0, 0), mass=mass).add(spec.worldbody, at)
    model = spec.compile()
    data = mujoco.MjData(model)
    for _ in range(3500):
        mujoco.mj_step(model, data)
    return float(data.qpos[model.joint(parts.BEAM_JOINT).qposadr[0]])


@functools.cache
def made_task():
    return quest_task(odd.RECIPE, "roboquest", 4, odd.VERSION)


class Stage(roboquest_runs.Stage):
    def __init__(self, index: int) -> None:
        super().__init__(made_task(), odd.RECIPE, index)
        there = [n for n in parts.PARCELS if self.placed[n].xy[0] < 2.0]
        self.odd = [n for n in there if abs(self.placed[n].thing.mass - parts.USUAL) > 0.01]
        self.usual = [n for n in there if n not in self.odd]

    def box(self, name: str, layer: int = 0, dx: float = 0.0) -> None:
        adr = self.model.joint(f"{name}_free").qposadr[0]
        height = TOP + parts.BOX_FLOOR + parts.HALF[2] * (1 + 2 * layer)
        self.data.qpos[adr : adr + 7] = [odd.BOX_AT[0] + dx, odd.BOX_AT[1], height, 1, 0, 0, 0]

    def judged(
        self,
        *touched: str,
        speed: dict[str, float] | None = None,
        spin: dict[str, float] | None = None,
        press: bool = False,
    ) -> Standing:
        s = self.seen()
        for name in (*touched, *([PRESS + "submit"] if press else [])):
            s.touch[0, self.index.touches.index(touch_pair(HAND, name))] = True
        for first, values in ((0, speed or {}), (3, spin or {})):
            for name, value in values.items():
                s.entity_vel[0, self.index.mover(name), first] = value
        if press:
            s.joint_qpos[0, self.index.joint("submit_press")] = 0.0031
        return unstack(self.judge.update(stack([START]), s))[0]


def test_progress_is_what_is_right_of_all_that_is_odd_or_boxed():
    stage = Stage(6)  # eight parcels, three of them odd
    assert len(stage.odd) == 3
    assert stage.judged().progress == 0.0
    for k, name in enumerate(stage.odd, 1):
        stage.box(name, layer=k - 1)
        assert stage.judged().progress == pytest.approx(k / 3)
    assert stage.judged(stage.odd[0]).progress == pytest.approx(2 / 3), "in the hand is not in the box"
    stage.box(stage.usual[0], layer=3)
    assert stage.judged().progress == pytest.approx(3 / 4)
    assert not stage.judged(press=True).success


@pytest.mark.parametrize(("beyond", "inside"), [(-1e-3, True), (1e-3, False)])
def test_a_parcel_is_in_the_box_up_to_the_slack(beyond: float, inside: bool):
    stage = Stage(0)
    (name,) = stage.odd
    stage.box(name, dx=parts.INSIDE[0] + parts.BOX_SLACK - parts.HALF[0] + beyond)
    assert stage.judged().progress == float(inside)


def test_a_moved_balance_costs_a_tenth_and_the_success():
    stage = Stage(0)
    stage.box(stage.odd[0])
    balance = stage.model.body(parts.BALANCE).id
    assert stage.judged(press=True).success
    for shift, progress in ((parts.MOVED - 1e-3, 1.0), (parts.MOVED + 1e-3, 0.9)):
        x = stage.model.body_pos[balance, 0]
        stage.model.body_pos[balance, 0] += shift
        found = stage.judged(press=True)
        assert found.progress == pytest.approx(progress)
        assert bool(found.success) is (progress == 1.0)
        stage.model.body_pos[balance, 0] = x


def test_success_asks_for_rest_and_for_an_empty_hand():
    stage = Stage(0)
    stage.box(stage.odd[0])
    assert stage.judged(press=True).success
    assert not stage.judged(stage.usual[0], press=True).success
    for beyond, still in ((-1e-6, True), (0.0, True), (1e-6, False)):
        for name in (stage.usual[0], stage.odd[0]):
            assert bool(stage.judged(press=True, speed={name: 0.03 + beyond}).success) is still
            assert bool(stage.judged(press=True, spin={name: 0.2 + beyond}).success) is still
    assert stage.judge.end(stage.judged(), at_horizon=True)[0] is Verdict.TIMEOUT


def test_the_oracle_concludes_from_readings_alone():
    seen = ["a", "b", "c", "d", "e", "f"]
    level, heavy, light = 0.0, 0.117, -0.196
    full = {"b": level, "c": heavy, "d": level, "e": light, "f": level}
    assert odd_ones(seen, "a", full) == ["c", "e"]
    # The first on the left is itself the odd one: all others read alike, and not level.
    assert odd_ones(seen, "a", dict.fromkeys(seen[1:], -heavy)) == ["a"]
    assert odd_ones(seen, "a", {"b": level, "c": heavy}) == [], "two of six are no majority"


@pytest.mark.slow
def test_the_oracle_solves_every_level_and_doing_nothing_does_not():
    task, outcomes = dataclasses.replace(made_task(), horizon=odd.HORIZON), roboquest_runs.outcomes
    # And one in which usual parcels read nearly what the stop reads, and one in which the hand meets the beam.
    found = outcomes(task, "scripted.oracle", [*range(9), 16, 22])
    assert [verdict for verdict, _ in found] == [Verdict.SUCCESS] * 11
    assert outcomes(dataclasses.replace(task, horizon=100), "zero", [1]) == [(Verdict.TIMEOUT, 0.0)]
    assert np.isfinite([progress for _, progress in found]).all()


@pytest.mark.slow
@pytest.mark.parametrize("index", [94, 109], ids=["one parcel leans in the box", "a wall is beside what lies away"])
def test_the_oracle_lays_a_parcel_anew_and_reaches_past_where_the_base_can_go(index: int):
    task = dataclasses.replace(made_task(), horizon=odd.HORIZON)
    assert roboquest_runs.outcomes(task, "scripted.oracle", [index]) == [(Verdict.SUCCESS, 1.0)]
