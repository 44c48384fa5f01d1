"""A thousand pairs over forty scenes in a process of its own, and what they needed: `python -m tests.many_scenes THREADS`.

Scenes, initial states, events, forks and records are real. Episodes are a few steps long, for memory comes and goes with
scenes and not with steps. Prints one JSON object; sizes are MiB, by quarters of the arms.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import sys
import tempfile
import threading
from pathlib import Path

from mjx_bench import runtime

SUITES = ("libero_spatial", "libero_object", "libero_goal", "libero_10")
# Pairs by index of the task: 250 a suite. Tasks with more pairs run first, so every quarter of the run sees every suite.
PAIRS = (30, 29, 28, 27, 26, 24, 23, 22, 21, 20)
HORIZON, SETTLE, Q = 4, 2, 2
LANES = 8
SEED = 195
SAMPLE_S = 0.02


def rss_mib() -> float:
    """Resident memory of this process now, MiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def main(threads: int) -> None:
    import mujoco

    from evals.libero.tasks import load_task
    from evals.libero_max.sampler import sample_manifest
    from mjx_bench.cases import Manifest, dump_manifest
    from mjx_bench.records import Record, load_run
    from mjx_bench.schedule import run_pairs
    from mjx_bench.settings import RunSettings
    from mjx_bench.task import Task
    from policies.simple import Zero

    @functools.cache
    def short_task(suite: str, index: int) -> Task:
        return dataclasses.replace(load_task(suite, index, seeds=(SEED,)), horizon=HORIZON, settle_steps=SETTLE)

    cases = []
    for suite in SUITES:
        for index, pairs in enumerate(PAIRS):
            sampled = sample_manifest(
                [short_task(suite, index)], pairs, 0, init_states=range(50), policy_seed=SEED, query_interval=Q
            )
            data = json.loads(dump_manifest(sampled))
            for case in data["cases"]:
                case["scenario"]["trigger"] = {"type": "fixed_step", "value": Q}  # a hand at rest comes near nothing
            cases += data["cases"]
    manifest = Manifest.read({**data, "cases": cases})

    peaks: list[dict[str, float]] = [{"rss": 0.0, "ours": 0.0, "cache": 0.0} for _ in range(4)]
    share = 0.0
    over = threading.Event()

    def progress(done: int, total: int, record: Record | None) -> None:
        nonlocal share
        share = done / total

    def watch() -> None:
        while not over.wait(SAMPLE_S):
            # What MuJoCo's compiler keeps of meshes that it has read, up to a capacity of its own, is not ours.
            cache = mujoco.mj_getCacheSize(mujoco.mj_getCache()) / 2**20
            rss = rss_mib()
            peak = peaks[min(int(4 * share), 3)]
            for name, value in (("rss", rss), ("ours", rss - cache), ("cache", cache)):
                peak[name] = max(peak[name], value)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    with tempfile.TemporaryDirectory() as folder:
        settings = RunSettings("zero", LANES, Q, threads=threads)
        session = run_pairs(
            manifest,
            settings,
            Path(folder) / "run",
            load_task=lambda case: short_task(case.task_suite_name, case.task_index),
            policy=Zero(),
            progress=progress,
        )
        over.set()
        watcher.join()
        records = load_run(Path(folder) / "run").records
    assert session is not None
    found = {
        "arms": len(records),
        "void": sum(r.verdict == "void" for r in records),
        "events": sum(r.event is not None for r in records),
        "scenes": len({(r.suite, r.task_index) for r in records}),
        "seconds": session.wall_s,
        "quarters": peaks,
        "cache_capacity": mujoco.mj_getCacheCapacity(mujoco.mj_getCache()) / 2**20,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    runtime.configure()
    main(int(sys.argv[1]))
