"""A task as a brax environment: pure functions `reset(key)` and `step(state, action)` that can be jitted and vmapped.

Physics is MJX's JAX implementation with the control law, health and goal of the engine `jax`, so a policy that is trained
here can be evaluated there. Instances are drawn from a bank that is made in advance: a row of state and a row of the model's
own fields for each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mjx_bench.errors import BenchError, MissingExtra, unknown_name
from mjx_bench.physics.choice import split_fields
from mjx_bench.physics.compiled import Compiled
from mjx_bench.physics.mjx_compile import traced_as_physics
from mjx_bench.physics.mjx_jax import JaxStepper
from mjx_bench.physics.mjx_program import Execute
from mjx_bench.physics.scene import compile_scene
from mjx_bench.predicates import compile_goal
from mjx_bench.shaping import compile_potential
from mjx_bench.task import GOAL_ALONE, Task
from mjx_bench.triggers import touches_judged

try:
    from brax.envs.base import Env, State, Wrapper
    from brax.envs.wrappers.training import EpisodeWrapper, VmapWrapper
except ModuleNotFoundError as error:
    raise MissingExtra(f"brax environments need {error.name}: pip install -e '.[rl]'") from None

# Before the first step there is no potential that the first could be compared with.
_NO_LEVEL = -1.0
# Lanes that the bank is filled by at once; nothing depends on it.
_TILE = 8


class TaskBraxEnv(Env):
    """One task, one lane; brax's wrappers make many of it.

    An observation is a float32 vector: the end effector (3, world metres), each entity from there (3 each), then `qpos` and
    `qvel` of the whole scene. Actions are [A] in [-1, 1] of the control law. The reward is 1 for success, plus the change of
    `shaping.compile_potential` if it is shaped. A state is done at success, and when its simulation is void, which
    `metrics` counts; the horizon is the wrapper's business (`wrap`). `info["instance"]` is the instance's index in the bank.

    Args:
      task: what to do, on a scene that MJX can simulate.
      instances: initial states of the bank.
      reward: "shaped" or "sparse".
      action_mode: control law; the task's own first one if None.
      reset_seed: of the source's reset.

    Raises:
      BenchError: a task that needs more than physics and a goal (settling, pushes, rules over time), or a scene that MJX
        cannot simulate.
    """

    def __init__(
        self,
        task: Task,
        instances: Sequence[int],
        *,
        reward: str = "shaped",
        action_mode: str | None = None,
        reset_seed: int = 0,
    ) -> None:
        if reward not in ("shaped", "sparse"):
            raise unknown_name("reward", reward, ("shaped", "sparse"))
        for what, there in (
            ("settles first", task.settle_steps),
            ("has rules over time", task.rules != GOAL_ALONE),
            ("is pushed", task.load_pushes is not None),
        ):
            if there:
                raise BenchError(f"{task.suite} {task.name} {what}, which brax environments cannot do; use evals.envs")
        have = len(task.load_init_states())
        if not len(instances) or not 0 <= min(instances) <= max(instances) < have:
            raise BenchError(
                f"instances = {instances!r}: {task.suite} {task.name} has 0 to {have - 1}; give some of them"
            )
        self.task = task
        touches = touches_judged(task, [], engine="jax")
        scene = compile_scene(task.scene, touches, sensors=False)
        own, kept = split_fields(task.fields_of(instances[0]))
        success = compile_goal(task.goal, task.scene, scene.index)[1]
        stepper = JaxStepper(scene, own)
        self._execute = Execute(stepper, action_mode or task.action_modes[0], task.substeps, 1, own, success, _TILE)
        self._success = success
        self._potential = compile_potential(task, scene.index) if reward == "shaped" else None
        bank = Compiled(scene, self._execute, len(instances), success, kept)
        states, reset = task.load_init_states(), task.load_reset(reset_seed)
        for lane, i in enumerate(instances):
            bank.load(lane, states[i], reset, task.fields_of(i))
        lanes = np.arange(len(instances), dtype=np.int32)
        snapshots = [bank.snapshot(lane) for lane in lanes.tolist()]
        self._rows = jnp.array([s.arrays["state"] for s in snapshots])
        self._given = jnp.array([s.arrays["given"] for s in snapshots])
        self._hand = jnp.array(bank.kinematics(lanes).eef_pos, jnp.float32)
        self._things = jnp.array(bank.signals.entity_now[lanes], jnp.float32)
        bank.close()

    @property
    def observation_size(self) -> int:
        return int(self._observe(self._rows[0], self._hand[0], self._things[0]).shape[0])

    @property
    def action_size(self) -> int:
        return self._execute.action_dim

    @property
    def backend(self) -> str:
        """Of brax's names, the one that says what steps."""
        return "mjx"

    def reset(self, rng: jax.Array) -> State:
        """A state at the beginning of an instance that `rng` draws from the bank."""
        i = jax.random.randint(rng, (), 0, len(self._rows))
        zero = jnp.zeros(())
        return State(
            pipeline_state={"row": self._rows[i], "given": self._given[i]},
            obs=self._observe(self._rows[i], self._hand[i], self._things[i]),
            reward=zero,
            done=zero,
            metrics={"success": zero, "void": zero},
            info={"level": jnp.float32(_NO_LEVEL), "instance": i},
        )

    def step(self, state: State, action: jax.Array) -> State:
        """One control step. A state that is done stays as it is, without reward: brax repeats actions beyond an end."""
        program, row, given = self._execute, state.pipeline_state["row"], state.pipeline_state["given"]
        going = state.done == 0
        with traced_as_physics():
            new, judged = program.control_step(row, given, jnp.clip(action, -1.0, 1.0))
        healthy = program.healthy(new[None])[0]
        void, sound = going & ~healthy, going & healthy
        signals = program.signals(new[None], given[None], judged[None])
        success = sound & self._success(signals)[0]
        reward, level = success.astype(jnp.float32), state.info["level"]
        if self._potential is not None:
            found = self._potential(signals)[0]
            reward += jnp.where(sound & (level >= 0), found - level, 0.0)
            level = jnp.where(sound, found, level)
        new = jnp.where(sound, new, row)
        obs = jnp.where(sound, self._observe(new, signals.eef_pos[0], signals.entity_now[0]), state.obs)
        ends = {"success": success.astype(jnp.float32), "void": void.astype(jnp.float32)}
        metrics = {name: jnp.where(going, end, state.metrics[name]) for name, end in ends.items()}
        return state.replace(
            pipeline_state={"row": new, "given": given},
            obs=obs,
            reward=reward,
            done=jnp.where(going, success | void, True).astype(jnp.float32),
            metrics={**state.metrics, **metrics},
            info={**state.info, "level": level},
        )

    def _observe(self, row: jax.Array, hand: jax.Array, things: jax.Array) -> jax.Array:
        parts = self._execute.moving.split(row)
        return jnp.concatenate([hand, (things - hand).reshape(-1), parts["qpos"], parts["qvel"]])


