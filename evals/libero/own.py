"""A task file of one's own: what LIBERO would pass over or fall over without a word is refused by name before it is built.

LIBERO reads task files leniently: an object without a place stays at the origin, a region's name decides where it lies,
an unknown initial predicate does nothing. That is fine for files that are known to work, and no help to who writes one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from evals.libero.bddl import JOINT_PREDICATES, Problem, parse
from evals.libero.cache import Cache, digest
from evals.libero.package import HORIZONS, TaskFiles
from evals.libero.states import read_states
from mjx_bench.errors import BenchError, unknown_name
from mjx_bench.predicates import compile_goal, touches_of
from mjx_bench.signals import SignalIndex
from mjx_bench.task import Atom, Task

SUITE = "bddl"
HORIZON = HORIZONS["libero_10"]  # policy steps: that of LIBERO's longest tasks

# LIBERO's problem classes, and the instance and category of the surface that each builds its room around.
WORKSPACES = {
    "libero_tabletop_manipulation": ("main_table", "table"),
    "libero_kitchen_tabletop_manipulation": ("kitchen_table", "kitchen_table"),
    "libero_living_room_tabletop_manipulation": ("living_room_table", "living_room_table"),
    "libero_study_tabletop_manipulation": ("study_table", "study_table"),
    "libero_coffee_table_manipulation": ("coffee_table", "coffee_table"),
    "libero_floor_manipulation": ("floor", "floor"),
}


def adopt(path: Path, init_states: Path | None, instruction: str | None, horizon: int, store: Cache) -> TaskFiles:
    """Reads and checks a task file, and copies it and its states into the cache, where a later edit does not reach them.

    Raises:
      BenchError: a file that cannot be read, or a mistake in it that shows without building the scene.
    """
    try:
        content = path.read_bytes()
        problem = parse(content.decode("utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise BenchError(f"{path}: cannot read a task file ({error})") from error
    if fault := next(_faults(problem), None):
        raise BenchError(f"{path}: {fault}")
    words = problem.language if instruction is None else instruction
    if not words.strip():
        raise BenchError(f"{path}: no instruction; fill in (:language ...), or give one")
    if horizon < 1:
        raise BenchError(f"horizon = {horizon}: expected at least 1 policy step")
    states = None
    if init_states is not None:
        states = store.blobs / store.put_blob(_read(init_states), init_states.suffix)
    return TaskFiles(
        suite=SUITE,
        index=0,
        name=path.stem,
        bddl=store.blobs / store.put_blob(content, ".bddl"),
        init_states=states,
        instruction=words,
        horizon=horizon,
        label=str(path),
        version=digest(json.dumps([words, horizon, states and states.name]).encode()),
    )


def check_task(task: Task, path: Path, init_states: Path | None) -> None:
    """Checks what shows only once the scene is built.

    Raises:
      BenchError: initial states of another scene, or a goal that cannot be judged.
    """
    if init_states is not None:
        read_states(
            init_states, task.extra["state_width"]
        )  # the copy would be found wrong, but this names the original
    scene = task.scene
    joints = tuple(dict.fromkeys(joint for entity in scene.entities.values() for joint in entity.joints))
    index = SignalIndex(tuple(scene.entities), tuple(scene.regions), joints, touches_of(task.goal, scene))
    try:
        compile_goal(task.goal, scene, index)
    except BenchError as error:
        raise BenchError(f"{path}: {error}") from error


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BenchError(f"{path}: cannot read a file of initial states ({error})") from error


def _faults(problem: Problem) -> Iterator[str]:
    """What is wrong with a problem, most basic first; a later fault may follow from an earlier one."""
    if problem.name not in WORKSPACES:
        yield str(unknown_name("problem", problem.name, WORKSPACES))
        return
    surface, category = WORKSPACES[problem.name]
    if problem.fixtures.get(surface) != category or problem.workspace != surface:
        yield f"problem {problem.name} needs the fixture '{surface} - {category}', and no other surface"
    for section in problem.unread:
        yield f"section {section} would be passed over, and the task be another one without it; take it out"
    if twice := sorted(set(problem.fixtures) & set(problem.objects)):
        yield f"{twice[0]} is both a fixture and an object"
    if not problem.goal:
        yield "the goal is empty"
    yield from _region_faults(problem, surface)
    yield from _placement_faults(problem, surface)
    known = [*problem.fixtures, *problem.objects, *problem.regions]
    for name in problem.objects_of_interest:
        if name not in known:
            yield f":obj_of_interest: {unknown_name('name', name, known)}"
    for atom in problem.goal:
        for name in atom.args:
            if name not in known:
                yield f"goal {atom}: {unknown_name('object or region', name, known)}"


def _region_faults(problem: Problem, surface: str) -> Iterator[str]:
    entities = [*problem.fixtures, *problem.objects]
    for name, region in problem.regions.items():
        if region.target not in entities:
            yield f"region {name}: {unknown_name('target', region.target, entities)}"
        elif region.target == surface:
            if not region.ranges:
                yield f"region {name}: a region of {surface} needs :ranges ((x0 y0 x1 y1))"
            for x0, y0, x1, y1 in region.ranges:
                if x0 >= x1 or y0 >= y1:
                    yield f"region {name}: range ({x0:g} {y0:g} {x1:g} {y1:g}) is not (x0 y0 x1 y1) with x0 < x1, y0 < y1"
        elif surface in name:
            # LIBERO looks for the surface's name anywhere in the region's.
            yield f"region {name}: LIBERO would take it for a region of {surface}; rename {region.target} or the region"


def _placement_faults(problem: Problem, surface: str) -> Iterator[str]:
    entities = [*problem.fixtures, *problem.objects]
    placed: dict[str, Atom] = {}
    for atom in problem.init:
        if atom.predicate in JOINT_PREDICATES:
            if len(atom.args) != 1 or atom.args[0] not in [*entities, *problem.regions]:
                yield f"initial state {atom}: expected one fixture, object or region of this file"
            continue
        if atom.predicate not in ("on", "in"):
            known = ("on", "in", *JOINT_PREDICATES)
            yield f"initial state {atom}: {unknown_name('predicate', atom.predicate, known)}"
            continue
        if len(atom.args) != 2:
            yield f"initial state {atom}: expected {atom.predicate}(what, where)"
            continue
        what = atom.args[0]
        if what not in entities or what == surface:
            yield f"initial state {atom}: {unknown_name('object', what, [e for e in entities if e != surface])}"
        elif what in placed:
            yield f"initial state {atom}: {what} has a place already, {placed[what]}"
        placed.setdefault(what, atom)
        if fault := _support_fault(problem, surface, atom):
            yield f"initial state {atom}: {fault}"
    for name in entities:
        if name != surface and name not in placed:
            yield f"{name} has no place; add (On {name} <region>) to :init"


def _support_fault(problem: Problem, surface: str, atom: Atom) -> str | None:
    what, where = atom.args
    region = problem.regions.get(where)
    if what in problem.fixtures and (atom.predicate != "on" or region is None or region.target != surface):
        return f"a fixture stands on a region of {surface}"
    if atom.predicate == "in" and (region is None or region.target == surface):
        return "'in' needs a region inside a fixture or an object, declared in :regions"
    if region is not None or where in problem.objects:
        return None
    if where in problem.fixtures:
        return f"name a region of {where}, declared in :regions"
    return str(unknown_name("region", where, [*problem.regions, *problem.objects]))
