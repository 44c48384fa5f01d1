"""The integrator implicitfast of MuJoCo 3.17 in JAX, which treats what a free body's spin does to it implicitly.

`mjx.implicit` solves (M - h D) qacc = f with D the derivative of damping and actuation alone. MuJoCo adds, for a body with a
free joint and nothing moving on it, the derivative of the centrifugal and gyroscopic force with respect to its own velocity.
Without that a tumbling object of the native suite parts from MuJoCo by 0.05 rad/s in one step. And it leaves out of D what
an actuator's force depends on where that is at its limit; without that a servo which is told to hurry is damped too much.

With m the body's mass, s its centre of mass and I its inertia about its origin (both in its frame), R its orientation, w its
angular velocity (in its frame), those forces are m R (w x (w x s)) and w x I w.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import mujoco
import numpy as np
from mujoco import mjx
from mujoco.mjx._src import derivative, forward


def implicitfast(model: mujoco.MjModel) -> Callable[[Any, Any], Any]:
    """The integrator for a scene: MJX's model and data, their accelerations known, to data at the next step."""
    free = free_bodies(model)
    dofs = model.body_dofadr[free][:, None] + np.arange(6)
    damping = (model.actuator_biasprm[:, 2] != 0) | (model.actuator_gainprm[:, 2] != 0)
    limited = (model.actuator_forcelimited != 0) & damping

    def integrate(m: Any, d: Any) -> Any:
        step = m.opt.timestep
        damped = mjx.full_m(m, d)
        derived = derivative.deriv_smooth_vel(_without_clamped(m, d, limited) if limited.any() else m, d)
        force = d.qfrc_smooth + d.qfrc_constraint
        qacc = d.qacc
        if derived is not None:
            damped = damped - step * derived
            qacc = jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(damped), force)
        if len(free):
            blocks = damped[dofs[:, :, None], dofs[:, None, :]]
            own = jax.vmap(_free_acceleration, in_axes=(0, 0, 0, 0, None))(
                blocks, d.xmat[free], d.qvel[dofs[:, 3:]], force[dofs], step
            )
            qacc = qacc.at[dofs].set(own)
        return forward._advance(m, d, d.act_dot, qacc)

    return integrate


def free_bodies(model: mujoco.MjModel) -> np.ndarray:
    """int [F] bodies with a free joint on which nothing moves."""
    joints = np.flatnonzero(model.jnt_type == mujoco.mjtJoint.mjJNT_FREE)
    alone = model.tree_dofnum[model.dof_treeid[model.jnt_dofadr[joints]]] == 6
    return model.jnt_bodyid[joints[alone]]


def _without_clamped(m: Any, d: Any, limited: np.ndarray) -> Any:
    """The model without the actuators, of those in bool [nu], whose force is at its limit, as far as derivatives go."""
    low, high = m.actuator_forcerange.T
    free = (~limited | ((d.actuator_force > low) & (d.actuator_force < high)))[:, None]
    return m.replace(actuator_biasprm=m.actuator_biasprm * free, actuator_gainprm=m.actuator_gainprm * free)


def _free_acceleration(
    block: jax.Array, mat: jax.Array, spin: jax.Array, force: jax.Array, step: jax.Array
) -> jax.Array:
    """[6] acceleration of one free body.

    Args:
      block: [6, 6] its part of M - h D: translation in world axes, rotation in its own.
      mat: [3, 3] its orientation; spin: [3] its angular velocity.
      force: [6] all forces.
      step: seconds.
    """
    # M's off-diagonal part is -m R [s]x.
    moment = _vector_of(-(mat.T @ block[:3, 3:]))
    inertia, across = block[3:, 3:], _cross(spin)
    centrifugal = -(mat @ (_cross(across @ moment) + across @ _cross(moment)))
    gyroscopic = across @ inertia - _cross(inertia @ spin)
    masses = jnp.diagonal(block[:3, :3])
    upper, lower = block[:3, 3:] + step * centrifugal, block[3:, :3]
    left = inertia + step * gyroscopic - lower @ (upper / masses[:, None])
    turn = _solve(left, force[3:] - lower @ (force[:3] / masses))
    return jnp.concatenate([(force[:3] - upper @ turn) / masses, turn])


def _cross(v: jax.Array) -> jax.Array:
    """[3, 3] [v]x, which times w is v x w."""
    zero = jnp.zeros_like(v[0])
    return jnp.array([[zero, -v[2], v[1]], [v[2], zero, -v[0]], [-v[1], v[0], zero]])


def _vector_of(skew: jax.Array) -> jax.Array:
    """[3] v of [v]x."""
    return jnp.stack([skew[2, 1], skew[0, 2], skew[1, 0]])


def _solve(a: jax.Array, b: jax.Array) -> jax.Array:
    """a^-1 b for [3, 3] `a`, by its adjugate."""
    rows = jnp.stack([jnp.cross(a[1], a[2]), jnp.cross(a[2], a[0]), jnp.cross(a[0], a[1])])
    return rows.T @ b / jnp.dot(a[0], rows[0])
