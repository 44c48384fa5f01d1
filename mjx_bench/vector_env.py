"""A task as a Gymnasium vector environment: every environment is a lane of one engine, all of them step together.

A step of the environment is one control step. What a step does is `rollout.Rollout`'s: settling, pushes, rules, horizon, and
what makes a lane void are those of an evaluation.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from mjx_bench.engines import engine_of
from mjx_bench.env_observation import EnvObservation
from mjx_bench.episode import Episode
from mjx_bench.errors import BenchError, unknown_name
from mjx_bench.observe.choice import choose_seen, make_renderer
from mjx_bench.observe.pictures import Pictures, check_cameras
from mjx_bench.physics.choice import choose
from mjx_bench.policy import ACTION_DIMS, NATIVE, Observation, PolicySpec, action_mode_for
from mjx_bench.predicates import compile_goal, goal_index
from mjx_bench.rollout import Rollout
from mjx_bench.shaping import compile_potential
from mjx_bench.task import GOAL_ALONE, Task
from mjx_bench.types import Verdict

_RESET_OPTIONS = {"reset_mask", "instance"}
REWARDS = ("sparse", "shaped")

# A control step is one action; the engine's programs are made for it.
_INTERVAL = 1


class _Driver:
    """The place of a policy in a rollout whose actions come from outside."""

    def __init__(self, action_mode: str, cameras: tuple[str, ...], image_size: int) -> None:
        self.spec = PolicySpec("environment", 1, action_mode, cameras, image_size)

    def init(self, task: Task, seed: int) -> None:
        return None

    def act(self, carries: Sequence[None], obs: Observation, seeds: np.ndarray) -> tuple[np.ndarray, Sequence[None]]:
        raise AssertionError("no lane asks: each has its action before it steps")


class TaskVectorEnv(VectorEnv[dict[str, np.ndarray], np.ndarray, np.ndarray]):
    """`num_envs` copies of one task.

    Observations are a dict of float32 arrays [num_envs, ...]: proprioception (`eef_pos`, `eef_quat` wxyz, `gripper_qpos`,
    `joint_pos`), the state of the scene (`entity_pos` [E, 3], `entity_quat` [E, 4], `articulation` [J], `qvel` [nv] of
    everything), and uint8 [size, size, 3] pictures by the camera's name. Actions are float [A] in [-1, 1] of the task's
    control law.

    An environment terminates when its episode ends in success or failure, and is truncated at the task's horizon and when
    its simulation is void. `infos` has, of each environment that stepped or was reset, `instance` (which initial state it
    runs), `steps`, and `success`, on a task with rules `progress` in [0, 1], and of each that ended `verdict` and `reason`.

    Args:
      task: what to do.
      num_envs: lanes.
      backend: engine.
      reward: "sparse": 1 for success, else 0; "shaped": the same plus the change of `shaping.compile_potential`.
      cameras: whose pictures are observed.
      image_size: pixels a side.
      renderer: "auto", "gl" or "warp".
      instances: initial states to draw from; all if None.
      action_mode: control law; the task's own first one if None.
      reset_seed: of the source's reset, which fixes where fixtures stand.
      autoreset_mode: "NextStep", "SameStep" or "Disabled".
      max_episode_steps: truncation; the task's horizon if None.
      threads: that step lanes side by side, on `c`.
      render_mode: None or "rgb_array": what the first observed camera sees.

    Raises:
      BenchError: an unknown reward, camera, control law or engine, or a scene that the engine cannot simulate.
    """

    def __init__(
        self,
        task: Task,
        num_envs: int = 1,
        *,
        backend: str = "auto",
        reward: str = "sparse",
        cameras: Sequence[str] = (),
        image_size: int = 128,
        renderer: str = "auto",
        instances: Sequence[int] | None = None,
        action_mode: str | None = None,
        reset_seed: int = 0,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        max_episode_steps: int | None = None,
        threads: int = 1,
        render_mode: str | None = None,
    ) -> None:
        if reward not in REWARDS:
            raise unknown_name("reward", reward, REWARDS)
        if action_mode is not None and action_mode not in task.action_modes:
            raise unknown_name(f"action mode of {task.suite} task {task.index}", action_mode, task.action_modes)
        for name, value in (("num_envs", num_envs), ("threads", threads), ("max_episode_steps", max_episode_steps)):
            if value is not None and value < 1:
                raise BenchError(f"{name} = {value}: expected an integer of at least 1")
        if instances is not None and not len(instances):
            raise BenchError("instances is empty: give initial states to draw from, or None for all")
        driver = _Driver(action_mode or NATIVE, tuple(cameras), image_size)
        check_cameras(driver.spec, [task])
        if max_episode_steps is not None:
            task = dataclasses.replace(task, horizon=max_episode_steps)
        self.task = task
        self.num_envs = num_envs
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {"autoreset_mode": self.autoreset_mode, "render_modes": ["rgb_array"]}
        self.metadata["render_fps"] = task.control_hz
        self.render_mode = render_mode
        self._states = task.load_init_states()
        self._instances = range(len(self._states)) if instances is None else instances
        self._reset = task.load_reset(reset_seed)
        self._held = contextlib.ExitStack()

        engine, _ = choose(backend)
        mode = action_mode_for(driver.spec.action_mode, task)
        self._physics = engine_of(
            task, engine, num_envs, mode, interval=_INTERVAL, row=self._instances[0], threads=threads
        )
        index = self._physics.index
        success = compile_goal(task.goal, task.scene, index)[1]
        self._held.callback(self._physics.close)
        self._renderer = renderer
        self._size = image_size
        self._frames: Pictures | None = None
        pictures = self._pictures(driver.spec.cameras) if cameras else None
        judged = goal_index(task.atoms, task.scene)
        self._rollout = Rollout(
            task, self._physics, driver, _INTERVAL, _INTERVAL, success, judged, lambda lane, e: None, pictures=pictures
        )
        self._potential = compile_potential(task, index) if reward == "shaped" else None

        self.single_action_space = spaces.Box(-1.0, 1.0, (ACTION_DIMS[mode],), np.float32)
        example = self._physics.kinematics(np.zeros(1, np.int32))
        self._observation = EnvObservation(example, driver.spec.cameras, image_size, num_envs)
        self.single_observation_space = self._observation.space
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self._rngs: list[np.random.Generator] = [seeding.np_random(None)[0] for _ in range(num_envs)]
        self._episodes: list[Episode | None] = [None] * num_envs
        self._instance = np.zeros(num_envs, np.int64)
        self._over = np.ones(num_envs, np.bool_)
        self._level = np.full(num_envs, np.nan)  # the potential after the last step; none before the first

    def _pictures(self, cameras: Sequence[str]) -> Pictures:
        spec = PolicySpec("environment", 1, cameras=tuple(cameras), image_size=self._size)
        name = choose_seen(spec, self._renderer)["renderer"]
        scene = self.task.scene
        pictures = Pictures(make_renderer(name, scene, cameras, self._size, self._size, self.num_envs), scene)
        self._held.callback(pictures.close)
        return pictures

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Starts episodes.

        Args:
          seed: of the environments' draws of instances: an int seeds environment i with seed + i, a sequence names each,
            and None goes on drawing.
          options: `reset_mask`: bool [num_envs] of the environments to reset; `instance`: the initial state to start from,
            one for all or one each, instead of one that is drawn.
        """
        options = {} if options is None else options
        if unknown := sorted(options.keys() - _RESET_OPTIONS):
            raise unknown_name("reset option", unknown[0], _RESET_OPTIONS)
        mask = options.get("reset_mask", np.ones(self.num_envs, np.bool_))
        if not isinstance(mask, np.ndarray) or mask.shape != (self.num_envs,) or mask.dtype != np.bool_:
            raise BenchError(f"reset_mask = {mask!r}: expected a NumPy array of {self.num_envs} booleans")
        if not mask.any():
            raise BenchError("reset_mask has no environment to reset")
        ids = np.flatnonzero(mask)
        if seed is not None:
            seeds = [seed + i for i in range(self.num_envs)] if isinstance(seed, int | np.integer) else seed
            if len(seeds) != self.num_envs:
                raise BenchError(f"{len(seeds)} seeds for {self.num_envs} environments; give one each, or a single int")
            for i in ids.tolist():
                if seeds[i] is not None:
                    self._rngs[i] = seeding.np_random(seeds[i])[0]
        self._begin(ids, self._given(options.get("instance")))
        return self._observation.all(), self._infos(ids)

    def _given(self, instance: Any) -> np.ndarray | None:
        """The instances [num_envs] that a reset names."""
        if instance is None:
            return None
        given = np.asarray(instance)
        if given.dtype.kind not in "iu" or given.shape not in ((), (self.num_envs,)):
            raise BenchError(f"instance = {instance!r}: expected an integer, or {self.num_envs} of them")
        return np.broadcast_to(given, (self.num_envs,))

    def step(
        self, actions: np.ndarray
    ) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """One control step of every environment, actions [num_envs, A]."""
        actions = np.asarray(actions, np.float64)
        if actions.shape != self.action_space.shape:
            raise BenchError(f"actions of shape {actions.shape}, expected {self.action_space.shape}")
        again = self._over
        if again.any() and (self.autoreset_mode is not AutoresetMode.NEXT_STEP or None in self._episodes):
            raise gymnasium.error.ResetNeeded(f"environments {np.flatnonzero(again).tolist()} must be reset first")
        n = self.num_envs
        rewards, done = np.zeros(n), np.zeros(n, np.bool_)
        truncated = np.zeros(n, np.bool_)
        ids = np.flatnonzero(~again)
        if len(ids):
            self._advance(ids, np.clip(actions, -1.0, 1.0), rewards, done, truncated)
        if again.any():
            self._begin(np.flatnonzero(again), None)
        self._over = done | truncated
        infos = self._infos(np.arange(n))
        if self.autoreset_mode is AutoresetMode.SAME_STEP and self._over.any():
            ended = np.flatnonzero(self._over)
            final = self._observation.each(ended, n)
            last = self._infos(ended)
            self._begin(ended, None)
            infos = self._infos(np.arange(n))
            infos |= {"final_obs": final, "final_info": last}
            infos |= {f"_{name}": (done | truncated).copy() for name in ("final_obs", "final_info")}
        return self._observation.all(), rewards, done, truncated, infos

    def _advance(
        self, ids: np.ndarray, actions: np.ndarray, rewards: np.ndarray, done: np.ndarray, truncated: np.ndarray
    ) -> None:
        """Executes one action in the environments `ids`, and writes what came of it into the rows of the last three."""
        running = {i: e for i in ids.tolist() if (e := self._episodes[i]) is not None}
        for i, e in running.items():
            e.pending = actions[i : i + 1]
        self._rollout.tick(running)
        for i, e in running.items():
            rewards[i] = e.verdict is Verdict.SUCCESS
            done[i] = e.verdict in (Verdict.SUCCESS, Verdict.FAILURE)
            truncated[i] = e.verdict in (Verdict.TIMEOUT, Verdict.VOID)
        # What a lane without sound numerics shows is nothing to learn from: it keeps what was seen of it last.
        sound = [i for i, e in running.items() if e.verdict is not Verdict.VOID]
        if self._potential is not None and sound:
            level = np.asarray(self._potential(self._physics.signals))[sound]
            rewards[sound] += np.nan_to_num(level - self._level[sound])
            self._level[sound] = level
        self._observe(np.array(sound, np.int32))

    def _begin(self, ids: np.ndarray, instances: np.ndarray | None) -> None:
        """Starts new episodes in the environments `ids`, settled and observed."""
        started: dict[int, Episode] = {}
        for i in ids.tolist():
            at = self.draw(self._rngs[i]) if instances is None else int(instances[i])
            if not 0 <= at < len(self._states):
                raise BenchError(f"instance {at}: {self.task.suite} {self.task.name} has 0..{len(self._states) - 1}")
            self._physics.load(i, self._states[at], self._reset, self.task.fields_of(at))
            started[i] = self._rollout.begin(f"instance {at}")
            started[i].pushes, started[i].instance = self.task.pushes_of(at), at
            self._instance[i], self._over[i], self._level[i] = at, False, np.nan
            self._episodes[i] = started[i]
        while settling := {i: e for i, e in started.items() if e.settle and e.verdict is None}:
            self._rollout.tick(settling)
        self._observe(np.array([i for i, e in started.items() if e.verdict is None], np.int32))

    def _observe(self, ids: np.ndarray) -> None:
        if len(ids):
            episodes = [e for i in ids if (e := self._episodes[i]) is not None]
            self._observation.take(ids, self._rollout.observe(ids, episodes))

    def draw(self, rng: np.random.Generator) -> int:
        """An instance to run, from `rng`."""
        return int(self._instances[int(rng.integers(len(self._instances)))])

    def _infos(self, ids: np.ndarray) -> dict[str, Any]:
        """What there is to know of the environments `ids`, as Gymnasium lays it out: rows of all, and a mask."""
        mask = np.zeros(self.num_envs, np.bool_)
        mask[ids] = True
        steps, success = np.zeros(self.num_envs, np.int64), np.zeros(self.num_envs, np.bool_)
        progress, ended = np.zeros(self.num_envs), np.zeros(self.num_envs, np.bool_)
        verdict, reason = np.full((2, self.num_envs), None, object)
        for i in ids.tolist():
            e = self._episodes[i]
            assert e is not None
            steps[i], success[i], progress[i] = e.step, e.verdict is Verdict.SUCCESS, e.standing.progress
            if self._over[i]:
                ended[i], verdict[i], reason[i] = True, str(e.verdict), e.reason
        infos = {"instance": np.where(mask, self._instance, 0), "steps": steps, "success": success}
        if self.task.rules != GOAL_ALONE:
            infos["progress"] = progress
        infos |= {f"_{name}": mask.copy() for name in tuple(infos)}
        if ended.any():
            infos |= {"verdict": verdict, "reason": reason, "_verdict": ended, "_reason": ended.copy()}
        return infos

    def render(self) -> tuple[np.ndarray, ...] | None:
        """What the first observed camera sees of each environment, uint8 [size, size, 3]; None without a render mode."""
        if self.render_mode is None:
            return None
        camera = (self.task.scene.observed or self.task.scene.cameras)[0]
        if self._frames is None:
            self._frames = self._pictures([camera])
        poses = self._physics.poses(np.arange(self.num_envs, dtype=np.int32))
        return tuple(self._frames.take(poses)[camera])

    def close_extras(self, **kwargs: Any) -> None:
        """Gives back the engine and the renderers."""
        self._held.close()
