"""One context of MJX's ray tracer: what it is made of, and how lanes go in and pictures come out."""

from __future__ import annotations

import copy
import functools
import threading
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import mujoco.mjx.third_party.mujoco_warp as mjw
import numpy as np
import warp as wp

from mjx_bench.observe import warp_picture, warp_structs
from mjx_bench.observe.warp_scene import DRAWN, Lane, WarpScene

# Kernels are built once in the process, and contexts one after another.
_MAKING = threading.Lock()


class Tile:
    """The ray tracer's context for `n` lanes, and the arrays that it reads and fills. For one thread at a time."""

    def __init__(self, scene: WarpScene, cameras: Sequence[str], height: int, width: int, n: int) -> None:
        self._scene, self._n = scene, n
        model = scene.model
        # Warp refuses models that simulate in ways it does not know. Pictures need none of that.
        drawn = copy.copy(model)
        drawn.opt.disableflags = 0
        with _MAKING:
            self._model = mjw.put_model(drawn)
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
            self._context.mesh_registry, self._context.mesh_bvh_id = {}, scene.trees.ids
            ngeom, ncam = model.ngeom, model.ncam
            self._lanes = warp_structs.Lanes()
            self._lanes.bodies = wp.zeros((n, ngeom), dtype=warp_structs.Body)
            self._lanes.lights = wp.zeros((n, model.nlight + 1), dtype=warp_structs.Light)
            self._lanes.shown, self._lanes.tree = self._context.enabled_geom_ids, self._context.bvh_id
            self._lanes.roots = self._context.group_root
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
            self._launch()
            self._draw()

    def trace(self, lanes: Sequence[Lane]) -> None:
        """Finds what each pixel of 1 to n lanes shows; the places left over repeat the first lane."""
        lanes = [*lanes, *[lanes[0]] * (self._n - len(lanes))]
        bodies = np.stack([lane.bodies for lane in lanes])
        _fill(self._lanes.bodies, bodies)
        _fill(self._lanes.lights, np.stack([lane.lights for lane in lanes]))
        for name, array in self._geoms.items():
            array.assign(np.ascontiguousarray(bodies[name]))
        for name, array in self._cameras.items():
            array.assign(np.stack([getattr(lane, name) for lane in lanes]))
        self._launch()

    def _launch(self) -> None:
        mjw.refit_bvh(self._model, self._data, self._context)
        mjw.render(self._model, self._data, self._context)

    def seen(self) -> np.ndarray:
        """The geom that each pixel shows, int32 [n, C * H * W], -1 where there is none."""
        return self._context.seg_data.numpy()[..., 0]

    def depth(self) -> np.ndarray:
        """Metres along the optical axis, float32 [n, C * H * W], infinite where there is nothing."""
        return np.where(self.seen() < 0, np.float32(np.inf), self._context.depth_data.numpy())

    def draw(self) -> np.ndarray:
        """The pictures of what was traced, uint8 [n, C, H, 3 * W]."""
        self._draw()
        return self._out.numpy()

    def draw_on_device(self) -> jax.Array:
        """The same on Warp's device, as an array of JAX's own."""
        self._draw()
        wp.synchronize_device(self._out.device)  # JAX has a stream of its own
        # A copy: the next picture is drawn into the same memory.
        return jax.block_until_ready(jnp.copy(jax.dlpack.from_dlpack(self._out)))

    def _draw(self) -> None:
        n, cameras, height, triples = self._out.shape
        wp.launch(
            warp_picture.draw,
            dim=(n, cameras, height, triples // 3),
            inputs=[
                self._scene.stage,
                self._lanes,
                self._scene.textures,
                self._context.cam_id_map,
                *(self._cameras[name] for name in ("cam_pos", "cam_rot", "cam_view")),
                self._context.depth_data,
                self._context.seg_data,
            ],
            outputs=[self._out],
        )


@functools.partial(jax.jit, static_argnums=1)
def by_camera(drawn: Sequence[jax.Array], n: int) -> tuple[jax.Array, ...]:
    """The first n pictures of tiles, uint8 [t, C, H, 3 * W] each, camera by camera: [n, H, W, 3]."""
    whole = jnp.concatenate(drawn)[:n]
    _, cameras, height, triples = whole.shape
    return tuple(whole[:, c].reshape(n, height, triples // 3, 3) for c in range(cameras))


def _fill(array: wp.array, rows: np.ndarray) -> None:
    """Copies rows of structs into an array of Warp's.

    Its own `assign` compares the layouts again at every call, and has once, in a thread beside others, found equal ones to
    differ; the layout is right by construction (`warp_textures.rows`).
    """
    rows = np.ascontiguousarray(rows)
    host: wp.array = wp.array(ptr=rows.ctypes.data, shape=rows.shape, dtype=array.dtype, device="cpu")
    wp.copy(array, host)
    wp.synchronize_device(array.device)  # `rows` may go
