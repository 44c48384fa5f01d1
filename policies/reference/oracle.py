"""One name for the expert of any task: rotors are flown, cars follow their road, legs trot, SUBMIT is pressed at the end,
and an arm on a base that drives follows the program of its task.

All else is the table's expert's.

A task may name its expert (`Task.extra["expert"]`), where its action mode does not say enough. It may show it another goal
than its own (`Task.extra["expert_goal"]`): one whose atoms the expert knows, and that is never met where the task's is not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from mjx_bench.policy import NATIVE, Carry, Observation, Policy, PolicySpec
from mjx_bench.task import Task
from policies.mobile.expert import Mobile
from policies.reference.bimanual import Bimanual
from policies.reference.hover import Hover
from policies.reference.juggle import Juggle
from policies.reference.pursuit import Pursuit
from policies.reference.submit import Submitting
from policies.reference.trot import Trot
from policies.scripted.expert import HORIZON, Reactive


class Oracle:
    """Hands every task on to the expert that is made for it."""

    def __init__(self) -> None:
        self._by_mode: dict[str, Policy] = {
            expert.spec.action_mode: expert for expert in (Hover(), Pursuit(), Trot(), Bimanual(), Mobile())
        }
        self._by_name: dict[str, Policy] = {expert.spec.name: expert for expert in (Juggle(),)}
        self._submitting, self._reactive = Submitting(), Reactive()
        own = {
            expert.spec.horizon
            for expert in (*self._by_mode.values(), *self._by_name.values(), self._submitting, self._reactive)
        }
        assert own == {HORIZON}
        self.spec = PolicySpec("scripted.oracle", HORIZON, NATIVE)

    def _for(self, task: Task) -> Policy:
        if "expert" in task.extra:
            return self._by_name[task.extra["expert"]]
        if task.action_modes[0] in self._by_mode:
            return self._by_mode[task.action_modes[0]]
        return self._submitting if task.rules.submit else self._reactive

    def init(self, task: Task, seed: int) -> Carry:
        """The carry of a new episode."""
        return self._for(task).init(task, seed)

    def act(self, carries: Sequence[Carry], obs: Observation, seeds: np.ndarray) -> tuple[np.ndarray, Sequence[Carry]]:
        """One query; see `mjx_bench.policy.Policy.act`."""
        expert, shown = self._for(obs.task), obs.task.extra.get("expert_goal")
        if shown is not None:
            obs = dataclasses.replace(obs, task=dataclasses.replace(obs.task, goal=shown))
        return expert.act(carries, obs, seeds)
