"""Whether a hand holds something: both of its pads press it, from opposite sides. NumPy and JAX alike.

What a pad presses with is the sum over its contacts of normal force times normal, newtons, towards the thing. A contact
sensor for each pad and thing reports both of its `SLOTS` strongest contacts; MuJoCo turns the normals of a sensor from its
first part to its second.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterable
from typing import Any

import mujoco

from mjx_bench.physics.contact_sensors import Part, add_contact_sensor

# Both pads together press with so much at least, and the angle between what they press with is so large at least.
LEAST_FORCE, LEAST_ANGLE = 0.5, math.radians(120.0)
SLOTS = 8  # two boxes have no more contacts
_DATA = (mujoco.mjtConDataField.mjCONDATA_FORCE, mujoco.mjtConDataField.mjCONDATA_NORMAL)
SENSED = SLOTS * 3 * len(_DATA)  # numbers of a sensor
_STRONGEST = 2  # how a sensor chooses among contacts


def add_press(spec: mujoco.MjSpec, first: Part, second: Part) -> str:
    """Adds the sensor of what `first` presses `second` with; returns its name."""
    return add_contact_sensor(spec, "press", first, second, _DATA, reduction=_STRONGEST, slots=SLOTS)


def pressed(sensed: Any) -> Any:
    """[..., 3] newtons in world axes, from what the sensors of a pad say, [..., n * SENSED]."""
    forces, normals = contacts(sensed)
    return (forces[..., None] * normals).sum(-2)


def contacts(sensed: Any) -> tuple[Any, Any]:
    """[..., n] newtons and [..., n, 3] normals of the n contacts of what press sensors say, [..., 6 n]."""
    slots = sensed.reshape(*sensed.shape[:-1], -1, 6)  # a force in the contact's frame, normal first, and the normal
    return slots[..., 0], slots[..., 3:]


def opposed(a: Any, b: Any) -> Any:
    """bool [...] whether pads that press with a and b [..., 3] hold what is between them."""
    sizes = [(v**2).sum(-1) ** 0.5 for v in (a, b)]
    both = (sizes[0] > 0.0) & (sizes[1] > 0.0) & (sizes[0] + sizes[1] >= LEAST_FORCE)
    return both & ((a * b).sum(-1) <= math.cos(LEAST_ANGLE) * sizes[0] * sizes[1])


def held(hands: Iterable[tuple[Any, Any]]) -> Any:
    """bool [...] whether any hand holds the thing; a hand is what its two pads press with, each [..., 3]."""
    return functools.reduce(operator.or_, (opposed(a, b) for a, b in hands))
