"""Worker threads: each takes one task at a time, with an engine of its own, and shares the policy with the others."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from mjx_bench.arms import ArmResult, Arms, BaseJob
from mjx_bench.cases import Case
from mjx_bench.engines import engine_of
from mjx_bench.errors import BenchError
from mjx_bench.judged import TaskKey
from mjx_bench.observe.choice import make_renderer
from mjx_bench.observe.pictures import Pictures
from mjx_bench.pairing import PairRunner
from mjx_bench.policy import Carry, Observation, Policy, PolicySpec
from mjx_bench.predicates import compile_goal
from mjx_bench.rollout import PolicyMistake
from mjx_bench.sessions import Meter
from mjx_bench.task import Task
from mjx_bench.types import Arm, Verdict

Report = Callable[[Case, Task, ArmResult], None]


def processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_groups(
    groups: Mapping[TaskKey, list[BaseJob]],
    tasks: Mapping[TaskKey, Task],
    *,
    policy: Policy,
    arms: Arms,
    lanes: int,
    threads: int,
    backend: str,
    renderer: str | None,
    report: Report,
    finished: Callable[[Meter], None],
) -> None:
    """Runs the jobs of every task.

    Args:
      groups: jobs by task, at least one.
      tasks: the tasks.
      policy: what acts; its calls never overlap.
      arms: how arms are run.
      lanes: episodes of one task side by side, at most.
      threads: workers, at most; 0 for one a processor.
      backend: engine.
      renderer: of the policy's pictures; None for a policy that sees none.
      report: receives every finished arm, from any thread.
      finished: told how the machine was used, also when the run breaks off.

    Raises:
      PolicyMistake: by the policy; arms that were finished have been reported.
      KeyboardInterrupt: passed on, likewise.
    """
    available = threads or processors()
    # A task gets a second engine only where there are fewer tasks than threads: each loads the scene again.
    shares = max(1, available // len(groups))
    parts = [(key, jobs[i::shares]) for key, jobs in groups.items() for i in range(min(shares, len(jobs)))]
    workers = min(available, len(parts))
    meter = Meter(workers)
    stop = threading.Event()
    shared = _OneAtATime(policy, meter)

    def work(key: TaskKey, jobs: list[BaseJob]) -> None:
        if not stop.is_set():
            with meter.working():
                own_lanes = -(-lanes // shares)
                _run_task(tasks[key], jobs, shared, arms, own_lanes, backend, renderer, report, stop.is_set, meter)

    # Largest first, so that the last worker to finish does not hold everybody up.
    order = sorted(parts, key=lambda part: (-sum(len(j.cases) for j in part[1]), part[0]))
    try:
        with concurrent.futures.ThreadPoolExecutor(workers, thread_name_prefix="scene") as pool:
            futures = [pool.submit(work, *part) for part in order]
            try:
                for future in concurrent.futures.as_completed(futures):
                    future.result()
            except BaseException:
                stop.set()
                pool.shutdown(cancel_futures=True)
                raise
    finally:
        finished(meter)


class _OneAtATime:
    """A policy whose calls do not overlap: workers share it, and a user's policy need not be safe against that."""

    def __init__(self, policy: Policy, meter: Meter) -> None:
        self.spec = policy.spec
        self._policy = policy
        self._meter = meter
        self._lock = threading.Lock()

    def init(self, task: Task, seed: int) -> Carry:
        with self._meter.turn(self._lock):
            return self._policy.init(task, seed)

    def act(self, carries: Sequence[Carry], obs: Observation, seeds: np.ndarray) -> tuple[np.ndarray, Sequence[Carry]]:
        with self._meter.turn(self._lock):
            return self._policy.act(carries, obs, seeds)


def _run_task(
    task: Task,
    jobs: list[BaseJob],
    policy: Policy,
    arms: Arms,
    lanes: int,
    backend: str,
    renderer: str | None,
    report: Report,
    stopped: Callable[[], bool],
    meter: Meter,
) -> None:
    wanted = sum(len(job.base_wanted) + len(job.dynamic_wanted) for job in jobs)
    triggers = [case.trigger for job in jobs for case in job.cases if case.trigger is not None]
    lanes = min(lanes, wanted)
    with contextlib.ExitStack() as held:
        try:
            physics = engine_of(
                task,
                backend,
                lanes,
                policy.spec.action_mode,
                interval=arms.query_interval,
                triggers=triggers,
                row=jobs[0].cases[0].init_state_index,
            )
            held.callback(physics.close)
            _, success = compile_goal(task.goal, task.scene, physics.index)
            pictures = _pictures(task, policy.spec, renderer, lanes, meter)
            if pictures is not None:
                held.callback(pictures.close)
            runner = PairRunner(
                task,
                physics,
                policy,
                arms,
                success,
                emit=lambda case, result: report(case, task, result),
                stopped=stopped,
                pictures=pictures,
            )
        except BenchError as error:
            # A scene that cannot be built is nobody's failure: its arms are void, and the other tasks go on.
            for job in jobs:
                for case in job.cases:
                    for arm, missing in ((Arm.BASE, job.base_wanted), (Arm.DYNAMIC, job.dynamic_wanted)):
                        if case.case_id in missing:
                            report(case, task, void(arm, f"scene could not be built: {error}"))
            return
        try:
            runner.run(jobs)
        except PolicyMistake as error:
            raise PolicyMistake(f"{task.suite} task {task.index}: {error}") from None
        finally:
            meter.stepped(runner.control_steps)
            meter.enlarged(physics.grown)


def _pictures(task: Task, spec: PolicySpec, renderer: str | None, lanes: int, meter: Meter) -> Pictures | None:
    """The cameras that the policy asks for, in the worker's own thread."""
    if renderer is None:
        return None
    cameras = [name for name in task.scene.cameras if name in spec.cameras]
    made = make_renderer(renderer, task.scene, cameras, spec.image_size, spec.image_size, lanes)
    return Pictures(made, task.scene, meter.pictured)


def void(arm: Arm, reason: str) -> ArmResult:
    """An arm that could not be run."""
    return ArmResult(arm, Verdict.VOID, reason, 0, None, False, (), {}, init_sha256=None)
