"""Verdicts once more, from records and arrays alone: no simulator, no policy, no benchmark.

A record keeps the signals that its goal was judged by after every step. Here the same predicates and the same triggers read
them, with time in the place of lanes, and whatever does not come out as recorded is listed.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from mjx_bench.checkers import START, Judge, Standing, judge_of
from mjx_bench.errors import BenchError, unknown_name
from mjx_bench.judged import Judged, TaskKey, read_judged, task_key, task_name
from mjx_bench.manifest import Case, Manifest
from mjx_bench.predicates import Test, compile_goal
from mjx_bench.records import Record, Run, load_run, read_tasks
from mjx_bench.scenario import Trigger
from mjx_bench.signals import SignalIndex, Signals
from mjx_bench.triggers import compile_trigger, trigger_distance
from mjx_bench.types import Arm, Verdict


@dataclasses.dataclass(frozen=True)
class Mismatch:
    """A field of an arm that does not follow from what was recorded with it."""

    case_id: str
    arm: str
    field: str
    recorded: Any
    recomputed: Any


@dataclasses.dataclass(frozen=True)
class Unjudged:
    """An arm that was not judged again, and why."""

    case_id: str
    arm: str
    reason: str


@dataclasses.dataclass(frozen=True)
class Rescored:
    """What came of judging a results folder again.

    Attributes:
      arms: judged again.
      mismatches: what differs from the record.
      damaged: arms whose evidence is missing or changed.
      void: arms that are no outcome, and so are not judged.
      triggers_unchecked: judged arms whose trigger reads what is not recorded (contacts of the fingers, or an entity other
        than the recorded one); their recorded `trigger_step` was taken as it is.
    """

    arms: int
    mismatches: tuple[Mismatch, ...]
    damaged: tuple[Unjudged, ...]
    void: tuple[Unjudged, ...]
    triggers_unchecked: int

    @property
    def agrees(self) -> bool:
        return not self.mismatches and not self.damaged


@dataclasses.dataclass(frozen=True)
class _Task:
    """A task, ready to judge with; `judge` for one with rules."""

    judged: Judged
    index: SignalIndex
    success: Test
    judge: Judge | None


class _Damaged(Exception):
    """Evidence that is missing, changed, or does not fit together."""


def rescore(directory: str | os.PathLike[str]) -> Rescored:
    """Judges every arm of a results folder again.

    Raises:
      BenchError: the folder cannot be read as a whole (see `records.load_run`), or was written without `tasks.json`.
    """
    run = load_run(directory)
    manifest = Manifest.read(run.manifest, str(run.directory / "manifest.json"))
    cases = {case.case_id: case for case in manifest.cases}
    tasks, done = _tasks(run, manifest), run.done
    mismatches: list[Mismatch] = []
    damaged: list[Unjudged] = []
    void: list[Unjudged] = []
    arms = unchecked = 0
    for record in run.records:
        if record.case_id not in cases:
            damaged.append(Unjudged(*record.key, "the case is not in manifest.json"))
            continue
        if record.success is None:
            void.append(Unjudged(*record.key, record.reason))
            continue
        case = cases[record.case_id]
        try:
            again = _judge(run, record, done.get((record.case_id, Arm.BASE)), case, tasks[task_key(case)])
        except (BenchError, _Damaged) as error:
            damaged.append(Unjudged(*record.key, str(error)))
            continue
        arms += 1
        unchecked += "trigger_step" not in again
        for field, value in again.items():
            if getattr(record, field) != value:
                mismatches.append(Mismatch(*record.key, field, getattr(record, field), value))
    return Rescored(arms, tuple(mismatches), tuple(damaged), tuple(void), unchecked)


def _tasks(run: Run, manifest: Manifest) -> dict[TaskKey, _Task]:
    path, data = run.directory / "tasks.json", read_tasks(run.directory, run.header)
    tasks: dict[TaskKey, _Task] = {}
    for key in dict.fromkeys(map(task_key, manifest.cases)):
        name = task_name(key)
        if name not in data:
            raise BenchError(f"{path}: {unknown_name('task', name, data)}")
        task = read_judged(data[name], f"{path}: {name}")
        success = compile_goal(task.goal, task.scene, task.index)[1]
        tasks[key] = _Task(task, task.index, success, judge_of(task, task.index))
    return tasks


def _judge(run: Run, record: Record, base: Record | None, case: Case, task: _Task) -> dict[str, Any]:
    """Every field of the record that follows from arrays, its own and its base's: name to value."""
    arrays = {name: np.asarray(run.array(record, name)) for name in record.arrays if name != "chunks"}
    for name in ("actions", "eef_pos", "target_pos", "query_steps"):
        if name not in arrays:
            raise _Damaged(f"array {name!r} is missing")
    steps = len(arrays["actions"])
    signals = _goal_signals(arrays, task.index, steps)
    # An agent may end an episode before its task does, by giving up or by running out of what it may spend.
    early = "agent" in run.header.settings and steps < task.judged.horizon
    horizon = steps if early else task.judged.horizon
    if task.judge is None:
        out = _by_goal(task, signals, run, horizon)
    else:
        out = _by_rules(task.judge, signals, steps, horizon, early)
    step, end = out["success_step"], out["end_step"]
    if steps != end == record.end_step:
        raise _Damaged(f"the arrays hold {steps} steps, the record says {end}")
    out["n_queries"] = len(arrays["query_steps"])
    fired = record.trigger_step
    trigger = case.trigger
    if trigger is None:
        out |= {"trigger_step": None, "trigger_distance_m": None}
    elif _is_recorded(trigger, task.judged):
        # A step that ends in success fires nothing, nor does any after it; nor any last step of a task with rules.
        last = end if step is None and task.judge is None else (step or end) - 1
        fired, distance = _trigger(trigger, arrays, last)
        out |= {"trigger_step": fired, "trigger_distance_m": distance}
    base_queries = None
    if base is not None and "query_steps" in base.arrays:
        base_queries = np.asarray(run.array(base, "query_steps"))
    return out | _responses(record, arrays["query_steps"], base_queries, fired)


