"""The Warp renderer: OpenGL's pictures within named bounds, MJX's own geoms and depths, whatever the tiles and threads."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import gc
import os
import shutil
import subprocess
import sys
from pathlib import Path

import mujoco
import numpy as np
import pytest

from evals.registry import load_task
from mjx_bench import runtime
from mjx_bench.bench.fidelity import Likeness
from mjx_bench.bench.pictures import primitive_poses, primitive_scene, task_poses
from mjx_bench.errors import BenchError, MissingExtra
from mjx_bench.observe import warp_renderer
from mjx_bench.observe.base import MAX_SIDE
from mjx_bench.observe.looks import FIELDS
from mjx_bench.observe.warp_renderer import WarpRenderer
from mjx_bench.physics.base import Pose, Visual
from mjx_bench.task import Robot, Scene
from tests.libero_oracle import needs_libero
from tests.pictures import SCENE, balls, renderer
from tests.scenes import SEED, libero_task

pytest.importorskip("warp")
warp_scene = pytest.importorskip("mjx_bench.observe.warp_scene")
warp_textures = pytest.importorskip("mjx_bench.observe.warp_textures")
warp_meshes = pytest.importorskip("mjx_bench.observe.warp_meshes")

SIZE = 96

# Visual events of lanes that share a batch, with untouched lanes between them.
EVENTS = (
    (),
    (Visual("set_lighting", {"scale": 0.2}),),
    (),
    (
        Visual(
            "shift_camera", {"camera": "top", "delta_position_m": [0.1, 0, 0.2], "yaw_degrees": 10, "fovy_degrees": 60}
        ),
    ),
    (Visual("set_visual_theme", {"rgb_permutation": [2, 0, 1], "rgb_multiplier": [0.7, 1.15, 1.3]}),),
    (),
)

# Everything that the renderer knows: each kind of geom, flat and cube textures, repeated by geom and by metre, glass, a
# mirror, lights of both kinds with and without shadows.
EVERYTHING = """
<mujoco>
  <visual><headlight ambient=".2 .2 .2" diffuse=".2 .2 .2"/><quality shadowsize="8192"/></visual>
  <asset>
    <texture name="flat" type="2d" builtin="checker" rgb1=".9 .9 .9" rgb2=".3 .2 .2" width="60" height="60"/>
    <texture name="cube" type="cube" builtin="gradient" rgb1=".9 .2 .2" rgb2=".2 .2 .9" width="32" height="192"/>
    <texture name="sky" type="skybox" builtin="gradient" rgb1=".4 .6 .8" rgb2="0 0 0" width="32" height="192"/>
    <material name="floor" texture="flat" texrepeat="2 2" texuniform="true"/>
    <material name="flat" texture="flat" texrepeat="2 3"/>
    <material name="cube" texture="cube"/>
    <material name="shiny" rgba=".8 .3 .2 1" specular="1" shininess=".8"/>
    <material name="glass" rgba=".2 .6 .9 .4"/>
    <material name="mirror" rgba=".4 .4 .4 1" reflectance=".4"/>
    <material name="glowing" rgba=".2 .9 .2 1" emission=".6" specular="0"/>
    <mesh name="wedge" vertex="0 0 0  .3 0 0  0 .3 0  .3 .3 0  0 0 .2  0 .3 .2"/>
  </asset>
  <worldbody>
    <camera name="front" pos="0 -2.2 1.6" xyaxes="1 0 0 0 .6 .8" fovy="50"/>
    <camera name="back" pos="1.5 1.5 1.5" xyaxes="-.7 .7 0 -.4 -.4 .8" fovy="60"/>
    <light pos="1 -1 3" dir="-.3 .3 -1" diffuse=".7 .7 .7" castshadow="{casts}"/>
    <light pos="-1 -1 3" dir=".3 .3 -1" diffuse=".5 .4 .3" directional="true" castshadow="{casts}"/>
    <geom type="plane" size="2 2 .1" material="floor"/>
    <geom type="box" size=".2 .2 .2" pos="0 0 .2" material="shiny"/>
    <geom type="box" size=".1 .15 .1" pos="-.2 .5 .1" material="cube" euler="0 0 20"/>
    <geom type="sphere" size=".2" pos=".6 0 .3" material="flat"/>
    <geom type="capsule" size=".1 .2" pos="-.6 0 .4" material="glowing"/>
    <geom type="cylinder" size=".15 .2" pos="0 -.6 .2" material="flat"/>
    <geom type="ellipsoid" size=".2 .1 .15" pos=".6 -.6 .3" rgba=".2 .2 .9 1"/>
    <geom type="box" size=".2 .02 .2" pos="-.6 -.6 .2" material="glass"/>
    <geom type="box" size=".3 .3 .02" pos=".4 .7 .02" material="mirror"/>
    <geom type="mesh" mesh="wedge" pos="-.9 .3 0" rgba=".9 .8 .2 1"/>
  </worldbody>
