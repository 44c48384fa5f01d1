"""MuJoCo in JAX: one physics step with MJX's own stages, and what MJX cannot simulate, by name.

`mjx.step` computes the position and velocity stages, then actuation, acceleration and constraints. Control laws need the
Jacobian, inertia and bias of the state that the step starts from, which is what those first stages leave; so the law goes in
between, and nothing is computed twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from mujoco import mjx
from mujoco.mjx._src import collision_driver, support

from mjx_bench.control.arm_jax import Seen, jacobian
from mjx_bench.errors import BenchError
from mjx_bench.physics.bearing import bearing
from mjx_bench.physics.grips import held
from mjx_bench.physics.mjx_implicit import implicitfast
from mjx_bench.physics.mjx_program import Law, Parts
from mjx_bench.physics.mjx_rows import CONTROLLER_MOVING, STATE
from mjx_bench.physics.scene import SceneModel

# Integrator to what makes its step of a scene.
_INTEGRATORS: dict[int, Callable[[mujoco.MjModel], Callable[[Any, Any], Any]]] = {
    mujoco.mjtIntegrator.mjINT_EULER.value: lambda model: mjx.euler,
    mujoco.mjtIntegrator.mjINT_IMPLICITFAST.value: implicitfast,
}

# Contacts that a step may compute. The time that XLA takes grows with their square: 20 s for 837 on two processors, nine
# minutes for 4,264. LIBERO's lean scenes have 505 to 837, its exact ones 3,300 to 62,000.
MOST_SLOTS = 2000


class JaxStepper:
    """One physics step of one lane on MJX's JAX implementation; see `mjx_program.Stepper`.

    Args:
      scene: the compiled scene; its contact sensors are not used.
      fields: of the model that each lane has its own of.

    Attributes:
      slots: contacts that every step computes, whether anything touches or not.
      faults: none, since there is a slot for every contact that there could be.
      exclusive: False, any number of programs may run side by side.

    Raises:
      BenchError: a scene that this engine cannot simulate, with the reason by name.
    """

    faults: Mapping[str, int] = {}
    exclusive = False

    def __init__(self, scene: SceneModel, fields: Sequence[str]) -> None:
        refuse(scene.model, fields)
        self.scene = scene
        self._fields = tuple(fields)
        try:
            self._model = mjx.put_model(scene.model, impl="jax")
            self._data = mjx.make_data(self._model)
        except NotImplementedError as error:
            raise _cannot(f"cannot simulate this scene: {error}") from None
        self.slots = int(self._data._impl.ncon)
        self._integrate = _INTEGRATORS[int(scene.model.opt.integrator)](scene.model)
        self._touching = _sides(scene, scene.touch_geoms)
        # Of each grip its hands, of each hand its two pads: every pad with the thing.
        self._pressing = [
            [_sides(scene, [(pad, grip.thing) for pad in hand]) for hand in grip.geoms] for grip in scene.grips
        ]
        self._bearing = _sides(scene, [load.geoms for load in scene.bearings])

    def grown(self) -> None:
        """Nothing could be too small."""

    def bare(self, lanes: int) -> tuple[Any, Any]:
        """Model and data of one lane, for MJX by itself."""
        return self._model, self._data

    def step(self, moving: Parts, given: Parts, law: Law) -> tuple[Parts, Parts]:
        m = self._model.replace(**{name: given[name] for name in self._fields})
        d = self._data.replace(
            **{n: moving[n] for n in STATE},
            **{n: given[n] for n in ("xfrc_applied", "mocap_pos", "mocap_quat")},
        )
        d = mjx.fwd_velocity(m, mjx.fwd_position(m, d))
        judged = seen_of(self.scene, d, moving["qvel"]) | {"touch": self._touches(d), "fault": jnp.zeros((), jnp.int32)}
        ctrl, memory = law(*arm_of(self.scene, m, d), d.ctrl)
        d = mjx.fwd_acceleration(m, mjx.fwd_actuation(m, d.replace(ctrl=ctrl)))
        d = mjx.solve(m, d) if d._impl.nefc else d.replace(qacc=d.qacc_smooth)
        judged["touch"] = self._pushes(m, d, judged["touch"])
        d = self._integrate(m, d)
        return {n: getattr(d, n) for n in STATE} | {n: getattr(memory, n) for n in CONTROLLER_MOVING}, judged

    def _touches(self, d: Any) -> jax.Array:
        """float [P] 1 where a pair has a contact: the contacts are read as they are, since MJX's sensors know geoms only."""
        if not self.slots or not len(self._touching):
            return jnp.zeros(len(self._touching))
        contact = d._impl.contact
        ahead, back = _between(self._touching, contact)
        return jnp.any((ahead | back) & (contact.dist < contact.includemargin), axis=1).astype(jnp.float32)

    def _pushes(self, m: Any, d: Any, touch: jax.Array) -> jax.Array:
        """`touch` [P] with what the hands hold and what is borne, from the forces that the solver has found."""
        if not (self.scene.grips or self.scene.bearings) or not self.slots:
            return touch
        forces, normals = _normal_forces(m, d), d._impl.contact.frame[:, 0]  # normals from the first geom to the second
        towards = forces[:, None] * normals

        def pressed(hand: np.ndarray) -> tuple[jax.Array, jax.Array]:
            ahead, back = _between(hand, d._impl.contact)
            a, b = ((ahead.astype(towards.dtype) - back)[:, :, None] * towards).sum(1)
            return a, b

        for grip, hands in zip(self.scene.grips, self._pressing, strict=True):
            touch = touch.at[grip.column].set(held(map(pressed, hands)).astype(touch.dtype))
        if self.scene.bearings:
            ahead, back = _between(self._bearing, d._impl.contact)
            up = (ahead.astype(normals.dtype) - back) * normals[:, 2]
            for k, load in enumerate(self.scene.bearings):
                touch = touch.at[load.column].set(bearing(forces, up[k], load.least_z).any().astype(touch.dtype))
        return touch


