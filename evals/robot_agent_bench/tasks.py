"""RobotAgentBench's tasks on this engine, as a source for `evals.registry`, and the list of all 139."""

from __future__ import annotations

from typing import Any

from evals.native import Native, TaskRow
from evals.robot_agent_bench import discovery, pickup, selection
from evals.robot_agent_bench.contract import lacks, load
from evals.robot_agent_bench.lean import lean_task
from evals.robot_agent_bench.tasking import CONTROL_HZ
from mjx_bench.task import Task

SUITE = "robot_agent_bench"

# Those that run, in the order in which they came.
_SELECTION = tuple(
    (kind.name, kind.instruction, selection.goal(kind)[0], selection.HORIZON) for kind in selection.KINDS
)
_PICKUP = tuple((kind.name, kind.instruction, kind.goal, kind.horizon) for kind in pickup.KINDS)
_DISCOVERY = (discovery.NAME, discovery.INSTRUCTION, discovery.GOAL, discovery.HORIZON)
ROWS = tuple(TaskRow(SUITE, i, *row) for i, row in enumerate((*_SELECTION, *_PICKUP, _DISCOVERY)))


def listing() -> list[dict[str, Any]]:
    """One row for each of the benchmark's tasks, plain JSON values.

    A row has what `registry.task_table` has of a task that runs; of one that does not, `index` is None and the goal is the
    sheet's predicates. `lacks` says why it does not run.
    """
    runs = {row.name: row for row in ROWS}
    rows = []
    for c in load():
        # A name of the atomic tasks may be another family's too.
        here = runs.get(c.name) if c.family != "atomic" else None
        rows.append(
            {
                "suite": SUITE,
                "index": None if here is None else here.index,
                "name": c.name,
                "instruction": c.instruction if here is None else here.instruction,
                "goal": [str(test) for test in (c.completion if here is None else here.goal)],
                "horizon": round(c.horizon_s * CONTROL_HZ),
                "runs": here is not None,
                "lacks": "" if here is not None else lacks(c),
                "id": c.id,
                "family": c.family,
                "seconds": c.horizon_s,
                "score_max": c.score_max,
                "physics": list(c.physics),
            }
        )
    return rows


def _make(index: int) -> Task:
    if index < len(selection.KINDS):
        return selection.make(selection.KINDS[index], SUITE, index)
    if index == len(ROWS) - 1:
        return discovery.make(SUITE, index)
    return pickup.make(pickup.KINDS[index - len(selection.KINDS)], SUITE, index)


class _Source(Native):
    """RobotAgentBench, whose scenes have a lean form."""

    def lean_task(self, task: Task) -> Task:
        """See `evals.robot_agent_bench.lean`."""
        return lean_task(task)


SOURCE = _Source(SUITE, ROWS, _make, listing)
