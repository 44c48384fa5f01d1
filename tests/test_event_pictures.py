"""Every event changes the pictures as it should and only so, from the first picture on, whoever renders them.

What should be seen is computed without a renderer: from the geometry of a pinhole camera, from rays that are cast through
pixels by MuJoCo, and from colours by the rules of section 2 of the LIBERO-MAX format.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools

import numpy as np
import pytest

from evals.libero_max.sampler import CAMERA, sample_manifest
from mjx_bench.cases import Case
from mjx_bench.changes import Change
from mjx_bench.events import apply_change
from mjx_bench.observe.pictures import Pictures
from mjx_bench.physics.base import Visual
from tests.libero_picture_oracle import CAMERAS
from tests.pictures import LANE, SCENE, SIZE, World, balls, centre_of, grown, pixel_of, renderer, seen_by_rays
from tests.scenes import libero_task

AGENT, WRIST = CAMERAS

# Pixels around a moved object that may change with it: pictures are smoothed over the neighbours of an edge. The scenes'
# lights cast no shadows.
SMOOTHED = 2

MOVING = ("target_relocation", "receptacle_relocation", "obstacle_insertion", "distractor_burst")

# Draw 0 and draw 1 of sections 2.1, 2.7 and 2.8.
THEMES = (([2, 0, 1], [0.70, 1.15, 1.30]), ([1, 2, 0], [1.25, 0.70, 1.10]))
NOISE = ({"noise_std": 24.0, "occlusion_fraction": 0.08}, {"noise_std": 36.0, "occlusion_fraction": 0.16})


@pytest.fixture(scope="module", params=["gl", "warp"])
def world(request):
    """A task's world under one renderer, each made once."""
    with contextlib.ExitStack() as held:

        @functools.cache
        def of(suite: str, index: int) -> World:
            scene = libero_task(suite, index).scene
            return World(suite, index, held.enter_context(renderer(request.param, scene, CAMERAS, SIZE)))

        yield of


OBJECT, SPATIAL = ("libero_object", 0), ("libero_spatial", 0)


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


real = pytest.mark.parametrize("task", [OBJECT, slow(SPATIAL)])
draws = pytest.mark.parametrize("draw", [0, slow(1)])


@real
@pytest.mark.parametrize(("scale", "sign"), [(0.2, -1), (1.8, 1)])
def test_illumination_changes_every_light_and_no_shape(world, task, scale, sign):
    pictures, masks, lit, lit_masks = world(*task).change("set_lighting", scale=scale)
    for camera in CAMERAS:
        np.testing.assert_array_equal(masks[camera], lit_masks[camera])
        change = sign * (lit[camera] - pictures[camera])
        # All but slivers on outlines, where OpenGL goes on with a slope of brightness beyond the triangle that has it.
        assert (change.min(-1) >= -1).mean() > 0.99, "no pixel goes the other way"
        assert change.mean() > 10


@real
@draws
def test_a_shifted_camera_sees_the_same_scene_from_elsewhere(world, task, draw):
    lane = world(*task)
    fields = CAMERA[draw]
    pictures, masks, shifted, shifted_masks = lane.change("shift_camera", camera=AGENT, **fields)
    np.testing.assert_array_equal(pictures[WRIST], shifted[WRIST])
    np.testing.assert_array_equal(masks[WRIST], shifted_masks[WRIST])
    assert (pictures[AGENT] != shifted[AGENT]).any(-1).mean() > 0.8

    pos, mat, fovy = lane.camera(AGENT)
    lane.assert_seen(masks[AGENT], pos, mat, fovy)
    c, s = np.cos(np.deg2rad(fields["yaw_degrees"])), np.sin(np.deg2rad(fields["yaw_degrees"]))
    turned = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]) @ mat
    moved = pos + fields["delta_position_m"], turned, fovy + fields["delta_fovy_degrees"]
    lane.assert_seen(shifted_masks[AGENT], *moved)
    with pytest.raises(AssertionError):
        lane.assert_seen(shifted_masks[AGENT], pos, turned, fovy)


@real
@draws
def test_a_theme_recolours_every_geom_and_moves_none(world, task, draw):
    lane = world(*task)
    permutation, multiplier = THEMES[draw]
    pictures, masks, recoloured, recoloured_masks = lane.change(
        "set_visual_theme", rgb_permutation=permutation, rgb_multiplier=multiplier
    )
    model, judged = lane.model, 0
    for camera in CAMERAS:
        np.testing.assert_array_equal(masks[camera], recoloured_masks[camera])
        for geom in np.unique(masks[camera][masks[camera] >= 0]):
            inside = ~grown(masks[camera] != geom, 1)
            material = model.geom_matid[geom]
            # A highlight has the light's own colour, which a theme does not reach. On a dull surface it is everywhere.
            dull = material >= 0 and model.mat_specular[material] > 0 and model.mat_shininess[material] < 0.4
            if inside.sum() < 40 or dull:
                continue
            old, new = seen_colours(model, geom, permutation, multiplier)
            was, now = np.median(pictures[camera][inside], 0), np.median(recoloured[camera][inside], 0)
            if was.min() < 40 or was.max() > 160:  # too dark to divide by; so bright that a highlight must be in it
                continue
            np.testing.assert_allclose(now, np.clip(was * new / old, 0, 255), atol=5, err_msg=model.geom(geom).name)
            judged += 1
    assert judged >= 6