</mujoco>
"""


def scene_of(xml: str, key: str) -> Scene:
    model = mujoco.MjSpec.from_string(xml).compile()
    cameras = tuple(model.camera(i).name for i in range(model.ncam))
    robot = Robot((), (), (), (), "", "", ((), ()), ((), ()))
    return Scene(key, {}, {}, (), robot, cameras, lambda: mujoco.MjSpec.from_string(xml), observed=cameras)


def still(scene: Scene) -> Pose:
    model = scene.load_spec().compile()
    return Pose(model.qpos0.copy(), model.body_pos.copy(), model.body_quat.copy())


def drawn(name: str, scene: Scene, poses: list[Pose], size: int = SIZE) -> dict[str, np.ndarray]:
    with renderer(name, scene, scene.observed or scene.cameras, size, len(poses)) as made:
        return made.render(poses)


@pytest.mark.parametrize("casts", ["false", "true"])
def test_all_that_a_scene_may_hold_looks_as_in_opengl(casts):
    scene = scene_of(EVERYTHING.format(casts=casts), f"everything-{casts}")
    ours, reference = (drawn(name, scene, [still(scene)], 192) for name in ("warp", "gl"))
    for camera in scene.cameras:
        found = Likeness.of(ours[camera], reference[camera])
        # Shadows have sharp edges here, where OpenGL's are as coarse as its map of them.
        assert found.difference < (1.0 if casts == "false" else 2.0), (camera, found)
        assert found.similarity > (0.98 if casts == "false" else 0.96), (camera, found)


@needs_libero
@pytest.mark.parametrize(
    ("suite", "index"),
    [
        ("libero_spatial", 0),
        pytest.param("libero_object", 0, marks=pytest.mark.slow),  # a floor whose texture is in sRGB
        pytest.param("libero_goal", 3, marks=pytest.mark.slow),
        pytest.param("libero_10", 2, marks=pytest.mark.slow),  # lit brighter than 1
        pytest.param("libero_10", 9, marks=pytest.mark.slow),  # a window
    ],
)
def test_libero_looks_as_in_opengl(suite, index):
    task = libero_task(suite, index)
    poses = task_poses(task, 2, SEED)
    ours, reference = (drawn(name, task.scene, poses, 128) for name in ("warp", "gl"))
    for camera in task.scene.observed:
        found = Likeness.of(ours[camera], reference[camera])
        assert found.difference < 3.0, (camera, found)
        assert found.similarity > 0.94, (camera, found)


def test_each_lane_has_looks_of_its_own_and_an_untouched_lane_keeps_every_bit():
    poses = [dataclasses.replace(balls(), visual=visual) for visual in EVENTS]
    poses.append(dataclasses.replace(balls(), fields={"geom_size": np.full((6, 3), 0.07)}))
    ours, reference = (drawn(name, SCENE, poses) for name in ("warp", "gl"))
    for camera in SCENE.cameras:
        for i, visual in enumerate((*EVENTS, ("fields",))):
            assert visual == () or (ours[camera][i] != ours[camera][0]).any() or camera == "side"
            assert visual != () or np.array_equal(ours[camera][i], ours[camera][0])
            assert Likeness.of(ours[camera][i : i + 1], reference[camera][i : i + 1]).difference < 1.0, (camera, i)


def test_a_geoms_own_colour_hides_its_materials_once_a_theme_has_changed_it():
    """The rule that a theme turns on: after it textured geoms are tinted by their own colour, not their material's."""
    xml = """<mujoco><asset><material name="red" rgba="1 0 0 1" specular="0"/></asset><worldbody>
      <camera name="c" pos="0 0 2"/><geom size=".5" material="red"/></worldbody></mujoco>"""
    scene = scene_of(xml, "theme")
    theme = Visual("set_visual_theme", {"rgb_permutation": [0, 1, 2], "rgb_multiplier": [0.2, 1.0, 1.8]})
    plain, themed = drawn("warp", scene, [still(scene), dataclasses.replace(still(scene), visual=(theme,))])["c"]
    middle = SIZE // 2
    assert plain[middle, middle, 0] > 100
    assert plain[middle, middle, 1:].max() == 0, "the material's red"
    red, green, blue = themed[middle, middle].astype(int)
    assert red < green < blue, "the geom's grey, themed"


