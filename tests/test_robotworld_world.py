"""Profile W: the rules of all sixteen tasks on made-up traces, what is invalid, and the part of the budget in an outcome."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from evals.robotworld.contract import contract
from evals.robotworld.outcomes import score
from evals.robotworld.world import PLANS, Evaluation, Trace, evaluate
from mjx_bench.errors import BenchError


def good(task: str, samples: int | None = None, **fields: Any) -> Trace:
    """A trace of an episode in which everything always is as it should be, but for the fields given."""
    c, plan = contract(task), PLANS[contract(task).id]
    n = c.horizon + 1 if samples is None else samples
    values: dict[str, np.ndarray] = {}
    for name, predicate in zip(plan.fields, c.predicates, strict=False):
        bound = predicate.value
        if isinstance(bound, bool):
            values[name] = np.full(n, bound)
        else:
            inside = {"==": 0.0, "<=": -1e-6, ">=": 1e-6, "<": -1e-6, ">": 1e-6}[predicate.operator]
            # Of two bounds of one field, the tighter.
            values[name] = np.minimum(values.get(name, np.inf), np.full(n, bound + inside))
    values |= {name: np.asarray(value) for name, value in fields.items()}
    return Trace(values, {"native": np.zeros(n, np.bool_)}, 1.0 / c.interface.control_hz, ticks=np.arange(n))


def at(n: int, bad: float, usual: float, *where: int | slice) -> np.ndarray:
    values = np.full(n, usual)
    for index in where:
        values[index] = bad
    return values


@pytest.mark.parametrize("task", PLANS)
def test_every_task_can_be_won_and_lost_by_each_of_its_rules(task: str):
    """Each predicate that a rule takes, on the wrong side of its bound at the last sample, loses; else it wins."""
    c, plan = contract(task), PLANS[task]
    ended = plan.ends == "event"
    trace = dataclasses.replace(good(task), ended=ended)
    assert evaluate(task, trace).success is True
    for number, rule in enumerate(plan.rules):
        kind = c.over_time[number]["kind"]
        for i in rule:
            bound, name = c.predicates[i].value, plan.fields[i]
            values = trace.fields[name].copy()
            beyond = {"<=": 1e-6, ">=": -1e-6, "<": 0.0, ">": 0.0, "==": -1.0}
            spoilt = (not bound) if isinstance(bound, bool) else bound + beyond[c.predicates[i].operator]
            index = int(c.over_time[number]["window_s"][0] * c.interface.control_hz) + 3 if kind == "always" else -1
            values[index] = spoilt
            found = evaluate(task, dataclasses.replace(trace, fields={**trace.fields, name: values}))
            assert found.valid
            assert found.success is False
            assert not found.rules[number].passed


@pytest.mark.parametrize(
    ("task", "first"), [("72", 900), ("73", 376), ("77", 350), ("84", 850), ("81", 770), ("53", 140), ("82", 1900)]
)
def test_a_hold_covers_the_last_seconds(task: str, first: int):
    """Three seconds at 50 Hz are ticks 850 to 1000. A gap before costs nothing, one sample inside costs all."""
    c = contract(task)
    rule, name = PLANS[task].rules[-1], PLANS[task].fields[PLANS[task].rules[-1][0]]
    n, usual = c.horizon + 1, good(task).fields[name][0]
    bound = c.predicates[rule[0]].value
    spoilt = (not bound) if isinstance(bound, bool) else (0.0 if c.predicates[rule[0]].operator == ">" else 99.0)
    before = evaluate(task, good(task, **{name: at(n, spoilt, usual, slice(first)).astype(type(usual))}))
    assert before.success is True
    assert before.rules[-1].since == first / c.interface.control_hz
    for where in (first, first + 1, n - 1):
        assert evaluate(task, good(task, **{name: at(n, spoilt, usual, where).astype(type(usual))})).success is False


@pytest.mark.parametrize(
    ("tick", "in_window", "in_hold"),
    [
        (0, False, False),
        (99, False, False),
        (100, True, False),
        (599, True, False),
        (600, True, True),
        (601, False, True),
    ],
)
def test_a_window_is_fixed(tick: int, in_window: bool, in_hold: bool):
    """Task 70: wrists from 2 to 12 s at 50 Hz, ticks 100 to 600, and again through the last two seconds, 600 to 700."""
    found = evaluate("70", good("70", wrist_position_error=at(701, 0.081, 0.08, tick)))
    assert [rule.passed for rule in found.rules] == [not in_window, not in_hold]
    assert found.rules[0].first_violation == (tick / 50 if in_window else None)
    assert found.rules[0].samples == 501
    assert found.success is not (in_window or in_hold)


def test_the_window_that_broke_is_not_repaired_by_a_hold():
    rod = at(621, 20.1, 9.0, 31)
    found = evaluate("74", good("74", rod_tilt=rod))
    assert [rule.passed for rule in found.rules] == [False, True]
    assert found.success is False
    assert evaluate("74", good("74", rod_tilt=at(621, 20.1, 9.0, 30))).success is True


def test_a_failure_wins_over_success_of_the_same_sample():
    trace = good("72")
    failures = {"native": trace.failures["native"], "corridor": np.zeros(1001, np.bool_)}
    failures["corridor"][1000] = True
    found = evaluate("72", dataclasses.replace(trace, failures=failures))
    assert found == dataclasses.replace(found, success=False, valid=True, complete=True, failures=("corridor",))
    assert all(rule.passed for rule in found.rules)


def test_a_failure_ends_an_episode_that_is_not_complete():
    trace = good("72", samples=300)
    assert evaluate("72", trace) == Evaluation(None, False, False, (), (), evaluate("72", trace).rules)
    trace.failures["native"][299] = True
    found = evaluate("72", trace)
    assert (found.success, found.valid, found.complete, found.failures) == (False, True, False, ("native",))


def test_failures_are_named_as_they_came():
    trace = good("72")
    flags = {name: np.arange(1001) >= tick for name, tick in (("late", 90), ("a", 40), ("early", 40))}
    assert evaluate("72", dataclasses.replace(trace, failures=flags)).failures == ("a", "early", "late")


def test_only_the_tray_ends_early_on_success_and_only_table_tennis_on_its_event():
    assert evaluate("78", good("78", samples=101)).success is True
    assert evaluate("78", good("78", samples=100)).success is None
    assert evaluate("73", good("73", samples=126)).success is None
    serves = good("79", samples=700)
    assert evaluate("79", serves).success is None
    assert evaluate("79", dataclasses.replace(serves, ended=True)).success is True
    lost = dataclasses.replace(serves, ended=True, fields={**serves.fields, "returns": np.full(700, 2)})
    assert evaluate("79", lost).success is False


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"fields": {"tilt": None}}, "tilt is missing"),
        ({"fields": {"tilt": np.full(501, np.nan)}}, "tilt is not finite"),
        ({"fields": {"tilt": np.zeros(501, np.bool_)}}, "tilt is bool, not a number"),
        ({"fields": {"tilt": np.zeros(500)}}, "tilt is missing"),
        ({"period": 0.016}, "a control step took 0.016 s"),
        ({"verified": False}, "the scene was not set up as declared"),
    ],
)
def test_what_cannot_be_trusted_is_no_outcome(change: dict[str, Any], reason: str):
    trace = good("73")
    if "fields" in change:
        fields = {k: v for k, v in {**trace.fields, **change["fields"]}.items() if v is not None}
        change = {"fields": fields}
    found = evaluate("73", dataclasses.replace(trace, **change))
    assert (found.success, found.valid) == (None, False)
    assert any(text.startswith(reason) for text in found.invalid)


def test_a_boolean_rule_needs_booleans():
    found = evaluate("77", good("77", front_feet_contact=np.ones(501)))
    assert found.success is None
    assert found.invalid == ("front_feet_contact is float64, not true or false",)


@pytest.mark.parametrize("ticks", [[0, 1, 3], [0, 1, 1], [1, 2, 3], []])
def test_samples_without_order_are_refused(ticks: list[int]):
    with pytest.raises(BenchError, match="without a gap or a repeat"):
        evaluate("73", dataclasses.replace(good("73"), ticks=np.array(ticks)))


def test_a_task_of_the_other_profile_has_no_world_rules():
    with pytest.raises(BenchError, match="CloseDrawer is scored by profile N"):
        evaluate("29", good("73"))


def evaluation(success: bool | None, valid: bool = True) -> Evaluation:
    return Evaluation(success, valid, True, (), (), ())


@pytest.mark.parametrize(
    ("profile", "native", "world", "stopped", "outcome"),
    [
        ("N", True, None, False, True),
        ("N", False, None, False, False),
        ("N", None, None, False, None),
        ("N", True, None, True, True),  # exactly true when the budget ended it
        ("N", False, None, True, False),
        ("N", None, None, True, False),  # undefined is a failure then
        ("N", False, evaluation(True), False, False),  # its own checker decides
        ("W", False, evaluation(True), False, True),  # the world's rules do
        ("W", True, evaluation(False), False, False),
        ("W", True, None, False, None),
        ("W", True, evaluation(None, valid=False), False, None),
        ("W", True, evaluation(None, valid=False), True, False),
        ("W", False, evaluation(True), True, True),
    ],
)
def test_the_profile_and_the_budget_make_the_outcome(
    profile: str, native: bool | None, world: Evaluation | None, stopped: bool, outcome: bool | None
):
    assert score(profile, native=native, world=world, stopped=stopped) is outcome


def test_an_unknown_profile_is_refused():
    with pytest.raises(BenchError, match="unknown scoring profile 'X'"):
        score("X", native=True, world=None, stopped=False)


def test_the_published_values_of_two_successes_pass():
    """Go2: 0.192 m, 0.0022 m/s, 4.48 degrees at the end; payload: 0.0394 m, 0.0147 m/s, stable for the last 2.15 s."""
    n = 1001
    settled = slice(0, 850)
    fields = {
        "goal_distance": at(n, 2.5, 0.192, settled),
        "speed": at(n, 0.5, 0.0022, settled),
        "tilt": np.full(n, 4.48),
    }
    assert evaluate("72", good("72", **fields)).success is True
    start = 500 - int(2.15 * 62)
    fields = {"payload_error": at(501, 0.3, 0.0394, slice(0, start)), "payload_speed": np.full(501, 0.0147)}
    assert evaluate("73", good("73", **fields)).success is True
