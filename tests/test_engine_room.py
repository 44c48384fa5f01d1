"""What a compiled engine has room for: said before a run, and refused by name before anything is made."""

from __future__ import annotations

from pathlib import Path

import mujoco
import pytest

from evals import registry
from evals.libero.lean import lean_task
from mjx_bench.engines import check_scenes, engine_of
from mjx_bench.errors import BenchError
from mjx_bench.physics.choice import missing_warp
from mjx_bench.physics.mjx_jax import MOST_SLOTS, contact_slots, refuse
from scripts import cli
from tests.libero_oracle import needs_libero
from tests.scenes import libero_task
from tests.test_own_bddl import DRAWER, written


def boxes(count: int) -> mujoco.MjModel:
    """That many free boxes without a floor: four contacts a pair."""
    spec = mujoco.MjSpec()
    for i in range(count):
        body = spec.worldbody.add_body(name=f"body{i}", pos=[0, 0, i])
        body.add_freejoint()
        body.add_geom(name=f"box{i}", type=mujoco.mjtGeom.mjGEOM_BOX, size=[0.1, 0.1, 0.1])
    return spec.compile()


def test_a_scene_of_too_many_contacts_is_refused_with_what_costs_most():
    most = next(n for n in range(2, 100) if contact_slots(boxes(n + 1)) > MOST_SLOTS)
    refuse(boxes(most), ())
    slots = contact_slots(boxes(most + 1))
    assert slots == 4 * (most + 1) * most // 2
    with pytest.raises(BenchError) as refused:
        refuse(boxes(most + 1), ())
    message = str(refused.value)
    assert f"{MOST_SLOTS} contacts a step at most, and this scene has {slots}: {slots} of box against box" in message
    assert f"'body0' ({4 * most}, 1 geoms)" in message
    assert "--backend c" in message
    assert "--scene-form lean" in message


@pytest.mark.parametrize(
    ("suite", "reason"),
    [
        ("libero_object", "this scene has 11460: 8084 of box against box"),
        ("libero_spatial", "between 'mount0_pedestal_col' (cylinder) and 'robot0_link1_collision' (mesh)"),
    ],
)
def test_an_exact_libero_scene_is_refused_before_anything_is_made(suite, reason, tmp_path: Path, capfd):
    libero_task(suite, 0)
    command = ["eval", "--suite", suite, "--task", "0", "--instances", "1", "--policy", "zero", "--backend", "jax"]
    status = cli.main([*command, "--out", str(tmp_path / "run")])
    err = capfd.readouterr().err
    assert status == 2
    line = next(line for line in err.splitlines() if line.startswith("mjx-bench: error: "))
    assert line.startswith(f"mjx-bench: error: {suite} task 0: engine jax ")
    assert reason in line
    assert not list(tmp_path.iterdir())


def test_whatever_makes_an_engine_refuses(capfd):
    task = libero_task("libero_object", 0)
    with pytest.raises(BenchError, match="libero_object task 0: engine jax computes 2000 contacts a step at most"):
        engine_of(task, "jax", 1, "osc_pose", interval=8)
    assert cli.main(["bench", "engine", "--suite", "libero_object", "--backend", "jax", "--json"]) == 2
    assert "libero_object task 0: engine jax computes 2000 contacts" in capfd.readouterr().err


@needs_libero
def test_a_task_file_of_one_s_own_is_refused_by_name_too(tmp_path: Path):
    task = registry.load_bddl(written(tmp_path, DRAWER))
    with pytest.raises(BenchError, match=r"bddl task 0: engine jax has no collisions between 'mount0_pedestal_col'"):
        check_scenes([task], "jax")
    assert check_scenes([lean_task(task)], "jax") == "engine jax, 1 scene: contact slots 352"


def test_lean_and_native_scenes_pass_and_their_room_is_said():
    native = [registry.load_task("tabletop", i) for i in range(12)]
    assert check_scenes(native, "jax") == "engine jax, 12 scenes: contact slots 15 to 59"
    assert check_scenes(native, "c") == ""
    lean = [lean_task(libero_task(suite, 0)) for suite in ("libero_object", "libero_spatial")]
    assert check_scenes([*lean, *lean], "jax") == "engine jax, 2 scenes: contact slots 529 to 837"


@pytest.mark.skipif(bool(missing_warp()), reason="needs the extra: warp")
def test_the_room_of_warp_is_that_of_its_program():
    from mjx_bench.physics.mjx_warp import WarpStepper
    from mjx_bench.physics.scene import compile_scene

    task = registry.load_task("tabletop", 0)
    stepper = WarpStepper(compile_scene(task.scene, ()), (), 8)
    data = stepper.bare(8)[1]._impl
    said = check_scenes([task], "warp")
    assert said == f"engine warp, 1 scene: naconmax {data.naconmax}, njmax {data.njmax}"
    assert data.naconmax == 8 * stepper.slots
