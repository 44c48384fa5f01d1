"""Numbers of an evaluation: success rates by task, of cases that were run in one arm only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mjx_bench.records import Record, Run
from mjx_bench.report.summary import shard_notes
from mjx_bench.stats import ratio, wilson
from mjx_bench.types import Arm


def summarise_evaluation(run: Run) -> dict[str, Any]:
    """The report's JSON.

    Returns:
      `policy`, `query_interval`, `horizon` (actions a query returns), `cases` (asked for), `left_out` (cases that were not
      run, a count a reason); of all cases, and of each task in `tasks`: `instances` (scored), `void`, `successes`, `rate`
      (success at any step), `wilson95`, `success_end` (rate of success at the last step) and `mean_success_step`;
      `incomplete` (ids of cases that were not run yet), `void_arms` and `notes`. Ratios with an empty denominator are None.
    """
    settings, done = run.header.settings, run.done
    tasks: dict[str, list[Record]] = {}
    found: list[Record] = []
    missing: list[str] = []
    for case in run.manifest["cases"]:
        name = f"{case['task_suite_name']}/{case.get('task_name') or case['task_index']}"
        group = tasks.setdefault(name, [])
        record = done.get((case["case_id"], Arm.BASE))
        if record is None:
            missing.append(case["case_id"])
        else:
            found.append(record)
            group.append(record)
    summary: dict[str, Any] = {
        "policy": settings.get("policy"),
        "query_interval": settings.get("query_interval"),
        "horizon": settings.get("horizon"),
        "cases": len(run.manifest["cases"]),
        "left_out": dict(settings.get("left_out", {})),
        **_statistics(found),
        "tasks": {name: _statistics(group) for name, group in tasks.items()},
        "incomplete": missing,
        "void_arms": [
            {"case_id": r.case_id, "arm": str(r.arm), "reason": r.reason} for r in found if r.success is None
        ],
    }
    notes = [f"{count} case(s) left out, and in no number here: {why}" for why, count in summary["left_out"].items()]
    if missing:
        notes.append(f"{len(missing)} case(s) are not run yet; run the same command again to finish")
    if summary["void"]:
        notes.append(f"{summary['void']} case(s) are void and outside of every rate; their reasons are in void_arms")
    return summary | {"notes": [*shard_notes(run), *notes]}


def _statistics(records: Sequence[Record]) -> dict[str, Any]:
    scored = [r for r in records if r.success is not None]
    successes = sum(r.success is True for r in scored)
    bounds = wilson(successes, len(scored))
    steps = [r.success_step for r in scored if r.success_step is not None]
    return {
        "instances": len(scored),
        "void": len(records) - len(scored),
        "successes": successes,
        "rate": ratio(successes, len(scored)),
        "wilson95": None if bounds is None else list(bounds),
        "success_end": ratio(sum(r.success_end is True for r in scored), len(scored)),
        "mean_success_step": ratio(sum(steps), len(steps)),
    }
