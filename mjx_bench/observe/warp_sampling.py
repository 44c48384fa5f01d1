"""Warp functions that read textures as OpenGL does in MuJoCo: where on one a point of a geom lies, and the colour there."""

# ruff: noqa: UP018, RUF046, SIM109 - Warp takes its types from these calls, and knows no `in`.
# Warp's types are not Python's.
# mypy: ignore-errors

import warp as wp

from mjx_bench.observe.warp_structs import (
    BOX,
    BY_PLANE,
    BY_SIDES,
    CAPSULE,
    CYLINDER,
    ELLIPSOID,
    MESH,
    PLANE,
    SPHERE,
    Geom,
    Level,
    Textures,
)

wp.set_module_options({"enable_backward": False})


@wp.func
def _texel(texels: wp.array(dtype=wp.uint8), at: int) -> wp.vec3:
    return wp.vec3(float(texels[at]), float(texels[at + 1]), float(texels[at + 2]))


@wp.func
def _inside(i: int, size: int, repeats: int) -> int:
    if repeats == 1:
        return (i % size + size) % size
    return wp.clamp(i, 0, size - 1)


@wp.func
def _smooth(t: Textures, level: Level, repeats: int, uv: wp.vec2) -> wp.vec3:
    """Bytes of one copy of a texture at `uv`, between the four nearest texels."""
    x = uv[0] * float(level.width) - 0.5
    y = uv[1] * float(level.height) - 0.5
    i = int(wp.floor(x))
    j = int(wp.floor(y))
    left = 3 * _inside(i, level.width, repeats)
    right = 3 * _inside(i + 1, level.width, repeats)
    top = level.start + 3 * level.width * _inside(j, level.height, repeats)
    bottom = level.start + 3 * level.width * _inside(j + 1, level.height, repeats)
    a = x - wp.floor(x)
    b = y - wp.floor(y)
    upper = (1.0 - a) * _texel(t.texels, top + left) + a * _texel(t.texels, top + right)
    lower = (1.0 - a) * _texel(t.texels, bottom + left) + a * _texel(t.texels, bottom + right)
    return (1.0 - b) * upper + b * lower


@wp.func
def sample(t: Textures, texture: int, uv: wp.vec2, across: wp.vec2, down: wp.vec2) -> wp.vec3:
    """A texture at `uv`, between the two copies that the change of `uv` to the next pixels asks for.

    That change in texels is the scale factor of the OpenGL 1.5 specification, section 3.8.8.
    """
    pyramid = t.pyramids[texture]
    full = t.levels[pyramid.first]
    size = wp.vec2(float(full.width), float(full.height))
    a = wp.cw_mul(across, size)
    b = wp.cw_mul(down, size)
    detail = 0.5 * wp.log2(wp.max(wp.max(wp.dot(a, a), wp.dot(b, b)), 1.0))
    k = wp.min(int(detail), pyramid.count - 1)
    color = _smooth(t, t.levels[pyramid.first + k], pyramid.repeats, uv)
    if detail > 0.0 and k + 1 < pyramid.count:
        blend = detail - float(k)
        color = (1.0 - blend) * color + blend * _smooth(t, t.levels[pyramid.first + k + 1], pyramid.repeats, uv)
    return color / 255.0


@wp.func
def _cube_side(d: wp.vec3) -> int:
    """The side of a cube map that a direction meets, in OpenGL's order."""
    axis = int(0)
    if wp.abs(d[1]) > wp.abs(d[0]):
        axis = 1
    if wp.abs(d[2]) > wp.abs(d[axis]):
        axis = 2
    return 2 * axis + wp.where(d[axis] < 0.0, 1, 0)


