"""The Warp kernel that turns what MJX's ray tracer saw in each pixel, geom and depth, into a picture.

The ray tracer sees one surface through a pixel's centre. What needs more rays is added here, for the few pixels that need
it: four samples where an edge runs through a pixel, what stands behind a transparent surface, what a mirror shows.
"""

# ruff: noqa: UP018, RUF046 - Warp takes its types from these calls, and knows no `in`.
# Warp's types are not Python's.
# mypy: ignore-errors

import warp as wp

from mjx_bench.observe.warp_rays import OPAQUE, Seen, cast, nearby, shadows
from mjx_bench.observe.warp_sampling import cube_color
from mjx_bench.observe.warp_shading import surface_color
from mjx_bench.observe.warp_structs import BOX, Body, Lanes, Ray, Stage, Textures

wp.set_module_options({"enable_backward": False})

# How much 1/depth may bend from pixel to pixel, relative to itself, before it counts as an edge; a plane's does not bend.
_BEND = wp.constant(0.02)
# Samples of one geom belong to one surface up to this difference of their depths, relative to them.
_SAME = wp.constant(0.01)
# Where in a pixel OpenGL implementations put four samples: no two in a row or a column.
_SAMPLES = wp.constant(
    wp.types.matrix(shape=(4, 2), dtype=float)(0.375, 0.125, 0.875, 0.375, 0.125, 0.625, 0.625, 0.875)
)
_Colors = wp.types.matrix(shape=(4, 3), dtype=float)

Depths = wp.array2d(dtype=float)


@wp.func
def _mirrored(body: Body, top: float, ray: Ray) -> Ray:
    """The ray as a geom's side at z = `top` in its frame reflects it: the same depths, seen from the mirrored eye."""
    up = wp.vec3(body.rot[0, 2], body.rot[1, 2], body.rot[2, 2])
    height = wp.dot(ray.origin - body.pos, up) - top
    out = Ray()
    out.origin = ray.origin - 2.0 * height * up
    out.along = ray.along - 2.0 * wp.dot(ray.along, up) * up
    out.right = ray.right - 2.0 * wp.dot(ray.right, up) * up
    out.down = ray.down - 2.0 * wp.dot(ray.down, up) * up
    out.ahead = ray.ahead
    return out


@wp.func
def _sky_color(stage: Stage, textures: Textures, ray: Ray) -> wp.vec3:
    if stage.sky < 0:
        return wp.vec3(0.0)
    a = ray.along
    b = ray.along + ray.right
    c = ray.along + ray.down
    # MuJoCo turns the sky's cube by 90 degrees about x.
    return cube_color(
        textures,
        stage.sky,
        stage.sky_mapping,
        wp.vec3(a[0], a[2], -a[1]),
        wp.vec3(b[0], b[2], -b[1]),
        wp.vec3(c[0], c[2], -c[1]),
    )


@wp.func
def _opaque_color(stage: Stage, lanes: Lanes, textures: Textures, n: int, g: int, ray: Ray, z: float) -> wp.vec3:
    """Colour of an opaque geom at depth z with what it mirrors, or of the sky where g is -1."""
    if g < 0:
        return _sky_color(stage, textures, ray)
    body = lanes.bodies[n, g]
    dark = shadows(stage, lanes, n, ray.origin + z * ray.along, ray.ahead)
    color = surface_color(stage, lanes.lights, textures, n, stage.geoms[g], body, ray, z, dark)
    if body.reflectance > 0.0:
        p = wp.transpose(body.rot) @ (ray.origin + z * ray.along - body.pos)
        top = wp.where(stage.geoms[g].kind == BOX, body.size[2], 0.0)
        if p[2] > top - 1.0e-4:
            mirrored = _mirrored(body, top, ray)
            seen, far = cast(stage, lanes, n, mirrored, z + 1.0e-4)
            if seen >= 0:
                # MuJoCo dims the mirrored geom's colour but not its shine, and adds both pictures.
                image = lanes.bodies[n, seen]
                image.color = body.reflectance * image.color
                color += surface_color(stage, lanes.lights, textures, n, stage.geoms[seen], image, mirrored, far, 0)
                color = wp.min(color, wp.vec3(1.0))
    return color


@wp.func
def _color(stage: Stage, lanes: Lanes, textures: Textures, n: int, g: int, ray: Ray, z: float) -> wp.vec3:
    """Colour of what a ray meets first, with what shows through it."""
    if g >= 0:
        body = lanes.bodies[n, g]
        if body.color[3] < OPAQUE:
            behind, far = cast(stage, lanes, n, ray, z)
            # MuJoCo blends every transparent geom twice, front to back and back to front.
            through = (1.0 - body.color[3]) * (1.0 - body.color[3])
            front = surface_color(stage, lanes.lights, textures, n, stage.geoms[g], body, ray, z, 0)
            return through * _opaque_color(stage, lanes, textures, n, behind, ray, far) + (1.0 - through) * front
    return _opaque_color(stage, lanes, textures, n, g, ray, z)


