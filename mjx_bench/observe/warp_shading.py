"""Warp functions that colour a surface the way MuJoCo's OpenGL renderer does, whose pictures policies were trained on.

That renderer is OpenGL's fixed function: light is computed at the vertices of what MuJoCo draws (triangles of a mesh, a grid
on every side of a box), clamped to 1, interpolated, and only then multiplied by the texture, which is read from a pyramid
of ever smaller copies. A ray tracer lights pixels, multiplies first and clamps last; in scenes that are lit brighter than
1, as LIBERO's kitchens are, that alone is the difference between a wooden table and a white one.
"""

# ruff: noqa: UP018, RUF046 - Warp takes its types from these calls, and knows no `in`.
# Warp's types are not Python's.
# mypy: ignore-errors

import warp as wp

from mjx_bench.observe.warp_sampling import sample, texture_color
from mjx_bench.observe.warp_structs import (
    BOX,
    BY_VERTEX,
    CAPSULE,
    CYLINDER,
    ELLIPSOID,
    HEAD,
    MESH,
    SPHERE,
    SPOT,
    UNTEXTURED,
    Body,
    Geom,
    Light,
    Lights,
    Ray,
    Stage,
    Textures,
)

wp.set_module_options({"enable_backward": False})


@wp.func
def way_to(light: Light, p: wp.vec3, ahead: wp.vec3):
    """Direction from `p` to a light, and its distance (very large for one that has no place)."""
    if light.kind == SPOT:
        offset = light.pos - p
        distance = wp.length(offset)
        return offset / distance, distance
    if light.kind == HEAD:
        return -ahead, 1.0e10
    return -light.dir, 1.0e10


@wp.func
def _vertex_light(lights: Lights, n: int, body: Body, p: wp.vec3, normal: wp.vec3, ray: Ray, dark: int) -> wp.vec3:
    """Colour of a vertex, as the OpenGL 1.5 specification has it in section 2.14.1, without lights whose bit is in `dark`.

    MuJoCo draws once with all lights that cast no shadow, and once more for each one that does. What each drawing adds is at
    most 1.
    """
    color = wp.vec3(body.color[0], body.color[1], body.color[2])
    to_eye = wp.normalize(ray.origin - p)
    sum = body.emission * color
    shadowed = wp.vec3(0.0)
    for i in range(lights.shape[1]):
        light = lights[n, i]
        to_light, distance = way_to(light, p, ray.ahead)
        strength = float(1.0)
        if (dark >> i) & 1 == 1:
            strength = 0.0
        elif light.kind == SPOT:
            fall = light.attenuation
            strength = 1.0 / (fall[0] + distance * (fall[1] + distance * fall[2]))
            inside = -wp.dot(to_light, light.dir)
            if inside < light.cutoff:
                strength = 0.0
            elif light.exponent > 0.0:
                strength *= wp.pow(wp.max(inside, 0.0), light.exponent)
        if strength > 0.0:
            received = wp.cw_mul(color, light.ambient)
            facing = wp.dot(normal, to_light)
            if facing > 0.0:
                received += facing * wp.cw_mul(color, light.diffuse)
                if body.specular > 0.0:
                    halfway = wp.max(wp.dot(normal, wp.normalize(to_light + to_eye)), 0.0)
                    received += (body.specular * wp.pow(halfway, body.shininess)) * light.specular
            if light.casts == 1:
                shadowed += wp.min(strength * received, wp.vec3(1.0))
            else:
                sum += strength * received
    return wp.min(sum, wp.vec3(1.0)) + shadowed


@wp.func
def _to_next_pixel(ray: Ray, z: float, normal: wp.vec3, step: wp.vec3) -> wp.vec3:
    """How far the point at depth z moves on its surface from one pixel to the next."""
    toward = wp.dot(normal, ray.along)
    if wp.abs(toward) < 1.0e-6:
        return z * step
    return z * (step - ray.along * (wp.dot(normal, step) / toward))


@wp.func
def _mesh_color(
    stage: Stage, lights: Lights, textures: Textures, n: int, geom: Geom, body: Body, ray: Ray, z: float, dark: int
) -> wp.vec3:
    into = wp.transpose(body.rot)
    along = into @ ray.along
    p = into @ (ray.origin + z * ray.along - body.pos)
    # The triangle is not in the ray tracer's answer: cast the last tenth of a millimetre again, on this mesh alone.
    reach = 1.0e-4 * (0.1 + z) / wp.length(along)
    t = float(0.0)
    u = float(0.0)
    v = float(0.0)
    sign = float(0.0)
    flat = wp.vec3(0.0)  # normal of the triangle
    piece = int(0)
    mesh = stage.meshes[geom.mesh]
    if not wp.mesh_query_ray(stage.trees[geom.mesh], p - reach * along, along, 2.0 * reach, t, u, v, sign, flat, piece):
        return wp.vec3(body.color[0], body.color[1], body.color[2])
    f = mesh.faces + stage.sources[mesh.pieces + piece]
    corners = stage.face_vertices[f]
    v0 = stage.vertices[mesh.vertices + corners[0]]
    e1 = stage.vertices[mesh.vertices + corners[1]] - v0
    e2 = stage.vertices[mesh.vertices + corners[2]] - v0
    # Gradients of the second and the third corner's weight on the triangle's plane.
    area = wp.cross(e1, e2)
    g1 = wp.cross(e2, area) / wp.max(wp.dot(area, area), 1.0e-30)
    g2 = wp.cross(area, e1) / wp.max(wp.dot(area, area), 1.0e-30)
    u = wp.dot(g1, p - v0)
    v = wp.dot(g2, p - v0)
    weights = wp.vec3(1.0 - u - v, u, v)
    normals = stage.face_normals[f]
    light = wp.vec3(0.0)
    for i in range(3):
        vertex = stage.vertices[mesh.vertices + corners[i]]
        normal = stage.normals[mesh.normals + normals[i]]
        # MuJoCo's rule for meshes without places in a texture: a normal 37 degrees off its triangle is not used.
        if mesh.places < 0 and wp.dot(normal, flat) < 0.8:
            normal = flat
        light += weights[i] * _vertex_light(lights, n, body, body.pos + body.rot @ vertex, body.rot @ normal, ray, dark)
    if geom.mapping == UNTEXTURED:
        return light
    right = into @ _to_next_pixel(ray, z, body.rot @ flat, ray.right)
    down = into @ _to_next_pixel(ray, z, body.rot @ flat, ray.down)
    if geom.mapping != BY_VERTEX:
        return wp.cw_mul(light, texture_color(geom, textures, body.size, flat, p, p + right, p + down))
    places = stage.face_places[f]
    uv0 = stage.places[mesh.places + places[0]]
    uv1 = stage.places[mesh.places + places[1]]
    uv2 = stage.places[mesh.places + places[2]]
    across = wp.dot(g1, right) * (uv1 - uv0) + wp.dot(g2, right) * (uv2 - uv0)
    below = wp.dot(g1, down) * (uv1 - uv0) + wp.dot(g2, down) * (uv2 - uv0)
    uv = weights[0] * uv0 + weights[1] * uv1 + weights[2] * uv2
    return wp.cw_mul(light, sample(textures, geom.texture, uv, across, below))


