"""How physics is compiled: once for a scene, from the cache in a new process, and so that no thread waits for itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from jax import monitoring

from mjx_bench.physics.choice import make_physics
from mjx_bench.physics.mjx_compile import CPU_OPTIONS, compiler_options
from tests.arm_scene import SCENE, arm_scene, arm_task, initial_state, reset_of
from tests.test_mjx_engine import INTERVAL, SUBSTEPS, TILE, program

ROOT = Path(__file__).resolve().parents[1]


def in_process(code: str, seconds: float, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=seconds,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_option_is_for_cpus_only():
    assert compiler_options("cpu") == CPU_OPTIONS == {"xla_cpu_use_fusion_emitters": False}
    assert compiler_options("gpu") == {}


def test_a_second_engine_of_the_same_scene_compiles_nothing():
    scene, success = arm_scene(sensors=False)
    program()
    compiled: list[str] = []

    def listen(event: str, seconds: float, **_: object) -> None:
        if event.endswith("backend_compile_duration"):
            compiled.append(event)

    fields = arm_task().load_fields(0)
    monitoring.register_event_duration_secs_listener(listen)
    try:
        engines = [
            make_physics(
                "jax", SCENE, scene.index.touches, lanes, "osc_pose", SUBSTEPS, interval=INTERVAL, fields=fields,
                success=success, tile=TILE,
            )
            for lanes in (1, 3 * TILE)
        ]  # fmt: skip
        for engine in engines:
            engine.load(0, initial_state(0), reset_of(), fields)
            assert engine.control_step(np.zeros(1, np.int32), np.zeros((1, 7))) == {}
    finally:
        monitoring.unregister_event_duration_listener(listen)
    assert compiled == []


# As many independent solves as a thunk executor will start side by side, each large enough for jaxlib to split.
SOLVES = """
import jax, jax.numpy as jnp, numpy as np
from mjx_bench.physics.mjx_compile import compile_program

def solves(a, b):
    def one(a, b):
        parts = [jax.scipy.linalg.cho_factor(a + i * jnp.eye(45)) for i in range(12)]
        return sum(jax.scipy.linalg.cho_solve(part, b) for part in parts)

    def again(carry, _):
        out = jax.vmap(one)(carry[0], b)
        return (carry[0] + 0.0 * out[:, None], out), None

    return jax.lax.scan(again, (a, b), None, length=200)[0][1]

r = np.random.default_rng(0).normal(size=(8, 45, 45)).astype(np.float32)
a, b = r @ r.swapaxes(1, 2) + 45 * np.eye(45, dtype=np.float32), r[:, 0]
out = compile_program(solves, *(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in (a, b))).call(a, b)
want = sum(np.linalg.solve(a.astype(float) + i * np.eye(45), b[..., None].astype(float))[..., 0] for i in range(12))
np.testing.assert_allclose(out, want, atol=1e-4)
"""


def test_solves_side_by_side_do_not_wait_for_each_other_for_ever():
    # Without `_small_batches` this never ended on two processors; here it takes a few seconds.
    in_process(SOLVES, 120)


@pytest.mark.slow
def test_a_new_process_takes_the_program_from_the_cache(tmp_path):
    code = """
from mjx_bench import runtime
runtime.configure()
import json
from tests.test_mjx_engine import program
made = program().program
print(json.dumps([made.cached, made.compile_s]))
"""
    cache = {"MJX_BENCH_CACHE": str(tmp_path), "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "jax")}
    runs = [json.loads(in_process(code, 600, PYTHONHASHSEED=seed, **cache)) for seed in ("1", "2")]
    assert [cached for cached, _ in runs] == [False, True]
    assert runs[1][1] < 0.5 * runs[0][1]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs a way to take processors away")
def test_bits_do_not_depend_on_the_number_of_processors():
    code = """
import os
os.sched_setaffinity(0, set(list(os.sched_getaffinity(0))[:{n}]))
from mjx_bench import runtime
runtime.configure()
import numpy as np
from tests.test_mjx_engine import chunks, digests, lanes_of, run
physics = lanes_of(16)
run(physics, np.arange(16, dtype=np.int32), chunks(24, 16, seed=1))
print(digests(physics, range(16)))
"""
    assert in_process(code.format(n=1), 600) == in_process(code.format(n=2), 600)
