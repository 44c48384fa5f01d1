"""Executes, without looking, what the Base arms of an earlier run executed: `--policy replay:DIR`.

On the same backend and versions the Base arms come out the same to the bit. In the Dynamic arms it is the limit of a policy
that never responds to an event.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from mjx_bench.errors import BenchError
from mjx_bench.policy import Observation, PolicySpec
from mjx_bench.records import load_run
from mjx_bench.seeds import policy_seed
from mjx_bench.task import Task


@dataclasses.dataclass(frozen=True)
class Recording:
    """Actions [T, A] of one Base arm, those in flight at its end included."""

    actions: np.ndarray


class Replay:
    """Plays recordings back; the episode's seed says which one, since it is folded from what makes a Base run.

    Args:
      directory: a results folder.

    Raises:
      BenchError: no results folder, or one without a finished Base arm.
    """

    def __init__(self, directory: str) -> None:
        run = load_run(directory)
        settings = run.header.settings
        self._directory = directory
        self._recordings: dict[int, Recording] = {}
        for record in run.records:
            seed = policy_seed(record.base_key)
            if record.arm != "base" or record.verdict == "void" or seed in self._recordings:
                continue
            actions, chunks = (np.asarray(run.array(record, name)) for name in ("actions", "chunks"))
            steps = np.asarray(run.array(record, "query_steps"))
            in_flight = chunks[-1, len(actions) - steps[-1] : settings["query_interval"]]
            self._recordings[seed] = Recording(np.concatenate([actions, in_flight]))
        if not self._recordings:
            raise BenchError(f"{directory}: no finished Base arm to replay")
        self.spec = PolicySpec(
            name=f"replay:{directory}",
            horizon=settings["horizon"],
            action_mode=settings["action_mode"],
        )

    def prepare(self, episodes: Sequence[tuple[Task, int]]) -> None:
        """See `mjx_bench.policy.Prepared.prepare`."""
        for task, seed in episodes:
            self.init(task, seed)

    def init(self, task: Task, seed: int) -> Recording:
        """See `mjx_bench.policy.Policy.init`."""
        if seed not in self._recordings:
            raise BenchError(
                f"{self._directory} has no Base arm of a case of {task.suite} task {task.index} that is to run now;"
                " replay runs the same manifest again"
            )
        return self._recordings[seed]

    def act(
        self, carries: Sequence[Recording], obs: Observation, seeds: np.ndarray
    ) -> tuple[np.ndarray, Sequence[Recording]]:
        return np.stack([self._chunk(c.actions, int(step)) for c, step in zip(carries, obs.step, strict=True)]), carries

    def _chunk(self, actions: np.ndarray, step: int) -> np.ndarray:
        """H actions from `step` on; past the end the arm stands still and the gripper stays as it was told last."""
        rest = np.zeros((self.spec.horizon, actions.shape[1]), np.float32)
        rest[:, -1] = actions[-1, -1]
        chunk = actions[step : step + self.spec.horizon]
        rest[: len(chunk)] = chunk
        return rest