@wp.func
def _cube_place(d: wp.vec3, side: int) -> wp.vec2:
    """Where a direction meets a cube map's side (OpenGL 1.5 specification, table 3.19)."""
    st = wp.vec2(-d[0], -d[1])
    if side == 0:
        st = wp.vec2(-d[2], -d[1])
    elif side == 1:
        st = wp.vec2(d[2], -d[1])
    elif side == 2:
        st = wp.vec2(d[0], d[2])
    elif side == 3:
        st = wp.vec2(d[0], -d[2])
    elif side == 4:
        st = wp.vec2(d[0], -d[1])
    return 0.5 * (st / wp.max(wp.abs(d[side // 2]), 1.0e-9) + wp.vec2(1.0))


@wp.func
def cube_color(textures: Textures, first: int, mapping: int, d: wp.vec3, right: wp.vec3, down: wp.vec3) -> wp.vec3:
    """Colour of a cube map in direction `d`; `right` and `down` are the directions of the next pixels."""
    side = _cube_side(d)
    uv = _cube_place(d, side)
    texture = first + wp.where(mapping == BY_SIDES, side, 0)
    return sample(textures, texture, uv, _cube_place(right, side) - uv, _cube_place(down, side) - uv)


@wp.func
def _extent(kind: int, size: wp.vec3) -> wp.vec3:
    """Half of a geom's extent along its axes; of a capsule without its caps."""
    if kind == SPHERE:
        return wp.vec3(size[0])
    if kind == CYLINDER or kind == CAPSULE:
        return wp.vec3(size[0], size[0], size[1])
    return size


@wp.func
def _on_unit_body(kind: int, size: wp.vec3, p: wp.vec3) -> wp.vec3:
    """A point of a geom's frame in the frame of the body that OpenGL scales to the geom."""
    if kind == PLANE or kind == MESH:
        return p
    q = wp.cw_div(p, _extent(kind, size))
    if kind == CAPSULE and wp.abs(q[2]) > 1.0:
        q[2] = wp.sign(p[2]) * (1.0 + (wp.abs(p[2]) - size[1]) / size[0])
    return q


@wp.func
def _around(p: wp.vec3) -> float:
    """How far around the z axis, 0 to 1."""
    turn = wp.atan2(p[1], p[0]) / (2.0 * wp.pi)
    return turn - wp.floor(turn)


@wp.func
def _place(kind: int, size: wp.vec3, normal: wp.vec3, p: wp.vec3) -> wp.vec2:
    """Place of `p` in a flat texture that covers a geom (or its side with this normal) once; the geom's frame."""
    q = wp.cw_div(p, _extent(kind, size))
    if kind == BOX:
        if normal[0] != 0.0:
            return 0.5 * wp.vec2(1.0 + normal[0] * q[1], 1.0 - q[2])
        if normal[1] != 0.0:
            return 0.5 * wp.vec2(1.0 - normal[1] * q[0], 1.0 - q[2])
        return 0.5 * wp.vec2(1.0 + q[0], 1.0 - normal[2] * q[1])
    if kind == SPHERE or kind == ELLIPSOID:
        return wp.vec2(_around(q), 0.5 - wp.asin(wp.clamp(wp.normalize(q)[2], -1.0, 1.0)) / wp.pi)
    if kind == CYLINDER and normal[2] != 0.0:
        return 0.5 * wp.vec2(1.0 + q[0], 1.0 + q[1])
    v = 0.5 - 0.5 * q[2]
    if kind == CAPSULE and wp.abs(q[2]) > 1.0:
        v = wp.asin(wp.clamp((wp.abs(p[2]) - size[1]) / size[0], 0.0, 1.0)) * 2.0 / wp.pi
        if q[2] > 0.0:
            v = 1.0 - v
        else:
            v = -v
    if kind == CYLINDER or kind == CAPSULE:
        return wp.vec2(_around(q), v)
    # Planes; a side of size 0 has no end, and repeats every two metres.
    uv = wp.vec2(0.5 * p[0], -0.5 * p[1])
    if size[0] > 0.0:
        uv[0] = 0.5 + 0.5 * q[0]
    if size[1] > 0.0:
        uv[1] = 0.5 - 0.5 * q[1]
    return uv


@wp.func
def _flat_color(
    geom: Geom, textures: Textures, size: wp.vec3, normal: wp.vec3, p: wp.vec3, right: wp.vec3, down: wp.vec3
) -> wp.vec3:
    """Colour of a flat texture at `p`, with the arguments of `texture_color`."""
    uv = _place(geom.kind, size, normal, p)
    across = _place(geom.kind, size, normal, right) - uv
    below = _place(geom.kind, size, normal, down) - uv
    if geom.kind != BOX and geom.kind != PLANE:
        # Around the seam the next pixel is one turn off.
        across[0] -= wp.round(across[0])
        below[0] -= wp.round(below[0])
    repeat = geom.repeat
    if geom.per_metre == 1:
        extent = _extent(geom.kind, size)
        if geom.kind == CYLINDER or geom.kind == CAPSULE or extent[0] > 0.0:
            repeat[0] = repeat[0] * extent[0]
        if extent[1] > 0.0:
            repeat[1] = repeat[1] * extent[1]
    uv = wp.cw_mul(uv, repeat)
    if geom.kind == PLANE and (size[0] <= 0.0 or size[1] <= 0.0):
        uv -= wp.vec2(0.5)
    return sample(textures, geom.texture, uv, wp.cw_mul(across, repeat), wp.cw_mul(below, repeat))


@wp.func
def _projected(geom: Geom, size: wp.vec3, p: wp.vec3) -> wp.vec2:
    """Place in a texture laid on a mesh that has no places of its own, along its z axis."""
    scale = geom.repeat
    if geom.per_metre == 0:
        scale = wp.vec2(scale[0] / wp.max(size[0], 1.0e-9), scale[1] / wp.max(size[1], 1.0e-9))
    return wp.vec2(0.5 * scale[0] * p[0] - 0.5, -0.5 * scale[1] * p[1] - 0.5)


@wp.func
def texture_color(
    geom: Geom, textures: Textures, size: wp.vec3, normal: wp.vec3, p: wp.vec3, right: wp.vec3, down: wp.vec3
) -> wp.vec3:
    """Colour of the texture at `p`; `right` and `down` are what the next pixels see, all in the geom's frame."""
    if geom.mapping == BY_PLANE:
        if geom.kind != MESH:
            return _flat_color(geom, textures, size, normal, p, right, down)
        uv = _projected(geom, size, p)
        return sample(textures, geom.texture, uv, _projected(geom, size, right) - uv, _projected(geom, size, down) - uv)
    stretch = wp.vec3(1.0)
    if geom.per_metre == 1:
        stretch = _extent(geom.kind, size)
    return cube_color(
        textures,
        geom.texture,
        geom.mapping,
        wp.cw_mul(_on_unit_body(geom.kind, size, p), stretch),
        wp.cw_mul(_on_unit_body(geom.kind, size, right), stretch),
        wp.cw_mul(_on_unit_body(geom.kind, size, down), stretch),
    )
