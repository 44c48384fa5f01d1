"""What visual edits make of a model's looks, as arrays that any renderer takes (section 2 of the LIBERO-MAX format)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from mjx_bench.errors import BenchError
from mjx_bench.physics.base import Visual

if TYPE_CHECKING:
    import mujoco

FOVY_RANGE = (5.0, 150.0)  # degrees

# A change of light also changes the camera's exposure: what pictures are multiplied by afterwards.
DARKER, BRIGHTER = 0.75, 1.25


@dataclasses.dataclass(frozen=True)
class Looks:
    """One lane's looks; equal to the model's where nothing changed them.

    Attributes:
      light_ambient, light_diffuse, light_specular: [L, 3].
      cam_pos: [C, 3] in the parent body's frame; cam_quat: [C, 4] wxyz; cam_fovy: [C] vertical, degrees.
      geom_rgba: [G, 4]; mat_rgba: [M, 4].
    """

    light_ambient: np.ndarray
    light_diffuse: np.ndarray
    light_specular: np.ndarray
    cam_pos: np.ndarray
    cam_quat: np.ndarray
    cam_fovy: np.ndarray
    geom_rgba: np.ndarray
    mat_rgba: np.ndarray


FIELDS = tuple(f.name for f in dataclasses.fields(Looks))


def looks_of(model: mujoco.MjModel, visual: Iterable[Visual]) -> Looks:
    """The looks of `model` after `visual`, in order; the model itself is not changed.

    Raises:
      BenchError: a field of view that leaves 5 to 150 degrees.
    """
    arrays = {name: np.array(getattr(model, name), np.float64) for name in FIELDS}
    level = 1.0
    for edit in visual:
        if edit.operation == "set_lighting":
            for name in ("light_ambient", "light_diffuse", "light_specular"):
                arrays[name] *= edit.fields.get("scale", 0.0)
        elif edit.operation == "vary_lighting":
            level = edit.fields["scale"]
        elif edit.operation == "shift_camera":
            _shift_camera(arrays, model.camera(edit.fields["camera"]).id, edit)
        elif edit.operation == "set_visual_theme":
            order, factor = list(edit.fields["rgb_permutation"]), np.asarray(edit.fields["rgb_multiplier"], np.float64)
            for name in ("geom_rgba", "mat_rgba"):
                # Fancy indexing copies, so that permuted rows do not read what was just written.
                arrays[name][:, :3] = np.clip(arrays[name][:, order] * factor, 0.0, 1.0)
    for name in ("light_ambient", "light_diffuse", "light_specular"):
        arrays[name] *= level
    return Looks(**arrays)


def _shift_camera(arrays: dict[str, np.ndarray], camera: int, edit: Visual) -> None:
    """Moves a camera in its parent's frame and turns it on the spot about that frame's z axis."""
    fields = edit.fields
    arrays["cam_pos"][camera] += np.asarray(fields.get("delta_position_m", (0.0, 0.0, 0.0)))
    half = np.deg2rad(fields.get("yaw_degrees", 0.0)) / 2
    w, x, y, z = arrays["cam_quat"][camera]
    c, s = np.cos(half), np.sin(half)
    quat = np.array([c * w - s * z, c * x - s * y, c * y + s * x, c * z + s * w])
    arrays["cam_quat"][camera] = quat / np.linalg.norm(quat)
    fovy = fields.get("fovy_degrees", arrays["cam_fovy"][camera] + fields.get("delta_fovy_degrees", 0.0))
    if not FOVY_RANGE[0] <= fovy <= FOVY_RANGE[1]:
        raise BenchError(f"shift_camera makes the field of view {fovy:g} degrees; it must stay in 5 to 150")
    arrays["cam_fovy"][camera] = fovy


def brightness_of(visual: Iterable[Visual]) -> float | None:
    """What pictures are multiplied by after rendering: set by the latest change of light, None if there was none."""
    scales = [edit.fields.get("scale", 0.0) for edit in visual if edit.operation == "set_lighting"]
    if not scales:
        return None
    return DARKER if scales[-1] < 1 else BRIGHTER
