"""The juggling quadrotor: its masses and bounces, its instances, how hits are counted, and who keeps the ball up."""

from __future__ import annotations

import collections
import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import jax
import mujoco
import numpy as np
import pytest

from evals import registry
from evals.robotworld import iris, juggle
from evals.robotworld.contract import contract
from mjx_bench.checkers import START, stack, unstack
from mjx_bench.judged import describe, read_judged
from mjx_bench.physics.scene import compile_scene
from mjx_bench.predicates import goal_index
from mjx_bench.records import load_run
from mjx_bench.signals import Signals
from mjx_bench.types import Verdict
from policies.reference.juggle import meeting
from policies.reference.oracle import Oracle
from policies.simple import Random, Zero
from tests.robotworld_runs import engine, judge_of, verdict, verdicts, walk

TASK = registry.load_task("robotworld", 5)
INDEX = goal_index(TASK.atoms, TASK.scene)
JUDGE = judge_of(TASK)


def flight(steps: int, touches: dict[int, bool] | None = None, **values: Any) -> Signals:
    """Signals of an episode whose ball hangs at 3 m above a drone at 2 m, but for what is given: arrays [steps]."""
    s = Signals.zeros(steps, INDEX)
    s.region_mat[:] = np.eye(3)
    ball, drone = s.entity_pos[:, INDEX.entity("ball")], s.region_pos[:, INDEX.region("drone_frame")]
    ball[:] = drone[:] = (4.5, 0.0, 2.0)
    s.region_pos[:, INDEX.region("court"), 2] = 5.0
    ball[:, 0], ball[:, 2] = values.get("ball_x", 4.5), values.get("ball", 3.0)
    drone[:, 0], drone[:, 2] = values.get("drone_x", 4.5), values.get("drone", 2.0)
    for step, touching in (touches or {}).items():
        s.touch[step, 0] = touching
    return s


