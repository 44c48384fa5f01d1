"""The brax environment: the engine's own steps, a new instance after each end, and a training run from the command line."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("brax", reason="needs the extra: rl")

import jax
import jax.numpy as jnp
from brax.envs.base import Env, State

from evals import registry
from mjx_bench.brax_env import FreshReset, TaskBraxEnv, wrap
from mjx_bench.checkers import ending
from mjx_bench.errors import BenchError
from mjx_bench.physics.choice import make_physics
from mjx_bench.physics.scene import signal_index
from mjx_bench.predicates import compile_goal
from mjx_bench.shaping import compile_potential
from mjx_bench.task import Rules, Task
from mjx_bench.triggers import touches_judged
from train import ppo

ROOT = Path(__file__).resolve().parents[1]
BANK = range(10_000, 10_004)


def task(name: str = "press_button") -> Task:
    index = next(row["index"] for row in registry.task_table("tabletop") if row["name"] == name)
    return registry.load_task("tabletop", index)


class Countdown(Env):
    """Done after as many steps as its instance says, and rewarded with that number."""

    observation_size, action_size, backend = 1, 1, "mjx"

    def reset(self, rng: jax.Array) -> State:
        i = jax.random.randint(rng, (), 1, 5)
        left = i.astype(jnp.float32)
        zero = jnp.zeros(())
        return State({"left": left}, left[None], zero, zero, {}, {"level": jnp.float32(-1.0), "instance": i})

    def step(self, state: State, action: jax.Array) -> State:
        left = state.pipeline_state["left"] - 1.0
        done = (left <= 0).astype(jnp.float32)
        reward = done * state.info["instance"]
        info = {**state.info, "level": jnp.float32(0.5)}
        return state.replace(pipeline_state={"left": left}, obs=left[None], reward=reward, done=done, info=info)


def test_after_each_end_another_instance_begins():
    env, lanes = wrap(Countdown(), episode_length=3), 16
    assert isinstance(env, FreshReset)
    state = env.reset(jax.random.split(jax.random.PRNGKey(0), lanes))
    begun: list[set[int]] = [{int(i)} for i in state.info["instance"]]
    step = jax.jit(env.step)
    ends = 0
    for _ in range(40):
        before = np.asarray(state.info["instance"])
        steps = np.where(state.done, 0, state.info["steps"]) + 1
        state = step(state, jnp.zeros((lanes, 1)))
        done = np.asarray(state.done) > 0
        # The horizon cuts off instances that take longer, and says so; the rest are rewarded at their end.
        np.testing.assert_array_equal(done, (steps >= before) | (steps >= 3))
        np.testing.assert_array_equal(state.info["truncation"], (steps >= 3) & (before > 3))
        np.testing.assert_array_equal(state.reward, np.where(done & (before <= 3), before, 0))
        np.testing.assert_array_equal(state.obs[done, 0], state.info["instance"][done])
        assert (np.asarray(state.info["level"])[done] == -1.0).all()
        assert (np.asarray(state.info["level"])[~done] == 0.5).all()
        for lane in np.flatnonzero(done):
            begun[lane].add(int(state.info["instance"][lane]))
        ends += int(done.sum())
    assert ends > 200
    assert all(len(seen) > 1 for seen in begun)
    assert set().union(*begun) == {1, 2, 3, 4}


def test_a_reset_is_one_of_the_bank_s_instances():
    one = task("pick_place")
    env = TaskBraxEnv(one, BANK)
    states = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.PRNGKey(3), 24))
    assert states.obs.shape == (24, env.observation_size)
    assert env.action_size == 7
    drawn = np.asarray(states.info["instance"])
    assert set(drawn) == set(range(len(BANK)))
    nq = len(one.load_init_states()[0]) - 1
    for i, obs in zip(drawn, np.asarray(states.obs), strict=True):
        np.testing.assert_array_equal(obs[-nq:], one.load_init_states()[BANK[i]][1:].astype(np.float32))
    again = [jax.jit(env.reset)(jax.random.PRNGKey(7)) for _ in range(2)]
    np.testing.assert_array_equal(again[0].obs, again[1].obs)


def test_tasks_that_it_cannot_do_are_named():
    with pytest.raises(BenchError, match="press_button settles first"):
        TaskBraxEnv(dataclasses.replace(task(), settle_steps=1), BANK)
    with pytest.raises(BenchError, match="press_button has rules over time"):
        TaskBraxEnv(dataclasses.replace(task(), rules=Rules(hold=3)), BANK)
    with pytest.raises(BenchError, match="unknown reward 'dense'"):
        TaskBraxEnv(task(), BANK, reward="dense")
    with pytest.raises(BenchError, match="no randomization_fn"):
        wrap(Countdown(), randomization_fn=lambda sys: (sys, sys))


def test_mistakes_of_the_command():
    with pytest.raises(BenchError, match="did you mean press_button"):
        ppo.make_env(ppo.Ppo(task="press_buton"))
    with pytest.raises(BenchError, match="multiple of --minibatches 4"):
        ppo.train(ppo.Ppo(envs=6))
    with pytest.raises(BenchError, match="a process of its own"):
        ppo.prepare()
    done = subprocess.run(
        [sys.executable, "-m", "train.ppo", "--task", "nothing"], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "unknown task of tabletop 'nothing'" in done.stderr


@pytest.mark.slow
def test_a_step_is_the_engine_s():
    """Against the engine `jax`, whose lanes are judged on the host: state, reward, success, over an episode of each lane."""
    one, lanes = task(), 4
    touches = touches_judged(one, [], engine="jax")
    index = signal_index(one.scene, touches)
    physics = make_physics(
        "jax", one.scene, touches, lanes, "osc_pose", one.substeps, interval=1, fields=one.load_fields(BANK[0]),
        success=ending(one, index),
    )  # fmt: skip
    states, reset = one.load_init_states(), one.load_reset(0)
    for lane in range(lanes):
        physics.load(lane, states[BANK[lane]], reset, one.load_fields(BANK[lane]))
    potential, (_, success) = compile_potential(one, index), compile_goal(one.goal, one.scene, index)
    env = TaskBraxEnv(one, BANK)
    keys = jax.random.split(jax.random.PRNGKey(0), 64)
    drawn = np.asarray(jax.vmap(env.reset)(keys).info["instance"])
    keys = jnp.stack([keys[int(np.argmax(drawn == i))] for i in range(lanes)])
    state = jax.vmap(env.reset)(keys)
    step = jax.jit(jax.vmap(env.step), compiler_options={"xla_cpu_use_fusion_emitters": False})
    rng, ids, level = np.random.default_rng(0), np.arange(lanes, dtype=np.int32), None
    for _ in range(12):
        # Down, onto the button or beside it.
        actions = np.clip(rng.normal([0.3, 0, -0.8, 0, 0, 0, 0], 0.3, (lanes, 7)), -1, 1).astype(np.float32)
        state = step(state, jnp.asarray(actions))
        assert physics.control_step(ids, actions) == {}
        k, signals = physics.kinematics(ids), physics.signals
        nq = k.qpos.shape[1]
        np.testing.assert_allclose(
            np.asarray(state.obs)[:, -nq - k.qvel.shape[1] : -k.qvel.shape[1]], k.qpos, atol=2e-4
        )
        found = np.asarray(potential(signals))[:lanes]
        done = np.asarray(success(signals))[:lanes]
        expected = done + (0.0 if level is None else found - level)
        np.testing.assert_allclose(state.reward, expected, atol=1e-3)
        np.testing.assert_array_equal(np.asarray(state.done) > 0, done)
        level = found
    assert float(np.abs(np.asarray(state.reward)).max()) > 1e-4
    # An action that is repeated beyond an episode's end changes nothing more and is not rewarded again.
    ended = state.replace(done=jnp.ones(lanes), metrics={"success": jnp.ones(lanes), "void": jnp.zeros(lanes)})
    after = step(ended, jnp.asarray(actions))
    for a, b in zip(jax.tree.leaves(after.replace(reward=0)), jax.tree.leaves(ended.replace(reward=0)), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(after.reward, np.zeros(lanes))
    physics.close()


@pytest.mark.slow
def test_training_from_the_command_line(tmp_path: Path):
    command = [
        "-m",
        "train.ppo",
        "--steps",
        "640",
        "--evals",
        "2",
        "--envs",
        "8",
        "--eval-envs",
        "8",
        "--episode",
        "16",
    ]
    command += ["--instances", "8", "--unroll", "5", "--width", "16", "--out", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, env={**os.environ, "JAX_PLATFORMS": "cpu"}
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads((tmp_path / "progress.json").read_text())
    assert result["curve"][0]["steps"] == 0
    assert result["curve"][-1]["steps"] >= 640
    assert all(row["void"] == 0 for row in result["curve"])
    assert (tmp_path / "progress.png").stat().st_size > 5_000
    assert list((tmp_path / "checkpoints").iterdir())
