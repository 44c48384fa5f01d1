"""What an environment shows: the space of it, and the rows of all its lanes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from mjx_bench.physics.base import Kinematics
from mjx_bench.policy import Observation

# Fields of `policy.Observation`; those that are empty in a task are left out.
STATE = ("eef_pos", "eef_quat", "gripper_qpos", "joint_pos", "entity_pos", "entity_quat", "qvel")
# One more: the articulation joints' positions in the order of the scene's entities.
ARTICULATION = "articulation"
# What is beyond it voids a lane (`physics`), so nothing finite is ever out of a space.
LIMIT = 1e10


class EnvObservation:
    """The last observation of each of `lanes` lanes.

    Args:
      example: of one lane, for its shapes.
      cameras: names.
      size: pixels a side of their pictures.
      lanes: how many.

    Attributes:
      space: of one lane.
    """

    def __init__(self, example: Kinematics, cameras: Sequence[str], size: int, lanes: int) -> None:
        shapes = {name: getattr(example, name).shape[1:] for name in STATE}
        shapes[ARTICULATION] = (len(example.articulation),)
        parts: dict[str, spaces.Box] = {
            name: spaces.Box(-LIMIT, LIMIT, shape, np.float32) for name, shape in shapes.items() if 0 not in shape
        }
        parts |= {name: spaces.Box(0, 255, (size, size, 3), np.uint8) for name in cameras}
        self.space = spaces.Dict({**parts})
        self._rows: dict[str, np.ndarray] = {
            name: np.zeros((lanes, *part.shape), part.dtype) for name, part in parts.items()
        }

    def take(self, ids: np.ndarray, obs: Observation) -> None:
        """Keeps what was observed of the lanes `ids`; the others keep what was observed last."""
        for name, rows in self._rows.items():
            if name in obs.images:
                rows[ids] = obs.images[name]
            elif name == ARTICULATION:
                rows[ids] = np.stack(list(obs.articulation.values()), axis=1)
            else:
                rows[ids] = getattr(obs, name)

    def all(self) -> dict[str, np.ndarray]:
        """A copy of everything, [lanes, ...]."""
        return {name: rows.copy() for name, rows in self._rows.items()}

    def each(self, ids: np.ndarray, lanes: int) -> np.ndarray:
        """An array of objects [lanes]: a dict of the lanes `ids`, None for the others."""
        out: np.ndarray[Any, Any] = np.full(lanes, None, object)
        for i in ids:
            out[i] = {name: rows[i].copy() for name, rows in self._rows.items()}
        return out
