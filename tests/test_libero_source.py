"""LIBERO as a source of tasks: what we build, cache and load is what LIBERO itself says."""

import concurrent.futures
import json
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path

import mujoco
import numpy as np
import pytest

from evals.libero import package, tasks
from evals.libero.cache import Cache, scene_key
from evals.libero.client import Builder, BuildFailed
from mjx_bench.errors import BenchError
from mjx_bench.task import Placement, Threshold
from tests.libero_oracle import ROOT, needs_libero, numeric_fields, probes, run_python

# One of each kind: no fixtures; drawers, a stove and a rack; a microwave that starts open.
BUILT = [("libero_object", 0), ("libero_goal", 0), ("libero_10", 9)]
SEEDS = (201, 195)  # 195 last: what a seed gives must not depend on the resets before it

# Bit-equal to LIBERO's, except where textures, names, a reset or a visualisation write.
NOT_COMPARED = {"body_pos", "body_quat", "site_rgba", "mat_texid", "signature", "ntex", "ntexdata", "nbuffer"}

# Joint tests of the articulated fixtures that occur in the 130 tasks.
DRAWER = {"open": Threshold("<", -0.14), "close": Threshold(">", 0.0)}
THRESHOLDS = {
    "wooden_cabinet": DRAWER,
    "white_cabinet": DRAWER,
    "microwave": {"open": Threshold("<", -1.3), "close": Threshold(">", -0.005)},
    "flat_stove": {"turnon": Threshold(">=", 0.5), "turnoff": Threshold("<", 0.0)},
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A fresh cache with the tasks of `BUILT`, built by LIBERO."""
    store = Cache(tmp_path_factory.mktemp("libero"))
    assert tasks.build(BUILT, SEEDS, workers=2, cache=store) == []
    return store


@pytest.fixture(scope="module")
def drawers(cache):
    return tasks.load_task("libero_goal", 0, seeds=SEEDS, cache=cache)


@pytest.fixture(scope="module")
def oracle(tmp_path_factory):
    """LIBERO's own environment of libero_goal 0 after a reset with seed 195: (model fields, live facts)."""
    folder = tmp_path_factory.mktemp("oracle")
    files = package.find("libero_goal", 0)
    run_python("-m", "tests.libero_oracle", "run", folder, "195", files.bddl, files.init_states)
    return dict(np.load(folder / "model.npz")), json.loads((folder / "live.json").read_text())


# ------------------------------------------------------------------------------------------- cache


def test_the_key_changes_with_everything_that_shapes_a_scene():
    key = scene_key("1", {"mujoco": "3"}, b"bddl")
    assert key == scene_key("1", {"mujoco": "3"}, b"bddl")
    others = [("2", {"mujoco": "3"}, b"bddl"), ("1", {"mujoco": "4"}, b"bddl"), ("1", {"mujoco": "3"}, b"BDDL")]
    assert len({key, *(scene_key(*other) for other in others)}) == 4


def test_a_blob_is_stored_once_and_repaired_when_cut_short(tmp_path):
    cache = Cache(tmp_path)
    name = cache.put_blob(b"vertices", ".OBJ")
    assert name.endswith(".obj")
    assert cache.put_blob(b"vertices", ".obj") == name
    assert [path.name for path in cache.blobs.iterdir()] == [name]
    (cache.blobs / name).write_bytes(b"vert")
    cache.put_blob(b"vertices", ".obj")
    assert (cache.blobs / name).read_bytes() == b"vertices"


def test_an_entry_without_its_blobs_is_no_entry_and_a_changed_one_is_refused(tmp_path):
    cache = Cache(tmp_path)
    blob = cache.put_blob(b"mesh", ".stl")
    cache.write_scene("key", "<mujoco/>", {"blobs": [blob]})
    assert cache.read_scene("key") == {"blobs": [blob]}
    with pytest.raises(BenchError, match="damaged cache entry"):
        cache.read_xml("key", "0" * 64)
    (cache.blobs / blob).unlink()
    assert cache.read_scene("key") is None
    cache.reset_json("key", 1).parent.mkdir()
    cache.reset_json("key", 1).write_text("{")
    with pytest.raises(BenchError, match=r"1\.json: damaged cache entry"):
        cache.read_reset("key", 1)


@needs_libero
@pytest.mark.parametrize("is_file", [True, False])
def test_a_cache_that_cannot_be_written_is_refused_before_anything_is_built(tmp_path, monkeypatch, is_file):
    root = tmp_path / "cache"
    if is_file:
        root.write_text("a file")
    else:
        root = Path("/proc/mjx-bench")  # no folder can be made there, by nobody
    monkeypatch.setattr(Builder, "run", None)  # what is not called is not missed
    for load in (
        lambda store: tasks.load_task("libero_object", 0, cache=store),
        lambda store: tasks.build([("libero_object", 0)], cache=store),
    ):
        with pytest.raises(BenchError, match=f"^{root}: no scenes can be kept there .*; set MJX_BENCH_CACHE to"):
            load(Cache(root))


@needs_libero
def test_two_builds_of_one_task_at_once_leave_one_good_entry(tmp_path):
    store = Cache(tmp_path)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        loads = [pool.submit(tasks.load_task, "libero_90", 20, seeds=(7,), cache=store) for _ in range(2)]
        first, second = (load.result() for load in loads)
    assert first.scene.key == second.scene.key
    assert first.scene.load_spec().compile().nq == 7 + 2 + 2 * 7 + 1
    assert not list(tmp_path.rglob(".tmp-*"))


# ------------------------------------------------------------------------------------------- the builder


def test_stray_prints_do_not_reach_the_answers():
    code = """
        import os
        import evals.libero.builder as builder
        def loud(job):
            print("from Python")
            os.write(1, b"from C\\n")
            return {}
        builder._build = loud
        builder.main()
    """
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        input="{}\n{}\n",
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    assert [json.loads(line)["error"] for line in result.stdout.splitlines()] == [None, None]
    assert result.stderr.count("from C") == 2


@needs_libero
def test_a_job_that_fails_is_named_and_costs_no_other(tmp_path):
    files = package.find("libero_90", 20)
    broken = tmp_path / "broken.bddl"
    broken.write_text(files.bddl.read_text().replace("- flat_stove", "- no_such_thing"))
    common = {"cache": str(tmp_path), "versions": {}, "seeds": []}
    with Builder() as builder:
        with pytest.raises(BuildFailed, match="no_such_thing"):
            builder.run({"name": "broken", "bddl": str(broken), "key": "a", **common})
        assert not Cache(tmp_path).scene_folder("a").exists()
        good = {"name": "good", "bddl": str(files.bddl), "key": "b", **common}
        with pytest.raises(BuildFailed, match=r"no answer within 0.01 s"):
            builder.run(good, timeout_s=0.01)
        builder._start().kill()
        with pytest.raises(BuildFailed, match="the builder process died"):
            builder.run(good)
        assert builder.run(good)["reset_errors"] == {}
    assert Cache(tmp_path).read_scene("b")["name"] == "good"


# ------------------------------------------------------------------------------------------- built tasks


@needs_libero
def test_the_scene_compiles_to_liberos_model(drawers, oracle):
    theirs, _ = oracle
    ours = numeric_fields(drawers.scene.load_spec().compile())
    text = ("name_", "names", "nnames", "npaths", "paths", "tex_")
    compared = [n for n in theirs if n not in NOT_COMPARED and not n.startswith(text) and not n.endswith("_pathadr")]
    assert len(compared) > 400
    assert [n for n in compared if not np.array_equal(theirs[n], ours[n], equal_nan=True)] == []
    assert ours["ntex"] == 0
    assert len(theirs["mesh_vert"]) > 10_000
    moved = [
        drawers.scene.load_spec().compile().body(drawers.scene.entities[f].body).id for f in drawers.scene.fixtures
    ]
    still = np.setdiff1d(np.arange(theirs["nbody"]), moved)
    for name in ("body_pos", "body_quat"):
        np.testing.assert_array_equal(ours[name][still], theirs[name][still])


@needs_libero
def test_the_textured_scene_has_liberos_textures(drawers, oracle):
    model = drawers.scene.load_textured_spec().compile()
    assert model.ntex == oracle[0]["ntex"] > 10
    np.testing.assert_array_equal(model.mat_texid, oracle[0]["mat_texid"])


@needs_libero
def test_a_reset_is_what_liberos_controller_holds_after_a_state_is_restored(drawers, oracle):
    _, live = oracle
    reset = drawers.load_reset(195)
    held = live["controller"]
    assert held["new_update"] is False  # so its first control step uses the values of the reset
    for ours, theirs in (
        (reset.controller.eef_pos, "ee_pos"),
        (reset.controller.eef_mat, "ee_ori_mat"),
        (reset.controller.joint_pos, "initial_joint"),
        (reset.controller.jac_pos, "J_pos"),
        (reset.controller.jac_rot, "J_ori"),
        (reset.controller.mass_matrix, "mass_matrix"),
    ):
        np.testing.assert_array_equal(ours, np.array(held[theirs]))
    assert reset.controller.jac_rot.shape == (3, 7)
    assert set(reset.fixture_pos) == set(drawers.scene.fixtures) == set(live["fixtures"])
    for name, (pos, quat) in live["fixtures"].items():
        np.testing.assert_array_equal(reset.fixture_pos[name], pos)
        np.testing.assert_array_equal(reset.fixture_quat[name], quat)
    other = drawers.load_reset(201)
    assert not np.array_equal(other.fixture_pos["wine_rack_1"], reset.fixture_pos["wine_rack_1"])


@needs_libero
def test_thresholds_answer_as_liberos_fixtures_do(drawers, oracle):
    compare = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}
    asked = 0
    for name, answers in oracle[1]["answers"].items():
        thresholds = drawers.scene.entities[name].thresholds
        assert set(thresholds) == set(answers)
        for predicate, threshold in thresholds.items():
            assert [bool(compare[threshold.comparison](q, threshold.value)) for q in probes()] == answers[predicate]
            asked += 1
    assert asked == 4


