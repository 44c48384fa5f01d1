"""One lane of an observation, with everything in the scene where that lane has it."""

from __future__ import annotations

import copy
from typing import Literal

import numpy as np

from mjx_bench.policy import Observation
from policies.scripted.geometry import WORLD, Link, Mechanism, SceneShapes, moved_by, quat_to_mat
from policies.scripted.motion import rotation


class View:
    """One lane of an observation with its scene's shapes; everything in float64, transforms made on demand.

    Attributes:
      shapes: of the scene.
      step: policy steps executed.
      positions: [E, 3] root positions of all entities, world metres.
      eef: [3] end-effector position, world metres.
      hand_rot: [3, 3] orientation of the hand body.
      opening: gap between the fingers, metres.
      joint_pos: [7] arm joints.
      joints: position of every articulation joint by name.
    """

    def __init__(self, shapes: SceneShapes, obs: Observation, lane: int):
        self.shapes = shapes
        self._index = {name: i for i, name in enumerate(obs.task.scene.entities)}
        self.positions = np.array(obs.entity_pos[lane], float)
        self.positions.flags.writeable = False  # plans keep it
        self._rots = {name: quat_to_mat(np.asarray(obs.entity_quat[lane][i], float)) for name, i in self._index.items()}
        self.joints = {name: float(values[lane]) for name, values in obs.articulation.items()}
        self._clouds: dict[str, np.ndarray] = {}
        self._corners: dict[str, np.ndarray] = {}
        self.step = int(obs.step[lane])
        self.eef = np.array(obs.eef_pos[lane], float)
        self.hand_rot = quat_to_mat(np.asarray(obs.eef_quat[lane], float))
        self.opening = float(abs(obs.gripper_qpos[lane][0] - obs.gripper_qpos[lane][1]))
        self.joint_pos = np.array(obs.joint_pos[lane], float)

    def _imagined(self, changed: str) -> View:
        """A copy of this view in which one entity may be changed."""
        other = copy.copy(self)
        other._rots, other.joints = dict(self._rots), dict(self.joints)
        other._clouds = {name: cloud for name, cloud in self._clouds.items() if name != changed}
        other._corners = {name: boxes for name, boxes in self._corners.items() if name != changed}
        return other

    def with_pose(self, entity: str, pos: np.ndarray, rot: np.ndarray) -> View:
        """The same view with an entity's root elsewhere: at `pos` [3], turned as `rot` [3, 3]."""
        other = self._imagined(entity)
        other.positions = self.positions.copy()
        other.positions[self._index[entity]] = pos
        other.positions.flags.writeable = False
        other._rots[entity] = rot
        return other

    def with_joint(self, joint: str, value: float) -> View:
        """The same view with an articulation joint elsewhere."""
        other = self._imagined(self.shapes.mechanisms[joint].entity)
        other.joints[joint] = value
        return other

    def with_hand(self, eef: np.ndarray, rot: np.ndarray, joint_pos: np.ndarray) -> View:
        """The same view with the arm elsewhere."""
        other = copy.copy(self)
        other.eef, other.hand_rot, other.joint_pos = eef, rot, joint_pos
        return other

    def pos(self, entity: str) -> np.ndarray:
        """[3] root position of an entity."""
        return self.positions[self._index[entity]]

    def rot(self, entity: str) -> np.ndarray:
        """[3, 3] root orientation of an entity."""
        return self._rots[entity]

    def _frame(self, entity: str, chain: tuple[Link, ...]) -> tuple[np.ndarray, np.ndarray]:
        pos, rot = (np.zeros(3), np.eye(3)) if entity == WORLD else (self.pos(entity), self.rot(entity))
        for link in chain:
            pos, rot = pos + rot @ link.pos, rot @ link.rot
            for joint in link.joints:
                q = self.joints.get(joint.name, 0.0)
                if joint.hinge:
                    turn = rotation(q * joint.axis)
                    pos, rot = pos + rot @ (joint.anchor - turn @ joint.anchor), rot @ turn
                else:
                    pos = pos + rot @ (q * joint.axis)
        return pos, rot

    def moving(self, mechanism: Mechanism) -> tuple[np.ndarray, np.ndarray]:
        """Position [3] and orientation [3, 3] of the body that a joint moves, world."""
        return self._frame(mechanism.entity, mechanism.chain)

    def cloud(self, entity: str) -> np.ndarray:
        """[N, 3] surface points of an entity, world frame."""
        if entity not in self._clouds:
            self._clouds[entity] = self._placed(entity, "points")
        return self._clouds[entity]

    def _placed(self, entity: str, field: Literal["points", "corners"], without: str = "") -> np.ndarray:
        placed = [np.zeros((0, 3))]
        for part in self.shapes.parts[entity]:
            if without and moved_by(part, without):
                continue
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
        return np.vstack([self._boxes(name) for name in self.shapes.parts if name != without])

    def near(self, without: str, xy: np.ndarray, radius: float, above: float = -np.inf) -> np.ndarray:
        """[N, 3] surface points of everything but one entity, in a square column around `xy` [2] and above a height."""
        found = [np.zeros((0, 3))]
        for name in self._close(xy, radius):
            if name != without:
                points = self.cloud(name)
                found.append(points[(np.abs(points[:, :2] - xy).max(1) < radius) & (points[:, 2] > above)])
        return np.vstack(found)

    def around(self, mechanism: Mechanism, at: np.ndarray, radius: float) -> np.ndarray:
        """[N, 3] surface points of all that a joint does not move, in a cube about `at` [3]; what lies in its part rides."""
        pos, rot = self.moving(mechanism)
        moved = mechanism.points @ rot.T + pos
        low, high = moved.min(0), moved.max(0)
        found = [np.zeros((0, 3))]
        for name in self._close(at[:2], radius):
            if name == mechanism.entity:
                points = self._placed(name, "points", mechanism.joint.name)
            elif name != WORLD and ((low < self.pos(name)) & (self.pos(name) < high)).all():
                continue
            else:
                points = self.cloud(name)
            found.append(points[np.abs(points - at).max(1) < radius])
        return np.vstack(found)

    def _close(self, xy: np.ndarray, radius: float) -> list[str]:
        """Names of what reaches into a square column."""
        found = []
        for name in self.shapes.parts:
            boxes = self._boxes(name)
            if len(boxes) and not (
                (boxes[:, :2].min(0) > xy + radius).any() or (boxes[:, :2].max(0) < xy - radius).any()
            ):
                found.append(name)
        return found

    def region(self, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A region's centre [3], orientation [3, 3] (world) and half extents [3] (its own frame)."""
        site = self.shapes.sites[name]
        pos, rot = self._frame(site.entity, site.chain)
        return pos + rot @ site.pos, rot @ site.rot, site.half_size
