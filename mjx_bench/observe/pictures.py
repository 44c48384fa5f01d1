"""Pictures as a policy gets them: rendered at a query, then spoilt as the source and the lane's events have it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mjx_bench.errors import BenchError, unknown_name
from mjx_bench.observe.base import MAX_SIDE, OnDevice, Renderer
from mjx_bench.observe.sensor import fault_of, spoil
from mjx_bench.physics.base import Pose
from mjx_bench.policy import PolicySpec
from mjx_bench.task import Scene, Task

Taken = Callable[[int, float], None]


class Pictures:
    """The cameras of one scene.

    Args:
      renderer: of this scene; closed with the pictures.
      scene: the scene.
      taken: told (pictures, seconds) after each call.
    """

    def __init__(self, renderer: Renderer, scene: Scene, taken: Taken = lambda n, seconds: None) -> None:
        self._renderer = renderer
        self._stream = scene.observed
        self._lens = scene.lens
        self._taken = taken

    def take(self, poses: Sequence[Pose]) -> dict[str, np.ndarray]:
        """Camera to uint8 [n, height, width, 3]: what each lane's cameras give now."""
        start = time.perf_counter()
        images = self._renderer.render(poses)
        if self._lens is not None:
            images = self._lens(images, [pose.steps for pose in poses])
        images = spoil(images, poses, self._stream)
        self._taken(len(poses) * len(images), time.perf_counter() - start)
        return images

    def take_on_device(self, poses: Sequence[Pose]) -> dict[str, Any]:
        """The same pictures, as JAX arrays where none of them has to be spoilt, which the host does."""
        start = time.perf_counter()
        if self._lens is None and isinstance(self._renderer, OnDevice) and not any(map(fault_of, poses)):
            images = self._renderer.render_on_device(poses)
            if images is not None:
                self._taken(len(poses) * len(images), time.perf_counter() - start)
                return dict(images)
        return self.take(poses)

    def close(self) -> None:
        self._renderer.close()


def pixel_change(before: Mapping[str, np.ndarray], after: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Camera to the mean absolute difference of two pictures, in grey levels (0 to 255)."""
    return {name: float(np.abs(after[name].astype(np.int16) - before[name]).mean()) for name in before}


def check_cameras(spec: PolicySpec, tasks: Sequence[Task]) -> None:
    """Refuses a policy that asks for what some task cannot show.

    Raises:
      BenchError: a camera that is not in a task's scene, or pictures of no size.
    """
    if not spec.cameras:
        return
    if not 1 <= spec.image_size <= MAX_SIDE:
        raise BenchError(
            f"policy {spec.name!r} asks for pictures of {spec.image_size} pixels a side;"
            f" its image_size must be 1 to {MAX_SIDE}"
        )
    for task in tasks:
        for camera in spec.cameras:
            if camera not in task.scene.cameras:
                raise unknown_name(
                    f"camera of policy {spec.name!r} in {task.suite} task {task.index}", camera, task.scene.cameras
                )
