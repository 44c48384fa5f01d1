"""`mjx-bench pair`: runs cases in pairs."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mjx_bench.errors import BenchError
from scripts import options as shared
from scripts import report
from scripts.output import Emit, note

if TYPE_CHECKING:
    from mjx_bench.cases import Manifest
    from mjx_bench.policy import Policy
    from mjx_bench.schedule import RunSettings

POLICY_SEED = 195  # of drawn cases, as in the published manifests
BUILDERS = 2  # processes that build scenes, about 1 GB each


@dataclasses.dataclass(frozen=True)
class Pair:
    """Run a policy on cases in pairs: the base arm as it is, the dynamic arm with one event in mid-episode.

    The cases come from a manifest, or are drawn from suites. The same command again goes on where the last one ended.
    """

    policy: str
    """Name of the policy."""
    out: Path
    """Results folder."""
    manifest: Path | None = None
    """File of cases."""
    suite: shared.Names = ()
    """Suites to draw cases from, instead of a manifest."""
    event: shared.Names = ()
    """Event types to draw; all if none is given."""
    pairs: int = 16
    """Cases to draw from the suites."""
    sample_seed: int = 0
    """The same seed always draws the same cases."""
    limit: int | None = None
    """Run only this many cases, spread over the event types."""
    lanes: int = 8
    """Episodes of one scene that run side by side."""
    query_interval: int = 8
    """Q, the actions executed before the policy is asked again."""
    horizon: int | None = None
    """H, the actions used of each answer; all that the policy returns if not given."""
    threads: int = 0
    """Threads to use; 0 for all processors."""
    backend: str = "c"
    """Physics engine."""
    json: bool = False
    """Print the report as JSON instead of a table."""


def run(options: Pair, emit: Emit) -> int:
    """Runs and reports; 1 if a case could not be scored."""
    shared.at_least(1, pairs=options.pairs, limit=options.limit)
    shared.at_least(0, sample_seed=options.sample_seed)

    from mjx_bench import cases, schedule
    from policies import registry as policies

    policy = policies.make(options.policy)
    settings = schedule.RunSettings(
        policy=options.policy,
        lanes=options.lanes,
        query_interval=options.query_interval,
        horizon=options.horizon,
        threads=options.threads,
        backend=options.backend,
    )
    schedule.check_settings(settings, policy)
    suites, events = shared.suites(shared.flat(options.suite)), shared.events(shared.flat(options.event))
    if (options.manifest is None) == (not suites):
        raise BenchError("give either --manifest (a file of cases) or --suite (to draw cases), one of them")
    if options.manifest is not None:
        manifest = cases.load_manifest(options.manifest)
    else:
        manifest = draw(tasks_of(suites), options.pairs, options.sample_seed, events)
    evaluate(cases.select(manifest, options.limit), settings, policy, options.out)
    return 0 if report.show(options.out, emit if options.json else None) else 1


def tasks_of(suites: Sequence[str]) -> list[tuple[str, int]]:
    """(suite, index) of every task of the suites."""
    from evals import registry

    return [(name, row["index"]) for name in suites for row in registry.task_table(name)]


def draw(tasks: Sequence[tuple[str, int]], pairs: int, seed: int, events: Sequence[str] | None = None) -> Manifest:
    """Draws cases over the given (suite, index), of the given event types or of all."""
    from evals import registry
    from evals.libero_max.sampler import sample_manifest

    registry.build(tasks, seeds=(POLICY_SEED,), workers=BUILDERS, progress=note)
    loaded = [registry.load_task(suite, index, seeds=(POLICY_SEED,)) for suite, index in tasks]
    return sample_manifest(loaded, pairs, seed, events=events, policy_seed=POLICY_SEED)


def evaluate(manifest: Manifest, settings: RunSettings, policy: Policy, out: Path) -> None:
    """Runs what `out` lacks of the cases, with a progress display."""
    from evals import registry
    from mjx_bench.schedule import run_pairs
    from scripts.progress import ArmProgress

    tasks = dict.fromkeys((case.task_suite_name, case.task_index) for case in manifest.cases)
    seeds = sorted({case.policy_seed for case in manifest.cases})
    with contextlib.suppress(BenchError):  # comes again below, where the message names the case
        registry.build(tasks, seeds=seeds, workers=BUILDERS, progress=note)
    with ArmProgress() as progress:
        run_pairs(manifest, settings, out, load_task=registry.load_task, policy=policy, progress=progress)
