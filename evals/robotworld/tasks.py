"""RobotWorld's tasks on this engine, as a source for `evals.registry`."""

from __future__ import annotations

from evals.native import Native, TaskRow
from evals.robotworld import payload

SUITE = "robotworld"


SOURCE = Native(
    SUITE,
    (TaskRow(SUITE, 0, payload.NAME, payload.INSTRUCTION, payload.GOAL, payload.HORIZON),),
    lambda index: payload.make(SUITE, index),
)
