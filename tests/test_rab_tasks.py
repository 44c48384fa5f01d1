"""RobotAgentBench's tasks on the C engine: who solves them, what ends them, pairs with a hand and with changing light."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from evals import registry
from evals.libero_max.eligibility import EVENTS, eligible_events, own_events
from evals.libero_max.sampler import sample_manifest
from evals.robot_agent_bench import discovery, pickup, selection
from evals.robot_agent_bench.disturbances import DIM, case_of
from evals.robot_agent_bench.furniture import SHELF_DEPTH
from evals.robot_agent_bench.scoring import context_score, discovery_score, pickup_checkpoints, process_score
from mjx_bench.cases import EVENT_OPERATION, OWN_EVENTS, Manifest, check_case, evaluation, load_manifest
from mjx_bench.checkers import FAILED, START, Standing, judge_of
from mjx_bench.errors import BenchError
from mjx_bench.film import film_pair
from mjx_bench.judged import describe, read_judged
from mjx_bench.observe.looks import looks_of
from mjx_bench.physics.base import Visual
from mjx_bench.physics.choice import make_physics
from mjx_bench.physics.scene import signal_index
from mjx_bench.policy import Policy
from mjx_bench.predicates import goal_index
from mjx_bench.records import Run, load_run
from mjx_bench.report.summary import summarise
from mjx_bench.rescore import rescore
from mjx_bench.schedule import run_pairs
from mjx_bench.settings import RunSettings
from mjx_bench.signals import FINGERS, GRIP, HAND, Signals
from mjx_bench.task import Task
from mjx_bench.triggers import compile_trigger, touches_judged, trigger_distance
from mjx_bench.types import Verdict
from policies.reference.oracle import Oracle
from policies.simple import Zero
from scripts import cli

SUITE = "robot_agent_bench"
SETTINGS = RunSettings(policy="p", lanes=4, query_interval=8, threads=1)
NAMES = [*(k.name for k in selection.KINDS), *(k.name for k in pickup.KINDS), discovery.NAME]


def task(name: str) -> Task:
    return registry.load_task(SUITE, NAMES.index(name))


def pairs(t: Task, event: str, instance: int) -> Manifest:
    return sample_manifest([t], 1, 0, events=[event], init_states=[instance])


def run(out: Path, t: Task, policy: Policy, instances: int) -> Run:
    settings = dataclasses.replace(SETTINGS, policy=policy.spec.name)
    run_pairs(evaluation([t], instances, 0), settings, out, load_task=lambda case: t, policy=policy)
    assert rescore(out).agrees
    return load_run(out)


def test_the_listing_says_what_runs():
    rows = registry.listing(SUITE)
    assert len(rows) == 139
    assert {row["name"] for row in rows if row["runs"]} == set(NAMES)
    assert [row["name"] for row in sorted((r for r in rows if r["runs"]), key=lambda r: r["index"])] == NAMES
    assert all(bool(row["lacks"]) != row["runs"] for row in rows)
    with pytest.raises(
        BenchError, match="prepare_coffee' does not run here: it lacks coffee beans; the coffee machine"
    ):
        raise registry.no_task([SUITE], "prepare_coffee")


@pytest.mark.parametrize("name", NAMES[:2])
def test_a_touch_ends_a_selection(name: str):
    """Alone, wrong or both at once; and the record's touches give the same score."""
    t = task(name)
    index = goal_index(t.atoms, t.scene)
    judge = judge_of(t, index)
    assert judge is not None
    candidates = [atom.args[0] for atom in (*t.goal, *t.rules.failures)]
    for touched in ((), ("target",), ("near_miss",), ("target", "near_miss"), (candidates[-1],)):
        signals = Signals.zeros(1, index)
        for name_ in touched:
            signals.touch[0, index.touch(HAND, name_)] = True
        standing = judge.step(START, signals, 0)
        end = judge.end(standing, at_horizon=False)
        score = context_score("target", [set(touched)])
        assert (end is None) == (not touched)
        if end is not None:
            assert (end[0] == "success") == bool(score)
            assert (standing.ended >= FAILED) != bool(score)


