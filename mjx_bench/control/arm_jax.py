"""What the control laws in JAX share: one lane's view of its arm, the controller's memory, and small linear algebra.

The functions are for one lane, without a batch; engines map them over lanes. Formulas and constants are those of the laws in
`osc` and `joint`, in single precision.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mjx_bench.control.arm import ArmIndex

# A pivot below this share of its diagonal is rounding: 45 units in the last place, as in double precision.
PIVOT = 45 * float(np.finfo(np.float32).eps)


class Seen(NamedTuple):
    """What a controller sees of the arm at a physics step.

    Attributes:
      pos: [3] end effector, world metres; mat: [3, 3] its orientation.
      jac: [6, 7] its Jacobian, translation above rotation.
      mass: [7, 7] the arm's block of the joint-space inertia.
      joint_pos, joint_vel: [7] radians, radians a second.
      base: [3] x, y and yaw of a base that drives, else [0].
    """

    pos: jax.Array
    mat: jax.Array
    jac: jax.Array
    mass: jax.Array
    joint_pos: jax.Array
    joint_vel: jax.Array
    base: jax.Array


class Memory(NamedTuple):
    """One lane of `state.ControllerState`, by the same names; `stale` is 0 or 1."""

    goal_pos: jax.Array
    goal_mat: jax.Array
    goal_joint: jax.Array
    gripper: jax.Array
    stale: jax.Array
    reset_pos: jax.Array
    reset_mat: jax.Array
    reset_joint: jax.Array
    reset_jac: jax.Array
    reset_mass: jax.Array


def see(current: Seen, memory: Memory) -> Seen:
    """The arm as it is, or, for a controller that has not looked since a state was restored, as its reset left it."""
    kept = Seen(
        pos=memory.reset_pos,
        mat=memory.reset_mat,
        jac=memory.reset_jac,
        mass=memory.reset_mass,
        joint_pos=memory.reset_joint,
        joint_vel=jnp.zeros_like(current.joint_vel),
        base=current.base,
    )
    return jax.tree.map(lambda old, new: jnp.where(memory.stale > 0, old, new), kept, current)


def jacobian(pos: jax.Array, cdof: jax.Array, com: jax.Array) -> jax.Array:
    """[6, 7] Jacobian of the point `pos` that moves with the last of the joints whose motion axes are `cdof` [7, 6].

    `com` is the point that `cdof` refers to: the centre of mass of the joints' kinematic tree.
    """
    rotation, translation = cdof[:, :3], cdof[:, 3:]
    return jnp.concatenate([(translation + jnp.cross(rotation, pos - com)).T, rotation.T])


def command(
    torque: jax.Array, grip: jax.Array, memory: Memory, ctrl: jax.Array, arm: ArmIndex
) -> tuple[jax.Array, Memory]:
    """Writes limited torques [7] and the finger servos, whose commands move by the sign of `grip`; +1 closes.

    Returns:
      ctrl: [nu].
      memory: of a controller that has looked at its state.
    """
    fingers = jnp.clip(memory.gripper + arm.grip_step * jnp.sign(grip) * np.array([-1.0, 1.0], np.float32), -1.0, 1.0)
    ctrl = ctrl.at[arm.actuators].set(jnp.clip(torque, *_single(arm.torque_low, arm.torque_high)))
    bias, scale = _single(arm.grip_bias, arm.grip_scale)
    ctrl = ctrl.at[arm.grip_actuators].set(bias + scale * fingers)
    return ctrl, memory._replace(gripper=fingers, stale=jnp.zeros_like(memory.stale))


def _single(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    return tuple(a.astype(np.float32) for a in arrays)


class Factor(NamedTuple):
    """Cholesky factor of a symmetric matrix: lower triangle [n, n], and the inverse of its diagonal [n].

    The inverse is 0 in a direction that was lost to a singular pose, which gets no effort then.
    """

    low: jax.Array
    inverse: jax.Array


def cholesky(a: jax.Array) -> Factor:
    """Factor of [n, n] `a`; see `arm.cholesky`. The loop is over columns, so that lanes fill the vector units."""
    n = a.shape[0]
    rest, columns, inverses = a, [], []
    for j in range(n):
        pivot = rest[j, j]
        ok = pivot > PIVOT * a[j, j]
        inverse = jnp.where(ok, jax.lax.rsqrt(jnp.where(ok, pivot, 1.0)), 0.0)
        column = jnp.where(np.arange(n) >= j, rest[:, j] * inverse, 0.0)
        rest = rest - column[:, None] * column
        columns.append(column)
        inverses.append(inverse)
    return Factor(jnp.stack(columns, axis=1), jnp.stack(inverses))


def solve_lower(factor: Factor, x: jax.Array) -> jax.Array:
    """L^-1 x for [n, ...] `x`."""
    out = []
    for i in range(x.shape[0]):
        row = x[i] * factor.inverse[i]
        x = x - jnp.multiply.outer(factor.low[:, i], row)
        out.append(row)
    return jnp.stack(out)


def solve(factor: Factor, x: jax.Array) -> jax.Array:
    """A^-1 x for [n] `x`, zero in lost directions."""
    x = solve_lower(factor, x)
    out = []
    for i in reversed(range(x.shape[0])):
        row = x[i] * factor.inverse[i]
        x = x - factor.low[i] * row
        out.append(row)
    return jnp.stack(out[::-1])
