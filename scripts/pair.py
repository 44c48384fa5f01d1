"""`mjx-bench pair`: runs cases in pairs."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mjx_bench.errors import BenchError
from scripts import options as shared
from scripts import report
from scripts.output import Emit, note

if TYPE_CHECKING:
    from mjx_bench.cases import Case, Manifest
    from mjx_bench.cluster import Cluster
    from mjx_bench.policy import Policy
    from mjx_bench.schedule import RunSettings
    from mjx_bench.selection import Selection
    from mjx_bench.task import Task

POLICY_SEED = 195  # of drawn cases, as in the published manifests
BUILDERS = 2  # processes that build scenes, about 1 GB each


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pair(shared.RunOptions):
    """Run a policy on cases in pairs: the base arm as it is, the dynamic arm with one event in mid-episode.

    The cases come from a manifest, or are drawn from suites. The same command again goes on where the last one ended.
    """

    manifest: Path | None = None
    """File of cases."""
    suite: shared.Names = ()
    """Suites to draw cases from, instead of a manifest."""
    bddl: Path | None = None
    """A task file of your own, on LIBERO's objects: cases are drawn on it, or come from a manifest (suite bddl)."""
    bddl_init_states: Path | None = None
    """Its initial states (.npz or .npy, [N, 1 + nq + nv]); drawn by LIBERO's own reset if not given."""
    event: shared.Names = ()
    """Event types to draw; all if none is given. `none`, alone: nothing changes at the trigger, and arms must be equal."""
    pairs: int = 16
    """Cases to draw from the suites."""
    sample_seed: int = 0
    """The same seed always draws the same cases."""
    limit: int | None = None
    """Run only this many cases, spread over the event types."""
    replay: bool = False
    """Run each dynamic arm from the start instead of forking it at its event, and check that it arrives at the same bits."""
    faithful: bool = False
    """Removed objects behave as in the reference: dropped under the floor and shot upwards, not parked."""


def run(options: Pair, emit: Emit) -> int:
    """Runs and reports; 1 if a case could not be scored."""
    shared.at_least(1, pairs=options.pairs, limit=options.limit)
    shared.at_least(0, sample_seed=options.sample_seed)

    from evals import registry
    from mjx_bench import cases

    no_event, names = shared.no_event(shared.flat(options.event))
    settings, policy = begin(options, replay=options.replay, no_event=no_event, faithful=options.faithful)
    suites, events = shared.plain_suites(shared.flat(options.suite)), shared.events(names)
    if options.manifest is not None and suites:
        raise BenchError("give either --manifest (a file of cases) or --suite (to draw cases), not both")
    if options.manifest is None and not suites and options.bddl is None:
        raise BenchError(
            "give --manifest (a file of cases), --suite (to draw cases), or --bddl (a task file of your own)"
        )
    if suites and options.bddl is not None:
        raise BenchError("--bddl is a suite of its own; give either --suite or --bddl")
    if options.bddl is None and options.bddl_init_states is not None:
        raise BenchError("--bddl-init-states belongs to a task file; give --bddl too")
    if options.manifest is not None and events:
        raise BenchError("--event chooses what to draw from suites; with --manifest, only --event none has a meaning")
    if options.manifest is not None:
        manifest = cases.load_manifest(options.manifest)
    elif options.bddl is not None:
        manifest = sample([_own_task(options, POLICY_SEED)], options.pairs, options.sample_seed, events)
    else:
        manifest = draw(tasks_of(suites), options.pairs, options.sample_seed, events)

    def load(case: Case) -> Task:
        if case.task_suite_name != cases.OWN_SUITE:
            return registry.load_case(case, form=options.scene_form)
        if options.bddl is None:
            raise BenchError(f"suite {cases.OWN_SUITE!r} is a task file of your own; name it with --bddl")
        return registry.in_form(_own_task(options, case.policy_seed), options.scene_form)

    return carry_out(options, cases.select(manifest, options.limit), settings, policy, load, emit)


