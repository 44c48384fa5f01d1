"""RobotWorld's result tables from the outcomes of its 420 published episodes, and how rates are made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evals.robotworld.budget import CONSECUTIVE, Event, Limits, tally
from evals.robotworld.contract import contract, load
from evals.robotworld.outcomes import Recorded, adjudicate, score
from evals.robotworld.results import (
    Slot,
    collect,
    domain_rates,
    overlaps,
    scaled_total,
    set_rate,
    solved,
    suite_rate,
    task_rate,
)
from mjx_bench.errors import BenchError

SHEET = Path(__file__).resolve().parents[1].parent / "shared" / "specs" / "robotworld_tasks.json"

# Tasks that each model solved, of one episode each: GPT-6 Astra, Claude Opus 5.5, Kimi K3, DeepSeek V4.1 Flash, Gemini 3.8
# Flash.
SOLVED = {
    "A": "07 14 28 29 30 33 38 39 40 42 43 45 49 54 55 80",
    "O": "02 14 39 40 43 45 54 55 72 73 76 80 81",
    "K": "29 54",
    "D": "80",
    "G": "14",
}
TIMED = ("14", "47", "56", "76", "79", "80", "81")
# Of the twenty tasks of balance and tracking, those that are known: all of locomotion and of the air.
BALANCE = ("46", *(str(i) for i in range(70, 76)), *(str(i) for i in range(77, 85)))
# Task and model to the outcome and the control steps of an episode that is told of on its own, and the most that it had.
TOLD = {
    ("42", "A"): (True, 635, 1350), ("07", "A"): (True, 323, 400), ("29", "K"): (True, 265, 450),
    ("03", "K"): (False, 400, 400), ("54", "K"): (True, 1881, 2000), ("72", "O"): (True, 1000, 1000),
    ("73", "O"): (True, 500, 500), ("81", "O"): (True, 800, 800), ("80", "D"): (True, 241, 1000),
    ("14", "G"): (True, 511, 700), ("67", "D"): (False, 0, 593), ("45", "O"): (True, 341, 450),
}  # fmt: skip
IDS = [c.id for c in load()]
MODELS = {
    model: collect(Slot(task, 0, task in tasks.split()) for task in IDS) for model, tasks in SOLVED.items()
}  # fmt: skip

# Successes by domain, in the order of the table: manipulation, mobile manipulation, locomotion, driving, aerial, all.
BY_DOMAIN = {
    "A": (9, 4, 0, 2, 1, 16),
    "O": (7, 0, 1, 2, 3, 13),
    "K": (0, 1, 0, 1, 0, 2),
    "D": (0, 0, 0, 0, 1, 1),
    "G": (1, 0, 0, 0, 0, 1),
    "union": (11, 4, 1, 2, 3, 21),
}
PERCENT = {
    "A": (23.7, 20.0, 0.0, 18.2, 25.0, 19.0),
    "O": (18.4, 0.0, 9.1, 18.2, 75.0, 15.5),
    "K": (0, 5, 0, 9.1, 0, 2.4),
}


def union(*models: str) -> dict[str, list[bool | None]]:
    return {task: [any(MODELS[model][task][0] for model in models)] for task in IDS}


@pytest.mark.parametrize("model", BY_DOMAIN)
def test_successes_by_domain(model: str):
    outcomes = union(*MODELS) if model == "union" else MODELS[model]
    rates = [*domain_rates(outcomes).values(), suite_rate(outcomes)]
    assert tuple(rate.successes for rate in rates) == BY_DOMAIN[model]
    assert [rate.tasks for rate in rates] == [38, 20, 11, 11, 4, 84]
    for rate in rates:
        assert rate.mean == pytest.approx(rate.successes / rate.tasks)
    for rate, percent in zip(rates, PERCENT.get(model, ()), strict=False):
        assert 100 * (rate.mean or 0.0) == pytest.approx(percent, abs=0.05)


def test_episodes_and_tasks_that_nobody_solved():
    assert sum(suite_rate(outcomes).planned for outcomes in MODELS.values()) == 420
    assert 84 - len(solved(union(*MODELS))) == 63
    assert suite_rate(union(*MODELS)).mean == 0.25


def test_both_kinds_of_manipulation_pooled():
    arms = [c.id for c in load() if c.domain in ("manipulation", "mobile_manipulation")]
    found = [set_rate(outcomes, arms) for outcomes in (MODELS["A"], MODELS["O"], union("A", "O"))]
    assert [(rate.successes, rate.tasks) for rate in found] == [(13, 58), (7, 58), (15, 58)]
    assert len(arms) / 84 == pytest.approx(0.690, abs=5e-4)


def test_overlaps_of_models():
    shared = overlaps(MODELS)
    published = {"AO": 8, "AK": 2, "AD": 1, "AG": 1, "OK": 1, "OD": 1, "OG": 1, "KD": 0, "KG": 0, "DG": 0}
    assert {pair: shared[pair[0], pair[1]] for pair in published} == published
    assert [shared[m, m] for m in "AOKDG"] == [16, 13, 2, 1, 1]
    assert len(solved(MODELS["A"]) - solved(MODELS["O"])) == 8
    assert len(solved(MODELS["O"]) - solved(MODELS["A"])) == 5
    difference = (suite_rate(MODELS["A"]).mean or 0) - (suite_rate(MODELS["O"]).mean or 0)
    assert 100 * difference == pytest.approx(3.6, abs=0.05)


def test_timed_interaction():
    assert [set_rate(MODELS[model], TIMED).successes for model in "AO"] == [2, 4]


def test_balance_and_tracking_as_far_as_its_tasks_are_known():
    """The known tasks have all of the group's successes: 1 and 4."""
    assert [set_rate(MODELS[model], BALANCE).successes for model in "AO"] == [1, 4]
    assert {c.id for c in load() if c.domain in ("locomotion", "aerial")} == set(BALANCE)