def _normal_forces(m: Any, d: Any) -> jax.Array:
    """[C] newtons of each contact along its normal; 0 where there is none."""
    contact = d._impl.contact
    forces = jnp.zeros(len(contact.dist))
    for dim in np.unique(contact.dim):
        found, at = support.contact_force_dim(m, d, int(dim))
        forces = forces.at[at].set(found[:, 0])
    return jnp.where(contact.dist < contact.includemargin, forces, 0.0)


def seen_of(scene: SceneModel, d: Any, qvel: jax.Array) -> Parts:
    """The signals of `judged_layout` that are poses and velocities, from MJX data whose kinematics are current."""
    return {
        "eef_pos": d.site_xpos[scene.arm.site],
        "entity_pos": d.xpos[scene.entity_body],
        "region_pos": d.site_xpos[scene.region_site],
        "region_mat": d.site_xmat[scene.region_site],
        "entity_vel": qvel[scene.mover_dof],
    }


def arm_of(scene: SceneModel, m: Any, d: Any) -> tuple[Seen, jax.Array]:
    """What a control law sees, from MJX data (JAX implementation) whose position and velocity stages are current."""
    arm = scene.arm
    pos = d.site_xpos[arm.site]
    seen = Seen(
        pos=pos,
        mat=d.site_xmat[arm.site],
        jac=jacobian(pos, d.cdof[arm.dof], d.subtree_com[arm.root]),
        mass=mjx.full_m(m, d)[np.ix_(arm.dof, arm.dof)],
        joint_pos=d.qpos[arm.qpos],
        joint_vel=d.qvel[arm.dof],
        base=d.qpos[:0] if arm.base is None else d.qpos[arm.base.qpos],
    )
    return seen, d.qfrc_bias[arm.dof]


