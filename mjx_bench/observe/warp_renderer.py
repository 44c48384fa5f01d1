"""Pictures by MJX's ray tracer, for batches of lanes, on a CPU's threads or an NVIDIA GPU, coloured as OpenGL would.

The ray tracer (`mjx.render`) says which geom each pixel shows and how far away it is; `warp_picture` makes the picture of
it. MJX's kernels are called without the layer that makes functions of JAX of them: such a function is compiled anew for
every scene and size (seconds), hashes the scene's meshes at every call (0.2 s), and passes what it draws in variables of the
module, so that two threads would show each other's lanes.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import ctypes
import functools
import importlib.metadata
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mjx_bench.errors import BenchError, MissingExtra, unknown_name
from mjx_bench.physics.base import Pose
from mjx_bench.task import Scene

if TYPE_CHECKING:
    from mjx_bench.observe.warp_scene import Lane, WarpScene

MAX_SIDE = 4096  # pixels

# Lanes that a GPU takes at a time. A CPU takes one a thread: it gains nothing from more, and a tile's empty places cost it.
_GPU_LANES = 64

# Texels a side that are kept of a texture, for each pixel of the picture's larger side.
_TEXELS = 4

# Kernels are built once in the process, and contexts one after another.
_MAKING = threading.Lock()


def platform() -> str:
    """What the pictures are rendered by; for the record, as bits depend on it.

    Raises:
      MissingExtra: Warp is not installed.
    """
    device = _warp().get_device()
    return f"warp {importlib.metadata.version('warp-lang')} on {device.name or device}"


@functools.cache
def _warp() -> Any:
    """Warp, started without what it prints about itself and about the driver that a machine without a GPU lacks."""
    try:
        import warp
    except ImportError:
        raise MissingExtra("the warp renderer needs Warp; install the extra: mjx-bench[warp]") from None
    warp.config.log_level = warp.LOG_ERROR
    with contextlib.nullcontext() if _has_driver() else _stderr_closed():
        warp.init()
    warp.config.log_level = warp.LOG_WARNING
    return warp


def _has_driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


@contextlib.contextmanager
def _stderr_closed() -> Iterator[None]:
    """Sends what libraries write to the process's standard error to nowhere."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


