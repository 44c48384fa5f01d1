"""Other viewpoints of the camera that policies look through: LIBERO-Plus's rule, and LIBERO-PRO's one place."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

import numpy as np

from evals.libero.sources.edits import Fields, with_fields
from mjx_bench.task import Task

if TYPE_CHECKING:
    import mujoco

CAMERA = "agentview"
# LIBERO-Plus turns and draws away the camera about this point, whatever the table's height.
PIVOT = np.array([0.0, 0.0, 0.8])

# LIBERO-PRO's camera_view_angle: the same place in every workspace.
PRO_POS = (0.48, 0.24, 1.62)
PRO_QUAT = (0.6099232, 0.3594558, 0.3594558, 0.6099232)

_NAME = re.compile(r"view_(\d+)_(\d+)_(\d+)_(\d+)_(\d+)_initstate_0")


@dataclasses.dataclass(frozen=True)
class View:
    """A viewpoint, as LIBERO-Plus names it.

    Attributes:
      around: degrees that the camera goes around the world's vertical axis.
      up: degrees that it is raised about the axis through the pivot along y.
      distance: from the pivot, per cent.
      pan, tilt: degrees that it turns on the spot, about the world's z and about its y axis the other way round.
    """

    around: int = 0
    up: int = 0
    distance: int = 100
    pan: int = 0
    tilt: int = 0

    @classmethod
    def parse(cls, name: str) -> View | None:
        """The view of a name such as `view_20_0_100_0_0_initstate_0`; None for another name."""
        match = _NAME.fullmatch(name)
        return None if match is None else cls(*map(int, match.groups()))

    @property
    def name(self) -> str:
        return f"view_{self.around}_{self.up}_{self.distance}_{self.pan}_{self.tilt}_initstate_0"

    def of(self, pos: np.ndarray, quat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where the camera is then: [3] metres and [4] wxyz, of its own place `pos` and `quat`."""
        if self.up:
            by = _about([0.0, 1.0, 0.0], -self.up)
            pos, quat = _rounded(PIVOT + _rotated(by, pos - PIVOT), _times(by, quat))
        if self.around:
            by = _about([0.0, 0.0, 1.0], self.around)
            pos, quat = _rounded(_rotated(by, pos), _times(by, quat))
        if self.distance != 100:
            pos, quat = _rounded(PIVOT + (pos - PIVOT) * self.distance / 100.0, quat)
        if self.pan:
            pos, quat = _rounded(pos, _times(_about([0.0, 0.0, 1.0], self.pan), quat))
        if self.tilt:
            pos, quat = _rounded(pos, _times(_about([0.0, 1.0, 0.0], -self.tilt), quat))
        return pos, quat


def seen_from(task: Task, view: View) -> Task:
    """The task with its camera at another viewpoint."""

    def fields(model: mujoco.MjModel) -> Fields:
        camera = model.camera(CAMERA).id
        return _placed(model, *view.of(model.cam_pos[camera].copy(), model.cam_quat[camera].copy()))

    return with_fields(task, fields)


def seen_from_pro(task: Task) -> Task:
    """The task with its camera where LIBERO-PRO's camera_view_angle puts it."""
    return with_fields(task, lambda model: _placed(model, np.array(PRO_POS), np.array(PRO_QUAT)))


def _placed(model: mujoco.MjModel, pos: np.ndarray, quat: np.ndarray) -> Fields:
    camera = model.camera(CAMERA).id
    cam_pos, cam_quat = model.cam_pos.copy(), model.cam_quat.copy()
    cam_pos[camera], cam_quat[camera] = pos, quat / np.linalg.norm(quat)
    return {"cam_pos": cam_pos, "cam_quat": cam_quat}


def _rounded(pos: np.ndarray, quat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """As LIBERO-Plus writes them into its scenes after each stage."""
    return np.round(pos, 4), np.round(quat, 4)


def _about(axis: list[float], degrees: float) -> np.ndarray:
    half = np.deg2rad(degrees) / 2.0
    return np.array([np.cos(half), *(np.sin(half) * np.array(axis))])


def _times(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    w, v, x, u = a[0], a[1:], b[0], b[1:]
    return np.array([w * x - v @ u, *(w * u + x * v + np.cross(v, u))])


def _rotated(quat: np.ndarray, vector: np.ndarray) -> np.ndarray:
    w, v = quat[0], quat[1:]
    return vector + 2.0 * np.cross(v, np.cross(v, vector) + w * vector)
