"""What is computed once for a scene and shared by all lanes: shapes, the bare arm, grasp tables."""

from __future__ import annotations

import threading

from mjx_bench.task import Task
from policies.scripted.arm import Arm
from policies.scripted.contacts import Contact, find_contacts, travel_of
from policies.scripted.geometry import Mechanism, SceneShapes, load_shapes
from policies.scripted.grasp import Grasp, canonical, find_grasps
from policies.scripted.view import View


class Library:
    """A cache. Every entry depends on its key alone, so neither the order of lanes nor threads can change a result."""

    def __init__(self) -> None:
        self._shapes: dict[str, SceneShapes] = {}
        self._arms: dict[str, Arm] = {}
        self._grasps: dict[tuple[str, str, tuple[int, int, int]], tuple[Grasp, ...]] = {}
        self._contacts: dict[tuple[str, str, float, tuple[int, int, int]], tuple[Contact, ...]] = {}
        self._lock = threading.Lock()  # lanes of different scenes may be queried from different threads

    def shapes(self, task: Task) -> SceneShapes:
        """The shapes of the task's scene."""
        key = task.scene.key
        with self._lock:
            if key not in self._shapes:
                self._shapes[key] = load_shapes(task.scene)
            return self._shapes[key]

    def arm(self, task: Task) -> Arm:
        """The bare robot of the task's scene."""
        key = task.scene.key
        with self._lock:
            if key not in self._arms:
                self._arms[key] = Arm(task)
            return self._arms[key]

    def grasps(self, task: Task, view: View, entity: str) -> tuple[tuple[Grasp, ...], float]:
        """Grasps of an object as it lies now, and its heading about world z (radians)."""
        lying, heading, lie_key = canonical(view.rot(entity))
        key = (task.scene.key, entity, lie_key)
        shapes = self.shapes(task)
        with self._lock:
            if key not in self._grasps:
                self._grasps[key] = tuple(find_grasps(shapes.points(entity) @ lying.T))
            return self._grasps[key], heading

    def contacts(self, task: Task, view: View, mechanism: Mechanism, forward: float) -> tuple[Contact, ...]:
        """Ways to move a joint `forward` (+1 or -1), for its part as it is now, by rising cost."""
        lying, _, lie_key = canonical(view.moving(mechanism)[1])
        key = (task.scene.key, mechanism.joint.name, forward, lie_key)
        with self._lock:
            if key not in self._contacts:
                travel = travel_of(mechanism.joint, lying, forward)
                self._contacts[key] = find_contacts(mechanism.points @ lying.T, travel)
            return self._contacts[key]