def _by_goal(task: _Task, signals: Signals, run: Run, horizon: int) -> dict[str, Any]:
    """How an episode of at most `horizon` steps ended by the goal of an instant."""
    success = task.success(signals)
    step = _first(success)
    return {
        "verdict": str(Verdict.TIMEOUT if step is None else Verdict.SUCCESS),
        "success": step is not None,
        "success_step": step,
        "success_end": bool(success[-1]) if len(success) else False,
        "end_step": horizon if step is None or run.header.settings.get("run_on") else step,
    }


def _by_rules(judge: Judge, signals: Signals, steps: int, horizon: int, early: bool) -> dict[str, Any]:
    """How an episode ended by its task's rules, one step after another; `early`: its agent may have ended it before them."""
    standing: Standing = START
    end: tuple[Verdict, str] | None = None
    step = 0
    for t in range(steps):
        standing, step = judge.step(standing, signals, t), t + 1
        if (end := judge.end(standing, at_horizon=False)) is not None:
            break
    last = end or judge.end(standing, at_horizon=not early)
    verdict = Verdict.TIMEOUT if last is None else last[0]
    success = verdict is Verdict.SUCCESS
    return {
        "verdict": str(verdict),
        "success": success,
        "success_step": step if success else None,
        "success_end": success,
        "end_step": horizon if end is None else step,
        "progress": float(standing.progress),
    }


def _goal_signals(arrays: Mapping[str, np.ndarray], index: SignalIndex, steps: int) -> Signals:
    """What the goal was judged by after each of `steps` policy steps, in the place of lanes."""
    signals = Signals.zeros(steps, index)
    for field, columns in index.columns_of(index).items():
        if columns.size:
            setattr(signals, field, _checked(arrays, f"signals.{field}", getattr(signals, field)))
    return signals


def _checked(arrays: Mapping[str, np.ndarray], name: str, like: np.ndarray) -> np.ndarray:
    got = arrays.get(name)
    if got is None or got.shape != like.shape or got.dtype != like.dtype:
        found = "none" if got is None else f"{got.dtype} {got.shape}"
        raise _Damaged(f"array {name!r}: expected {like.dtype} {like.shape}, found {found}")
    return got


def _first(holds: np.ndarray) -> int | None:
    """Steps after which a condition first held; None if it never did."""
    return int(np.argmax(holds)) + 1 if holds.any() else None


def _is_recorded(trigger: Trigger, task: Judged) -> bool:
    """Whether the record holds what the trigger reads."""
    near = trigger.type == "on_proximity" and trigger.value == task.trigger_entity
    return trigger.type == "fixed_step" or (near and task.one_hand)


def _trigger(trigger: Trigger, arrays: Mapping[str, np.ndarray], steps: int) -> tuple[int | None, float | None]:
    """When the trigger first held among the first `steps` policy steps, and the distance then."""
    index = SignalIndex((str(trigger.value),), (), (), ())
    signals = Signals.zeros(len(arrays["actions"]), index)
    if trigger.type == "on_proximity":
        signals.eef_pos = _checked(arrays, "eef_pos", signals.eef_pos)
        signals.entity_now = _checked(arrays, "target_pos", signals.eef_pos)[:, None]
    fires = compile_trigger(trigger, index)
    for t in range(steps):
        if fires(signals, t, t + 1):
            return t + 1, trigger_distance(trigger, index, signals, t)
    return None, None


def _responses(
    record: Record, queries: np.ndarray, base_queries: np.ndarray | None, fired: int | None
) -> dict[str, Any]:
    """The queries that could answer the event; only the Dynamic arm has any."""
    response = None
    if record.arm == Arm.DYNAMIC and fired is not None:
        response = next((int(q) for q in queries if q >= fired), None)
    out: dict[str, Any] = {
        "first_response_step": response,
        "stale_actions": None if response is None or fired is None else response - fired,
    }
    if response is None or base_queries is not None:
        common = base_queries is not None and response in base_queries
        out["common_response_step"] = response if common else None
    return out
