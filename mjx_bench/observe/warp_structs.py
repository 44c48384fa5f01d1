"""What the Warp renderer's kernels read: structs and constants.

Warp passes a struct by value, arrays in it included: structs hold few arrays, and functions get what they need.
"""

# Warp's types are not Python's.
# mypy: ignore-errors

import warp as wp

# MuJoCo's mjtGeom.
PLANE = wp.constant(0)
SPHERE = wp.constant(2)
CAPSULE = wp.constant(3)
ELLIPSOID = wp.constant(4)
CYLINDER = wp.constant(5)
BOX = wp.constant(6)
MESH = wp.constant(7)

# How a geom finds its place in a texture.
UNTEXTURED = wp.constant(0)
BY_VERTEX = wp.constant(1)  # coordinates of a mesh's vertices
BY_PLANE = wp.constant(2)  # its own x and y
BY_CUBE = wp.constant(3)  # direction from its centre, one picture for all six sides
BY_SIDES = wp.constant(4)  # the same, with a picture a side

# Kinds of light.
SPOT = wp.constant(0)
DIRECTIONAL = wp.constant(1)
HEAD = wp.constant(2)  # carried by the camera, shining where it looks


@wp.struct
class Level:
    """One copy of a texture: its first byte, and its size in texels."""

    start: int
    width: int
    height: int


@wp.struct
class Pyramid:
    """A texture as copies of half the size each: the row of the first in the table of levels, and how many there are.

    `repeats` is 1 if the texture goes on beyond its edge from the opposite one.
    """

    first: int
    count: int
    repeats: int


@wp.struct
class Textures:
    """All textures: RGB bytes of all levels, row by row, and the tables of levels and textures."""

    texels: wp.array(dtype=wp.uint8)
    levels: wp.array(dtype=Level)
    pyramids: wp.array(dtype=Pyramid)


@wp.struct
class Geom:
    """What a geom is in every lane.

    Attributes:
      kind: mjtGeom; mesh: index of its mesh.
      mapping: UNTEXTURED, BY_VERTEX, ...; texture: index of its texture.
      repeat: repetitions of the texture; per_metre: 1 if these are per metre and not per geom.
    """

    kind: int
    mesh: int
    mapping: int
    texture: int
    repeat: wp.vec2
    per_metre: int


@wp.struct
class Mesh:
    """Where a mesh's part of the tables of `Stage` begins; `places` is -1 if it has none."""

    vertices: int
    normals: int
    places: int
    faces: int
    pieces: int


@wp.struct
class Stage:
    """What all lanes share.

    Attributes:
      geoms: [G]; meshes: [M]; trees: [M] trees over pieces of the meshes, for rays; sources: the face of each piece.
      vertices, normals, places: tables of positions, normals and places in a texture, each in a mesh's frame.
      face_vertices, face_normals, face_places: rows of them for each triangle's corners.
      grid: quads along each edge of a box's side.
      sky: index of the sky's first texture, -1 for a black one; sky_mapping: BY_CUBE or BY_SIDES.
    """

    geoms: wp.array(dtype=Geom)
    meshes: wp.array(dtype=Mesh)
    trees: wp.array(dtype=wp.uint64)
    sources: wp.array(dtype=int)
    vertices: wp.array(dtype=wp.vec3)
    normals: wp.array(dtype=wp.vec3)
    places: wp.array(dtype=wp.vec2)
    face_vertices: wp.array(dtype=wp.vec3i)
    face_normals: wp.array(dtype=wp.vec3i)
    face_places: wp.array(dtype=wp.vec3i)
    grid: int
    sky: int
    sky_mapping: int


@wp.struct
class Body:
    """A geom of one lane.

    Attributes:
      pos, rot: world; size: MuJoCo's.
      color: RGBA that light is multiplied by; what has the alpha 0 is not there at all.
      emission, specular, shininess: its material, shininess as OpenGL's exponent.
      reflectance: of its upper side; of one geom at most.
    """

    pos: wp.vec3
    rot: wp.mat33
    size: wp.vec3
    color: wp.vec4
    emission: float
    specular: float
    shininess: float
    reflectance: float


@wp.struct
class Light:
    """A light of one lane, in the world's frame; one that is switched off has no colour.

    `kind` is SPOT, DIRECTIONAL or HEAD, `attenuation` constant, linear and quadratic, `cutoff` a cosine; `casts` is 1 if
    what stands in its way throws a shadow.
    """

    kind: int
    pos: wp.vec3
    dir: wp.vec3
    ambient: wp.vec3
    diffuse: wp.vec3
    specular: wp.vec3
    attenuation: wp.vec3
    cutoff: float
    exponent: float
    casts: int


Lights = wp.array2d(dtype=Light)


@wp.struct
class Lanes:
    """What each of n lanes has of its own, and the ray tracer's index over it.

    Attributes:
      bodies: [n, G]; lights: [n, L].
      shown: [S] ids of the geoms that cameras may see.
      tree: over these geoms of all lanes; roots: [n] each lane's part of it.
    """

    bodies: wp.array2d(dtype=Body)
    lights: wp.array2d(dtype=Light)
    shown: wp.array(dtype=int)
    tree: wp.uint64
    roots: wp.array(dtype=int)


@wp.struct
class Ray:
    """A pixel's line of sight: `origin + z * along` is what is seen at the optical depth z.

    Attributes:
      origin: the eye; behind a mirror, the mirrored eye.
      along: with the depth 1 along the optical axis.
      right, down: change of `along` to the next pixel.
      ahead: the direction that the camera looks in.
    """

    origin: wp.vec3
    along: wp.vec3
    right: wp.vec3
    down: wp.vec3
    ahead: wp.vec3
