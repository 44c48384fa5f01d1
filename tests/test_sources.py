"""Regenerated sources: each edit does what its category says, and nothing else."""

from __future__ import annotations

import functools
import re

import mujoco
import numpy as np
import pytest

from evals.libero import package, tasks, variants
from evals.libero.sources import camera, catalogue, layout, lenses, pose, recolour, robot, shape, wording
from evals.libero.sources.edits import carried_by, model_of, physics_key, pose_at
from evals.libero_max.placing import GAP_M, RADIUS_M
from evals.libero_max.released import Source, case_of
from mjx_bench.errors import BenchError
from mjx_bench.observe.pictures import Pictures
from mjx_bench.observe.sensor import spoil
from mjx_bench.physics.base import Pose, Visual
from mjx_bench.task import Task
from tests.libero_oracle import needs_libero
from tests.pictures import renderer
from tests.scenes import SEED, libero_task

SUITE, INDEX = "libero_goal", 8  # put the bowl on the plate
NAMES = {
    "Background Textures": "tb_5",
    "Camera Viewpoints": "view_20_15_100_0_0_initstate_0",
    "Language Instructions": "language_7_view_0_0_100_0_0_initstate_0",
    "Light Conditions": "light_4",
    "Objects Layout": "moved_level3_sample1",
    "Robot Initial States": "view_0_0_100_0_0_initstate_450",
    "Sensor Noise": "view_0_0_100_0_0_initstate_0_noise_17",
}

pytestmark = needs_libero


def plain() -> Task:
    return libero_task(SUITE, INDEX)


def plus(category: str, name: str | None = None, suite: str = SUITE, index: int = INDEX) -> Task:
    variant = variants.plus_variant(category, suite, index, name or NAMES[category])
    return tasks.load_variant(variant, suite, index, seeds=(SEED,))


def pro(category: str, suite: str = SUITE, index: int = INDEX) -> Task:
    return tasks.load_variant(variants.pro_variant(category, suite, index, "do it"), suite, index, seeds=(SEED,))


def posed(task: Task, row: int = 0, visual: tuple[Visual, ...] = (), steps: int = 0) -> Pose:
    """The task's initial state, with fixtures where they stand."""
    model, state = model_of(task.scene), np.asarray(task.load_init_states()[row])
    fields = dict(task.fields_of(row))
    body_pos, body_quat = (np.array(fields.pop(f, getattr(model, f))) for f in ("body_pos", "body_quat"))
    reset = task.load_reset(SEED)
    for name, pos in reset.fixture_pos.items():
        body = model.body(task.scene.entities[name].body).id
        body_pos[body], body_quat[body] = pos, reset.fixture_quat[name]
    return Pose(state[1 : 1 + model.nq], body_pos, body_quat, visual, steps, fields)


def same_world(task: Task, states: bool = True) -> None:
    """Nothing that moves is another than the plain task's."""
    base = plain()
    assert physics_key(task) == base.scene.key
    if states:
        np.testing.assert_array_equal(task.load_init_states()[0], base.load_init_states()[0])
    ours, theirs = task.load_reset(SEED), base.load_reset(SEED)
    for name, pos in theirs.fixture_pos.items():
        np.testing.assert_array_equal(ours.fixture_pos[name], pos)


# Viewpoints.


