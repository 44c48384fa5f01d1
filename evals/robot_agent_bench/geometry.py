"""Where hands and cameras of the robot are in a posture, and postures that bring a hand to a pose; the base's frame.

Nothing here moves, and nothing but the robot is in it: what an agent may compute from measured joints alone.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from evals.servo import rounded, times
from mjx_bench.control.bimanual import HOME
from mjx_bench.policy import Observation
from mjx_bench.task import Task
from policies.reference.limbs import SIDES, Library

# [3] position, metres, and [4] orientation, wxyz.
Pose = tuple[np.ndarray, np.ndarray]


class Geometry:
    """Of one task's robot.

    Args:
      task: whose robot.
      cameras: those that an agent sees by; size: pixels a side of their pictures.
    """

    def __init__(self, task: Task, cameras: tuple[str, ...], size: int) -> None:
        self._task, self._cameras, self._size, self._library = task, cameras, size, Library()

    def hands(self, joints: np.ndarray) -> dict[str, Pose]:
        """Side to the pose of its grasp point, of joints [18]: arms, lift, waist, head."""
        with self._library.lock:
            limbs = self._placed(joints)
            sites = {side: limbs.site[side] for side in SIDES}
            return {s: (limbs.data.site_xpos[i].copy(), _quat(limbs.data.site_xmat[i])) for s, i in sites.items()}

    def told(self, joints: np.ndarray) -> dict[str, Any]:
        """`hands` as plain numbers."""
        return {f"{side}_hand": _plain(pose) for side, pose in self.hands(joints).items()}

    def cameras(self, joints: np.ndarray) -> dict[str, Pose]:
        """Camera to its pose: x to the right of its picture, y up, looking along -z."""
        import mujoco

        with self._library.lock:
            limbs = self._placed(joints)
            mujoco.mj_camlight(limbs.model, limbs.data)
            ids = {name: limbs.model.camera(name).id for name in self._cameras}
            return {n: (limbs.data.cam_xpos[i].copy(), _quat(limbs.data.cam_xmat[i])) for n, i in ids.items()}

    def cameras_told(self, joints: np.ndarray) -> dict[str, Any]:
        """`cameras` as plain numbers, with the focal length in pixels; the middle of a picture is its optical axis."""
        return {n: _plain(p) | {"focal_px": round(self.focal(n), 2)} for n, p in self.cameras(joints).items()}

    def focal(self, camera: str) -> float:
        """Focal length, pixels, alike across and down."""
        with self._library.lock:
            model = self._library.limbs(self._task).model
            return self._size / 2.0 / math.tan(math.radians(float(model.camera(camera).fovy[0])) / 2.0)

    def ray(self, camera: str, u: float, v: float, joints: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """[3] origin and [3] unit direction of what pixel (u right, v down, from the upper left corner) shows."""
        origin, quat = self.cameras(joints)[camera]
        focal, middle = self.focal(camera), self._size / 2.0
        way = rotated(quat, np.array([(u - middle) / focal, (middle - v) / focal, -1.0]))
        return origin, way / np.linalg.norm(way)

    def reach(
        self, side: str, start: np.ndarray, point: np.ndarray, quat: np.ndarray, torso: bool
    ) -> tuple[np.ndarray, float]:
        """A posture [18] that brings a hand to a pose, from a posture [18], and metres by which it misses."""
        ahead = (1.0 if side == "left" else -1.0) * rotated(quat, np.array([0.0, 1.0, 0.0]))
        across = rotated(quat, np.array([1.0, 0.0, 0.0]))
        with self._library.lock:
            limbs = self._library.limbs(self._task)
            found: tuple[np.ndarray, float] = limbs.reach(
                side, start, np.zeros(3), point, ahead, across, HOME[:18], torso
            )
            return found

    def _placed(self, joints: np.ndarray) -> Any:
        limbs = self._library.limbs(self._task)
        limbs.place(np.asarray(joints), np.zeros(3))
        return limbs


def in_base(pose: tuple[np.ndarray, np.ndarray | None], obs: Observation) -> tuple[np.ndarray, np.ndarray | None]:
    """A world pose in the frame of the base, where it is measured; no orientation stays none."""
    x, y, yaw = obs.joint_pos[0][-3:]
    back = np.array([math.cos(yaw / 2.0), 0.0, 0.0, -math.sin(yaw / 2.0)])
    position = rotated(back, pose[0] - np.array([x, y, 0.0]))
    return position, None if pose[1] is None else times(back, pose[1])


def rotated(quat: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """[3] a vector turned by `quat` [4] wxyz."""
    conjugate = quat * np.array([1.0, -1.0, -1.0, -1.0])
    return times(times(quat, np.concatenate([[0.0], vector])), conjugate)[1:]


def _quat(mat: np.ndarray) -> np.ndarray:
    import mujoco

    quat = np.empty(4)
    mujoco.mju_mat2Quat(quat, mat)
    return quat


def _plain(pose: Pose) -> dict[str, Any]:
    return {"position": rounded(pose[0], 4), "quat_wxyz": rounded(pose[1], 4)}