def begin(options: shared.RunOptions, **more: bool) -> tuple[RunSettings, Policy]:
    """The settings of a run, `more` of them from its command alone, and the policy.

    Raises:
      BenchError: what cannot be run, or filmed afterwards.
    """
    shared.at_least(0, video=options.video, frames=options.frames)

    from mjx_bench import schedule, selection
    from mjx_bench.observe import choice
    from policies import registry as policies

    if options.shard is not None:
        selection.parse_shard(options.shard)
        if options.launcher == "ray":
            raise BenchError("--launcher ray makes shards of its own; leave out --shard")
    if options.launcher == "local" and (options.address is not None or options.gpus):
        raise BenchError("--address and --gpus are of a cluster; give --launcher ray too")
    if options.gpus < 0:
        raise BenchError(f"--gpus {options.gpus:g} is negative; give the GPUs of one shard, or a part of one")
    policy = policies.make(options.policy)
    settings = schedule.RunSettings(
        policy=options.policy,
        lanes=options.lanes,
        query_interval=options.query_interval,
        horizon=options.horizon,
        threads=options.threads,
        backend=options.backend,
        renderer=options.renderer,
        run_on=options.run_on,
        scene_form=options.scene_form,
        **more,
    )
    schedule.check_settings(settings, policy)
    if options.video or options.frames:
        from mjx_bench import video

        choice.choose(options.renderer)
        video.check_media(options.out)
    return settings, policy


def carry_out(
    options: shared.RunOptions,
    manifest: Manifest,
    settings: RunSettings,
    policy: Policy,
    load: Callable[[Case], Task],
    emit: Emit,
) -> int:
    """Runs what is to be run here of the cases, films and reports; 1 if a case could not be scored."""
    from mjx_bench import selection

    shard = None if options.shard is None else selection.parse_shard(options.shard)
    chosen = selection.choose(manifest, missing_source=_missing_source, shard=shard)
    for reason, count in chosen.left_out.items():
        note(f"{count} of {len(manifest.cases)} cases left out: {reason}")
    evaluate(chosen, settings, policy, options.out, load, cluster_of(options))
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


def cluster_of(options: shared.RunOptions) -> Cluster | None:
    """The cluster to run on; None for this process."""
    if options.launcher == "local":
        return None
    from mjx_bench.cluster import Cluster

    return Cluster(options.address, options.gpus)


def tasks_of(suites: Sequence[str]) -> list[tuple[str, int]]:
    """(suite, index) of every task of the suites."""
    from evals import registry

    return [(name, row["index"]) for name in suites for row in registry.task_table(name)]


def _own_task(options: Pair, seed: int) -> Task:
    from evals import registry

    assert options.bddl is not None
    return registry.load_bddl(options.bddl, init_states=options.bddl_init_states, seeds=(seed,))


def _missing_source(case: Case) -> str | None:
    from evals import registry
    from mjx_bench.cases import OWN_SUITE

    return None if case.task_suite_name == OWN_SUITE else registry.missing_source(case)


def draw(tasks: Sequence[tuple[str, int]], pairs: int, seed: int, events: Sequence[str] | None = None) -> Manifest:
    """Draws cases over the given (suite, index), of the given event types or of all."""
    from evals import registry

    if len(tasks) > (enough := max(10, 2 * pairs)):
        # A few cases need not wait for a whole suite's scenes.
        tasks = sorted(random.Random(seed).sample(list(tasks), enough))
    registry.build(tasks, seeds=(POLICY_SEED,), workers=BUILDERS, progress=note)
    loaded = [registry.load_task(suite, index, seeds=(POLICY_SEED,)) for suite, index in tasks]
    return sample(loaded, pairs, seed, events)


def sample(tasks: Sequence[Task], pairs: int, seed: int, events: Sequence[str] | None) -> Manifest:
    """Draws cases over loaded tasks."""
    from evals.libero_max.sampler import sample_manifest

    return sample_manifest(tasks, pairs, seed, events=events, policy_seed=POLICY_SEED)


def evaluate(
    cases: Manifest | Selection,
    settings: RunSettings,
    policy: Policy,
    out: Path,
    load_task: Callable[[Case], Task] | None = None,
    cluster: Cluster | None = None,
) -> None:
    """Runs what `out` lacks of the cases, here or on a cluster, with a progress display; says how busy this machine was."""
    from evals import registry
    from mjx_bench.cases import OWN_SUITE
    from mjx_bench.schedule import run_pairs
    from mjx_bench.selection import Selection
    from scripts.progress import ArmProgress

    here = cases.manifest if isinstance(cases, Selection) else cases
    with contextlib.suppress(BenchError):  # comes again below, where the message names the case
        plain = [case for case in here.cases if case.task_suite_name != OWN_SUITE]
        registry.prepare(plain, workers=BUILDERS, progress=note)
    load = load_task or registry.load_case
    with ArmProgress() as progress:
        if cluster is not None:
            from mjx_bench.cluster import run_on_ray
            from policies.registry import make

            make_policy = functools.partial(make, settings.policy)
            run_on_ray(
                cases, settings, out, load_task=load, make_policy=make_policy, cluster=cluster, progress=progress
            )
            return
        session = run_pairs(cases, settings, out, load_task=load, policy=policy, progress=progress)
    if session is not None:
        note(str(session))
