"""RoboQuest's tasks on this engine, as a source for `evals.registry`."""

from __future__ import annotations

import functools

from evals.native import Native, TaskRow
from evals.roboquest import search_room_open
from mjx_bench.task import Task

SUITE = "roboquest"


@functools.cache
def _make(index: int) -> Task:
    return search_room_open.make(SUITE, index)


SOURCE = Native(
    SUITE,
    (
        TaskRow(
            SUITE,
            0,
            search_room_open.NAME,
            search_room_open.INSTRUCTION,
            search_room_open.GOAL,
            search_room_open.HORIZON,
        ),
    ),
    _make,
)
