"""What commands that run cases have in common: settings and policy, running with progress, films, the report."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mjx_bench.errors import BenchError
from scripts import chosen, cost, report
from scripts import options as shared
from scripts.output import Emit, note

if TYPE_CHECKING:
    from mjx_bench.cases import Case, Manifest
    from mjx_bench.cluster import Cluster
    from mjx_bench.policy import Policy
    from mjx_bench.selection import Selection
    from mjx_bench.settings import RunSettings
    from mjx_bench.task import Task


def begin_one(options: shared.OneRunOptions, **more: bool) -> tuple[RunSettings, Policy]:
    """The settings of a run, `more` of them from its command alone, and the policy.

    Raises:
      BenchError: what cannot be run, or filmed afterwards.
    """
    shared.at_least(0, video=options.video, frames=options.frames)

    from mjx_bench.observe import choice
    from mjx_bench.settings import check_settings

    policy = begin(options)
    settings = settings_of(
        options,
        query_interval=options.query_interval,
        horizon=options.horizon,
        delay=options.delay,
        restoration=options.restoration,
        **more,
    )
    check_settings(settings, policy)
    if options.video or options.frames:
        from mjx_bench import video

        choice.choose(options.renderer)
        video.check_media(options.out)
    return settings, policy


def begin(options: shared.RunOptions) -> Policy:
    """The policy, after a look at how it is to be run.

    Raises:
      BenchError: options of a cluster or a shard that cannot be, or no such policy.
    """
    from mjx_bench import selection
    from policies import registry as policies

    if options.shard is not None:
        selection.parse_shard(options.shard)
        if options.launcher == "ray":
            raise BenchError("--launcher ray makes shards of its own; leave out --shard")
    if options.launcher == "local" and (options.address is not None or options.gpus):
        raise BenchError("--address and --gpus are of a cluster; give --launcher ray too")
    if options.gpus < 0:
        raise BenchError(f"--gpus {options.gpus:g} is negative; give the GPUs of one shard, or a part of one")
    return policies.make(policy_name(options))


def policy_name(options: shared.RunOptions) -> str:
    """The policy's name, as recorded."""
    return f"{options.policy}:random" if options.random_weights else options.policy


def settings_of(options: shared.RunOptions, **more: Any) -> RunSettings:
    """What the options say of every run, and `more`."""
    from mjx_bench.settings import RunSettings

    names = ("lanes", "threads", "backend", "renderer", "run_on", "cancel_on_change", "scene_form")
    return RunSettings(policy=policy_name(options), **{name: getattr(options, name) for name in names}, **more)


def carry_out(
    options: shared.OneRunOptions,
    manifest: Manifest,
    settings: RunSettings,
    policy: Policy,
    load: Callable[[Case], Task],
    emit: Emit,
) -> int:
    """Runs what is to be run here of the cases, films and reports, or says what it costs.

    1 if a case could not be scored.
    """
    check_held_out(manifest, policy_name(options))
    if options.dry_run:
        return cost.say([(manifest, {options.out: settings})], policy, load, emit if options.json else None)
    evaluate(select(manifest, options.shard), {options.out: settings}, policy, load, cluster_of(options))
    if options.video or options.frames:
        from mjx_bench import video

        video.make_media(
            options.out,
            videos=options.video,
            frames=options.frames,
            renderer=options.renderer,
            load_task=load,
            progress=note,
        )
    return 0 if report.show(options.out, emit if options.json else None) else 1


def check_held_out(manifest: Manifest, policy: str) -> None:
    """Refuses, with a `BenchError`, to evaluate a trained policy on instances that were for its training."""
    from train import shown

    shown.check(policy, manifest.cases)


def select(manifest: Manifest, shard: str | None) -> Selection:
    """The cases to run here; says how many are left out, and why."""
    from mjx_bench import selection

    of = None if shard is None else selection.parse_shard(shard)
    cases = selection.choose(manifest, missing_source=chosen.missing_source, shard=of)
    for reason, count in cases.left_out.items():
        note(f"{count} of {len(manifest.cases)} cases left out: {reason}")
    return cases


def cluster_of(options: shared.RunOptions) -> Cluster | None:
    """The cluster to run on; None for this process."""
    if options.launcher == "local":
        return None
    from mjx_bench.cluster import Cluster

    return Cluster(options.address, options.gpus)


def evaluate(
    cases: Manifest | Selection,
    runs: Mapping[Path, RunSettings],
    policy: Policy,
    load_task: Callable[[Case], Task] | None = None,
    cluster: Cluster | None = None,
) -> None:
    """Runs the cases, here or on a cluster, with a progress display; says how busy this machine was.

    Args:
      cases: what to run.
      runs: folder to settings, which may differ in what `arms.Arms` says alone; what a folder has is not run again.
      policy: what acts.
      load_task: case to task; those of the suites if None.
      cluster: where, and then one folder after the other.
    """
    from evals import registry
    from mjx_bench.cases import OWN_SUITE
    from mjx_bench.schedule import run_settings
    from mjx_bench.selection import Selection
    from scripts.progress import ArmProgress

    here = cases.manifest if isinstance(cases, Selection) else cases
    for name in dict.fromkeys(settings.policy for settings in runs.values()):
        check_held_out(here, name)
    with contextlib.suppress(BenchError):  # comes again below, where the message names the case
        plain = [case for case in here.cases if case.task_suite_name != OWN_SUITE]
        registry.prepare(plain, workers=chosen.BUILDERS, progress=note)
    load = load_task or registry.load_case
    with ArmProgress() as progress:
        if cluster is not None:
            from mjx_bench.cluster import run_on_ray
            from policies.registry import make

            for out, settings in runs.items():
                run_on_ray(
                    cases,
                    settings,
                    out,
                    load_task=load,
                    make_policy=functools.partial(make, settings.policy),
                    cluster=cluster,
                    progress=progress,
                    note=note,
                )
            return
        session = run_settings(cases, runs, load_task=load, policy=policy, progress=progress, note=note)
    if session is not None:
        note(str(session))
