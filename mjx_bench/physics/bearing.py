"""Whether one thing bears another: a contact between them that pushes the other one up. NumPy and JAX alike.

A press from above is the same, seen from below: what is pressed bears what presses it.
"""

from __future__ import annotations

from typing import Any

from mjx_bench.physics.grips import contacts

# A contact's normal force, newtons, is more than this.
LEAST_FORCE = 1e-5


def bears(sensed: Any, least_z: float) -> Any:
    """bool [...] whether any contact bears, from what press sensors of the lower with the upper say, [..., n * SENSED].

    Args:
      sensed: see `grips.add_press`; normals point from the lower thing to the upper.
      least_z: how far up a normal points at least, its part along the world's z.
    """
    forces, normals = contacts(sensed)
    return bearing(forces, normals[..., 2], least_z).any(-1)


def bearing(force: Any, up: Any, least_z: float) -> Any:
    """bool [...] whether contacts bear: `force` newtons along a normal whose part along the world's z is `up`."""
    return (force > LEAST_FORCE) & (up >= least_z)
