"""The OpenGL renderer on a small scene of known geometry, and everything that it refuses."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import gc
import os
import threading

import numpy as np
import pytest

from mjx_bench.errors import BenchError
from mjx_bench.observe import gl_platform
from mjx_bench.observe.base import MAX_SIDE
from mjx_bench.observe.gl_renderer import GlRenderer
from mjx_bench.observe.lane_model import LaneModel
from mjx_bench.physics.base import Visual
from tests.pictures import SCENE, balls, centre_of, pixel_of, renderer

SIZE = 96
SIDE = (np.array([0.0, -2.0, 1.0]), np.array([[1, 0, 0], [0, 0, -1], [0, 1, 0]]), 60.0)  # pos, axes, fovy

# Everything that a lane may change of the looks, and a sensor's fault, which is none of the renderer's business.
EDITS = (
    Visual("set_lighting", {"scale": 0.2}),
    Visual(
        "shift_camera", {"camera": "side", "delta_position_m": [0.1, 0, 0.1], "yaw_degrees": 10, "fovy_degrees": 70}
    ),
    Visual("set_visual_theme", {"rgb_permutation": [2, 0, 1], "rgb_multiplier": [0.7, 1.15, 1.3]}),
    Visual("set_sensor_corruption", {"noise_std": 24.0, "occlusion_fraction": 0.08, "seed": 1}),
)


@pytest.fixture(scope="module")
def gl():
    with renderer("gl", SCENE, ("top", "side"), SIZE) as made:
        yield made


def geom(name: str) -> int:
    return SCENE.load_spec().compile().geom(name).id


def test_pictures_are_upright_rgb_and_not_mirrored(gl):
    pictures = gl.render([balls()])
    assert list(pictures) == ["side", "top"], "in the scene's order, not in the caller's"
    side = pictures["side"]
    assert side.shape == (1, SIZE, SIZE, 3)
    assert side.dtype == np.uint8
    for name, channel, point in (("red", 0, (0, 0, 1)), ("green", 1, (0.5, 0, 1)), ("blue", 2, (0, 0, 1.5))):
        row, column = pixel_of(point, *SIDE, SIZE).round().astype(int)
        assert side[0, row, column].argmax() == channel, name
    red, green, blue = (pixel_of(point, *SIDE, SIZE) for point in ((0, 0, 1), (0.5, 0, 1), (0, 0, 1.5)))
    assert blue[0] < red[0], "up is a smaller row"
    assert green[1] > red[1], "right is a larger column"


def test_segmentation_is_where_balls_project_to(gl):
    at = {"red": (-0.3, 0.4, 0.7), "green": (0.2, -0.5, 1.3)}
    pose = balls(**at)
    mask = gl.segmentation([pose])["side"][0]
    assert mask.dtype == np.int32
    assert mask[0, 0] == -1
    for name, point in at.items():
        # A ball's outline is not centred on its middle, by less than half a pixel here.
        np.testing.assert_allclose(centre_of(mask == geom(name)), pixel_of(point, *SIDE, SIZE), atol=0.5)


def test_depth_is_metres_along_the_optical_axis(gl):
    depth = gl.depth([balls()])["side"][0]
    assert depth.dtype == np.float32
    # The board's face is at right angles to the axis: the same depth everywhere, though rays to its corners are longer.
    for x, z in ((-0.75, 0.45), (-0.45, 0.45), (-0.75, 0.75), (-0.6, 0.6)):
        row, column = pixel_of((x, -0.02, z), *SIDE, SIZE).round().astype(int)
        assert depth[row, column] == pytest.approx(2.0 - 0.02, abs=1e-4)
    assert np.isinf(depth[0, 0])
    assert depth.min() == pytest.approx(2.0 - 0.1, abs=5e-3)


def test_only_what_the_scene_shows_is_seen(gl):
    """Neither the hidden group's box nor the marker, and the glow while its joint passes the test."""
    where = tuple(pixel_of((0.6, 0, 0.6), *SIDE, SIZE).round().astype(int))
    off, on = (gl.render([balls(knob=q)])["side"][0] for q in (np.nextafter(0.5, 0), 0.5))
    assert np.ptp(off[where].astype(int)) == 0, "the grey knob"
    assert on[where][0] < on[where][1] == on[where][2], "the glow's cyan"
    changed = np.argwhere((on != off).any(-1))
    radius = 0.08 / 2 * SIZE / 2 / np.tan(np.pi / 6)
    assert np.linalg.norm(changed - where, axis=1).max() <= radius + 1.5, "the glow alone, and its smoothed rim"
    knob = [gl.segmentation([balls(knob=q)])["side"][0] == geom("knob") for q in (0.0, 1.0)]
    np.testing.assert_array_equal(knob[0], knob[1])