@pytest.mark.parametrize("asked", range(discovery.FEWEST, discovery.MOST + 1))
def test_discovery_ends_when_all_are_touched_or_the_budget_is_used(asked: int):
    """The same touches by the rules, by the rules read back from a record, and over a record; N is the instance's."""
    t = task(discovery.NAME)
    index = goal_index(t.atoms, t.scene)
    judges = [judge_of(t, index), judge_of(read_judged(json.loads(json.dumps(describe(t))), "t"), index)]
    wanted, beside = discovery.ROLES[:asked], discovery.ROLES[asked:]
    orders = [
        ([{beside[0]}, *({name} for name in wanted), {beside[1]}], asked, "success"),
        ([{beside[0]}, {beside[1]}, *({name} for name in wanted)], asked + 1, "success"),  # the last of N + 2 counts
        ([{wanted[0]}, {beside[0]}, {beside[1]}, {beside[0]}, *({name} for name in wanted[:-1])], None, None),
        ([set(wanted[:-1]), *({name} for name in beside[:3])], 3, "failure"),
        # Two first touches after one step, and room for one: the target is taken, and it is one too few.
        ([set(wanted[:-2]), {*beside[:3]}, {*wanted[-2:]}], 2, "failure"),
        ([{*wanted[:-1], *beside[:2]}, {beside[2], wanted[-1]}], 1, "success"),
    ]
    for order, end, verdict in orders:
        standings = [START] * 2
        for step, names in enumerate(order):
            signals = Signals.zeros(1, index)
            for i, mark in enumerate(discovery.MARKS):
                there = discovery.FEWEST + i < asked
                signals.region_pos[0, index.region(mark.name), 2] = discovery.ASKED if there else discovery.NOT_ASKED
            for name in names:
                signals.touch[0, index.touch(HAND, name)] = True
            standings = [judge.step(s, signals, 0) for judge, s in zip(judges, standings, strict=True) if judge]
            ends = [judge.end(s, at_horizon=False) for judge, s in zip(judges, standings, strict=True) if judge]
            assert ends[0] == ends[1]
            assert (ends[0] is not None) == (end is not None and step >= end), (order, step)
        if ends[0] is not None:
            assert ends[0][0] == verdict
        score, ended = discovery_score(set(wanted), order)
        assert standings[0].progress == pytest.approx(score)
        assert (None if ended is None else ended - 1) == end


def test_what_has_to_be_put_away_is_read_from_the_households_memory():
    made = task(discovery.NAME).extra["instances"]
    numbers = set()
    for i in range(30):
        facts = made.drawn(i).facts
        found = discovery.reads(made, i)
        numbers.add(len(found))
        assert set(found) == set(discovery.ROLES[: len(found)])
        marks = made.drawn(i).home.marks
        assert sum(marks[mark.name][2] > 0.0 for mark in discovery.MARKS) == len(found) - discovery.FEWEST
        assert not [name for name in facts["products"].values() if f"touch the {name}" in made.told(i).lower()]
    assert numbers == {3, 4, 5}
    lying = {"wallet": "sofa", "dirty_can": "sofa", "cap": "coffee table"}
    text = "The wallet belongs on the sofa. The cap belongs on the tote bag."
    assert discovery.misplaced(text, lying) == {"dirty_can", "cap"}
    with pytest.raises(BenchError, match="memory has 0 places for the cap"):
        discovery.misplaced("The wallet belongs on the sofa.", lying)


def test_the_oracle_reads_the_context_and_touches_what_it_means(tmp_path: Path):
    t = task("drink_selection")
    found = run(tmp_path / "oracle", t, Oracle(), 4)
    assert collections.Counter(r.verdict for r in found.records)["success"] == 4
    short = dataclasses.replace(t, horizon=60)
    for record in run(tmp_path / "zero", short, Zero(), 2).records:
        assert (record.verdict, record.reason, record.progress) == ("timeout", "horizon", 0.0)