def test_around_and_up_keep_the_pivot_in_the_middle_and_distance_scales():
    model = model_of(plain().scene)
    at = model.camera(camera.CAMERA).id
    pos, quat = model.cam_pos[at], model.cam_quat[at]

    def in_camera(p: np.ndarray, q: np.ndarray) -> np.ndarray:
        mat = np.zeros(9)
        mujoco.mju_quat2Mat(mat, q / np.linalg.norm(q))
        return mat.reshape(3, 3).T @ (camera.PIVOT - p)

    before = in_camera(pos, quat)
    for view in (camera.View(around=33), camera.View(up=15), camera.View(around=340, up=15)):
        np.testing.assert_allclose(in_camera(*view.of(pos, quat)), before, atol=5e-4)  # rounded to 4 decimals
    far = camera.View(distance=150)
    np.testing.assert_allclose(in_camera(*far.of(pos, quat)), 1.5 * before, atol=5e-4)
    raised, _ = camera.View(up=15).of(pos, quat)
    assert raised[2] > pos[2]
    np.testing.assert_allclose(camera.View(around=90).of(pos, quat)[0], [0.0, pos[0], pos[2]], atol=1e-4)
    turned, other = camera.View(pan=6, tilt=354).of(pos, quat)
    np.testing.assert_allclose(turned, pos, atol=1e-4)
    assert not np.allclose(other, quat, atol=1e-3)
    assert camera.View.parse(camera.View(20, 15).name) == camera.View(20, 15)


def test_a_viewpoint_moves_the_one_camera_and_nothing_else():
    for task in (plus("Camera Viewpoints"), pro("camera_view_angle")):
        same_world(task)
        model, fields = model_of(task.scene), task.fields_of(0)
        assert set(fields) == {"cam_pos", "cam_quat"}
        at = model.camera(camera.CAMERA).id
        for name, value in fields.items():
            changed = np.flatnonzero((value != getattr(model, name)).any(1))
            assert changed.tolist() == [at]
    np.testing.assert_array_equal(fields["cam_pos"][at], camera.PRO_POS)


# Robots.


def test_robots_lie_on_spheres_of_five_sizes_and_a_zero_offset_is_libero_s_own_reset():
    sizes = np.linalg.norm(robot.offsets(), axis=1)
    np.testing.assert_allclose(sizes, np.repeat(robot.SIZES, 100), atol=1e-12)
    first = np.random.RandomState(42).randn(7)
    np.testing.assert_array_equal(robot.offsets()[0], first / np.linalg.norm(first) * 0.1)
    own = plain().load_reset(SEED).controller
    made = robot.controller_at(plain(), own.joint_pos)
    for name, value in vars(own).items():
        np.testing.assert_array_equal(getattr(made, name), value, err_msg=name)


def test_another_robot_changes_what_the_controller_holds_and_not_where_the_arm_is():
    task = plus("Robot Initial States")
    same_world(task)
    ours, theirs = task.load_reset(SEED).controller, plain().load_reset(SEED).controller
    np.testing.assert_allclose(np.linalg.norm(ours.joint_pos - theirs.joint_pos), 0.5)
    assert np.abs(ours.eef_mat - theirs.eef_mat).max() > 0.05


# Light, lenses, textures.


def test_other_lights_are_all_that_differs():
    lit, dim = plus("Light Conditions"), pro("visual_noise_glare")
    for task in (lit, dim):
        same_world(task)
        assert all(name.startswith("light_") for name in task.fields_of(0))
    fields = lit.fields_of(0)
    np.testing.assert_allclose(np.linalg.norm(fields["light_dir"], axis=1), 1.0)
    assert (fields["light_dir"][:, 2] < 0).all()  # from above
    other = plus("Light Conditions", "light_5").fields_of(0)
    assert not np.allclose(other["light_diffuse"], fields["light_diffuse"])
    np.testing.assert_array_equal(dim.fields_of(0)["light_diffuse"], np.full((model_of(dim.scene).nlight, 3), 0.16))


class Flat:
    """A renderer of even grey pictures."""

    def render(self, poses):
        shape = (len(poses), 32, 32, 3)
        return {name: np.full(shape, 120, np.uint8) for name in ("agentview", "robot0_eye_in_hand")}


