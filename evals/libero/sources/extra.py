"""Extra objects beside a task's own: `add_<n>` of LIBERO-Plus's object layouts, regenerated.

The task file gets one to five more objects on tiny regions of the workspace, and LIBERO builds its scene anew. The one
initial state is the task's first, with the extra objects as LIBERO's own reset lays them down.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

import numpy as np

from evals.libero import package
from evals.libero.assemble import assemble
from evals.libero.bddl import Problem, parse
from evals.libero.cache import Cache, digest
from evals.libero.package import TaskFiles
from evals.libero.sources.edits import POLICY_SEED, pose_at, with_states
from evals.libero.sources.spots import ground_plan
from evals.libero_max.placing import GAP_M, RADIUS_M, Layout
from mjx_bench.cases import stable_seed
from mjx_bench.errors import BenchError
from mjx_bench.task import Task

SAMPLER = "mjx-bench-plus-extra-v1"
COUNT = 30
MOST = 5  # objects
# What is put there: nothing that would cover half a table.
MAX_RADIUS_M = 0.08
# From an extra object's edge to what the task is about, and half a side of its region.
CLEAR_M, HALF_SIDE_M = 0.06, 0.01
MARGIN_M = 0.12
TRIES = 400
# Of the study's regions, whose coordinates are not the world's; metres.
_OFFSET_M = {"study_table": (-0.2, 0.0)}

_NAME = re.compile(r"add_(\d+)")


def number_of(name: str) -> int | None:
    """The n of `add_<n>`, 1 to 30; None for another name."""
    match = _NAME.fullmatch(name)
    return int(match.group(1)) if match and 1 <= int(match.group(1)) <= COUNT else None


def files_with_extras(files: TaskFiles, number: int, cache: Cache) -> TaskFiles:
    """The files of a task with extra objects: a task file of its own in the cache, whose states LIBERO draws.

    Raises:
      BenchError: no room for them.
    """
    task = assemble(files, (POLICY_SEED,), cache)
    text = files.bddl.read_text(encoding="utf-8")
    rng = np.random.RandomState(stable_seed(SAMPLER, files.suite, files.index, number))
    made = _with(text, parse(text), _choose(task, 1 + (number - 1) % MOST, rng))
    bddl = cache.blobs / cache.put_blob(made.encode(), ".bddl")
    return dataclasses.replace(files, bddl=bddl, init_states=None, version=digest((files.version + made).encode()))


def furnished(task: Task, number: int) -> Task:
    """A task loaded from `files_with_extras`, with the one initial state of its variant."""
    plain = assemble(package.find(task.suite, task.index), (POLICY_SEED,), Cache.default())
    first = np.asarray(plain.load_init_states()[0])

    names, joints = plain.scene.objects, _fixture_joints(plain)
    assert task.scene.objects[: len(names)] == names, "extra objects come last"
    end, own = pose_at(plain, names[-1]).stop, pose_at(task, task.scene.objects[-1]).stop

    def state(row: np.ndarray) -> np.ndarray:
        row[:end] = first[:end]
        row[own : own + joints] = first[end : end + joints]
        return row

    return with_states(task, state, most=1)


def _fixture_joints(task: Task) -> int:
    """How many numbers the fixtures' joints have in an initial state; they follow the objects'."""
    return len(dict.fromkeys(joint for name in task.scene.fixtures for joint in task.scene.entities[name].joints))


def _choose(task: Task, count: int, rng: np.random.RandomState) -> list[tuple[str, np.ndarray]]:
    """Categories and places, [2] world metres, of as many extra objects as there is room for, `count` at most."""
    plan = ground_plan(task, np.asarray(task.load_init_states()[0]), POLICY_SEED)
    present = {entity.category for entity in task.scene.entities.values()}
    pool = [c for c, radius in sorted(RADIUS_M.items()) if c not in present and radius <= MAX_RADIUS_M]
    about = {*task.goal_entities, *task.objects_of_interest}
    out: list[tuple[str, np.ndarray]] = []
    low, high = plan.low - MARGIN_M, plan.high + MARGIN_M
    for _ in range(TRIES):
        if len(out) == count:
            break
        category, spot = pool[rng.randint(len(pool))], rng.uniform(low, high)
        taken = category in [c for c, _ in out]
        if not taken and _free(plan, about, RADIUS_M[category], spot, out):
            out.append((category, spot))
    if not out:
        raise BenchError(f"{task.suite} task {task.index}: no room for an extra object")
    return out


def _free(
    plan: Layout, about: set[str], radius: float, spot: np.ndarray, placed: Sequence[tuple[str, np.ndarray]]
) -> bool:
    own = [
        float(np.linalg.norm(spot - pos)) >= radius + plan.radius[name] + (CLEAR_M if name in about else GAP_M)
        for name, pos in plan.position.items()
    ]
    others = [float(np.linalg.norm(spot - pos)) >= radius + RADIUS_M[c] + GAP_M for c, pos in placed]
    return all(own) and all(others) and all(f.distance(spot) >= radius + GAP_M for f in plan.fixtures)


def _with(text: str, problem: Problem, extras: Sequence[tuple[str, np.ndarray]]) -> str:
    """A task file's text with extra objects, their regions and their places."""
    offset = np.array(_OFFSET_M.get(problem.workspace, (0.0, 0.0)))
    regions, objects, places = "", "", ""
    for i, (category, spot) in enumerate(extras):
        name, region = f"{category}_extra_{i + 1}", f"extra_{i + 1}_region"
        x, y = spot - offset
        rectangle = " ".join(f"{v:.4f}" for v in (x - HALF_SIDE_M, y - HALF_SIDE_M, x + HALF_SIDE_M, y + HALF_SIDE_M))
        regions += f"\n      ({region} (:target {problem.workspace}) (:ranges (({rectangle}))))"
        objects += f"\n    {name} - {category}"
        places += f"\n    (On {name} {problem.workspace}_{region})"
    for section, more in ((":regions", regions), (":objects", objects), (":init", places)):
        text = _appended(text, section, more)
    return text


def _appended(text: str, section: str, more: str) -> str:
    """The text with `more` at the end of a section."""
    start = re.search(rf"\(\s*{section}\b", text)
    if start is None:
        raise BenchError(f"a task file without a section {section}")
    depth = 0
    for at in range(start.start(), len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return text[:at] + more + "\n  " + text[at:]
    raise BenchError(f"a task file whose section {section} never ends")
