"""Lanes as flat rows: everything that a compiled program reads or writes of one lane, in one float32 vector.

One vector crosses between host and device instead of thirty arrays, and a snapshot is a copy of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mjx_bench.control.state import ControllerState
from mjx_bench.signals import SignalIndex

if TYPE_CHECKING:
    import mujoco

Shape = tuple[int, ...]

# What an engine changes: named as in `MjData`.
STATE = ("qpos", "qvel", "act", "time", "qacc_warmstart", "ctrl")

# Controller memory that its law writes; the rest of `ControllerState` is what a reset left and stays as it is.
CONTROLLER_MOVING = ("goal_pos", "goal_mat", "goal_joint", "gripper", "stale")


class Layout:
    """Where named arrays lie in a row of `size` numbers.

    Args:
      shapes: name to shape, in order.
    """

    def __init__(self, shapes: Mapping[str, Shape]) -> None:
        self.shapes = dict(shapes)
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes.values()], dtype=np.int64)
        self.size = int(ends[-1])
        self._at = {n: slice(int(e) - int(np.prod(s)), int(e)) for (n, s), e in zip(shapes.items(), ends, strict=True)}

    def split(self, rows: Any) -> dict[str, Any]:
        """The named arrays of `rows` [..., size], each [..., *shape]; views, where the rows are NumPy's."""
        lead = rows.shape[:-1]
        return {name: rows[..., at].reshape(lead + self.shapes[name]) for name, at in self._at.items()}

    def join(self, parts: Mapping[str, Any], numpy: Any) -> Any:
        """One lane's row [size] of its named arrays; `numpy` is NumPy or its namesake in JAX."""
        return numpy.concatenate([numpy.reshape(parts[name], -1) for name in self.shapes])


def moving_layout(model: mujoco.MjModel) -> Layout:
    """What physics and controller change: named as in `MjData` and `ControllerState`."""
    return Layout(
        {
            "qpos": (model.nq,),
            "qvel": (model.nv,),
            "act": (model.na,),
            "time": (),
            "qacc_warmstart": (model.nv,),
            "ctrl": (model.nu,),
            **{name: _controller_shape(name) for name in CONTROLLER_MOVING},
        }
    )


def given_layout(model: mujoco.MjModel, fields: tuple[str, ...]) -> Layout:
    """What only the host changes: forces, mocap poses, the controller's reset, and `fields` of the lane's model."""
    resets = [name for name in vars(ControllerState.zeros(1)) if name not in CONTROLLER_MOVING]
    return Layout(
        {
            "xfrc_applied": (model.nbody, 6),
            "mocap_pos": (model.nmocap, 3),
            "mocap_quat": (model.nmocap, 4),
            **{name: _controller_shape(name) for name in resets},
            **{name: getattr(model, name).shape for name in fields},
        }
    )


def judged_layout(index: SignalIndex) -> Layout:
    """The signals of the state that the last physics step started from, and the faults of all steps of a control step.

    `touch` is 0 or 1; `fault` is bits of `Stepper.faults`.
    """
    regions = len(index.regions)
    return Layout(
        {
            "eef_pos": (3,),
            "entity_pos": (len(index.entities), 3),
            "region_pos": (regions, 3),
            "region_mat": (regions, 3, 3),
            "touch": (len(index.touches),),
            "entity_vel": (len(index.movers), 6),
            "fault": (),
        }
    )


def _controller_shape(name: str) -> Shape:
    return getattr(ControllerState.zeros(1), name).shape[1:]