def test_sensor_noise_is_of_the_agent_s_view_alone_and_comes_before_events():
    task = plus("Sensor Noise", "view_0_0_100_0_0_initstate_0_noise_36")  # fog
    same_world(task)
    event = (Visual("set_sensor_corruption", {"noise_std": 24.0, "occlusion_fraction": 0.08, "seed": 5}),)
    quiet, loud = (posed(task, visual=v, steps=3) for v in ((), event))
    pictures = Pictures(Flat(), task.scene)
    clean, spoilt = pictures.take([quiet]), pictures.take([loud])
    assert (clean["robot0_eye_in_hand"] == 120).all()
    assert clean["agentview"].std() > 5
    expected = spoil(clean, [loud], task.scene.observed)
    for name, picture in spoilt.items():
        np.testing.assert_array_equal(picture, expected[name])
    later = pictures.take([posed(task, steps=4)])["agentview"]
    assert not np.array_equal(later, clean["agentview"])  # each frame has its own
    np.testing.assert_array_equal(pictures.take([posed(task, steps=4)])["agentview"], later)


@pytest.mark.parametrize("number", range(1, lenses.COUNT + 1))
def test_every_sensor_noise_changes_a_picture_and_the_next_severity_more(number):
    rng = np.random.default_rng(0)
    picture = rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)
    seen = lenses.spoiler_of(number)(picture, np.random.default_rng(1))
    assert seen.shape == picture.shape
    assert seen.dtype == np.uint8
    assert np.abs(seen.astype(int) - picture).mean() > 1.0


def test_glare_has_one_grain_in_every_frame_and_another_for_each_camera():
    task = pro("visual_noise_glare")
    pictures = Pictures(Flat(), task.scene)
    first, later = (pictures.take([posed(task, steps=s)]) for s in (0, 50))
    agent, wrist = first["agentview"][0], first["robot0_eye_in_hand"][0]
    np.testing.assert_array_equal(agent, later["agentview"][0])
    assert not np.array_equal(agent, wrist)
    assert abs(agent.mean() - 0.68 * 120) < 1.5
    assert abs(agent.std() - 12.0) < 1.0


def drawn(task: Task) -> tuple[np.ndarray, np.ndarray]:
    """Picture and segmentation of a task's initial state, by OpenGL."""
    with renderer("gl", task.scene, ("agentview",), 128) as draw:
        at = posed(task)
        return draw.render([at])["agentview"][0].astype(int), draw.segmentation([at])["agentview"][0]


@functools.cache
def drawn_plainly() -> tuple[np.ndarray, np.ndarray]:
    return drawn(plain())


def geoms_of(task: Task, body: str) -> np.ndarray:
    model = model_of(task.scene)
    return np.flatnonzero(model.body_rootid[model.geom_bodyid] == model.body(body).id)


def away_from(seen: np.ndarray, geoms: np.ndarray) -> np.ndarray:
    """Pixels that show none of the geoms, two pixels around them left out: edges are smoothed."""
    mask = np.isin(seen, geoms)
    for axis in (0, 1):
        mask = mask | sum(np.roll(mask, s, axis) for s in (-2, -1, 1, 2)).astype(bool)
    return ~mask


def test_another_table_is_seen_on_the_table_alone():
    (before, seen), (after, _) = drawn_plainly(), drawn(plus("Background Textures", "table_3"))
    table = geoms_of(plain(), "table")
    assert np.abs(after - before)[np.isin(seen, table)].mean() > 10
    others = away_from(seen, table)
    np.testing.assert_array_equal(after[others], before[others])


def test_other_walls_come_with_another_table():
    task = plus("Background Textures")
    same_world(task)
    (before, seen), (after, _) = drawn_plainly(), drawn(task)
    model = model_of(task.scene)
    walls = [g for g in range(model.ngeom) if model.geom(g).name.startswith("wall")]
    assert np.abs(after - before)[np.isin(seen, walls)].mean() > 5
    # The metal of the stove mirrors the walls.
    mirrors = np.flatnonzero((model.geom_matid >= 0) & (model.mat_reflectance[model.geom_matid] > 0))
    others = away_from(seen, np.array([*walls, *geoms_of(task, "table"), *mirrors]))
    # Two pixels between the robot's parts show a bit of wall.
    assert (after[others] != before[others]).any(-1).mean() < 0.005


