"""The non-action budget and adjudication: the benchmark's vectors, its ledger of 21 episodes, and bad logs."""

from __future__ import annotations

import collections
from collections.abc import Iterator

import pytest

from evals.robotworld.budget import CONSECUTIVE, TOTAL, Event, Ledger, Limits, charge, tally
from evals.robotworld.contract import contract
from evals.robotworld.outcomes import Adjudicated, Recorded, adjudicate
from mjx_bench.errors import BenchError

LIMITS = Limits(15, 30)


def looks(number: int, steps: int = 0, first: int = 0) -> list[Event]:
    """Looks at pictures."""
    return [Event("auxiliary", steps, key=f"look {first + i}") for i in range(number)]


def test_fifteen_looks_in_a_row_end_it():
    ledger = tally(looks(20), LIMITS)
    assert ledger.first is not None
    assert (ledger.stopped, ledger.total, ledger.steps) == (CONSECUTIVE, 15, 0)
    assert tally(looks(14), LIMITS).stopped is None


@pytest.mark.parametrize("most", [30, 60, 120])
def test_units_that_each_move_afterwards_end_it_by_their_total(most: int):
    events = [e for i in range(most + 5) for e in (*looks(1, i, i), Event("robot", i + 1))]
    ledger = tally(events, Limits(15, most))
    assert (ledger.stopped, ledger.total, ledger.peak) == (TOTAL, most, 1)
    assert ledger.steps == most - 1


def test_a_step_starts_the_row_again():
    events = [*looks(14), Event("robot", 1), *looks(14, 1, 14)]
    ledger = tally(events, LIMITS)
    assert (ledger.stopped, ledger.consecutive, ledger.total, ledger.peak) == (None, 14, 28, 14)
    assert tally([*events, *looks(1, 1, 99)], LIMITS).stopped == CONSECUTIVE


@pytest.mark.parametrize(
    ("events", "units", "kinds"),
    [
        ([Event("robot", 4), Event("turn", 4)], 0, {}),  # a turn that moved
        ([Event("turn", 0, completed=False)], 0, {}),  # a failed one
        ([Event("notice", 0), Event("turn", 0)], 1, {"empty_turn": 1}),
        ([Event("robot", 0)], 1, {"robot_zero": 1}),  # refused, or observe
        ([Event("robot", 0), Event("turn", 0)], 1, {"robot_zero": 1}),  # not charged twice
        ([Event("auxiliary", 0, key="a"), Event("auxiliary", 0, key="a"), Event("turn", 0)], 1, {"aux": 1}),
        ([Event("auxiliary", 0, key="a"), Event("poll", 0), Event("poll", 0)], 3, {"aux": 1, "stdin": 2}),
        ([Event("turn", 0), Event("turn", 0, turn=1)], 2, {"empty_turn": 2}),
        ([Event("robot", 4), Event("turn", 4), Event("turn", 4, turn=1)], 1, {"empty_turn": 1}),
        ([Event("notice", 0)] * 9, 0, {}),
    ],
)
def test_what_costs_a_unit(events: list[Event], units: int, kinds: dict[str, int]):
    ledger = tally(events, LIMITS)
    assert ledger.total == units
    assert {k: v for k, v in ledger.record()["kinds"].items() if v} == kinds


def test_a_refused_call_and_then_one_that_moves():
    ledger = tally([Event("robot", 0)], LIMITS)
    assert (ledger.consecutive, ledger.total) == (1, 1)
    ledger = charge(ledger, Event("robot", 4))
    assert (ledger.consecutive, ledger.total, ledger.steps) == (0, 1, 4)


def test_the_first_limit_is_kept_and_what_is_queued_is_not_read():
    events = [*looks(15), Event("robot", 9), *looks(40, 9, 15)]
    ledger = tally(events, LIMITS)
    assert ledger.first is not None
    assert (ledger.steps, ledger.total, ledger.first.steps) == (0, 15, 0)
    watched = tally(events, LIMITS, enforced=False)
    assert watched.first == ledger.first
    assert (watched.stopped, watched.steps, watched.total, watched.peak) == (None, 9, 55, 40)
    assert watched.record()["mode"] == "observe"


def test_both_limits_at_once_are_named_by_the_row():
    assert tally(looks(15), Limits(15, 15)).stopped == CONSECUTIVE


def test_a_total_that_is_not_public_limits_nothing():
    events = [e for i in range(300) for e in (*looks(1, i, i), Event("robot", i + 1))]
    assert tally(events, Limits.of(contract("01"))).stopped is None
    assert Limits.of(contract("42")) == (15, 30)
    assert Limits.of(contract("80")) == (20, 150)


