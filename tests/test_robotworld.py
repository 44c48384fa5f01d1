"""The quadrotor with a payload: its masses and rotors, its instances and pushes, and who can hold the payload."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from evals import registry
from evals.libero_max.sampler import sample_manifest
from evals.robotworld import payload, scenery
from mjx_bench.cases import evaluation
from mjx_bench.control.rotors import LAG, rotors
from mjx_bench.control.rotors_jax import rotors as rotors_jax
from mjx_bench.episode import apply_push
from mjx_bench.errors import BenchError
from mjx_bench.film import film_pair
from mjx_bench.physics.choice import make_physics
from mjx_bench.physics.mujoco_c import MujocoC
from mjx_bench.physics.scene import compile_scene
from mjx_bench.records import load_run
from mjx_bench.rescore import rescore
from mjx_bench.schedule import run_pairs
from mjx_bench.task import Push
from policies.reference.oracle import Oracle
from policies.simple import Random, Zero
from tests.robotworld_runs import SETTINGS, engine, verdicts

TASK = registry.load_task("robotworld", 0)


def test_the_model_has_the_benchmarks_figures():
    model = compile_scene(TASK.scene, ()).model
    drone, load = model.body("drone").id, model.body("payload").id
    assert model.opt.timestep == 1 / 62
    assert model.body_mass[drone] == 0.716
    assert model.body_inertia[drone].tolist() == [0.007, 0.007, 0.012]
    assert not model.body_ipos[drone].any()
    assert 0.2 <= model.body_mass[load] / 0.716 <= 0.3
    assert model.body_subtreemass[load] == pytest.approx(model.body_mass[[drone, load]].sum(), abs=1e-12)
    assert model.actuator_ctrlrange[:, 1] == pytest.approx(8.54858e-6 * 838**2, abs=1e-6)
    assert np.linalg.norm(model.site_pos[[model.site(f"rotor{i}_site").id for i in range(4)]], axis=1) == pytest.approx(
        0.17
    )
    assert model.actuator_gear[:, 5].tolist() == [0.016, -0.016, 0.016, -0.016]
    assert payload.HOLD == 125


def test_instances_vary_as_the_benchmark_says():
    drawn = [payload.draw(i) for i in range(300)]
    euler, position = np.array([d.euler for d in drawn]), np.array([d.position for d in drawn])
    mass = np.array([d.payload_mass for d in drawn]) / 0.716
    for values, low, high in (
        (mass, 0.2, 0.3), (position[:, 0], -2.5, 2.5), (position[:, 1], -2.5, 2.5), (position[:, 2], 1.5, 2.5),
        (np.degrees(euler[:, 0]), -18, 18), (np.degrees(euler[:, 1]), -18, 18), (euler[:, 2], -np.pi, np.pi),
    ):  # fmt: skip
        span = high - low
        assert low <= values.min() < low + 0.02 * span
        assert high - 0.02 * span < values.max() <= high
    assert all(list(d.pushes) == [124, 279] for d in drawn)
    kicks = np.array([p.force / d.payload_mass / 62 for d in drawn for p in d.pushes.values()])
    assert kicks.std(axis=0) == pytest.approx([1.0, 1.0, 0.5], rel=0.1)
    assert (kicks <= [3.0, 3.0, 1.5]).all()
    assert np.array_equal(TASK.load_init_states()[7], TASK.load_init_states()[7])
    assert TASK.load_fields(3)["body_mass"][2] == payload.draw(3).payload_mass
    assert len({d.position for d in drawn}) == 300


def test_an_instance_starts_with_the_payload_below_a_tilted_drone():
    physics = engine(TASK, 3)
    seen = physics.kinematics(np.arange(3, dtype=np.int32))
    for lane in range(3):
        drawn = payload.draw(lane)
        assert seen.entity_pos[lane, 0] == pytest.approx(np.array(drawn.position) - [0, 0, 1.0], abs=1e-12)
        w, x, y, z = seen.eef_quat[lane]
        roll, pitch, yaw = drawn.euler
        assert np.arcsin(2 * (w * y - z * x)) == pytest.approx(pitch, abs=1e-9)
        assert np.arctan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y)) == pytest.approx(roll, abs=1e-9)
        assert np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)) == pytest.approx(yaw, abs=1e-9)


def test_rotors_lag_and_saturate_alike_in_numpy_and_jax():
    physics = engine(TASK, 2)
    assert isinstance(physics, MujocoC)
    fields, arm = physics._fields, physics.scene.arm
    ids, actions = np.array([1], np.int32), np.array([[1.0, 0.0, -1.0, 3.0]])
    throttle, single = np.zeros(4), jnp.zeros(4)
    for _ in range(20):
        rotors(ids, actions, True, fields, None, arm)  # type: ignore[arg-type]
        single, _ = rotors_jax(jnp.array(actions[0]), jnp.array(True), None, None, single, None, arm)  # type: ignore[arg-type]
        throttle += LAG * (np.sqrt([1.0, 0.5, 0.0, 1.0]) - throttle)
        assert fields.ctrl[1] == pytest.approx(scenery.THRUST * throttle**2, abs=1e-12)
        assert np.asarray(single) == pytest.approx(fields.ctrl[1], abs=1e-5)
    assert fields.ctrl[1] == pytest.approx(scenery.THRUST * np.array([1.0, 0.5, 0.0, 1.0]), abs=1e-3)
    before = fields.ctrl.copy()
    rotors(ids, -actions, False, fields, None, arm)  # type: ignore[arg-type]
    assert np.array_equal(before, fields.ctrl), "between control steps thrusts hold"
    assert not fields.ctrl[0].any()


@pytest.mark.parametrize("backend", ["c", "jax"])
def test_a_push_is_one_step_of_force(backend: str):
    """Two equal lanes; the tree's momentum differs by force times a step, then, and no more after the next step."""
    physics = engine(TASK, 1, backend, interval=4, **({"tile": 1} if backend == "jax" else {}))
    force = np.array([3.0, -2.0, 1.0])
    model = compile_scene(TASK.scene, ()).model
    load, drone = model.body("payload").id, model.body("drone").id
    here, still = np.zeros(1, np.int32), np.zeros((1, 4))
    mass = TASK.load_fields(0)["body_mass"]
    ends = {}
    for pushes in ({}, {2: Push("payload", force)}):
        physics.load(0, TASK.load_init_states()[0], TASK.load_reset(0), TASK.load_fields(0))
        physics.announce(here, np.zeros((1, 4, 4)), np.array([4]))
        track = []
        for step in range(4):
            apply_push(physics, 0, pushes, step)
            assert physics.control_step(here, still) == {}
            seen = physics.kinematics(here)
            track.append(seen.qpos[0].copy())
        ends[bool(pushes)] = np.array(track), seen
    # After one step with a force the payload's own momentum and the drone's together have changed by F dt.
    change = ends[True][0][:, :3] - ends[False][0][:, :3]
    assert not change[:2].any()
    assert np.abs(change[2]).max() > 1e-3
    moved = np.array([_momentum(ends[k][1], model, mass, (load, drone)) for k in (False, True)])
    assert moved[1] - moved[0] == pytest.approx(force / 62, abs=2e-3)