def test_the_destination_takes_the_table_s_colour_and_nothing_else_does():
    task = pro("object_texture")
    assert recolour.destination_of(task) == "plate_1"
    np.testing.assert_array_equal(task.load_init_states()[3], plain().load_init_states()[3])
    (before, seen), (after, _) = drawn_plainly(), drawn(task)
    plate = geoms_of(task, task.scene.entities["plate_1"].body)
    shown = after[np.isin(seen, plate)].mean(0)
    assert shown[0] > shown[1] > shown[2]  # sand, not white with red
    others = away_from(seen, plate)
    np.testing.assert_array_equal(after[others], before[others])


# Shapes, poses, layouts.


def test_a_target_of_half_the_size_really_is():
    task, name = pro("object_shape"), "akita_black_bowl_1"
    before, after = model_of(plain().scene), model_of(task.scene)
    body = before.body(plain().scene.entities[name].body).id
    np.testing.assert_allclose(after.body_mass[body], before.body_mass[body] / 8, rtol=1e-6)
    inside = before.body_rootid[before.geom_bodyid] == body
    np.testing.assert_allclose(after.geom_size[inside], before.geom_size[inside] / 2, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(after.geom_rbound[inside], before.geom_rbound[inside] / 2, rtol=1e-6)
    np.testing.assert_array_equal(after.geom_size[~inside], before.geom_size[~inside])
    # A ray from far above hits its rim, or the inside of it, at half its height above what it stands on.
    low = shape.lowest(plain(), name, np.asarray(plain().load_init_states()[0]), None)
    assert shape.lowest(task, name, np.asarray(task.load_init_states()[0]), None) == pytest.approx(low, abs=1e-6)
    tops = []
    for one, model in ((plain(), before), (task, after)):
        data = mujoco.MjData(model)
        data.qpos[:] = np.asarray(one.load_init_states()[0])[1 : 1 + model.nq]
        mujoco.mj_forward(model, data)
        hit = np.zeros(1, np.int32)
        reach = mujoco.mj_ray(model, data, data.xipos[body] + [0, 0, 1], np.array([0.0, 0, -1]), None, 1, -1, hit)
        assert inside[hit[0]]
        tops.append(data.xipos[body][2] + 1 - reach - low)
    assert tops[1] == pytest.approx(tops[0] / 2, abs=2e-3)


def test_a_displaced_target_is_turned_keeps_its_rest_and_touches_nothing():
    task, base = pro("initial_pose_position_angle"), plain()
    for row in (0, 7):
        ours, theirs = np.asarray(task.load_init_states()[row]), np.asarray(base.load_init_states()[row])
        at = pose_at(task, "akita_black_bowl_1")
        assert np.linalg.norm(ours[at][:2] - theirs[at][:2]) >= pose.LEAST_M - 1e-9
        mats = [np.zeros(9), np.zeros(9)]
        for mat, state in zip(mats, (ours, theirs), strict=True):
            mujoco.mju_quat2Mat(mat, state[at][3:])
        a, b = (m.reshape(3, 3) for m in mats)
        np.testing.assert_allclose(a[2], b[2], atol=1e-9)  # what points up still does
        turn = a @ b.T
        assert np.rad2deg(np.arctan2(turn[1, 0], turn[0, 0])) == pytest.approx(45.0)
        rest = np.ones(len(ours), bool)
        rest[at] = False
        np.testing.assert_array_equal(ours[rest], theirs[rest])


def test_the_occluder_stands_on_the_table_hides_the_target_and_is_nobody_s():
    task = pro("view_occlusion", "libero_spatial", 6)
    base = libero_task("libero_spatial", 6)
    model = model_of(task.scene)
    assert model.nq == model_of(base.scene).nq
    assert set(task.scene.entities) == set(base.scene.entities)
    (body,) = [b for b in range(model.nbody) if model.body(b).name.startswith("occluder_")]
    assert model.body_weldid[body] == 0  # nothing moves it
    height = 2 * 1.6 * 0.0672  # of the book's box, 1.6 times as large
    data = mujoco.MjData(model)
    model = mujoco.MjModel.__copy__(model)
    at = posed(task)
    model.body_pos[:], model.body_quat[:] = at.body_pos, at.body_quat
    mujoco.mj_kinematics(model, data)
    assert shape.lowest_point(model, data, body) == pytest.approx(0.9, abs=1e-3)
    (box,) = [g for g in range(model.ngeom) if model.geom_bodyid[g] == body and model.geom_contype[g]]
    assert 2 * model.geom_size[box].max() == pytest.approx(height, rel=1e-3)
    shown = [
        np.isin(drawn(one)[1], geoms_of(one, one.scene.entities["akita_black_bowl_1"].body)).sum()
        for one in (base, task)
    ]
    assert shown[1] < 0.5 * shown[0]


def test_distractors_that_would_stand_in_the_occluder_are_drawn_again():
    task, source = pro("view_occlusion", "libero_object", 0), Source("pro", "view_occlusion", "libero_object", 0, "", 5)
    released, own = (case_of(source, {}, task, "distractor_burst", 0, redraw=redraw) for redraw in (False, True))
    assert re.fullmatch(r"pro-view-occlusion-object-t00-i05-distractor_burst-d0-redrawn\d+-p195", own["case_id"])
    assert released["case_id"] == "pro-view-occlusion-object-t00-i05-distractor_burst-d0-p195"
    assert own["scenario"]["randomization"]["sampler"] != released["scenario"]["randomization"]["sampler"]
    row = np.asarray(task.load_init_states()[5])
    target = row[pose_at(task, task.trigger_entity)][:2]
    occluder = task.extra["occluder"](5)
    model = model_of(task.scene)
    (body,) = [b for b in range(model.nbody) if model.body(b).name.startswith("occluder_")]
    np.testing.assert_array_equal(occluder.pos, task.load_fields(5)["body_pos"][body][:2])
    model = mujoco.MjModel.__copy__(model)
    data = mujoco.MjData(model)
    model.body_pos[body], model.body_quat[body] = [*occluder.pos, 1.0], [1, 0, 0, 0]
    mujoco.mj_kinematics(model, data)
    (box,) = [g for g in range(model.ngeom) if model.geom_bodyid[g] == body and model.geom_contype[g]]
    for case, clear in ((released, False), (own, True)):
        gaps = []
        for part in case["scenario"]["change"]["placements"]:
            away = data.geom_xmat[box].reshape(3, 3).T @ ([*(target + part["offset_m"][:2]), 1.0] - data.geom_xpos[box])
            outside = np.maximum(np.abs(away) - model.geom_size[box], 0)
            gaps.append(np.linalg.norm(outside) - RADIUS_M[task.scene.entities[part["object"]].category])
        assert (min(gaps) >= GAP_M - 1e-6) == clear


def test_a_level_moves_what_stands_on_the_table_with_what_it_carries():
    base = libero_task("libero_spatial", 3)  # the bowl is on the cookie box
    task = plus("Objects Layout", "level5_sample2", "libero_spatial", 3)
    assert len(task.load_init_states()) == 1
    assert carried_by(base, "cookies_1") == ("akita_black_bowl_1",)
    ours, theirs = np.asarray(task.load_init_states()[0]), np.asarray(base.load_init_states()[0])
    moved = {n: ours[pose_at(base, n)][:3] - theirs[pose_at(base, n)][:3] for n in base.scene.objects}
    np.testing.assert_allclose(moved["akita_black_bowl_1"], moved["cookies_1"], atol=1e-12)
    far = [np.linalg.norm(by[:2]) for by in moved.values()]
    assert max(far) <= 0.05 + 1e-9
    assert min(f for f in far if f) >= 0.75 * 0.05 - 1e-9
    assert all(by[2] == 0.0 for by in moved.values())
    assert physics_key(task) == base.scene.key


def test_a_goal_region_s_namesake_stays():
    assert layout.goal_marks(libero_task("libero_goal", 5)) == {"flat_stove_1"}


@pytest.mark.slow
def test_extra_objects_come_beside_the_task_s_own():
    task, base = plus("Objects Layout", "add_4"), plain()
    extras = [name for name in task.scene.objects if name not in base.scene.objects]
    assert 1 <= len(extras) <= 4
    assert task.goal == base.goal
    assert task.instruction == base.instruction
    ours, theirs = np.asarray(task.load_init_states()[0]), np.asarray(base.load_init_states()[0])
    for name in base.scene.objects:
        np.testing.assert_array_equal(ours[pose_at(task, name)], theirs[pose_at(base, name)])
    categories = [task.scene.entities[name].category for name in task.scene.objects]
    assert len(set(categories[len(base.scene.objects) :]) & set(categories[: len(base.scene.objects)])) == 0


def test_a_variant_of_other_shapes_has_no_lean_form():
    with pytest.raises(BenchError, match="its variant changes the shapes of the scene; run it with --scene-form exact"):
        tasks.lean_task(pro("object_shape", "libero_object", 0))
    tasks.lean_task(pro("camera_view_angle", "libero_object", 0))


# Words and names.


def test_no_name_of_a_variant_ever_reaches_a_prompt():
    leaks = re.compile(r"view|initstate|level|sample|noise|light \d|table \d|tb|add \d|language|\d|_")
    for suite in package.SUITES[:4]:
        for row in tasks.task_table(suite):
            own = row.instruction
            for category, name in NAMES.items():
                if category == "Objects Layout":
                    continue
                said = variants.plus_variant(category, suite, row.index, name)["language"]
                assert not leaks.search(said), said
                assert (said == own) == (category != "Language Instructions")
    for category, name in NAMES.items():
        variant = variants.plus_variant(category, SUITE, INDEX, name)
        assert plus(category).instruction == variant["language"]


def test_paraphrases_are_fifty_and_name_the_same_things():
    for suite in package.SUITES[:4]:
        for row in tasks.task_table(suite):
            words = wording.paraphrases(row.instruction)
            assert len(set(words)) == wording.COUNT
            nouns = set(row.instruction.split()) & {
                "bowl",
                "plate",
                "stove",
                "basket",
                "drawer",
                "cabinet",
                "mug",
                "rack",
            }
            assert all(nouns <= set(w.split()) for w in words)


def test_variants_are_told_apart_and_unknown_ones_refused():
    made = [plus(c) for c in NAMES] + [pro(c) for c in catalogue.PRO_FOLDERS]
    assert len({task.version for task in made} | {plain().version}) == len(made) + 1
    with pytest.raises(BenchError, match="'light_0' is no variant of LIBERO-Plus's Light Conditions"):
        variants.plus_variant("Light Conditions", SUITE, INDEX, "light_0")
    with pytest.raises(BenchError, match="LIBERO-Plus category"):
        variants.plus_variant("Lights", SUITE, INDEX, "light_1")
    good = variants.plus_variant("Light Conditions", SUITE, INDEX, "light_1")
    with pytest.raises(BenchError, match=r"substrate_variant.bddl_file = .* expected a variant of"):
        tasks.load_variant({**good, "bddl_file": "libero_goal/other_light_1.bddl"}, SUITE, INDEX)
    with pytest.raises(BenchError, match=r"substrate_variant.source_revision = 'x'"):
        tasks.load_variant({**good, "source_revision": "x"}, SUITE, INDEX)
    with pytest.raises(BenchError, match="LIBERO-PRO has no variants of 'libero_90'"):
        tasks.load_variant(variants.pro_variant("object_shape", "libero_90", 0, "x"), "libero_90", 0)
