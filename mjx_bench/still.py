"""A scene on plain MuJoCo without a robot's control: an initial state, edits, and what happens when it is left alone."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping

import mujoco
import numpy as np

from mjx_bench.events import LaneView
from mjx_bench.observe.looks import looks_of
from mjx_bench.physics.base import Edit, Park, Parked, Pose, Visual
from mjx_bench.physics.scene import SceneModel
from mjx_bench.task import Push, Reset

# Physics steps that a scene is left alone (section 1.7 of the LIBERO-MAX format).
STEPS = 50


@dataclasses.dataclass(frozen=True)
class Rest:
    """What the entities did while the scene was left alone.

    Attributes:
      drift: entity to metres between start and end.
      drop: entity to metres downwards.
      partners: entity to the names of geoms of others that it touches at the end.
      finite: whether every coordinate stayed finite.
    """

    drift: Mapping[str, float]
    drop: Mapping[str, float]
    partners: Mapping[str, frozenset[str]]
    finite: bool


class Shared:
    """The one copy of a scene's model that all its lanes use, one after another: a copy holds every mesh."""

    def __init__(self, scene: SceneModel) -> None:
        self._scene = scene
        self._model = copy.copy(scene.model)
        self.written: tuple[str, ...] = ()

    def fresh(self) -> mujoco.MjModel:
        """The model as the scene's, whatever an earlier lane wrote to it."""
        for name in {"body_pos", "body_quat", *self.written}:
            getattr(self._model, name)[:] = getattr(self._scene.model, name)
        return self._model


class StillLane:
    """One copy of a scene on plain MuJoCo, at a restored initial state."""

    def __init__(
        self,
        scene: SceneModel,
        shared: Shared,
        state: np.ndarray,
        reset: Reset,
        fields: Mapping[str, np.ndarray],
    ) -> None:
        self._scene = scene
        model = shared.fresh()
        shared.written = tuple(fields)
        self._model = model
        self._data = mujoco.MjData(model)
        self._parked: dict[str, Parked] = {}
        self._visual: tuple[Visual, ...] = ()
        self._own_fields = dict(fields)
        for name, value in fields.items():
            getattr(model, name)[:] = value
        for name, pos in reset.fixture_pos.items():
            body = scene.entity_body[scene.index.entity(name)]
            self._model.body_pos[body], self._model.body_quat[body] = pos, reset.fixture_quat[name]
        nq = self._model.nq
        self.start = b"".join(  # tells initial states apart that differ in anything that moves
            np.ascontiguousarray(part).tobytes() for part in (state, model.body_pos, model.body_quat)
        )
        self._data.time, self._data.qpos[:], self._data.qvel[:] = state[0], state[1 : 1 + nq], state[1 + nq :]
        mujoco.mj_forward(self._model, self._data)

    def positions(self) -> dict[str, np.ndarray]:
        """Entity to [3]: the free joint's position, or the fixture's in the model."""
        out = {}
        for e, name in enumerate(self._scene.index.entities):
            adr = self._scene.entity_qpos[e]
            source = self._data.qpos[adr : adr + 3] if adr >= 0 else self._model.body_pos[self._scene.entity_body[e]]
            out[name] = source.copy()
        return out

    def view(self) -> LaneView:
        return LaneView(self.positions(), self._data.site_xpos[self._scene.arm.site].copy(), self._parked)

    def pose(self) -> Pose:
        model = self._model
        return Pose(
            self._data.qpos.copy(),
            model.body_pos.copy(),
            model.body_quat.copy(),
            self._visual,
            fields={name: value for name, value in self._own_fields.items() if name not in ("body_pos", "body_quat")},
        )

    def apply(self, edits: list[Edit]) -> None:
        for edit in edits:
            if isinstance(edit, Visual):
                self._visual = (*self._visual, edit)
                looks_of(self._model, self._visual)  # refuses what no renderer could show
                continue
            assert not isinstance(edit, Push), "no event pushes"
            e = self._scene.index.entity(edit.entity)
            adr, dof = self._scene.entity_qpos[e], self._scene.entity_dof[e]
            if adr < 0:
                self._model.body_pos[self._scene.entity_body[e]] = edit.pos
                continue
            coordinates = self._data.qpos[adr : adr + 7]
            bodies = self._scene.entity_bodies[e]
            self._data.xfrc_applied[bodies] = 0.0
            if isinstance(edit, Park):
                self._parked[edit.entity] = Parked(coordinates[:3].copy(), coordinates[3:].copy())
                self._data.xfrc_applied[bodies, :3] = -self._model.body_mass[bodies, None] * self._model.opt.gravity
            elif edit.quat is not None:
                coordinates[3:] = edit.quat
            coordinates[:3] = edit.pos
            self._data.qvel[dof : dof + 6] = 0.0
        mujoco.mj_forward(self._model, self._data)

    def rest(self, colliding: np.ndarray) -> Rest:
        """Leaves the scene alone for `STEPS` physics steps."""
        start = self.positions()
        for _ in range(STEPS):
            mujoco.mj_step(self._model, self._data)
        mujoco.mj_forward(self._model, self._data)
        end = self.positions()
        return Rest(
            drift={n: float(np.linalg.norm(end[n] - start[n])) for n in start},
            drop={n: float(start[n][2] - end[n][2]) for n in start},
            partners={n: self._partners(e, colliding) for e, n in enumerate(self._scene.index.entities)},
            finite=bool(np.isfinite(self._data.qpos).all()) and not self._data.warning.number.any(),
        )

    def _partners(self, entity: int, colliding: np.ndarray) -> frozenset[str]:
        own = np.isin(self._model.geom_bodyid, self._scene.entity_bodies[entity])
        a, b = self._data.contact.geom.T if self._data.ncon else (np.zeros(0, int), np.zeros(0, int))
        others = np.concatenate([b[own[a] & ~own[b]], a[own[b] & ~own[a]]])
        return frozenset(self._model.geom(int(g)).name for g in others if colliding[g])
