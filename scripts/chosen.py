"""Which cases a command runs: from a manifest, or drawn from suites, or on a task file of one's own."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mjx_bench.errors import BenchError, unknown_name
from scripts import options as shared
from scripts.output import note

if TYPE_CHECKING:
    from mjx_bench.cases import Case, Manifest
    from mjx_bench.task import Task

POLICY_SEED = 195  # of drawn cases, as in the published manifests
QUERY_INTERVAL = 8  # likewise
PAIRS = 16  # drawn where no number is given
BUILDERS = 2  # processes that build scenes, about 1 GB each


@dataclasses.dataclass(frozen=True, kw_only=True)
class CaseOptions:
    """What a command that runs pairs is told about its cases."""

    manifest: Path | None = None
    """File of cases."""
    suite: shared.Names = ()
    """Suites to draw cases from, instead of a manifest; or libero-max or libero-max-lite, whose cases `suite build` made."""
    task: shared.Names = ()
    """Of the suites, tasks to draw cases on, by index or by name; all if none is given."""
    bddl: Path | None = None
    """A task file of your own, on LIBERO's objects: cases are drawn on it, or come from a manifest (suite bddl)."""
    bddl_init_states: Path | None = None
    """Its initial states (.npz or .npy, [N, 1 + nq + nv]); drawn by LIBERO's own reset if not given."""
    pairs: int | None = None
    """Cases to draw from the suites; 16 if not given."""
    sample_seed: int | None = None
    """The same seed always draws the same cases; 0 if not given."""
    limit: int | None = None
    """Run only this many cases, spread over the event types."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class EventCaseOptions(CaseOptions):
    """Of these, what is told to a command whose pairs may have any event."""

    event: shared.Names = ()
    """Event types to draw; all of version 1 of LIBERO-MAX if none is given. `none`, alone: nothing changes at the trigger,
    and arms must be equal."""


def choose(
    options: CaseOptions, form: str, event: str | None = None, *, interval: int = QUERY_INTERVAL
) -> tuple[Manifest, Callable[[Case], Task]]:
    """The cases, and what loads the task of one.

    Args:
      options: which cases.
      form: of their scenes.
      event: the only type that is wanted; those that the options name if None.
      interval: of drawn cases; an event at a fixed step comes at a multiple of it.

    Raises:
      BenchError: options that contradict each other, or cases that cannot be read or drawn.
    """
    shared.at_least(1, pairs=options.pairs, limit=options.limit)
    shared.at_least(0, sample_seed=options.sample_seed)

    from evals import registry
    from evals.libero.variants import is_regenerated
    from evals.libero_max.studies import only
    from evals.libero_max.suite import load_suite, version_fault
    from mjx_bench import cases

    events: tuple[str, ...] | None = (event,) if event else None
    if isinstance(options, EventCaseOptions):
        events = shared.events(shared.no_event(shared.flat(options.event))[1])
    built, suites = _built(shared.flat(options.suite))
    suites = shared.plain_suites(suites)
    names = shared.flat(options.task)
    if names and not suites:
        raise BenchError(f"--task {names[0]} chooses what to draw cases on; give it with --suite NAME")
    if built is not None and (options.manifest is not None or suites or options.bddl is not None):
        raise BenchError(f"--suite {built} has cases of its own; give it without --manifest, --bddl and other suites")
    if options.manifest is not None and suites:
        raise BenchError("give either --manifest (a file of cases) or --suite (to draw cases), not both")
    if options.manifest is None and not suites and options.bddl is None and built is None:
        raise BenchError(
            "give --manifest (a file of cases), --suite (to draw cases), or --bddl (a task file of your own)"
        )
    if suites and options.bddl is not None:
        raise BenchError("--bddl is a suite of its own; give either --suite or --bddl")
    if options.bddl is None and options.bddl_init_states is not None:
        raise BenchError("--bddl-init-states belongs to a task file; give --bddl too")
    if (options.manifest is not None or built is not None) and events and not event:
        raise BenchError(
            "--event chooses what to draw from suites; given cases have their own, and only none has a meaning"
        )
    given = options.manifest is not None or built is not None
    for flag, value in (("--pairs", options.pairs), ("--sample-seed", options.sample_seed)):
        if given and value is not None:
            raise BenchError(f"{flag} {value} is for drawing cases from suites; of given cases --limit N runs only N")
    pairs, seed = options.pairs or PAIRS, options.sample_seed or 0
    if given:
        manifest = cases.load_manifest(options.manifest) if options.manifest is not None else load_suite(str(built))
        if (fault := version_fault(manifest)) is not None:
            note(fault)
        manifest = only(manifest, event) if event else manifest
        if count := sum(is_regenerated(case.substrate_variant) for case in manifest.cases):
            note(f"{count} of {len(manifest.cases)} cases are on sources that are regenerated from their rules")
    elif options.bddl is not None:
        manifest = sample([_own_task(options, POLICY_SEED)], pairs, seed, events, interval)
    else:
        manifest = draw(tasks_of(suites, names), pairs, seed, events, interval)

    def load(case: Case) -> Task:
        if case.task_suite_name != cases.OWN_SUITE:
            try:
                return registry.load_case(case, form=form)
            except BenchError as error:
                raise BenchError(f"{manifest.source}: case {case.case_id!r}: {error}") from None
        if options.bddl is None:
            raise BenchError(f"suite {cases.OWN_SUITE!r} is a task file of your own; name it with --bddl")
        return registry.in_form(_own_task(options, case.policy_seed), form)

    return cases.select(manifest, options.limit), load


def _built(names: Sequence[str]) -> tuple[str | None, tuple[str, ...]]:
    """The suite that is a built set of cases, if one is named, and the others; `BenchError` for an unknown one."""
    from evals import registry
    from evals.libero_max.suite import NAMES

    known = (*registry.suites(), *registry.variant_suites(), *NAMES)
    for name in names:
        if name not in known:
            raise unknown_name("suite", name, known)

    built = [name for name in names if name in NAMES]
    if len(built) > 1:
        raise BenchError(f"{' and '.join(built)} are two sets of cases; give one")
    return (built[0] if built else None), tuple(name for name in names if name not in NAMES)


def tasks_of(suites: Sequence[str], names: Sequence[str]) -> list[tuple[str, int]]:
    """(suite, index) of the named tasks, in the suites' order; of all tasks if none is named.

    Args:
      suites: where to look.
      names: an index means the task of every suite that has it, and so does a name.

    Raises:
      BenchError: no suite, or a task that no suite has, with the nearest names.
    """
    if not suites:
        raise BenchError("give --suite: where the tasks are (mjx-bench tasks lists suites and their tasks)")

    from evals import registry

    rows = [row for suite in suites for row in registry.task_table(suite)]
    known = {str(row["index"]) for row in rows} | {row["name"] for row in rows}
    for name in names:
        if name not in known:
            raise registry.no_task(suites, name)
    return [
        (row["suite"], row["index"]) for row in rows if not names or str(row["index"]) in names or row["name"] in names
    ]


def _own_task(options: CaseOptions, seed: int) -> Task:
    from evals import registry

    assert options.bddl is not None
    return registry.load_bddl(options.bddl, init_states=options.bddl_init_states, seeds=(seed,))


def missing_source(case: Case) -> str | None:
    from evals import registry
    from mjx_bench.cases import OWN_SUITE

    return None if case.task_suite_name == OWN_SUITE else registry.missing_source(case)


def draw(
    tasks: Sequence[tuple[str, int]],
    pairs: int,
    seed: int,
    events: Sequence[str] | None = None,
    interval: int = QUERY_INTERVAL,
) -> Manifest:
    """Draws cases over the given (suite, index), of the given event types or of all."""
    from evals import registry

    if len(tasks) > (enough := max(10, 2 * pairs)):
        # A few cases need not wait for a whole suite's scenes.
        tasks = sorted(random.Random(seed).sample(list(tasks), enough))
    registry.build(tasks, seeds=(POLICY_SEED,), workers=BUILDERS, progress=note)
    loaded = [registry.load_task(suite, index, seeds=(POLICY_SEED,)) for suite, index in tasks]
    return sample(loaded, pairs, seed, events, interval)


def sample(
    tasks: Sequence[Task], pairs: int, seed: int, events: Sequence[str] | None, interval: int = QUERY_INTERVAL
) -> Manifest:
    """Draws cases over loaded tasks."""
    from evals.libero_max.sampler import sample_manifest

    return sample_manifest(tasks, pairs, seed, events=events, policy_seed=POLICY_SEED, query_interval=interval)