def test_a_product_is_picked_up_and_the_record_gives_its_points(tmp_path: Path):
    t, kind = task("shelf_pickup_missed"), pickup.KINDS[2]
    found = run(tmp_path / "run", t, Oracle(), 1)
    [record] = found.records
    assert record.verdict == "success"
    assert record.progress == 1.0
    judged = read_judged(json.loads((tmp_path / "run/tasks.json").read_text())[f"{SUITE}/{t.index}"], "tasks.json")
    arrays = {name: np.asarray(found.array(record, name)) for name in record.arrays}
    checkpoints = pickup_checkpoints(kind, judged, arrays)
    assert sum(c.points for c in checkpoints) == 100
    assert process_score(checkpoints) == pytest.approx(100.0)
    early = [dataclasses.replace(c, held=c.held[: len(c.held) - 35]) for c in checkpoints]
    assert process_score(early) == pytest.approx(10 + 20 + 20 + 20 * 0.5, abs=0.5), (
        "half of the 3 s that come after five steps are half of the points"
    )


@pytest.mark.parametrize("kind", pickup.KINDS, ids=lambda kind: kind.name)
def test_a_pickup_counts_where_it_was_held_long_enough(kind: pickup.Kind):
    """In a hand, clear of the shelf, and steady where that is asked: each to its bound, and for so long without a gap."""
    t = task(kind.name)
    index = goal_index(t.atoms, t.scene)
    judge = judge_of(t, index)
    assert judge is not None
    steady = kind.seconds == 3.0
    samples = 4 + round(kind.seconds * 20) + 1  # the fifth step in a hand is the first that counts

    def after(steps: int, **change: float) -> Standing:
        """How it stands after so many steps of holding, the one in the middle with something else about it."""
        standing = START
        for step in range(steps):
            now = change if step == steps // 2 else {}
            signals = Signals.zeros(1, index)
            signals.touch[0, index.touch(HAND, "target")] = True
            signals.touch[0, index.touch(GRIP, "target")] = "in no hand" not in now
            signals.touch[0, index.touch("target", "shelf")] = "on the shelf" in now
            signals.entity_pos[0, index.entity("target"), 2] = now.get("rise", 0.03)
            if steady:
                signals.entity_vel[0, index.mover("target"), 0] = now.get("speed", 0.10)
                signals.entity_vel[0, index.mover("target"), 3] = now.get("spin", 0.5)
            standing = judge.step(standing, signals, 0)
        return standing

    assert judge.end(after(samples - 1), at_horizon=False) is None
    assert judge.end(after(samples), at_horizon=False) == (Verdict.SUCCESS, "goal")
    changes = [
        {"in no hand": 1.0},
        {"on the shelf": 1.0},
        {"rise": 0.0299},
        *([{"speed": 0.101}, {"spin": 0.51}] if steady else []),
    ]
    for change in changes:
        assert judge.end(after(samples, **change), at_horizon=True) == (Verdict.TIMEOUT, "horizon"), change
    assert after(1).progress == pytest.approx(1.0)
    assert after(1, rise=0.0).progress == pytest.approx(0.3), "touch 10 and holding 20"
    assert after(1, **{"in no hand": 1.0}).progress == pytest.approx(0.1)
    lost = judge.step(after(samples - 1), Signals.zeros(1, index), 0)
    assert lost.progress == pytest.approx(1.0 - kind.points[4] / 100), "what holds at the end is lost with it"


def test_a_hand_moves_the_target_in_the_dynamic_arm_alone(tmp_path: Path):
    """The same bits in a fork and in a replay, judged again and filmed."""
    t = dataclasses.replace(task("shelf_pickup_relocated"), horizon=120)
    cases = pairs(t, "target_carried", 0)
    lines = {}
    for replay in (False, True):
        settings = dataclasses.replace(SETTINGS, replay=replay)
        run_pairs(cases, settings, tmp_path / f"{replay}", load_task=lambda case: t, policy=Oracle())
        lines[replay] = [r.result() for r in load_run(tmp_path / f"{replay}").records]
    assert lines[False] == lines[True]
    found = load_run(tmp_path / "False")
    base, dynamic = sorted(found.records, key=lambda r: r.arm)
    assert dynamic.event is not None
    moved = {m["entity"]: np.array(m["after"]) - m["before"] for m in dynamic.event["moved"]}
    apart = float(np.linalg.norm(moved["target"][:2]))
    assert 0.12 <= apart <= 0.25
    assert dynamic.trigger_step == base.trigger_step
    ends = [np.asarray(found.array(r, "target_pos"))[-1] for r in (base, dynamic)]
    assert np.linalg.norm((ends[1] - ends[0])[:2]) == pytest.approx(apart, abs=0.03)
    assert rescore(tmp_path / "False").agrees
    film_pair(found, cases.cases[0], t)