@needs_libero
def test_a_task_says_what_its_scene_holds(drawers):
    scene = drawers.scene
    assert scene.objects == ("akita_black_bowl_1", "cream_cheese_1", "wine_bottle_1", "plate_1")
    assert scene.fixtures == ("wooden_cabinet_1", "flat_stove_1", "wine_rack_1")
    cabinet = scene.entities["wooden_cabinet_1"]
    assert (cabinet.body, cabinet.free_joint) == ("wooden_cabinet_1_main", None)
    assert cabinet.joints == tuple(f"wooden_cabinet_1_{level}_level" for level in ("top", "middle", "bottom"))
    drawer = scene.regions["wooden_cabinet_1_middle_region"]
    assert (drawer.parent, drawer.joints) == ("wooden_cabinet_1", ("wooden_cabinet_1_middle_level",))
    assert drawer.half_size == (0.02993, 0.07561, 0.10224)
    table = scene.regions["main_table_plate_region"]
    assert (table.parent, table.joints) == (None, ())
    assert table.half_size == pytest.approx((0.01, 0.01, 0.007))
    assert Placement("on", "plate_1", "main_table_plate_region", "main_table") in scene.placements
    assert scene.robot.arm_joints == tuple(f"robot0_joint{i}" for i in range(1, 8))
    assert scene.robot.torque_limits[1] == (80.0,) * 5 + (12.0,) * 2
    assert scene.robot.finger_geoms == (("gripper0_finger1_pad_collision",), ("gripper0_finger2_pad_collision",))
    assert {"agentview", "robot0_eye_in_hand"} <= set(scene.cameras)
    assert (drawers.horizon, drawers.control_hz, drawers.substeps, drawers.settle_steps) == (300, 20, 25, 10)
    assert drawers.settle_action == (0, 0, 0, 0, 0, 0, -1)
    assert drawers.extra["bddl_language"] == "open the middle layer of the drawer"
    assert (drawers.trigger_entity, drawers.receptacle) == ("wooden_cabinet_1", None)