def seen_colours(model, geom, permutation, multiplier) -> tuple[np.ndarray, np.ndarray]:
    """A geom's colour before and after: its own where that is not the default grey, else its material's."""
    grey = np.float32([0.5, 0.5, 0.5, 1])
    own, material = model.geom_rgba[geom], model.geom_matid[geom]

    def themed(rgba):
        return np.append(np.clip(rgba[:3][permutation] * multiplier, 0, 1), rgba[3])

    shown = [own, themed(own)]
    if material >= 0:
        other = [model.mat_rgba[material], themed(model.mat_rgba[material])]
        shown = [mine if (np.float32(mine) != grey).any() else its for mine, its in zip(shown, other, strict=True)]
    return shown[0][:3], shown[1][:3]


@pytest.mark.parametrize("name", ["gl", "warp"])
def test_a_theme_permutes_hues(name):
    """Red, green and blue balls, which have no texture, trade colours."""
    edit = Visual("set_visual_theme", {"rgb_permutation": [2, 0, 1], "rgb_multiplier": [1.0, 1.0, 1.0]})
    with renderer(name, SCENE, ("side",), SIZE) as made:
        pose = balls()
        mask = made.segmentation([pose])["side"][0]
        themed = dataclasses.replace(pose, visual=(edit,))
        pictures = [made.render([p])["side"][0].astype(int) for p in (pose, themed)]
    model = SCENE.load_spec().compile()
    for channel, ball in enumerate(("red", "green", "blue")):
        inside = ~grown(mask != model.geom(ball).id, 2)
        was, now = (picture[inside].mean(0) for picture in pictures)
        assert was.argmax() == channel
        np.testing.assert_allclose(now, was[[2, 0, 1]], atol=1.0)


@real
@draws
def test_noise_spoils_pictures_after_they_were_rendered(world, task, draw):
    lane, fault = world(*task), NOISE[draw]
    pictures, masks, rendered, rendered_masks = lane.change("set_sensor_corruption", seed=7, **fault)
    cameras = Pictures(lane.renderer, lane.task.scene)
    first = cameras.take([lane.pose])
    assert lane.physics.control_step(LANE, np.zeros((1, 7))) == {}
    second = cameras.take([lane.pose])
    clean = lane.renderer.render([lane.pose])
    side = round(SIZE * fault["occlusion_fraction"] ** 0.5)
    for camera in CAMERAS:
        np.testing.assert_array_equal(pictures[camera], rendered[camera])
        np.testing.assert_array_equal(masks[camera], rendered_masks[camera])
        holes = []
        for spoiled, under in ((first[camera][0], rendered[camera]), (second[camera][0], clean[camera][0].astype(int))):
            hole = black_square(spoiled, side)
            noise = spoiled.astype(int)[~hole] - under[~hole]
            # Far enough from black and white, nothing is cut off but what is below a whole grey level.
            far = 3 * fault["noise_std"]
            free = noise[(under[~hole] > far) & (under[~hole] < 255 - far)]
            assert abs(free.mean() + 0.5) < 4 * fault["noise_std"] / free.size**0.5 + 0.1
            assert free.std() == pytest.approx(fault["noise_std"], rel=max(0.02, 4 / (2 * free.size) ** 0.5))
            holes.append(hole)
        assert (first[camera] != second[camera]).any()
        assert (holes[0] != holes[1]).any(), "the hole jumps every frame"


def black_square(picture: np.ndarray, side: int) -> np.ndarray:
    """The mask of the square of black pixels in a picture; single pixels may be black besides."""
    black = np.lib.stride_tricks.sliding_window_view((picture == 0).all(-1), (side, side)).all((2, 3))
    [(row, column)] = np.argwhere(black)
    mask = np.zeros(picture.shape[:2], bool)
    mask[row : row + side, column : column + side] = True
    return mask


def moving_case(task, event: str) -> Case:
    return sample_manifest([task], 1, 0, events=[event], init_states=(0,)).cases[0]


