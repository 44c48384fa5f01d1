"""Pairs: one Base arm, and one Dynamic arm for every event that is tried on it.

A Base arm is run once and shared by all cases that differ in their event only. When a case's trigger holds, the lane is
snapshotted; the Dynamic arm starts from there, in whatever lane is free next, with the same actions in flight (a fork). Or
it starts at the beginning, executes what the Base arm executed, and must arrive at the same bits (a replay): the audit of a
fork. An event that never fires leaves the Dynamic arm equal to its base, and is recorded so.
"""

from __future__ import annotations

import dataclasses
import hashlib
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mjx_bench.arms import ArmResult, Arms, BaseJob, Emit, untriggered
from mjx_bench.cases import Case
from mjx_bench.episode import Episode
from mjx_bench.errors import BenchError
from mjx_bench.events import apply_change, go_on
from mjx_bench.observe.pictures import Pictures, pixel_change
from mjx_bench.observe.repair import Repair
from mjx_bench.physics.base import Physics, Snapshot
from mjx_bench.policy import Policy
from mjx_bench.predicates import Test, goal_index
from mjx_bench.rollout import Rollout
from mjx_bench.signals import SignalIndex
from mjx_bench.task import GOAL_ALONE, Task
from mjx_bench.triggers import compile_trigger, trigger_distance
from mjx_bench.types import Arm, Verdict


@dataclasses.dataclass(frozen=True)
class Hit:
    """The moment a case's trigger held in its Base arm."""

    case: Case
    step: int
    distance: float | None
    snapshot: Snapshot
    fork_sha256: str
    episode: Episode


@dataclasses.dataclass
class _Run:
    """One lane's occupant: a Base arm (`hit` and `base` are None) or the Dynamic arm of `hit`, `replaying` up to its event.

    A Base arm that is recorded already is `abandoned` once every trigger it was run again for has fired. A Dynamic arm that
    ends before its base waits in the base's `early`: which queries both arms made is known only then.
    """

    job: BaseJob
    episode: Episode
    init_sha256: str | None
    base: _Run | None = None
    hit: Hit | None = None
    hits: dict[str, Hit] = dataclasses.field(default_factory=dict)
    event: dict[str, Any] | None = None
    replaying: bool = False
    abandoned: bool = False
    base_queries: tuple[int, ...] | None = None
    early: list[tuple[Case, ArmResult]] = dataclasses.field(default_factory=list)


