"""The lean form of LIBERO's scenes: what stays as it was, what MJX makes of it in JAX, and that verdicts agree."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import mujoco
import numpy as np
import pytest

from evals import registry
from evals.libero import lean_shapes
from evals.libero.lean import lean_task
from evals.libero.lean_shapes import MEETS, Box, Layer, can
from evals.libero.mjcf import model_differences
from mjx_bench.errors import BenchError
from mjx_bench.physics.mujoco_c import MujocoC
from mjx_bench.physics.scene import compile_scene
from mjx_bench.predicates import touches_of
from mjx_bench.records import load_run
from mjx_bench.task import Task
from scripts import cli
from tests.libero_picture_oracle import CAMERAS
from tests.pictures import LANE, renderer
from tests.scenes import SEED, libero_lanes, libero_task

TASKS = (("libero_object", 0), ("libero_spatial", 4))
COMMAND = ["eval", "--suite", "libero_object", "--task", "4", "--instances", "1", "--policy", "scripted.reactive"]


def models(task: Task) -> tuple[mujoco.MjModel, mujoco.MjModel]:
    return task.scene.load_spec().compile(), lean_task(task).scene.load_spec().compile()


@pytest.mark.parametrize(("suite", "index"), TASKS)
def test_nothing_but_collision_shapes_and_their_solver_differs(suite, index):
    exact, lean = models(libero_task(suite, index))
    about = ("geom_", "ngeom", "mesh_", "nmesh", "npolygon", "bvh_", "nbvh", "body_geom", "body_bvh")
    cost = ("body_contype", "body_conaffinity", "dof_length")
    solver = ("opt.cone", "opt.iterations", "opt.ls_iterations")
    differing = model_differences(exact, lean)
    assert [n for n in differing if not n.startswith(about) and n not in cost + solver] == []
    assert {"geom_pos", "ngeom"} <= set(differing)
    # What cameras see is the same, in the same order.
    shown = [np.isin(m.geom_group, (1, 2)) for m in (exact, lean)]
    for field in ("pos", "quat", "size", "type", "rgba", "matid", "bodyid"):
        seen = [getattr(m, f"geom_{field}")[which] for m, which in zip((exact, lean), shown, strict=True)]
        np.testing.assert_array_equal(*seen, err_msg=field)


@pytest.mark.parametrize(("suite", "index", "most"), [("libero_object", 3, 650), ("libero_spatial", 4, 850)])
def test_mjx_simulates_all_of_it_in_few_slots(suite, index, most):
    from mujoco.mjx._src import collision_driver

    from mjx_bench.physics.choice import POSED
    from mjx_bench.physics.mjx_jax import JaxStepper

    task = lean_task(libero_task(suite, index))
    scene = compile_scene(task.scene, touches_of(task.goal, task.scene), sensors=False)
    assert 100 < JaxStepper(scene, POSED).slots <= most
    model = scene.model
    robot = model.body(task.scene.robot.hand_body).rootid[0]
    pads = {model.geom(g).id for side in task.scene.robot.finger_geoms for g in side}
    for first, second, _ in collision_driver.geom_pairs(model):
        roots = model.body_rootid[model.geom_bodyid[[first, second]]]
        assert roots[0] != roots[1] or (roots[0] == robot and {first, second} == pads)


def test_goals_and_fingers_mean_the_same_entities():
    task = libero_task("libero_spatial", 4)
    lean = lean_task(task)
    model = lean.scene.load_spec().compile()
    assert (lean.goal, lean.scene.regions, lean.scene.robot) == (task.goal, task.scene.regions, task.scene.robot)
    assert lean.scene.entities.keys() == task.scene.entities.keys()
    for name, entity in lean.scene.entities.items():
        geoms = [model.geom(g) for g in entity.contact_geoms]
        assert geoms
        assert all(g.contype[0] for g in geoms)
        root = model.body(entity.body).id
        assert {int(model.body_rootid[g.bodyid[0]]) for g in geoms} == {root}
        assert dataclasses.replace(entity, contact_geoms=()) == dataclasses.replace(
            task.scene.entities[name], contact_geoms=()
        )


def test_layers_meet_both_ways():
    for layer, met in MEETS.items():
        assert met, layer
        assert all(layer in MEETS[other] for other in met)
    assert Layer.GRIP in MEETS[Layer.PAD]
    assert Layer.FLOOR not in MEETS[Layer.BALL]


def test_a_tin_becomes_a_hexagon_of_its_mean_radius():
    """A regular prism of 48 sides, radius 3 cm and height 8 cm, as 24 boxes through its axis (y)."""
    boxes = []
    for turn in np.arange(24) * np.pi / 24:
        c, s = np.cos(turn), np.sin(turn)
        rot = np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])
        half = np.array([0.03 * np.cos(np.pi / 48), 0.04, 0.03 * np.sin(np.pi / 48)])
        boxes.append(Box(half, np.zeros(3), rot))
    *sides, foot, bulk = can(1)(boxes)
    middles = [np.sort(p.size)[1] for p in sides]
    corners = [np.hypot(*np.delete(np.array(p.size), 1)) for p in sides]
    np.testing.assert_allclose([middles, corners], [[0.02785] * 3, [0.03215] * 3], atol=2e-4)
    np.testing.assert_allclose((np.array(middles) + corners) / 2, 0.03, atol=1e-4)
    np.testing.assert_allclose([p.size[1] for p in sides], 0.04)
    np.testing.assert_allclose(foot.size, (middles[0], 0.04, middles[0]))
    assert bulk.kind == "capsule"
    np.testing.assert_allclose(bulk.rot @ [0, 0, 1], [0, 1, 0], atol=1e-12)
    assert sum(bulk.size) == pytest.approx(0.04)


def test_a_ball_is_fitted_to_a_bowl():
    angle = np.linspace(0.2, 1.4, 20)
    radius, height = lean_shapes.ball(0.05 * np.sin(angle), 0.06 - 0.05 * np.cos(angle))
    assert (radius, height) == pytest.approx((0.05, 0.06))


@pytest.mark.parametrize(("suite", "index"), TASKS)
def test_objects_come_to_rest_where_they_did(suite, index):
    """After the ten control steps before an episode: objects that fall straight down lie as high as they did, to 1 mm."""
    task = libero_task(suite, index)
    heights = []
    for form in (task, lean_task(task)):
        physics = MujocoC(compile_scene(form.scene, touches_of(form.goal, form.scene)), 1, "osc_pose", form.substeps, 1)
        physics.load(0, form.load_init_states()[0], form.load_reset(SEED))
        for _ in range(form.settle_steps):
            physics.control_step(LANE, np.array([form.settle_action]))
        heights.append(physics.kinematics(LANE).entity_pos[0, :, 2].copy())
    np.testing.assert_allclose(*heights, atol=1e-3)


def test_pictures_are_equal():
    task = libero_task("libero_spatial", 4)
    pose = libero_lanes("libero_spatial", 4, 1).poses(LANE)
    pictures = []
    for scene in (task.scene, lean_task(task).scene):
        with renderer("gl", scene, CAMERAS, 128) as gl:
            pictures.append(gl.render(pose))
    for camera in CAMERAS:
        np.testing.assert_array_equal(pictures[0][camera], pictures[1][camera])
        assert np.ptp(pictures[0][camera]) > 100


def test_what_has_no_lean_form_says_so():
    with pytest.raises(BenchError, match=r"no lean form of 'wine_bottle_1'.*--scene-form exact"):
        registry.in_form(libero_task("libero_goal", 0), "lean")
    with pytest.raises(BenchError, match="scenes of tabletop have one form only"):
        registry.load_task("tabletop", 0, form="lean")
    with pytest.raises(BenchError, match="scene form 'leen'"):
        registry.load_task("tabletop", 0, form="leen")


def test_a_folder_belongs_to_one_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    libero_task("libero_object", 4)
    out = tmp_path / "run"
    assert cli.main([*COMMAND, "--scene-form", "lean", "--out", str(out)]) == 0
    run = load_run(out)
    assert run.header.settings["scene_form"] == "lean"
    assert run.header.assets["libero_object/4"].endswith("-lean1")
    assert run.records[0].success
    capsys.readouterr()
    assert cli.main([*COMMAND, "--out", str(out)]) == 2
    assert "scene_form" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("suite", ["libero_object", "libero_spatial"])
def test_verdicts_agree_over_100_rollouts(suite, tmp_path: Path):
    """scripted.reactive, ten tasks, ten initial states: the same verdict in 95 of 100; prints what differs."""
    libero_task(suite, 0)
    verdicts = {}
    for form in registry.FORMS:
        out = tmp_path / form
        command = ["eval", "--suite", suite, "--instances", "10", "--policy", "scripted.reactive", "--backend", "c"]
        assert cli.main([*command, "--scene-form", form, "--out", str(out)]) == 0
        verdicts[form] = {r.case_id: r.verdict for r in load_run(out).records}
    exact, lean = verdicts["exact"], verdicts["lean"]
    assert len(exact) == len(lean) == 100
    differing = [f"{case}: {exact[case]} and {lean[case]}" for case in exact if exact[case] != lean[case]]
    print(f"{suite}: {100 - len(differing)} of 100 verdicts agree", *differing, sep="\n  ")
    assert len(differing) <= 5
    assert sum(v == "success" for v in lean.values()) >= 95


@pytest.mark.slow
@pytest.mark.parametrize(("suite", "index", "least"), [(*TASKS[0], 0.9), (*TASKS[1], 1.5)])
def test_what_lean_scenes_cost_on_c(suite, index, least):
    """The settled scene and then small actions, exact and lean in turns: the median of the ratios of processor time."""
    task, lanes, rng = libero_task(suite, index), 8, np.random.default_rng(0)
    engines = []
    for form in (task, lean_task(task)):
        scene = compile_scene(form.scene, touches_of(form.goal, form.scene))
        physics = MujocoC(scene, lanes, "osc_pose", form.substeps, 1)
        for lane in range(lanes):
            physics.load(lane, form.load_init_states()[lane], form.load_reset(SEED))
        engines.append(physics)
    ids, ratios = np.arange(lanes, dtype=np.int32), []
    for _ in range(12):
        actions, spent = rng.uniform(-0.3, 0.3, (10, lanes, 7)), []
        for physics in engines:
            start = time.process_time()
            for action in actions:
                physics.control_step(ids, action)
            spent.append(time.process_time() - start)
        ratios.append(spent[0] / spent[1])
    low, median, high = np.quantile(ratios[2:], (0.0, 0.5, 1.0))
    print(f"{suite} task {index}: {median:.2f} times as fast ({low:.2f} to {high:.2f})")
    assert median > least


@pytest.mark.slow
@pytest.mark.parametrize("suite", ["libero_object", "libero_spatial"])
def test_pairs_run_on_jax(suite, tmp_path: Path):
    libero_task(suite, 0)
    command = ["pair", "--suite", suite, "--pairs", "1", "--policy", "scripted.reactive", "--backend", "jax"]
    assert cli.main([*command, "--scene-form", "lean", "--out", str(tmp_path)]) == 0
    run = load_run(tmp_path)
    assert (run.header.settings["backend"], run.header.settings["scene_form"]) == ("jax", "lean")
    assert len(run.records) == 2
    assert all(r.verdict != "void" for r in run.records)
    assert all(r.success for r in run.records if r.arm == "base")