@pytest.mark.parametrize(
    ("event", "task"),
    [
        *((event, OBJECT) for event in MOVING),
        *(slow(event, SPATIAL) for event in MOVING[:3]),
        slow("distractor_burst", ("libero_10", 0)),
    ],
)
def test_what_an_event_moves_is_where_it_should_be_and_nothing_else_changes(world, task, event):
    """Compared with rays into the collision geometry of the state after the event, in the very next picture."""
    lane = world(*task)
    scenario = moving_case(lane.task, event).scenario
    lane.begin(*(scenario.setup or ()))
    pictures, masks = lane.look()
    origin = lane.physics.kinematics(LANE).entity_pos[0]
    done = apply_change(scenario.change, lane.physics, 0)
    after, after_masks = lane.look()
    moved = [move["entity"] for move in done["moved"]]
    assert len(moved) == (5 if event == "distractor_burst" else 1)

    views = {camera: lane.camera(camera) for camera in CAMERAS}
    for camera in CAMERAS:
        lane.assert_seen(after_masks[camera], *views[camera])
        both = [np.any([lane.mask_of(m[camera], name) for name in moved], axis=0) for m in (masks, after_masks)]
        same = ~grown(both[0] | both[1], SMOOTHED)
        np.testing.assert_array_equal(pictures[camera][same], after[camera][same])
        np.testing.assert_array_equal(masks[camera][same], after_masks[camera][same])
    for move in done["moved"]:
        shown = lane.mask_of(after_masks[AGENT], move["entity"])
        assert shown.sum() > 10, "the agent view sees it"
        if event in ("target_relocation", "receptacle_relocation"):
            e = lane.physics.index.entity(move["entity"])
            where = [origin[e], lane.physics.kinematics(LANE).entity_pos[0, e]]
            np.testing.assert_allclose(where[1] - where[0], np.subtract(move["after"], move["before"]), atol=1e-9)
            # The outline moves as the origin does, but for perspective.
            expected = np.subtract(*(pixel_of(point, *views[AGENT], SIZE) for point in where[::-1]))
            found = centre_of(shown) - centre_of(lane.mask_of(masks[AGENT], move["entity"]))
            assert np.linalg.norm(expected) > 3
            np.testing.assert_allclose(found, expected, atol=0.2 * np.linalg.norm(expected) + 0.5)
        else:
            assert not lane.mask_of(masks[AGENT], move["entity"]).any()


def test_pictures_show_the_state_at_the_query(world):
    """While the arm moves, every picture is of the state now: rays into it hit what is seen, rays into an older one miss."""
    lane = world(*OBJECT)
    lane.begin()
    seen_last = lane.renderer.render([lane.pose])
    for action in np.tile([1.0, 1.0, -1.0, 0, 0, 0.5, 1.0], (4, 1)):
        older = lane.pose
        assert lane.physics.control_step(LANE, action[None]) == {}
        state = lane.physics.snapshot(0).arrays["state"]
        np.testing.assert_array_equal(lane.pose.qpos, state[1 : 1 + lane.model.nq])
        pictures = lane.renderer.render([lane.pose])
        masks = lane.renderer.segmentation([lane.pose])
        again = lane.renderer.render([lane.pose])
        for camera in CAMERAS:
            assert (pictures[camera] != seen_last[camera]).any()
            np.testing.assert_array_equal(pictures[camera], again[camera])
            lane.assert_seen(masks[camera][0], *lane.camera(camera))
        seen_last = pictures
        now, before = (
            seen_by_rays(lane.model, lane.task.scene.shown_groups, *lane.camera(AGENT), SIZE, pose)[0]
            for pose in (lane.pose, older)
        )
        shown = masks[AGENT][0][::2, ::2]
        assert (before != shown).sum() > 3 * (now != shown).sum(), "the rays tell one control step from the next"


def test_depth_is_that_of_rays(world):
    lane = world(*OBJECT)
    lane.begin()
    depth, (_, masks) = lane.renderer.depth([lane.pose]), lane.look()
    for camera in CAMERAS:
        hit, far = seen_by_rays(lane.model, lane.task.scene.shown_groups, *lane.camera(camera), SIZE, lane.pose)
        same = (hit == masks[camera][::2, ::2]) & (hit >= 0)
        error = np.abs(depth[camera][0][::2, ::2][same] - far[same])
        assert np.median(error) < 1e-4
        assert np.quantile(error, 0.95) < 5e-3


def test_lanes_with_different_events_in_one_batch(world):
    """Each lane's picture is the one it has alone, and an event leaves nothing in the picture of the next lane."""
    lane = world(*OBJECT)
    lane.begin()
    poses = [lane.pose]
    theme = {"rgb_permutation": THEMES[0][0], "rgb_multiplier": THEMES[0][1]}
    for operation, fields in (
        ("set_lighting", {"scale": 0.2}),
        ("shift_camera", {"camera": AGENT, **CAMERA[0]}),
        ("set_visual_theme", theme),
        ("set_visual_theme", theme),
    ):
        apply_change(Change.make(operation, **fields), lane.physics, 0)
        poses.append(lane.pose)
    order = [0, 4, 1, 0, 3, 2, 0]
    batch = lane.renderer.render([poses[i] for i in order])
    for camera in CAMERAS:
        alone = [lane.renderer.render([pose])[camera][0] for pose in poses]
        for row, i in zip(batch[camera], order, strict=True):
            np.testing.assert_array_equal(row, alone[i])
        assert len({picture.tobytes() for picture in alone}) == (5 if camera == AGENT else 4)
