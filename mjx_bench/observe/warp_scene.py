"""A scene as the Warp renderer keeps it: one copy for all renderers of the process, without MuJoCo's full-size textures."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import threading
from collections.abc import Iterator

import mujoco
import numpy as np
import warp as wp

from mjx_bench.errors import BenchError
from mjx_bench.observe import warp_structs as structs
from mjx_bench.observe.lane_model import LaneModel
from mjx_bench.observe.warp_meshes import MeshTrees, build_trees
from mjx_bench.observe.warp_textures import TextureTable, load_textures, rows
from mjx_bench.physics.base import Pose
from mjx_bench.task import Scene

_KINDS = ("PLANE", "SPHERE", "CAPSULE", "ELLIPSOID", "CYLINDER", "BOX", "MESH")
DRAWN = tuple(int(getattr(mujoco.mjtGeom, f"mjGEOM_{name}")) for name in _KINDS)
_MIRRORS = [int(mujoco.mjtGeom.mjGEOM_PLANE), int(mujoco.mjtGeom.mjGEOM_BOX)]

# A geom's own colour counts, and not its material's, unless it is this one: MuJoCo's rule.
_DEFAULT_RGBA = np.array([0.5, 0.5, 0.5, 1.0], np.float32)
# Of a geom or site without a material.
_DEFAULT_MATERIAL = {"emission": 0.0, "specular": 0.5, "shininess": 0.5, "reflectance": 0.0}
_SHININESS = 128.0  # OpenGL's exponent of the shininess 1
_OPAQUE = 0.995

_MAX_CASTING = 31

_SITES = "sites that cameras see"


@dataclasses.dataclass(frozen=True)
class Lane:
    """One lane's rows of what kernels read.

    Attributes:
      bodies: [G + S] `Body` of the model's geoms and of the sites that cameras may see.
      lights: [L + 1] `Light`, the camera's own last.
      cam_pos: float32 [C, 3]; cam_rot: [C, 3, 3]; cam_fovy: [C] degrees; cam_view: [C] height of
        the picture at the depth 1.
    """

    bodies: np.ndarray
    lights: np.ndarray
    cam_pos: np.ndarray
    cam_rot: np.ndarray
    cam_fovy: np.ndarray
    cam_view: np.ndarray


class WarpScene:
    """What does not depend on a lane, on the device, and the model that lanes are put into. Any thread may use it.

    Attributes:
      model: the scene without textures, and with a geom for each site that cameras may see, after all others.
      ngeom: geoms of the scene itself.
      groups: geom groups that cameras see.
      stage, textures: the structs that kernels read; trees: what owns the trees in `stage`.

    Args:
      scene: the scene.
      detail: texels a side from which on textures are kept.

    Raises:
      BenchError: cameras see something that this renderer cannot draw.
    """

    def __init__(self, scene: Scene, detail: int) -> None:
        self._lane = LaneModel(scene, scene.load_spec())
        self._lock = threading.Lock()
        own = self._lane.model
        self.ngeom = own.ngeom
        self.groups = np.flatnonzero(self._lane.groups).tolist()
        self._shown = self._lane.groups[own.geom_group]
        self._sites = np.array([own.site(s.name).id for s in scene.shown_sites], np.int64)
        self.model = _with_sites(scene, self.groups[0]) if len(self._sites) else copy.copy(own)
        for geom in np.flatnonzero(self._lane.groups[self.model.geom_group]):
            if int(self.model.geom_type[geom]) not in DRAWN:
                kind = mujoco.mjtGeom(self.model.geom_type[geom]).name
                raise BenchError(f"geom {self.model.geom(geom).name!r} is a {kind}; render this scene with gl")
        if own.nflex or own.nskin:
            raise BenchError("the scene has deformable bodies; render it with gl")
        materials = {int(m) for m in own.geom_matid[self._shown] if m >= 0}
        table = load_textures((scene.load_textured_spec or scene.load_spec)().compile(), materials, detail)
        self.textures = table.pyramids
        self.trees = build_trees(self.model)
        self.stage = _stage(self.model, table, self.trees)

    def lane(self, pose: Pose, *, sites: bool = True) -> Lane:
        """One lane's rows; without `sites`, those are not there.

        Raises:
          BenchError: a pose of another scene.
        """
        with self._lock:
            self._lane.show(pose)
            model, data = self._lane.model, self._lane.data
            bodies = rows(structs.Body, self.model.ngeom)
            self._fill(bodies[: self.ngeom], "geom", slice(None))
            self._fill(bodies[self.ngeom :], "site", self._sites)
            bodies["color"][self.ngeom :, 3] *= sites
            flat = self._shown & np.isin(model.geom_type, _MIRRORS) & (bodies["color"][: self.ngeom, 3] >= _OPAQUE)
            mirrors = np.flatnonzero(flat & (bodies["reflectance"][: self.ngeom] > 0.0))
            # MuJoCo lets only the first geom that can mirror do so.
            bodies["reflectance"][np.arange(len(bodies)) != (mirrors[0] if len(mirrors) else -1)] = 0.0
            return Lane(
                bodies,
                _lights(model, data),
                data.cam_xpos.astype(np.float32),
                data.cam_xmat.reshape(-1, 3, 3).astype(np.float32),
                model.cam_fovy.astype(np.float32),
                (2.0 * np.tan(np.deg2rad(model.cam_fovy) / 2.0)).astype(np.float32),
            )

    def _fill(self, bodies: np.ndarray, what: str, rows: np.ndarray | slice) -> None:
        """Writes geoms or sites, whose fields have the same names in MuJoCo."""
        model, data = self._lane.model, self._lane.data
        bodies["pos"] = getattr(data, f"{what}_xpos")[rows]
        bodies["rot"] = getattr(data, f"{what}_xmat")[rows].reshape(-1, 3, 3)
        bodies["size"] = getattr(model, f"{what}_size")[rows]
        rgba, material = getattr(model, f"{what}_rgba")[rows], getattr(model, f"{what}_matid")[rows]
        wears = (rgba == _DEFAULT_RGBA).all(1) & (material >= 0)
        bodies["color"] = np.where(wears[:, None], np.vstack([model.mat_rgba, _DEFAULT_RGBA])[material], rgba)
        for name, default in _DEFAULT_MATERIAL.items():
            bodies[name] = np.append(getattr(model, f"mat_{name}"), np.float32(default))[material]
        bodies["shininess"] *= _SHININESS


def _with_sites(scene: Scene, group: int) -> mujoco.MjModel:
    """The scene with a geom of this group for each site that cameras may see, on a body after all others."""
    spec = scene.load_spec()
    body = spec.worldbody.add_body(name=_SITES)
    for shown in scene.shown_sites:
        site = spec.site(shown.name)
        body.add_geom(type=site.type, size=site.size, group=group, contype=0, conaffinity=0, mass=0)
    return spec.compile()


def _lights(model: mujoco.MjModel, data: mujoco.MjData) -> np.ndarray:
    """[L + 1] the model's lights and then the camera's; one that is off has no colour."""
    lights = rows(structs.Light, model.nlight + 1)
    own, head = lights[:-1], lights[-1]
    directional = model.light_type == int(mujoco.mjtLightType.mjLIGHT_DIRECTIONAL)
    own["kind"] = np.where(directional, structs.DIRECTIONAL, structs.SPOT)
    own["pos"], own["dir"] = data.light_xpos, data.light_xdir
    for name in ("ambient", "diffuse", "specular"):
        own[name] = getattr(model, f"light_{name}") * model.light_active[:, None]
        head[name] = getattr(model.vis.headlight, name) * model.vis.headlight.active
    own["attenuation"], own["exponent"] = model.light_attenuation, model.light_exponent
    own["cutoff"] = np.cos(np.deg2rad(model.light_cutoff))
    # Kernels keep a bit for each light that may be in the way of another.
    own["casts"] = model.light_castshadow & (np.arange(model.nlight) < _MAX_CASTING)
    head["kind"] = structs.HEAD
    return lights


def _stage(model: mujoco.MjModel, table: TextureTable, trees: MeshTrees) -> structs.Stage:
    stage = structs.Stage()
    geoms = rows(structs.Geom, model.ngeom)
    geoms["kind"], geoms["mesh"] = model.geom_type, model.geom_dataid
    is_mesh = model.geom_type == int(mujoco.mjtGeom.mjGEOM_MESH)
    has_places = is_mesh & (np.append(model.mesh_texcoordadr, -1)[model.geom_dataid] >= 0)
    mapping = table.mapping[model.geom_matid]
    geoms["mapping"] = np.where(has_places & (mapping != structs.UNTEXTURED), structs.BY_VERTEX, mapping)
    geoms["texture"] = table.first[model.geom_matid]
    geoms["repeat"], geoms["per_metre"] = table.repeat[model.geom_matid], table.per_metre[model.geom_matid]
    meshes = rows(structs.Mesh, model.nmesh)
    meshes["vertices"], meshes["normals"] = model.mesh_vertadr, model.mesh_normaladr
    meshes["places"], meshes["faces"] = model.mesh_texcoordadr, model.mesh_faceadr
    meshes["pieces"] = trees.first
    stage.trees, stage.sources = trees.ids, wp.array(trees.sources, dtype=int)
    stage.geoms, stage.meshes = wp.array(geoms, dtype=structs.Geom), wp.array(meshes, dtype=structs.Mesh)
    stage.vertices = wp.array(model.mesh_vert, dtype=wp.vec3)
    stage.normals = wp.array(model.mesh_normal, dtype=wp.vec3)
    stage.places = wp.array(model.mesh_texcoord, dtype=wp.vec2)
    stage.face_vertices = wp.array(model.mesh_face, dtype=wp.vec3i)
    stage.face_normals = wp.array(model.mesh_facenormal, dtype=wp.vec3i)
    stage.face_places = wp.array(model.mesh_facetexcoord, dtype=wp.vec3i)
    stage.grid = int(model.vis.quality.numquads)
    stage.sky, stage.sky_mapping = table.sky, table.sky_mapping
    return stage


class _Kept:
    """A scene in the pool, with the number of its users and a lock for its making."""

    def __init__(self) -> None:
        self.making = threading.Lock()
        self.users = 0
        self.scene: WarpScene | None = None


_POOL: dict[tuple[str, int], _Kept] = {}
_POOL_LOCK = threading.Lock()


@contextlib.contextmanager
def shared(scene: Scene, detail: int) -> Iterator[WarpScene]:
    """The process's one `WarpScene` of this scene and detail, freed when the last to use it leaves."""
    key = scene.key, detail
    with _POOL_LOCK:
        kept = _POOL.setdefault(key, _Kept())
        kept.users += 1
    try:
        with kept.making:
            if kept.scene is None:
                kept.scene = WarpScene(scene, detail)
        yield kept.scene
    finally:
        with _POOL_LOCK:
            kept.users -= 1
            if not kept.users:
                del _POOL[key]