def test_pictures_do_not_depend_on_the_tile_or_the_neighbours():
    poses = [balls(red=(0.05 * i, 0, 1), knob=0.1 * i) for i in range(8)]
    poses = [dataclasses.replace(pose, visual=EVENTS[i % len(EVENTS)]) for i, pose in enumerate(poses)]
    found = []
    for tile, order in ((1, 1), (3, 1), (8, 1), (3, -1)):
        with contextlib.closing(WarpRenderer(SCENE, SCENE.cameras, SIZE, SIZE, 8, tile)) as made:
            queries = made.render, made.segmentation, made.depth
            found.append([query(poses[::order])[camera][::order] for query in queries for camera in made.cameras])
            alone = [query(poses[5:6])[camera][0] for query in queries for camera in made.cameras]
            assert all(np.array_equal(one, many[5]) for one, many in zip(alone, found[-1], strict=True))
    for other in found[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(found[0], other, strict=True))


@needs_libero
@pytest.mark.slow
def test_pictures_of_libero_do_not_depend_on_the_tile():
    task = libero_task("libero_goal", 0)
    poses = task_poses(task, 8, SEED)
    found = []
    for tile in (1, 3, 8):
        with contextlib.closing(WarpRenderer(task.scene, task.scene.observed, 64, 64, 8, tile)) as made:
            found.append(made.render(poses))
    for other in found[1:]:
        assert all(np.array_equal(found[0][camera], other[camera]) for camera in task.scene.observed)


