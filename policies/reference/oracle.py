"""One name for the expert of any task: rotors are flown, SUBMIT is pressed at the end, all else is the table's expert's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mjx_bench.policy import NATIVE, Carry, Observation, Policy, PolicySpec
from mjx_bench.task import Task
from policies.reference.hover import Hover
from policies.reference.submit import Submitting
from policies.scripted.expert import HORIZON, Reactive


class Oracle:
    """Hands every task on to the expert that is made for it."""

    def __init__(self) -> None:
        self._hover, self._submitting, self._reactive = Hover(), Submitting(), Reactive()
        own = {expert.spec.horizon for expert in (self._hover, self._submitting, self._reactive)}
        assert own == {HORIZON}
        self.spec = PolicySpec("scripted.oracle", HORIZON, NATIVE)

    def _for(self, task: Task) -> Policy:
        if task.action_modes[0] == self._hover.spec.action_mode:
            return self._hover
        return self._submitting if task.rules.submit else self._reactive

    def init(self, task: Task, seed: int) -> Carry:
        """The carry of a new episode."""
        return self._for(task).init(task, seed)

    def act(self, carries: Sequence[Carry], obs: Observation, seeds: np.ndarray) -> tuple[np.ndarray, Sequence[Carry]]:
        """One query; see `mjx_bench.policy.Policy.act`."""
        return self._for(obs.task).act(carries, obs, seeds)
