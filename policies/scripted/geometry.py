"""Shapes of a scene as point clouds.

A scene is compiled once; its contact geoms become points on their surfaces in the frame of their body, and the model is
dropped (with its meshes it weighs up to 100 MB). `view.View` puts the points into the world.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from mjx_bench.errors import BenchError
from mjx_bench.task import Scene

if TYPE_CHECKING:
    import mujoco

WORLD = "world"  # the immovable rest of the scene: table, floor, walls


def quat_to_mat(quat: np.ndarray) -> np.ndarray:
    """Unit quaternion [4], wxyz, to a [3, 3] rotation matrix."""
    w, x, y, z = quat
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


@dataclasses.dataclass(frozen=True)
class Joint:
    """A joint of one degree of freedom, in the frame of the body that it moves.

    Attributes:
      name: in the model and in observations.
      hinge: it turns (radians) or it slides (metres).
      axis: [3] unit vector.
      anchor: [3] a point on the axis of a hinge.
      low, high: range of its position.
    """

    name: str
    hinge: bool
    axis: np.ndarray
    anchor: np.ndarray
    low: float
    high: float


@dataclasses.dataclass(frozen=True)
class Link:
    """One body below an entity's root: its pose in its parent and its joints."""

    pos: np.ndarray
    rot: np.ndarray
    joints: tuple[Joint, ...]


@dataclasses.dataclass(frozen=True)
class Part:
    """Points rigidly attached to one body of an entity.

    Attributes:
      chain: links from below the root to the body (empty: the root itself).
      points: [N, 3] surface points, body frame, metres.
      corners: [M, 3] bounding-box corners of its geoms, body frame: a coarse stand-in for `points`.
    """

    chain: tuple[Link, ...]
    points: np.ndarray
    corners: np.ndarray


@dataclasses.dataclass(frozen=True)
class Site:
    """A region's box: the entity it moves with (or the world), and its pose there.

    Attributes:
      entity: an entity's name, or `WORLD`.
      chain: as in `Part`.
      pos, rot: pose in its body.
      half_size: [3], metres.
    """

    entity: str
    chain: tuple[Link, ...]
    pos: np.ndarray
    rot: np.ndarray
    half_size: np.ndarray


@dataclasses.dataclass(frozen=True)
class Mechanism:
    """What one joint of an entity moves.

    Attributes:
      entity: its owner's name.
      joint: the joint.
      chain: links from below the root to the body that the joint moves.
      points: [N, 3] surface of that body and all below it, in its frame, metres.
    """

    entity: str
    joint: Joint
    chain: tuple[Link, ...]
    points: np.ndarray


@dataclasses.dataclass(frozen=True)
class SceneShapes:
    """Every entity's parts and joints, and every region's box.

    Attributes:
      parts: entity name (and `WORLD`) to its parts.
      sites: region name to its box.
      mechanisms: joint name to what it moves, for the joints of all entities.
      ground: height of the highest endless plane that things rest on, world metres; `-inf` without one.
    """

    parts: dict[str, tuple[Part, ...]]
    sites: dict[str, Site]
    mechanisms: dict[str, Mechanism]
    ground: float = -np.inf

    def points(self, entity: str) -> np.ndarray:
        """[N, 3] surface of an entity in its root frame, articulations ignored (objects have none)."""
        return np.vstack([np.zeros((0, 3)), *(part.points for part in self.parts[entity])])


