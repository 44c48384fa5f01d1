"""The C engine's promises: exact snapshots, lanes that do not see each other, parked objects at rest, bad lanes voided."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from mjx_bench.errors import BenchError
from mjx_bench.physics.base import Park, SetPosition, Visual
from mjx_bench.physics.mujoco_c import MujocoC
from tests.scenes import SEED, libero_lanes, libero_scene, wandering

SUITES = (("libero_object", 0), ("libero_spatial", 0))


def ids_of(*lanes: int) -> np.ndarray:
    return np.array(lanes, np.int32)


def run(physics: MujocoC, ids: np.ndarray, actions: np.ndarray) -> None:
    for a in actions:
        assert physics.control_step(ids, a) == {}


@pytest.mark.parametrize(("suite", "index"), SUITES)
def test_snapshot_restores_to_the_bit_in_place_and_elsewhere(suite, index):
    actions = wandering(60, 1, seed=1)
    with_lanes = libero_lanes(suite, index, 3)
    run(with_lanes, ids_of(0), actions[:40])
    snapshot = with_lanes.snapshot(0)
    run(with_lanes, ids_of(0), actions[40:])
    want = with_lanes.snapshot(0).digest()
    for lane in (0, 2):
        with_lanes.restore(lane, snapshot)
        assert with_lanes.snapshot(lane).digest() == snapshot.digest()
        run(with_lanes, ids_of(lane), actions[40:])
        assert with_lanes.snapshot(lane).digest() == want
    alone = libero_lanes(suite, index, 1)
    alone.restore(0, snapshot)
    run(alone, ids_of(0), actions[40:])
    assert alone.snapshot(0).digest() == want


def test_a_lane_has_the_same_bits_at_any_width_thread_count_and_company():
    actions = wandering(50, 7, seed=2)
    digests = []
    for lanes, threads in ((7, 1), (7, 2), (5, 1)):
        physics = libero_lanes("libero_object", 1, lanes, threads=threads)
        run(physics, np.arange(lanes, dtype=np.int32), actions[:, :lanes])
        digests.append([physics.snapshot(i).digest() for i in range(5)])
    alone = libero_lanes("libero_object", 1, 7)
    run(alone, ids_of(3), actions[:, 3:4])
    assert digests[0] == digests[1] == digests[2]
    assert alone.snapshot(3).digest() == digests[0][3]


def test_loading_a_used_lane_leaves_nothing_of_the_past():
    task, _, _ = libero_scene("libero_spatial", 0)
    actions = wandering(30, 1, seed=3)
    physics = libero_lanes("libero_spatial", 0, 2)
    used = np.concatenate([actions, actions])
    run(physics, ids_of(1), used)
    physics.edit(1, [SetPosition("wooden_cabinet_1", np.array([0.3, 0.3, 0.9]))])
    physics.edit(1, [Park("plate_1", np.array([-2.0, 0.0, 5.0]))])
    physics.load(1, task.load_init_states()[0], task.load_reset(SEED))
    run(physics, ids_of(0, 1), np.repeat(actions, 2, axis=1))
    assert physics.snapshot(0).digest() == physics.snapshot(1).digest()
    assert physics.parked(1) == {}


def test_a_lane_may_have_model_fields_of_its_own_and_takes_them_along():
    task, scene, _ = libero_scene("libero_object", 0)
    state, reset, actions = task.load_init_states()[0], task.load_reset(SEED), wandering(40, 1, seed=9)
    heavy = scene.model.body_mass.copy()
    heavy[scene.arm.root :] *= 1.5
    plain = libero_lanes("libero_object", 0, 3)
    run(plain, ids_of(0), actions)
    want = plain.snapshot(0).arrays["state"]

    physics = libero_lanes("libero_object", 0, 3)
    run(physics, ids_of(0), actions[:20])
    physics.load(1, state, reset, {"body_mass": heavy})  # the first field of this name, while lane 0 is on its way
    run(physics, ids_of(0), actions[20:])
    run(physics, ids_of(1), actions[:20])
    np.testing.assert_array_equal(physics.snapshot(0).arrays["state"], want)
    np.testing.assert_array_equal(physics.poses(ids_of(0, 1))[1].fields["body_mass"], heavy)
    halfway = physics.snapshot(1)
    physics.restore(2, halfway)
    run(physics, ids_of(1, 2), np.repeat(actions[20:], 2, axis=1))
    assert physics.snapshot(1).digest() == physics.snapshot(2).digest()
    assert not np.allclose(physics.snapshot(1).arrays["state"], want)

    physics.load(2, state, reset)
    run(physics, ids_of(2), actions)
    np.testing.assert_array_equal(physics.snapshot(2).arrays["state"], want)


def test_a_parked_object_stays_where_it_is_and_comes_back_as_it_left():
    physics = libero_lanes("libero_object", 0, 2)
    run(physics, ids_of(0, 1), wandering(10, 2, seed=4))
    e = physics.index.entity("milk_1")
    before = physics.kinematics(ids_of(0))
    slot = np.array([-3.0, 0.0, 5.0])
    physics.edit(0, [Park("milk_1", slot)])
    run(physics, ids_of(0, 1), wandering(200, 2, seed=5))
    parked = physics.kinematics(ids_of(0))
    np.testing.assert_allclose(parked.entity_pos[0, e], slot, atol=1e-9)
    np.testing.assert_allclose(parked.entity_quat[0, e], before.entity_quat[0, e], atol=1e-9)
    stored = physics.parked(0)["milk_1"]
    np.testing.assert_array_equal(stored.pos, before.entity_pos[0, e])
    physics.edit(0, [SetPosition("milk_1", stored.pos, stored.quat)])
    after = physics.kinematics(ids_of(0))
    np.testing.assert_allclose(after.entity_pos[0, e], before.entity_pos[0, e], atol=1e-15)
    np.testing.assert_allclose(after.entity_quat[0, e], before.entity_quat[0, e], atol=1e-15)
    assert physics.parked(0) == {}
    run(physics, ids_of(0), np.zeros((20, 1, 7)))
    assert physics.kinematics(ids_of(0)).entity_pos[0, e, 2] < stored.pos[2] + 1e-3, "it has its weight again"


def test_a_moved_object_and_a_moved_fixture_are_where_they_should_be_at_once():
    physics = libero_lanes("libero_spatial", 0, 2)
    run(physics, ids_of(0, 1), wandering(5, 2, seed=6))
    before = physics.kinematics(ids_of(0, 1))
    shift = np.array([0.06, -0.03, 0.0])
    for name in ("plate_1", "flat_stove_1"):
        e = physics.index.entity(name)
        physics.edit(0, [SetPosition(name, physics.signals.entity_now[0, e] + shift)])
        after = physics.kinematics(ids_of(0, 1))
        np.testing.assert_allclose(after.entity_pos[0, e], before.entity_pos[0, e] + shift, atol=1e-12)
        np.testing.assert_array_equal(after.entity_pos[1, e], before.entity_pos[1, e])


def test_visual_edits_change_no_bit_of_the_physics():
    physics = libero_lanes("libero_object", 0, 2)
    actions = np.repeat(wandering(20, 1, seed=7), 2, axis=1)
    task, _, _ = libero_scene("libero_object", 0)
    physics.load(1, task.load_init_states()[0], task.load_reset(SEED))
    physics.edit(1, [Visual("set_lighting", {"scale": 0.2})])
    run(physics, ids_of(0, 1), actions)
    assert physics.snapshot(0).digest() == physics.snapshot(1).digest()
    (edit,) = physics.snapshot(1).visual
    assert edit == Visual("set_lighting", {"scale": 0.2}, step=0)
    physics.edit(1, [Visual("set_lighting", {"scale": 2.0})])
    pose = physics.poses(ids_of(1))[0]
    assert (pose.steps, [v.step for v in pose.visual]) == (20, [0, 20])


def test_a_view_that_no_camera_has_is_refused_and_leaves_the_lane_as_it_was():
    physics = libero_lanes("libero_object", 0, 1)
    with pytest.raises(BenchError, match="field of view 165 degrees"):
        physics.edit(0, [Visual("shift_camera", {"camera": "agentview", "delta_fovy_degrees": 120.0})])
    assert physics.snapshot(0).visual == ()


def test_a_lane_that_blows_up_is_named_and_the_others_go_on():
    physics = libero_lanes("libero_object", 0, 3)
    clean = libero_lanes("libero_object", 0, 3)
    actions = wandering(10, 3, seed=8)
    physics._fields.qvel[1, 10] = np.nan
    failed = physics.control_step(ids_of(0, 1, 2), actions[0])
    assert list(failed) == [1]
    assert "not finite" in failed[1]
    run(physics, ids_of(0, 2), actions[1:, [0, 2]])
    run(clean, ids_of(0, 1, 2), actions)
    for lane in (0, 2):
        assert physics.snapshot(lane).digest() == clean.snapshot(lane).digest()


ENGINES_AT_ONCE = """
import sys, threading
from mjx_bench.physics import mujoco_c
from tests.arm_scene import arm_scene
sys.setswitchinterval(1e-6)
scene, start = arm_scene()[0], threading.Barrier(4)
def engine():
    start.wait()
    mujoco_c.MujocoC(scene, 1, "osc_pose", 2).close()
threads = [threading.Thread(target=engine, daemon=True) for _ in range(4)]
for t in threads: t.start()
for t in threads: t.join(20)
sys.exit(any(t.is_alive() for t in threads))
"""


def test_the_first_engines_of_a_process_may_be_made_by_several_threads_at_once():
    # Four engines in a fresh process hung in two of three tries when each of them set MuJoCo's handler of warnings.
    for _ in range(3):
        subprocess.run([sys.executable, "-c", ENGINES_AT_ONCE], check=True, timeout=60)


def test_refuses_a_state_of_another_scene_and_an_unknown_control_law():
    task, scene, _ = libero_scene("libero_object", 0)
    physics = libero_lanes("libero_object", 0, 1)
    with pytest.raises(BenchError, match="belongs to another scene"):
        physics.load(0, np.zeros(79), task.load_reset(SEED))
    with pytest.raises(BenchError, match="did you mean osc_pose"):
        MujocoC(scene, 1, "osc_pos", task.substeps)