def test_a_target_is_carried_past_what_stands_in_its_way():
    """Everything on its board keeps clear of it on all of its way, and it stays on the board."""
    t, passed = task("shelf_pickup_relocated"), 0
    made = t.extra["instances"]
    for row in range(40):
        home = made.drawn(row).home
        case = case_of(t, "target_carried", row, 0, 8)
        tracks = {track["object"]: track["points"] for track in case["scenario"]["change"]["tracks"]}
        ends = np.array([point["offset_m"][:2] for point in tracks["target"]])
        way = np.concatenate([np.linspace(a, b, 20) for a, b in itertools.pairwise(ends)])
        target, *others = home.things
        assert target.pose is not None
        flat = [np.array(p.pose[:2]) for p in (target, *others) if p.pose is not None]
        turn = np.array([[np.cos(y := target.pose[3]), np.sin(y)], [-np.sin(y), np.cos(y)]])
        beside = [
            (turn @ (at - flat[0]), p.thing.half)
            for p, at in zip(others, flat[1:], strict=True)
            if p.pose is not None and abs(p.pose[2] - p.thing.half[2] - target.pose[2] + target.thing.half[2]) < 0.1
        ]
        for at, half in beside:
            gaps = abs(way @ turn.T - at) - np.array(target.thing.half[:2]) - half[:2]
            assert gaps.max(1).min() > 0.005, row
        passed += len(tracks["target"]) > 4
        corner = np.array(home.plan.point("shelf", 0.0, 0.0))
        yaw = home.plan.poses["shelf"][2]
        deep = (flat[0] - corner + way) @ [-np.sin(yaw), np.cos(yaw)]
        assert 0.05 < deep.min() <= deep.max() < SHELF_DEPTH - 0.05
        # The hand goes with it.
        hand = {point["step"]: point["offset_m"] for point in tracks["visitor_hand"]}
        for point in tracks["target"]:
            assert hand[point["step"]] == pytest.approx(point["offset_m"], abs=1e-3)
    assert passed >= 5


def test_either_hand_triggers_an_event():
    """The nearer one, to the bound; and the engine says where both are."""
    t = task("shelf_pickup_relocated")
    [case] = pairs(t, "target_carried", 0).cases
    trigger = case.trigger
    assert trigger is not None
    index = signal_index(t.scene, touches_judged(t, [trigger], engine="c"))
    fires, target, left = compile_trigger(trigger, index), index.entity("target"), index.region("left_tcp")
    for hand in ("left", "right"):
        signals = Signals.zeros(1, index)
        signals.eef_pos[:], signals.region_pos[:, left] = [9.0, 0, 0], [-9.0, 0, 0]
        assert not fires(signals, 0, 1)
        assert trigger_distance(trigger, index, signals, 0) == 9.0
        near = signals.region_pos[:, left] if hand == "left" else signals.eef_pos
        near[:] = [0.25, 0, 0]
        assert fires(signals, 0, 1)
        assert trigger_distance(trigger, index, signals, 0) == 0.25
        near[:] = [0.2501, 0, 0]
        assert not fires(signals, 0, 1)
        near[:] = [0.1, 0, 0]
        signals.touch[0, [index.touch(finger, "target") for finger in FINGERS]] = True
        assert not fires(signals, 0, 1), "it is grasped"
        assert signals.entity_now[0, target].tolist() == [0, 0, 0]
    physics = make_physics("c", t.scene, index.touches, 1, "bimanual", t.substeps, fields=t.load_fields(0))
    physics.load(0, t.load_init_states()[0], t.load_reset(0), t.load_fields(0))
    physics.control_step(np.zeros(1, np.int32), np.zeros((1, 22)))
    joints = physics.kinematics(np.zeros(1, np.int32)).joint_pos[0]
    apart = physics.signals.region_pos[0, left] - physics.signals.eef_pos[0]
    side = np.array([-np.sin(joints[-1]), np.cos(joints[-1])])
    assert 0.2 < apart[:2] @ side < 0.8, "the left hand is to the left"
    assert describe(t)["one_hand"] is False