def load_shapes(scene: Scene) -> SceneShapes:
    """Compiles the scene and reads its shapes: those that are seen, where collisions are simplified.

    Raises:
      BenchError: a contact geom or a region that the scene names is not in its model.
    """
    import mujoco

    scene = scene.exact or scene
    model = scene.load_spec().compile()
    roots = {_body_id(model, entity.body): name for name, entity in scene.entities.items()}
    robot_root = int(model.body_rootid[_body_id(model, scene.robot.hand_body)])
    wanted: dict[str, list[int]] = {name: [] for name in scene.entities}
    for name, entity in scene.entities.items():
        for geom_name in entity.contact_geoms:
            geom = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_GEOM, geom_name)
            if geom < 0:
                raise BenchError(f"scene {scene.key}: entity {name!r} names geom {geom_name!r}, which its model lacks")
            if model.geom_type[geom] != mujoco.mjtGeom.mjGEOM_PLANE:  # an endless one is ground, whoever names it
                wanted[name].append(geom)
    owned = {int(model.body_rootid[b]) for b in roots}
    fixed, ground = [], -np.inf
    for geom in range(model.ngeom):
        root = int(model.body_rootid[model.geom_bodyid[geom]])
        if root == robot_root or root in owned or not (model.geom_contype[geom] or model.geom_conaffinity[geom]):
            continue
        if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_PLANE:
            ground = max(ground, float(model.geom_pos[geom, 2]))
        else:
            fixed.append(geom)
    parts = {name: _parts(model, geoms, roots) for name, geoms in wanted.items()}
    parts[WORLD] = _parts(model, fixed, roots)
    sites = {}
    for name, region in scene.regions.items():
        site = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SITE, name)
        if site < 0:
            raise BenchError(f"scene {scene.key}: region {name!r} is no site of its model")
        root, chain = _chain(model, int(model.site_bodyid[site]), roots)
        sites[name] = Site(
            roots.get(root, WORLD),
            chain,
            model.site_pos[site].copy(),
            quat_to_mat(model.site_quat[site]),
            np.asarray(region.half_size, float),
        )
    mechanisms = {
        joint: _mechanism(model, name, joint, parts[name], roots)
        for name, entity in scene.entities.items()
        for joint in entity.joints
    }
    return SceneShapes(parts, sites, mechanisms, ground)


def _body_id(model: mujoco.MjModel, name: str) -> int:
    import mujoco

    body = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, name)
    if body < 0:
        raise BenchError(f"body {name!r} is not in the scene's model")
    return int(body)


def _chain(model: mujoco.MjModel, body: int, roots: dict[int, str]) -> tuple[int, tuple[Link, ...]]:
    """Walks up to an entity's root or the world; returns where it stopped and the links below, top first."""
    import mujoco

    links: list[Link] = []
    while body != 0 and body not in roots:
        joints = []
        for j in range(model.body_jntadr[body], model.body_jntadr[body] + model.body_jntnum[body]):
            hinge = bool(model.jnt_type[j] == mujoco.mjtJoint.mjJNT_HINGE)
            low, high = (float(v) for v in model.jnt_range[j])
            axis, anchor = model.jnt_axis[j].copy(), model.jnt_pos[j].copy()
            joints.append(Joint(model.joint(j).name, hinge, axis, anchor, low, high))
        links.insert(0, Link(model.body_pos[body].copy(), quat_to_mat(model.body_quat[body]), tuple(joints)))
        body = int(model.body_parentid[body])
    return body, tuple(links)


def _mechanism(
    model: mujoco.MjModel, entity: str, joint: str, parts: tuple[Part, ...], roots: dict[int, str]
) -> Mechanism:
    _, chain = _chain(model, int(model.joint(joint).bodyid[0]), roots)
    clouds = [np.zeros((0, 3))]
    for part in parts:
        if moved_by(part, joint):
            points = part.points
            for link in reversed(part.chain[len(chain) :]):
                points = points @ link.rot.T + link.pos
            clouds.append(points)
    return Mechanism(entity, next(j for j in chain[-1].joints if j.name == joint), chain, np.vstack(clouds))


def moved_by(part: Part, joint: str) -> bool:
    """Whether a part goes where a joint goes."""
    return any(j.name == joint for link in part.chain for j in link.joints)


