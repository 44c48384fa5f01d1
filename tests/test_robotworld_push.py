"""The quadruped that is pushed: its model and control law, its instances and pushes, its rules, and who gets to the goal."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from evals import registry
from evals.libero_max.sampler import sample_manifest
from evals.robotworld import go2, push_recovery
from evals.robotworld.contract import contract
from mjx_bench.control.posture import posture
from mjx_bench.control.posture_jax import posture as posture_jax
from mjx_bench.episode import apply_push
from mjx_bench.physics.mujoco_c import MujocoC
from mjx_bench.physics.scene import compile_scene
from mjx_bench.predicates import goal_index
from mjx_bench.records import load_run
from mjx_bench.rescore import rescore
from mjx_bench.schedule import run_pairs
from mjx_bench.signals import Signals
from mjx_bench.types import Verdict
from policies.reference import legs
from policies.reference.oracle import Oracle
from policies.simple import Random, Zero
from tests.robotworld_runs import SETTINGS, engine, judge_of, verdict, verdicts

TASK = registry.load_task("robotworld", 6)
INDEX = goal_index(TASK.atoms, TASK.scene)
JUDGE = judge_of(TASK)


def standing(steps: int, **values: Any) -> Signals:
    """Signals of a trunk that stands level at the goal; given are arrays [steps] or numbers."""
    s = Signals.zeros(steps, INDEX)
    s.region_mat[:] = np.eye(3)
    trunk = s.region_pos[:, INDEX.region("trunk_frame")]
    trunk[:, 0], trunk[:, 1] = values.get("away", 0.0), values.get("aside", 0.0)
    s.entity_vel[:, 0, 1], s.entity_vel[:, 0, 2] = values.get("pace", 0.0), 5.0  # up and down does not count
    tilt = np.broadcast_to(np.radians(values.get("degrees", 0.0)), steps)
    s.region_mat[:, INDEX.region("trunk_frame")] = [
        [[math.cos(a), 0, math.sin(a)], [0, 1, 0], [-math.sin(a), 0, math.cos(a)]] for a in tilt
    ]
    s.touch[:, 0] = values.get("touch", False)
    return s


def test_the_contract_is_the_benchmarks():
    told = contract("72")
    assert (told.horizon, told.interface.control_hz, told.interface.dim) == (TASK.horizon, TASK.control_hz, 12)
    assert [p.value for p in told.predicates] == [push_recovery.AWAY, push_recovery.PACE, 20]
    assert TASK.rules.hold == 101, "2 s at 50 Hz with both ends included"


def test_the_model_has_its_public_figures():
    model = compile_scene(TASK.scene, INDEX.touches).model
    trunk = model.body("trunk").id
    assert model.body_subtreemass[trunk] == pytest.approx(15.017)
    middles = {name: model.body_ipos[model.body(name).id].tolist() for name in ("FL_hip", "RR_hip", "FR_calf")}
    assert middles == {
        "FL_hip": [-0.0054, 0.0019, -0.0001], "RR_hip": [0.0054, -0.0019, -0.0001], "FR_calf": [0.0055, 0.001, -0.115],
    }  # fmt: skip
    assert model.opt.timestep * TASK.substeps == 1 / 50
    names = [model.joint(int(j)).name for j in model.actuator_trnid[:, 0]]
    assert names[:5] == ["FL_hip_joint", "FR_hip_joint", "RL_hip_joint", "RR_hip_joint", "FL_thigh_joint"]
    assert (model.actuator_gainprm[:, 0] == 25.0).all()
    assert (model.actuator_biasprm[:, 1:3] == [-25.0, -0.5]).all()
    assert (model.actuator_forcerange == [-23.5, 23.5]).all()


def test_actions_are_targets_around_a_posture_and_are_not_clipped_alike_in_numpy_and_jax():
    physics = engine(TASK, 2)
    assert isinstance(physics, MujocoC)
    fields, arm = physics._fields, physics.scene.arm
    ids, actions = np.array([1], np.int32), np.linspace(-6.0, 6.0, 12)[None]
    posture(ids, actions, True, fields, None, arm)  # type: ignore[arg-type]
    assert fields.ctrl[1] == pytest.approx(np.array(go2.POSTURE) + 0.25 * actions[0], abs=1e-12)
    single, _ = posture_jax(jnp.array(actions[0]), jnp.array(True), None, None, jnp.zeros(12), None, arm)  # type: ignore[arg-type]
    assert np.asarray(single) == pytest.approx(fields.ctrl[1], abs=1e-6)
    before = fields.ctrl.copy()
    posture(ids, -actions, False, fields, None, arm)  # type: ignore[arg-type]
    assert np.array_equal(before, fields.ctrl), "between control steps targets hold"
    assert not fields.ctrl[0].any()


def test_instances_vary_and_goals_are_straight_ahead():
    drawn = [push_recovery.draw(i) for i in range(200)]
    starts = np.array([d.start for d in drawn])
    assert (abs(starts[:, :2]) <= 0.5).all()
    assert (np.ptp(starts, axis=0) > [0.95, 0.95, 0.95 * 2 * np.pi]).all()
    forces = np.array([[d.pushes[300].force, d.pushes[700].force] for d in drawn])
    assert np.linalg.norm(forces, axis=-1) == pytest.approx(30.0)
    assert abs(np.mean(forces / 30.0, axis=(0, 1))).max() < 0.15, "pushes come from all sides"
    assert all(list(d.pushes) == [*range(300, 310), *range(700, 710)] for d in drawn)
    physics = engine(TASK, 3)
    seen = physics.kinematics(np.arange(3, dtype=np.int32))
    for lane in range(3):
        x, y, yaw = push_recovery.draw(lane).start
        goal = seen.entity_pos[lane, list(TASK.scene.entities).index("goal")]
        assert goal[:2] == pytest.approx([x + 2.5 * math.cos(yaw), y + 2.5 * math.sin(yaw)])
    states = TASK.load_init_states()
    assert np.array_equal(states[7], states[7])
    assert not states[7][20:].any()


def test_feet_stand_on_the_ground_at_the_start():
    model = compile_scene(TASK.scene, INDEX.touches).model
    data = mujoco.MjData(model)
    data.qpos = TASK.load_init_states()[3][1:20]
    mujoco.mj_kinematics(model, data)
    heights = [float(data.geom(f"{leg}_foot").xpos[2]) - go2.FOOT for leg in go2.LEGS]
    assert min(heights) == pytest.approx(0.0, abs=1e-9)
    assert max(heights) < 0.01


def test_a_push_gives_the_trunk_its_momentum():
    """30 N for 0.2 s are 6 N s; in the air, all of it stays."""
    ours = engine(TASK, 1)
    here, still = np.zeros(1, np.int32), np.zeros((1, 12))
    state = TASK.load_init_states()[0].copy()
    state[3] += 5.0
    ours.load(0, state, TASK.load_reset(0), TASK.load_fields(0))
    pushes = {step - 300: push for step, push in TASK.pushes_of(0).items() if step < 400}
    for step in range(12):
        apply_push(ours, 0, pushes, step)
        assert ours.control_step(here, still) == {}
    model = compile_scene(TASK.scene, INDEX.touches).model
    data = mujoco.MjData(model)
    data.qpos, data.qvel = ours.kinematics(here).qpos[0], ours.kinematics(here).qvel[0]
    mujoco.mj_forward(model, data)
    mujoco.mj_subtreeVel(model, data)
    momentum = data.subtree_linvel[model.body("trunk").id] * model.body_subtreemass[model.body("trunk").id]
    assert momentum[:2] == pytest.approx(pushes[0].force[:2] * 0.2, abs=0.02)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [("away", 0.25, 0.2501), ("pace", 0.1, 0.1001), ("degrees", 19.99, 20.01)],
)
def test_the_hold_has_its_bounds(name: str, good: float, bad: float):
    assert verdict(JUDGE, standing(101, **{name: good})) == (Verdict.SUCCESS, "goal")
    assert verdict(JUDGE, standing(101, **{name: bad})) == (Verdict.TIMEOUT, "horizon")
    once = np.full(202, 0.0)
    once[101] = bad
    assert verdict(JUDGE, standing(202, **{name: once})) == (Verdict.TIMEOUT, "horizon"), "a gap starts the hold again"
    once[101], once[100] = 0.0, bad
    assert verdict(JUDGE, standing(202, **{name: once})) == (Verdict.SUCCESS, "goal")


def test_a_hold_of_two_seconds_is_101_samples():
    assert verdict(JUDGE, standing(100)) == (Verdict.TIMEOUT, "horizon")
    assert verdict(JUDGE, standing(101)) == (Verdict.SUCCESS, "goal")


def test_leaving_the_corridor_and_touching_the_ground_are_failures_that_nothing_repairs():
    for side in (1.0, -1.0):
        aside = np.zeros(300)
        aside[50] = 0.5999 * side
        assert verdict(JUDGE, standing(300, aside=aside)) == (Verdict.SUCCESS, "goal")
        aside[50] = 0.6001 * side
        assert verdict(JUDGE, standing(300, aside=aside)) == (Verdict.FAILURE, "beyond(trunk_frame, corridor) > 0")
    touch = np.zeros(300, np.bool_)
    touch[299] = True
    assert verdict(JUDGE, standing(300, touch=touch)) == (Verdict.FAILURE, "touched(ground)"), "at the last step too"


def test_leg_angles_bring_the_foot_where_it_is_to_be():
    rng, links = np.random.default_rng(0), (go2.THIGH, go2.CALF)
    for aside in (go2.ASIDE, -go2.ASIDE):
        for joints in rng.uniform([-0.8, -0.5, -2.4], [0.8, 1.6, -0.9], (50, 3)):
            place = legs.foot(joints, aside, links)
            assert legs.angles(place, aside, links) == pytest.approx(joints, abs=1e-9)
            steps = 1e-6 * np.eye(3)
            slopes = [(legs.foot(joints + d, aside, links) - legs.foot(joints - d, aside, links)) / 2e-6 for d in steps]
            assert legs.jacobian(joints, aside, links) == pytest.approx(np.stack(slopes, axis=1), abs=1e-6)


def test_who_stands_still_or_flails_does_not_get_there(tmp_path: Path):
    assert verdicts(tmp_path / "zero", TASK, Zero(), 2) == {"timeout": 2}
    found = verdicts(tmp_path / "random", TASK, Random(), 2)
    assert found["timeout"] + found["failure"] == 2


def test_the_goal_is_reached_through_both_pushes(tmp_path: Path):
    assert verdicts(tmp_path / "oracle", TASK, Oracle(), 1) == {"success": 1}
    [record] = load_run(tmp_path / "oracle").records
    assert (record.end_step, record.progress) == (1000, 1.0)


@pytest.mark.slow
def test_fifty_walks(tmp_path: Path):
    assert verdicts(tmp_path / "run", TASK, Oracle(), 50)["success"] >= 45


@pytest.mark.slow
def test_a_moved_goal_is_followed(tmp_path: Path):
    """The goal moves when it is almost reached; both arms are pushed."""
    manifest = sample_manifest([TASK], 2, 0, events=["target_relocation"], init_states=range(4))
    run_pairs(manifest, SETTINGS, tmp_path / "run", load_task=lambda case: TASK, policy=Oracle())
    assert rescore(tmp_path / "run").agrees
    found = [r.result() for r in load_run(tmp_path / "run").records]
    assert [r["verdict"] for r in found] == ["success"] * 4
    assert all(r["trigger_step"] is not None for r in found if r["arm"] == "dynamic")


@pytest.mark.slow
def test_engines_step_alike():
    """Ten control steps of standing and of one push, C against JAX, from 8 starts."""
    ours, theirs = engine(TASK, 8), engine(TASK, 8, "jax", tile=8)
    ids, rng = np.arange(8, dtype=np.int32), np.random.default_rng(0)
    for _ in range(10):
        actions = rng.uniform(-0.2, 0.2, (8, 12))
        assert ours.control_step(ids, actions) == {}
        assert theirs.control_step(ids, actions) == {}
    mine, other = ours.kinematics(ids), theirs.kinematics(ids)
    assert other.qpos == pytest.approx(mine.qpos, abs=5e-3)
    assert np.array_equal(theirs.signals.touch, ours.signals.touch)


@pytest.mark.slow
def test_the_goal_is_reached_on_jax(tmp_path: Path):
    assert verdicts(tmp_path / "run", TASK, Oracle(), 4, "jax")["success"] >= 3