def rally(hits: int, apart: int, peak: float, rest: int = 31) -> Signals:
    """Hits that far apart, the first at step 10; the ball is at its peak half way to each next one, and before the first."""
    steps = 10 + (hits - 1) * apart + 1 + rest
    at = [10 + i * apart for i in range(hits)]
    ball = np.full(steps, 2.2)
    ball[[5, *(hit - apart // 2 for hit in at[1:])]] = peak
    return flight(steps, dict.fromkeys(at, True), ball=ball)


def test_the_contract_is_the_benchmarks():
    told = contract("81")
    assert (told.horizon, told.interface.control_hz, told.interface.dim) == (juggle.HORIZON, TASK.control_hz, 4)
    values = [p.value for p in told.predicates]
    assert values == [juggle.ARCS, juggle.APART, juggle.LOW_BALL, False]
    assert [rule.get("seconds") for rule in told.over_time] == [None, 0.6]
    assert TASK.rules.hold == 31, "0.6 s at 50 Hz with both ends included"


def test_the_model_has_its_sources_figures():
    model = compile_scene(TASK.scene, INDEX.touches).model
    drone, ball = model.body("drone").id, model.body("ball").id
    assert (model.body_mass[drone], model.body_mass[ball]) == (1.5, 0.005)
    assert model.body_inertia[drone].tolist() == [0.0347563, 0.0458929, 0.0806]
    assert model.geom("ball").size[0] == 0.1
    assert 4 * model.geom("racket").size[0] ** 2 == pytest.approx(math.pi * 0.2**2)
    assert model.actuator_ctrlrange[:, 1] == pytest.approx(8.54858e-6 * 838**2, abs=1e-6)
    assert model.actuator_gear[:, 5].sum() == 0.0, "two rotors each way"
    assert model.opt.timestep * TASK.substeps == 1 / 50


@pytest.mark.parametrize("speed", [3.0, 5.0, 7.0])
def test_a_ball_bounces_with_four_fifths_of_its_speed_and_longer_than_a_step(speed: float):
    model = iris.build().compile()
    model.opt.gravity[:] = 0.0
    data = mujoco.MjData(model)
    data.qpos[9] = data.qpos[2] + iris.RACKET_HEIGHT + iris.RACKET_THICKNESS + iris.BALL_RADIUS + 0.01
    data.qvel[8] = -speed
    touching = 0
    for _ in range(40):
        mujoco.mj_step(model, data)
        touching += data.ncon
    assert data.qvel[8] / speed == pytest.approx(0.8, abs=0.025)
    assert touching * model.opt.timestep > 1 / TASK.control_hz, "no bounce falls between two looks of the checker"


def test_instances_vary_as_the_benchmark_says():
    drawn = [juggle.draw(i) for i in range(300)]
    values = np.array([(*d.position, *np.degrees(d.euler)) for d in drawn])
    low = np.array([4.0, -0.5, 1.8, -18.0, -18.0, -180.0])
    high = np.array([5.0, 0.5, 2.2, 18.0, 18.0, 180.0])
    assert (values >= low).all()
    assert (values <= high).all()
    assert (np.ptp(values, axis=0) > 0.95 * (high - low)).all()
    state = TASK.load_init_states()[7]
    assert np.array_equal(state, TASK.load_init_states()[7])
    assert state[8:11] - state[1:4] == pytest.approx([0.0, 0.0, juggle.BALL_ABOVE])
    assert state[10] < juggle.HIGH, "no arc is high before the first hit"
    assert not state[15:].any()


def test_four_high_arcs_and_a_ball_in_the_air_are_success():
    assert verdict(JUDGE, rally(4, 60, 3.51)) == (Verdict.SUCCESS, "goal")
    assert verdict(JUDGE, rally(3, 60, 3.51)) == (Verdict.TIMEOUT, "horizon")


@pytest.mark.parametrize(("peak", "found"), [(3.5, Verdict.TIMEOUT), (3.5001, Verdict.SUCCESS)])
def test_an_arc_is_high_above_its_bound(peak: float, found: Verdict):
    assert verdict(JUDGE, rally(4, 60, peak))[0] is found


@pytest.mark.parametrize(("apart", "found"), [(25, Verdict.FAILURE), (26, Verdict.SUCCESS)])
def test_hits_keep_apart(apart: int, found: Verdict):
    got = verdict(JUDGE, rally(4, apart, 4.0))
    assert got[0] is found
    if found is Verdict.FAILURE:
        assert got[1] == "hit no more than 25 steps after the one before"


def test_an_arc_counts_once_and_a_low_one_not():
    """Peaks before hits 1, 2, 4 and 5 of six; two hits after one peak are one arc."""
    at = [10 + 40 * i for i in range(6)]
    ball = np.full(at[-1] + 32, 2.2)
    ball[[at[i] - 20 if i else 5 for i in (0, 1, 3, 4)]] = 4.0
    standings = walk(JUDGE, flight(len(ball), dict.fromkeys(at, True), ball=ball))
    assert [bool(s.success) for s in standings].index(True) == at[4], (
        "the fourth high arc is confirmed at the fifth hit"
    )
    assert JUDGE.end(standings[-1], at_horizon=True) == (Verdict.SUCCESS, "goal")


def test_a_touch_that_lasts_is_one_hit():
    touches = dict.fromkeys(range(10, 40), True)
    assert verdict(JUDGE, flight(60, touches)) == (Verdict.TIMEOUT, "horizon")


def test_a_hold_may_begin_before_the_last_hit_and_starts_again_after_a_gap():
    assert verdict(JUDGE, rally(4, 60, 4.0, rest=0)) == (Verdict.SUCCESS, "goal"), (
        "the ball was in the air all the time"
    )
    low = rally(4, 60, 4.0, rest=31)
    low.entity_pos[-31, INDEX.entity("ball"), 2] = 0.15  # not above its bound, and no failure
    assert verdict(JUDGE, low) == (Verdict.TIMEOUT, "horizon")
    low = rally(4, 60, 4.0, rest=32)
    low.entity_pos[-32, INDEX.entity("ball"), 2] = 0.15
    assert verdict(JUDGE, low) == (Verdict.SUCCESS, "goal")


@pytest.mark.parametrize(
    ("name", "good", "bad", "reason"),
    [
        ("ball", 0.15, 0.1499, "height(ball) < 0.15"),
        ("ball", 4.5, 4.5001, "height(ball) > 4.5"),
        ("drone", 0.4, 0.3999, "height(drone_frame) < 0.4"),
        ("drone", 2.5, 2.5001, "height(drone_frame) > 2.5"),
        ("drone_x", 0.0101, 0.0099, "gap(drone_frame, net) < 0"),
        ("drone_x", -0.0101, -0.0099, "gap(drone_frame, net) < 0"),
        ("ball_x", 8.999, 9.001, "outside(ball, court)"),
    ],
)
def test_failures_have_their_bounds_and_win_over_success(name: str, good: float, bad: float, reason: str):
    s = rally(4, 60, 4.0, rest=80)
    field = s.entity_pos[:, INDEX.entity("ball")] if "ball" in name else s.region_pos[:, INDEX.region("drone_frame")]
    field[-80, 0 if name.endswith("_x") else 2] = good
    assert verdict(JUDGE, s) == (Verdict.SUCCESS, "goal")
    field[-1, 0 if name.endswith("_x") else 2] = bad
    assert verdict(JUDGE, s) == (Verdict.FAILURE, reason)


def test_numpy_and_jax_count_alike():
    rng, steps, lanes = np.random.default_rng(0), 150, 16
    flat = flight(steps * lanes, ball=rng.uniform(1.0, 4.4, steps * lanes))
    flat.touch[:, 0] = rng.random(steps * lanes) < 0.015
    many = {f.name: getattr(flat, f.name) for f in dataclasses.fields(flat)}
    many = {name: a.reshape(steps, lanes, *a.shape[1:]) for name, a in many.items()}
    compiled = jax.jit(
        lambda s, x: jax.lax.scan(lambda s, x: (n := JUDGE.update(s, Signals(**x)), n), s, x)[1]
    )(stack([START] * lanes), many)  # fmt: skip
    standing = stack([START] * lanes)
    for t in range(steps):
        standing = JUDGE.update(standing, flat.take(slice(t * lanes, (t + 1) * lanes)))
        for mine, theirs in zip(standing, compiled, strict=True):
            np.testing.assert_array_equal(mine, np.asarray(theirs)[t])
    ends = collections.Counter(str(JUDGE.end(s, at_horizon=True)) for s in unstack(standing))
    assert len(ends) >= 2, "lanes end in more than one way"


def test_rules_survive_the_file_that_records_are_judged_by():
    assert read_judged(json.loads(json.dumps(describe(TASK))), "here").rules == TASK.rules


def test_a_meeting_makes_the_wanted_arc():
    """A ball that leaves the racket as reckoned rises to 4 m and comes down at home."""
    ball, velocity = np.array([4.9, -0.3, 3.4]), np.array([0.2, 0.1, -1.0])
    found = meeting(ball, velocity)
    coming = velocity - [0.0, 0.0, 9.81 * found.wait]
    racket = np.array([0.0, 0.0, found.pace])
    leaving = coming - 1.8 * ((coming - racket) @ found.normal) * found.normal
    at = ball + found.wait * velocity - [0.0, 0.0, 0.5 * 9.81 * found.wait**2]
    assert at[2] == pytest.approx(2.2)
    assert at[2] + leaving[2] ** 2 / (2 * 9.81) == pytest.approx(4.0, abs=0.02)
    assert at[:2] + leaving[:2] * 2 * leaving[2] / 9.81 == pytest.approx([4.5, 0.0], abs=0.02)


def test_the_ball_is_kept_up_by_who_looks_at_it_and_nobody_else(tmp_path: Path):
    assert verdicts(tmp_path / "oracle", TASK, Oracle(), 1) == {"success": 1}
    [record] = load_run(tmp_path / "oracle").records
    assert (record.end_step, record.success_step, record.progress) == (800, 800, 1.0)
    for policy in (Zero(), Random()):
        found = verdicts(tmp_path / policy.spec.name, TASK, policy, 3)
        assert found == {"failure": 3}
        assert all(r.progress == 0.0 for r in load_run(tmp_path / policy.spec.name).records)


@pytest.mark.slow
def test_fifty_rallies(tmp_path: Path):
    assert verdicts(tmp_path / "run", TASK, Oracle(), 50)["success"] >= 45


@pytest.mark.slow
def test_engines_bounce_alike():
    """Level drones under 8 balls, for 0.8 s, C against JAX: the same hits at the same steps."""
    ours, theirs = engine(TASK, 8), engine(TASK, 8, "jax", tile=8)
    ids = np.arange(8, dtype=np.int32)
    for lane in range(8):
        state = TASK.load_init_states()[lane].copy()
        state[4:8] = 1.0, 0.0, 0.0, 0.0
        for physics in (ours, theirs):
            physics.load(lane, state, TASK.load_reset(0))
    hits: dict[str, list[np.ndarray]] = {"c": [], "jax": []}
    for _ in range(40):
        actions = np.full((8, 4), 0.25)
        for name, physics in (("c", ours), ("jax", theirs)):
            assert physics.control_step(ids, actions) == {}
            hits[name].append(physics.signals.touch[:, 0].copy())
    assert np.array_equal(np.array(hits["c"]), np.array(hits["jax"]))
    assert np.array(hits["c"]).any(axis=0).all(), "every ball came down on its racket"
    mine, other = ours.kinematics(ids), theirs.kinematics(ids)
    assert other.qpos == pytest.approx(mine.qpos, abs=2e-3)


@pytest.mark.slow
def test_the_ball_is_kept_up_on_jax(tmp_path: Path):
    assert verdicts(tmp_path / "run", TASK, Oracle(), 8, "jax")["success"] >= 7
