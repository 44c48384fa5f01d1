"""Trees over meshes for rays, of pieces of their triangles.

A flat top with a round edge is often cut into a fan: hundreds of slivers as long as the table, whose boxes all cover half of
it, so that a ray tries each of them. Halved until none is long, they are a tree like any other.
"""

from __future__ import annotations

import dataclasses

import mujoco
import numpy as np
import warp as wp

# The longest edge of a piece, of the longest side of its mesh.
_LONGEST = 1 / 8


@dataclasses.dataclass(frozen=True)
class MeshTrees:
    """Trees over all meshes of a model.

    Attributes:
      meshes: what owns the trees; keep it as long as they are used.
      ids: [M] what kernels and contexts of the ray tracer refer to.
      first: int [M] where each mesh's part of `sources` begins.
      sources: int32 the triangle, counted in its mesh, that each piece is of.
    """

    meshes: tuple[wp.Mesh, ...]
    ids: wp.array
    first: np.ndarray
    sources: np.ndarray


def build_trees(model: mujoco.MjModel) -> MeshTrees:
    """Builds the trees, in the meshes' own frames."""
    meshes, sources, first = [], [np.zeros(0, np.int32)], []
    start = 0
    for m in range(model.nmesh):
        vertices = model.mesh_vert[model.mesh_vertadr[m] :][: model.mesh_vertnum[m]]
        faces = model.mesh_face[model.mesh_faceadr[m] :][: model.mesh_facenum[m]]
        points, pieces, source = pieces_of(vertices, faces, _LONGEST * float(np.ptp(vertices, axis=0).max()))
        meshes.append(
            wp.Mesh(
                points=wp.array(points, dtype=wp.vec3),
                indices=wp.array(pieces.ravel(), dtype=int),
                bvh_constructor="sah",
                bvh_leaf_size=4,
            )
        )
        first.append(start)
        sources.append(source)
        start += len(source)
    ids = np.array([mesh.id for mesh in meshes], np.uint64)
    return MeshTrees(tuple(meshes), wp.array(ids, dtype=wp.uint64), np.array(first, np.int32), np.concatenate(sources))


def pieces_of(vertices: np.ndarray, faces: np.ndarray, longest: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Halves triangles at their longest edge until none is longer than `longest`.

    Two triangles halve a common edge at the same points, whatever else becomes of them: no gap opens.

    Returns:
      vertices, float32 [V', 3], the given ones first; triangles, int32 [F', 3]; the row in `faces` of each.
    """
    points, rest = np.asarray(vertices, np.float32), np.asarray(faces, np.int32)
    source = np.arange(len(rest), dtype=np.int32)
    done, done_source = [], []
    while len(rest):
        corners = points[rest]
        edges = np.linalg.norm(corners[:, [1, 2, 0]] - corners, axis=2)
        k = edges.argmax(1)
        short = edges.max(1) <= longest
        done.append(rest[short])
        done_source.append(source[short])
        rest, k, source = rest[~short], k[~short], source[~short]
        a, b, c = (rest[np.arange(len(rest)), (k + i) % 3] for i in range(3))
        middle = (len(points) + np.arange(len(rest))).astype(np.int32)
        points = np.concatenate([points, (points[a] + points[b]) * np.float32(0.5)])
        rest = np.concatenate([np.stack([a, middle, c], 1), np.stack([middle, b, c], 1)])
        source = np.concatenate([source, source])
    return points, np.concatenate(done), np.concatenate(done_source)
