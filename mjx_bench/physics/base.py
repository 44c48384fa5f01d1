"""The one protocol that every engine implements, and the edits that events make through it."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from mjx_bench.signals import SignalIndex, Signals
from mjx_bench.task import Push, Reset


@dataclasses.dataclass(frozen=True)
class SetPosition:
    """Puts an entity's origin at `pos`, world metres.

    An object keeps its orientation (or takes `quat`, wxyz) and loses all velocity; a fixture's root body is moved in the
    model. Where it is `carried`, an object's weight is, so that it stays there.
    """

    entity: str
    pos: np.ndarray
    quat: np.ndarray | None = None
    carried: bool = False


@dataclasses.dataclass(frozen=True)
class Park:
    """Takes an object out of the scene to `pos`, world metres, and remembers where it was.

    Its weight is carried there, so that it stays; unless `floating` is off, and then it is left to itself.
    """

    entity: str
    pos: np.ndarray
    floating: bool = True


@dataclasses.dataclass(frozen=True)
class Parked:
    """Where a parked object was when it was taken away: [3] world metres and [4] wxyz."""

    pos: np.ndarray
    quat: np.ndarray


@dataclasses.dataclass(frozen=True)
class Visual:
    """A change of what cameras see; recorded with the lane and applied by renderers, without effect on the physics.

    Attributes:
      operation, fields: as in the case.
      step: control steps that the lane had executed then, settling included; written by the engine.
    """

    operation: str
    fields: Mapping[str, Any]
    step: int = 0


Edit = SetPosition | Park | Push | Visual


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """Everything of one lane that later steps depend on; restoring it continues with the same bits.

    Attributes:
      arrays: by name: `state` (MuJoCo's mjSTATE_INTEGRATION row), `model.*` (fields of the lane's model), `controller.*`
        (`ControllerState`) and `signals.*` (`Signals`).
      parked: objects out of the scene.
      visual: visual edits so far, in order.
      steps: control steps executed since the lane was loaded.
    """

    arrays: Mapping[str, np.ndarray]
    parked: Mapping[str, Parked]
    visual: tuple[Visual, ...]
    steps: int

    def part(self, prefix: str) -> dict[str, np.ndarray]:
        """The arrays whose names begin with `prefix` and a dot, by the rest of the name."""
        start = prefix + "."
        return {name.removeprefix(start): value for name, value in self.arrays.items() if name.startswith(start)}

    def digest(self) -> str:
        """SHA-256 of the arrays' bytes, by name; without the signals, whose columns depend on what is asked of a lane."""
        h = hashlib.sha256()
        for name in sorted(n for n in self.arrays if not n.startswith("signals.")):
            h.update(name.encode())
            h.update(np.ascontiguousarray(self.arrays[name]).tobytes())
        return h.hexdigest()


@dataclasses.dataclass(frozen=True)
class Kinematics:
    """The state of `n` lanes now, for observations.

    Attributes:
      eef_pos: [n, 3]; eef_quat: [n, 4] wxyz of the hand body; gripper_qpos: [n, 2]; joint_pos: [n, 7].
      entity_pos: [n, E, 3]; entity_quat: [n, E, 4] wxyz of the root bodies.
      qpos: [n, nq]; qvel: [n, nv]; ctrl: [n, nu] what the actuators were told last.
      articulation: joint name to [n].
    """

    eef_pos: np.ndarray
    eef_quat: np.ndarray
    gripper_qpos: np.ndarray
    joint_pos: np.ndarray
    entity_pos: np.ndarray
    entity_quat: np.ndarray
    articulation: dict[str, np.ndarray]
    qpos: np.ndarray
    qvel: np.ndarray
    ctrl: np.ndarray


@dataclasses.dataclass(frozen=True)
class Pose:
    """What a picture of one lane depends on: where everything is now, and what changed its looks.

    Attributes:
      qpos: [nq].
      body_pos, body_quat: [nbody, 3] and [nbody, 4] of the lane's model, which hold where its fixtures stand.
      visual: visual edits so far, in order.
      steps: control steps executed since the lane was loaded.
      fields: further fields of the lane's model that differ from the scene's.
    """

    qpos: np.ndarray
    body_pos: np.ndarray
    body_quat: np.ndarray
    visual: tuple[Visual, ...] = ()
    steps: int = 0
    fields: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)


class Physics(Protocol):
    """`lanes` independent copies of one scene under one control law.

    A lane's bits depend on nothing but what was loaded into it and the actions it got.
    """

    lanes: int
    index: SignalIndex
    signals: Signals
    grown: int  # how often a program was too small and was made anew with more room

    def load(
        self, lane: int, init_state: np.ndarray, reset: Reset, fields: Mapping[str, np.ndarray] | None = None
    ) -> None:
        """Restores an initial state [1 + nq + nv] (time, qpos, qvel) with the fixtures and the controller of `reset`.

        Args:
          lane: which.
          init_state: what to start from.
          reset: fixture poses, which come after `fields`, and the controller's memory.
          fields: of the lane's model, where they differ from the scene's (`Task.load_fields`).
        """
        ...

    def announce(self, ids: np.ndarray, actions: np.ndarray, counts: np.ndarray) -> None:
        """Says which actions the next control steps of the lanes `ids` will bring, unless a lane ends or is edited before.

        A compiled engine executes them now, in one program, and its control steps then only show what came out. An engine
        that steps as it is asked to has nothing to do here.

        Args:
          ids: int32 [n], ascending.
          actions: [n, Q, A].
          counts: int [n] how many of the Q belong to each lane.
        """
        ...

    def control_step(self, ids: np.ndarray, actions: np.ndarray) -> dict[int, str]:
        """One control step of the lanes `ids` (int32 [n], ascending) under `actions` [n, A].

        Returns:
          Lanes whose numerics or capacities failed, with the reason. They must not be stepped again before a load.
        """
        ...

    def kinematics(self, ids: np.ndarray) -> Kinematics: ...

    def poses(self, ids: np.ndarray) -> list[Pose]:
        """What renderers need of the lanes `ids`, copied."""
        ...

    def snapshot(self, lane: int) -> Snapshot: ...

    def restore(self, lane: int, snapshot: Snapshot) -> None: ...

    def parked(self, lane: int) -> Mapping[str, Parked]: ...

    def edit(self, lane: int, edits: list[Edit]) -> None:
        """Applies an event's edits to one lane, in order; fields derived from the state follow at once.

        Raises:
          BenchError: a visual edit that no renderer could show.
        """
        ...

    def close(self) -> None: ...


ControlLaw = Callable[..., None]
