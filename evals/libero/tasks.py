"""LIBERO as a source of tasks: list them, build them into the cache, load them as `mjx_bench.task.Task`.

Listing reads task files only. The first load of a task runs LIBERO in a child process (2 to 6 s); later loads read the
cache and import neither LIBERO nor robosuite.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import queue
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evals.libero import package
from evals.libero.bddl import Problem, parse_file
from evals.libero.builder import BUILDER_VERSION
from evals.libero.cache import Cache, scene_key
from evals.libero.client import Builder, BuildFailed
from evals.libero.mjcf import textured_spec, untextured_spec
from evals.libero.package import TaskFiles
from mjx_bench.errors import BenchError
from mjx_bench.task import Atom, ControllerReset, Entity, Placement, Region, Reset, Robot, Scene, Task, Threshold

if TYPE_CHECKING:
    import mujoco

# Policy steps before an episode times out; LIBERO itself sets none, these are in common use.
HORIZONS = {"libero_spatial": 220, "libero_object": 280, "libero_goal": 300, "libero_10": 520, "libero_90": 400}

CONTROL_HZ = 20
SUBSTEPS = 25  # of 0.002 s
SETTLE_STEPS = 10
SETTLE_ACTION = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0)


@dataclasses.dataclass(frozen=True)
class TaskRow:
    """What a task file alone says of a task.

    Attributes:
      suite, index, name: identity; `name` is the file's stem.
      instruction: what the policy is told, from the file's name.
      bddl_language: the instruction inside the file, which differs at times.
      problem: LIBERO's problem class, which fixes the room, the table and the robot's mount.
      goal: atoms that must hold together.
      horizon: policy steps.
      objects, fixtures, regions: how many the file declares, the workspace not counted.
    """

    suite: str
    index: int
    name: str
    instruction: str
    bddl_language: str
    problem: str
    goal: tuple[Atom, ...]
    horizon: int
    objects: int
    fixtures: int
    regions: int


@dataclasses.dataclass(frozen=True)
class BuildFailure:
    """A task that could not be built, or one reset of it (then `seed` is set)."""

    suite: str
    index: int
    name: str
    cause: str
    seed: int | None = None

    def __str__(self) -> str:
        what = f"{self.suite}/{self.index} ({self.name})"
        return f"{what}{'' if self.seed is None else f', seed {self.seed}'}: {self.cause}"


def suites() -> tuple[str, ...]:
    """Names of the suites."""
    return package.SUITES


def task_table(suite: str) -> list[TaskRow]:
    """The tasks of a suite, from their files; no simulator is imported."""
    return [_row(files, parse_file(files.bddl)) for files in package.tasks(suite)]


def build(
    tasks: Iterable[tuple[str, int]],
    seeds: Sequence[int] = (),
    progress: Callable[[str], None] | None = None,
    workers: int = 1,
    cache: Cache | None = None,
) -> list[BuildFailure]:
    """Builds what the cache lacks of each (suite, index), and its resets for `seeds`.

    Args:
      tasks: (suite, index) pairs.
      seeds: policy seeds whose resets are wanted.
      progress: told one line a finished task, from a worker's thread.
      workers: builder processes, each about 1 GB.
      cache: where to build; the default cache when None.

    Returns:
      What failed, in the order of `tasks`; everything else is in the cache.
    """
    store = cache or Cache.default()
    wanted = [package.find(suite, index) for suite, index in tasks]
    todo: queue.SimpleQueue[tuple[int, TaskFiles]] = queue.SimpleQueue()
    for position, files in enumerate(wanted):
        if not _complete(store, _key(files), seeds):
            todo.put((position, files))
    failures: list[tuple[int, BuildFailure]] = []

    def work() -> None:
        with Builder() as builder:
            while True:
                try:
                    position, files = todo.get_nowait()
                except queue.Empty:
                    return
                found = _build_one(builder, store, files, seeds)
                failures.extend((position, failure) for failure in found)
                if progress is not None:
                    label = f"{files.suite}/{files.index} {files.name}"
                    progress(f"{label}: {'; '.join(failure.cause for failure in found) or 'built'}")

    if not todo.empty():
        with ThreadPoolExecutor(max_workers=max(1, min(workers, todo.qsize()))) as pool:
            try:
                for future in [pool.submit(work) for _ in range(workers)]:
                    future.result()  # an error in a worker is this call's error
            except BaseException:
                with contextlib.suppress(queue.Empty):
                    while True:  # leave the workers nothing more than the tasks in their hands
                        todo.get_nowait()
                raise
    return [failure for _, failure in sorted(failures, key=lambda item: item[0])]


def load_task(suite: str, index: int, *, seeds: Sequence[int] = (), cache: Cache | None = None) -> Task:
    """Loads a task, building it first when the cache lacks it.

    Args:
      suite: one of `suites()`.
      index: position in LIBERO's task order 0.
      seeds: policy seeds whose resets to have ready; `Task.load_reset` fetches others on demand.
      cache: where to look and build; the default cache when None.

    Raises:
      BenchError: unknown suite or index; a scene that does not build, with the cause.
      MissingExtra: when LIBERO is not installed.
    """
    store = cache or Cache.default()
    files = package.find(suite, index)
    key = _key(files)
    if not _complete(store, key, seeds):
        _build_or_raise(store, files, seeds)
    scene = store.read_scene(key)
    if scene is None:
        raise BenchError(f"{store.scene_folder(key)}: the scene vanished while it was loaded; load the task again")
    problem = parse_file(files.bddl)
    row = _row(files, problem)
    return Task(
        suite=suite,
        index=index,
        name=files.name,
        version=f"libero-{key[:12]}",
        instruction=row.instruction,
        scene=_scene(store, key, scene),
        goal=row.goal,
        objects_of_interest=problem.objects_of_interest,
        horizon=row.horizon,
        control_hz=CONTROL_HZ,
        substeps=SUBSTEPS,
        settle_steps=SETTLE_STEPS,
        settle_action=SETTLE_ACTION,
        load_init_states=functools.partial(package.load_init_states, files.init_states),
        load_reset=functools.partial(_load_reset, store, files, key),
        extra={"bddl_language": row.bddl_language, "bddl": problem, "workspace": problem.workspace, "cache_key": key},
    )


def _row(files: TaskFiles, problem: Problem) -> TaskRow:
    return TaskRow(
        suite=files.suite,
        index=files.index,
        name=files.name,
        instruction=files.instruction,
        bddl_language=problem.language,
        problem=problem.name,
        goal=problem.goal,
        horizon=HORIZONS[files.suite],
        objects=len(problem.objects),
        fixtures=len(problem.fixtures) - 1,
        regions=len(problem.regions),
    )


def _key(files: TaskFiles) -> str:
    return scene_key(BUILDER_VERSION, package.versions(), package.read_bddl(files))


def _complete(store: Cache, key: str, seeds: Sequence[int]) -> bool:
    return store.read_scene(key) is not None and all(store.reset_json(key, seed).is_file() for seed in seeds)


def _build_one(builder: Builder, store: Cache, files: TaskFiles, seeds: Sequence[int]) -> list[BuildFailure]:
    job = {
        "name": f"{files.suite}/{files.name}",
        "bddl": str(files.bddl),
        "key": _key(files),
        "cache": str(store.root.resolve()),
        "versions": package.versions(),
        "seeds": list(seeds),
    }
    try:
        answer = builder.run(job)
    except BuildFailed as error:
        return [BuildFailure(files.suite, files.index, files.name, str(error))]
    return [
        BuildFailure(files.suite, files.index, files.name, cause, int(seed))
        for seed, cause in answer["reset_errors"].items()
    ]


def _build_or_raise(store: Cache, files: TaskFiles, seeds: Sequence[int]) -> None:
    with Builder() as builder:
        failures = _build_one(builder, store, files, seeds)
    if failures:
        raise BenchError(f"LIBERO could not build {'; '.join(map(str, failures))}")


def _load_reset(store: Cache, files: TaskFiles, key: str, seed: int) -> Reset:
    data = store.read_reset(key, seed)
    if data is None:
        _build_or_raise(store, files, (seed,))
        data = store.read_reset(key, seed)
        assert data is not None
    poses = data["fixtures"]
    return Reset(
        seed=seed,
        fixture_pos={name: np.array(pose["pos"]) for name, pose in poses.items()},
        fixture_quat={name: np.array(pose["quat"]) for name, pose in poses.items()},
        controller=ControllerReset(**{name: np.array(value) for name, value in data["controller"].items()}),
    )


def _scene(store: Cache, key: str, data: dict[str, Any]) -> Scene:
    robot = data["robot"]
    return Scene(
        key=data["xml_sha256"][:32],
        entities={item["name"]: _entity(item) for item in data["entities"]},
        regions={
            item["name"]: Region(item["name"], item["parent"], tuple(item["half_size"]), tuple(item["joints"]))
            for item in data["regions"]
        },
        placements=tuple(Placement(**item) for item in data["placements"]),
        robot=Robot(
            arm_joints=tuple(robot["arm_joints"]),
            arm_actuators=tuple(robot["arm_actuators"]),
            gripper_joints=tuple(robot["gripper_joints"]),
            gripper_actuators=tuple(robot["gripper_actuators"]),
            eef_site=robot["eef_site"],
            hand_body=robot["hand_body"],
            torque_limits=(tuple(robot["torque_limits"][0]), tuple(robot["torque_limits"][1])),
            finger_geoms=(tuple(robot["finger_geoms"][0]), tuple(robot["finger_geoms"][1])),
        ),
        cameras=tuple(data["cameras"]),
        load_spec=functools.partial(_load_spec, untextured_spec, store, key, data["xml_sha256"]),
        load_textured_spec=functools.partial(_load_spec, textured_spec, store, key, data["xml_sha256"]),
    )


def _load_spec(read: Callable[[str, Path], mujoco.MjSpec], store: Cache, key: str, sha256: str) -> mujoco.MjSpec:
    return read(store.read_xml(key, sha256), store.blobs)


def _entity(item: dict[str, Any]) -> Entity:
    return Entity(
        name=item["name"],
        kind=item["kind"],
        category=item["category"],
        body=item["body"],
        free_joint=item["free_joint"],
        joints=tuple(item["joints"]),
        contact_geoms=tuple(item["contact_geoms"]),
        thresholds={name: Threshold(**value) for name, value in item["thresholds"].items()},
    )
