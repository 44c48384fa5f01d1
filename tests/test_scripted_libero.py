"""The scripted experts on real LIBERO scenes: their contract as policies, their model of the arm, and what they can do."""

from __future__ import annotations

import dataclasses

import mujoco
import numpy as np
import pytest

from mjx_bench.physics.base import SetPosition
from mjx_bench.physics.mujoco_c import MujocoC
from mjx_bench.policy import Observation, Policy
from mjx_bench.task import Task
from policies import registry
from policies.scripted import OpenLoop, Reactive
from policies.scripted.arm import Arm, ArmPlant
from policies.scripted.geometry import load_shapes
from policies.scripted.motion import LinearPlant, Motion
from policies.scripted.view import View
from tests.scenes import libero_lanes, libero_scene, libero_task

Q = 8
EXPERTS = ("scripted.reactive", "scripted.open_loop")


def observe(task: Task, physics: MujocoC, ids: list[int], step: int) -> Observation:
    k = physics.kinematics(np.array(ids, np.int32))
    fields = {f.name: getattr(k, f.name) for f in dataclasses.fields(k)}
    return Observation(task=task, step=np.full(len(ids), step), **fields)


def rows(obs: Observation, lanes: list[int]) -> Observation:
    """The observation of some of its lanes, in the order given."""
    picked = {
        f.name: getattr(obs, f.name)[lanes]
        for f in dataclasses.fields(obs)
        if isinstance(getattr(obs, f.name), np.ndarray)
    }
    return dataclasses.replace(obs, **picked, articulation={k: v[lanes] for k, v in obs.articulation.items()})


def settled(suite: str, index: int, lanes: int) -> tuple[Task, MujocoC]:
    task, physics = libero_task(suite, index), libero_lanes(suite, index, lanes)
    for _ in range(task.settle_steps):
        physics.control_step(np.arange(lanes, dtype=np.int32), np.tile(task.settle_action, (lanes, 1)))
    return task, physics


def play(task: Task, physics: MujocoC, policy: Policy, steps: int, after_query=lambda step: None) -> None:
    """All lanes under one policy, without ends of episodes."""
    ids = np.arange(physics.lanes, dtype=np.int32)
    carries = [policy.init(task, 0) for _ in ids]
    for step in range(0, steps, Q):
        actions, carries = policy.act(
            carries, observe(task, physics, ids.tolist(), step), np.zeros(len(ids), np.uint64)
        )
        for k in range(Q):
            physics.control_step(ids, actions[:, k].astype(float))
        after_query(step)


def in_region(view: View, entity: str, region: str) -> bool:
    centre, rot, half = view.region(region)
    return bool((np.abs(view.pos(entity) - centre) < np.abs(rot @ half)).all())


