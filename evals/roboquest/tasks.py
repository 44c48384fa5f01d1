"""RoboQuest's tasks on this engine, as a source for `evals.registry`."""

from __future__ import annotations

import functools
from collections.abc import Callable

from evals.native import Native, TaskRow
from evals.roboquest import odd_parcel, puzzle_box, search_room_open, skills
from evals.roboquest.instances import QuestRecipe
from evals.roboquest.recipes import quest_task
from mjx_bench.task import Task

SUITE = "roboquest"

# Recipes in kitchens, and the versions of their generators; each takes the next index.
RECIPES: tuple[tuple[QuestRecipe, str], ...] = (
    (skills.PICK_PLACE, skills.VERSION),
    (skills.DRIVE_PICK, skills.VERSION),
    (puzzle_box.RECIPE, puzzle_box.VERSION),
    (odd_parcel.RECIPE, odd_parcel.VERSION),
)

_ON_TABLE = search_room_open
_MAKERS: tuple[Callable[[str, int], Task], ...] = (
    _ON_TABLE.make,
    *(functools.partial(quest_task, recipe, version=version) for recipe, version in RECIPES),
)
ROWS = (
    TaskRow(SUITE, 0, _ON_TABLE.NAME, _ON_TABLE.INSTRUCTION, _ON_TABLE.GOAL, _ON_TABLE.HORIZON),
    *(TaskRow(SUITE, i, r.name, r.instruction, r.goal, r.horizon) for i, (r, _) in enumerate(RECIPES, 1)),
)
SOURCE = Native(SUITE, ROWS, lambda index: _MAKERS[index](SUITE, index))
