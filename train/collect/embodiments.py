"""What is recorded of each kind of robot, and who shows what it does: by the control law that its tasks take."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from mjx_bench.errors import BenchError
from mjx_bench.policy import Observation, Policy
from mjx_bench.task import Task
from policies.mobile.state import state16
from policies.openpi_inputs import state_of

_HAND = ("x", "y", "z", "axis_angle_x", "axis_angle_y", "axis_angle_z")
_FINGERS = ("finger_left", "finger_right")


@dataclasses.dataclass(frozen=True)
class Embodiment:
    """A robot as a dataset knows it.

    Attributes:
      robot: its name there.
      state: names of the state's numbers; action: of an action's.
      state_of: observation of B lanes to [B, S].
      expert: a fresh one.
    """

    robot: str
    state: tuple[str, ...]
    action: tuple[str, ...]
    state_of: Callable[[Observation], np.ndarray]
    expert: Callable[[], Policy]


def _table() -> Policy:
    from policies.scripted import Reactive

    return Reactive()


def _mobile() -> Policy:
    from policies.mobile.expert import Mobile

    return Mobile()


EMBODIMENTS = {
    "osc_pose": Embodiment("panda", (*_HAND, *_FINGERS), (*_HAND, "gripper"), state_of, _table),
    "mobile_osc": Embodiment(
        "mobile_panda",
        (
            *(f"hand_{axis}" for axis in ("x", "y", "z", "qx", "qy", "qz", "qw")),
            *(f"base_{axis}" for axis in ("x", "y", "z", "qx", "qy", "qz", "qw")),
            *_FINGERS,
        ),
        (*_HAND, "gripper", "base_forward", "base_left", "base_yaw", "torso", "mode"),
        state16,
        _mobile,
    ),
}


def embodiment_of(tasks: Sequence[Task]) -> Embodiment:
    """The robot of some tasks.

    Raises:
      BenchError: they have several, or one that nothing is recorded of.
    """
    modes = {task.action_modes[0] for task in tasks}
    if len(modes) != 1 or not modes <= EMBODIMENTS.keys():
        raise BenchError(
            f"demonstrations of robots with {', '.join(sorted(modes)) or 'no'} actions; give tasks of one kind,"
            f" {' or '.join(EMBODIMENTS)}"
        )
    return EMBODIMENTS[modes.pop()]
