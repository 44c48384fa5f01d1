"""Describes a live LIBERO environment by names: what a scene is once the simulator that built it is gone.

Runs only inside the builder process. It reads attributes of environments and objects and imports neither LIBERO nor
robosuite itself, so that what is taken from them is all in sight here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from evals.libero.bddl import Problem
from evals.libero.mjcf import model_differences, untextured_spec
from evals.libero.thresholds import find_threshold
from mjx_bench.errors import BenchError
from mjx_bench.task import Threshold

# The test method of an articulated fixture behind each predicate.
_TESTS = {"open": "is_open", "close": "is_close", "turnon": "turn_on", "turnoff": "turn_off"}


def describe(env: Any, problem: Problem) -> dict[str, Any]:
    """The scene as JSON data: entities, regions, placements, robot, cameras, goal.

    Args:
      env: a constructed BDDL domain of LIBERO (`ControlEnv(...).env`).
      problem: our reading of its task file.

    Raises:
      BenchError: when a goal names something that the scene does not hold.
    """
    model = env.sim.model._model
    entities = [_entity(model, name, obj, "object") for name, obj in env.objects_dict.items()]
    entities += [_entity(model, name, obj, "fixture") for name, obj in env.fixtures_dict.items()]
    regions = [_region(env, name, site) for name, site in env.object_sites_dict.items()]

    known = {item["name"] for item in entities} | {item["name"] for item in regions}
    for atom in problem.goal:
        if unknown := [arg for arg in atom.args if arg not in known]:
            raise BenchError(f"goal {atom} names {', '.join(unknown)}, which is neither an entity nor a region")
    return {
        "problem": problem.name,
        "workspace": problem.workspace,
        "language": problem.language,
        "nq": model.nq,
        "nv": model.nv,
        "entities": entities,
        "regions": regions,
        "placements": placements(problem, {item["name"] for item in entities}),
        "robot": _robot(env.robots[0]),
        "cameras": _names(model, mujoco.mjtObj.mjOBJ_CAMERA, range(model.ncam)),
        "shown_sites": [site for obj in _models(env) for site in _shown(obj)],
        "goal": [[atom.predicate, *atom.args] for atom in problem.goal],
        "objects_of_interest": list(problem.objects_of_interest),
    }


def placements(problem: Problem, entities: Iterable[str]) -> list[dict[str, str]]:
    """The initial atoms that place an entity, each with the entity or workspace that carries it."""
    names = set(entities)
    rows = []
    for atom in problem.init:
        if atom.predicate not in ("on", "in") or len(atom.args) != 2:
            continue  # open, close, turnon, turnoff set joints
        entity, on = atom.args
        if on in names:
            support = on
        elif on in problem.regions:
            support = problem.regions[on].target
        else:
            raise BenchError(f"initial state {atom} names {on}, which is neither an entity nor a region")
        rows.append({"predicate": atom.predicate, "entity": entity, "on": on, "support": support})
    return rows


def check_export(env: Any, xml: str, blobs: Path) -> None:
    """Raises `BenchError` unless the exported scene compiles to the model that LIBERO itself is running.

    Fixture poses and site colours are left out: LIBERO's reset and its visualisation write them into the live model.
    """
    live = env.sim.model._model
    ours = untextured_spec(xml, blobs).compile()
    differing = model_differences(live, ours, ignore=("body_pos", "body_quat", "site_rgba"))
    moved = {mujoco.mj_name2id(live, mujoco.mjtObj.mjOBJ_BODY, obj.root_body) for obj in env.fixtures_dict.values()}
    still = [body for body in range(live.nbody) if body not in moved]
    for field in ("body_pos", "body_quat"):
        if not differing and not np.array_equal(getattr(live, field)[still], getattr(ours, field)[still]):
            differing.append(field)
    if differing:
        raise BenchError(f"the exported scene is not LIBERO's model: {', '.join(sorted(differing)[:8])} differ")


def reset_state(env: Any) -> dict[str, Any]:
    """What one reset fixed beyond the initial state, as JSON data; see `mjx_bench.task.Reset`.

    After its reset the arm controller is up to date and says so (`new_update` is false), so restoring an initial state
    does not refresh it: the first control step is computed from the values that are read here.
    """
    model = env.sim.model._model
    poses = {}
    for name, fixture in env.fixtures_dict.items():
        body = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, fixture.root_body)
        poses[name] = {"pos": model.body_pos[body].tolist(), "quat": model.body_quat[body].tolist()}
    shown = {site["name"] for obj in _models(env) for site in _shown(obj)}
    seen = {model.site(i).name for i in np.flatnonzero(model.site_rgba[:, 3] > 0)}
    if seen - shown:
        raise BenchError(f"robosuite leaves {', '.join(sorted(seen - shown))} in sight; scenes here show no such site")
    controller = env.robots[0].controller
    if controller.new_update or np.any(controller.joint_vel):
        raise BenchError("the arm controller is not at rest after its reset; this robosuite version is not supported")
    held = {
        "eef_pos": controller.ee_pos,
        "eef_mat": controller.ee_ori_mat,
        "joint_pos": controller.initial_joint,
        "jac_pos": controller.J_pos,
        "jac_rot": controller.J_ori,
        "mass_matrix": controller.mass_matrix,
    }
    return {"fixtures": poses, "controller": {name: np.asarray(value).tolist() for name, value in held.items()}}


def _entity(model: mujoco.MjModel, name: str, obj: Any, kind: str) -> dict[str, Any]:
    free, hinged = None, []
    for joint in obj.joints:
        if model.joint(joint).type[0] == mujoco.mjtJoint.mjJNT_FREE:
            free = joint
        else:
            hinged.append(joint)
    if (free is not None) != (kind == "object"):
        raise BenchError(f"{name}: a {kind} {'has no' if free is None else 'has a'} free joint")
    return {
        "name": name,
        "kind": kind,
        "category": obj.category_name,
        "body": obj.root_body,
        "free_joint": free,
        "joints": hinged,
        "contact_geoms": list(obj.contact_geoms),
        "thresholds": {key: dataclasses.asdict(value) for key, value in _thresholds(obj).items()} if hinged else {},
    }


def _thresholds(obj: Any) -> Mapping[str, Threshold]:
    """Joint tests of an articulated object, for the predicates that it answers."""
    found = {}
    for predicate, method in _TESTS.items():
        test = getattr(obj, method, None)
        if test is None:
            continue
        try:
            test(0.0)
        except (NotImplementedError, ValueError):
            continue  # a base class that only names the test, or one over an empty range of positions
        found[predicate] = find_threshold(test)
    return found


def _models(env: Any) -> tuple[Any, ...]:
    return (*env.objects_dict.values(), *env.fixtures_dict.values())


def _shown(obj: Any) -> list[dict[str, Any]]:
    """The sites that LIBERO shows while the object is turned on; robosuite hides every other site at its reset."""
    sites = [site for site, _ in obj.object_properties["vis_site_names"].values()]
    if not sites:
        return []
    test = _thresholds(obj).get("turnon")
    if test is None or len(obj.joints) != 1:
        raise BenchError(f"{obj.name}: shows {', '.join(sites)} at times, and is not turned on by a joint")
    return [{"name": site, "joint": obj.joints[0], "test": dataclasses.asdict(test)} for site in sites]


def _region(env: Any, name: str, site: Any) -> dict[str, Any]:
    model = env.sim.model._model
    if site.site_type != "box":
        raise BenchError(f"region {name}: its site is a {site.site_type}, expected a box")
    # LIBERO's tests read the size that the object model was written with; the compiled site must agree.
    half_size = np.asarray(site.size, dtype=np.float64)
    if not np.allclose(half_size, model.site(name).size, rtol=0, atol=1e-12):
        raise BenchError(f"region {name}: site size {model.site(name).size} is not the region's {half_size}")
    # A region of the workspace has no parent object, and `on` then needs no contact.
    parent = site.parent_name if env.get_object(site.parent_name) is not None else None
    return {"name": name, "parent": parent, "half_size": half_size.tolist(), "joints": list(site.joints or ())}


def _robot(robot: Any) -> dict[str, Any]:
    low, high = robot.torque_limits
    return {
        "arm_joints": list(robot.robot_model.joints),
        "arm_actuators": list(robot.robot_model.actuators),
        "gripper_joints": list(robot.gripper.joints),
        "gripper_actuators": list(robot.gripper.actuators),
        "eef_site": robot.controller.eef_name,
        "hand_body": robot.robot_model.eef_name,
        "torque_limits": [low.tolist(), high.tolist()],
        "finger_geoms": [list(robot.gripper.important_geoms[f"{side}_fingerpad"]) for side in ("left", "right")],
    }


def _names(model: mujoco.MjModel, kind: mujoco.mjtObj, ids: Iterable[int]) -> list[str]:
    return [mujoco.mj_id2name(model, kind, i) for i in ids]