def test_a_lane_leaves_nothing_behind(gl):
    plain, moved = balls(), balls(red=(0.1, 0.1, 1.2), knob=1.0)
    edited = dataclasses.replace(moved, visual=EDITS)
    own = dataclasses.replace(plain, fields={"geom_size": np.full((6, 3), 0.07), "geom_rgba": np.full((6, 4), 0.6)})
    poses = [plain, edited, plain, own, plain, dataclasses.replace(own, visual=EDITS[:1]), moved]
    batch = gl.render(poses)
    for name in gl.cameras:
        np.testing.assert_array_equal(batch[name][0], batch[name][2])
        np.testing.assert_array_equal(batch[name][0], batch[name][4])
        for i in (1, 3, 5, 6):
            assert (batch[name][i] != batch[name][0]).any()
        alone = np.stack([gl.render([pose])[name][0] for pose in poses])
        np.testing.assert_array_equal(batch[name], alone)
        np.testing.assert_array_equal(batch[name][::-1], gl.render(poses[::-1])[name])


def test_an_edit_that_cannot_be_shown_leaves_nothing_behind():
    lane = LaneModel(SCENE)
    good = dataclasses.replace(balls(), visual=EDITS)
    wide = Visual("shift_camera", {"camera": "top", "fovy_degrees": 200.0})
    lane.show(good)
    with pytest.raises(BenchError, match="200 degrees"):
        lane.show(dataclasses.replace(good, visual=(*EDITS, wide)))
    lane.show(good)
    fresh = LaneModel(SCENE)
    fresh.show(good)
    for name in ("light_diffuse", "cam_pos", "cam_quat", "cam_fovy", "geom_rgba", "mat_rgba"):
        np.testing.assert_array_equal(getattr(lane.model, name), getattr(fresh.model, name))


def test_no_lanes(gl):
    assert gl.render([])["side"].shape == (0, SIZE, SIZE, 3)


def test_not_square():
    with contextlib.closing(GlRenderer(SCENE, ("side",), 40, 700)) as wide:
        mask = wide.segmentation([balls()])["side"][0]
    assert mask.shape == (40, 700)
    # The field of view is the vertical one.
    np.testing.assert_allclose(centre_of(mask == geom("red")), [19.5, 349.5], atol=0.1)


def test_several_threads_render_the_same_bits(gl):
    """Each thread with a renderer of its own, made and closed there, all drawing at the same time."""
    poses = [balls(red=(0.1 * i, 0, 1)) for i in range(8)]
    expected = gl.render(poses)["side"]
    together = threading.Barrier(4, timeout=60)

    def work(_: int) -> list[np.ndarray]:
        out = []
        for _ in range(3):
            with contextlib.closing(GlRenderer(SCENE, ("side",), SIZE, SIZE)) as mine:
                together.wait()
                out.append(mine.render(poses)["side"])
        return out

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for pictures in pool.map(work, range(4)):
            for seen in pictures:
                np.testing.assert_array_equal(seen, expected)
    np.testing.assert_array_equal(gl.render(poses)["side"], expected)


