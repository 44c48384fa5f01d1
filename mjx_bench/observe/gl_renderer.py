"""Pictures by MuJoCo's own OpenGL renderer, the one whose pictures published LIBERO policies were trained on."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Sequence
from typing import Any

import mujoco
import numpy as np

from mjx_bench.errors import BenchError
from mjx_bench.observe import gl_platform
from mjx_bench.observe.base import check_view
from mjx_bench.observe.lane_model import LaneModel
from mjx_bench.physics.base import Pose
from mjx_bench.task import Scene

MAX_GEOMS = 10_000

# Contexts share a display and the table of OpenGL's functions, which the first of them fills.
_MAKING = threading.Lock()


def platform() -> str:
    """What the pictures are rendered by, found by a trial; for the record, as bits depend on it.

    Raises:
      BenchError: no OpenGL works here, with the Debian package that would bring one.
    """
    return str(gl_platform.find())


class GlRenderer:
    """Renders lanes one after another; implements `observe.base.Renderer`. Used and closed by the thread that makes it.

    Args:
      scene: the scene.
      cameras: names, all of the scene.
      height, width: pixels, 1 to `base.MAX_SIDE`.

    Raises:
      BenchError: a camera that the scene does not have, a size out of range, or no OpenGL.
    """

    def __init__(self, scene: Scene, cameras: Sequence[str], height: int, width: int) -> None:
        self.cameras = check_view(scene, cameras, height, width)
        self.height, self.width = height, width
        found = gl_platform.find()
        self._lane = LaneModel(scene)
        model = self._lane.model
        model.vis.global_.offheight, model.vis.global_.offwidth = height, width
        if not model.light_castshadow.any():
            model.vis.quality.shadowsize = 0  # 64 MiB for shadows that no light casts
        self._views = [(name, _fixed(model.camera(name).id)) for name in self.cameras]
        self._option = mujoco.MjvOption()
        self._option.geomgroup[:] = self._lane.groups
        self._scene = mujoco.MjvScene(model, MAX_GEOMS)
        self._rect = mujoco.MjrRect(0, 0, width, height)
        self._rows = np.empty((height, width, 3), np.uint8)
        self._depths = np.empty((height, width), np.float32)
        self._gl, self._context = _open(found, model, height, width)

    def render(self, poses: Sequence[Pose]) -> dict[str, np.ndarray]:
        out = {name: np.empty((len(poses), self.height, self.width, 3), np.uint8) for name in self.cameras}

        def read(picture: np.ndarray) -> None:
            mujoco.mjr_readPixels(self._rows, None, self._rect, self._context)
            picture[:] = self._rows[::-1]

        self._draw(poses, out, read)
        return out

    def segmentation(self, poses: Sequence[Pose]) -> dict[str, np.ndarray]:
        out = {name: np.empty((len(poses), self.height, self.width), np.int32) for name in self.cameras}

        def read(picture: np.ndarray) -> None:
            mujoco.mjr_readPixels(self._rows, None, self._rect, self._context)
            red, green, blue = np.moveaxis(self._rows[::-1].astype(np.int32), -1, 0)
            # A geom's colour is its place in the scene, counted from 1; black is where there is none.
            ids = np.full(self._scene.ngeom + 1, -1, np.int32)
            for geom in self._scene.geoms[: self._scene.ngeom]:
                if geom.objtype == mujoco.mjtObj.mjOBJ_GEOM:
                    ids[geom.segid + 1] = geom.objid
            picture[:] = ids[red + (green << 8) + (blue << 16)]

        self._draw(poses, out, read, flat=True)
        return out

    def depth(self, poses: Sequence[Pose]) -> dict[str, np.ndarray]:
        out = {name: np.empty((len(poses), self.height, self.width), np.float32) for name in self.cameras}

        def read(picture: np.ndarray) -> None:
            mujoco.mjr_readPixels(None, self._depths, self._rect, self._context)
            z = self._depths[::-1].astype(np.float64)  # 1 on the near plane, 0 on the far one and where nothing is
            near, far = self._scene.camera[0].frustum_near, self._scene.camera[0].frustum_far
            picture[:] = np.where(z > 0, near * far / (near + z * (far - near)), np.inf)

        self._draw(poses, out, read, flat=True)
        return out

    def _draw(
        self,
        poses: Sequence[Pose],
        out: dict[str, np.ndarray],
        read: Callable[[np.ndarray], None],
        *,
        flat: bool = False,
    ) -> None:
        """Draws each pose from each camera and has it read; `flat` gives each geom one colour and leaves sites out."""
        if self._context is None:
            raise BenchError("this renderer is closed; make another one")
        self._gl.make_current()
        self._scene.flags[mujoco.mjtRndFlag.mjRND_SEGMENT] = flat
        self._scene.flags[mujoco.mjtRndFlag.mjRND_IDCOLOR] = flat
        self._option.sitegroup[:] = not flat
        lane = self._lane
        for i, pose in enumerate(poses):
            lane.show(pose)
            for name, view in self._views:
                mujoco.mjv_updateScene(
                    lane.model, lane.data, self._option, None, view, mujoco.mjtCatBit.mjCAT_ALL.value, self._scene
                )
                mujoco.mjr_render(self._rect, self._scene, self._context)
                read(out[name][i])

    def close(self) -> None:
        if self._context is not None:
            with _MAKING:
                self._gl.make_current()
                self._context.free()
                self._gl.free()
            self._context = None


def _fixed(camera: int) -> mujoco.MjvCamera:
    view = mujoco.MjvCamera()
    view.type, view.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, camera
    return view


def _open(found: gl_platform.GlPlatform, model: mujoco.MjModel, height: int, width: int) -> tuple[Any, Any]:
    """An OpenGL context, current in this thread, and MuJoCo's own with the model's meshes and textures in it."""
    with _MAKING:
        gl = importlib.import_module(f"mujoco.{found.name}").GLContext(width, height)
        gl.make_current()
        try:
            context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_50.value)
        except mujoco.FatalError as error:
            gl.free()
            raise BenchError(f"{found}: cannot draw {width} by {height} pixels of this scene: {error}") from None
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, context)
        context.readDepthMap = mujoco.mjtDepthMap.mjDEPTH_ZEROFAR
    return gl, context
