"""The experts' sense of shape: grasps, room for the gripper, resting heights and moving regions, all without a simulator."""

from __future__ import annotations

import dataclasses

import mujoco
import numpy as np
import pytest

from mjx_bench.errors import BenchError
from mjx_bench.policy import Observation
from mjx_bench.task import Atom, Entity, Region, Robot, Scene, Task
from policies.scripted import goals, plans
from policies.scripted.geometry import box_points, load_shapes, quat_to_mat
from policies.scripted.grasp import HAND_ABOVE, TIP_BELOW, canonical, columns, find_grasps, hand_rotation, lowest_site
from policies.scripted.motion import rotation, rotation_error
from policies.scripted.view import View

DOWN = np.diag([1.0, -1.0, -1.0])


@pytest.mark.parametrize("seed", range(5))
def test_canonical_splits_heading_from_lying(seed):
    rng = np.random.default_rng(seed)
    up = np.rint(rng.normal(size=3) * 20)
    lying, _, _ = canonical(np.vstack([np.zeros((2, 3)), up / np.linalg.norm(up)]))
    heading = rng.uniform(-3, 3)
    rot = rotation(np.array([0, 0, heading])) @ lying
    got_lying, got_heading, key = canonical(rot)
    np.testing.assert_allclose(
        rotation(np.array([0, 0, got_heading])) @ got_lying, rot, atol=0.08
    )  # snapped up direction
    nudged = rotation(np.array([0.002, -0.002, 0.7])) @ rotation(np.array([0, 0, heading])) @ np.eye(3)
    assert canonical(nudged)[2] == (0, 0, 20), "an upright object that trembles keeps its table"
    assert len(key) == 3


def test_a_box_is_taken_across_its_thin_side():
    best = find_grasps(box_points(np.array([0.04, 0.02, 0.03])))[0]
    assert best.angle == pytest.approx(np.pi / 2)  # fingers along y
    assert best.width == pytest.approx(0.04, abs=1e-6)
    assert np.abs(best.offset[:2]).max() < 0.005
    assert best.top == pytest.approx(0.03, abs=1e-6)
    assert best.offset[2] - TIP_BELOW > -0.03, "fingers stay above what the box stands on"
    assert best.offset[2] + HAND_ABOVE > 0.03, "the hand stays above the box"


def test_a_block_wider_than_the_fingers_has_no_grasp():
    assert find_grasps(box_points(np.array([0.05, 0.05, 0.03]))) == []


def test_a_ring_is_taken_by_its_rim():
    angle = np.linspace(0, 2 * np.pi, 400, endpoint=False)
    ring = np.stack([np.cos(angle), np.sin(angle), np.zeros(400)], 1)
    wall = [ring * r + np.array([0, 0, z]) for r in (0.052, 0.056) for z in np.arange(0, 0.05, 0.002)]
    for grasp in find_grasps(np.concatenate(wall))[:10]:
        radius = np.hypot(*grasp.offset[:2])
        radial = np.arctan2(grasp.offset[1], grasp.offset[0])
        assert radius == pytest.approx(0.054, abs=0.004)
        assert abs((radial - grasp.angle + np.pi / 2) % np.pi - np.pi / 2) < 0.15, "fingers close across the wall"
        assert 0.003 < grasp.width < 0.009


def test_lowest_site_clears_fingers_and_hand():
    post = np.array([[0.05, 0.0, 0.2]])
    here, there = np.zeros((1, 2)), np.array([[0.5, 0.0]])
    along, across, wide = np.zeros(1), np.array([np.pi / 2]), np.array([0.038])
    assert lowest_site(post, here, along, wide)[0] == pytest.approx(0.2 + TIP_BELOW)
    assert lowest_site(post, here, along, np.array([0.01]))[0] == pytest.approx(
        0.2 - HAND_ABOVE
    )  # narrow fingers miss it
    assert lowest_site(np.array([[0.03, 0.0, 0.2]]), here, across, wide)[0] == pytest.approx(0.2 - HAND_ABOVE)
    assert lowest_site(post, there, along, wide)[0] == -np.inf
    assert lowest_site(np.zeros((0, 3)), here, along, wide)[0] == -np.inf


def test_columns_keep_the_highest_point():
    got = columns(np.array([[0.001, 0.001, 0.1], [0.002, 0.002, 0.3], [0.1, 0.0, 0.2]]))
    assert sorted(got[:, 2].tolist()) == [0.2, 0.3]
    assert np.abs(got[np.argmax(got[:, 2]), :2] - 0.002).max() < 0.005


def test_hand_rotation_points_down_and_takes_the_shorter_turn():
    for angle in np.linspace(-3, 3, 9):
        rot = hand_rotation(angle, DOWN)
        np.testing.assert_allclose(rot.T @ rot, np.eye(3), atol=1e-12)
        assert np.linalg.det(rot) == pytest.approx(1.0)
        np.testing.assert_allclose(rot[:, 2], [0, 0, -1], atol=1e-12)
        assert np.linalg.norm(rotation_error(rot, DOWN)) <= np.pi / 2 + 1e-9


def test_rest_height_is_where_shapes_touch():
    cube, table = box_points(np.full(3, 0.02)), box_points(np.array([0.1, 0.1, 0.05])) + np.array([0.5, 0.0, 0.4])
    assert goals.rest_height(cube, np.array([0.5, 0.0]), table) == pytest.approx(0.47)
    rim = box_points(np.array([0.01, 0.1, 0.03])) + np.array([0.09, 0.0, 0.02])
    dish = np.vstack([box_points(np.array([0.1, 0.1, 0.01])), rim])
    assert goals.rest_height(cube, np.zeros(2), dish) == pytest.approx(0.03)  # beside the raised rim
    assert goals.rest_height(cube, np.array([0.075, 0.0]), dish) == pytest.approx(0.07)  # on it
    assert goals.rest_height(cube, np.array([3.0, 0.0]), dish) == -np.inf


