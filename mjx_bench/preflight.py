"""Does an event leave a scene that a robot can work in? Judged on the simulator alone, before any policy runs.

The event is applied at the restored initial state, not at its trigger, and nothing is controlled (section 1.7 of the
LIBERO-MAX format). What the event changed may drift, drop and touch hardly more than it does without the event. The picture
must show something, and an event that changes pictures only must be seen in it. (The reference also asks that of things that
move, but compares pictures between which the arm has sunk for 50 steps, so that they always differ.)
"""

from __future__ import annotations

import dataclasses

import numpy as np

from mjx_bench.cases import Case
from mjx_bench.errors import BenchError
from mjx_bench.events import resolve
from mjx_bench.fields import canonical_json
from mjx_bench.observe.pictures import Pictures
from mjx_bench.physics.base import Edit, SetPosition
from mjx_bench.physics.scene import SceneModel
from mjx_bench.still import Rest, Shared, StillLane
from mjx_bench.task import Task

# Section 1.7: what a changed entity may do while its scene is left alone, beyond its natural drift.
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

    def _lane(self, case: Case) -> StillLane:
        """The case's initial state; the lane before is lost."""
        state, reset = self._states[case.init_state_index], self._task.load_reset(case.policy_seed)
        return StillLane(self._scene, self._known.copy, state, reset, self._task.fields_of(case.init_state_index))

    def _physical(self, case: Case, moved: tuple[str, ...], lane: StillLane, edits: list[Edit]) -> list[str]:
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

    def _picture(self, lane: StillLane) -> np.ndarray | None:
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
