"""RobotAgentBench's scores and behavioural metrics: the sheet's vectors, and each rule at its edge."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from evals.robot_agent_bench import behaviour
from evals.robot_agent_bench.behaviour import Call, Episode, Happening, State, Subtask
from evals.robot_agent_bench.contract import FAMILIES, contract, load, read
from evals.robot_agent_bench.scoring import (
    Series,
    context_score,
    discovery_score,
    idle_end,
    longest_run,
    points_over_time,
    process_score,
)
from mjx_bench.errors import BenchError


def test_the_table_has_all_tasks_and_points_that_add_up():
    assert len(load()) == sum(FAMILIES.values()) == 139
    assert sum(n for family, n in FAMILIES.items() if family != "atomic") == 49
    for c in load():
        total = sum(p.points for p in c.checkpoints)
        assert total == (c.score_max or 0.0), c.id
        assert not any(p.latched for p in c.checkpoints if p.channel == "final"), c.id
    assert contract("context.01").name == "drink_selection"
    assert contract("shelf_pickup_missed").id == "recovery.01"
    with pytest.raises(BenchError, match=r"unknown RobotAgentBench task 'context\.1'"):
        contract("context.1")
    with pytest.raises(BenchError, match="family 'short' must have ids"):
        read('{"tasks": []}', "empty")


def test_a_placement_that_is_lost_loses_its_final_points_alone():
    """Place, score, push the object out."""
    touched = Series("contact", 10, np.array([0, 1, 0, 0, 0]))
    placed = Series("process", 50, np.array([0, 0, 1, 0, 0]))
    final = Series("final", 40, np.array([0, 0, 1, 1, 0]))
    assert points_over_time([touched, placed, final]).tolist() == [0, 10, 100, 100, 60]
    assert process_score([touched, placed, final]) == 60
    assert process_score([Series("process", 20, np.array([0.0, 0.5, 0.25]))]) == 10, "a fraction keeps its best"
    assert longest_run(np.array([1, 1, 0, 1, 1, 1, 0])).tolist() == [1, 2, 2, 2, 2, 3, 3]


def test_120_seconds_without_an_increase_end_a_scenario():
    rise = [0.0] * 10 + [5.0] * 2400
    assert idle_end(rise) is None
    assert idle_end([*rise, 5.0]) == 11 + 2400
    # Lost and restored: the timer does not start again, unless any increase counts.
    lost = [5.0] * 100 + [0.0] * 100 + [5.0] * 3000
    assert idle_end(lost) == 1 + 2400
    assert idle_end(lost, literal=True) == 201 + 2400
    assert idle_end([1e-7 * i for i in range(5)], seconds=0.2) == 4, "less than 1e-6 is no increase"


def test_the_first_touch_of_a_candidate_decides_a_context():
    assert context_score("tea", [set(), {"tea"}, {"cola"}]) == 1
    assert context_score("tea", [set(), {"cola"}, {"tea"}]) == 0
    assert context_score("tea", [{"tea", "cola"}]) == 0, "right and wrong at once"
    assert context_score("tea", [set()] * 5) == 0


def test_discovery_ends_with_its_budget_and_the_last_touch_counts():
    t = {"t1", "t2", "t3"}
    assert discovery_score(t, [{n} for n in ("t1", "x", "t1", "t2", "y", "t3")]) == (1.0, 6)
    assert discovery_score(t, [{n} for n in ("x", "y", "z", "u", "v", "t1")]) == (0.0, 5)
    # Two first touches after one step, and room for one: the target is taken.
    assert discovery_score(t, [{"x"}, {"y"}, {"z"}, {"u"}, {"a", "t1"}]) == (pytest.approx(1 / 3), 5)
    assert discovery_score(t, [{"t1"}, {"t2"}]) == (pytest.approx(2 / 3), None)
    with pytest.raises(BenchError, match="at least one target"):
        discovery_score(set(), [])


def test_coverage_and_progress_are_pooled_and_leave_out_what_was_not_engaged():
    touched_only = Episode((Subtask(True, 10, 60), Subtask(False, 0, 60)))
    assert behaviour.task_progress([touched_only]) == pytest.approx(100 * 10 / 60)
    assert behaviour.task_coverage([touched_only]) == 50.0
    both = [touched_only, Episode((Subtask(True, 60, 60),) * 4)]
    assert behaviour.task_coverage(both) == pytest.approx(100 * 5 / 6), "not the mean of 50 and 100"
    assert behaviour.task_progress(both) == pytest.approx(100 * 250 / 300)
    assert behaviour.task_coverage([]) is None
    assert behaviour.task_progress([Episode((Subtask(False, 0, 60),))]) is None


def test_a_failure_segment_is_recovered_by_a_later_success_of_its_own_subtask():
    def rate(*happenings: Happening) -> float | None:
        return behaviour.recovery_rate([Episode(happenings=happenings)])

    drop, again = Happening(5, "a", False), Happening(9, "a", False)
    assert rate(drop, again, Happening(12, "a", True)) == 100.0, "failures before a recovery are one segment"
    assert rate(drop, Happening(12, "b", True)) == 0.0
    assert rate(drop, Happening(5, "a", True)) == 0.0, "later, not at the same step"
    assert rate(drop, Happening(8, "a", True), again) == 50.0
    assert rate(Happening(5, "a", False, excluded=True)) is None


def state(x: float = 0.0) -> State:
    return State(np.array([x, 0.0, 0.0]), np.zeros(20), np.zeros((2, 3)), np.tile(np.eye(3), (2, 1, 1)))


def calls(number: int, seconds: float, **more: object) -> tuple[Call, ...]:
    steps = round(20 * seconds)
    return tuple(Call(i * steps, (i + 1) * steps, f"key {i}", **more) for i in range(number))  # type: ignore[arg-type]


def stagnant_s(*made: Call) -> float:
    return float(behaviour.stagnant_steps(Episode(calls=made, steps=max(c.end for c in made))).sum()) / 20


def test_repetition_counts_beyond_its_grace():
    assert stagnant_s(*calls(4, 15.0)) == 30.0, "30 s of 60 s"
    assert behaviour.stagnation([Episode(calls=calls(4, 15.0), steps=1200)]) == 50.0
    assert stagnant_s(*calls(2, 40.0)) == 0.0, "three executions are the least"
    assert stagnant_s(*calls(3, 10.0)) == 0.0
    assert stagnant_s(*calls(4, 15.0, cells=25)) == 0.0
    assert stagnant_s(*calls(4, 15.0, cells=24)) == 30.0
    assert stagnant_s(*calls(4, 15.0, navigated=(0.03, 0.0))) == 0.0
    assert stagnant_s(*calls(4, 15.0, navigated=(0.02, 0.035))) == 30.0, "no more than that is no navigation"
    first, *rest = calls(6, 15.0)
    assert stagnant_s(first, *(Call(c.begin, c.end, c.key, score=i == 1) for i, c in enumerate(rest))) == 15.0


def test_a_loop_counts_without_its_first_cycle_and_overlaps_once():
    def cycle(number: int, seconds: float, *keys: str, drift: float = 0.0) -> list[Call]:
        steps = round(20 * seconds)
        return [
            Call(i * steps, (i + 1) * steps, keys[i % len(keys)], navigated=(1.0, 0.0), state=state(drift * i))
            for i in range(number)
        ]

    # Navigation that succeeds is no repetition, and still a loop: there and back, three times in 36 s.
    assert stagnant_s(*cycle(6, 6.0, "there", "back")) == 24.0
    assert stagnant_s(*cycle(6, 4.0, "there", "back")) == 0.0, "24 s are too short"
    assert stagnant_s(*cycle(5, 10.0, "there", "back")) == 0.0, "two and a half cycles"
    assert stagnant_s(*cycle(6, 6.0, "there", "back", drift=0.02)) == 0.0, "0.04 m from cycle to cycle"
    both = [Call(c.begin, c.end, "same", state=state()) for c in calls(4, 15.0)]
    assert stagnant_s(*both) == 45.0, "a loop from its second cycle on; repetition lies within"


@pytest.mark.parametrize(
    ("field", "place", "most"),
    [
        ("base", 0, 0.02),
        ("base", 1, 0.02),
        ("base", 2, 0.035),
        ("joints", 0, 0.035),
        ("joints", 19, 0.035),
        ("hands", (0, 0), 0.01),
        ("hands", (1, 2), 0.01),
    ],
)
def test_states_of_a_loop_are_the_same_within_the_sheets_tolerances(
    field: str, place: int | tuple[int, int], most: float
):
    """2 cm of the base, 0.035 rad of its yaw and of joints, 1 cm of either hand."""
    for off, same in ((most - 1e-5, True), (most + 1e-5, False)):
        for sign in (1.0, -1.0):
            value = getattr(state(), field).copy()
            value[place] = sign * off
            assert state().same(dataclasses.replace(state(), **{field: value})) is same, off


@pytest.mark.parametrize("hand", [0, 1])
def test_a_hand_that_is_turned_by_more_than_0_052_rad_is_not_the_same(hand: int):
    for angle, same in ((0.0519, True), (-0.0519, True), (0.0521, False), (-0.0521, False), (math.pi, False)):
        turns = state().turns.copy()
        c, s = math.cos(angle), math.sin(angle)
        turns[hand] = [[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]]
        assert state().same(dataclasses.replace(state(), turns=turns)) is same, angle


def test_the_distances_of_base_and_hand_are_straight_ones():
    aside = dataclasses.replace(state(), base=np.array([0.015, 0.015, 0.0]))
    assert not state().same(aside), "0.021 m"
    reached = dataclasses.replace(state(), hands=np.array([[0.0] * 3, [0.006, 0.006, 0.006]]))
    assert not state().same(reached), "0.0104 m"
