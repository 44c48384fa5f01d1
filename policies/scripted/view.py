"""One lane of an observation, with everything in the scene where that lane has it."""

from __future__ import annotations

from typing import Literal

import numpy as np

from mjx_bench.policy import Observation
from policies.scripted.geometry import WORLD, Link, SceneShapes, quat_to_mat
from policies.scripted.motion import rotation


class View:
    """One lane of an observation with its scene's shapes; everything in float64, transforms made on demand.

    Attributes:
      step: policy steps executed.
      positions: [E, 3] root positions of all entities, world metres.
      eef: [3] end-effector position, world metres.
      hand_rot: [3, 3] orientation of the hand body.
      opening: gap between the fingers, metres.
      joint_pos: [7] arm joints.
    """

    def __init__(self, shapes: SceneShapes, obs: Observation, lane: int):
        self._shapes = shapes
        self._index = {name: i for i, name in enumerate(obs.task.scene.entities)}
        self.positions = np.array(obs.entity_pos[lane], float)
        self.positions.flags.writeable = False  # plans keep it
        self._quat = np.asarray(obs.entity_quat[lane], float)
        self._joints = {name: float(values[lane]) for name, values in obs.articulation.items()}
        self._clouds: dict[str, np.ndarray] = {}
        self._corners: dict[str, np.ndarray] = {}
        self.step = int(obs.step[lane])
        self.eef = np.array(obs.eef_pos[lane], float)
        self.hand_rot = quat_to_mat(np.asarray(obs.eef_quat[lane], float))
        self.opening = float(abs(obs.gripper_qpos[lane][0] - obs.gripper_qpos[lane][1]))
        self.joint_pos = np.array(obs.joint_pos[lane], float)

    def pos(self, entity: str) -> np.ndarray:
        """[3] root position of an entity."""
        return self.positions[self._index[entity]]

    def rot(self, entity: str) -> np.ndarray:
        """[3, 3] root orientation of an entity."""
        return quat_to_mat(self._quat[self._index[entity]])

    def _frame(self, entity: str, chain: tuple[Link, ...]) -> tuple[np.ndarray, np.ndarray]:
        pos, rot = (np.zeros(3), np.eye(3)) if entity == WORLD else (self.pos(entity), self.rot(entity))
        for link in chain:
            pos, rot = pos + rot @ link.pos, rot @ link.rot
            for name, hinge, axis, anchor in link.joints:
                q = self._joints.get(name, 0.0)
                if hinge:
                    turn = rotation(q * axis)
                    pos, rot = pos + rot @ (anchor - turn @ anchor), rot @ turn
                else:
                    pos = pos + rot @ (q * axis)
        return pos, rot

    def cloud(self, entity: str) -> np.ndarray:
        """[N, 3] surface points of an entity, world frame."""
        if entity not in self._clouds:
            self._clouds[entity] = self._placed(entity, "points")
        return self._clouds[entity]

    def _placed(self, entity: str, field: Literal["points", "corners"]) -> np.ndarray:
        placed = [np.zeros((0, 3))]
        for part in self._shapes.parts[entity]:
            local = getattr(part, field)
            if entity == WORLD and not part.chain:
                placed.append(local)
                continue
            pos, rot = self._frame(entity, part.chain)
            placed.append(local @ rot.T + pos)
        return np.vstack(placed)

    def _boxes(self, entity: str) -> np.ndarray:
        if entity not in self._corners:
            self._corners[entity] = self._placed(entity, "corners")
        return self._corners[entity]

    def corners(self, without: str) -> np.ndarray:
        """[N, 3] corners and centres of the bounding boxes of everything but one entity, world frame."""
        return np.vstack([self._boxes(name) for name in self._shapes.parts if name != without])

    def near(self, without: str, xy: np.ndarray, radius: float, above: float = -np.inf) -> np.ndarray:
        """[N, 3] surface points of everything but one entity, in a square column around `xy` [2] and above a height."""
        found = [np.zeros((0, 3))]
        for name in self._shapes.parts:
            boxes = self._boxes(name)
            if name == without or not len(boxes):
                continue
            if (boxes[:, :2].min(0) > xy + radius).any() or (boxes[:, :2].max(0) < xy - radius).any():
                continue
            points = self.cloud(name)
            found.append(points[(np.abs(points[:, :2] - xy).max(1) < radius) & (points[:, 2] > above)])
        return np.vstack(found)

    def region(self, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A region's centre [3], orientation [3, 3] (world) and half extents [3] (its own frame)."""
        site = self._shapes.sites[name]
        pos, rot = self._frame(site.entity, site.chain)
        return pos + rot @ site.pos, rot @ site.rot, site.half_size