class PairRunner:
    """Runs the jobs of one task in the lanes of one engine.

    Args:
      task: the task of all jobs.
      physics: the lanes.
      policy: what acts.
      arms: how.
      success: signals to bool [B].
      emit: receives every finished arm that a job wants, as soon as it is known.
      stopped: polled between ticks; when it answers True, `run` returns with arms unfinished.
      judged: signals to keep with each arm; those that the goal reads if None.
      pictures: the policy's cameras, None for a policy that sees no pictures.
      settled: Base arm's key to its state after settling, in lanes of this very engine; filled, and used to settle once
        where several runners share it. None where there is no other.
    """

    def __init__(
        self,
        task: Task,
        physics: Physics,
        policy: Policy,
        arms: Arms,
        success: Test,
        emit: Emit,
        stopped: Callable[[], bool],
        judged: SignalIndex | None = None,
        pictures: Pictures | None = None,
        settled: dict[str, Snapshot] | None = None,
    ) -> None:
        self._task = task
        self._physics = physics
        self._arms = arms
        self._emit = emit
        self._stopped = stopped
        self._pictures = pictures
        self._settled = settled
        self._rollout = Rollout(
            task,
            physics,
            policy,
            arms.query_interval,
            arms.horizon,
            success,
            judged or goal_index(task.atoms, task.scene),
            self._after_step,
            run_on=arms.run_on,
            pictures=pictures,
            delay=arms.delay,
            watching=arms.cancel_on_change,
            repair=None if arms.restoration == "off" else Repair(arms.restoration),
        )
        self._init_states = task.load_init_states()
        self._lanes: dict[int, _Run] = {}
        self._waiting: deque[BaseJob] = deque()
        self._forks: deque[tuple[_Run, Hit]] = deque()

    @property
    def control_steps(self) -> int:
        """Executed so far, in all lanes."""
        return self._rollout.control_steps

    def run(self, jobs: Sequence[BaseJob]) -> None:
        self._waiting.extend(jobs)
        while (self._waiting or self._forks or self._lanes) and not self._stopped():
            self._fill()
            self._rollout.tick({lane: run.episode for lane, run in self._lanes.items()})
            for lane, run in sorted(self._lanes.items()):
                self._keep_settled(lane, run)
                if run.abandoned or run.episode.verdict is not None:
                    del self._lanes[lane]
                    self._finish(run)

    def _fill(self) -> None:
        """Puts waiting arms into free lanes; forks first, since each holds a snapshot."""
        free = [lane for lane in range(self._physics.lanes) if lane not in self._lanes]
        for lane in free:
            if self._forks:
                run, hit = self._forks.popleft()
                self._lanes[lane] = self._start_dynamic(lane, run, hit)
            elif self._waiting:
                self._lanes[lane] = self._start_base(lane, self._waiting.popleft())

    def _keep_settled(self, lane: int, run: _Run) -> None:
        """A lane that has settled waits for its first query, so that every one is met here."""
        e, key = run.episode, run.job.key
        if self._settled is not None and key not in self._settled and not (e.settle or e.query_steps or e.verdict):
            self._settled[key] = self._physics.snapshot(lane)

    def _start_base(self, lane: int, job: BaseJob) -> _Run:
        return self._start(lane, job, {} if job.stored is None else job.stored.chunks)

    def _start(self, lane: int, job: BaseJob, chunks: Mapping[int, np.ndarray]) -> _Run:
        """An arm at its beginning, with the chunks that it is to execute instead of new ones."""
        case = job.cases[0]
        state = self._init_states[case.init_state_index]
        fields = self._task.fields_of(case.init_state_index)
        episode = self._rollout.begin(job.key, case.policy_seed)
        episode.stored_chunks = chunks
        episode.instance = case.init_state_index
        episode.pushes = self._task.pushes_of(case.init_state_index)
        if self._settled is not None and job.key in self._settled:
            self._physics.restore(lane, self._settled[job.key])
            episode.skip_settling()
        else:
            self._physics.load(lane, state, self._task.load_reset(case.policy_seed), fields)
            try:
                for change in case.setup:
                    apply_change(change, self._physics, lane, faithful=self._arms.faithful)
            except BenchError as error:
                episode.finish(Verdict.VOID, f"setup could not be applied: {error}")
        return _Run(job, episode, hashlib.sha256(state.tobytes()).hexdigest())

    def _start_dynamic(self, lane: int, base: _Run, hit: Hit) -> _Run:
        if self._arms.replay:
            prefix = dict(zip(hit.episode.query_steps, hit.episode.chunks, strict=True))
            run = self._start(lane, base.job, prefix)
            return dataclasses.replace(run, base=base, hit=hit, replaying=True)
        hit.episode.started = time.perf_counter()
        run = _Run(base.job, hit.episode, base.init_sha256, base, hit)
        self._physics.restore(lane, hit.snapshot)
        self._apply_event(lane, run, hit, hit.fork_sha256)
        if self._arms.cancel_on_change:
            self._rollout.watch({lane: run.episode})
        return run

    def _apply_event(self, lane: int, run: _Run, hit: Hit, arrived_at: str) -> None:
        """The one event of a Dynamic arm, if the lane is in the state that the Base arm was in."""
        stored = run.job.stored
        recorded = hit.fork_sha256 if stored is None else stored.fork_sha256.get(hit.case.case_id, hit.fork_sha256)
        if not arrived_at == hit.fork_sha256 == recorded:
            run.episode.finish(Verdict.VOID, "the replayed prefix did not arrive at the Base arm's state")
            return
        try:
            if self._arms.no_event:
                run.event = {"operation": "none"}
            else:
                run.event = self._change(lane, hit.case)
        except BenchError as error:
            run.episode.finish(Verdict.VOID, f"event could not be applied: {error}")
        if run.episode.verdict is None and run.episode.step >= self._task.horizon:
            run.episode.finish(Verdict.TIMEOUT, "horizon")

    def _change(self, lane: int, case: Case) -> dict[str, Any]:
        """Applies a case's event; returns what it changed, in the pictures too where the policy sees any."""
        here = np.array([lane], np.int32)
        assert case.scenario is not None
        before = None if self._pictures is None else self._pictures.take(self._physics.poses(here))
        event = apply_change(case.scenario.change, self._physics, lane, faithful=self._arms.faithful)
        if self._pictures is not None and before is not None:
            event["pixel_change"] = pixel_change(before, self._pictures.take(self._physics.poses(here)))
        return event

    def _after_step(self, lane: int, episode: Episode) -> None:
        run = self._lanes[lane]
        if run.hit is not None:
            if run.replaying and episode.step == run.hit.step:
                run.replaying = False
                self._apply_event(lane, run, run.hit, self._physics.snapshot(lane).digest())
            elif run.event is not None:
                go_on(run.event, self._physics, lane, episode.step - run.hit.step)
            return
        signals = self._physics.signals
        snapshot: tuple[Snapshot, str] | None = None
        for case in run.job.cases:
            trigger = case.trigger
            if trigger is None or case.case_id in run.hits:
                continue
            if not compile_trigger(trigger, self._physics.index)(signals, lane, episode.step):
                continue
            if snapshot is None:
                taken = self._physics.snapshot(lane)
                snapshot = taken, taken.digest()
            hit = Hit(
                case,
                episode.step,
                trigger_distance(trigger, self._physics.index, signals, lane),
                *snapshot,
                episode.fork(),
            )
            run.hits[case.case_id] = hit
            if case.case_id in run.job.dynamic_wanted:
                self._forks.append((run, hit))
        if not run.job.base_wanted and run.job.dynamic_wanted <= run.hits.keys():
            run.abandoned = True

    def _finish(self, run: _Run) -> None:
        if run.hit is not None:
            assert run.base is not None
            run.base.early.append((run.hit.case, self._result(run, Arm.DYNAMIC, run.hit)))
            self._release(run.base)
            return
        job, stored = run.job, run.job.stored
        run.base_queries = tuple(stored.chunks) if run.abandoned and stored else tuple(run.episode.query_steps)
        if not run.abandoned:
            for case in job.cases:
                hit = run.hits.get(case.case_id)
                base = self._result(run, Arm.BASE, hit)
                if case.case_id in job.base_wanted:
                    self._emit(case, base)
                if case.case_id in job.dynamic_wanted and hit is None:
                    self._emit(case, untriggered(base))
        self._release(run)

    def _release(self, base: _Run) -> None:
        """Emits the Dynamic arms of a base that has ended."""
        if base.base_queries is None:
            return
        for case, result in base.early:
            response = result.first_response_step
            both = response if response in base.base_queries else None
            self._emit(case, dataclasses.replace(result, common_response_step=both))
        base.early.clear()

    def _result(self, run: _Run, arm: Arm, hit: Hit | None) -> ArmResult:
        e = run.episode
        assert e.verdict is not None
        return ArmResult(
            arm=arm,
            verdict=e.verdict,
            reason=e.reason,
            end_step=e.step,
            success_step=e.success_step,
            success_end=e.success_end,
            query_steps=tuple(e.query_steps),
            arrays=e.arrays(),
            init_sha256=run.init_sha256,
            trigger_step=None if hit is None else hit.step,
            trigger_distance=None if hit is None else hit.distance,
            fork_sha256=None if hit is None else hit.fork_sha256,
            event=run.event,
            progress=None if self._task.rules == GOAL_ALONE else float(e.standing.progress),
            wall_s=time.perf_counter() - e.started,
            delay=self._arms.delay,
            waited=tuple(e.waited),
            repair_s=e.repair_s,
        )
