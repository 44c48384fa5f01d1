"""RoboQuest's tasks on this engine, as a source for `evals.registry`."""

from __future__ import annotations

from evals.native import Native, TaskRow
from evals.roboquest import search_room_open

SUITE = "roboquest"


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
    lambda index: search_room_open.make(SUITE, index),
)