def _momentum(seen, model, mass, bodies) -> np.ndarray:  # type: ignore[no-untyped-def]
    import mujoco

    data = mujoco.MjData(model)
    data.qpos, data.qvel = seen.qpos[0], seen.qvel[0]
    mujoco.mj_forward(model, data)
    total = np.zeros(3)
    for body in bodies:
        velocity = np.zeros(6)
        mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_BODY, body, velocity, 0)
        total += mass[body] * velocity[3:]
    return total


def test_engines_step_alike():
    """One step from 40 states of a flight, C against JAX: positions, velocities and signals."""
    ours, theirs = engine(TASK, 1), engine(TASK, 8, "jax", tile=8)
    rng = np.random.default_rng(0)
    here, ids = np.zeros(1, np.int32), np.arange(8, dtype=np.int32)
    for _ in range(5):
        states = np.stack([TASK.load_init_states()[i] for i in range(8)])
        states[:, 12:] = rng.normal(0.0, 1.0, (8, 9))
        actions = rng.uniform(-1, 1, (8, 4))
        for lane in range(8):
            theirs.load(lane, states[lane], TASK.load_reset(0), TASK.load_fields(lane))
        assert theirs.control_step(ids, actions) == {}
        seen = theirs.kinematics(ids)
        for lane in range(8):
            ours.load(0, states[lane], TASK.load_reset(0), TASK.load_fields(lane))
            assert ours.control_step(here, actions[lane : lane + 1]) == {}
            mine = ours.kinematics(here)
            for name, bound in (("qpos", 2e-6), ("qvel", 5e-5), ("ctrl", 1e-5), ("entity_pos", 2e-6)):
                assert getattr(seen, name)[lane] == pytest.approx(getattr(mine, name)[0], abs=bound), name
            for name in ("entity_pos", "entity_vel", "region_pos", "region_mat", "eef_pos"):
                assert getattr(theirs.signals, name)[lane] == pytest.approx(getattr(ours.signals, name)[0], abs=5e-6), (
                    name
                )


