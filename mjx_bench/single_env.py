"""A task as an ordinary Gymnasium environment."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

from mjx_bench.task import Task
from mjx_bench.vector_env import TaskVectorEnv


class TaskEnv(gymnasium.Env[dict[str, np.ndarray], np.ndarray]):
    """One environment of a task; `TaskVectorEnv` of a single lane, without its batch axis.

    Args:
      task: what to do.
      **options: as for `TaskVectorEnv`.
    """

    def __init__(self, task: Task, **options: Any) -> None:
        self._lanes = TaskVectorEnv(task, 1, autoreset_mode=AutoresetMode.DISABLED, **options)
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": task.control_hz}
        self.render_mode = self._lanes.render_mode
        self.action_space = self._lanes.single_action_space
        self.observation_space = self._lanes.single_observation_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """See `TaskVectorEnv.reset`."""
        super().reset(seed=seed)
        instance = (options or {}).get("instance")
        if instance is None:
            instance = self._lanes.draw(self.np_random)
        obs, infos = self._lanes.reset(options={"instance": instance})
        return self._single(obs), self._info(infos)

    def step(self, action: np.ndarray) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        """See `TaskVectorEnv.step`."""
        obs, rewards, terminated, truncated, infos = self._lanes.step(np.asarray(action)[None])
        return self._single(obs), float(rewards[0]), bool(terminated[0]), bool(truncated[0]), self._info(infos)

    @staticmethod
    def _single(obs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: values[0].copy() for name, values in obs.items()}

    @staticmethod
    def _info(infos: dict[str, Any]) -> dict[str, Any]:
        return {name: values.tolist()[0] for name, values in infos.items() if not name.startswith("_")}

    def render(self) -> Any:
        """See `TaskVectorEnv.render`."""
        frames = self._lanes.render()
        return None if frames is None else frames[0]

    def close(self) -> None:
        """See `TaskVectorEnv.close_extras`."""
        self._lanes.close()
