"""Contact sensors between two parts of a scene, geoms or body trees, by what they report."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco

Part = tuple[mujoco.mjtObj, str]


def add_contact_sensor(
    spec: mujoco.MjSpec,
    kind: str,
    first: Part,
    second: Part,
    data: Sequence[mujoco.mjtConDataField],
    *,
    reduction: int = 0,
    slots: int = 1,
) -> str:
    """Adds a sensor of the contacts between two parts, unless there is one of this kind; returns its name.

    Args:
      spec: the scene.
      kind: of the sensor; with the names of the parts it makes up the sensor's.
      first, second: parts; the normals that it reports point from the first to the second.
      data: what it reports of a contact.
      reduction: how it chooses among contacts: 0 for none, 1 for the nearest, 2 for the strongest.
      slots: contacts that it reports.
    """
    name = f"{kind}:{first[1]}:{second[1]}"
    if spec.sensor(name) is None:
        spec.add_sensor(
            name=name,
            type=mujoco.mjtSensor.mjSENS_CONTACT,
            objtype=first[0],
            objname=first[1],
            reftype=second[0],
            refname=second[1],
            intprm=[sum(1 << int(field) for field in data), reduction, slots],
        )
    return name
