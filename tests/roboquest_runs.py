"""Runs of RoboQuest's tasks for tests."""

from __future__ import annotations

from collections.abc import Iterable

from mjx_bench.engines import engine_of
from mjx_bench.predicates import compile_goal, goal_index
from mjx_bench.rollout import Rollout
from mjx_bench.task import Task
from mjx_bench.types import Verdict
from policies.registry import make


def outcomes(task: Task, policy: str, instances: Iterable[int]) -> list[tuple[Verdict, float]]:
    """Verdict and progress of each instance, on the C engine with 8 actions of each chunk."""
    physics = engine_of(task, "c", 1, task.action_modes[0], interval=8, threads=1)
    test = compile_goal(task.goal, task.scene, physics.index)[1]
    found = []
    for index in instances:
        rollout = Rollout(
            task, physics, make(policy), 8, 16, test, goal_index(task.atoms, task.scene), lambda lane, e: None
        )
        physics.load(0, task.load_init_states()[index], task.load_reset(0), task.fields_of(index))
        episode = rollout.begin(f"{task.name} {index}")
        while episode.verdict is None:
            rollout.tick({0: episode})
        found.append((episode.verdict, float(episode.standing.progress)))
    physics.close()
    return found
