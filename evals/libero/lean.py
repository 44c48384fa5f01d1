"""The `lean` form of LIBERO's scenes: the same bodies, joints, masses and pictures, with few and simple collision shapes.

MJX's JAX implementation computes every contact that there could be, at every step: thousands in a scene as LIBERO has
it. In its lean form a scene has some hundreds. What collides is fitted (`lean_shapes.py`); what is weighed and what is seen
stays as it is.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from evals.libero import lean_shapes
from evals.libero.lean_fits import FITS
from evals.libero.lean_shapes import MEETS, Layer, Primitive
from mjx_bench.errors import BenchError
from mjx_bench.task import Scene, Task

if TYPE_CHECKING:
    import mujoco

# Changes when a lean scene does: part of a task's version.
REVISION = 1

ITERATIONS = 30  # of the solver and of its line search at most; MuJoCo needs one to five

COLLISION_GROUP = 0  # which robosuite never shows

_TABLE = "table_collision"
# The robot's geoms: what keeps its shape, what becomes a box, and a capsule. Its pedestal and link 0, which stands on it,
# are out of reach of everything and touch nothing.
_PADS = ("gripper0_finger1_pad_collision", "gripper0_finger2_pad_collision")
_BOXED = {
    "gripper0_hand_collision": Layer.HAND,
    "gripper0_finger1_collision": Layer.HAND,
    "gripper0_finger2_collision": Layer.HAND,
}
_CAPSULES = {f"robot0_link{i}_collision": Layer.FOREARM if i >= 5 else Layer.ARM for i in range(1, 7)}


def lean_task(task: Task) -> Task:
    """The task on the lean form of its scene.

    Raises:
      BenchError: an entity for which there is no fit, or a variant that changes shapes (`sources.edits.with_spec`).
    """
    if task.extra.get("reshaped"):
        raise BenchError(
            f"{task.suite} task {task.index}: its variant changes the shapes of the scene; run it with --scene-form exact"
        )
    for name, entity in task.scene.entities.items():
        if entity.category not in FITS:
            raise BenchError(
                f"{task.suite} task {task.index}: there is no lean form of {name!r} ({entity.category});"
                " libero_object and libero_spatial have one, others run with --scene-form exact"
            )
    return dataclasses.replace(task, scene=lean_scene(task.scene), version=f"{task.version}-lean{REVISION}")


def lean_scene(exact: Scene) -> Scene:
    """The lean form of a scene whose entities all have a fit; compiles the exact one, once a process."""
    plan = _PLANS.get(exact.key) or _PLANS.setdefault(exact.key, _plan(exact))
    entities = {
        name: dataclasses.replace(
            entity, contact_geoms=tuple(s.name for s in plan.shapes if s.name.startswith(f"{name}_lean"))
        )
        for name, entity in exact.entities.items()
    }
    return dataclasses.replace(
        exact,
        key=f"{exact.key}-lean{REVISION}",
        entities=entities,
        exact=exact,
        load_spec=functools.partial(_load, plan, exact.load_spec),
        load_textured_spec=exact.load_textured_spec and functools.partial(_load, plan, exact.load_textured_spec),
    )


@dataclasses.dataclass(frozen=True)
class _Shape:
    """A primitive, the name of its geom, its body, and the geom that it takes friction and softness from."""

    name: str
    body: str
    like: str
    primitive: Primitive


@dataclasses.dataclass(frozen=True)
class _Inertia:
    """What a body weighs: mass (kg), centre [3] and orientation [4] of its inertia, its principal moments [3]."""

    mass: float
    ipos: np.ndarray
    iquat: np.ndarray
    inertia: np.ndarray


@dataclasses.dataclass(frozen=True)
class _Plan:
    """What to change in a spec: shapes to add, layers of geoms that stay, weights and statistics to keep."""

    shapes: tuple[_Shape, ...]
    kept: Mapping[str, Layer]
    inertias: Mapping[str, _Inertia]
    stat: Mapping[str, float | np.ndarray]


_PLANS: dict[str, _Plan] = {}


def _plan(exact: Scene) -> _Plan:
    model = exact.load_spec().compile()
    shapes: list[_Shape] = []
    for name, entity in exact.entities.items():
        for suffix, fit in FITS[entity.category].items():
            body = model.body(f"{name}_{suffix}")
            colliding = [g for g in entity.contact_geoms if model.geom(g).bodyid[0] == body.id]
            for primitive in fit(lean_shapes.boxes_of(model, body.id)):
                shapes.append(_Shape(f"{name}_lean{len(shapes)}", body.name, colliding[0], primitive))
    for geoms, fit_mesh in ((_BOXED, lean_shapes.mesh_box), (_CAPSULES, lean_shapes.mesh_capsule)):
        for geom, layers in geoms.items():
            primitive = fit_mesh(model, model.geom(geom).id, layers)
            shapes.append(_Shape(f"{geom}_lean", model.body(model.geom(geom).bodyid[0]).name, geom, primitive))
    planes = (model.geom_type == lean_shapes.PLANE) & (model.geom_contype != 0)
    kept = dict.fromkeys(_PADS, Layer.PAD) | {
        name: Layer.GROUND for g in range(model.ngeom) if (name := model.geom(g).name) == _TABLE or planes[g]
    }
    return _Plan(
        tuple(shapes),
        kept,
        {
            model.body(b).name: _Inertia(
                float(model.body_mass[b]),
                model.body_ipos[b].copy(),
                model.body_iquat[b].copy(),
                model.body_inertia[b].copy(),
            )
            for b in range(1, model.nbody)
            if model.body_mass[b]
        },
        {name: getattr(model.stat, name) for name in ("extent", "center", "meansize", "meanmass")},
    )


def _load(plan: _Plan, load_exact: Callable[[], mujoco.MjSpec], /) -> mujoco.MjSpec:
    """A fresh spec of the exact scene, changed by the plan."""
    import mujoco

    spec = load_exact()
    like = {shape.like: _surface(spec.geom(shape.like)) for shape in plan.shapes}
    for body in spec.bodies:
        if (weight := plan.inertias.get(body.name)) is not None:
            body.mass, body.ipos, body.iquat, body.inertia = weight.mass, weight.ipos, weight.iquat, weight.inertia
            body.fullinertia = np.full(6, np.nan)
            body.explicitinertial = True
    # MJX's elliptic cones do not converge here in single precision: objects at rest are thrown about, and a step takes ten
    # times as long. With pyramids, 150 steps from an initial state end where MuJoCo's do, to 1 mm.
    spec.option.cone = mujoco.mjtCone.mjCONE_PYRAMIDAL
    spec.option.iterations = spec.option.ls_iterations = ITERATIONS
    for name, value in plan.stat.items():
        setattr(spec.stat, name, value)
    for geom in list(spec.geoms):
        layers = plan.kept.get(geom.name, Layer(0))
        if not layers and (geom.contype or geom.conaffinity) and geom.group == COLLISION_GROUP:
            spec.delete(geom)
        else:
            geom.contype, geom.conaffinity = _bits(layers)
    kinds = {
        "box": mujoco.mjtGeom.mjGEOM_BOX,
        "capsule": mujoco.mjtGeom.mjGEOM_CAPSULE,
        "sphere": mujoco.mjtGeom.mjGEOM_SPHERE,
    }
    for shape in plan.shapes:
        primitive = shape.primitive
        contype, conaffinity = _bits(primitive.layers)
        spec.body(shape.body).add_geom(
            name=shape.name,
            type=kinds[primitive.kind],
            size=[*primitive.size, 0.0, 0.0][:3],
            pos=primitive.pos,
            quat=lean_shapes.quat_of(primitive.rot),
            contype=contype,
            conaffinity=conaffinity,
            group=COLLISION_GROUP,
            **like[shape.like],
        )
    return spec


def _surface(geom: mujoco.MjsGeom) -> dict[str, Any]:
    """What contacts of a geom depend on besides its shape."""
    names = ("condim", "priority", "friction", "solmix", "solref", "solimp", "margin", "gap")
    return {name: np.array(value) if isinstance(value := getattr(geom, name), np.ndarray) else value for name in names}


def _bits(layers: Layer) -> tuple[int, int]:
    """contype and conaffinity of a geom of these layers."""
    return int(layers), int(functools.reduce(Layer.__or__, (MEETS[layer] for layer in layers), Layer(0)))
