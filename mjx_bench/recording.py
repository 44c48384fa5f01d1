"""From finished arms to lines of a results folder."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from mjx_bench.arms import ArmResult, Report
from mjx_bench.cases import Case, base_key
from mjx_bench.records import Record, RunWriter
from mjx_bench.task import Task
from mjx_bench.types import Arm, Verdict

# Told (arms done, arms in all, the record just written or None at the start).
Progress = Callable[[int, int, Record | None], None]


class Reporter:
    """Turns arms into records of one folder or several, from any thread, and counts them.

    Args:
      writers: the folders'.
      horizons: H of each: of a chunk that was run with a larger one, what is over is not recorded.
      total: arms of all folders.
      progress: told of each record.
    """

    def __init__(
        self, writers: Sequence[RunWriter], horizons: Sequence[int], total: int, progress: Progress | None
    ) -> None:
        self._writers = writers
        self._horizons = horizons
        self._total = total
        self._progress = progress
        self._lock = threading.Lock()
        self._tell(None)

    def _tell(self, record: Record | None) -> None:
        if self._progress is not None:
            self._progress(sum(len(writer.done) for writer in self._writers), self._total, record)

    def into(self, folders: Sequence[int]) -> Report:
        """What records an arm in the folders of these indices."""

        def report(case: Case, task: Task, result: ArmResult) -> None:
            record = make_record(case, task, result)
            for folder in folders:
                arrays = dict(result.arrays)
                if result.query_steps:
                    arrays["chunks"] = arrays["chunks"][:, : self._horizons[folder]]
                with self._lock:
                    self._tell(self._writers[folder].append(record, arrays))

        return report


def make_record(case: Case, task: Task, result: ArmResult) -> Record:
    """The line of one finished arm."""
    scenario = case.scenario
    response = result.first_response_step if result.arm is Arm.DYNAMIC else None
    return Record(
        case_id=case.case_id,
        arm=result.arm,
        verdict=result.verdict,
        reason=result.reason,
        success=None if result.verdict is Verdict.VOID else result.verdict is Verdict.SUCCESS,
        end_step=result.end_step,
        success_step=result.success_step,
        success_end=None if result.verdict is Verdict.VOID else result.success_end,
        trigger_step=result.trigger_step,
        trigger_distance_m=result.trigger_distance,
        first_response_step=response,
        common_response_step=result.common_response_step,
        stale_actions=result.stale_actions if result.arm is Arm.DYNAMIC else None,
        n_queries=len(result.query_steps),
        base_key=base_key(case),
        suite=case.task_suite_name,
        task_index=case.task_index,
        task_name=case.task_name or task.name,
        init_state_index=case.init_state_index,
        policy_seed=case.policy_seed,
        change_type=case.event,
        change_family="none" if scenario is None else scenario.change_family,
        severity="none" if scenario is None else scenario.severity,
        draw=None if scenario is None else scenario.draw,
        event=result.event,
        fork_sha256=result.fork_sha256,
        init_sha256=result.init_sha256,
        progress=None if result.verdict is Verdict.VOID else result.progress,
        timing=_timing(result),
    )


def _timing(result: ArmResult) -> dict[str, float]:
    found = {"wall_s": round(result.wall_s, 3)}
    if result.waited:
        found |= {
            "query_mean_s": round(sum(result.waited) / len(result.waited), 6),
            "query_max_s": round(max(result.waited), 6),
        }
    if result.repair_s is not None:
        found["repair_s"] = round(result.repair_s, 6)
    return found
