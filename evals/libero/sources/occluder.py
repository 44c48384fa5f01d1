"""LIBERO-PRO's view_occlusion: a large book stands between the camera and what the task is about.

LIBERO-PRO's book is a free body that is put back after every step, of a size that a compiled model no longer takes. Here it
hangs on the world, where nothing moves it, and has the size. It is no entity of the task: nothing can be asked of it.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from evals.libero import own
from evals.libero.assemble import assemble
from evals.libero.cache import Cache
from evals.libero.sources.edits import (
    POLICY_SEED,
    Fields,
    Move,
    from_state,
    model_of,
    moved,
    pose_at,
    with_spec,
    with_states,
)
from evals.libero.sources.shape import SURFACE_M, scale
from evals.libero.sources.spots import BOUND_M, Overlaps, roots_of
from evals.libero_max.placing import Fixture
from mjx_bench.errors import BenchError
from mjx_bench.task import Task

if TYPE_CHECKING:
    import mujoco

# Which book, by the workspace of the task; the study has a black one already.
BOOK = {"study_table": "yellow_book_1"}
OTHER_BOOK = "black_book_1"
PREFIX = "occluder_"
# From the target towards the camera: what LIBERO-PRO asks for, then further away and to the side, where it hides less.
DISTANCE_M = (0.08, 0.10, 0.12, 0.14, 0.17, 0.20)
FAR_M = (0.24, 0.28, 0.32)
ASIDE_DEG = ((0.0, 15.0, -15.0), (30.0, -30.0), (45.0, -45.0), (60.0, -60.0), (75.0, -75.0), (90.0, -90.0))
# What else the goal names makes room if it is closer than this, by so much, metres.
NEAR_M, ROOM_M = 0.24, (0.16, 0.0)
FACTOR = 1.6
# A scene that holds both books, for their models.
_DONOR = """(define (problem LIBERO_Tabletop_Manipulation) (:domain robosuite) (:language put the book on the book)
  (:regions
    (left (:target main_table) (:ranges ((-0.11 -0.21 -0.09 -0.19))))
    (right (:target main_table) (:ranges ((-0.11 0.19 -0.09 0.21)))))
  (:fixtures main_table - table)
  (:objects black_book_1 - black_book yellow_book_1 - yellow_book)
  (:obj_of_interest black_book_1)
  (:init (On black_book_1 main_table_left) (On yellow_book_1 main_table_right))
  (:goal (And (On black_book_1 yellow_book_1))))
"""
_LOCK = threading.Lock()


def occluded(task: Task) -> Task:
    """The task with the book in front of its target.

    `extra["occluder"]` says where the book stands in an initial state, as a `placing.Fixture`.

    Raises:
      BenchError: when an initial state is asked for in which the book has no place.
    """
    name = task.trigger_entity
    if name is None:
        raise BenchError(f"{task.suite} task {task.index}: its goal names no entity")
    book = BOOK.get(task.extra["workspace"], OTHER_BOOK)

    def change(spec: mujoco.MjSpec, textured: bool) -> None:
        donor = (_donor().scene.load_textured_spec if textured else None) or _donor().scene.load_spec
        source = donor()
        body = source.body(_donor().scene.entities[book].body)
        for joint in list(body.joints):
            source.delete(joint)
        scale(source, body, FACTOR)
        spec.worldbody.add_frame().attach_body(body, PREFIX, "")

    changed = with_states(with_spec(task, "occluded", change), lambda row: _with_room(task, name, row))
    body = PREFIX + _donor().scene.entities[book].body

    @functools.cache
    def fields(row: int) -> Fields:
        model = model_of(changed.scene)
        pos, quat = model.body_pos.copy(), model.body_quat.copy()
        at = model.body(body).id
        pos[at], quat[at] = _place(changed, name, body, row), (1.0, 0.0, 0.0, 0.0)
        return {"body_pos": pos, "body_quat": quat}

    def standing(row: int) -> Fixture:
        model = model_of(changed.scene)
        at = model.body(body).id
        return Fixture(fields(row)["body_pos"][at][:2], 0.0, _box(model, at))

    return dataclasses.replace(changed, load_fields=fields, extra={**changed.extra, "occluder": standing})


def _box(model: mujoco.MjModel, body: int) -> tuple[float, float, float, float]:
    """x from, x to, y from, y to of what collides of an upright body, in its own frame."""
    import mujoco

    low, high = np.full(2, np.inf), np.full(2, -np.inf)
    for geom in np.flatnonzero((model.geom_bodyid == body) & (model.geom_contype != 0)):
        turn = np.empty(9)
        mujoco.mju_quat2Mat(turn, model.geom_quat[geom])
        centre, half = np.split(model.geom_aabb[geom], 2)
        middle = (model.geom_pos[geom] + turn.reshape(3, 3) @ centre)[:2]
        reach = (np.abs(turn.reshape(3, 3)) @ half)[:2]
        low, high = np.minimum(low, middle - reach), np.maximum(high, middle + reach)
    return float(low[0]), float(high[0]), float(low[1]), float(high[1])


def _with_room(task: Task, name: str, row: np.ndarray) -> np.ndarray:
    """The state with the goal's other objects further away, where that brings them into nothing's way."""
    overlaps, reset = Overlaps(task), task.load_reset(POLICY_SEED)
    if name in task.scene.fixtures:
        return row
    for other in task.goal_entities:
        if other == name or other not in task.scene.objects or other not in roots_of(task):
            continue
        if np.linalg.norm(row[pose_at(task, other)][:2] - row[pose_at(task, name)][:2]) < NEAR_M:
            away = {other: (np.array(ROOM_M), 0.0)}
            tried = moved(from_state(task, row), functools.partial(_always, away), {})
            after = np.asarray(tried.load_init_states()[0])
            if not overlaps.worse(overlaps.depths(row, reset), overlaps.depths(after, reset)):
                row = after
    return row


def _always(moves: Mapping[str, Move], row: np.ndarray) -> Mapping[str, Move]:
    return moves


def _place(task: Task, name: str, body: str, row: int) -> np.ndarray:
    """Where the book stands in an initial state, [3]."""
    state, reset = np.asarray(task.load_init_states()[row]), task.load_reset(POLICY_SEED)
    fixture = name in task.scene.fixtures
    start = reset.fixture_pos[name][:2] if fixture else state[pose_at(task, name)][:2]
    overlaps = Overlaps(task)
    height = SURFACE_M[task.extra["workspace"]] + overlaps.depth_below(body)
    for offset in _offsets():
        spot = np.array([*(start + offset), height])
        if np.abs(spot[:2]).max() <= BOUND_M and not overlaps.touches(state, reset, body, spot):
            return spot
    raise BenchError(f"{task.suite} task {task.index}, state {row}: no place for a book in front of {name}")


def _offsets() -> Iterator[np.ndarray]:
    for aside in ASIDE_DEG:
        for distance in DISTANCE_M:
            for degrees in aside:
                yield _towards(distance, degrees)
    yield from (_towards(distance, degrees) for distance in FAR_M for aside in ASIDE_DEG for degrees in aside)


def _towards(distance: float, degrees: float) -> np.ndarray:
    return distance * np.array([np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))])


@functools.cache
def _donor_files() -> tuple[Path, Cache]:
    cache = Cache.default()
    return cache.blobs / cache.put_blob(_DONOR.encode(), ".bddl"), cache


def _donor() -> Task:
    with _LOCK:
        return _load_donor()


@functools.cache
def _load_donor() -> Task:
    path, cache = _donor_files()
    return assemble(own.adopt(path, None, None, own.HORIZON, cache), (), cache)
