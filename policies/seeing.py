"""Any policy, as if it needed pictures: `--policy seeing:NAME` acts as NAME does, and asks for both of LIBERO's cameras.

What pictures cost an evaluation is the difference between the two, without a network's cost on top.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from mjx_bench.policy import Carry, Observation, Policy
from mjx_bench.task import Task

CAMERAS = ("agentview", "robot0_eye_in_hand")


class Seeing:
    """A policy with both cameras.

    Args:
      policy: what acts.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.spec = dataclasses.replace(policy.spec, name=f"seeing:{policy.spec.name}", cameras=CAMERAS)

    def init(self, task: Task, seed: int) -> Carry:
        """See `mjx_bench.policy.Policy.init`."""
        return self._policy.init(task, seed)

    def act(self, carries: Sequence[Carry], obs: Observation, seeds: np.ndarray) -> tuple[np.ndarray, Sequence[Carry]]:
        """See `mjx_bench.policy.Policy.act`."""
        return self._policy.act(carries, obs, seeds)