class FreshReset(Wrapper):
    """Begins a new instance where an episode is done, where brax's own wrapper begins the first one again."""

    def reset(self, rng: jax.Array) -> State:
        """A batch of states from keys [B, 2]."""
        state = self.env.reset(rng)
        return state.replace(info={**state.info, "next": jax.vmap(jax.random.fold_in, (0, None))(rng, 1)})

    def step(self, state: State, action: jax.Array) -> State:
        """A step of every state; done ones are replaced, but `done`, `reward` and `metrics` are those of the end."""
        info = {**state.info, "steps": jnp.where(state.done, 0.0, state.info["steps"])}
        state = self.env.step(state.replace(done=jnp.zeros_like(state.done), info=info), action)
        keys = jax.vmap(jax.random.split)(state.info["next"])
        fresh = self.env.reset(keys[:, 0])

        def where_done(new: jax.Array, old: jax.Array) -> jax.Array:
            return jnp.where(state.done.reshape(-1, *[1] * (new.ndim - 1)) > 0, new, old)

        begun = {name: where_done(fresh.info[name], state.info[name]) for name in ("level", "instance")}
        return state.replace(
            pipeline_state=jax.tree.map(where_done, fresh.pipeline_state, state.pipeline_state),
            obs=where_done(fresh.obs, state.obs),
            info={**state.info, **begun, "next": keys[:, 1]},
        )


def wrap(
    env: Env, episode_length: int = 1000, action_repeat: int = 1, randomization_fn: Callable[..., Any] | None = None
) -> Wrapper:
    """What brax's algorithms take as `wrap_env_fn`: many lanes, a horizon, and a new instance after each end.

    Raises:
      BenchError: a randomisation; instances vary by themselves.
    """
    if randomization_fn is not None:
        raise BenchError("instances vary by themselves; give no randomization_fn")
    return FreshReset(EpisodeWrapper(VmapWrapper(env), episode_length, action_repeat))
