"""What a command would run, and what it costs at most: `--dry-run`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scripts import chosen
from scripts.output import Emit, note

if TYPE_CHECKING:
    from mjx_bench.cases import Case, Manifest
    from mjx_bench.policy import Policy
    from mjx_bench.settings import RunSettings
    from mjx_bench.task import Task

_SUMMED = ("records", "rollouts", "control_steps_at_most", "queries_at_most")


def say(
    parts: Sequence[tuple[Manifest, Mapping[Path, RunSettings]]],
    policy: Policy,
    load: Callable[[Case], Task],
    emit: Emit | None,
) -> int:
    """Prints rollouts, and control steps and queries where every rollout lasts to its horizon; runs nothing.

    Args:
      parts: cases, and folder to settings that they are run under.
      policy: what would act.
      load: case to task; loads each task once, and builds its scene if need be.
      emit: takes the same as JSON data, instead of text.
    """
    tasks: dict[Any, Task] = {}
    folders = [row for manifest, runs in parts for row in _rows(manifest, runs, policy, load, tasks)]
    total = {name: sum(row[name] for row in folders) for name in _SUMMED}
    if emit is not None:
        emit({"tasks": len(tasks), "folders": folders, "total": total})
        return 0
    for row in folders:
        what = f"{row['cases']} cases, H = {row['horizon']}, Q = {row['query_interval']}"
        delay = f", delay {row['delay']}" if row["delay"] else ""
        costs = f"the rollouts of {row['same_rollouts_as']}" if row["same_rollouts_as"] else _at_most(row)
        print(f"{row['folder']}: {what}{delay}: {row['records']} records, {costs}")
    print(f"together {_at_most(total)}, on {len(tasks)} tasks")
    note("nothing was run; a dynamic rollout starts at its event, and success ends a rollout sooner")
    return 0


def _at_most(row: Mapping[str, Any]) -> str:
    steps, queries = row["control_steps_at_most"], row["queries_at_most"]
    return f"{row['rollouts']:,} rollouts, at most {steps:,} control steps and {queries:,} queries"


def _rows(
    manifest: Manifest,
    runs: Mapping[Path, RunSettings],
    policy: Policy,
    load: Callable[[Case], Task],
    tasks: dict[Any, Task],
) -> list[dict[str, Any]]:
    from mjx_bench.cases import base_key
    from mjx_bench.judged import task_key
    from mjx_bench.passes import twins
    from mjx_bench.selection import choose
    from mjx_bench.settings import check_settings

    cases = choose(manifest, missing_source=chosen.missing_source).manifest.cases
    for case in cases:
        if task_key(case) not in tasks:
            tasks[task_key(case)] = load(case)
    dynamic = cases if len(manifest.protocol.arms) > 1 else ()
    rollouts = [*{base_key(case): case for case in cases}.values(), *dynamic]
    steps = sum(tasks[task_key(case)].horizon for case in rollouts)
    arms = [check_settings(settings, policy) for settings in runs.values()]
    first_of = {folder: group[0] for group in twins(arms) for folder in group}
    rows: list[dict[str, Any]] = []
    for i, (folder, its) in enumerate(zip(runs, arms, strict=True)):
        own = first_of[i] == i
        rows.append(
            {
                "folder": str(folder),
                "cases": len(cases),
                "horizon": its.horizon,
                "query_interval": its.query_interval,
                "delay": its.delay,
                "records": len(cases) + len(dynamic),
                "same_rollouts_as": None if own else str([*runs][first_of[i]]),
                "rollouts": len(rollouts) if own else 0,
                "control_steps_at_most": steps if own else 0,
                "queries_at_most": -(-steps // its.query_interval) if own else 0,
            }
        )
    return rows
