"""Stages before a goal, and a hold that ends an episode: on made-up signals, in NumPy and JAX, and through the file."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

from mjx_bench.checkers import START, Judge, ending, stack
from mjx_bench.errors import BenchError
from mjx_bench.judged import describe, read_judged
from mjx_bench.predicates import goal_index
from mjx_bench.signals import SignalIndex, Signals
from mjx_bench.task import Atom, Covered, Crossing, Rules, Threshold
from mjx_bench.types import Verdict
from tests.test_checkers import LOW, NEAR, SCENE, SLOW, rows, signals_of, walk

FAST = Atom("speed", ("load",), Threshold(">", 1.0))
FAR = Atom("distance", ("load", "mark"), Threshold(">", 2.0))
EVENTS = (
    Crossing((FAR,), (NEAR, FAST)),
    Covered(Atom("pace", ("load",)), (FAR,), 0.5, 2.5),
)
RULES = Rules(hold=3, at_once=True, stages=((FAR,), (FAST, FAR)), failures=(LOW,))


def judge(rules: Rules) -> tuple[Judge, SignalIndex]:
    index = goal_index((NEAR, SLOW, *rules.atoms()), SCENE)
    return Judge((NEAR, SLOW), rules, SCENE, index), index


def verdicts(rules: Rules, away: list[float], speed: list[float], height: Any = 1.0) -> list[str]:
    """How the episode stands after each step: running, or its verdict."""
    made, index = judge(rules)
    found = []
    for standing in walk(made, signals_of(index, len(away), away=np.array(away), speed=np.array(speed), height=height)):
        end = made.end(standing, at_horizon=False)
        found.append("running" if end is None else str(end[0]))
    return found


def test_the_goal_counts_after_its_stages_and_a_hold_ends_it():
    away, speed = [3.0, 3.0, 0.1, 0.1, 0.1, 0.1], [0.0, 2.0, 0.0, 0.0, 0.0, 0.0]
    assert verdicts(RULES, away, speed) == ["running"] * 4 + ["success"] * 2
    assert "success" not in verdicts(RULES, away, [0.0] * 6), "the second stage was never reached"
    assert "success" not in verdicts(RULES, [3.0, 0.1, 0.1, 0.1, 0.1, 0.1], speed), "its atoms not at one step"
    assert "success" not in verdicts(RULES, [0.1] * 6, [0.0] * 6)


def test_one_stage_a_step():
    assert "success" not in verdicts(RULES, [3.0, 0.1, 0.1, 0.1, 0.1], [2.0, 0.0, 0.0, 0.0, 0.0])
    assert verdicts(RULES, [3.0, 3.0, 0.1, 0.1, 0.1], [2.0, 2.0, 0.0, 0.0, 0.0])[-1] == "success"


def test_a_gap_starts_the_hold_again_but_not_the_stages():
    away = [3.0, 3.0, 0.1, 0.1, 0.2, 0.1, 0.1, 0.1]
    speed = [0.0, 2.0, *([0.0] * 6)]
    assert verdicts(RULES, away, speed) == ["running"] * 7 + ["success"]


def test_a_failure_wins_over_a_hold_that_ends_at_the_same_step():
    away, speed = [3.0, 3.0, 0.1, 0.1, 0.1], [0.0, 2.0, 0.0, 0.0, 0.0]
    assert verdicts(RULES, away, speed, np.array([1.0, 1.0, 1.0, 1.0, 0.1]))[-1] == "failure"


def test_a_goal_of_an_instant_may_have_stages_too():
    rules = Rules(stages=((FAR,),))
    made, index = judge(rules)
    assert verdicts(rules, [0.1, 3.0, 0.1], [0.0] * 3) == ["running", "running", "success"]
    task = SimpleNamespace(goal=(NEAR, SLOW), rules=rules, scene=SCENE)
    assert ending(task, index) is None, "no test of an instant says when it ends"  # type: ignore[arg-type]
    late = walk(made, signals_of(index, 3, away=np.array([3.0, 0.1, 0.2])))
    assert made.end(late[1], at_horizon=False) == (Verdict.SUCCESS, "goal")


def test_a_crossing_is_of_two_steps_in_a_row():
    rules = Rules(events=EVENTS[:1])
    assert verdicts(rules, [3.0, 0.1, 0.1], [0.0, 2.0, 0.0]) == ["running", "running", "success"]
    assert verdicts(rules, [3.0, 1.0, 0.1, 0.1], [0.0, 0.0, 2.0, 0.0])[-1] == "running", "not at once"
    assert verdicts(rules, [3.0, 0.1, 0.1], [0.0, 0.0, 0.0])[-1] == "running", "too slow"
    assert verdicts(rules, [0.1, 0.1], [2.0, 0.0])[-1] == "running", "what was before the first step is not known"


def test_a_distance_adds_up_where_it_counts():
    """Half a second a step: 2 and 3 m/s make 2.5 m; what is driven near the mark does not count."""
    rules = Rules(events=EVENTS[1:])
    assert verdicts(rules, [3.0, 3.0, 0.1], [2.0, 3.0, 0.0])[-1] == "success"
    assert verdicts(rules, [3.0, 3.0, 0.1], [2.0, 2.9, 0.0])[-1] == "running"
    assert verdicts(rules, [3.0, 0.1, 0.1], [2.0, 3.0, 0.0])[-1] == "running"


@pytest.mark.parametrize("rules", [RULES, Rules(hold=2, at_once=True, events=EVENTS)])
def test_numpy_and_jax_agree(rules: Rules):
    made, index = judge(rules)
    rng, steps, lanes = np.random.default_rng(0), 120, 64
    flat = signals_of(
        index, steps * lanes, away=rng.choice([3.0, 0.1], steps * lanes, p=[0.2, 0.8]),
        speed=rng.choice([2.0, 0.0], steps * lanes, p=[0.2, 0.8]),
        height=np.where(rng.random(steps * lanes) < 0.003, 0.1, 1.0),
    )  # fmt: skip
    host = {n: a.reshape(steps, lanes, *a.shape[1:]) for n, a in vars(flat).items()}
    compiled = jax.jit(
        lambda s, f: jax.lax.scan(lambda s, f: (n := made.update(s, Signals(**f)), n), s, f)[1]
    )(stack([START] * lanes), host)  # fmt: skip
    standing = stack([START] * lanes)
    for t in range(steps):
        standing = made.update(standing, rows(flat, slice(t * lanes, (t + 1) * lanes)))
        for mine, theirs in zip(standing, compiled, strict=True):
            np.testing.assert_allclose(mine, np.asarray(theirs)[t], atol=1e-5)
    assert standing.success.any()
    assert standing.stage.max() == len(rules.stages)
    assert (standing.memory.max() > 0) == bool(rules.events)


@pytest.mark.parametrize(
    "rules", [RULES, Rules(stages=((FAR,),)), Rules(events=EVENTS), Rules(hold=2, events=EVENTS[:1])]
)
def test_they_survive_the_file_that_records_are_judged_by(rules: Rules):
    goal = (NEAR, SLOW)
    task = SimpleNamespace(
        name="t", version="1", instruction="do", goal=goal, rules=rules, atoms=(*goal, *rules.atoms()), scene=SCENE,
        horizon=10, trigger_entity="mark",
    )  # fmt: skip
    assert read_judged(json.loads(json.dumps(describe(task))), "here").rules == rules  # type: ignore[arg-type]
    plain = SimpleNamespace(**{**vars(task), "rules": Rules(hold=3), "atoms": goal})
    assert not {"stages", "at_once", "events"} & describe(plain)["rules"].keys()  # type: ignore[arg-type]


def test_too_many_events_are_refused():
    with pytest.raises(BenchError, match="events, the score, hits and finds remember more than 8 numbers"):
        judge(Rules(events=EVENTS[:1] * 5))
