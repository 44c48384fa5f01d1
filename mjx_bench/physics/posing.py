"""Forward kinematics on the host, by MuJoCo itself: a function of a lane's coordinates, wherever they came from."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import mujoco
import numpy as np

from mjx_bench.physics.base import Kinematics
from mjx_bench.physics.scene import SceneModel


class Posing:
    """Poses of one scene's lanes, one after another.

    Args:
      scene: the compiled scene; its model is not changed.
    """

    def __init__(self, scene: SceneModel) -> None:
        self._scene = scene
        self._model = copy.copy(scene.model)
        self._data = mujoco.MjData(self._model)

    def kinematics(
        self, qpos: np.ndarray, qvel: np.ndarray, ctrl: np.ndarray, fields: Mapping[str, np.ndarray]
    ) -> Kinematics:
        """The lanes' poses.

        Args:
          qpos, qvel, ctrl: float64 [n, nq], [n, nv], [n, nu].
          fields: of the lanes' models, each [n, ...]; all calls must name the same.
        """
        scene, model, data = self._scene, self._model, self._data
        n, entities = len(qpos), len(scene.entity_body)
        eef, hand = np.zeros((n, 3)), np.zeros((n, 4))
        pos, quat = np.zeros((n, entities, 3)), np.zeros((n, entities, 4))
        for i in range(n):
            for name, rows in fields.items():
                getattr(model, name)[:] = rows[i]
            data.qpos = qpos[i]
            mujoco.mj_kinematics(model, data)
            eef[i], hand[i] = data.site_xpos[scene.arm.site], data.xquat[scene.hand_body]
            pos[i], quat[i] = data.xpos[scene.entity_body], data.xquat[scene.entity_body]
        return Kinematics(
            eef_pos=eef,
            eef_quat=hand,
            gripper_qpos=qpos[:, scene.gripper_qpos],
            joint_pos=qpos[:, scene.arm.qpos],
            entity_pos=pos,
            entity_quat=quat,
            articulation={name: qpos[:, a] for name, a in zip(scene.index.joints, scene.joint_qpos, strict=True)},
            qpos=qpos,
            qvel=qvel,
            ctrl=ctrl,
        )
