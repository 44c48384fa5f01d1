"""RobotAgentBench's household in JAX: its lean form, and what both engines make of one start."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import jax
import mujoco
import numpy as np
import pytest
from mujoco import mjx
from mujoco.mjx._src import forward

from evals import registry
from evals.robot_agent_bench.robot import JOINTS, PADS, add_robot
from mjx_bench.cases import evaluation
from mjx_bench.control import bimanual as law
from mjx_bench.engines import engine_of
from mjx_bench.errors import BenchError
from mjx_bench.physics.choice import room_in, split_fields
from mjx_bench.physics.mjx_compile import compile_program
from mjx_bench.physics.mjx_implicit import implicitfast
from mjx_bench.records import load_run
from mjx_bench.rescore import rescore
from mjx_bench.schedule import run_pairs
from mjx_bench.settings import RunSettings
from policies.reference.oracle import Oracle

SUITE, WASTE, DISCOVERY = "robot_agent_bench", 2, 7
HERE = np.zeros(1, np.int32)


def test_a_lean_home_differs_in_what_meets_what_alone():
    exact, lean = (registry.load_task(SUITE, WASTE, form=form) for form in ("exact", "lean"))
    a, b = (task.scene.load_spec().compile() for task in (exact, lean))
    for name in ("geom_size", "geom_pos", "geom_rgba", "body_mass", "body_inertia", "jnt_range", "qpos0"):
        assert np.array_equal(getattr(a, name), getattr(b, name)), name
    meets = {b.geom(g).name for g in range(b.ngeom) if b.geom_contype[g] or b.geom_conaffinity[g]}
    named = {*(pad for end in PADS for pad in end), "left_palm", "right_palm", "floor"}
    named |= {"coffee_table_top", "coffee_table_drawer", *(f"{name}_body" for name in lean.scene.objects)}
    assert meets == named
    assert np.array_equal(b.geom_contype, np.where(b.geom_contype, a.geom_contype, 0))
    assert lean.version == f"{exact.version}-lean1"
    assert lean.goal == exact.goal
    assert not lean.scene.entities["kitchen"].contact_geoms


def test_an_exact_home_is_refused_by_jax_and_a_lean_one_is_not():
    slots = {}
    for index in (WASTE, DISCOVERY):
        lean = registry.load_task(SUITE, index, form="lean")
        slots[index] = room_in("jax", lean.scene, lean.load_fields(0))["contact slots"]
        exact = registry.load_task(SUITE, index)
        with pytest.raises(BenchError, match="2000 contacts a step at most, and this scene has"):
            room_in("jax", exact.scene, exact.load_fields(0))
    assert slots == {WASTE: 216, DISCOVERY: 672}
    assert "body_sameframe" in split_fields(lean.load_fields(0))[1], "MuJoCo's own note, which MJX does not read"


@pytest.mark.slow
def test_servos_at_their_limits_move_alike():
    """Actuators whose force is clamped damp nothing, in MuJoCo and in our integrator for JAX."""
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    spec.option.timestep, spec.option.integrator = 1 / 60, mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    add_robot(spec)
    for geom in spec.geoms:
        geom.contype = geom.conaffinity = 0
    model = spec.compile()
    data = mujoco.MjData(model)
    for name, value in zip(JOINTS, law.HOME[:18], strict=False):
        data.qpos[model.joint(name).qposadr[0]] = value
        data.ctrl[model.actuator(f"{name}_servo").id] = value + 0.15
    m = mjx.put_model(model)
    integrate = implicitfast(model)
    shapes = jax.eval_shape(lambda: mjx.make_data(m))
    step = compile_program(lambda d: integrate(m, forward.forward(m, d)), shapes).call
    d = mjx.make_data(m).replace(qpos=data.qpos.copy(), ctrl=data.ctrl.copy())
    clamped = 0
    for _ in range(5):
        mujoco.mj_step(model, data)
        d = step(d)
        clamped += int((abs(data.actuator_force) >= model.actuator_forcerange[:, 1]).sum())
        assert np.asarray(d.qpos) == pytest.approx(data.qpos, abs=2e-6)
    assert clamped >= 10


@pytest.mark.slow
def test_both_engines_agree_on_a_lean_home_and_the_oracle_touches_what_is_meant(tmp_path: Path):
    t = registry.load_task(SUITE, WASTE, form="lean")
    actions = np.random.default_rng(0).uniform(-0.5, 0.5, (6, 1, 22))
    ends = {}
    for backend in ("c", "jax"):
        physics = engine_of(t, backend, 1, "bimanual", interval=8)
        physics.load(0, t.load_init_states()[0], t.load_reset(0), t.load_fields(0))
        for action in actions:
            assert physics.control_step(HERE, action) == {}
        ends[backend] = physics.kinematics(HERE)
    c, compiled = ends["c"], ends["jax"]
    assert compiled.joint_pos == pytest.approx(c.joint_pos, abs=5e-6)
    assert compiled.eef_pos == pytest.approx(c.eef_pos, abs=5e-6)
    assert compiled.entity_pos == pytest.approx(c.entity_pos, abs=5e-6)
    short = dataclasses.replace(t, horizon=400)
    settings = RunSettings(policy="oracle", lanes=1, query_interval=8, threads=1, backend="jax", scene_form="lean")
    run_pairs(evaluation([short], 1, 0), settings, tmp_path, load_task=lambda case: short, policy=Oracle())
    [record] = load_run(tmp_path).records
    assert record.verdict == "success"
    assert rescore(tmp_path).agrees
