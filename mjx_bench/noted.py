"""What a task has noted of its episodes, found in a results folder: the step after which each thing first was, if it was.

A task notes what cannot be undone and neither ends an episode nor counts in it (`rules.Noted`), such as an object that fell
off the counter. Nothing is written for it but the signals that it reads, which records keep as they keep the goal's.
"""

from __future__ import annotations

import os

import numpy as np

from mjx_bench.judged import read_judged, task_key, task_name
from mjx_bench.manifest import Manifest
from mjx_bench.predicates import compile_goal
from mjx_bench.records import load_run, read_tasks
from mjx_bench.signals import Signals

# By case and arm: name of what is noted to the steps executed when it first was, None if it never was.
Found = dict[tuple[str, str], dict[str, int | None]]


def noted_in(directory: str | os.PathLike[str]) -> Found:
    """What was noted of every arm that is not void, in the order of the records.

    Raises:
      BenchError: a folder that cannot be read, or arrays that are missing or changed.
    """
    run = load_run(directory)
    cases = {case.case_id: case for case in Manifest.read(run.manifest, "manifest.json").cases}
    tasks, found = read_tasks(run.directory, run.header), Found()
    for record in run.records:
        if record.success is None:
            continue
        name = task_name(task_key(cases[record.case_id]))
        task = read_judged(tasks[name], f"tasks.json: {name}")
        signals = Signals.zeros(record.end_step, task.index)
        for field, columns in task.index.columns_of(task.index).items():
            if columns.size:
                setattr(signals, field, np.asarray(run.array(record, f"signals.{field}")))
        found[record.case_id, str(record.arm)] = {
            noted.name: _first(compile_goal(noted.atoms, task.scene, task.index)[1](signals))
            for noted in task.rules.noted
        }
    return found


def _first(holds: np.ndarray) -> int | None:
    """Steps after which a condition first held; None if it never did."""
    return int(np.argmax(holds)) + 1 if holds.any() else None
