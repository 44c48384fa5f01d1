"""Does an event leave a scene that a robot can work in? Judged on the simulator alone, before any policy runs.

The event is applied at the restored initial state, not at its trigger, and nothing is controlled (section 1.7 of the
LIBERO-MAX format). What the event changed may drift, drop and touch hardly more than it does without the event. The picture
must show something, and an event that changes pictures only must be seen in it. (The reference also asks that of things that
move, but compares pictures between which the arm has sunk for 50 steps, so that they always differ.)
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping

import mujoco
import numpy as np

from mjx_bench.cases import Case
from mjx_bench.errors import BenchError
from mjx_bench.events import LaneView, resolve
from mjx_bench.fields import canonical_json
from mjx_bench.observe.looks import looks_of
from mjx_bench.observe.pictures import Pictures
from mjx_bench.physics.base import Edit, Park, Parked, Pose, SetPosition, Visual
from mjx_bench.physics.scene import SceneModel
from mjx_bench.task import Push, Reset, Task

# Section 1.7: physics steps that a scene is left alone, and what a changed entity may do in them beyond its natural drift.
STEPS = 50
MAX_DRIFT = 0.02  # metres
MAX_DROP = 0.01  # metres
# Supports that are part of a workspace, not entities, and what their geoms' names begin with.
WORKSPACES = {"main_table": "table", "kitchen_table": "table"}
# What a picture must have, in grey levels, to show anything.
MIN_MEAN, MIN_STD = 8.0, 5.0
PICTURE_SIZE = 256


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What preflight says of one case.

    Attributes:
      problems: why it fails, one line each; empty if it passes.
      moved: entities that the event changed; none for an event that changes pictures only.
      pixel_change: mean absolute difference that the event makes in the first observed camera's picture, grey levels; None
        where no pictures were taken.
    """

    case_id: str
    problems: tuple[str, ...]
    moved: tuple[str, ...]
    pixel_change: float | None = None

    @property
    def passed(self) -> bool:
        return not self.problems


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


@dataclasses.dataclass(frozen=True)
class Known:
    """What was found out about a scene's physics.

    Attributes:
      scene: the scene.
      copy: of its model, the one that all lanes use.
      rests: initial state to what its entities do when it is left alone.
      problems: initial state, setup and change to what is wrong with what they leave.
    """

    scene: SceneModel
    copy: Shared
    rests: dict[bytes, Rest] = dataclasses.field(default_factory=dict)
    problems: dict[tuple[bytes | str, ...], tuple[str, ...]] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, scene: SceneModel) -> Known:
        return cls(scene, Shared(scene))