def test_the_record_holds_what_the_benchmark_keeps():
    events = [Event("robot", 3), Event("turn", 3), Event("robot", 3, turn=1), *looks(1, 3), Event("turn", 3, turn=3)]
    events[3] = Event("auxiliary", 3, turn=2, key="a")
    record = tally(events, LIMITS).record()
    assert record["protocol"] == "astra-nonaction-15-30-v1"
    assert Ledger(Limits.of(contract("80"))).record()["protocol"] == "nonaction-20-150-v1"
    assert record["accounting"] == "observable-events-v2"
    assert record["counts_complete"] is False
    assert record["missing_turn_ends"] == 2  # of turns 1 and 2
    assert (record["total"], record["control_steps"], record["stop_reason"]) == (3, 3, None)
    assert record["kinds"] == {"aux": 1, "stdin": 0, "robot_zero": 1, "empty_turn": 1}
    assert tally(looks(15), LIMITS).record()["first_threshold"] == {
        "reason": CONSECUTIVE, "turn": 0, "consecutive": 15, "total": 15, "steps": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([Event("robot", 4), Event("robot", 3)], "control steps went back from 4 to 3"),
        ([Event("turn", 4, turn=2), Event("robot", 5, turn=1)], "turns went back from 2 to 1"),
    ],
)
def test_a_log_that_goes_back_is_refused(events: list[Event], message: str):
    with pytest.raises(BenchError, match=message):
        tally(events, LIMITS)


# ---- adjudication: model, task, recorded result (None: unavailable), scored step, observed step

LEDGER = """
K 26 failure 489 600 | K 27 unavailable 306 306 | K 28 failure 192 600 | K 32 unavailable 335 335
K 34 unavailable 372 372 | K 35 unavailable 2420 2420 | O 16 failure 265 1112 | O 17 failure 290 2001
O 18 failure 240 2001 | O 20 failure 220 2001 | O 21 unavailable 2000 2000 | O 22 unavailable 1114 1114
O 23 failure 787 1132 | O 27 unavailable 778 778 | O 36 unavailable 1025 1025 | O 37 unavailable 1392 1392
O 38 success 425 531 | O 41 success 174 466 | O 42 success 313 601 | O 50 failure 120 205 | O 53 failure 19 143
"""
RESULTS = {"failure": False, "success": True, "unavailable": None}


def published() -> list[tuple[str, str, str, int, int]]:
    rows = [row.split() for line in LEDGER.strip().splitlines() for row in line.split("|")]
    return [(model, task, result, int(scored), int(observed)) for model, task, result, scored, observed in rows]


def log(limits: Limits, scored: int, observed: int) -> Iterator[Event]:
    """An episode that reaches its total limit after `scored` steps, never that in a row, and goes on to `observed`."""
    assert limits.total is not None
    done = 0
    for i in range(limits.total):
        if i < limits.total - 1 and done < scored - 1:
            done += 1
            yield Event("robot", done)
        if i == limits.total - 1:
            yield Event("robot", scored)
        yield Event("auxiliary", scored if i == limits.total - 1 else done, key=f"{i}")
    for steps in (observed,):
        yield Event("robot", steps)
        yield Event("auxiliary", steps, key="later")


def adjudicated() -> dict[tuple[str, str], Adjudicated]:
    out = {}
    for model, task, result, scored, observed in published():
        original = RESULTS[result]
        ledger = tally(log(Limits(15, 30), scored, observed), Limits(15, 30), enforced=False)
        recorded = Recorded(original, observed, observed if original else None)
        out[model, task] = adjudicate(recorded, ledger)
    return out


def test_the_published_ledger():
    found = adjudicated()
    assert len(found) == 21
    assert collections.Counter(model for model, _ in found) == {"O": 15, "K": 6}
    for model, task, result, scored, observed in published():
        got = found[model, task]
        assert (got.outcome, got.scored_step, got.observed_step, got.reason) == (False, scored, observed, TOTAL)
        assert got.as_row()["original"] == result
        assert scored <= observed
    assert sum(a.original is None for a in found.values()) == 9
    assert sum(a.original is not None for a in found.values()) == 12
    assert {key for key, a in found.items() if a.overturned} == {("O", "38"), ("O", "41"), ("O", "42")}


def test_what_was_done_before_the_limit_counts():
    ledger = tally(log(LIMITS, 100, 200), LIMITS, enforced=False)
    for success_step, outcome in ((99, True), (100, True), (101, False), (None, False)):
        assert adjudicate(Recorded(None, 200, success_step), ledger).outcome is outcome


def test_an_episode_within_its_budget_is_left_as_it_was():
    ledger = tally([Event("robot", 9)], LIMITS)
    for original in (True, False, None):
        assert adjudicate(Recorded(original, 9), ledger) == Adjudicated(original, 9, None, original, 9)


def test_a_log_that_does_not_fit_its_account_is_refused():
    ledger = tally(log(LIMITS, 100, 200), LIMITS, enforced=False)
    with pytest.raises(BenchError, match="the limit came after 100 control steps, and the log ends after 50"):
        adjudicate(Recorded(False, 50), ledger)
    with pytest.raises(BenchError, match="success came after 60 control steps"):
        adjudicate(Recorded(True, 50, 60), Ledger(LIMITS))
