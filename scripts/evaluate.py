"""`mjx-bench eval`: success rates of a policy on tasks as they are."""

from __future__ import annotations

import dataclasses
import functools

from scripts import chosen, running
from scripts import options as shared
from scripts.output import Emit, note


@dataclasses.dataclass(frozen=True, kw_only=True)
class Eval(shared.OneRunOptions):
    """Run a policy on the first instances of tasks, as they are, and show its success rate on each.

    The same command again goes on where the last one ended.
    """

    suite: shared.Names
    """Suites to evaluate on."""
    task: shared.Names = ()
    """Tasks, by index or by name; all of the suites if none is given."""
    instances: int = 50
    """Initial states of each task: the first so many."""


def run(options: Eval, emit: Emit) -> int:
    """Runs and reports; 1 if a case could not be scored."""
    shared.at_least(1, instances=options.instances)

    from evals import registry
    from mjx_bench.cases import evaluation

    settings, policy = running.begin_one(options)
    tasks = chosen.tasks_of(shared.plain_suites(shared.flat(options.suite)), shared.flat(options.task))
    registry.build(tasks, seeds=(chosen.POLICY_SEED,), workers=chosen.BUILDERS, progress=note)
    loaded = [registry.load_task(suite, index, seeds=(chosen.POLICY_SEED,)) for suite, index in tasks]
    manifest = evaluation(loaded, options.instances, chosen.POLICY_SEED)
    load = functools.partial(registry.load_case, form=options.scene_form)
    return running.carry_out(options, manifest, settings, policy, load, emit)
