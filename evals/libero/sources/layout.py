"""LIBERO-Plus's object layouts, regenerated: everything somewhat elsewhere, or extra objects beside it.

`level<L>_sample<k>` moves what stands on the workspace, with all that is on or in it; in the goal suite (`moved_...`) the
bowl and the cream cheese go further. `add_<n>` (`extra.py`) puts more objects on the workspace. Both have one initial state,
made of the task's first. LIBERO-Plus's own files are not public: sizes of moves are those seen in them.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping

import numpy as np

from evals.libero.sources.edits import POLICY_SEED, Move, moved, with_states
from evals.libero.sources.spots import Overlaps, ground_plan, roots_of
from evals.libero_max.placing import GAP_M, Layout
from mjx_bench.cases import stable_seed
from mjx_bench.errors import BenchError
from mjx_bench.task import Task

SAMPLER = "mjx-bench-plus-layout-v1"
LEVELS, SAMPLES = 5, 4
# Metres that things move a level.
STEP_M = {"libero_spatial": 0.01, "libero_object": 0.03, "libero_goal": 0.02, "libero_10": 0.01}
# What moves further in the goal suite, at every level, metres.
GOAL_FAR_M = {"akita_black_bowl_1": (0.30, 0.35), "cream_cheese_1": (0.15, 0.20)}
# How far beyond the box around all objects one may go.
MARGIN_M, FAR_MARGIN_M = 0.05, 0.12
ATTEMPTS, TURNS = 32, 24

_NAME = re.compile(r"(moved_)?level(\d)_sample(\d)")


def parse(name: str) -> tuple[int, int] | None:
    """Level, 1 to 5, and sample, 1 to 4, of `level<L>_sample<k>` or `moved_level<L>_sample<k>`; None for another name."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    level, sample = int(match.group(2)), int(match.group(3))
    return (level, sample) if 1 <= level <= LEVELS and 1 <= sample <= SAMPLES else None


def name_of(suite: str, level: int, sample: int) -> str:
    return f"{'moved_' if suite == 'libero_goal' else ''}level{level}_sample{sample}"


def shifted(task: Task, level: int, sample: int) -> Task:
    """The task with what stands on its workspace somewhat elsewhere.

    Raises:
      BenchError: when the layout is made, if no layout without new overlaps is found.
    """
    first = with_states(task, lambda row: row, most=1)
    moves = _moves(first, level, sample)
    fixtures = {name: move for name, move in moves.items() if name in task.scene.fixtures}
    objects = {name: move for name, move in moves.items() if name not in fixtures}
    return moved(first, lambda row: objects, fixtures)


def _moves(task: Task, level: int, sample: int) -> dict[str, Move]:
    row = np.asarray(task.load_init_states()[0])
    rng = np.random.RandomState(stable_seed(SAMPLER, task.suite, task.index, level, sample))
    overlaps, reset = Overlaps(task), task.load_reset(POLICY_SEED)
    before = overlaps.depths(row, reset)
    fixed = goal_marks(task)
    roots = [name for name in roots_of(task) if name not in fixed]
    for _ in range(ATTEMPTS):
        moves = _draw(task, ground_plan(task, row, POLICY_SEED), roots, level, rng)
        if len(moves) < max(1, len(roots) // 2):
            continue
        fixtures = {name: move for name, move in moves.items() if name in task.scene.fixtures}
        objects = {name: move for name, move in moves.items() if name not in fixtures}
        tried = moved(task, functools.partial(_always, objects), fixtures)
        if not overlaps.worse(before, overlaps.depths(tried.load_init_states()[0], tried.load_reset(POLICY_SEED))):
            return moves
    raise BenchError(f"{task.suite} task {task.index}: no layout of level {level}, sample {sample} without overlaps")


def _always(moves: Mapping[str, Move], row: np.ndarray) -> Mapping[str, Move]:
    return moves


def _draw(task: Task, plan: Layout, roots: list[str], level: int, rng: np.random.RandomState) -> dict[str, Move]:
    """One try: each thing in turn goes where it is free of what has gone before; what finds no place stays."""
    moves: dict[str, Move] = {}
    where = {name: i for i, name in enumerate(task.load_reset(POLICY_SEED).fixture_pos)}
    for name in roots:
        far = GOAL_FAR_M.get(name) if task.suite == "libero_goal" else None
        for _ in range(TURNS):
            distance = rng.uniform(*far) if far else STEP_M[task.suite] * level * rng.uniform(0.75, 1.0)
            angle = rng.uniform(-np.pi, np.pi)
            by = distance * np.array([np.cos(angle), np.sin(angle)])
            if name in where:
                fixture = plan.fixtures[where[name]]
                gone = dataclasses.replace(fixture, pos=fixture.pos + by)
                if all(gone.distance(spot) >= plan.radius[o] + GAP_M for o, spot in plan.position.items()):
                    fixtures = list(plan.fixtures)
                    fixtures[where[name]] = gone
                    plan = dataclasses.replace(plan, fixtures=tuple(fixtures))
                    moves[name] = by, 0.0
                    break
                continue
            spot = plan.position[name] + by
            if plan.free(name, spot, FAR_MARGIN_M if far else MARGIN_M, 0.0, least=True):
                plan = plan.put(name, spot)
                moves[name] = by, 0.0
                break
    return moves


def goal_marks(task: Task) -> set[str]:
    """Entities after which a region of the workspace that the goal names is called: it would not move with them."""
    words = {
        word
        for atom in task.goal
        for name in atom.args
        if name in task.scene.regions and task.scene.regions[name].parent is None
        for word in name.split("_")
    }
    entities: Mapping[str, object] = task.scene.entities
    return {name for name in entities if words & set(task.scene.entities[name].category.split("_"))}
