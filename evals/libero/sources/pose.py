"""LIBERO-PRO's initial_pose_position_angle: what the task is about stands elsewhere, and turned."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from evals.libero.sources.edits import POLICY_SEED, Move, from_state, moved, pose_at, with_states
from evals.libero.sources.shape import SURFACE_M, lowest
from evals.libero.sources.spots import BOUND_M, Overlaps, around, ground_plan, roots_of
from mjx_bench.errors import BenchError
from mjx_bench.task import Task

OFFSET_M = (0.17, -0.06)
LEAST_M = 0.18  # what the offset is lengthened to
YAW = np.deg2rad(45.0)


def displaced(task: Task) -> Task:
    """The task with its target, object or fixture, displaced on the workspace and turned by 45 degrees about the vertical.

    LIBERO-PRO writes a pure yaw over the target's orientation, which tips over what rests on its side; here the target keeps
    the orientation it rests in and is turned. A target that starts on or in something else is put down on the workspace,
    onto which LIBERO-PRO would let it fall. A place is free if nothing overlaps there that did not before, the arm included;
    where none of those tried is, the target is turned where it stands.
    """
    name = task.trigger_entity
    if name is None:
        raise BenchError(f"{task.suite} task {task.index}: its goal names no entity")
    if name in task.scene.fixtures:
        # It stands where it stands in every initial state: the first one decides.
        return _with(task, name, _move(task, name, np.asarray(task.load_init_states()[0])))

    return with_states(task, lambda row: _only(_with(from_state(task, row), name, _move(task, name, row))))


def _move(task: Task, name: str, row: np.ndarray) -> Move:
    overlaps, reset = Overlaps(task), task.load_reset(POLICY_SEED)
    before = overlaps.depths(row, reset)
    for offset in _offsets(task, name, row):
        tried = _with(from_state(task, row), name, (offset, YAW))
        if not overlaps.worse(before, overlaps.depths(_only(tried), tried.load_reset(POLICY_SEED))):
            return offset, YAW
    return np.zeros(2), YAW


def _offsets(task: Task, name: str, row: np.ndarray) -> Iterator[np.ndarray]:
    """Offsets to try, [2] metres: first those that leave a gap around the target, then all."""
    fixture = name in task.scene.fixtures
    start = task.load_reset(POLICY_SEED).fixture_pos[name][:2] if fixture else row[pose_at(task, name)][:2]
    wanted = LEAST_M / np.hypot(*OFFSET_M) * np.array(OFFSET_M)
    inside = [offset for offset in around(wanted) if np.abs(start + offset).max() <= BOUND_M]
    if not fixture:
        plan = ground_plan(task, row, POLICY_SEED)
        yield from (offset for offset in inside if plan.free(name, start + offset, BOUND_M, 0.0, least=True))
    yield from inside


def _with(task: Task, name: str, move: Move) -> Task:
    if name in task.scene.fixtures:
        return moved(task, lambda row: {}, {name: move})
    changed = moved(task, lambda row: {name: move}, {})
    if not move[0].any() or name in roots_of(task):
        return changed
    return with_states(changed, lambda row: _put_down(task, name, row))


def _put_down(task: Task, name: str, row: np.ndarray) -> np.ndarray:
    """The state with an object on the workspace itself."""
    row[pose_at(task, name)][2] += SURFACE_M[task.extra["workspace"]] - lowest(task, name, row, None)
    return row


def _only(task: Task) -> np.ndarray:
    return np.asarray(task.load_init_states()[0])