@pytest.mark.parametrize(("task", "model"), TOLD)
def test_episodes_that_are_told_of_fit_contracts_and_outcomes(task: str, model: str):
    outcome, steps, most = TOLD[task, model]
    c = contract(task)
    assert c.horizon == most
    assert MODELS[model][c.id] == [outcome]
    # Rules over the world's state are judged at the horizon.
    assert c.profile == "N" or steps == c.horizon


def test_an_episode_that_never_moved_is_a_failure_by_its_budget():
    """Task 67, DeepSeek: no call of the robot, 0 of 593 steps, stopped by 15 units in a row."""
    ledger = tally([Event("auxiliary", 0, key=f"{i}") for i in range(16)], Limits.of(contract("67")))
    assert ledger.stopped == CONSECUTIVE
    assert (ledger.steps, ledger.total) == (0, 15)
    assert score("N", native=None, world=None, stopped=True) is False


def test_a_last_step_without_an_event_is_no_reason_to_doubt_a_success():
    """Task 42, Astra: a result after 635 steps, the last event after 634; 15 units of 30 in all."""
    events = [Event("robot", 600)]
    events += [
        event for i in range(15) for event in (Event("auxiliary", 600 + 2 * i, key=f"{i}"), Event("robot", 602 + 2 * i))
    ]
    ledger = tally([*events, Event("robot", 634)], Limits.of(contract("42")), enforced=False)
    found = adjudicate(Recorded(True, 635, 635), ledger)
    assert (found.outcome, found.scored_step, found.reason, ledger.total) == (True, 635, None, 15)


@pytest.mark.skipif(not SHEET.exists(), reason="the benchmark's table is not beside the repository")
def test_the_420_outcomes_are_those_of_the_benchmarks_table():
    for row in json.loads(SHEET.read_text()):
        assert {m: MODELS[m][row["id"]] == [True] for m in MODELS} == row["published_outcomes"]


def test_every_task_weighs_the_same():
    """1 of 2 and 9 of 10 are 70 %, not 10 of 12."""
    outcomes = {"01": [True, False], "02": [True] * 9 + [False]}
    found = set_rate(outcomes)
    assert found.mean == pytest.approx(0.7)
    assert (found.successes, found.valid) == (10, 12)
    assert found.variance == pytest.approx(0.04)
    assert found.sample_variance == pytest.approx(0.08)


def test_no_outcome_is_no_failure_and_is_counted():
    rate = task_rate([True, None, False, None])
    assert (rate.rate, rate.valid, rate.planned) == (0.5, 2, 4)
    assert task_rate([None]).rate is None
    found = set_rate({"01": [True], "02": [None]})
    assert (found.mean, found.rated, found.tasks, found.complete) == (1.0, 1, 2, False)
    assert found.sample_variance is None
    empty = set_rate({"01": [None]})
    assert (empty.mean, empty.variance, empty.sample_variance) == (None, None, None)


def test_the_whole_suite_needs_every_outcome():
    outcomes = dict(MODELS["A"])
    outcomes["17"] = [None]
    with pytest.raises(BenchError, match="1 of 84 episodes have no outcome; give the rate of a named subset"):
        suite_rate(outcomes)
    del outcomes["17"]
    with pytest.raises(BenchError, match="no episode of task 17"):
        suite_rate(outcomes)


def test_an_interrupted_slot_is_replaced_and_no_other():
    found = collect([Slot("01", 0, None), Slot("hang_mugs", 0, True), Slot("01", 1, False)])
    assert found == {"01": [True, False]}
    with pytest.raises(BenchError, match="task 01 rollout 0 has an outcome; only interrupted ones are tried again"):
        collect([Slot("01", 0, False), Slot("01", 0, True)])
    with pytest.raises(BenchError, match="unknown RobotWorld task 'hang_mug'; did you mean"):
        collect([Slot("hang_mug", 0, True)])


def test_totals_are_scaled_from_what_was_recorded():
    """Missing and empty records are left out of the mean, not counted as nothing used."""
    assert scaled_total([10.0, None, 0.0, 20.0]) == pytest.approx(84 * 15.0)
    assert scaled_total([None, 0.0]) is None
