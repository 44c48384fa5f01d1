"""What a regenerated source does to a plain task: small functions that return a changed copy and leave the task alone.

Looks, initial states and resets are edited as data, and every variant of a task keeps its base model. Only `with_spec` makes
another scene.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from mjx_bench.task import InitStates, Lens, Reset, Scene, Task

if TYPE_CHECKING:
    import mujoco

Edit = Callable[[Task], Task]
Fields = Mapping[str, np.ndarray]
# By how much something moves in the plane, [2] metres, and turns about the vertical through its origin, radians.
Move = tuple[np.ndarray, float]

# Of every published case; where fixtures stand depends on it by a centimetre.
POLICY_SEED = 195

# qpos of an initial state: time, 7 arm joints, 2 fingers, then 7 numbers an object (x y z w x y z).
_FIRST_OBJECT = 1 + 9
_OBJECT_STRIDE = 7

_MODELS: dict[str, mujoco.MjModel] = {}
_MODELS_KEPT = 3
_LOCK = threading.Lock()


def model_of(scene: Scene) -> mujoco.MjModel:
    """The scene's compiled, texture-free model; shared, not to be written to. The last few are kept."""
    with _LOCK:
        model = _MODELS.pop(scene.key, None)
        if model is None:
            model = scene.load_spec().compile()
        _MODELS[scene.key] = model  # at the end: the least recently used goes first
        while len(_MODELS) > _MODELS_KEPT:
            del _MODELS[next(iter(_MODELS))]
        return model


def with_fields(task: Task, make: Callable[[mujoco.MjModel], Fields]) -> Task:
    """The task with fields of its own in the model of every episode, made when they are first asked for."""
    earlier = task.fields_of
    made = functools.cache(lambda: dict(make(model_of(task.scene))))
    return dataclasses.replace(task, load_fields=lambda row: {**earlier(row), **made()})


class _Rows:
    """Initial states that are made of others, one at a time, when they are first asked for."""

    def __init__(
        self, load: Callable[[], InitStates], change: Callable[[np.ndarray], np.ndarray], most: int | None
    ) -> None:
        self._rows, self._change = functools.cache(load), change
        self._most = most
        self._made: dict[int, np.ndarray] = {}

    def __len__(self) -> int:
        count = len(self._rows())
        return count if self._most is None else min(count, self._most)

    def __getitem__(self, index: int, /) -> np.ndarray:
        if not 0 <= index < len(self):
            raise IndexError(f"initial state {index} of {len(self)}")
        if index not in self._made:
            self._made[index] = self._change(np.array(self._rows()[index], np.float64))
        return self._made[index]


def with_states(task: Task, change: Callable[[np.ndarray], np.ndarray], most: int | None = None) -> Task:
    """The task with other initial states, each [1 + nq + nv] made of its own; of the first `most` only, if given.

    Args:
      task: the task.
      change: of a copy of a state, which it may write to.
      most: how many are kept.
    """
    rows = _Rows(task.load_init_states, change, most)
    return dataclasses.replace(task, load_init_states=lambda: rows)


def from_state(task: Task, row: np.ndarray) -> Task:
    """The task with one initial state, [1 + nq + nv]."""
    return dataclasses.replace(task, load_init_states=lambda: row[None])


def with_reset(task: Task, change: Callable[[Reset], Reset]) -> Task:
    """The task with another reset: where its fixtures stand, and what its controller remembers."""
    load = task.load_reset
    return dataclasses.replace(task, load_reset=functools.cache(lambda seed: change(load(seed))))


def with_lens(task: Task, lens: Lens) -> Task:
    """The task with a camera that does something to its pictures."""
    return dataclasses.replace(task, scene=dataclasses.replace(task.scene, lens=lens))


def with_spec(task: Task, key: str, change: Callable[[mujoco.MjSpec, bool], None], *, seen_only: bool = False) -> Task:
    """The task on another scene.

    Args:
      task: the task.
      key: tells this scene from others of the same base; a part of `Scene.key`.
      change: edits a fresh spec; told whether it is the textured one.
      seen_only: the change is of what is seen alone, and nothing that moves is another.
    """
    scene = task.scene

    def edited(load: Callable[[], mujoco.MjSpec], textured: bool) -> mujoco.MjSpec:
        spec = load()
        change(spec, textured)
        return spec

    textured = scene.load_textured_spec or scene.load_spec
    changed = dataclasses.replace(
        scene,
        key=f"{scene.key}-{key}",
        load_spec=functools.partial(edited, scene.load_spec, False),
        load_textured_spec=functools.partial(edited, textured, True),
    )
    extra = {"physics_key": physics_key(task)} if seen_only else {"physics_key": changed.key, "reshaped": True}
    return dataclasses.replace(task, scene=changed, extra={**task.extra, **extra})


def physics_key(task: Task) -> str:
    """Equal for tasks whose compiled models differ in nothing but what is seen."""
    key: str = task.extra.get("physics_key", task.scene.key)
    return key


def pose_at(task: Task, name: str) -> slice:
    """Where an object's 7 coordinates (x y z w x y z) are in a row of initial states."""
    start = _FIRST_OBJECT + _OBJECT_STRIDE * task.scene.objects.index(name)
    return slice(start, start + _OBJECT_STRIDE)


def carried_by(task: Task, name: str) -> tuple[str, ...]:
    """Objects that start on or in an entity, directly or on one another."""
    out: list[str] = []
    for placement in task.scene.placements:
        if placement.support == name and placement.entity not in out:
            out += [placement.entity, *carried_by(task, placement.entity)]
    return tuple(dict.fromkeys(out))


def turned(yaw: float, quat: np.ndarray) -> np.ndarray:
    """`quat` [4], wxyz, turned by `yaw` radians about the world's z axis."""
    c, s = np.cos(yaw / 2), np.sin(yaw / 2)
    w, x, y, z = quat
    return np.array([c * w - s * z, c * x - s * y, c * y + s * x, c * z + s * w])


def moved(task: Task, objects: Callable[[np.ndarray], Mapping[str, Move]], fixtures: Mapping[str, Move]) -> Task:
    """The task with some of what stands on its workspace moved in the plane, with everything on or in it.

    Args:
      task: the task.
      objects: of a row of initial states: which objects move, and how.
      fixtures: which fixtures move.
    """

    def state(row: np.ndarray) -> np.ndarray:
        for name, move in objects(row).items():
            centre = row[pose_at(task, name)][:2].copy()
            _move(task, row, (name, *carried_by(task, name)), centre, *move)
        for name, move in fixtures.items():
            if carried := carried_by(task, name):
                _move(task, row, carried, task.load_reset(POLICY_SEED).fixture_pos[name][:2], *move)
        return row

    def reset(old: Reset) -> Reset:
        pos, quat = dict(old.fixture_pos), dict(old.fixture_quat)
        for name, (by, yaw) in fixtures.items():
            pos[name] = pos[name] + np.array([*by, 0.0])
            quat[name] = turned(yaw, quat[name])
        return dataclasses.replace(old, fixture_pos=pos, fixture_quat=quat)

    changed = with_states(task, state)
    return with_reset(changed, reset) if fixtures else changed


def _move(task: Task, row: np.ndarray, names: tuple[str, ...], centre: np.ndarray, by: np.ndarray, yaw: float) -> None:
    c, s = np.cos(yaw), np.sin(yaw)
    turn = np.array([[c, -s], [s, c]])
    for name in names:
        pose = row[pose_at(task, name)]
        pose[:2] = centre + by + turn @ (pose[:2] - centre)
        if yaw:
            pose[3:] = turned(yaw, pose[3:])
