"""Worker threads: each takes one task at a time, with an engine of its own, and shares the policy with the others."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import functools
import os
import threading
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from mjx_bench.arms import ArmResult, Pass, Report
from mjx_bench.cases import Case
from mjx_bench.engines import engine_of
from mjx_bench.errors import BenchError
from mjx_bench.judged import TaskKey
from mjx_bench.observe.choice import make_renderer
from mjx_bench.observe.pictures import Pictures
from mjx_bench.pairing import PairRunner
from mjx_bench.physics.base import Physics, Snapshot
from mjx_bench.policy import Carry, Observation, Policy, PolicySpec
from mjx_bench.predicates import compile_goal
from mjx_bench.rollout import PolicyMistake
from mjx_bench.sessions import Meter
from mjx_bench.task import Task
from mjx_bench.types import Arm, Verdict


def processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_groups(
    groups: Mapping[TaskKey, list[Pass]],
    tasks: Mapping[TaskKey, Task],
    *,
    policy: Policy,
    lanes: int,
    threads: int,
    backend: str,
    renderer: str | None,
    finished: Callable[[Meter], None],
) -> None:
    """Runs the passes of every task, those of one task one after the other.

    Args:
      groups: passes by task, at least one.
      tasks: the tasks.
      policy: what acts; its calls never overlap.
      lanes: episodes of one task side by side, at most.
      threads: workers, at most; 0 for one a processor.
      backend: engine.
      renderer: of the policy's pictures; None for a policy that sees none.
      finished: told how the machine was used, also when the run breaks off.

    Raises:
      PolicyMistake: by the policy; arms that were finished have been reported.
      KeyboardInterrupt: passed on, likewise.
    """
    available = threads or processors()
    # A task gets a second engine only where there are fewer tasks than threads: each loads the scene again.
    shares = max(1, available // len(groups))
    parts = [
        (key, [dataclasses.replace(one, jobs=one.jobs[i::shares]) for one in passes if len(one.jobs) > i])
        for key, passes in groups.items()
        for i in range(min(shares, max(len(one.jobs) for one in passes)))
    ]
    workers = min(available, len(parts))
    meter = Meter(workers)
    stop = threading.Event()
    shared = _OneAtATime(policy, meter)

    def work(key: TaskKey, passes: list[Pass]) -> None:
        if not stop.is_set():
            with meter.working():
                own_lanes = -(-lanes // shares)
                _run_task(tasks[key], passes, shared, own_lanes, backend, renderer, stop.is_set, meter)

    # Largest first, so that the last worker to finish does not hold everybody up.
    order = sorted(parts, key=lambda part: (-sum(one.wanted for one in part[1]), part[0]))
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
    passes: Sequence[Pass],
    policy: Policy,
    lanes: int,
    backend: str,
    renderer: str | None,
    stopped: Callable[[], bool],
    meter: Meter,
) -> None:
    lanes = min(lanes, max(one.wanted for one in passes))
    engines = _Engines(task, passes, policy.spec.action_mode, lanes, backend, meter)
    with contextlib.ExitStack() as held:
        held.callback(engines.close)
        pictures = None
        for one in passes:
            try:
                physics, settled = engines.of(one.arms.query_interval)
                _, success = compile_goal(task.goal, task.scene, physics.index)
                if pictures is None and renderer is not None:
                    pictures = _pictures(task, policy.spec, renderer, lanes, meter)
                    held.callback(pictures.close)
                runner = PairRunner(
                    task,
                    physics,
                    policy,
                    one.arms,
                    success,
                    emit=functools.partial(_emit, one.report, task),
                    stopped=stopped,
                    pictures=pictures,
                    settled=settled if len(passes) > 1 else None,
                )
            except BenchError as error:
                _void_all(one, task, f"scene could not be built: {error}")
                continue
            try:
                runner.run(one.jobs)
            except PolicyMistake as error:
                raise PolicyMistake(f"{task.suite} task {task.index}: {error}") from None
            finally:
                meter.stepped(runner.control_steps)


def _emit(report: Report, task: Task, case: Case, result: ArmResult) -> None:
    report(case, task, result)


def _void_all(one: Pass, task: Task, reason: str) -> None:
    """A scene that cannot be built is nobody's failure: its arms are void, and the other tasks go on."""
    for job in one.jobs:
        for case in job.cases:
            for arm, missing in ((Arm.BASE, job.base_wanted), (Arm.DYNAMIC, job.dynamic_wanted)):
                if case.case_id in missing:
                    one.report(case, task, void(arm, reason))


class _Engines:
    """The engine of a task: one for all passes where it steps as it is told, one for each Q where that is compiled in."""

    def __init__(
        self, task: Task, passes: Sequence[Pass], action_mode: str, lanes: int, backend: str, meter: Meter
    ) -> None:
        self._task, self._action_mode, self._lanes, self._backend = task, action_mode, lanes, backend
        self._meter = meter
        jobs = [job for one in passes for job in one.jobs]
        self._triggers = [case.trigger for job in jobs for case in job.cases if case.trigger is not None]
        self._row = jobs[0].cases[0].init_state_index
        self._interval: int | None = None
        self._physics: Physics | None = None
        self._settled: dict[str, Snapshot] = {}

    def of(self, interval: int) -> tuple[Physics, dict[str, Snapshot]]:
        """The engine for Q = `interval`, and the states that its lanes were in after settling, by a Base arm's key."""
        if self._physics is None or (self._backend != "c" and interval != self._interval):
            self.close()
            self._physics = engine_of(
                self._task,
                self._backend,
                self._lanes,
                self._action_mode,
                interval=interval,
                triggers=self._triggers,
                row=self._row,
            )
            self._interval, self._settled = interval, {}
        return self._physics, self._settled

    def close(self) -> None:
        if self._physics is not None:
            self._meter.enlarged(self._physics.grown)
            self._physics.close()
            self._physics = None


def _pictures(task: Task, spec: PolicySpec, renderer: str, lanes: int, meter: Meter) -> Pictures:
    """The cameras that the policy asks for, in the worker's own thread."""
    cameras = [name for name in task.scene.cameras if name in spec.cameras]
    made = make_renderer(renderer, task.scene, cameras, spec.image_size, spec.image_size, lanes)
    return Pictures(made, task.scene, meter.pictured)


def void(arm: Arm, reason: str) -> ArmResult:
    """An arm that could not be run."""
    return ArmResult(arm, Verdict.VOID, reason, 0, None, False, (), {}, init_sha256=None)