@pytest.mark.slow
def test_geoms_and_depths_are_those_of_mjx_render():
    import jax
    from mujoco import mjx

    scene = primitive_scene()
    pose = primitive_poses(scene, 1)[0]
    with contextlib.closing(WarpRenderer(scene, scene.cameras, 64, 64)) as made:
        seen, depth = made.segmentation([pose]), made.depth([pose])
    model = scene.load_spec().compile()
    data = mujoco.MjData(model)
    data.qpos[:] = pose.qpos
    mujoco.mj_kinematics(model, data)
    mujoco.mj_camlight(model, data)
    context = mjx.create_render_context(
        model,
        nworld=1,
        cam_res=(64, 64),
        enabled_geom_groups=[0, 1, 2],
        render_rgb=True,
        render_depth=True,
        render_seg=True,
        use_precomputed_rays=False,
    )
    handle = context.pytree()
    lanes = jax.vmap(lambda _: mjx.make_data(model, impl="warp", naconmax=8, njmax=8))(np.arange(1))
    lanes = lanes.replace(
        geom_xpos=data.geom_xpos[None].astype(np.float32),
        geom_xmat=data.geom_xmat[None].astype(np.float32).reshape(1, -1, 3, 3),
        cam_xpos=data.cam_xpos[None].astype(np.float32),
        cam_xmat=data.cam_xmat[None].astype(np.float32).reshape(1, -1, 3, 3),
    )
    put = mjx.put_model(model, impl="warp")
    _, depths, geoms, _ = jax.jit(
        lambda lanes: mjx.render_with_segmentation(put, mjx.refit_bvh(put, lanes, handle), handle)
    )(lanes)
    geoms = np.asarray(geoms)[..., 0].reshape(len(scene.cameras), 64, 64)
    depths = np.asarray(depths).reshape(len(scene.cameras), 64, 64)
    assert (geoms >= 0).mean() > 0.5
    for c, camera in enumerate(scene.cameras):
        np.testing.assert_array_equal(seen[camera][0], geoms[c])
        # The rays' directions are rounded otherwise: MJX scales them to the near plane first.
        np.testing.assert_allclose(depth[camera][0], np.where(geoms[c] < 0, np.inf, depths[c]), atol=1e-4)


def test_segmentation_and_depth_are_opengls_but_for_outlines():
    poses = [balls(knob=1.0), balls(red=(0.2, -0.3, 1.2))]
    with renderer("gl", SCENE, SCENE.cameras, SIZE) as gl, renderer("warp", SCENE, SCENE.cameras, SIZE, 2) as warp:
        for camera in SCENE.cameras:
            ours, reference = (made.segmentation(poses)[camera] for made in (warp, gl))
            assert ours.dtype == np.int32
            assert (ours != reference).mean() < 0.01
            same = ours == reference
            near, far = (made.depth(poses)[camera] for made in (warp, gl))
            assert near.dtype == np.float32
            np.testing.assert_array_equal(np.isinf(near), ours < 0)
            # OpenGL draws a ball as flat pieces that lie some millimetres inside it where they are seen from the side.
            np.testing.assert_allclose(near[same], far[same], atol=0.01)
            there = same & (ours >= 0)
            assert np.abs(near[there] - far[there]).mean() < 1e-3


def test_renderers_of_two_threads_do_not_meet():
    scenes = [SCENE, primitive_scene()]
    poses = [[balls(red=(0.1, 0, 1.2), knob=1.0)] * 3, primitive_poses(scenes[1], 3)]
    alone = [drawn("warp", scene, some) for scene, some in zip(scenes, poses, strict=True)]

    def many(i: int) -> bool:
        with contextlib.closing(WarpRenderer(scenes[i], scenes[i].cameras, SIZE, SIZE, 3)) as made:
            return all(
                np.array_equal(found[camera], alone[i][camera])
                for found in (made.render(poses[i]) for _ in range(10))
                for camera in scenes[i].cameras
            )

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert all(pool.map(many, (0, 1, 0, 1)))


def test_renderers_of_a_scene_share_it_and_the_last_one_frees_it():
    first, second = (WarpRenderer(SCENE, SCENE.cameras, SIZE, SIZE) for _ in range(2))
    assert first._scene is second._scene
    assert [kept.users for kept in warp_scene._POOL.values()] == [2]
    before = second.render([balls()])
    first.close()
    first.close()
    after = second.render([balls()])
    assert all(np.array_equal(before[camera], after[camera]) for camera in SCENE.cameras)
    with pytest.raises(BenchError, match="closed"):
        first.render([balls()])
    second.close()
    assert not warp_scene._POOL


def test_a_scene_that_fails_is_not_kept():
    xml = """<mujoco><asset><hfield name="h" nrow="2" ncol="2" size="1 1 1 1"/></asset><worldbody><camera name="c"/>
      <geom name="hills" type="hfield" hfield="h"/></worldbody></mujoco>"""
    with pytest.raises(BenchError, match="'hills' is a mjGEOM_HFIELD; render this scene with gl"):
        WarpRenderer(scene_of(xml, "hills"), ("c",), SIZE, SIZE)
    assert not warp_scene._POOL