def _parts(model: mujoco.MjModel, geoms: list[int], roots: dict[int, str]) -> tuple[Part, ...]:
    by_body: dict[int, list[int]] = {}
    for geom in geoms:
        by_body.setdefault(int(model.geom_bodyid[geom]), []).append(geom)
    out = []
    for body, members in by_body.items():
        points, corners = [], []
        for geom in members:
            rot, pos = quat_to_mat(model.geom_quat[geom]), model.geom_pos[geom]
            local = surface_points(model, geom)
            points.append(local @ rot.T + pos)
            low, high = local.min(0), local.max(0)
            box = np.array([[x, y, z] for x in (low[0], high[0]) for y in (low[1], high[1]) for z in (low[2], high[2])])
            corners.append(np.vstack([box, 0.5 * (low + high)]) @ rot.T + pos)
        out.append(Part(_chain(model, body, roots)[1], np.vstack(points), np.vstack(corners)))
    return tuple(out)


def surface_points(model: mujoco.MjModel, geom: int) -> np.ndarray:
    """[N, 3] points on one geom's surface, geom frame, 2.5 mm apart on small geoms and up to 10 mm on furniture."""
    import mujoco

    # A plain enum: a NumPy integer compares with MuJoCo's enums from one side only.
    kind, size = mujoco.mjtGeom(int(model.geom_type[geom])), model.geom_size[geom]
    if kind == mujoco.mjtGeom.mjGEOM_BOX:
        return box_points(size)
    if kind == mujoco.mjtGeom.mjGEOM_MESH:
        mesh = model.geom_dataid[geom]
        start, count = model.mesh_vertadr[mesh], model.mesh_vertnum[mesh]
        vertices = model.mesh_vert[start : start + count].astype(float)
        start, count = model.mesh_faceadr[mesh], model.mesh_facenum[mesh]
        corners = vertices[model.mesh_face[start : start + count]]
        # Barycentric lattice on each triangle: a collision hull has few, large faces.
        weights = np.array([[i, j, 8 - i - j] for i in range(9) for j in range(9 - i)]) / 8.0
        return np.vstack([vertices, np.einsum("kc,fcx->fkx", weights, corners).reshape(-1, 3)])
    if kind in (mujoco.mjtGeom.mjGEOM_CYLINDER, mujoco.mjtGeom.mjGEOM_CAPSULE):
        radius, half = size[0], size[1]
        angle = np.linspace(0.0, 2.0 * np.pi, 48, endpoint=False)
        ring = np.stack([np.cos(angle), np.sin(angle)], 1)
        tall = half + (radius if kind == mujoco.mjtGeom.mjGEOM_CAPSULE else 0.0)
        side = [np.column_stack([radius * ring, np.full(48, z)]) for z in np.linspace(-half, half, 17)]
        caps = [np.column_stack([r * ring, np.full(48, z)]) for r in np.linspace(0, radius, 8) for z in (-tall, tall)]
        return np.vstack(side + caps)
    radii = size if kind == mujoco.mjtGeom.mjGEOM_ELLIPSOID else np.full(3, size[0])
    index = np.arange(400) + 0.5  # Fibonacci sphere: even without poles
    z = 1.0 - 2.0 * index / 400
    turn = np.pi * (1.0 + np.sqrt(5.0)) * index
    flat = np.sqrt(1.0 - z * z)
    return np.column_stack([flat * np.cos(turn), flat * np.sin(turn), z]) * radii


def box_points(half: np.ndarray) -> np.ndarray:
    """[N, 3] points on the faces of a box with half extents `half` [3]."""
    spacing = float(np.clip(half.max() / 8.0, 0.0025, 0.01))
    axes = [np.linspace(-h, h, max(2, int(np.ceil(2 * h / spacing)) + 1)) for h in half]
    faces = []
    for k in range(3):
        u, v = np.meshgrid(axes[(k + 1) % 3], axes[(k + 2) % 3], indexing="ij")
        for sign in (-1.0, 1.0):
            face = np.empty((u.size, 3))
            face[:, k] = sign * half[k]
            face[:, (k + 1) % 3], face[:, (k + 2) % 3] = u.ravel(), v.ravel()
            faces.append(face)
    return np.vstack(faces)
