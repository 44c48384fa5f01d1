"""A recorded pair, run again to be looked at: no pictures are kept during a run; the engine is exact, so none need be.

What comes out is compared with the records at every step. A film of something else than what was recorded is an error, never
a film.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mjx_bench.cases import Case
from mjx_bench.checkers import START, Standing, judge_of
from mjx_bench.engines import engine_of
from mjx_bench.episode import apply_push
from mjx_bench.errors import BenchError, unknown_name
from mjx_bench.events import apply_change, go_on
from mjx_bench.fields import short, thaw
from mjx_bench.judged import task_key, task_name
from mjx_bench.physics.base import Physics, Pose, Snapshot
from mjx_bench.policy import settling
from mjx_bench.predicates import Test, compile_goal
from mjx_bench.records import Record, Run, event_rank
from mjx_bench.task import Push, Task
from mjx_bench.types import Arm, Verdict

# Recorded in an event, and no part of what happened to the lane at that step: what a policy saw, and what came after.
_LATER = ("pixel_change", "called_off")

_LANE = np.zeros(1, np.int32)
_SAY_EVERY_S = 10.0


@dataclasses.dataclass(frozen=True)
class ArmFootage:
    """One arm.

    Attributes:
      record: its line.
      poses: [T + 1], `poses[k]` after k policy steps; at the event's step, after the event.
      query_steps: steps at which the policy was asked.
      eef_pos: [T, 3] world metres, after each step.
    """

    record: Record
    poses: tuple[Pose, ...]
    query_steps: tuple[int, ...]
    eef_pos: np.ndarray

    @property
    def end(self) -> int:
        return self.record.end_step


@dataclasses.dataclass(frozen=True)
class Footage:
    """Both arms of a pair. The Dynamic arm's poses before the event are the Base arm's own.

    Attributes:
      case, task: what was run.
      policy: name of what acted.
      arms: Base and Dynamic; Base alone of an evaluation's case.
    """

    case: Case
    task: Task
    policy: str
    arms: Mapping[Arm, ArmFootage]

    @property
    def event_step(self) -> int | None:
        """Policy steps executed when the event fired, None if it never did."""
        return self.arms[Arm.DYNAMIC].record.trigger_step if Arm.DYNAMIC in self.arms else None

    @property
    def end(self) -> int:
        """Steps of the longer arm."""
        return max(arm.end for arm in self.arms.values())


def choose_pairs(run: Run, count: int) -> list[str]:
    """Ids of the pairs that show most: regressions, then recoveries, then what an event struck, then the rest.

    Each group takes turns over the event types, in their order, and gives the cases of a type in the manifest's order. Pairs
    with an arm that is missing, void or without its actions are never chosen. Of an evaluation, failures come first, and
    tasks take turns.
    """
    rank = {(True, False): 0, (False, True): 1}
    groups: dict[int, dict[str, deque[str]]] = {}
    for case_id in run.case_ids:
        try:
            base, *others = recorded_pair(run, case_id)
        except BenchError:
            continue
        group, kind = int(bool(base.success)), f"{base.suite}/{base.task_index}"
        for dynamic in others:
            group = rank.get((bool(base.success), bool(dynamic.success)), 2 if dynamic.trigger_step is not None else 3)
            kind = dynamic.change_type
        groups.setdefault(group, {}).setdefault(kind, deque()).append(case_id)
    chosen: list[str] = []
    for _, queues in sorted(groups.items()):
        turns = deque(queues[event] for event in sorted(queues, key=event_rank))
        while turns:
            queue = turns.popleft()
            chosen.append(queue.popleft())
            if queue:
                turns.append(queue)
    return chosen[:count]


def recorded_pair(run: Run, case_id: str) -> tuple[Record, ...]:
    """Both arms of a case, Base first, or the one arm of an evaluation's, if they can be run again.

    Raises:
      BenchError: no such case, or an arm that is missing, void or recorded without its actions.
    """
    if case_id not in run.case_ids:
        raise unknown_name(f"case in {run.directory}", case_id, run.case_ids)
    arms = []
    for arm in run.arms:
        record = run.done.get((case_id, arm))
        where = f"{run.directory}: case {case_id!r} arm {arm}"
        if record is None:
            raise BenchError(f"{where} is not recorded yet; run the same command again to finish it")
        if record.success is None:
            raise BenchError(f"{where} is {record.verdict} ({record.reason}): there is nothing to show of it")
        if missing := {"actions", "chunks", "query_steps", "eef_pos"} - record.arrays.keys():
            raise BenchError(f"{where} was recorded without {', '.join(sorted(missing))}; it cannot be run again")
        arms.append(record)
    return tuple(arms)


def moments_of(run: Run, case_id: str) -> dict[str, int]:
    """Moment (`records.media.MOMENTS`) to its policy step; an arm that has ended by then stands still.

    Raises:
      BenchError: as `recorded_pair`.
    """
    base, *others = recorded_pair(run, case_id)
    if not others:
        return {"start": 0, "end": base.end_step}
    dynamic = others[0]
    event, response, end = dynamic.trigger_step, dynamic.first_response_step, max(base.end_step, dynamic.end_step)
    if event is None:
        return {"start": 0, "end": end}
    queries = np.asarray(run.array(dynamic, "query_steps")).tolist()
    moments = {"before": max((s for s in queries if s < event), default=0), "event": event}
    return moments | ({} if response is None else {"response": response}) | {"end": end}


def film_pair(run: Run, case: Case, task: Task, progress: Callable[[str], None] = lambda line: None) -> Footage:
    """Runs the arms of a recorded case again, with the recorded actions.

    Args:
      run: the results folder.
      case: one of its manifest's cases.
      task: its task.
      progress: told a line before anything that takes long, and now and then what has been run.

    Raises:
      BenchError: an arm that cannot be run again, a task that is not the one that was run, or anything that comes out other
        than recorded; the message says what, and which versions differ.
    """
    base, *others = (_Recorded.read(run, record) for record in recorded_pair(run, case.case_id))
    recorded = run.header.assets.get(task_name(task_key(case)))
    if task.version != recorded:
        raise BenchError(
            f"{run.directory}: {task.suite} task {task.index} is version {task.version} here and {recorded} in the records;"
            " film with the packages that run.json names"
        )
    settings = run.header.settings
    triggers = [] if case.trigger is None else [case.trigger]
    what = "both arms" if others else "the case"
    first = "" if settings["backend"] == "c" else f"compiling a program of engine {settings['backend']}, then "
    progress(f"{first}running {what} again")
    physics = engine_of(
        task,
        settings["backend"],
        1,
        settings["action_mode"],
        interval=settings["query_interval"],
        triggers=triggers,
        row=case.init_state_index,
        tile=settings.get("tile"),
    )
    again = _Again(run, case, task, physics, compile_goal(task.goal, task.scene, physics.index)[1], progress)
    try:
        poses, fork = again.base(base)
        arms = {Arm.BASE: base.footage(poses)}
        for dynamic in others:
            arms[Arm.DYNAMIC] = dynamic.footage(again.dynamic(dynamic, base, poses, fork))
    finally:
        physics.close()
    return Footage(case, task, str(settings["policy"]), arms)


@dataclasses.dataclass(frozen=True)
class _Recorded:
    """An arm as recorded: actions [T, A] and eef_pos [T, 3] of each policy step, and the query steps."""

    record: Record
    actions: np.ndarray
    eef_pos: np.ndarray
    query_steps: tuple[int, ...]

    @classmethod
    def read(cls, run: Run, record: Record) -> _Recorded:
        actions, eef_pos, queries = (np.asarray(run.array(record, n)) for n in ("actions", "eef_pos", "query_steps"))
        if not len(actions) == len(eef_pos) == record.end_step:
            raise BenchError(
                f"{run.directory}: case {record.case_id!r} arm {record.arm} ends after {record.end_step} steps, and"
                f" {len(actions)} actions are recorded: the records were changed"
            )
        return cls(record, actions, eef_pos, tuple(queries.tolist()))

    def footage(self, poses: Sequence[Pose]) -> ArmFootage:
        return ArmFootage(self.record, tuple(poses), self.query_steps, self.eef_pos)


class _Again:
    """Both arms of a case, run again on a single lane and compared with what was recorded."""

    def __init__(
        self,
        run: Run,
        case: Case,
        task: Task,
        physics: Physics,
        success: Test,
        progress: Callable[[str], None],
    ) -> None:
        self._run = run
        self._progress = progress
        self._said = time.monotonic()
        self._case = case
        self._task = task
        self._physics = physics
        self._success = success
        self._judge = judge_of(task, physics.index)
        # How the arm that is being played stands after each step; a Dynamic arm goes on from its base's.
        self._standings: dict[int, Standing] = {0: START}
        # Of a Dynamic arm that is being played: the event, and its step.
        self._event: tuple[dict[str, Any], int] | None = None
        self._pushes = task.pushes_of(case.init_state_index)
        self._faithful = bool(run.header.settings["faithful"])

    def base(self, arm: _Recorded) -> tuple[list[Pose], Snapshot | None]:
        """The Base arm's poses, and the lane at its trigger."""
        case, task, physics = self._case, self._task, self._physics
        fields = task.fields_of(case.init_state_index)
        physics.load(0, task.load_init_states()[case.init_state_index], task.load_reset(case.policy_seed), fields)
        for change in case.setup:
            apply_change(change, physics, 0, faithful=self._faithful)
        settle = np.tile(settling(task, arm.actions.shape[1]), (task.settle_steps, 1))
        for _ in self._execute(settle, {}, 0):
            pass
        return self._play(arm, physics.poses(_LANE), arm.record.trigger_step)

    def dynamic(self, arm: _Recorded, base: _Recorded, poses: list[Pose], fork: Snapshot | None) -> list[Pose]:
        """The Dynamic arm's poses, given those of the Base arm and the lane at the trigger."""
        event = arm.record.trigger_step
        self._expect(arm, "the event's step", base.record.trigger_step, event)
        # Without an event the arm is its Base arm to the end.
        before = slice(None) if event is None else slice(0, event)
        for name in ("actions", "eef_pos"):
            same = np.array_equal(getattr(base, name)[before], getattr(arm, name)[before])
            self._expect(arm, f"equality of {name} before the event", True, same)
        if fork is None or event is None:
            return poses
        for each in (base, arm):
            self._expect(each, "the state at the event", fork.digest(), each.record.fork_sha256)
        self._physics.restore(0, fork)
        changed: dict[str, Any] = {"operation": "none"}
        if not self._run.header.settings["no_event"]:
            assert self._case.scenario is not None
            changed = apply_change(self._case.scenario.change, self._physics, 0, faithful=self._faithful)
        applied = {k: v for k, v in thaw(arm.record.event or {}).items() if k not in _LATER}
        self._expect(arm, "the event", changed, applied)
        self._event = changed, event
        return self._play(arm, [*poses[:event], *self._physics.poses(_LANE)], None)[0]

    def _play(self, arm: _Recorded, poses: list[Pose], snap_at: int | None) -> tuple[list[Pose], Snapshot | None]:
        """Executes the recorded actions that come after `poses`; all poses then, and the lane after step `snap_at`."""
        fork, reached, holds = None, None, False
        done = len(poses) - 1
        actions = arm.actions[done:].astype(np.float64)
        for step, fault in enumerate(self._execute(actions, self._pushes, done), done + 1):
            if time.monotonic() - self._said >= _SAY_EVERY_S:
                self._said = time.monotonic()
                self._progress(f"arm {arm.record.arm}, step {step} of {len(arm.actions)}")
            self._expect(arm, f"step {step}", fault or "sound", "sound")
            hand = self._physics.signals.eef_pos[0].tolist()
            self._expect(arm, f"the hand's place after step {step}", hand, arm.eef_pos[step - 1].tolist())
            holds = self._holds(step)
            reached = step if holds and reached is None else reached
            if self._event is not None:
                go_on(self._event[0], self._physics, 0, step - self._event[1])
            poses.extend(self._physics.poses(_LANE))
            if step == snap_at:
                fork = self._physics.snapshot(0)
        verdict = Verdict.TIMEOUT if reached is None else Verdict.SUCCESS
        if self._judge is not None:
            last = len(arm.actions)
            end = self._judge.end(self._standings[last], at_horizon=last >= self._task.horizon)
            verdict = Verdict.TIMEOUT if end is None else end[0]
            holds = verdict is Verdict.SUCCESS
            reached = last if holds else None
        self._expect(arm, "the step of success", reached, arm.record.success_step)
        self._expect(arm, "success at the end", holds, arm.record.success_end)
        self._expect(arm, "the verdict", str(verdict), str(arm.record.verdict))
        return poses, fork

    def _holds(self, step: int) -> bool:
        """Whether the goal holds after a step, by the task's rules if it has any."""
        signals = self._physics.signals
        if self._judge is None:
            return bool(self._success(signals)[0])
        self._standings[step] = self._judge.step(self._standings[step - 1], signals, 0)
        return bool(self._standings[step].success)

    def _execute(self, actions: np.ndarray, pushes: Mapping[int, Push], done: int) -> Iterator[str]:
        """Executes actions [n, A] with the pushes that come after `done` steps, and yields after each what failed."""
        interval = self._run.header.settings["query_interval"]
        for start in range(0, len(actions), interval):
            chunk = actions[start : start + interval]
            self._physics.announce(_LANE, chunk[None], np.array([len(chunk)]))
            for step, action in enumerate(chunk, done + start):
                apply_push(self._physics, 0, pushes, step)
                yield "; ".join(self._physics.control_step(_LANE, action[None]).values())

    def _expect(self, arm: _Recorded, what: str, found: Any, recorded: Any) -> None:
        if found == recorded:
            return
        header = self._run.header
        here = {name: _version(name) for name in header.packages}
        other = [f"{name} {here[name]} (was {was})" for name, was in header.packages.items() if here[name] != was]
        why = f"other versions here: {', '.join(other)}" if other else "the records were changed, or made elsewhere"
        raise BenchError(
            f"{self._run.directory}: case {self._case.case_id!r} arm {arm.record.arm}, run again, is not what was recorded:"
            f" {what} is {short(found)}, recorded {short(recorded)}; {why}"
        )


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "missing"
