"""Rules over time: holds, failures, SUBMIT and its frozen score, on made-up signals; and NumPy against JAX."""

from __future__ import annotations

import dataclasses
import json
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from mjx_bench.checkers import FAILED, START, SUBMITTED, Judge, Standing, ending, judge_of, stack, unstack
from mjx_bench.errors import BenchError
from mjx_bench.judged import describe, read_judged
from mjx_bench.predicates import compile_atom, goal_index
from mjx_bench.signals import SignalIndex, Signals
from mjx_bench.task import Atom, Entity, Region, Rules, Score, Threshold
from mjx_bench.types import Verdict

SCENE = SimpleNamespace(
    entities={
        "load": Entity("load", "object", "load", "load", "load_free"),
        "mark": Entity("mark", "fixture", "mark", "mark", None),
        "key": Entity(
            "key", "fixture", "key", "key", None, joints=("key_press",), thresholds={"turnon": Threshold(">=", 0.003)}
        ),
    },
    regions={"frame": Region("frame", None, (0.1, 0.1, 0.1))},
    robot=SimpleNamespace(other_hands=()),
)
NEAR = Atom("distance", ("load", "mark"), Threshold("<=", 0.15))
SLOW = Atom("speed", ("load",), Threshold("<=", 0.2))
LOW = Atom("height", ("load",), Threshold("<", 0.2))
FREE = Atom("free", ("load",))
PRESS = (Atom("turnon", ("key",)), Atom("pressed", ("key",)))
HOLD = Rules(hold=5, failures=(LOW,))
SUBMIT = Rules(submit=PRESS, score=Score(((NEAR,), (SLOW,)), ((LOW,),), deduction=0.1))


def judge(goal: tuple[Atom, ...], rules: Rules) -> tuple[Judge, SignalIndex]:
    index = goal_index((*goal, *rules.atoms()), SCENE)
    return Judge(goal, rules, SCENE, index), index


def signals_of(
    index: SignalIndex,
    steps: int,
    away: np.ndarray | float = 0.0,
    speed: np.ndarray | float = 0.0,
    height: np.ndarray | float = 1.0,
    pressed: np.ndarray | float = 0.0,
    touched: np.ndarray | bool = False,
) -> Signals:
    s = Signals.zeros(steps, index)
    if "load" in index.entities:
        s.entity_pos[:, index.entity("load"), 0] = away
        s.entity_pos[:, index.entity("load"), 2] = height
    if "mark" in index.entities:
        s.entity_pos[:, index.entity("mark"), 2] = height
    if index.movers:
        s.entity_vel[:, 0, 1] = speed
    if index.joints:
        s.joint_qpos[:, 0] = pressed
    for column, pair in enumerate(index.touches):
        s.touch[:, column] = touched if pair[1].endswith("key") else False
    return s


def rows(signals: Signals, at: slice) -> Signals:
    return Signals(**{f.name: getattr(signals, f.name)[at] for f in dataclasses.fields(signals)})


def walk(judge: Judge, signals: Signals) -> list[Standing]:
    """How one episode stands after each step; signals have time in the place of lanes."""
    standing, out = START, []
    for t in range(len(signals.eef_pos)):
        (standing,) = unstack(judge.update(stack([standing]), rows(signals, slice(t, t + 1))))
        out.append(standing)
    return out


@pytest.mark.parametrize(
    ("good", "verdict"),
    [
        ("0011111", Verdict.SUCCESS),  # the last five of them
        ("0001111", Verdict.TIMEOUT),  # one too few
        ("1111110", Verdict.TIMEOUT),  # held, and lost at the end
        ("1111101111", Verdict.TIMEOUT),  # what went before the gap is forfeit
        ("1111011111", Verdict.SUCCESS),
    ],
)
def test_a_hold_covers_the_last_steps_without_a_gap(good: str, verdict: Verdict):
    made, index = judge((NEAR, SLOW), HOLD)
    away = np.array([0.0 if g == "1" else 0.151 for g in good])
    standings = walk(made, signals_of(index, len(good), away=away))
    assert made.end(standings[-2], at_horizon=False) is None
    end = made.end(standings[-1], at_horizon=True)
    assert end is not None
    assert end[0] is verdict
    assert standings[-1].progress == (verdict is Verdict.SUCCESS or good[-1] == "1")


