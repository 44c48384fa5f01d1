"""The expert as it is recorded: asked at every control step, and executed with errors that it then makes good."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from mjx_bench.policy import Observation, Policy
from mjx_bench.seeds import fold_seed
from mjx_bench.task import Task
from train.collect.embodiments import embodiment_of
from train.collect.language import stage_of, subtask_of

BLOCK = 4  # control steps that an error lasts
SHARE = 0.5  # of blocks that have one
DETOUR = 10  # control steps of a detour
DETOUR_SPEED = 0.7  # of the hand's largest, in a detour


@dataclasses.dataclass(frozen=True)
class Errors:
    """What is added to the expert's translations before they are executed.

    Attributes:
      noise: standard deviation of each of the three numbers, held for `BLOCK` steps in `SHARE` of all blocks; 0 for none.
      detours: chance that a step begins a stretch of `DETOUR` steps in a direction drawn at random; 0 for none.
      seed: another one draws other errors.
    """

    noise: float = 0.0
    detours: float = 0.0
    seed: int = 0

    def at(self, seed: int, step: int) -> tuple[np.ndarray, bool]:
        """What belongs to a step of the episode with this seed: [3], and whether it replaces the expert's translation."""
        for begin in range(max(0, step - DETOUR + 1), step + 1) if self.detours else ():
            rng = self._rng(seed, "detour", begin)
            if rng.random() < self.detours:
                direction = rng.normal(size=3)
                return DETOUR_SPEED * direction / float(np.linalg.norm(direction)), True
        rng = self._rng(seed, "noise", step // BLOCK)
        if self.noise and rng.random() < SHARE:
            return rng.normal(0.0, self.noise, 3), False
        return np.zeros(3), False

    def _rng(self, seed: int, role: str, counter: int) -> np.random.Generator:
        return np.random.default_rng(fold_seed(f"{self.seed}|{seed}", role, counter))


@dataclasses.dataclass(frozen=True)
class Shot:
    """One control step.

    Attributes:
      state: [S], see `embodiments`.
      entities: [E, 3] positions of everything, world metres.
      chunk: float32 [H, A], what the expert would do from here on.
      stage, subtask: what it is doing.
    """

    state: np.ndarray
    entities: np.ndarray
    chunk: np.ndarray
    stage: str
    subtask: str


class Demonstrator:
    """Acts as an expert does, with errors, and remembers in its carry what it saw and would have done.

    Without errors the expert never shows how to come back from a place where it would not have gone, and there a clone soon
    is. It is asked at every step, so that what it would have done is known from everywhere.

    Args:
      expert: what is demonstrated; its carries must tell what it is doing, as those of the experts of `embodiments` do.
      errors: of the execution.
    """

    def __init__(self, expert: Policy, errors: Errors) -> None:
        self._expert, self._errors = expert, errors
        self.spec = dataclasses.replace(expert.spec, name="demonstrator")

    def init(self, task: Task, seed: int) -> tuple[Any, int, tuple[Any, ...]]:
        """The expert's carry, the episode's seed, and no shots."""
        return self._expert.init(task, seed), seed, ()

    def act(self, carries: Sequence[Any], obs: Observation, seeds: np.ndarray) -> tuple[np.ndarray, Sequence[Any]]:
        """See `mjx_bench.policy.Policy.act`; only the first action of a chunk is to be executed, then it is asked again."""
        chunks, after = self._expert.act([own for own, _, _ in carries], obs, seeds)
        executed, states, out = chunks.copy(), embodiment_of([obs.task]).state_of(obs), []
        for lane, (_, seed, shots) in enumerate(carries):
            own, task = after[lane], obs.task
            told = stage_of(task, own), subtask_of(task, own)
            shot = Shot(states[lane], obs.entity_pos[lane].copy(), chunks[lane].copy(), *told)
            # A list would be shared by all carries of an episode; a pair costs nothing to make.
            out.append((own, seed, (shots, shot)))
            error, alone = self._errors.at(seed, int(obs.step[lane]))
            executed[lane, 0, :3] = error if alone else executed[lane, 0, :3] + error
        return np.clip(executed, -1.0, 1.0), out


def shots_of(carry: Any) -> list[Shot]:
    """The shots of an episode, in order."""
    out, rest = [], carry[2]
    while rest:
        rest, shot = rest
        out.append(shot)
    return out[::-1]
