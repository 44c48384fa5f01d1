"""What forking, sharing Base runs and refilling lanes save, by running the same cases without each of them.

Every way must give the same outcomes, which is checked; control steps are counted where they are executed.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from mjx_bench.arms import ArmResult, Arms, BaseJob
from mjx_bench.bench.figures import Spread
from mjx_bench.cases import Case, base_key
from mjx_bench.errors import BenchError
from mjx_bench.pairing import PairRunner
from mjx_bench.physics.mujoco_c import MujocoC
from mjx_bench.physics.scene import SceneModel, compile_scene
from mjx_bench.policy import Policy, action_mode_for
from mjx_bench.predicates import compile_goal, touches_of
from mjx_bench.task import Task
from mjx_bench.triggers import touches_of_triggers


@dataclasses.dataclass(frozen=True)
class Way:
    """How to run cases.

    Attributes:
      replay: a Dynamic arm starts at the beginning instead of at its event.
      own_base: every case has a Base arm of its own instead of sharing it with cases that differ in their event only.
      waves: lanes are filled together, and again only when all of them are done.
    """

    replay: bool = False
    own_base: bool = False
    waves: bool = False


# The first is how cases are run; each of the others does without one thing.
WAYS: Mapping[str, Way] = {
    "as_run": Way(),
    "replay": Way(replay=True),
    "own_base": Way(own_base=True),
    "waves": Way(waves=True),
}


@dataclasses.dataclass(frozen=True)
class Spent:
    """What one way of running cases took.

    Attributes:
      control_steps: executed in all lanes together, settling included.
      batch_steps: calls that stepped lanes; with a fixed number of lanes, as on a GPU, the time is theirs.
      base_arms: Base arms run.
      wall_s, cpu_s: seconds, those of the thread that ran it.
    """

    control_steps: int
    batch_steps: int
    base_arms: int
    wall_s: float
    cpu_s: float

    def __add__(self, other: Spent) -> Spent:
        return Spent(*(getattr(self, f.name) + getattr(other, f.name) for f in dataclasses.fields(self)))


NOTHING = Spent(0, 0, 0, 0.0, 0.0)


class _Counting(MujocoC):
    """Counts the control steps of its lanes."""

    control_steps = batch_steps = 0

    def control_step(self, ids: np.ndarray, actions: np.ndarray) -> dict[int, str]:
        self.control_steps += len(ids)
        self.batch_steps += 1
        return super().control_step(ids, actions)


def measure(
    task: Task, cases: Sequence[Case], new_policy: Callable[[], Policy], lanes: int, query_interval: int, turn: int
) -> dict[str, Spent]:
    """Runs the cases of one task in every way, one after the other.

    Args:
      task: the task of all cases.
      cases: at least one.
      new_policy: makes what acts, a fresh one for each way: what one keeps of a scene must not make the next one faster.
      lanes: lanes of the engine.
      query_interval: Q.
      turn: which way goes first, for the sake of every other cache.

    Returns:
      Way to what it took, in the order of `WAYS`.

    Raises:
      BenchError: two ways came to different outcomes.
    """
    triggers = [case.trigger for case in cases if case.trigger is not None]
    touches = dict.fromkeys((*touches_of(task.goal, task.scene), *touches_of_triggers(triggers)))
    scene = compile_scene(task.scene, tuple(touches))
    names = list(WAYS)
    spent, outcomes = {}, {}
    for name in (*names[turn % len(names) :], *names[: turn % len(names)]):
        spent[name], outcomes[name] = _run(WAYS[name], task, scene, cases, new_policy(), lanes, query_interval)
    for name in names[1:]:
        if outcomes[name] != outcomes[names[0]]:
            raise BenchError(f"{task.suite} task {task.index}: outcomes of {name!r} differ from those of {names[0]!r}")
    return {name: spent[name] for name in names}


def _run(
    way: Way, task: Task, scene: SceneModel, cases: Sequence[Case], policy: Policy, lanes: int, query_interval: int
) -> tuple[Spent, dict[tuple[str, str], tuple[str, int, int | None]]]:
    """What the cases took, and their outcomes: (case, arm) to (verdict, last step, trigger step)."""
    _, success = compile_goal(task.goal, task.scene, scene.index)
    outcomes: dict[tuple[str, str], tuple[str, int, int | None]] = {}

    def emit(case: Case, result: ArmResult) -> None:
        outcomes[case.case_id, str(result.arm)] = str(result.verdict), result.end_step, result.trigger_step

    jobs = jobs_of(cases, own_base=way.own_base)
    wall, cpu = time.perf_counter(), time.thread_time()
    physics = _Counting(scene, lanes, action_mode_for(policy.spec.action_mode, task), task.substeps)
    try:
        arms = Arms(query_interval, policy.spec.horizon, replay=way.replay)
        runner = PairRunner(task, physics, policy, arms, success, emit, lambda: False)
        size = lanes if way.waves else len(jobs)
        for start in range(0, len(jobs), size):
            runner.run(jobs[start : start + size])
        counts = physics.control_steps, physics.batch_steps, len(jobs)
    finally:
        physics.close()
    return Spent(*counts, time.perf_counter() - wall, time.thread_time() - cpu), outcomes


def jobs_of(cases: Sequence[Case], *, own_base: bool) -> list[BaseJob]:
    """Both arms of every case; cases that can share a Base arm are one job, unless each is to have its own."""
    groups: dict[str, list[Case]] = {}
    for case in cases:
        groups.setdefault(case.case_id if own_base else base_key(case), []).append(case)
    jobs = []
    for group in groups.values():
        wanted = frozenset(case.case_id for case in group)
        jobs.append(BaseJob(base_key(group[0]), tuple(group), base_wanted=wanted, dynamic_wanted=wanted))
    return jobs


def summary(by_task: Sequence[Mapping[str, Spent]]) -> dict[str, dict[str, object]]:
    """Each way's totals over tasks, and, over those of the first way: control steps, batch steps, seconds."""
    first = next(iter(WAYS))
    total = {name: sum((spent[name] for spent in by_task), NOTHING) for name in WAYS}
    out = {}
    for name, spent in total.items():
        row: dict[str, object] = dataclasses.asdict(spent)
        if name != first:
            row |= {
                "control_steps_ratio": round(spent.control_steps / total[first].control_steps, 4),
                "batch_steps_ratio": round(spent.batch_steps / total[first].batch_steps, 4),
                "wall_ratio": round(spent.wall_s / total[first].wall_s, 4),
                "cpu_ratio": round(spent.cpu_s / total[first].cpu_s, 4),
                "cpu_ratio_by_task": dataclasses.asdict(Spread.of([t[name].cpu_s / t[first].cpu_s for t in by_task])),
            }
        out[name] = row
    return out