def frozen(value) -> object:
    """A comparable copy of a carry: arrays as bytes."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if dataclasses.is_dataclass(value):
        return tuple(frozen(getattr(value, f.name)) for f in dataclasses.fields(value))
    if isinstance(value, tuple):
        return tuple(frozen(v) for v in value)
    return value


@pytest.mark.parametrize("name", EXPERTS)
def test_lanes_do_not_see_each_other_and_carries_do_not_change(name):
    task, physics = settled("libero_object", 3, 3)
    ids = np.arange(3, dtype=np.int32)
    together = registry.make(name)
    apart = [registry.make(name) for _ in range(3)]
    alone = [p.init(task, 0) for p in apart]
    carries = [together.init(task, 0) for _ in ids]
    for step in range(0, 4 * Q, Q):
        obs = observe(task, physics, ids.tolist(), step)
        before = [frozen(c) for c in carries]
        actions, after = together.act(carries, obs, np.zeros(3, np.uint64))
        assert [frozen(c) for c in carries] == before
        assert actions.shape == (3, 16, 7)
        assert actions.dtype == np.float32
        assert np.abs(actions).max() <= 1.0
        swapped, _ = together.act([carries[2], carries[0]], rows(obs, [2, 0]), np.zeros(2, np.uint64))
        assert swapped.tobytes() == actions[[2, 0]].tobytes()
        for lane in range(3):
            single, (alone[lane],) = apart[lane].act([alone[lane]], rows(obs, [lane]), np.zeros(1, np.uint64))
            assert single.tobytes() == actions[lane : lane + 1].tobytes()
            assert frozen(alone[lane]) == frozen(after[lane])
        carries = after
        for k in range(Q):
            physics.control_step(ids, actions[:, k].astype(float))
    physics.close()


def test_open_loop_returns_slices_of_its_first_plan_and_never_looks_again():
    task, physics = settled("libero_object", 3, 1)
    policy, obs = OpenLoop(), observe(task, physics, [0], 0)
    first, (carry,) = policy.act([policy.init(task, 0)], obs, np.zeros(1, np.uint64))
    assert carry.actions is not None
    assert not carry.actions.flags.writeable
    plan = carry.actions
    assert 60 < len(plan) <= task.horizon
    np.testing.assert_array_equal(first[0], plan[:16])
    blind = dataclasses.replace(obs, entity_pos=obs.entity_pos + 0.1, eef_pos=obs.eef_pos - 0.1)
    for step in (8, 40, len(plan) - 5, 1000):
        got, (same,) = policy.act([carry], dataclasses.replace(blind, step=np.array([step])), np.zeros(1, np.uint64))
        assert same is carry
        want = np.zeros((16, 7), np.float32)
        want[:, 6] = -1.0  # beyond its end: still, and open
        want[: len(plan[step : step + 16])] = plan[step : step + 16]
        np.testing.assert_array_equal(got[0], want)
    physics.close()


def test_models_of_the_arm_predict_the_engine():
    task, physics = settled("libero_object", 0, 1)
    ids, arm = np.zeros(1, np.int32), Arm(task)
    view = View(load_shapes(task.scene), observe(task, physics, [0], 0), 0)
    data = mujoco.MjData(arm.model)
    arm.place(data, view)
    rest = Motion(np.zeros(3), np.zeros(3), view.hand_rot)
    exact, linear = ArmPlant(arm, view), LinearPlant(view.eef, view.hand_rot, rest, arm.response(data))
    rng = np.random.default_rng(0)
    for k in range(64):
        if k % 8 == 0:
            action = np.append(rng.uniform(-0.7, 0.7, 3), [0.0, 0.0, rng.choice([0.0, 0.3]), -1.0])
            action[2] = abs(action[2]) * (1.0 if k % 16 else -0.4)  # stay clear of the objects
        physics.control_step(ids, action[None])
        exact.step(action)
        pos = physics.kinematics(ids).eef_pos[0]
        assert np.linalg.norm(exact.pos - pos) < 0.003
        if k < 8:
            linear.step(action)
            assert np.linalg.norm(linear.pos - pos) < 0.005
    physics.close()


@pytest.mark.parametrize("policy", [Reactive, OpenLoop])
def test_experts_put_objects_into_the_basket(policy):
    task, physics = settled("libero_object", 7, 4)
    play(task, physics, policy(), 144)
    shapes, obs = load_shapes(task.scene), observe(task, physics, [0, 1, 2, 3], 144)
    assert [in_region(View(shapes, obs, i), "milk_1", "basket_1_contain_region") for i in range(4)] == [True] * 4
    physics.close()


@pytest.mark.parametrize(("policy", "copes"), [(Reactive, True), (OpenLoop, False)])
def test_only_the_expert_that_looks_follows_a_target_that_was_moved(policy, copes):
    task, physics = settled("libero_object", 7, 1)
    milk = list(task.scene.entities).index("milk_1")

    def relocate(step: int) -> None:
        if step == 2 * Q:  # on its way, well before the grasp
            here = physics.kinematics(np.zeros(1, np.int32)).entity_pos[0, milk]
            physics.edit(0, [SetPosition("milk_1", here + np.array([-0.12, 0.0, 0.0]))])

    play(task, physics, policy(), 192, relocate)
    view = View(load_shapes(task.scene), observe(task, physics, [0], 192), 0)
    assert in_region(view, "milk_1", "basket_1_contain_region") is copes
    physics.close()


def test_reactive_tries_again_when_the_object_is_taken_out_of_its_hand():
    task, physics = settled("libero_object", 6, 1)
    butter = list(task.scene.entities).index("butter_1")
    start = physics.kinematics(np.zeros(1, np.int32)).entity_pos[0, butter]

    def snatch(step: int) -> None:
        held = physics.kinematics(np.zeros(1, np.int32)).entity_pos[0, butter]
        if not taken and held[2] > start[2] + 0.08:
            taken.append(step)
            physics.edit(0, [SetPosition("butter_1", start)])

    taken: list[int] = []
    play(task, physics, Reactive(), 232, snatch)
    assert taken
    view = View(load_shapes(task.scene), observe(task, physics, [0], 232), 0)
    assert in_region(view, "butter_1", "basket_1_contain_region")
    physics.close()


def test_a_drawer_between_others_is_pulled_by_a_hand_that_leans():
    task, physics = settled("libero_goal", 0, 1)
    play(task, physics, Reactive(), 96)
    slides = observe(task, physics, [0], 96).articulation
    assert slides["wooden_cabinet_1_middle_level"][0] < -0.14
    assert max(abs(slides[f"wooden_cabinet_1_{level}_level"][0]) for level in ("top", "bottom")) < 0.01
    physics.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suite", "index"),
    [
        ("libero_goal", 3),  # opens a drawer no further than it takes, and puts a bowl in
        ("libero_goal", 5),  # pushes a plate, leaning over it
        ("libero_goal", 7),  # turns a knob
        ("libero_10", 3),  # puts a bowl in under a ledge, closes the drawer with a leaning hand
        ("libero_10", 8),  # two pots on one stove
        ("libero_10", 9),  # a mug under a roof, and the door closed behind it
    ],
)
def test_the_expert_that_looks_solves_tasks_with_joints(suite, index):
    task, physics = settled(suite, index, 5)
    _, _, success = libero_scene(suite, index)
    ids, policy = np.arange(5, dtype=np.int32), Reactive()
    carries, done = [policy.init(task, 0) for _ in ids], np.zeros(5, bool)
    for step in range(0, task.horizon, Q):
        obs = observe(task, physics, ids.tolist(), step)
        actions, carries = policy.act(carries, obs, np.zeros(5, np.uint64))
        for k in range(Q):
            physics.control_step(ids, actions[:, k].astype(float))
            done |= success(physics.signals)
        if done.all():
            break
    assert done.sum() >= 4
    physics.close()


def test_rim_of_a_bowl_in_an_open_drawer():
    task, physics = settled("libero_spatial", 4, 2)
    play(task, physics, Reactive(), 176)
    obs = observe(task, physics, [0, 1], 176)
    names = list(task.scene.entities)
    bowl, plate = (obs.entity_pos[:, names.index(n)] for n in ("akita_black_bowl_1", "plate_1"))
    assert np.linalg.norm((bowl - plate)[:, :2], axis=1).max() < 0.03
    physics.close()