@wp.func
def _box_axis(size: wp.vec3, p: wp.vec3) -> int:
    """The axis whose side of a box `p` lies on."""
    q = wp.cw_div(p, size)
    axis = int(0)
    if wp.abs(q[1]) > wp.abs(q[0]):
        axis = 1
    if wp.abs(q[2]) > wp.abs(q[axis]):
        axis = 2
    return axis


@wp.func
def _box_light(
    grid: float, lights: Lights, n: int, body: Body, p: wp.vec3, axis: int, normal: wp.vec3, ray: Ray, dark: int
) -> wp.vec3:
    """Light on a side of a box from the corners of the triangle around `p`; `p` and `normal` in the box's frame."""
    i = (axis + 1) % 3
    j = (axis + 2) % 3
    a = 0.5 * grid * (p[i] / body.size[i] + 1.0)
    b = 0.5 * grid * (p[j] / body.size[j] + 1.0)
    a0 = wp.clamp(wp.floor(a), 0.0, grid - 1.0)
    b0 = wp.clamp(wp.floor(b), 0.0, grid - 1.0)
    # Of the two triangles of a quad, the one with the corner (0, 0) or the one with (1, 1); both have the other two.
    own = wp.where(a - a0 + b - b0 < 1.0, 0.0, 1.0)
    da = wp.abs(a - a0 - own)
    db = wp.abs(b - b0 - own)
    weights = wp.vec3(1.0 - da - db, da, db)
    light = wp.vec3(0.0)
    for k in range(3):
        corner = wp.cw_mul(normal, body.size)
        corner[i] = (2.0 * (a0 + wp.where(k == 1, 1.0 - own, own)) / grid - 1.0) * body.size[i]
        corner[j] = (2.0 * (b0 + wp.where(k == 2, 1.0 - own, own)) / grid - 1.0) * body.size[j]
        light += weights[k] * _vertex_light(lights, n, body, body.pos + body.rot @ corner, body.rot @ normal, ray, dark)
    return light


@wp.func
def _smooth_normal(kind: int, size: wp.vec3, p: wp.vec3) -> wp.vec3:
    """The outward normal of a geom that is neither box nor mesh, at a point of its surface, in its frame."""
    if kind == SPHERE:
        return wp.normalize(p)
    if kind == ELLIPSOID:
        return wp.normalize(wp.cw_div(p, wp.cw_mul(size, size)))
    if kind == CAPSULE:
        return wp.normalize(wp.vec3(p[0], p[1], p[2] - wp.clamp(p[2], -size[1], size[1])))
    if kind == CYLINDER:
        if wp.abs(p[2]) / size[1] < wp.length(wp.vec2(p[0], p[1])) / size[0]:
            return wp.normalize(wp.vec3(p[0], p[1], 0.0))
        return wp.vec3(0.0, 0.0, wp.sign(p[2]))
    return wp.vec3(0.0, 0.0, 1.0)


@wp.func
def surface_color(
    stage: Stage, lights: Lights, textures: Textures, n: int, geom: Geom, body: Body, ray: Ray, z: float, dark: int
) -> wp.vec3:
    """Colour of a geom of lane n where the ray meets it at depth z, without the lights in `dark`."""
    if geom.kind == MESH:
        return _mesh_color(stage, lights, textures, n, geom, body, ray, z, dark)
    into = wp.transpose(body.rot)
    point = ray.origin + z * ray.along
    p = into @ (point - body.pos)
    normal = wp.vec3(0.0)
    light = wp.vec3(0.0)
    if geom.kind == BOX:
        axis = _box_axis(body.size, p)
        normal[axis] = wp.sign(p[axis])
        light = _box_light(float(stage.grid), lights, n, body, p, axis, normal, ray, dark)
    else:
        normal = _smooth_normal(geom.kind, body.size, p)
        light = _vertex_light(lights, n, body, point, body.rot @ normal, ray, dark)
    if geom.mapping == UNTEXTURED:
        return light
    right = into @ _to_next_pixel(ray, z, body.rot @ normal, ray.right)
    down = into @ _to_next_pixel(ray, z, body.rot @ normal, ray.down)
    return wp.cw_mul(light, texture_color(geom, textures, body.size, normal, p, p + right, p + down))
