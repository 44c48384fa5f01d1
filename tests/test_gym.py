"""Gymnasium environments: Gymnasium's own checks, its vectorisation as the oracle of ours, an expert who succeeds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.utils.env_match import check_environments_match
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from evals import envs, registry
from evals.instances import TRAINING
from mjx_bench.cases import evaluation
from mjx_bench.errors import BenchError
from mjx_bench.policy import Policy
from mjx_bench.records import load_run
from mjx_bench.schedule import run_pairs
from mjx_bench.settings import RunSettings
from mjx_bench.single_env import TaskEnv
from mjx_bench.task import Task
from mjx_bench.vector_env import TaskVectorEnv
from policies import registry as policies

ID = "mjx-bench/tabletop-press_button-v0"
MODES = [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED]


def task(name: str) -> Task:
    index = next(row["index"] for row in registry.task_table("tabletop") if row["name"] == name)
    return registry.load_task("tabletop", index)


@pytest.fixture
def made() -> Iterator[list[Any]]:
    """Environments to close."""
    made: list[Any] = []
    yield made
    for env in made:
        env.close()


def same(a: Any, b: Any) -> None:
    assert type(a) is type(b)
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            same(a[key], b[key])
    elif isinstance(a, tuple) or (isinstance(a, np.ndarray) and a.dtype == object):
        for x, y in zip(a, b, strict=True):
            same(x, y)
    else:
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("options", [{}, {"reward": "shaped"}, {"cameras": ("agentview",), "image_size": 48}])
def test_gymnasiums_own_checks(options: dict[str, Any], made: list[Any]):
    env = gymnasium.make(ID, **options)
    made.append(env)
    check_env(env.unwrapped)
    assert env.unwrapped.metadata["render_fps"] == 20


def test_two_of_a_kind_match(made: list[Any]):
    made += [gymnasium.make(ID), gymnasium.make(ID)]
    check_environments_match(made[0], made[1], num_steps=10, seed=4)


def test_every_task_of_the_suite_is_registered(made: list[Any]):
    for row in registry.task_table("tabletop"):
        assert envs.env_id("tabletop", row["name"]) in gymnasium.registry
    vector = gymnasium.make_vec("evals.envs:" + ID, num_envs=2)
    made.append(vector)
    assert isinstance(vector, TaskVectorEnv)
    assert vector.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert vector.action_space.shape == (2, 7)
    obs, _ = vector.reset(seed=0)
    assert vector.observation_space.contains(obs)


@pytest.mark.parametrize("mode", MODES, ids=lambda m: m.value)
def test_lanes_are_what_gymnasium_would_make_of_single_environments(mode: AutoresetMode, made: list[Any]):
    """Bit for bit: observations, rewards, ends and infos, over episodes that end at different steps."""
    n, options = 3, {"backend": "c", "instances": range(40), "reward": "shaped"}
    one = task("pick_place")

    def single(i: int) -> TaskEnv:
        return TaskEnv(one, max_episode_steps=4, **options)

    ours = TaskVectorEnv(one, n, max_episode_steps=4, autoreset_mode=mode, **options)
    oracle = SyncVectorEnv([lambda i=i: single(i) for i in range(n)], autoreset_mode=mode)
    made += [ours, oracle]
    same(ours.reset(seed=5), oracle.reset(seed=5))
    ours.action_space.seed(1)
    ends = 0
    for step in range(11):
        actions = ours.action_space.sample()
        got, want = ours.step(actions), oracle.step(actions)
        same(got, want)
        over = got[2] | got[3]
        ends += int(over.sum())
        if mode is AutoresetMode.DISABLED and over.any():
            same(*(env.reset(options={"reset_mask": over.copy()}) for env in (ours, oracle)))
        elif step == 1:
            # One lane begins anew in the middle of the others' episodes, which then end at other steps.
            mask = np.array([False, True, False])
            same(*(env.reset(seed=[1, 2, 3], options={"reset_mask": mask.copy()}) for env in (ours, oracle)))
    assert ends >= 6


def test_final_observations_are_those_of_the_end(made: list[Any]):
    vector = TaskVectorEnv(task("press_button"), 2, max_episode_steps=3, autoreset_mode="SameStep", instances=range(50))
    made.append(vector)
    vector.reset(seed=0, options={"instance": np.array([7, 8])})
    zero = np.zeros((2, 7))
    for _ in range(2):
        before, _, _, truncated, infos = vector.step(zero)
        assert not truncated.any()
        assert "final_obs" not in infos
    obs, rewards, terminated, truncated, infos = vector.step(zero)
    assert truncated.all()
    assert not terminated.any()
    assert rewards.tolist() == [0.0, 0.0]
    assert infos["_final_obs"].all()
    assert infos["_final_info"].all()
    assert infos["final_info"]["verdict"].tolist() == ["timeout"] * 2
    assert infos["final_info"]["instance"].tolist() == [7, 8]
    assert infos["final_info"]["steps"].tolist() == [3, 3]
    assert infos["steps"].tolist() == [0, 0]
    assert infos["instance"].tolist() != [7, 8]
    for i in range(2):
        # The arm has hardly moved; the instance is another one.
        np.testing.assert_allclose(infos["final_obs"][i]["entity_pos"], before["entity_pos"][i], atol=1e-3)
        assert np.abs(obs["entity_pos"][i] - before["entity_pos"][i]).max() > 0.01


def test_draws_depend_on_the_lanes_seed_alone(made: list[Any]):
    """Which instance an environment gets next depends neither on its neighbours nor on their number."""
    made += [TaskVectorEnv(task("press_button"), n, max_episode_steps=1, autoreset_mode="SameStep") for n in (1, 4)]
    first: list[list[int]] = []
    for vector, seed in zip(made, (12, 10), strict=True):
        _, infos = vector.reset(seed=seed)
        drawn = [infos["instance"]]
        for _ in range(5):
            drawn.append(vector.step(np.zeros(vector.action_space.shape))[4]["instance"])
        first.append(np.array(drawn)[:, 2 if len(drawn[0]) > 1 else 0].tolist())
    assert first[0] == first[1]
    assert len(set(first[0])) == 6
    _, infos = made[1].reset(seed=10)
    assert infos["instance"][2] == first[0][0]


def test_training_instances_by_default(made: list[Any]):
    vector = gymnasium.make_vec(ID, num_envs=3)
    made.append(vector)
    assert all(int(i) in TRAINING for i in vector.reset(seed=1)[1]["instance"])


class Expert:
    """A policy of the project in an environment, asked every 8 steps."""

    def __init__(self, vector: TaskVectorEnv, policy: Policy) -> None:
        self.vector, self.policy = vector, policy
        self.carries: list[Any] = [policy.init(vector.task, 0) for _ in range(vector.num_envs)]
        self.chunk = np.zeros(0)

    def begin(self, lanes: np.ndarray) -> None:
        for lane in lanes:
            self.carries[lane] = self.policy.init(self.vector.task, 0)

    def act(self, step: int) -> np.ndarray:
        if step % 8 == 0:
            n = self.vector.num_envs
            obs = self.vector._rollout.observe(np.arange(n, dtype=np.int32), self.vector._episodes)
            self.chunk, carries = self.policy.act(self.carries, obs, np.zeros(n, np.uint64))
            self.carries = list(carries)
        return self.chunk[:, step % 8]


def test_an_expert_is_rewarded_at_the_step_of_its_evaluation(tmp_path: Any, made: list[Any]):
    one, n = task("press_button"), 3
    settings = RunSettings(policy="scripted.reactive", lanes=n, query_interval=8, backend="c")
    policy = policies.make("scripted.reactive")
    run_pairs(evaluation([one], n, 0), settings, tmp_path / "run", load_task=lambda case: one, policy=policy)
    expected = {r.init_state_index: r.success_step for r in load_run(tmp_path / "run").records}
    vector = RecordEpisodeStatistics(
        TaskVectorEnv(one, n, backend="c", autoreset_mode="NextStep", reward="shaped", instances=range(n))
    )
    made.append(vector)
    vector.reset(seed=0, options={"instance": np.arange(n)})
    expert = Expert(vector.unwrapped, policy)
    returns = np.zeros(n)
    got: dict[int, int] = {}
    for step in range(max(s for s in expected.values() if s is not None)):
        _, rewards, terminated, truncated, infos = vector.step(expert.act(step))
        returns += np.where([i in got for i in range(n)], 0.0, rewards)
        expert.begin(np.flatnonzero(infos["steps"] == 0))
        for i in np.flatnonzero(terminated):
            if i not in got:
                got[int(i)] = int(infos["steps"][i])
                assert infos["success"][i]
                assert infos["verdict"][i] == "success"
                # Success, and nearly all of the way to it: the first step's potential is where it begins.
                assert 1.2 < returns[i] < 2.0
                assert infos["episode"]["r"][i] == pytest.approx(returns[i])
        assert not truncated.any()
    assert got == expected


def test_an_environment_that_ended_starts_anew_with_the_next_step(made: list[Any]):
    vector = TaskVectorEnv(task("press_button"), 2, instances=range(9), max_episode_steps=2)
    made.append(vector)
    vector.reset(seed=3)
    vector.step(np.zeros((2, 7)))
    _, _, _, truncated, infos = vector.step(np.zeros((2, 7)))
    assert truncated.all()
    assert infos["_verdict"].all()
    _, rewards, terminated, truncated, infos = vector.step(np.ones((2, 7)))
    assert not (terminated | truncated).any()
    assert rewards.tolist() == [0.0, 0.0]
    assert infos["steps"].tolist() == [0, 0]
    assert "verdict" not in infos


def test_void_is_a_truncation_with_a_sound_observation(made: list[Any]):
    vector = TaskVectorEnv(task("press_button"), 2, backend="c", autoreset_mode="Disabled", instances=range(9))
    made.append(vector)
    before, _ = vector.reset(seed=1)
    vector._physics._fields.qvel[1, 10] = np.nan
    obs, _, terminated, truncated, infos = vector.step(np.zeros((2, 7)))
    assert (terminated.tolist(), truncated.tolist()) == ([False, False], [False, True])
    assert infos["verdict"].tolist() == [None, "void"]
    assert all(np.isfinite(values).all() for values in obs.values())
    same({k: v[1] for k, v in obs.items()}, {k: v[1] for k, v in before.items()})
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"\[1\]"):
        vector.step(np.zeros((2, 7)))
    vector.reset(options={"reset_mask": np.array([False, True])})
    assert not vector.step(np.zeros((2, 7)))[3].any()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda v: v.step(np.zeros((3, 7))), r"actions of shape \(3, 7\), expected \(2, 7\)"),
        (lambda v: v.reset(seed=[1, 2, 3]), "3 seeds for 2 environments"),
        (lambda v: v.reset(options={"reset_mask": [True, False]}), "expected a NumPy array of 2 booleans"),
        (lambda v: v.reset(options={"reset_mask": np.zeros(2, bool)}), "no environment to reset"),
        (lambda v: v.reset(options={"reset_masks": np.ones(2, bool)}), "did you mean reset_mask"),
        (lambda v: v.reset(options={"instance": [1, 2, 3]}), "expected an integer, or 2 of them"),
        (lambda v: v.reset(options={"instance": 1.5}), "instance = 1.5: expected an integer"),
        (lambda v: TaskVectorEnv(v.task, 1, max_episode_steps=0), "max_episode_steps = 0: expected an integer of at"),
        (lambda v: TaskVectorEnv(v.task, 1, threads=-1), "threads = -1"),
        (lambda v: TaskVectorEnv(v.task, 1, instances=[]), "instances is empty"),
        (lambda v: v.reset(options={"instance": -1}), r"instance -1: tabletop press_button has 0\.\."),
        (lambda v: TaskVectorEnv(v.task, 1, reward="dense"), "unknown reward 'dense'"),
        (lambda v: TaskVectorEnv(v.task, 1, action_mode="osc"), "did you mean osc_pose"),
        (lambda v: TaskVectorEnv(v.task, 1, cameras=("agentvieuw",)), "did you mean agentview"),
        (lambda v: TaskVectorEnv(v.task, 1, backend="cc"), "unknown backend 'cc'"),
    ],
)
def test_mistakes_are_named(call: Any, message: str, made: list[Any]):
    vector = TaskVectorEnv(task("press_button"), 2, instances=range(9))
    made.append(vector)
    with pytest.raises(BenchError, match=message):
        call(vector)


def test_it_must_be_reset_first(made: list[Any]):
    vector = TaskVectorEnv(task("press_button"), 1, instances=range(9))
    made.append(vector)
    with pytest.raises(gymnasium.error.ResetNeeded):
        vector.step(np.zeros((1, 7)))


def test_joint_actions(made: list[Any]):
    vector = TaskVectorEnv(task("press_button"), 1, action_mode="joint_position", instances=range(9))
    made.append(vector)
    obs, _ = vector.reset(seed=0)
    assert vector.single_action_space.shape == (8,)
    after = vector.step(np.full((1, 8), 0.5, np.float32))[0]
    assert np.abs(after["joint_pos"] - obs["joint_pos"]).max() > 1e-4


def test_pictures_and_rendering(made: list[Any]):
    vector = TaskVectorEnv(
        *(task("press_button"), 2), cameras=("agentview",), image_size=48, render_mode="rgb_array", instances=range(9)
    )
    made.append(vector)
    obs, _ = vector.reset(seed=0)
    assert (obs["agentview"].dtype, obs["agentview"].shape) == (np.uint8, (2, 48, 48, 3))
    frames = vector.render()
    assert frames is not None
    np.testing.assert_array_equal(np.stack(frames), obs["agentview"])
    assert np.abs(obs["agentview"][0].astype(int) - obs["agentview"][1]).max() > 20


def test_libero_settles_before_the_first_observation(made: list[Any]):
    pytest.importorskip("libero", reason="needs the extra: libero")
    vector = envs.make_vec("libero_object", 0, 2)
    made.append(vector)
    obs, infos = vector.reset(seed=0, options={"instance": 3})
    assert infos["steps"].tolist() == [0, 0]
    assert np.abs(obs["qvel"]).max() < 0.5
    np.testing.assert_array_equal(obs["entity_pos"][0], obs["entity_pos"][1])
    assert vector.observation_space.contains(vector.step(np.zeros((2, 7)))[0])


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "warp"])
def test_every_engine(backend: str, made: list[Any]):
    """The same lanes on a compiled engine, close to those on MuJoCo, and themselves again from the same seed."""
    if backend == "warp":
        pytest.importorskip("warp", reason="needs the extra: warp")
    options = {"instances": range(9), "reward": "shaped", "max_episode_steps": 8}
    ours, oracle = (TaskVectorEnv(task("press_button"), 3, backend=b, **options) for b in (backend, "c"))
    made += [ours, oracle]

    def run(vector: TaskVectorEnv) -> list[Any]:
        vector.action_space.seed(0)
        steps = [vector.reset(seed=2)[0]]
        for _ in range(12):
            steps.append(vector.step(vector.action_space.sample())[:4])
        return steps

    found, again, wanted = run(ours), run(ours), run(oracle)
    for a, b, c in zip(found[1:], again[1:], wanted[1:], strict=True):
        same(a, b)
        np.testing.assert_allclose(a[0]["eef_pos"], c[0]["eef_pos"], atol=2e-3)
        np.testing.assert_allclose(a[1], c[1], atol=2e-3)
        assert (a[3] == c[3]).all()
