"""From the cache's plain data to a `mjx_bench.task.Task`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evals.libero.bddl import parse_file
from evals.libero.building import ensure, key_of
from evals.libero.cache import Cache, digest
from evals.libero.mjcf import textured_spec, untextured_spec
from evals.libero.package import TaskFiles
from evals.libero.states import drawn_states, read_states
from mjx_bench.errors import BenchError
from mjx_bench.task import ControllerReset, Entity, Placement, Region, Reset, Robot, Scene, ShownSite, Task, Threshold

if TYPE_CHECKING:
    import mujoco

CONTROL_HZ = 20
SUBSTEPS = 25  # of 0.002 s
SETTLE_STEPS = 10
SETTLE_ACTION = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0)
OBSERVED = ("agentview", "robot0_eye_in_hand")
SHOWN_GROUPS = (1, 2)  # robosuite hides group 0, its collision geoms


def assemble(files: TaskFiles, seeds: Sequence[int], store: Cache) -> Task:
    """The task made from `files`, built first when the cache lacks it or its resets for `seeds`.

    Raises:
      BenchError: a task file that cannot be read, or a scene that does not build, with the cause.
      MissingExtra: when LIBERO is not installed.
    """
    ensure(files, seeds, store)
    key = key_of(files)
    scene = store.read_scene(key)
    if scene is None:
        raise BenchError(f"{store.scene_folder(key)}: the scene vanished while it was loaded; load the task again")
    problem = parse_file(files.bddl)
    width = 1 + scene["nq"] + scene["nv"]
    if files.init_states is None:
        load_init_states = functools.partial(drawn_states, store, key)
    else:
        load_init_states = functools.partial(read_states, files.init_states, width)
    return Task(
        suite=files.suite,
        index=files.index,
        name=files.name,
        version=f"libero-{(digest((key + files.version).encode()) if files.version else key)[:12]}",
        instruction=problem.language if files.instruction is None else files.instruction,
        scene=_scene(store, key, scene),
        goal=problem.goal,
        objects_of_interest=problem.objects_of_interest,
        horizon=files.horizon,
        control_hz=CONTROL_HZ,
        substeps=SUBSTEPS,
        settle_steps=SETTLE_STEPS,
        settle_action=SETTLE_ACTION,
        load_init_states=load_init_states,
        load_reset=functools.partial(_load_reset, store, files, key),
        extra={
            "bddl_language": problem.language,
            "bddl": problem,
            "workspace": problem.workspace,
            "cache_key": key,
            "state_width": width,
        },
    )


def _load_reset(store: Cache, files: TaskFiles, key: str, seed: int) -> Reset:
    data = store.read_reset(key, seed)
    if data is None:
        ensure(files, (seed,), store)
        data = store.read_reset(key, seed)
        if data is None:
            # The task file was replaced, or the package upgraded, since the task was loaded.
            raise BenchError(f"{files.label}: its files changed since it was loaded; load the task again")
    return reset_of(seed, data)


def reset_of(seed: int, data: Mapping[str, Any]) -> Reset:
    """The reset that the builder wrote down as plain data."""
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
        observed=OBSERVED,
        load_spec=functools.partial(_load_spec, untextured_spec, store, key, data["xml_sha256"]),
        load_textured_spec=functools.partial(_load_spec, textured_spec, store, key, data["xml_sha256"]),
        shown_groups=SHOWN_GROUPS,
        shown_sites=tuple(
            ShownSite(item["name"], item["joint"], Threshold(**item["test"])) for item in data["shown_sites"]
        ),
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
