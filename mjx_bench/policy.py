"""What acts: the policy contract and the observation it reads.

A policy is a pure function of a carry and an observation. Carries are immutable, so a forked arm can share its base's.
Randomness comes only from the seeds that the engine passes in, never from global state, so that nothing depends on the
lane, the batch size or the order of cases.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from mjx_bench.task import Task

Carry = Any

# Numbers in one action of each control law: an arm's, then its gripper; or one a rotor; or speed and steering; or one a
# joint; or see `control.bimanual` and `control.mobile`.
# "native" stands for the first of `Task.action_modes`.
NATIVE = "native"
ACTION_DIMS = {
    "osc_pose": 7,
    "joint_position": 8,
    "rotors": 4,
    "drive": 2,
    "posture": 12,
    "bimanual": 22,
    "mobile_osc": 12,
}


@dataclasses.dataclass(frozen=True)
class PolicySpec:
    """What the engine must know of a policy before it runs.

    Attributes:
      name: as recorded.
      horizon: H, actions that one query returns.
      action_mode: control law its actions are for, "osc_pose" (A = 7), "joint_position" (A = 8), "rotors" (A = 4), "drive"
        (A = 2), "posture" (A = 12), "bimanual" (A = 22), "mobile_osc" (A = 12), or "native": whatever each task takes first,
        which the policy must find out from the task.
      cameras: names of the cameras it needs. A policy without any sees no pictures, and visual events cannot touch it.
      image_size: pixels a side of its pictures, which are square.
      on_device: it takes pictures that have stayed on the device, see `Observation.images`.
    """

    name: str
    horizon: int
    action_mode: str = "osc_pose"
    cameras: tuple[str, ...] = ()
    image_size: int = 256
    on_device: bool = False


def action_mode_for(mode: str, task: Task) -> str:
    """The control law that actions of a policy of this mode are for, in this task."""
    return task.action_modes[0] if mode == NATIVE else mode


def settling(task: Task, width: int) -> np.ndarray:
    """[width] action of the steps before a policy acts, for the law whose actions are so wide."""
    if len(task.settle_action) == width:
        return np.array(task.settle_action)
    # Nothing moves but the gripper: it is the last number of both laws that an arm on a table has.
    action = np.zeros(width)
    action[-1] = task.settle_action[-1]
    return action


@dataclasses.dataclass(frozen=True)
class Observation:
    """B lanes of one task, at the moment of a query (the current state, not a delayed one).

    Attributes:
      task: the task of every lane.
      step: int [B] policy steps executed so far.
      eef_pos: [B, 3] end-effector site, world metres.
      eef_quat: [B, 4] orientation of the hand body, wxyz.
      gripper_qpos: [B, 2] finger joint positions, metres.
      joint_pos: [B, 7] arm joints, radians.
      entity_pos: [B, E, 3] root body positions in the order of `task.scene.entities` (privileged).
      entity_quat: [B, E, 4] root body orientations, wxyz (privileged).
      articulation: joint name to [B] position, for every articulation joint of the scene (privileged).
      qpos, qvel: [B, nq] and [B, nv] of the scene's model, as MuJoCo lays them out (privileged).
      ctrl: [B, nu] what the actuators were told last.
      instance: int64 [B] index of the initial state that each lane began with; None where that is not known.
      policy_seed: int64 [B] the policy's seed of each lane's case, as its manifest has it; None where there are no cases.
      images: camera to uint8 [B, image_size, image_size, 3], upright, RGB: those that the policy's spec names. NumPy
        arrays; for a policy that takes them on the device, JAX arrays where they are drawn on JAX's device and nothing has
        spoilt or repaired them since.
    """

    task: Task
    step: np.ndarray
    eef_pos: np.ndarray
    eef_quat: np.ndarray
    gripper_qpos: np.ndarray
    joint_pos: np.ndarray
    entity_pos: np.ndarray
    entity_quat: np.ndarray
    articulation: dict[str, np.ndarray]
    images: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    qpos: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros((0, 0)))
    qvel: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros((0, 0)))
    ctrl: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros((0, 0)))
    policy_seed: np.ndarray | None = None
    instance: np.ndarray | None = None

    def instruction(self, lane: int) -> str:
        """What the policy is told in a lane."""
        return self.task.instruction if self.instance is None else self.task.instruction_of(int(self.instance[lane]))


@runtime_checkable
class Prepared(Protocol):
    """What a policy may have besides: a word in advance about everything that it will be asked to run."""

    def prepare(self, episodes: Sequence[tuple[Task, int]]) -> None:
        """Called once before a run, with the task and the seed (`Policy.init`) of each Base arm.

        Raises:
          BenchError: it cannot run one of them.
        """
        ...


@runtime_checkable
class Fingerprinted(Protocol):
    """What a policy may have besides: what its actions depend on that is neither in its name nor in its source file."""

    def fingerprint(self) -> Mapping[str, str]:
        """What it is of to a hash, or to a few words; recorded, and a folder is continued only where all are equal."""
        ...


@runtime_checkable
class Policy(Protocol):
    """Three members; everything else is the policy's own business."""

    spec: PolicySpec

    def init(self, task: Task, seed: int) -> Carry:
        """The carry of a new episode. `seed` is folded from the case, the same in both arms of a pair."""
        ...

    def act(self, carries: Sequence[Carry], obs: Observation, seeds: np.ndarray) -> tuple[np.ndarray, Sequence[Carry]]:
        """One query.

        Args:
          carries: B carries.
          obs: B lanes of one task.
          seeds: uint64 [B], folded from (case, query index).

        Returns:
          actions: float32 [B, H, A] in [-1, 1].
          carries: B new carries; the ones passed in must not be changed.
        """
        ...
