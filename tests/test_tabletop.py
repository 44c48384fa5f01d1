"""The native suite: its instances, its goals, its events, and what it costs a compiled engine."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from pathlib import Path

import mujoco
import numpy as np
import pytest

from evals.instances import EVALUATION, TEMPLATE, TRAINING, array_fields
from evals.registry import load_task, task_table
from evals.tabletop.draw import WAITING
from evals.tabletop.instances import Instances, build, draw
from evals.tabletop.panda import HOME, ROBOT
from evals.tabletop.recipes import RECIPES
from mjx_bench.errors import BenchError
from mjx_bench.physics.mujoco_c import MujocoC
from mjx_bench.physics.scene import SceneModel, compile_scene
from mjx_bench.predicates import Test, compile_goal, touches_of
from mjx_bench.task import Task

NAMES = (
    "pick_lift", "pick_place", "place_in_bin", "stack_two", "stack_three_in_order", "push_to_region",
    "open_drawer", "close_drawer", "open_door", "press_button", "turn_knob", "insert_peg",
)  # fmt: skip
BURST = ("pick_lift", "pick_place", "place_in_bin", "push_to_region")
MAX_SLOTS = 60  # contact slots of MJX's JAX engine
ROOT = Path(__file__).resolve().parents[1]

every_task = pytest.mark.parametrize("name", NAMES)


@functools.cache
def scene_of(name: str) -> tuple[Task, SceneModel, Test]:
    task = load_task("tabletop", NAMES.index(name))
    scene = compile_scene(task.scene, touches_of(task.goal, task.scene))
    return task, scene, compile_goal(task.goal, task.scene, scene.index)[1]


def instances_of(name: str) -> Instances:
    made: Instances = scene_of(name)[0].extra["instances"]
    return made


def instance_model(name: str, index: int) -> mujoco.MjModel:
    """The scene's model with the instance's fields."""
    task = scene_of(name)[0]
    assert task.load_fields is not None
    model = task.scene.load_spec().compile()
    for field, value in task.load_fields(index).items():
        getattr(model, field)[:] = value
    return model


# Listing and loading.


def test_the_twelve_tasks_are_listed():
    rows = task_table("tabletop")
    assert tuple(row["name"] for row in rows) == NAMES
    assert all(100 <= row["horizon"] <= 300 for row in rows)
    assert len({row["instruction"] for row in rows}) == len(NAMES)


def test_it_loads_without_libero_and_lists_without_a_simulator():
    script = (
        "import sys; from evals.registry import load_task, task_table; n = len(task_table('tabletop'))\n"
        "light = 'mujoco' not in sys.modules\n"
        "tasks = [load_task('tabletop', i) for i in range(n)]; [t.load_init_states()[0] for t in tasks]\n"
        "import json; print(json.dumps([light, sorted(sys.modules)]))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    light, loaded = json.loads(done.stdout)
    assert light
    assert "mujoco" in loaded
    assert not {"libero", "robosuite", "bddl", "torch", "jax"} & set(loaded)


def test_an_unknown_index_is_refused():
    with pytest.raises(BenchError, match=r"tabletop task 12: expected 0\.\.11"):
        load_task("tabletop", 12)


# Instances.


def test_training_and_evaluation_never_share_an_instance():
    assert set(EVALUATION).isdisjoint(TRAINING)
    assert (EVALUATION.start, EVALUATION.stop) == (0, TRAINING.start)
    states = scene_of("pick_lift")[0].load_init_states()
    assert len(states) == TRAINING.stop
    for index in (-1, len(states)):
        with pytest.raises(IndexError):
            states[index]


@every_task
def test_an_index_always_means_the_same_instance(name: str):
    made, again = instances_of(name), Instances(RECIPES[NAMES.index(name)])
    for index in (7, 3, TRAINING.start + 5):
        a, b = made.instance(index), again.instance(index)
        assert np.array_equal(a.state, b.state)
        assert a.fields.keys() == b.fields.keys()
        assert all(np.array_equal(a.fields[f], b.fields[f]) for f in a.fields)


@every_task
def test_instances_differ_in_poses_sizes_masses_friction_and_colours(name: str):
    made = [instances_of(name).instance(i) for i in range(20)]
    assert len({m.state.tobytes() for m in made}) == 20
    for field in ("geom_size", "geom_friction", "geom_rgba", "body_mass"):
        assert len({m.fields[field].tobytes() for m in made}) == 20, field
    for k, thing in enumerate(made[0].placed):
        places = np.array([m.placed[k].xy for m in made if not m.placed[k].waits])
        assert len(places) == 0 or np.ptp(places, axis=0).min() > 0.03, thing.thing.name
    spares = [sum(not p.waits for p in m.placed) for m in made]
    assert len(set(spares)) > 1, "how many objects lie around varies"


@every_task
@pytest.mark.parametrize("index", [0, 11])
def test_the_scene_with_an_instances_fields_is_the_instance_built_anew(name: str, index: int):
    ours = instance_model(name, index)
    direct = build(draw(RECIPES[NAMES.index(name)], index)).compile()
    differing = [f for f in array_fields() if not np.array_equal(getattr(ours, f), getattr(direct, f))]
    assert not differing


@every_task
def test_things_keep_apart(name: str):
    for index in range(40):
        solid = [p for p in instances_of(name).instance(index).placed if p.thing.entity().contact_geoms]
        placed = [p for p in solid if not p.waits]
        for i, a in enumerate(placed):
            for b in placed[:i]:
                assert np.hypot(*np.subtract(a.xy, b.xy)) > a.thing.radius + b.thing.radius


def at_rest(name: str, count: int) -> None:
    """Asserts that over 0.5 s nothing moves by more than 1 mm, or turns by more than 0.01 rad, in `count` instances."""
    task = scene_of(name)[0]
    states = task.load_init_states()
    for index in range(count):
        model = instance_model(name, index)
        data = mujoco.MjData(model)
        dofs = [model.joint(j).dofadr[0] for j in ROBOT.arm_joints]
        data.qpos[:] = states[index][1 : 1 + model.nq]
        data.ctrl[-2:] = data.qpos[7:9]
        mujoco.mj_forward(model, data)
        start, joints = data.xpos.copy(), data.qpos.copy()
        for _ in range(100):
            data.qfrc_applied[dofs] = data.qfrc_bias[dofs]
            mujoco.mj_step(model, data)
            for entity in task.scene.entities.values():
                body = model.body(entity.body).id
                assert np.abs(data.xpos[body] - start[body]).max() < 1e-3, (index, entity.name)
                for joint in entity.joints:
                    adr = model.joint(joint).qposadr[0]
                    assert abs(data.qpos[adr] - joints[adr]) < 1e-3, (index, joint)
            turned = np.abs(data.qpos[9:] - joints[9:])
            assert turned.max() < 0.01, index


@every_task
def test_instances_start_at_rest(name: str):
    at_rest(name, 5)


@pytest.mark.slow
@every_task
def test_two_hundred_instances_start_at_rest(name: str):
    at_rest(name, 200)


def test_the_arm_starts_where_its_controller_thinks():
    task, scene, _ = scene_of("pick_lift")
    reset = task.load_reset(3).controller
    physics = MujocoC(scene, 1, "osc_pose", task.substeps)
    physics.load(0, task.load_init_states()[2], task.load_reset(3), task.load_fields and task.load_fields(2))
    ids = np.zeros(1, np.int32)
    for _ in range(20):
        physics.control_step(ids, np.zeros((1, 7)))
    kinematics = physics.kinematics(ids)
    assert np.abs(kinematics.eef_pos[0] - reset.eef_pos).max() < 1e-9
    assert np.abs(kinematics.joint_pos[0] - HOME).max() < 1e-9
    assert np.abs(np.abs(kinematics.gripper_qpos[0]) - 0.02).max() < 1e-9


def test_objects_out_of_play_wait_behind_the_camera():
    model = scene_of("pick_lift")[1].model
    assert model.cam_pos[model.camera("agentview").id][0] < WAITING[0] - 0.5
    placed = [p for i in range(20) for p in instances_of("pick_lift").instance(i).placed]
    assert any(p.waits for p in placed)
    assert all(abs(p.xy[0]) < 0.3 or p.waits for p in placed)


def test_the_template_is_no_instance():
    assert TEMPLATE not in EVALUATION
    assert TEMPLATE not in TRAINING
