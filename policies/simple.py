"""Policies that look at nothing: the floor that any other must clear, and noise for tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mjx_bench.errors import unknown_name
from mjx_bench.policy import ACTION_DIMS, NATIVE, Carry, Observation, PolicySpec, action_mode_for
from mjx_bench.task import Task


def _checked(action_mode: str) -> str:
    if action_mode not in (known := (*ACTION_DIMS, NATIVE)):
        raise unknown_name("action mode", action_mode, known)
    return action_mode


class Zero:
    """All zeros: an arm and its gripper hold still, rotors turn at half of their largest thrust."""

    def __init__(self, horizon: int = 16, action_mode: str = NATIVE):
        self.spec = PolicySpec("zero", horizon, _checked(action_mode))

    def init(self, task: Task, seed: int) -> None:
        """The carry of a new episode: nothing."""
        return None

    def act(self, carries: Sequence[Carry], obs: Observation, seeds: np.ndarray) -> tuple[np.ndarray, Sequence[Carry]]:
        """See `mjx_bench.policy.Policy.act`."""
        width = ACTION_DIMS[action_mode_for(self.spec.action_mode, obs.task)]
        return np.zeros((len(carries), self.spec.horizon, width), np.float32), carries


class Random:
    """Uniform in [-1, 1], drawn anew at each query from the query's own seed."""

    def __init__(self, horizon: int = 16, action_mode: str = NATIVE):
        self.spec = PolicySpec("random", horizon, _checked(action_mode))

    def init(self, task: Task, seed: int) -> None:
        """The carry of a new episode: nothing, since queries bring their own seeds."""
        return None

    def act(self, carries: Sequence[Carry], obs: Observation, seeds: np.ndarray) -> tuple[np.ndarray, Sequence[Carry]]:
        """See `mjx_bench.policy.Policy.act`."""
        shape = (self.spec.horizon, ACTION_DIMS[action_mode_for(self.spec.action_mode, obs.task)])
        draws = [np.random.default_rng(int(seed)).uniform(-1.0, 1.0, shape) for seed in seeds]
        return np.stack(draws).astype(np.float32), carries
