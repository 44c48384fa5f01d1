"""`mjx-bench eval`: success rates of a policy on tasks as they are."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

from mjx_bench.errors import BenchError
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
    tasks = chosen_tasks(shared.plain_suites(shared.flat(options.suite)), shared.flat(options.task))
    registry.build(tasks, seeds=(chosen.POLICY_SEED,), workers=chosen.BUILDERS, progress=note)
    loaded = [registry.load_task(suite, index, seeds=(chosen.POLICY_SEED,)) for suite, index in tasks]
    manifest = evaluation(loaded, options.instances, chosen.POLICY_SEED)
    load = functools.partial(registry.load_case, form=options.scene_form)
    return running.carry_out(options, manifest, settings, policy, load, emit)


def chosen_tasks(suites: Sequence[str], names: Sequence[str]) -> list[tuple[str, int]]:
    """(suite, index) of the named tasks, in the suites' order; of all tasks if none is named.

    Args:
      suites: where to look.
      names: an index means the task of every suite that has it, and so does a name.

    Raises:
      BenchError: no suite, or a task that no suite has, with the nearest names.
    """
    if not suites:
        raise BenchError("give --suite: what to evaluate on (mjx-bench tasks lists suites and their tasks)")

    from evals import registry

    rows = [row for suite in suites for row in registry.task_table(suite)]
    known = {str(row["index"]) for row in rows} | {row["name"] for row in rows}
    for name in names:
        if name not in known:
            raise registry.no_task(suites, name)
    return [
        (row["suite"], row["index"]) for row in rows if not names or str(row["index"]) in names or row["name"] in names
    ]
