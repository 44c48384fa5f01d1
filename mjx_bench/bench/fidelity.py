"""How close the Warp renderer's pictures come to OpenGL's, task by task."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence

import numpy as np

from mjx_bench.bench.pictures import task_poses
from mjx_bench.errors import MissingExtra
from mjx_bench.observe.gl_renderer import GlRenderer
from mjx_bench.observe.lane_model import LaneModel
from mjx_bench.observe.warp_renderer import WarpRenderer
from mjx_bench.physics.base import Pose
from mjx_bench.task import Scene, Task


@dataclasses.dataclass(frozen=True)
class Likeness:
    """Of two sets of pictures from one camera.

    Attributes:
      difference: mean absolute difference, of 255.
      similarity: structural similarity, at most 1.
    """

    difference: float
    similarity: float

    @classmethod
    def of(cls, ours: np.ndarray, reference: np.ndarray) -> Likeness:
        """Mean over pictures uint8 [n, H, W, 3].

        Raises:
          MissingExtra: scikit-image is not installed.
        """
        try:
            from skimage.metrics import structural_similarity
        except ImportError:
            raise MissingExtra("structural similarity needs scikit-image; install the extra: mjx-bench[dev]") from None
        similar = [structural_similarity(a, b, channel_axis=-1) for a, b in zip(ours, reference, strict=True)]
        return cls(float(np.abs(ours.astype(np.int16) - reference).mean()), float(np.mean(similar)))


def compare(task: Task, size: int, states: int, seed: int, *, plain: bool = False) -> dict[str, dict[str, Likeness]]:
    """Compares pictures of a task's first initial states.

    Args:
      task: the task.
      size: pixels of a side.
      states: how many initial states.
      seed: policy seed, which fixes fixtures.
      plain: also compare what MJX's ray tracer draws by itself.

    Returns:
      `warp` (and `plain`) to camera to likeness to OpenGL's pictures.
    """
    scene, poses = task.scene, task_poses(task, states, seed)
    cameras = scene.observed
    with contextlib.closing(GlRenderer(scene, cameras, size, size)) as gl:
        reference = gl.render(poses)
    with contextlib.closing(WarpRenderer(scene, cameras, size, size, states)) as warp:
        drawn = {"warp": warp.render(poses)}
    if plain:
        drawn["plain"] = plain_pictures(scene, poses, size)
    return {
        way: {name: Likeness.of(pictures[name], reference[name]) for name in cameras} for way, pictures in drawn.items()
    }


def plain_pictures(scene: Scene, poses: Sequence[Pose], size: int) -> dict[str, np.ndarray]:
    """What MJX's ray tracer draws by itself, with all that it has by default and the sky: camera to uint8 [n, H, W, 3]."""
    import mujoco.mjx.third_party.mujoco_warp as mjw

    lane = LaneModel(scene)
    model, cameras = mjw.put_model(lane.model), list(scene.observed)
    data = mjw.make_data(lane.model, nworld=1, nconmax=1, njmax=1)
    context = mjw.create_render_context(
        lane.model,
        cam_res=(size, size),
        cam_active=cameras,
        enabled_geom_groups=np.flatnonzero(lane.groups).tolist(),
        render_rgb=True,
        render_depth=False,
        render_skybox=True,
    )
    pictures = np.empty((len(poses), len(cameras), size, size, 3), np.uint8)
    for picture, pose in zip(pictures, poses, strict=True):
        lane.show(pose)
        for name in ("geom_xpos", "geom_xmat", "cam_xpos", "cam_xmat", "light_xpos", "light_xdir"):
            there = getattr(data, name)
            there.assign(getattr(lane.data, name).astype(np.float32).reshape(there.numpy().shape))
        mjw.refit_bvh(model, data, context)
        mjw.render(model, data, context)
        packed = context.rgb_data.numpy().reshape(picture.shape[:3])
        picture[:] = np.stack([packed >> 16, packed >> 8, packed], -1) & 255
    return {name: pictures[:, c] for c, name in enumerate(cameras)}


def table(rows: Sequence[tuple[str, dict[str, Likeness]]]) -> list[str]:
    """A Markdown table: task, and difference and similarity for each camera, with the mean of all in the last row."""
    cameras = list(rows[0][1])
    titles = [f"{name}, {what}" for name in cameras for what in ("difference", "similarity")]
    lines = [f"| task | {' | '.join(titles)} |", "| --- |" + " --- |" * len(titles)]
    mean = {
        name: Likeness(
            float(np.mean([row[name].difference for _, row in rows])),
            float(np.mean([row[name].similarity for _, row in rows])),
        )
        for name in cameras
    }
    for label, row in [*rows, ("mean", mean)]:
        cells = [f"{value:.{digits}f}" for name in cameras for value, digits in _cells(row[name])]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return lines


def _cells(likeness: Likeness) -> tuple[tuple[float, int], ...]:
    return (likeness.difference, 2), (likeness.similarity, 3)
