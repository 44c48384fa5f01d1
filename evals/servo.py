"""From a pose that a tool asks for to the increments that an arm takes: what the benchmarks' arm tools share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mjx_bench.policy import Observation
from mjx_bench.task import Task
from mjx_bench.tools import BadCall
from policies.reference.plants import Plants

# Metres and radians of a full action of `osc_pose` and `mobile_osc`.
POSITION, ROTATION = 0.05, 0.5

# What tools and briefs read of a scene's own model.
MODELS: Plants[Any] = Plants(lambda task: task.scene.load_spec().compile())


def times(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product of quaternions [4], wxyz."""
    w, v = a[0] * b[0] - a[1:] @ b[1:], a[0] * b[1:] + b[0] * a[1:] + np.cross(a[1:], b[1:])
    return np.concatenate([[w], v])


def rotation_to(now: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """[3] rotation vector, world axes, radians, that turns `now` into `goal`, both [4] wxyz; the short way."""
    turn = times(goal, now * np.array([1.0, -1.0, -1.0, -1.0]))
    turn = turn if turn[0] >= 0.0 else -turn
    sine = float(np.linalg.norm(turn[1:]))
    return turn[1:] * (2.0 if sine < 1e-9 else 2.0 * float(np.arctan2(sine, turn[0])) / sine)


def check_length(quat: np.ndarray) -> None:
    """Raises `BadCall` for a quaternion [4] that an agent gave, and whose length is not 1."""
    if abs(float(np.linalg.norm(quat)) - 1.0) > 1e-3:
        raise BadCall("values", "the quaternion's length must be 1")


def increments(
    obs: Observation, position: np.ndarray, quat: np.ndarray, gains: tuple[float, float], most: tuple[float, float]
) -> np.ndarray:
    """[6] the actions that take the hand of a lane towards a pose: gain times what is left, clipped along each axis.

    Args:
      obs: of one lane.
      position, quat: [3] world metres and [4] wxyz, of what `eef_pos` and `eef_quat` are of.
      gains: of position and rotation.
      most: metres and radians a control step, along each world axis.
    """
    step = np.clip(gains[0] * (position - obs.eef_pos[0]), -most[0], most[0])
    turn = np.clip(gains[1] * rotation_to(obs.eef_quat[0], quat), -most[1], most[1])
    return np.concatenate([step / POSITION, turn / ROTATION])


def xyzw(quat: np.ndarray) -> np.ndarray:
    """[4] xyzw of a quaternion wxyz."""
    return np.roll(quat, -1)


def wxyz(quat: np.ndarray) -> np.ndarray:
    """[4] wxyz of a quaternion xyzw, of length 1."""
    found = np.roll(quat, 1)
    return found / np.linalg.norm(found)


def rounded(value: Any, digits: int = 3) -> Any:
    """Plain numbers for an agent to read."""
    return np.round(np.asarray(value, np.float64), digits).tolist()


def addresses(task: Task) -> Mapping[str, tuple[int, int]]:
    """Joint of the task's model to its place in qpos and in qvel."""
    return _ADDRESSES.of(task)


def _addresses(task: Task) -> Mapping[str, tuple[int, int]]:
    model = MODELS.of(task)
    joints = [model.joint(i) for i in range(model.njnt)]
    return {joint.name: (int(joint.qposadr[0]), int(joint.dofadr[0])) for joint in joints}


_ADDRESSES: Plants[Mapping[str, tuple[int, int]]] = Plants(_addresses)