@needs_libero
@pytest.mark.parametrize(("suite", "index"), BUILT)
def test_every_name_of_a_built_task_is_in_its_model(cache, suite, index):
    check_task(tasks.load_task(suite, index, seeds=SEEDS, cache=cache))


@needs_libero
def test_a_cached_task_needs_neither_robosuite_nor_libero(cache):
    code = """
        import sys
        class Refuse:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] in ("robosuite", "cv2") or name.startswith("libero."):
                    raise AssertionError(f"{name} was imported")
        sys.meta_path.insert(0, Refuse())
        from evals.libero import tasks
        task = tasks.load_task("libero_10", 9, seeds=(195,))
        model = task.scene.load_spec().compile()
        print(model.nq, task.load_init_states().shape, task.load_reset(195).controller.eef_pos.shape)
    """
    out = run_python("-c", textwrap.dedent(code), MJX_BENCH_CACHE=str(cache.root), PATH="")
    assert out == "24 (50, 47) (3,)\n"


@needs_libero
def test_a_task_travels_to_another_process(drawers):
    copy = pickle.loads(pickle.dumps(drawers))
    assert copy.scene.load_spec().compile().nq == 41
    np.testing.assert_array_equal(
        copy.load_reset(195).fixture_pos["wine_rack_1"], drawers.load_reset(195).fixture_pos["wine_rack_1"]
    )