class WarpRenderer:
    """Renders lanes side by side; implements `observe.base.Renderer`.

    Args:
      scene: the scene.
      cameras: names, all of the scene.
      height, width: pixels, 1 to `MAX_SIDE`.
      lanes: how many poses a call usually has.
      tile: poses that the device takes at a time, if not the renderer's own choice; pictures do not depend on it.

    Raises:
      MissingExtra: Warp is not installed.
      BenchError: a camera that the scene does not have, a size out of range, or a scene that this renderer cannot draw.
    """

    def __init__(
        self, scene: Scene, cameras: Sequence[str], height: int, width: int, lanes: int = 1, tile: int | None = None
    ) -> None:
        for name in cameras:
            if name not in scene.cameras:
                raise unknown_name("camera", name, scene.cameras)
        for side, pixels in (("height", height), ("width", width)):
            if not 1 <= pixels <= MAX_SIDE:
                raise BenchError(f"pictures of {side} {pixels}; give 1 to {MAX_SIDE} pixels")
        self.cameras = tuple(name for name in scene.cameras if name in cameras)
        self.height, self.width = height, width
        on_gpu = _warp().get_device().is_cuda
        self._tile = tile or (min(lanes, _GPU_LANES) if on_gpu else 1)
        from mjx_bench.observe.warp_scene import shared

        self._stack = contextlib.ExitStack()
        with self._stack:
            self._scene: WarpScene | None = self._stack.enter_context(
                shared(scene, 1 << (_TEXELS * max(height, width) - 1).bit_length())
            )
            workers = 1 if on_gpu else min(processors(), -(-lanes // self._tile))
            self._free: queue.SimpleQueue[_Tile] = queue.SimpleQueue()
            for _ in range(workers):
                self._free.put(_Tile(self._scene, self.cameras, height, width, self._tile))
            self._stack = self._stack.pop_all()

    def render(self, poses: Sequence[Pose]) -> dict[str, np.ndarray]:
        shape = len(poses), len(self.cameras), self.height, self.width
        pictures = np.empty((*shape, 3), np.uint8)

        def draw(tile: _Tile, lanes: list[Lane], rows: slice) -> None:
            tile.load(lanes)
            tile.trace()
            pictures[rows] = tile.draw().reshape(-1, *shape[1:], 3)[: len(lanes)]

        self._each_tile(poses, draw)
        return {name: pictures[:, c] for c, name in enumerate(self.cameras)}

    def segmentation(self, poses: Sequence[Pose]) -> dict[str, np.ndarray]:
        return {name: seen for name, (seen, _) in self._traced(poses).items()}

    def depth(self, poses: Sequence[Pose]) -> dict[str, np.ndarray]:
        return {name: np.where(seen < 0, np.float32(np.inf), z) for name, (seen, z) in self._traced(poses).items()}

    def _traced(self, poses: Sequence[Pose]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Camera to geoms and depths, both [n, H, W], without sites."""
        shape = len(poses), len(self.cameras), self.height, self.width
        seen, depth = np.empty(shape, np.int32), np.empty(shape, np.float32)

        def trace(tile: _Tile, lanes: list[Lane], rows: slice) -> None:
            tile.load(lanes)
            geoms, depths = tile.trace()
            seen[rows] = geoms.reshape(-1, *shape[1:])[: len(lanes)]
            depth[rows] = depths.reshape(-1, *shape[1:])[: len(lanes)]

        self._each_tile(poses, trace, sites=False)
        return {name: (seen[:, c], depth[:, c]) for c, name in enumerate(self.cameras)}

    def _each_tile(
        self, poses: Sequence[Pose], work: Callable[[_Tile, list[Lane], slice], None], *, sites: bool = True
    ) -> None:
        """Gives each tileful of lanes to the next free tile; several tiles work in threads."""
        if self._scene is None:
            raise BenchError("this renderer is closed; make another one")
        scene = self._scene

        def one(start: int) -> None:
            rows = slice(start, start + self._tile)
            lanes = [scene.lane(pose, sites=sites) for pose in poses[rows]]
            tile = self._free.get()
            try:
                work(tile, lanes, rows)
            finally:
                self._free.put(tile)

        starts = range(0, len(poses), self._tile)
        if len(starts) == 1 or self._free.qsize() == 1:
            for start in starts:
                one(start)
        else:
            for done in [_threads().submit(one, start) for start in starts]:
                done.result()

    def close(self) -> None:
        self._scene = None
        self._free = queue.SimpleQueue()
        self._stack.close()


def processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@functools.cache
def _threads() -> concurrent.futures.ThreadPoolExecutor:
    """The process's threads for pictures: as many as processors, however many renderers there are."""
    return concurrent.futures.ThreadPoolExecutor(processors(), thread_name_prefix="pictures")


class _Tile:
    """The ray tracer's context for `n` lanes, and the arrays that it reads and fills. For one thread at a time."""

    def __init__(self, scene: WarpScene, cameras: Sequence[str], height: int, width: int, n: int) -> None:
        import mujoco.mjx.third_party.mujoco_warp as mjw
        import warp as wp

        from mjx_bench.observe import warp_picture, warp_structs
        from mjx_bench.observe.warp_scene import DRAWN

        self._wp, self._mjw, self._kernel = wp, mjw, warp_picture.draw
        self._scene, self._n = scene, n
        model = scene.model
        with _MAKING:
            self._model = mjw.put_model(model)
            self._data = mjw.make_data(model, nworld=n, nconmax=1, njmax=1)
            self._context = mjw.create_render_context(
                model,
                nworld=n,
                cam_res=(width, height),
                cam_active=list(cameras),
                enabled_geom_groups=scene.groups,
                render_rgb=False,
                render_depth=True,
                render_seg=True,
                # Each lane has a field of view of its own.
                use_precomputed_rays=False,
                # All that colours a pixel, which is done elsewhere.
                use_textures=False,
                use_ambient_lighting=False,
                enable_vertex_normals=False,
                enable_specular=False,
                enable_emission=False,
                enable_per_light_ambient=False,
            )
            # MJX builds a kernel for what a context has; with the same in all of them, one is compiled for all scenes.
            self._model.nlight = 0
            self._context.headlight_active = False
            self._context.znear, self._context.zfar = 0.01, 0.0
            self._context.geom_ray_types = DRAWN
            scene.share_meshes(self._context)
            ngeom, ncam = model.ngeom, model.ncam
            self._bodies = warp_structs.Lanes()
            self._bodies.bodies = wp.zeros((n, ngeom), dtype=warp_structs.Body)
            self._bodies.lights = wp.zeros((n, model.nlight + 1), dtype=warp_structs.Light)
            self._bodies.shown, self._bodies.tree = self._context.enabled_geom_ids, self._context.bvh_id
            self._bodies.roots = self._context.group_root
            kinds = {"pos": wp.vec3, "rot": wp.mat33, "size": wp.vec3, "color": wp.vec4}
            self._geoms = {name: wp.zeros((n, ngeom), dtype=kind) for name, kind in kinds.items()}
            self._data.geom_xpos, self._data.geom_xmat = self._geoms["pos"], self._geoms["rot"]
            self._model.geom_size, self._model.geom_rgba = self._geoms["size"], self._geoms["color"]
            # The alpha that hides a geom is the lane's colour, never a material's.
            self._model.geom_matid = wp.full((1, ngeom), -1, dtype=int)
            kinds = {"cam_pos": wp.vec3, "cam_rot": wp.mat33, "cam_view": float, "cam_fovy": float}
            self._cameras = {name: wp.zeros((n, ncam), dtype=kind) for name, kind in kinds.items()}
            self._data.cam_xpos, self._data.cam_xmat, _, self._model.cam_fovy = self._cameras.values()
            self._out = wp.zeros((n, len(cameras), height, 3 * width), dtype=wp.uint8)
            self.trace()
            self.draw()

    def load(self, lanes: Sequence[Lane]) -> None:
        """Puts 1 to n lanes into the tile; the places left over repeat the first."""
        lanes = [*lanes, *[lanes[0]] * (self._n - len(lanes))]
        bodies = np.stack([lane.bodies for lane in lanes])
        self._bodies.bodies.assign(bodies)
        self._bodies.lights.assign(np.stack([lane.lights for lane in lanes]))
        for name, array in self._geoms.items():
            array.assign(np.ascontiguousarray(bodies[name]))
        for name, array in self._cameras.items():
            array.assign(np.stack([getattr(lane, name) for lane in lanes]))

    def trace(self) -> tuple[np.ndarray, np.ndarray]:
        """Geom (-1 where there is none) and depth in metres of each pixel, int32 and float32 [n, C * H * W]."""
        self._mjw.refit_bvh(self._model, self._data, self._context)
        self._mjw.render(self._model, self._data, self._context)
        return self._context.seg_data.numpy()[..., 0], self._context.depth_data.numpy()

    def draw(self) -> np.ndarray:
        """The pictures of what was traced, uint8 [n, C, H, 3 * W]."""
        n, cameras, height, triples = self._out.shape
        self._wp.launch(
            self._kernel,
            dim=(n, cameras, height, triples // 3),
            inputs=[
                self._scene.stage,
                self._bodies,
                self._scene.textures,
                self._context.cam_id_map,
                *(self._cameras[name] for name in ("cam_pos", "cam_rot", "cam_view")),
                self._context.depth_data,
                self._context.seg_data,
            ],
            outputs=[self._out],
        )
        return self._out.numpy()
