"""What an event's edits write into one lane: the same numbers on every engine, which only differ in where they keep them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from mjx_bench.observe.looks import looks_of
from mjx_bench.physics.base import Edit, Park, Parked, SetPosition, Visual
from mjx_bench.physics.scene import SceneModel
from mjx_bench.task import Push


@dataclasses.dataclass(frozen=True)
class Editable:
    """Live views of one lane, written in place.

    Attributes:
      qpos: [nq]; qvel: [nv]; xfrc_applied: [nbody, 6].
      body_pos: [nbody, 3] of the lane's model; body_mass: [nbody] likewise, only read.
      parked: objects out of the scene.
    """

    qpos: np.ndarray
    qvel: np.ndarray
    xfrc_applied: np.ndarray
    body_pos: np.ndarray
    body_mass: np.ndarray
    parked: dict[str, Parked]


def apply_edits(
    scene: SceneModel, lane: Editable, edits: Sequence[Edit], visual: tuple[Visual, ...], steps: int
) -> tuple[Visual, ...]:
    """Applies `edits` in order; returns the lane's visual edits, which were `visual` before.

    Raises:
      BenchError: a visual edit that no renderer could show.
    """
    for edit in edits:
        if isinstance(edit, Visual):
            visual = (*visual, dataclasses.replace(edit, step=steps))
            looks_of(scene.model, visual)  # an edit that no renderer could show is refused here
        elif isinstance(edit, Push):
            lane.xfrc_applied[scene.entity_body[scene.index.entity(edit.entity)], :3] = edit.force
        else:
            _move(scene, lane, edit)
    return visual


def _move(scene: SceneModel, lane: Editable, edit: SetPosition | Park) -> None:
    e = scene.index.entity(edit.entity)
    qpos, dof = scene.entity_qpos[e], scene.entity_dof[e]
    if qpos < 0:
        lane.body_pos[scene.entity_body[e]] = edit.pos
        return
    coordinates = lane.qpos[qpos : qpos + 7]
    if isinstance(edit, Park):
        lane.parked[edit.entity] = Parked(coordinates[:3].astype(np.float64), coordinates[3:].astype(np.float64))
    else:
        lane.parked.pop(edit.entity, None)
    coordinates[:3] = edit.pos
    if isinstance(edit, SetPosition) and edit.quat is not None:
        coordinates[3:] = edit.quat
    lane.qvel[dof : dof + 6] = 0.0
    _carry_weight(scene, lane, e, carried=edit.floating if isinstance(edit, Park) else edit.carried)


def _carry_weight(scene: SceneModel, lane: Editable, entity: int, *, carried: bool) -> None:
    """Holds a parked or carried object in the air by the opposite of its weight, which leaves it still.

    Pinning its coordinates instead would have to be repeated, and would restart the step that follows each time.
    """
    bodies = scene.entity_bodies[entity]
    lane.xfrc_applied[bodies] = 0.0
    if carried:
        lane.xfrc_applied[bodies, :3] = -lane.body_mass[bodies, None] * scene.model.opt.gravity
