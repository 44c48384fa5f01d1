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
import importlib
import importlib.metadata
import os
import queue
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mjx_bench.errors import BenchError, MissingExtra, broken
from mjx_bench.observe.base import check_view
from mjx_bench.physics.base import Pose
from mjx_bench.task import Scene

if TYPE_CHECKING:
    import jax

    from mjx_bench.observe.warp_scene import WarpScene
    from mjx_bench.observe.warp_tile import Tile

# Lanes that a GPU takes at a time. A CPU takes one a thread: it gains nothing from more, and a tile's empty places cost it.
_GPU_LANES = 64

# Texels a side that are kept of a texture, for each pixel of the picture's larger side.
_TEXELS = 4


def platform() -> str:
    """What the pictures are rendered by; for the record, as bits depend on it.

    Raises:
      MissingExtra: Warp is not installed, or its installation is broken.
      BenchError: it does not start.
    """
    device = _warp().get_device()
    try:
        importlib.import_module("mjx_bench.observe.warp_tile")
    except Exception as error:
        raise BenchError(f"{broken('the warp renderer', error)}; install that package again") from None
    return f"warp {importlib.metadata.version('warp-lang')} on {device.name or device}"


@functools.cache
def _warp() -> Any:
    """Warp, started without what it prints about itself and about the driver that a machine without a GPU lacks."""
    try:
        import warp
    except Exception as error:  # whatever a broken installation raises
        if isinstance(error, ImportError) and error.name == "warp":
            raise MissingExtra("the warp renderer needs Warp: pip install -e '.[warp]'") from None
        raise MissingExtra(f"{broken('Warp', error)}; install it again: pip install -e '.[warp]'") from None
    warp.config.log_level = warp.LOG_ERROR
    try:
        with contextlib.nullcontext() if _has_driver() else _stderr_closed():
            warp.init()
    except OSError as error:
        where, why = os.environ.get("WARP_CACHE_PATH", ""), error.strerror or error
        raise BenchError(
            f"Warp cannot keep its kernels in {where}: {why}; set MJX_BENCH_CACHE to a folder that can be written"
        ) from None
    except Exception as error:
        raise BenchError(broken("Warp", error)) from None
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
      height, width: pixels, 1 to `base.MAX_SIDE`.
      lanes: how many poses a call usually has.
      tile: poses that the device takes at a time, if not the renderer's own choice; pictures do not depend on it.

    Raises:
      MissingExtra: Warp is not installed.
      BenchError: a camera that the scene does not have, a size out of range, or a scene that this renderer cannot draw.
    """

    def __init__(
        self, scene: Scene, cameras: Sequence[str], height: int, width: int, lanes: int = 1, tile: int | None = None
    ) -> None:
        self.cameras = check_view(scene, cameras, height, width)
        self.height, self.width = height, width
        on_gpu = _warp().get_device().is_cuda
        self._on_gpu = on_gpu
        self._tile = tile or (min(lanes, _GPU_LANES) if on_gpu else 1)
        from mjx_bench.observe.warp_scene import shared
        from mjx_bench.observe.warp_tile import Tile

        self._stack = contextlib.ExitStack()
        with self._stack:
            self._scene: WarpScene | None = self._stack.enter_context(
                shared(scene, 1 << (_TEXELS * max(height, width) - 1).bit_length())
            )
            workers = 1 if on_gpu else min(processors(), -(-lanes // self._tile))
            self._free: queue.SimpleQueue[Tile] = queue.SimpleQueue()
            for _ in range(workers):
                try:
                    self._free.put(Tile(self._scene, self.cameras, height, width, self._tile))
                except (NotImplementedError, RuntimeError, ValueError) as error:  # what MJX and Warp refuse with
                    raise BenchError(f"the warp renderer cannot draw this scene: {error}; take gl instead") from error
            self._stack = self._stack.pop_all()

    def render(self, poses: Sequence[Pose]) -> dict[str, np.ndarray]:
        return self._read(poses, lambda tile: tile.draw(), np.uint8, 3)

    def render_on_device(self, poses: Sequence[Pose]) -> dict[str, jax.Array] | None:
        """See `observe.base.OnDevice`."""
        import jax

        if self._on_gpu != (jax.default_backend() == "gpu"):
            return None
        drawn: dict[int, jax.Array] = {}

        def keep(start: int, tile: Tile, lanes: int) -> None:
            drawn[start] = tile.draw_on_device()

        self._work(poses, keep, sites=True)
        from mjx_bench.observe.warp_tile import by_camera

        pictures = by_camera([drawn[start] for start in sorted(drawn)], len(poses))
        return dict(zip(self.cameras, pictures, strict=True))

    def segmentation(self, poses: Sequence[Pose]) -> dict[str, np.ndarray]:
        found = self._read(poses, lambda tile: tile.seen(), np.int32, 1, sites=False)
        return {name: geoms[..., 0] for name, geoms in found.items()}

    def depth(self, poses: Sequence[Pose]) -> dict[str, np.ndarray]:
        found = self._read(poses, lambda tile: tile.depth(), np.float32, 1, sites=False)
        return {name: metres[..., 0] for name, metres in found.items()}

    def _read(
        self,
        poses: Sequence[Pose],
        read: Callable[[Tile], np.ndarray],
        kind: type,
        channels: int,
        *,
        sites: bool = True,
    ) -> dict[str, np.ndarray]:
        """Camera to [n, height, width, channels] of what `read` finds in tiles."""
        shape = (self.height, self.width, channels)
        out: dict[str, np.ndarray] = {name: np.empty((len(poses), *shape), kind) for name in self.cameras}

        def keep(start: int, tile: Tile, lanes: int) -> None:
            found = read(tile).reshape(-1, len(self.cameras), *shape)
            for c, pictures in enumerate(out.values()):
                pictures[start : start + lanes] = found[:lanes, c]

        self._work(poses, keep, sites=sites)
        return out

    def _work(self, poses: Sequence[Pose], keep: Callable[[int, Tile, int], None], *, sites: bool) -> None:
        """Traces the poses tile by tile, several in threads; `keep` is told the first pose, the tile, and how many."""
        if self._scene is None:
            raise BenchError("this renderer is closed; make another one")
        scene = self._scene

        def work(start: int) -> None:
            rows = slice(start, start + self._tile)
            lanes = [scene.lane(pose, sites=sites) for pose in poses[rows]]
            tile = self._free.get()
            try:
                tile.trace(lanes)
                keep(start, tile, len(lanes))
            finally:
                self._free.put(tile)

        starts = range(0, len(poses), self._tile)
        if len(starts) == 1 or self._free.qsize() == 1:
            for start in starts:
                work(start)
        else:
            for done in [_threads().submit(work, start) for start in starts]:
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