@needs_libero
@pytest.mark.slow
def test_all_130_tasks_build(tmp_path):
    store = Cache(tmp_path)
    everything = [(row.suite, row.index) for suite in tasks.suites() for row in tasks.task_table(suite)]
    assert tasks.build(everything, (195, 201, 207), workers=2, cache=store) == []
    seen = set()
    for suite, index in everything:
        task = tasks.load_task(suite, index, seeds=(195,), cache=store)
        check_task(task)
        seen |= {entity.category for entity in task.scene.entities.values() if entity.thresholds}
    assert seen == set(THRESHOLDS)


def check_task(task):
    """Everything that a task names exists in its compiled model, and fits its initial states."""
    scene, model = task.scene, task.scene.load_spec().compile()
    known = set(scene.entities) | set(scene.regions)
    assert all(arg in known for atom in task.goal for arg in atom.args)
    assert set(task.objects_of_interest) <= known
    states = task.load_init_states()
    assert states.shape == (50, 1 + model.nq + model.nv)
    assert states.dtype == np.float64

    # qpos: 7 arm joints, 2 fingers, the objects, then the fixtures' joints, each in the task file's order.
    robot = scene.robot
    order = list(robot.arm_joints + robot.gripper_joints)
    for entity in scene.entities.values():
        assert model.body(entity.body).parentid[0] == 0
        assert entity.contact_geoms
        body_of = {model.geom(name).bodyid[0] for name in entity.contact_geoms}
        assert all(model.body_rootid[body] == model.body(entity.body).id for body in body_of)
        assert entity.thresholds == (THRESHOLDS[entity.category] if entity.joints else {})
        if entity.kind == "object":
            assert model.joint(entity.free_joint).type[0] == mujoco.mjtJoint.mjJNT_FREE
            order.append(entity.free_joint)
        order.extend(entity.joints)
    assert [model.joint(i).name for i in range(model.njnt)] == order

    for name, region in scene.regions.items():
        np.testing.assert_allclose(model.site(name).size, region.half_size, rtol=0, atol=1e-12)
        assert model.site(name).type[0] == mujoco.mjtGeom.mjGEOM_BOX
        owner = region.parent and scene.entities[region.parent]
        assert not region.joints or set(region.joints) <= set(owner.joints)
    assert {placement.entity for placement in scene.placements} == set(scene.entities)
    supports = set(scene.entities) | {task.extra["workspace"]}
    assert {placement.support for placement in scene.placements} <= supports

    assert model.nu == 9
    for names, kind in ((robot.arm_actuators, model.actuator), (robot.gripper_actuators, model.actuator)):
        assert all(kind(name).id >= 0 for name in names)
    assert model.site(robot.eef_site).id >= 0
    assert model.body(robot.hand_body).id >= 0
    assert all(model.geom(name).id >= 0 for side in robot.finger_geoms for name in side)
    assert [model.camera(i).name for i in range(model.ncam)] == list(scene.cameras)
    assert model.opt.timestep * task.substeps * task.control_hz == pytest.approx(1.0)

    reset = task.load_reset(195)
    assert set(reset.fixture_pos) == set(scene.fixtures)
    assert all(np.linalg.norm(quat) == pytest.approx(1.0) for quat in reset.fixture_quat.values())