@pytest.mark.parametrize(("away", "speed", "holds"), [(0.15, 0.2, True), (0.1501, 0.2, False), (0.15, 0.2001, False)])
def test_bounds_belong_to_the_goal(away: float, speed: float, holds: bool):
    made, index = judge((NEAR, SLOW), HOLD)
    standings = walk(made, signals_of(index, 5, away=away, speed=speed))
    assert bool(standings[-1].success) is holds


def test_a_failure_wins_over_success_of_the_same_step_and_stays():
    made, index = judge((NEAR,), HOLD)
    height = np.array([1.0, 1.0, 1.0, 1.0, 0.199, 1.0, 1.0, 1.0, 1.0, 1.0])
    standings = walk(made, signals_of(index, 10, height=height))
    assert standings[3].ended == 0
    assert standings[4].ended == FAILED
    assert made.end(standings[4], at_horizon=False) == (Verdict.FAILURE, "height(load) < 0.2")
    assert all(s == standings[4] for s in standings[4:])
    assert made.end(walk(made, signals_of(index, 5, height=0.2))[-1], at_horizon=True) == (Verdict.SUCCESS, "goal")


def test_submit_judges_at_its_instant_and_freezes_the_score():
    made, index = judge((NEAR, SLOW), SUBMIT)
    pressed = np.array([0.0, 0.004, 0.0, 0.004])
    away = np.array([0.3, 0.3, 0.0, 0.0])  # good only after the press
    standings = walk(made, signals_of(index, 4, away=away, pressed=pressed, touched=True))
    assert made.end(standings[0], at_horizon=False) is None
    assert made.end(standings[1], at_horizon=False) == (Verdict.FAILURE, "submit: goal not reached")
    assert [float(s.progress) for s in standings] == [0.5] * 4
    assert standings[3].ended == SUBMITTED

    standings = walk(made, signals_of(index, 2, pressed=np.array([0.0, 0.003]), touched=True))
    assert standings[0].progress == 1.0
    assert made.end(standings[0], at_horizon=False) is None
    assert made.end(standings[1], at_horizon=False) == (Verdict.SUCCESS, "submit")


@pytest.mark.parametrize(("pressed", "touched"), [(0.0029, True), (0.009, False), (0.0, True)])
def test_neither_a_light_touch_nor_a_weight_submits(pressed: float, touched: bool):
    made, index = judge((NEAR, SLOW), SUBMIT)
    standing = walk(made, signals_of(index, 3, pressed=pressed, touched=touched))[-1]
    assert standing.progress == 1.0
    assert made.end(standing, at_horizon=False) is None
    assert made.end(standing, at_horizon=True) == (Verdict.TIMEOUT, "horizon")


def test_progress_is_the_share_of_what_is_wanted_less_a_deduction():
    made, index = judge((NEAR, SLOW), SUBMIT)
    for away, speed, height, progress in (
        (0.0, 0.0, 1.0, 1.0),
        (0.0, 0.3, 1.0, 0.5),
        (0.0, 0.3, 0.1, 0.4),
        (0.3, 0.3, 0.1, 0.0),
    ):
        standing = walk(made, signals_of(index, 1, away=away, speed=speed, height=height))[0]
        assert standing.progress == pytest.approx(progress, abs=1e-6)


