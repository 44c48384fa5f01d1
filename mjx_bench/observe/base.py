"""The one protocol of renderers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from mjx_bench.errors import BenchError, unknown_name
from mjx_bench.physics.base import Pose
from mjx_bench.task import Scene

if TYPE_CHECKING:
    import jax

MAX_SIDE = 4096  # pixels; four samples of colour and depth are 0.5 GB then


class Renderer(Protocol):
    """Pictures of one scene from fixed cameras; every call stands alone and shows the poses as given, never older ones.

    A pose's picture depends on nothing but the pose: not on the others of the call, nor on their number. Visual edits of
    lights, cameras and colours are applied pose by pose; what spoils a picture afterwards (`sensor.py`) is not.

    Attributes:
      cameras: names, in the scene's order.
      height, width: pixels.
    """

    cameras: tuple[str, ...]
    height: int
    width: int

    def render(self, poses: Sequence[Pose]) -> dict[str, np.ndarray]:
        """Camera to uint8 [n, height, width, 3], upright, RGB."""
        ...

    def segmentation(self, poses: Sequence[Pose]) -> dict[str, np.ndarray]:
        """Camera to int32 [n, height, width]: the id of the geom in each pixel, -1 where there is none."""
        ...

    def depth(self, poses: Sequence[Pose]) -> dict[str, np.ndarray]:
        """Camera to float32 [n, height, width]: metres along the optical axis; infinite where there is nothing."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class OnDevice(Protocol):
    """What a renderer may have besides: pictures that stay where they are drawn."""

    def render_on_device(self, poses: Sequence[Pose]) -> dict[str, jax.Array] | None:
        """`Renderer.render`, to the bit, as arrays on JAX's default device; None where pictures are drawn on another."""
        ...


def check_view(scene: Scene, cameras: Sequence[str], height: int, width: int) -> tuple[str, ...]:
    """The cameras in the scene's order, for pictures that a renderer can make.

    Raises:
      BenchError: a camera that the scene does not have, or a size out of range.
    """
    for name in cameras:
        if name not in scene.cameras:
            raise unknown_name("camera", name, scene.cameras)
    for side, pixels in (("height", height), ("width", width)):
        if not 1 <= pixels <= MAX_SIDE:
            raise BenchError(f"pictures of {side} {pixels}; give 1 to {MAX_SIDE} pixels")
    return tuple(name for name in scene.cameras if name in cameras)
