"""Numbers of an evaluation: success rates by task, of cases that were run in one arm only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mjx_bench.records import Record, Run
from mjx_bench.report.summary import folder_notes, void_reasons
from mjx_bench.stats import ratio, wilson
from mjx_bench.types import Arm


def summarise_evaluation(run: Run) -> dict[str, Any]:
    """The report's JSON.

    Returns:
      `policy`, `query_interval`, `horizon` (actions a query returns), `cases` (asked for), `left_out` (cases that were
      not run, a count a reason); the fields of `by_task`; `incomplete` (ids of cases that were not run yet),
      `void_arms` and `notes`. Ratios with an empty denominator are None.
    """
    settings, done = run.header.settings, run.done
    cases = run.manifest["cases"]
    records = [(task_of(case), done.get((case["case_id"], Arm.BASE))) for case in cases]
    found = [record for _, record in records if record is not None]
    missing = [case["case_id"] for case, (_, record) in zip(cases, records, strict=True) if record is None]
    summary: dict[str, Any] = {
        "policy": settings.get("policy"),
        "query_interval": settings.get("query_interval"),
        "horizon": settings.get("horizon"),
        "cases": len(cases),
        "left_out": dict(settings.get("left_out", {})),
        **by_task(records),
        "incomplete": missing,
        "void_arms": [
            {"case_id": r.case_id, "arm": str(r.arm), "reason": r.reason} for r in found if r.success is None
        ],
    }
    notes = [f"{count} case(s) left out, and in no number here: {why}" for why, count in summary["left_out"].items()]
    if missing:
        notes.append(f"{len(missing)} case(s) are not run yet; run the same command again to finish")
    if summary["void"]:
        notes.append(f"{summary['void']} case(s) are void and outside of every rate: {void_reasons(summary)}")
    return summary | {"notes": [*folder_notes(run), *notes]}


def task_of(case: Mapping[str, Any]) -> str:
    """The name of a manifest's case's task in tables."""
    return f"{case['task_suite_name']}/{case.get('task_name') or case['task_index']}"


def by_task(records: Sequence[tuple[str, Record | None]]) -> dict[str, Any]:
    """Statistics of all records and of each task.

    Args:
      records: task and record each; None was not run, and void ones count in no rate.

    Returns:
      `instances` (scored), `void`, `successes`, `rate` (success at any step), `wilson95`, `success_end` (rate of
      success at the last step), `mean_success_step` and `mean_progress` (over the instances whose task measures it;
      None without); and `tasks`, the same by task.
    """
    tasks: dict[str, list[Record]] = {name: [] for name, _ in records}
    for name, record in records:
        if record is not None:
            tasks[name].append(record)
    everything = [record for _, record in records if record is not None]
    return {**_statistics(everything), "tasks": {name: _statistics(group) for name, group in tasks.items()}}


def _statistics(records: Sequence[Record]) -> dict[str, Any]:
    scored = [r for r in records if r.success is not None]
    successes = sum(r.success is True for r in scored)
    bounds = wilson(successes, len(scored))
    progress = [r.progress for r in scored if r.progress is not None]
    steps = [r.success_step for r in scored if r.success_step is not None]
    return {
        "instances": len(scored),
        "void": len(records) - len(scored),
        "successes": successes,
        "rate": ratio(successes, len(scored)),
        "wilson95": None if bounds is None else list(bounds),
        "success_end": ratio(sum(r.success_end is True for r in scored), len(scored)),
        "mean_success_step": ratio(sum(steps), len(steps)),
        "mean_progress": sum(progress) / len(progress) if progress else None,
    }
