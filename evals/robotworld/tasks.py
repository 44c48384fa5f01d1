"""RobotWorld's tasks on this engine, as a source for `evals.registry`."""

from __future__ import annotations

import functools

from evals.native import Native, TaskRow
from evals.robotworld import payload
from mjx_bench.task import Task

SUITE = "robotworld"


@functools.cache
def _make(index: int) -> Task:
    return payload.make(SUITE, index)


SOURCE = Native(
    SUITE,
    (TaskRow(SUITE, 0, payload.NAME, payload.INSTRUCTION, payload.GOAL, payload.HORIZON),),
    _make,
)
