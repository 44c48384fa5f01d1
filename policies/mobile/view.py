"""One lane of an observation of a robot whose arm stands on a base that drives."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np

from mjx_bench.policy import Observation
from mjx_bench.task import Task
from policies.scripted.arm import Arm
from policies.scripted.geometry import quat_to_mat

if TYPE_CHECKING:
    import mujoco


class Library:
    """What is made once for a scene and shared by all lanes: the bare arm, and where the robot's numbers lie."""

    def __init__(self) -> None:
        self._arms: dict[str, Arm] = {}
        self._models: dict[str, mujoco.MjModel] = {}
        self._lock = threading.Lock()  # lanes of different scenes may be queried from different threads

    def arm(self, task: Task) -> Arm:
        """The bare robot of the task's scene, its base's frame at the origin."""
        with self._lock:
            if task.scene.key not in self._arms:
                self._arms[task.scene.key] = Arm(task)
            return self._arms[task.scene.key]

    def model(self, task: Task) -> mujoco.MjModel:
        """The scene's model; what an instance has of its own is not in it."""
        with self._lock:
            if task.scene.key not in self._models:
                self._models[task.scene.key] = task.scene.load_spec().compile()
            return self._models[task.scene.key]

    def dofs(self, task: Task) -> list[int]:
        """[7] addresses of the arm's joints in qvel."""
        model = self.model(task)
        return [int(model.joint(name).dofadr[0]) for name in task.scene.robot.arm_joints]


class MobileView:
    """One lane of an observation; float64, world axes.

    Attributes:
      task: of the lane.
      step: ticks executed.
      base: [3] x, y (metres) and yaw (radians) of the base's frame.
      base_rot: [3, 3] its orientation.
      eef: [3] grip site; hand_rot: [3, 3] of the hand.
      opening: gap between the fingers, metres.
      joint_pos: [7] of the arm.
      joint_vel: [7] of the arm.
      joints: position of every articulation joint by name, the base's among them.
    """

    def __init__(self, library: Library, obs: Observation, lane: int) -> None:
        self.task, self.step = obs.task, int(obs.step[lane])
        self._library = library
        self._index = {name: i for i, name in enumerate(obs.task.scene.entities)}
        self._positions = np.array(obs.entity_pos[lane], float)
        self._quats = np.array(obs.entity_quat[lane], float)
        self.joints = {name: float(values[lane]) for name, values in obs.articulation.items()}
        self.base = np.array([self.joints[name] for name in obs.task.scene.robot.base_joints])
        c, s = np.cos(self.base[2]), np.sin(self.base[2])
        self.base_rot = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
        self.eef = np.array(obs.eef_pos[lane], float)
        self.hand_rot = quat_to_mat(np.asarray(obs.eef_quat[lane], float))
        self.opening = float(abs(obs.gripper_qpos[lane][0] - obs.gripper_qpos[lane][1]))
        self.joint_pos = np.array(obs.joint_pos[lane], float)
        self.joint_vel = np.array(obs.qvel[lane], float)[library.dofs(obs.task)]

    def pos(self, entity: str) -> np.ndarray:
        """[3] root position of an entity."""
        return self._positions[self._index[entity]]

    def rot(self, entity: str) -> np.ndarray:
        """[3, 3] root orientation of an entity."""
        return quat_to_mat(self._quats[self._index[entity]])

    def yaw(self, entity: str) -> float:
        """Turn of an entity's x axis about the vertical, radians."""
        x = self.rot(entity)[:, 0]
        return float(np.arctan2(x[1], x[0]))

    def in_base(self, pos: np.ndarray) -> np.ndarray:
        """A point [3] of the world in the base's frame, which lies on the floor."""
        return self.base_rot.T @ (pos - np.array([self.base[0], self.base[1], 0.0]))
