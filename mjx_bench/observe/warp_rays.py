"""Warp functions that cast the few rays that MJX's ray tracer does not: beside pixels' centres, through glass, to lights."""

# ruff: noqa: UP018, RUF046 - Warp takes its types from these calls, and knows no `in`.
# Warp's types are not Python's.
# mypy: ignore-errors

import warp as wp
from mujoco.mjx.third_party.mujoco_warp._src.ray import (
    ray_box,
    ray_capsule,
    ray_cylinder,
    ray_ellipsoid,
    ray_mesh_with_bvh,
    ray_plane,
    ray_sphere,
)

from mjx_bench.observe.warp_shading import way_to
from mjx_bench.observe.warp_structs import (
    BOX,
    CAPSULE,
    CYLINDER,
    ELLIPSOID,
    MESH,
    PLANE,
    SPHERE,
    Body,
    Geom,
    Lanes,
    Ray,
    Stage,
)

wp.set_module_options({"enable_backward": False})

OPAQUE = wp.constant(0.995)  # from this alpha on, MuJoCo draws a geom as opaque

_FAR = wp.constant(1.0e10)
_CLEAR = wp.constant(1.0e-3)  # metres that a shadow keeps from what throws it, which else would lie in its own

Seen = wp.array2d(dtype=wp.vec2i)


@wp.func
def _meet(
    geom: Geom, body: Body, trees: wp.array(dtype=wp.uint64), start: wp.vec3, along: wp.vec3, limit: float
) -> float:
    """Distance at which a line (`along` of length 1) enters a geom from outside; negative if not before `limit`."""
    kind = geom.kind
    distance = float(-1.0)
    normal = wp.vec3(0.0)
    if kind == MESH:
        distance, normal, _u, _v, _f, _m = ray_mesh_with_bvh(
            trees, geom.mesh, body.pos, body.rot, start, along, limit, True
        )
    elif kind == BOX:
        distance, _all, normal = ray_box(body.pos, body.rot, body.size, start, along)
    elif kind == PLANE:
        distance, normal = ray_plane(body.pos, body.rot, body.size, start, along)
    elif kind == SPHERE:
        distance, normal = ray_sphere(body.pos, body.size[0] * body.size[0], start, along)
    elif kind == CAPSULE:
        distance, normal = ray_capsule(body.pos, body.rot, body.size, start, along)
    elif kind == ELLIPSOID:
        distance, normal = ray_ellipsoid(body.pos, body.rot, body.size, start, along)
    elif kind == CYLINDER:
        distance, normal = ray_cylinder(body.pos, body.rot, body.size, start, along)
    if wp.dot(normal, along) > 0.0:
        return -1.0
    return distance


@wp.func
def cast(stage: Stage, lanes: Lanes, n: int, ray: Ray, nearest: float):
    """The first opaque geom beyond the depth `nearest`, and its depth; -1 if there is none."""
    stretch = wp.length(ray.along)
    along = ray.along / stretch
    start = ray.origin + nearest * ray.along
    best = float(_FAR)
    found = int(-1)
    item = int(0)
    query = wp.bvh_query_ray(lanes.tree, start, along, lanes.roots[n])
    while wp.bvh_query_next(query, item, best):
        g = lanes.shown[item - n * lanes.shown.shape[0]]
        if lanes.bodies[n, g].color[3] >= OPAQUE:
            t = _meet(stage.geoms[g], lanes.bodies[n, g], stage.trees, start, along, best)
            # Where two geoms coincide the later one shows, as in OpenGL's depth test.
            if t >= 0.0 and (t < best or (t == best and g > found)):
                best = t
                found = g
    return found, nearest + best / stretch


@wp.func
def shadows(stage: Stage, lanes: Lanes, n: int, p: wp.vec3, ahead: wp.vec3) -> int:
    """A bit for each light whose way to `p` is blocked."""
    dark = int(0)
    for i in range(lanes.lights.shape[1]):
        light = lanes.lights[n, i]
        if light.casts == 1:
            along, distance = way_to(light, p, ahead)
            item = int(0)
            query = wp.bvh_query_ray(lanes.tree, p, along, lanes.roots[n])
            while wp.bvh_query_next(query, item, distance):
                g = lanes.shown[item - n * lanes.shown.shape[0]]
                if lanes.bodies[n, g].color[3] > 0.0:
                    t = _meet(stage.geoms[g], lanes.bodies[n, g], stage.trees, p, along, distance)
                    if t > _CLEAR and t < distance:
                        dark = dark | (1 << i)
                        break
    return dark


@wp.func
def nearby(stage: Stage, lanes: Lanes, seen: Seen, n: int, here: int, beside: wp.vec4i, ray: Ray):
    """What a ray through a pixel meets first of the geoms that the pixel and its neighbours show, and its depth."""
    stretch = wp.length(ray.along)
    along = ray.along / stretch
    best = float(_FAR)
    found = int(-1)
    for i in range(5):
        g = seen[n, here][0]
        if i > 0:
            g = seen[n, here + beside[i - 1]][0]
        if g >= 0 and g != found:
            t = _meet(stage.geoms[g], lanes.bodies[n, g], stage.trees, ray.origin, along, best)
            if t >= 0.0 and (t < best or (t == best and g > found)):
                best = t
                found = g
    return found, best / stretch