class Preflight:
    """Checks the cases of one task.

    Args:
      task: the task.
      scene: its compiled scene; it is not changed.
      pictures: of the scene's first observed camera; None to leave out what is judged by pictures.
      known: what was found out about this scene's physics, to be shared by tasks whose compiled scenes are equal: those that
        differ in looks or words alone.
    """

    def __init__(
        self, task: Task, scene: SceneModel, pictures: Pictures | None = None, known: Known | None = None
    ) -> None:
        self._task = task
        self._scene = scene
        self._pictures = pictures
        self._known = Known.of(scene) if known is None else known
        self._states = task.load_init_states()
        self._colliding = (scene.model.geom_contype | scene.model.geom_conaffinity) != 0

    def check(self, case: Case) -> Verdict:
        """Judges one case; never raises for what is wrong with its scene. Pictures are taken of what physics passes."""
        try:
            lane = self._lane(case)
            for change in case.setup:
                lane.apply(resolve(change, lane.view())[0])
            edits = [] if case.scenario is None else resolve(case.scenario.change, lane.view())[0]
            moved = tuple(e.entity for e in edits if isinstance(e, SetPosition))
            problems = self._physical(case, moved, lane, edits) if moved else []
            if problems:
                return Verdict(case.case_id, tuple(problems), moved)
            pixels, problems = self._seen(case, edits, must_change=not moved)
        except BenchError as error:
            return Verdict(case.case_id, (str(error),), ())
        return Verdict(case.case_id, tuple(problems), moved, pixels)

    def _lane(self, case: Case) -> _Lane:
        """The case's initial state; the lane before is lost."""
        state, reset = self._states[case.init_state_index], self._task.load_reset(case.policy_seed)
        return _Lane(self._scene, self._known.copy, state, reset, self._task.fields_of(case.init_state_index))

    def _physical(self, case: Case, moved: tuple[str, ...], lane: _Lane, edits: list[Edit]) -> list[str]:
        assert case.scenario is not None
        start = lane.start
        what: tuple[bytes | str, ...] = (
            start,
            *(canonical_json(c.to_json()) for c in (*case.setup, case.scenario.change)),
        )
        if (found := self._known.problems.get(what)) is not None:
            return list(found)
        lane.apply(edits)
        after = lane.rest(self._colliding)
        if start not in self._known.rests:
            self._known.rests[start] = self._lane(case).rest(self._colliding)
        problems = ["the state does not stay finite"]
        if after.finite:
            problems = [p for name in moved for p in self._judge(case, name, self._known.rests[start], after)]
        self._known.problems[what] = tuple(problems)
        return problems

    def _seen(self, case: Case, edits: list[Edit], *, must_change: bool) -> tuple[float | None, list[str]]:
        lane = self._lane(case)
        for change in case.setup:
            lane.apply(resolve(change, lane.view())[0])
        before = self._picture(lane)
        lane.apply(edits)
        return _compare(before, self._picture(lane), must_change=must_change)

    def _picture(self, lane: _Lane) -> np.ndarray | None:
        if self._pictures is None:
            return None
        image: np.ndarray = self._pictures.take([lane.pose()])[self._task.scene.observed[0]][0]
        return image

    def _judge(self, case: Case, name: str, natural: Rest, after: Rest) -> list[str]:
        problems = []
        if (drift := after.drift[name] - natural.drift[name]) > MAX_DRIFT:
            problems.append(f"{name} drifts {100 * drift:.1f} cm more than without the event")
        if (drop := after.drop[name] - natural.drop[name]) > MAX_DROP:
            problems.append(f"{name} drops {100 * drop:.1f} cm more than without the event")
        support = self._support_geoms(case, name)
        if natural.partners[name] & support and not after.partners[name] & support:
            problems.append(f"{name} has lost its support")
        if strange := sorted(after.partners[name] - natural.partners[name] - support):
            problems.append(f"{name} touches {', '.join(strange[:3])}{', ...' if len(strange) > 3 else ''}")
        return problems

    def _support_geoms(self, case: Case, name: str) -> frozenset[str]:
        """Names of the colliding geoms of what an entity stands on."""
        model, scene = self._scene.model, self._task.scene
        parts = () if case.scenario is None else case.scenario.change.parts
        part = next((p for p in parts if p["object"] == name), {})
        placed = {p.entity: p.support for p in scene.placements}
        support = part.get("support_entity") or placed.get(name)
        if support is None:
            return frozenset()
        if support in scene.entities:
            bodies = self._scene.entity_bodies[self._scene.index.entity(support)]
            geoms = np.flatnonzero(np.isin(model.geom_bodyid, bodies) & self._colliding)
            return frozenset(model.geom(g).name for g in geoms)
        prefix = WORKSPACES.get(support, support)
        names = {
            g: (model.geom(g).name, model.body(model.geom_bodyid[g]).name) for g in np.flatnonzero(self._colliding)
        }
        return frozenset(n for n, body in names.values() if n.startswith(prefix) or body.startswith(prefix))


def _compare(
    before: np.ndarray | None, after: np.ndarray | None, *, must_change: bool
) -> tuple[float | None, list[str]]:
    """How much two pictures differ, and what is wrong with them."""
    if before is None or after is None:
        return None, []
    change = float(np.abs(after.astype(np.int16) - before).mean())
    problems = [] if change > 0 or not must_change else ["the event changes nothing in the picture"]
    for when, image in (("before", before), ("after", after)):
        if image.mean() < MIN_MEAN or image.std() < MIN_STD:
            problems.append(
                f"the picture {when} the event shows next to nothing: mean {image.mean():.1f} (at least {MIN_MEAN:g}),"
                f" deviation {image.std():.1f} (at least {MIN_STD:g})"
            )
    return change, problems


class _Lane:
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
