"""What is left to run of every folder, task by task, and which of it is the same rollout.

Of each answer a run executes what Q and the delay say; how much more of it H keeps changes no rollout. So settings that
differ in H alone are one pass, whose records go into all their folders. After an interruption, what one of them has and
another lacks is run for each alone: it goes on from its own records.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from mjx_bench.arms import Arms, BaseJob, Pass, Stored
from mjx_bench.cases import CONTROL_ONLY, Case, Manifest, base_key
from mjx_bench.judged import TaskKey, task_key
from mjx_bench.recording import Reporter
from mjx_bench.records import RunWriter
from mjx_bench.types import Arm, Verdict


def plan(
    manifest: Manifest, arms: Sequence[Arms], writers: Sequence[RunWriter], reporter: Reporter
) -> dict[TaskKey, list[Pass]]:
    """The passes of every task that has any.

    Args:
      manifest: the cases.
      arms: how each folder's are run.
      writers: of the folders.
      reporter: of the same folders.
    """
    jobs = [{job.key: job for job in _jobs(manifest, writer)} for writer in writers]
    # (folders that share it, arms) to jobs.
    shared: dict[tuple[int, ...], dict[str, BaseJob]] = defaultdict(dict)
    for folders in twins(arms):
        for folder in folders:
            for key, job in jobs[folder].items():
                if not all(_is_fresh(jobs[other].get(key)) for other in folders):
                    shared[(folder,)][key] = job
                elif folder == folders[0]:
                    shared[folders][key] = job
    groups: dict[TaskKey, list[Pass]] = defaultdict(list)
    for sharing, found in shared.items():
        by_task: dict[TaskKey, list[BaseJob]] = defaultdict(list)
        for job in found.values():
            by_task[task_key(job.cases[0])].append(job)
        for task, own in by_task.items():
            groups[task].append(Pass(arms[sharing[0]], tuple(own), reporter.into(sharing)))
    return groups


def twins(arms: Sequence[Arms]) -> list[tuple[int, ...]]:
    """The folders whose rollouts are the same, those that keep most of each answer first: they run for the others."""
    groups: dict[Arms, list[int]] = defaultdict(list)
    for folder, its in enumerate(arms):
        groups[dataclasses.replace(its, horizon=0)].append(folder)
    return [tuple(sorted(group, key=lambda folder: -arms[folder].horizon)) for group in groups.values()]


def _is_fresh(job: BaseJob | None) -> bool:
    """Whether nothing of it is recorded."""
    return job is not None and len(job.base_wanted) == len(job.cases) and job.stored is None


def _jobs(manifest: Manifest, writer: RunWriter) -> list[BaseJob]:
    """What a folder lacks; cases that share a Base arm are one job."""
    paired = manifest.protocol.arms != CONTROL_ONLY
    shared: dict[str, list[Case]] = defaultdict(list)
    for case in manifest.cases:
        shared[base_key(case)].append(case)
    jobs = []
    for key, cases in shared.items():
        base = frozenset(c.case_id for c in cases if (c.case_id, Arm.BASE) not in writer.done)
        dynamic = frozenset(c.case_id for c in cases if paired and (c.case_id, Arm.DYNAMIC) not in writer.done)
        if base or dynamic:
            jobs.append(BaseJob(key, tuple(cases), base, dynamic, _stored(cases, writer)))
    return jobs


def _stored(cases: Sequence[Case], writer: RunWriter) -> Stored | None:
    records = {c.case_id: r for c in cases if (r := writer.done.get((c.case_id, Arm.BASE)))}
    usable = [r for r in records.values() if r.verdict != Verdict.VOID]
    if not usable:
        return None
    steps = np.asarray(writer.array(usable[0], "query_steps"))
    chunks = np.asarray(writer.array(usable[0], "chunks"))
    return Stored(
        chunks=dict(zip(steps.tolist(), chunks, strict=True)),
        fork_sha256={case_id: r.fork_sha256 for case_id, r in records.items()},
    )