# A scene of an object and a cabinet with a drawer, in which a region moves.
XML = """
<mujoco>
  <worldbody>
    <body name="table"><geom name="top" type="box" size=".5 .5 .02" pos="0 0 .38"/></body>
    <body name="base" pos="-.6 0 .4">
      <body name="hand" pos="0 0 .5"><joint name="arm"/><geom size=".01"/><site name="grip"/><site name="top"/></body>
    </body>
    <body name="cabinet" pos="0 -.3 .4">
      <geom name="case" type="box" size=".1 .1 .1" pos="0 0 .1"/>
      <body name="drawer" pos="0 .1 .1">
        <joint name="slide" type="slide" axis="0 1 0"/>
        <geom name="floor" type="box" size=".05 .05 .005"/>
        <site name="cabinet_inside" pos="0 0 .02" size=".05 .05 .02"/>
      </body>
    </body>
    <body name="can" pos=".1 .1 .44">
      <freejoint name="can_free"/>
      <geom name="can_geom" type="cylinder" size=".03 .04"/>
    </body>
  </worldbody>
</mujoco>
"""


def cabinet_task(*goal: Atom) -> Task:
    scene = Scene(
        key="cabinet-scene",
        entities={
            "can": Entity("can", "object", "can", "can", "can_free", (), ("can_geom",)),
            "cabinet": Entity("cabinet", "fixture", "cabinet", "cabinet", None, ("slide",), ("case", "floor")),
        },
        regions={
            "cabinet_inside": Region("cabinet_inside", "cabinet", (0.05, 0.05, 0.02), ("slide",)),
            "top": Region("top", None, (0.05, 0.05, 0.007)),
        },
        placements=(),
        robot=Robot(("arm",), (), (), (), "grip", "hand", ((-1.0,), (1.0,)), ((), ())),
        cameras=(),
        load_spec=lambda: mujoco.MjSpec.from_string(XML),
    )
    return Task(
        suite="test",
        index=3,
        name="cabinet",
        version="1",
        instruction="",
        scene=scene,
        goal=goal,
        objects_of_interest=(),
        horizon=100,
        control_hz=20,
        substeps=25,
        settle_steps=0,
        settle_action=(0.0,) * 7,
        load_init_states=lambda: np.zeros((0, 1)),
        load_reset=None,
    )


def cabinet_view(slide: float) -> View:
    task = cabinet_task()
    obs = Observation(
        task=task,
        step=np.zeros(1, int),
        eef_pos=np.zeros((1, 3)),
        eef_quat=np.array([[0.0, 1.0, 0.0, 0.0]]),
        gripper_qpos=np.array([[0.03, -0.04]]),
        joint_pos=np.zeros((1, 7)),
        entity_pos=np.array([[[0.1, 0.1, 0.44], [0.0, -0.3, 0.4]]]),
        entity_quat=np.array([[[1.0, 0, 0, 0], [np.sqrt(0.5), 0, 0, np.sqrt(0.5)]]]),
        articulation={"slide": np.array([slide])},
    )
    return View(load_shapes(task.scene), obs, 0)


def test_regions_and_shapes_follow_their_drawer():
    view = cabinet_view(0.2)
    assert view.opening == pytest.approx(0.07)
    pos, _, half = view.region("cabinet_inside")
    np.testing.assert_allclose(pos, [-0.3, -0.3, 0.52], atol=1e-12)  # a cabinet turned by 90 degrees opens along -x
    np.testing.assert_allclose(half, [0.05, 0.05, 0.02])
    assert cabinet_view(0.0).cloud("cabinet")[:, 0].min() == pytest.approx(-0.15)
    assert view.cloud("cabinet")[:, 0].min() == pytest.approx(-0.35)
    near = view.near("can", np.array([0.1, 0.1]), 0.05)
    assert near[:, 2].max() == pytest.approx(0.40)  # the table, which belongs to no entity
    assert len(view.near("can", np.array([0.1, 0.1]), 0.05, above=0.41)) == 0
    assert view.cloud("can")[:, 2].max() == pytest.approx(0.48)


def test_quat_to_mat_turns_like_mujoco():
    quat = np.array([0.2, -0.5, 0.7, 0.3])
    quat /= np.linalg.norm(quat)
    want = np.zeros(9)
    mujoco.mju_quat2Mat(want, quat)
    np.testing.assert_allclose(quat_to_mat(quat).ravel(), want, atol=1e-12)


def test_what_they_do_not_know_is_visited():
    atom = Atom("open", ("cabinet_inside",))
    view = cabinet_view(0.2)
    [stop] = plans.visit(view, cabinet_task(atom), atom)
    np.testing.assert_allclose(stop.pos[:2], view.region("cabinet_inside")[0][:2])
    assert stop.pos[2] > view.near("", stop.pos[:2], 0.1)[:, 2].max() + 0.04


def test_scene_that_names_what_its_model_lacks_is_refused():
    task = cabinet_task()
    entity = dataclasses.replace(task.scene.entities["can"], contact_geoms=("lid",))
    with pytest.raises(BenchError, match="entity 'can' names geom 'lid'"):
        load_shapes(dataclasses.replace(task.scene, entities={**task.scene.entities, "can": entity}))
