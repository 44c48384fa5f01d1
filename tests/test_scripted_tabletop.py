"""The scripted experts on the native suite: what they can do, that lanes are their own, that carries stay as they are."""

from __future__ import annotations

import numpy as np
import pytest

from mjx_bench.episode import Episode
from mjx_bench.physics.mujoco_c import MujocoC
from mjx_bench.policy import Policy
from mjx_bench.predicates import goal_index
from mjx_bench.rollout import Rollout
from mjx_bench.types import Verdict
from policies.scripted import OpenLoop, Reactive
from tests.test_scripted_libero import frozen, observe, rows
from tests.test_tabletop import NAMES, scene_of

Q = 8
# What the blind expert can do without seeing what came of it; sizes that differ from the scene's cost it doors and domes.
BLIND = tuple(n for n in NAMES if n not in ("push_to_region", "open_door"))


def lanes_of(name: str, indices: range) -> MujocoC:
    task, scene, _ = scene_of(name)
    assert task.load_fields is not None
    physics = MujocoC(scene, len(indices), "osc_pose", task.substeps)
    for lane, index in enumerate(indices):
        physics.load(lane, task.load_init_states()[index], task.load_reset(0), task.load_fields(index))
    return physics


def played(name: str, policy: Policy, indices: range) -> list[Episode]:
    """Episodes of the task's instances, each to its end."""
    task, _, success = scene_of(name)
    physics = lanes_of(name, indices)
    judged = goal_index(task.goal, task.scene)
    rollout = Rollout(task, physics, policy, Q, policy.spec.horizon, success, judged, lambda lane, episode: None)
    episodes = {lane: rollout.begin(f"{name} {index}") for lane, index in enumerate(indices)}
    while any(e.verdict is None for e in episodes.values()):
        rollout.tick(episodes)
    physics.close()
    return list(episodes.values())


def solved(name: str, policy: Policy, indices: range) -> int:
    return sum(e.verdict is Verdict.SUCCESS for e in played(name, policy, indices))


@pytest.mark.parametrize("name", NAMES)
def test_the_expert_that_looks_solves_the_native_suite(name: str):
    assert solved(name, Reactive(), range(2)) == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_it_solves_at_least_four_in_five_of_fifty_instances(name: str):
    assert solved(name, Reactive(), range(50)) >= 40


@pytest.mark.parametrize("name", ["stack_three_in_order", "close_drawer", "turn_knob"])
def test_the_one_that_plans_once_imagines_what_it_has_done(name: str):
    assert solved(name, OpenLoop(), range(2)) == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", BLIND)
def test_the_one_that_plans_once_solves_most_of_it(name: str):
    assert solved(name, OpenLoop(), range(20)) >= 16


@pytest.mark.parametrize("name", ["open_door", "push_to_region"])
def test_lanes_do_not_see_each_other_and_carries_do_not_change(name: str):
    task = scene_of(name)[0]
    physics, ids = lanes_of(name, range(2)), np.arange(2, dtype=np.int32)
    together, apart = Reactive(), [Reactive(), Reactive()]
    alone = [p.init(task, 0) for p in apart]
    carries = [together.init(task, 0) for _ in ids]
    for step in range(0, 8 * Q, Q):
        obs = observe(task, physics, [0, 1], step)
        before = [frozen(c) for c in carries]
        actions, after = together.act(carries, obs, np.zeros(2, np.uint64))
        again, same = together.act(carries, obs, np.ones(2, np.uint64))
        assert [frozen(c) for c in carries] == before
        assert again.tobytes() == actions.tobytes(), "nothing but the carry and the observation counts"
        assert [frozen(c) for c in same] == [frozen(c) for c in after]
        for lane in range(2):
            single, (alone[lane],) = apart[lane].act([alone[lane]], rows(obs, [lane]), np.zeros(1, np.uint64))
            assert single.tobytes() == actions[lane : lane + 1].tobytes()
            assert frozen(alone[lane]) == frozen(after[lane])
        carries = list(after)
        for k in range(Q):
            physics.control_step(ids, actions[:, k].astype(float))
    physics.close()


def test_a_slower_physics_step_is_known_to_the_models_of_the_arm():
    task = scene_of("pick_lift")[0]
    (episode,) = played("pick_lift", OpenLoop(), range(1))
    assert episode.verdict is Verdict.SUCCESS
    assert task.scene.load_spec().option.timestep == 0.005
