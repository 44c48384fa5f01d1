"""Runs the expert on instances, many lanes at a time, and yields each episode as it ends, with the poses of every step."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np

from mjx_bench.engines import engine_of
from mjx_bench.episode import Episode
from mjx_bench.physics.base import Pose
from mjx_bench.policy import Policy, action_mode_for
from mjx_bench.predicates import compile_goal, goal_index
from mjx_bench.rollout import Rollout
from mjx_bench.task import Task
from train.collect.starts import starts_of


@dataclasses.dataclass(frozen=True)
class Run:
    """One episode that has ended.

    Attributes:
      instance: which.
      episode: how it went.
      poses: of the lane before each of its steps.
    """

    instance: int
    episode: Episode
    poses: list[Pose]


def runs(task: Task, policy: Policy, take: Callable[[], int | None], lanes: int, threads: int) -> Iterator[Run]:
    """Episodes of a policy that is asked at every control step, in the order in which they end.

    Args:
      task: the task.
      policy: what acts.
      take: gives the next instance to run, None for none now; asked whenever a lane is free.
      lanes: episodes side by side; nothing in an episode depends on it.
      threads: threads that step them.
    """
    physics = engine_of(task, "c", lanes, action_mode_for(policy.spec.action_mode, task), interval=1, threads=threads)
    success = compile_goal(task.goal, task.scene, physics.index)[1]
    judged = goal_index(task.goal, task.scene)
    rollout = Rollout(task, physics, policy, 1, policy.spec.horizon, success, judged, lambda lane, episode: None)
    starts = starts_of(task)
    running: dict[int, Run] = {}
    try:
        while True:
            for lane in range(lanes):
                if lane not in running and (instance := take()) is not None:
                    physics.load(lane, *starts.of(instance))
                    running[lane] = Run(instance, rollout.begin(f"{task.suite} {task.name} {instance}"), [])
            if not running:
                return
            ready = [lane for lane, run in sorted(running.items()) if not run.episode.settle]
            if ready:
                for lane, pose in zip(ready, physics.poses(np.array(ready, np.int32)), strict=True):
                    running[lane].poses.append(_sharing(pose, running[lane].poses))
            rollout.tick({lane: run.episode for lane, run in running.items()})
            for lane in [lane for lane, run in running.items() if run.episode.verdict is not None]:
                yield running.pop(lane)
    finally:
        physics.close()


def _sharing(pose: Pose, before: list[Pose]) -> Pose:
    """The pose, with the model's fields of the first one where they are the same: an episode of minutes has thousands."""
    if not before or any(not np.array_equal(pose.fields[name], value) for name, value in before[0].fields.items()):
        return pose
    return dataclasses.replace(pose, fields=before[0].fields)