def test_lqr_holds_the_payload_and_nothing_else_does(tmp_path: Path):
    assert verdicts(tmp_path / "oracle", TASK, Oracle(), 8)["success"] >= 7
    assert verdicts(tmp_path / "zero", TASK, Zero(), 8) == {"timeout": 8}
    assert verdicts(tmp_path / "random", TASK, Random(), 8) == {"failure": 8}
    records = load_run(tmp_path / "oracle").records
    assert {(r.end_step, r.success_step, r.progress) for r in records if r.success} == {(500, 500, 1.0)}


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["c", "jax"])
def test_lqr_solves_four_in_five_of_fifty(backend: str, tmp_path: Path):
    assert verdicts(tmp_path / "run", TASK, Oracle(), 50, backend)["success"] >= 40


def test_a_fall_is_a_failure_at_its_step(tmp_path: Path):
    """Rotors that stop: the payload, which hangs lower, comes below 0.2 m first, or the drone on top of it."""

    class Stopped(Zero):
        def act(self, carries, obs, seeds):  # type: ignore[no-untyped-def]
            actions, carries = super().act(carries, obs, seeds)
            return actions - 1.0, carries

    verdicts(tmp_path / "run", TASK, Stopped(), 4)
    for record in load_run(tmp_path / "run").records:
        assert (record.verdict, record.reason) == ("failure", "height(payload) < 0.2")
        drop = payload.draw(record.init_state_index).position[2] - 1.0 - 0.2
        assert record.end_step == pytest.approx(62 * np.sqrt(2 * drop / 9.81), abs=4)
        assert record.progress == 0.0
    assert rescore(tmp_path / "run").agrees


def test_a_moved_target_is_followed_and_forks_are_replays(tmp_path: Path):
    """The event may come before, between or after pushes; a replayed arm gets the same ones."""
    manifest = sample_manifest([TASK], 4, 0, events=["target_relocation", "illumination_switch"], init_states=range(4))
    lines = {}
    for replay in (False, True):
        out = tmp_path / f"replay_{replay}"
        settings = dataclasses.replace(SETTINGS, replay=replay)
        run_pairs(manifest, settings, out, load_task=lambda case: TASK, policy=Oracle())
        lines[replay] = sorted((r.result() for r in load_run(out).records), key=lambda r: (r["case_id"], r["arm"]))
        assert rescore(out).agrees
    assert lines[False] == lines[True]
    run = load_run(tmp_path / "replay_False")
    for case in manifest.cases[
        :2
    ]:  # a film runs both arms again, pushes and rules included, and refuses any difference
        footage = film_pair(run, case, TASK)
        assert {arm.end for arm in footage.arms.values()} == {500}
    moved = [r for r in lines[False] if r["arm"] == "dynamic" and r["change_type"] == "target_relocation"]
    assert moved
    assert all(r["trigger_step"] is not None and r["verdict"] == "success" for r in moved)


def test_a_policy_for_arms_is_refused(tmp_path: Path):
    manifest = evaluation([TASK], 1, 0)
    policy = Zero(action_mode="osc_pose")
    with pytest.raises(
        BenchError,
        match=r"gives osc_pose actions, and robotworld/drone_payload_hover takes rotors; .* scripted\.oracle",
    ):
        run_pairs(manifest, SETTINGS, tmp_path / "run", load_task=lambda case: TASK, policy=policy)
    with pytest.raises(BenchError, match="moves an arm of 7 joints; this robot has 0"):
        make_physics("c", TASK.scene, (), 1, "osc_pose", 1)


@pytest.mark.parametrize("backend", ["c", pytest.param("jax", marks=pytest.mark.slow)])
def test_records_do_not_depend_on_company(backend: str, tmp_path: Path):
    """Pushes are edits in mid-chunk, after which a compiled engine computes the rest of the chunk again."""
    lines = []
    for lanes in (1, 5):
        out = tmp_path / f"lanes_{lanes}"
        settings = dataclasses.replace(SETTINGS, lanes=lanes, backend=backend)
        run_pairs(evaluation([TASK], 3, 0), settings, out, load_task=lambda case: TASK, policy=Oracle())
        lines.append(sorted((r.result() for r in load_run(out).records), key=lambda r: str(r["case_id"])))
    assert lines[0] == lines[1]