def test_light_alternates_for_cameras_alone(tmp_path: Path):
    t = dataclasses.replace(task("shelf_pickup_lighting"), horizon=100)
    cases = pairs(t, "illumination_alternation", 1)
    run_pairs(cases, SETTINGS, tmp_path / "run", load_task=lambda case: t, policy=Oracle())
    found = load_run(tmp_path / "run")
    base, dynamic = sorted(found.records, key=lambda r: r.arm)
    assert base.end_step == dynamic.end_step
    for name in ("actions", "eef_pos"):
        assert np.array_equal(found.array(base, name), found.array(dynamic, name)), (
            "a policy without cameras sees no light"
        )
    summary = summarise(found)
    assert list(summary["events"]) == ["illumination_alternation"]
    assert any("illumination_alternation: delta is exactly zero" in note for note in summary["notes"])
    footage = film_pair(found, cases.cases[0], t)
    poses = next(arm for arm in footage.arms.values() if arm.record.arm == "dynamic").poses
    scales = [[v.fields["scale"] for v in pose.visual] for pose in poses]
    first, second = t.extra["instances"].drawn(1).facts["intervals"]
    assert scales[23] == []
    assert scales[24] == [DIM]
    assert scales[24 + first] == [DIM, 1.0]
    if 24 + first + second <= dynamic.end_step:
        assert scales[24 + first + second] == [DIM, 1.0, DIM]
    model = t.scene.load_spec().compile()
    dim = [Visual("vary_lighting", {"scale": s}) for s in (DIM, 1.0, DIM)]
    assert looks_of(model, dim).light_diffuse == pytest.approx(DIM * model.light_diffuse)
    assert looks_of(model, dim[:2]).light_diffuse == pytest.approx(model.light_diffuse)


def test_disturbances_are_drawn_by_name_on_the_tasks_that_have_them():
    tasks = [task(name) for name in NAMES]
    assert {event for t in tasks for event in own_events(t)} == set(OWN_EVENTS) <= EVENT_OPERATION.keys()
    unnamed = {case.event for case in sample_manifest(tasks, 12, 0).cases}
    assert unnamed == {event for t in tasks for event in eligible_events(t)} <= set(EVENTS)
    drawn = sample_manifest(tasks, 6, 3, events=OWN_EVENTS, query_interval=5)
    assert {(case.task_name, case.event) for case in drawn.cases} == {
        (kind.name, kind.event) for kind in pickup.KINDS if kind.event
    }
    for case in drawn.cases:
        check_case(case, tasks[case.task_index], len(tasks[case.task_index].load_init_states()))
    fixed = {case.scenario.trigger.value for case in drawn.cases if case.event == "illumination_alternation"}  # type: ignore[union-attr]
    assert fixed == {20}, "the first query at or after 1 s"
    with pytest.raises(BenchError, match=r"unknown event 'target_caried'.*did you mean target_carried"):
        pairs(tasks[0], "target_caried", 0)
    with pytest.raises(BenchError, match="event 'target_carried': none of the 1 task"):
        pairs(tasks[0], "target_carried", 0)


def test_disturbances_are_drawn_on_the_command_line(tmp_path: Path):
    out = tmp_path / "cases.json"
    options = ["--suite", SUITE, "--task", "shelf_pickup_relocated", "--event", "target_carried", "--pairs", "3"]
    assert cli.main(["sample", *options, "--out", str(out)]) == 0
    assert load_manifest(out) == sample_manifest([task("shelf_pickup_relocated")], 3, 0, events=["target_carried"])


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_oracle_solves_nine_in_ten_of_fifty_and_zero_none(name: str, tmp_path: Path):
    t = task(name)
    assert sum(bool(r.success) for r in run(tmp_path / "oracle", t, Oracle(), 50).records) >= 45
    assert not any(r.success for r in run(tmp_path / "zero", t, Zero(), 50).records)