def resident_mib() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="resident memory is read from /proc")
@pytest.mark.parametrize("cycles", [25, pytest.param(100, marks=pytest.mark.slow)])
def test_made_and_closed_renderers_leave_memory_flat(gl, cycles):
    """One of these holds 2 MiB of picture buffers (256 by 256, four samples of colour and depth)."""

    def cycle() -> None:
        with contextlib.closing(GlRenderer(SCENE, ("side", "top"), 256, 256)) as made:
            made.render([balls()])

    for _ in range(5):
        cycle()
    gc.collect()
    before = resident_mib()
    for _ in range(cycles):
        cycle()
    gc.collect()
    grown = resident_mib() - before
    print(f"{cycles} renderers: {grown:.1f} MiB more")
    assert grown < 8


@pytest.mark.parametrize(
    ("cameras", "height", "width", "message"),
    [
        (("sidd",), 8, 8, "unknown camera 'sidd'; did you mean side"),
        (("side", "wrist"), 8, 8, "unknown camera 'wrist'; known: side, top"),
        (("side",), 0, 8, "height 0"),
        (("side",), 8, -1, "width -1"),
        (("side",), 8, MAX_SIDE + 1, f"width {MAX_SIDE + 1}; give 1 to {MAX_SIDE}"),
    ],
)
def test_bad_requests_are_refused(cameras, height, width, message):
    with pytest.raises(BenchError, match=message):
        GlRenderer(SCENE, cameras, height, width)


def test_a_pose_of_another_scene_and_a_closed_renderer_are_refused(gl):
    pose = balls()
    with pytest.raises(BenchError, match="belongs to another scene"):
        gl.render([dataclasses.replace(pose, qpos=pose.qpos[:-1])])
    made = GlRenderer(SCENE, ("side",), 8, 8)
    made.close()
    made.close()
    with pytest.raises(BenchError, match="closed"):
        made.render([pose])


@pytest.fixture
def fresh_platform():
    gl_platform._find.cache_clear()
    yield
    gl_platform._find.cache_clear()


@pytest.mark.usefixtures("fresh_platform")
class TestPlatform:
    def test_says_what_and_why(self, gl, monkeypatch):
        asked = os.environ["MUJOCO_GL"]
        found = gl_platform.find()
        assert (found.name, found.why) == (asked, f"MUJOCO_GL={asked}")
        assert str(found) == f"{asked} on {found.device}"
        monkeypatch.setenv("MUJOCO_GL", "")
        assert f"{gl_platform.find().name} works" in gl_platform.find().why

    def test_windows_and_disabled_rendering_are_refused(self, monkeypatch):
        for value in ("glx", "glfw", "disable"):
            monkeypatch.setenv("MUJOCO_GL", value)
            with pytest.raises(BenchError, match=f"MUJOCO_GL={value} renders no pictures off screen; unset it"):
                gl_platform.find()

    def test_without_a_driver_the_packages_are_named(self, monkeypatch):
        """EGL that finds no driver, and no library of OSMesa's either."""
        monkeypatch.setenv("__EGL_VENDOR_LIBRARY_FILENAMES", "/nowhere.json")
        monkeypatch.setenv("MUJOCO_GL", "egl")
        with pytest.raises(BenchError, match=r"egl does not work: .*Debian package libegl1"):
            gl_platform.find()
        if gl_platform._try("osmesa")[0]:
            pytest.skip("OSMesa is installed")
        monkeypatch.setenv("MUJOCO_GL", "")
        with pytest.raises(BenchError, match=r"libegl1\).*osmesa does not work: .*Debian package libosmesa6"):
            gl_platform.find()

    def test_osmesa_is_taken_where_egl_does_not_work(self, monkeypatch):
        if not gl_platform._try("osmesa")[0]:
            pytest.skip("OSMesa is not installed (Debian package libosmesa6)")
        monkeypatch.setenv("__EGL_VENDOR_LIBRARY_FILENAMES", "/nowhere.json")
        monkeypatch.setenv("MUJOCO_GL", "")
        found = gl_platform.find()
        assert found.name == "osmesa"
        assert "egl does not work" in found.why