def _sides(scene: SceneModel, pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """bool [P, 2, ngeom] which geoms belong to either side of a pair."""
    table = np.zeros((len(pairs), 2, scene.model.ngeom), np.bool_)
    for pair, sides in enumerate(pairs):
        for side, geoms in enumerate(sides):
            table[pair, side, geoms] = True
    return table


def _between(sides: np.ndarray, contact: Any) -> tuple[jax.Array, jax.Array]:
    """bool [P, C] which contacts are of each pair: those whose first geom is on its first side, and on its second."""
    first, second, side = contact.geom[:, 0], contact.geom[:, 1], jnp.asarray(sides)
    return side[:, 0][:, first] & side[:, 1][:, second], side[:, 0][:, second] & side[:, 1][:, first]


def refuse(model: mujoco.MjModel, fields: Sequence[str]) -> None:
    """Checks that MJX's JAX implementation simulates all of a model, each lane with its own `fields`.

    Raises:
      BenchError: the first thing that it would refuse or, worse, leave out.
    """
    if pairs := _uncollided(model):
        shown = ", ".join(pairs[:3]) + (f" and {len(pairs) - 3} pairs more" if len(pairs) > 3 else "")
        raise _cannot(f"has no collisions between {shown}")
    if (slots := contact_slots(model)) > MOST_SLOTS:
        raise _cannot(f"computes {MOST_SLOTS} contacts a step at most, and this scene has {slots}: {_costs(model)}")
    option = model.opt
    if int(option.integrator) not in _INTEGRATORS:
        raise _cannot(f"does not integrate with {mujoco.mjtIntegrator(option.integrator).name[6:]}")
    if option.noslip_iterations:
        raise _cannot(f"has no noslip solver ({option.noslip_iterations} iterations wanted)")
    colliding = (model.geom_contype | model.geom_conaffinity) != 0
    for what, wrong in (
        ("takes no contacts of condim 1 with elliptic cones", colliding & (model.geom_condim == 1)),
        ("knows no contact gap", colliding & (model.geom_gap != 0)),
    ):
        if wrong.any() and ("elliptic" not in what or option.cone == mujoco.mjtCone.mjCONE_ELLIPTIC):
            raise _cannot(f"{what}: geom {_name(model, int(np.flatnonzero(wrong)[0]))}")
    for name in fields:
        if mjx.Model.__annotations__.get(name) is not jax.Array:
            raise _cannot(f"cannot give each lane its own {name}")


def contact_slots(model: mujoco.MjModel) -> int:
    """Contacts that every step of a model without pairs that MJX cannot collide computes."""
    return int(collision_driver.make_condim(model).size)


def _costs(model: mujoco.MjModel) -> str:
    """Which kinds of pairs, and which bodies, the contacts of a model come from, the most first."""
    kinds: Counter[tuple[int, int]] = Counter()
    bodies: Counter[int] = Counter()
    for a, b, _ in collision_driver.geom_pairs(model):
        kind = int(model.geom_type[a]), int(model.geom_type[b])
        slots = collision_driver._COLLISION_FUNC[kind].ncon
        kinds[kind] += slots
        bodies.update({int(model.geom_bodyid[a]): slots, int(model.geom_bodyid[b]): slots})
    pairs = ", ".join(f"{n} of {_kind(a)} against {_kind(b)}" for (a, b), n in kinds.most_common(3))
    most = ", ".join(f"{model.body(b).name!r} ({n}, {model.body_geomnum[b]} geoms)" for b, n in bodies.most_common(3))
    return f"{pairs}; most at the bodies {most}"


def _uncollided(model: mujoco.MjModel) -> list[str]:
    """Pairs of geoms that may touch and for whose shapes MJX has no function, as text."""
    out = []
    for a, b, _ in collision_driver.geom_pairs(model):
        kinds = model.geom_type[a], model.geom_type[b]
        if not collision_driver.has_collision_fn(*kinds):
            out.append(" and ".join(f"{_name(model, g)} ({_kind(k)})" for g, k in zip((a, b), kinds, strict=True)))
    return out


def _name(model: mujoco.MjModel, geom: int) -> str:
    return repr(model.geom(geom).name or f"{model.body(model.geom_bodyid[geom]).name}[{geom}]")


def _kind(geom_type: int) -> str:
    return mujoco.mjtGeom(geom_type).name[7:].lower()


def _cannot(what: str) -> BenchError:
    return BenchError(
        f"engine jax {what}; use --backend c or warp, or a scene of fewer and simpler shapes"
        " (libero_object, libero_spatial and robot_agent_bench have one: --scene-form lean)"
    )