@pytest.mark.parametrize("cycles", [8, pytest.param(40, marks=pytest.mark.slow)])
def test_what_a_renderer_takes_it_gives_back(cycles):
    def held() -> int:
        gc.collect()
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def cycle() -> None:
        with contextlib.closing(WarpRenderer(SCENE, SCENE.cameras, 128, 128, 8, 8)) as made:
            made.render([balls()] * 8)

    for _ in range(3):
        cycle()
    start = held()
    for _ in range(cycles):
        cycle()
    assert held() - start < 6 * 2**20, "a context of 8 lanes takes 4 MiB"


def test_a_second_process_compiles_nothing(tmp_path):
    script = """
import sys, warp
sys.path.insert(0, ".")
from tests.test_warp_renderer import SCENE, balls, WarpRenderer
renderer = WarpRenderer(SCENE, SCENE.cameras, 16, 16)
warp.config.log_level = warp.LOG_INFO
renderer.render([balls()])
renderer.close()
"""
    drawn("warp", SCENE, [balls()])  # here they are built, if they were not before
    cache = Path(runtime.defaults()["WARP_CACHE_PATH"])
    # A copy: other tests compile into the shared one meanwhile, and what they are at comes and goes.
    for path in cache.rglob("*"):
        copy = tmp_path / path.relative_to(cache)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file():
            with contextlib.suppress(FileNotFoundError):
                shutil.copy(path, copy)
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert before
    env = {**os.environ, "WARP_CACHE_PATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=env)
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == before
    assert "compiled" not in done.stdout + done.stderr
    assert "Warp" not in done.stderr, "neither its banner nor its search for a GPU's driver"


@pytest.mark.parametrize(
    ("cameras", "height", "width", "message"),
    [
        (("sidee",), 8, 8, "unknown camera 'sidee'; did you mean side"),
        (("side",), 0, 8, f"pictures of height 0; give 1 to {MAX_SIDE} pixels"),
        (("side",), 8, MAX_SIDE + 1, f"pictures of width {MAX_SIDE + 1}; give 1 to {MAX_SIDE} pixels"),
    ],
)
def test_a_mistake_is_one_line(cameras, height, width, message):
    with pytest.raises(BenchError, match=message):
        WarpRenderer(SCENE, cameras, height, width)


def test_a_pose_of_another_scene_is_refused():
    with contextlib.closing(WarpRenderer(SCENE, SCENE.cameras, 8, 8, 2)) as made:
        with pytest.raises(BenchError, match="another scene"):
            made.render([balls(), dataclasses.replace(balls(), qpos=np.zeros(3))])
        assert made.render([])["side"].shape == (0, 8, 8, 3)
        assert made.render([balls()] * 2)["side"].any(), "and the renderer works on"


def test_without_warp_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    warp_renderer._warp.cache_clear()
    monkeypatch.setitem(sys.modules, "warp", None)
    with pytest.raises(MissingExtra, match=r"pip install -e '.\[warp\]'"):
        warp_renderer.platform()
    with pytest.raises(MissingExtra, match=r"pip install -e '.\[warp\]'"):
        WarpRenderer(SCENE, SCENE.cameras, 8, 8)
    monkeypatch.undo()
    warp_renderer._warp.cache_clear()
    assert warp_renderer.platform().startswith("warp ")


def test_every_look_that_an_event_changes_reaches_the_kernels():
    """A field that `looks` learns to change, and this renderer does not read, would be lost in silence."""
    read = {
        "light_ambient",
        "light_diffuse",
        "light_specular",
        "cam_pos",
        "cam_quat",
        "cam_fovy",
        "geom_rgba",
        "mat_rgba",
    }
    assert set(FIELDS) == read


def test_pieces_of_triangles_cover_them_without_gaps():
    rng = np.random.default_rng(0)
    # A fan over half a disc, one spike, and a speck that is not touched.
    angles = np.linspace(0, np.pi, 40)
    rim = np.stack([np.cos(angles), np.sin(angles), 0.1 * rng.normal(size=40)], 1)
    vertices = np.concatenate([np.zeros((1, 3)), rim, [[0, 0, 3], [5, 5, 5], [5.01, 5, 5], [5, 5.01, 5]]]).astype(
        np.float32
    )
    faces = np.array([*((0, i, i + 1) for i in range(1, 40)), (0, 20, 41), (42, 43, 44)], np.int32)
    points, pieces, source = warp_meshes.pieces_of(vertices, faces, 0.3)

    def area(points: np.ndarray, faces: np.ndarray) -> np.ndarray:
        a, b, c = (points[faces[:, i]].astype(np.float64) for i in range(3))
        return np.linalg.norm(np.cross(b - a, c - a), axis=1) / 2

    np.testing.assert_array_equal(points[: len(vertices)], vertices)
    np.testing.assert_allclose(np.bincount(source, area(points, pieces)), area(vertices, faces), rtol=1e-5)
    edges = np.linalg.norm(points[pieces] - points[pieces[:, [1, 2, 0]]], axis=2)
    assert edges.max() <= 0.3
    assert (source == len(faces) - 1).sum() == 1
    # Every edge inside the fan has two sides: what lies on it, by place, is the same for both its triangles.
    sides: dict[tuple[bytes, ...], int] = {}
    for piece in pieces[source < 39]:
        for i in range(3):
            edge = tuple(sorted((points[piece[i]].tobytes(), points[piece[(i + 1) % 3]].tobytes())))
            sides[edge] = sides.get(edge, 0) + 1
    ends = np.array([[np.frombuffer(end, np.float32) for end in edge] for edge, count in sides.items() if count == 1])
    radii = np.linalg.norm(ends[..., :2], axis=2)
    flat = np.abs(ends[..., 1]) < 1e-6  # the fan's two outer spokes
    assert (flat.all(1) | (radii > 0.99).all(1)).all(), "an edge with one side lies on the rim"


def test_a_pyramid_keeps_the_mean_of_a_picture():
    picture = np.zeros((255, 64, 3), np.uint8)
    picture[-1] = 255  # the row that halving pairs would drop
    levels = warp_textures.pyramid(picture, 64)
    assert [level.shape[:2] for level in levels] == [(63, 16), (31, 8), (15, 4), (7, 2), (3, 1), (1, 1)]
    assert levels[0].mean() == pytest.approx(picture.mean(), rel=0.3)
    flat = warp_textures.pyramid(np.full((8, 8, 3), 77, np.uint8), 8)
    assert all((level == 77).all() for level in flat)


def test_an_instance_of_the_native_suite_looks_as_in_opengl():
    task = load_task("tabletop", 6)
    state, fields = task.load_init_states()[5], dict(task.load_fields(5))
    nq = task.scene.load_spec().compile().nq
    pose = Pose(state[1 : 1 + nq], fields.pop("body_pos"), fields.pop("body_quat"), fields=fields)
    gl, warp = (drawn(name, task.scene, [pose]) for name in ("gl", "warp"))
    for camera, picture in gl.items():
        assert np.abs(picture.astype(int) - warp[camera]).mean() < 4.0, camera


def test_a_model_that_mjx_refuses_is_a_mistake_of_one_line(monkeypatch):
    def refuse(model):
        raise NotImplementedError("there is no such geom")

    monkeypatch.setattr("mujoco.mjx.third_party.mujoco_warp.put_model", refuse)
    with pytest.raises(BenchError, match="cannot draw this scene: there is no such geom; take gl instead"):
        WarpRenderer(SCENE, SCENE.cameras, 16, 16)