@pytest.mark.parametrize("rules", [HOLD, SUBMIT])
def test_numpy_and_jax_judge_alike(rules: Rules):
    """300 steps of 64 lanes close to the bounds: every field of every standing, in a compiled scan and on the host."""
    made, index = judge((NEAR, SLOW, FREE), rules)
    rng = np.random.default_rng(0)
    steps, lanes = 300, 64
    flat = signals_of(
        index, steps * lanes,
        away=rng.uniform(0.0, 0.17, steps * lanes), speed=rng.uniform(0.0, 0.21, steps * lanes),
        height=np.where(rng.random(steps * lanes) < 0.003, 0.1, 1.0),
        pressed=np.where(rng.random(steps * lanes) < 0.01, 0.004, 0.0), touched=rng.random(steps * lanes) < 0.5,
    )  # fmt: skip
    host = {
        f.name: a if a.dtype == np.bool_ else a.astype(np.float32)
        for f in dataclasses.fields(flat)
        for a in [getattr(flat, f.name).reshape(steps, lanes, *getattr(flat, f.name).shape[1:])]
    }

    def step(standing: Standing, fields: dict[str, jax.Array]) -> tuple[Standing, Standing]:
        new = made.update(standing, Signals(**fields))
        return new, new

    start = stack([START] * lanes)
    compiled = jax.jit(lambda s, f: jax.lax.scan(step, s, f)[1])(start, host)
    standing = start
    for t in range(steps):
        standing = made.update(standing, Signals(**{name: a[t] for name, a in host.items()}))
        for name, mine, theirs in zip(Standing._fields, standing, compiled, strict=True):
            np.testing.assert_array_equal(mine, np.asarray(theirs)[t], err_msg=f"{name} at step {t}")
    assert {0, *({FAILED} if rules is HOLD else {SUBMITTED})} <= set(np.unique(standing.ended).tolist())


def test_measures_of_angle_and_height():
    tilt, hang = (
        compile_atom(Atom(name, args, Threshold("<=", np.radians(10.0))), SCENE, index)
        for name, args in (("tilt", ("frame",)), ("hang", ("load", "frame")))
        for index in [SignalIndex(("load",), ("frame",), (), ())]
    )
    s = Signals.zeros(3, SignalIndex(("load",), ("frame",), (), ()))
    for lane, degrees in enumerate((0.0, 9.99, 10.01)):
        a = np.radians(degrees)
        s.region_mat[lane, 0] = [[np.cos(a), 0, np.sin(a)], [0, 1, 0], [-np.sin(a), 0, np.cos(a)]]
        s.region_pos[lane, 0] = np.array([1.0, 2.0, 3.0]) + 2.0 * np.array([np.sin(a), 0, np.cos(a)])
        s.entity_pos[lane, 0] = [1.0, 2.0, 3.0]
    assert tilt(s).tolist() == hang(s).tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("atom", "message"),
    [
        (Atom("distance", ("load", "mark")), "give it a bound"),
        (Atom("distanc", ("load", "mark"), Threshold("<=", 1.0)), "did you mean distance"),
        (Atom("speed", ("load", "mark"), Threshold("<=", 1.0)), "takes 1 arguments, got 2"),
        (Atom("height", ("lod",), Threshold("<=", 1.0)), "did you mean load"),
    ],
)
def test_what_cannot_be_judged_is_refused(atom: Atom, message: str):
    with pytest.raises(BenchError, match=message):
        compile_atom(atom, SCENE, goal_index([NEAR], SCENE))


def test_a_goal_of_an_instant_needs_no_judge_and_ends_by_itself():
    index = goal_index((NEAR,), SCENE)
    task = SimpleNamespace(goal=(NEAR,), rules=Rules(), scene=SCENE)
    assert judge_of(task, index) is None
    over = ending(task, index)
    assert over is not None
    assert over(signals_of(index, 2, away=np.array([0.1, 0.2]))).tolist() == [True, False]
    held = SimpleNamespace(goal=(NEAR,), rules=Rules(hold=3), scene=SCENE)
    assert ending(held, index) is None


@pytest.mark.parametrize("rules", [Rules(), HOLD, SUBMIT])
def test_rules_survive_the_file_that_records_are_judged_by(rules: Rules):
    goal = (NEAR, SLOW)
    task = SimpleNamespace(
        name="t", version="1", instruction="do", goal=goal, rules=rules, atoms=(*goal, *rules.atoms()), scene=SCENE,
        horizon=10, trigger_entity="mark",
    )  # fmt: skip
    data = json.loads(json.dumps(describe(task)))
    assert ("rules" in data) == (rules != Rules())
    back = read_judged(data, "here")
    assert (back.goal, back.rules) == (goal, rules)
    if rules != Rules():
        data["rules"]["submit"] = [["turnon"]]
        with pytest.raises(BenchError, match=r"rules\.submit"):
            read_judged(data, "here")