@wp.func
def _neighbours(w: int, h: int, x: int, y: int) -> wp.vec4i:
    """Offsets to the pixels left, right, above and below, 0 where the picture ends."""
    return wp.vec4i(
        wp.where(x > 0, -1, 0), wp.where(x < w - 1, 1, 0), wp.where(y > 0, -w, 0), wp.where(y < h - 1, w, 0)
    )


@wp.func
def _is_edge(depth: Depths, seen: Seen, n: int, here: int, beside: wp.vec4i) -> bool:
    """Whether the neighbours of a pixel show another geom, or the same one behind or before."""
    g = seen[n, here][0]
    for i in range(4):
        if seen[n, here + beside[i]][0] != g:
            return True
    if g < 0:
        return False
    z = depth[n, here]
    for i in range(2):
        if beside[2 * i] != 0 and beside[2 * i + 1] != 0:
            bend = z / depth[n, here + beside[2 * i]] + z / depth[n, here + beside[2 * i + 1]] - 2.0
            if wp.abs(bend) > _BEND:
                return True
    return False


@wp.func
def _edge_color(
    stage: Stage,
    lanes: Lanes,
    textures: Textures,
    depth: Depths,
    seen: Seen,
    n: int,
    here: int,
    beside: wp.vec4i,
    ray: Ray,
    corner: wp.vec3,
) -> wp.vec3:
    """Mean of four samples; each surface is coloured once, in the pixel's centre if it shows there, as OpenGL does."""
    geoms = wp.vec4i(-1)
    depths = wp.vec4(0.0)
    colors = _Colors()
    mean = wp.vec3(0.0)
    at = depth[n, here]
    for i in range(4):
        ray.along = corner + _SAMPLES[i, 0] * ray.right + _SAMPLES[i, 1] * ray.down
        g, z = nearby(stage, lanes, seen, n, here, beside, ray)
        known = int(-1)
        for j in range(i):
            if geoms[j] == g and wp.abs(depths[j] - z) <= _SAME * z:
                known = j
        color = wp.vec3(0.0)
        if known >= 0:
            color = wp.vec3(colors[known, 0], colors[known, 1], colors[known, 2])
        else:
            if g == seen[n, here][0] and wp.abs(at - z) <= _SAME * z:
                ray.along = corner + 0.5 * ray.right + 0.5 * ray.down
                color = _color(stage, lanes, textures, n, g, ray, at)
            else:
                color = _color(stage, lanes, textures, n, g, ray, z)
        geoms[i] = g
        depths[i] = z
        colors[i] = color
        mean += 0.25 * color
    return mean


@wp.kernel
def draw(
    stage: Stage,
    lanes: Lanes,
    textures: Textures,
    cameras: wp.array(dtype=int),
    cam_pos: wp.array2d(dtype=wp.vec3),
    cam_rot: wp.array2d(dtype=wp.mat33),
    cam_view: wp.array2d(dtype=float),
    depth: wp.array2d(dtype=float),
    seen: wp.array2d(dtype=wp.vec2i),
    out: wp.array4d(dtype=wp.uint8),
):
    """Pictures [n, C, H, 3 * W] of n lanes from what the ray tracer found: depth and geom of each pixel [n, C * H * W].

    `cam_view` is the height that a camera sees at the depth 1.
    """
    n, c, y, x = wp.tid()
    h = out.shape[2]
    w = out.shape[3] // 3
    rot = cam_rot[n, cameras[c]]
    pixel = cam_view[n, cameras[c]] / float(h)
    ray = Ray()
    ray.origin = cam_pos[n, cameras[c]]
    ray.right = rot @ wp.vec3(pixel, 0.0, 0.0)
    ray.down = rot @ wp.vec3(0.0, -pixel, 0.0)
    ray.ahead = -wp.vec3(rot[0, 2], rot[1, 2], rot[2, 2])
    corner = ray.ahead + (float(x) - 0.5 * float(w)) * ray.right + (float(y) - 0.5 * float(h)) * ray.down
    here = (c * h + y) * w + x
    beside = _neighbours(w, h, x, y)
    color = wp.vec3(0.0)
    if _is_edge(depth, seen, n, here, beside):
        color = _edge_color(stage, lanes, textures, depth, seen, n, here, beside, ray, corner)
    else:
        ray.along = corner + 0.5 * ray.right + 0.5 * ray.down
        color = _color(stage, lanes, textures, n, seen[n, here][0], ray, depth[n, here])
    for i in range(3):
        out[n, c, y, 3 * x + i] = wp.uint8(wp.clamp(color[i], 0.0, 1.0) * 255.0 + 0.5)
