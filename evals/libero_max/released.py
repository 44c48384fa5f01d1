"""Cases as the released benchmark makes them: ids, seeds, parameters and places follow from a source, an event and a draw.

Sections 1.5, 1.6 and 2 of the LIBERO-MAX format. Of LIBERO-PRO's cases every field is the released one. LIBERO-Plus's have a
sampler of their own: the release numbers its variants by a list of files that is not public.
"""

from __future__ import annotations

import dataclasses
import math
import random
from typing import Any

import numpy as np

from evals.libero_max.eligibility import DISTRACTORS, support_of
from evals.libero_max.placing import (
    DIRECTIONS,
    GAP_M,
    RING_M,
    Fixture,
    Layout,
)
from evals.libero_max.sampler import (
    CAMERA,
    LABELS,
    LIGHT_SCALE,
    NOISE,
    OBSTACLE_OFFSET_M,
    RELOCATION_M,
    THEME,
    TRIGGER_DISTANCE_M,
    removals,
)
from mjx_bench.cases import EVENT_OPERATION, EVENT_ORDER, stable_seed
from mjx_bench.errors import BenchError
from mjx_bench.task import Task

POLICY_SEED = 195
PRO_SAMPLER = "libero-max-pro-hard-v1.0"
PLUS_SAMPLER = "mjx-bench-max-plus-v1"
# Of PRO's distractors that were drawn again because the first ones would have stood in the occluder.
REDRAWN_SAMPLER = "mjx-bench-max-pro-redrawn-v1"
REDRAWS = 2000  # few rings leave room for a book within them
# Directions are drawn with the release's sampler of LIBERO-Plus, for LIBERO-PRO too (2.3).
_DIRECTION_SAMPLER = "libero-max-hard-v2.0"

Occluded = tuple[Fixture, Layout]

_SAFETY = ["task_remains_feasible", "no_simulator_error", "no_new_unrelated_collision"]


@dataclasses.dataclass(frozen=True)
class Source:
    """A varied task, or one initial state of it.

    Attributes:
      benchmark: "plus" or "pro".
      category: as the source calls it.
      suite, index: the plain task.
      name: of the variant: for LIBERO-Plus what its file is called after the task's name, for LIBERO-PRO "".
      init_state: row of its initial states.
    """

    benchmark: str
    category: str
    suite: str
    index: int
    name: str = ""
    init_state: int = 0

    @property
    def substrate_category(self) -> str:
        return f"LIBERO-PRO/{self.category}" if self.benchmark == "pro" else self.category

    def scenario_id(self, event: str, draw: int) -> str:
        """The case's id without the policy seed."""
        suite, category = self.suite.removeprefix("libero_"), self.category.lower().replace(" ", "-").replace("_", "-")
        if self.benchmark == "pro":
            return f"pro-{category}-{suite}-t{self.index:02d}-i{self.init_state:02d}-{event}-d{draw}"
        return f"plus-{category}-{suite}-t{self.index:02d}-{self.name}-{event}-d{draw}"

    def seed(self, event: str, draw: int) -> int:
        """The case's intervention seed."""
        if self.benchmark == "pro":
            return stable_seed(PRO_SAMPLER, self.category, self.suite, self.index, self.init_state, event, draw)
        return stable_seed(PLUS_SAMPLER, self.category, self.suite, self.index, self.name, event, draw)


def eligible(task: Task) -> tuple[str, ...]:
    """The events that a task can have by its task file alone, in the format's order (1.6)."""
    trigger = task.trigger_entity
    if trigger is None:
        return ()
    spares, obstacles = distractors_of(task), obstacles_of(task)
    possible = {
        "target_relocation": _movable(task, trigger),
        "receptacle_relocation": _movable(task, task.receptacle),
        "distractor_burst": len(spares) >= DISTRACTORS,
        "obstacle_insertion": trigger in task.scene.objects and len(obstacles) >= 1,
    }
    return tuple(event for event in EVENT_ORDER if possible.get(event, event in LABELS))


def distractors_of(task: Task) -> list[str]:
    """Objects that play no part in the task and stand on something, sorted."""
    busy = {*task.goal_entities, *task.objects_of_interest}
    return sorted(o for o in task.scene.objects if o not in busy and support_of(task, o) is not None)


def obstacles_of(task: Task) -> list[str]:
    """Distractors that stand on what the trigger entity stands on, sorted."""
    support = support_of(task, task.trigger_entity)
    return [o for o in distractors_of(task) if support is not None and support_of(task, o) == support]


def _movable(task: Task, name: str | None) -> bool:
    """Whether a relocation can move it: an object that starts `on` a region of a floor or a table fixture (6.6)."""
    if name is None or name not in task.scene.objects:
        return False
    first = next((p for p in task.scene.placements if p.entity == name), None)
    return first is not None and first.predicate == "on" and (first.support == "floor" or "table" in first.support)


def case_of(
    source: Source, variant: dict[str, str], task: Task, event: str, draw: int, *, redraw: bool = False
) -> dict[str, Any]:
    """The JSON of a case.

    Args:
      source: where it starts.
      variant: its `substrate_variant`.
      task: the varied task.
      event: which event, one of `eligible(task)`.
      draw: 0 or 1.
      redraw: distractors that would stand in the occluder of this source are drawn again, and the case says so in its id
        and its sampler. The release's occluder stands elsewhere, so its own draws can be impossible here.
    """
    seed = source.seed(event, draw)
    occluded = _occluded(task, source.init_state) if redraw and event == "distractor_burst" else None
    change, setup, draws = _change(task, event, draw, seed, occluded)
    family, severity, response = LABELS[event]
    scenario_id = source.scenario_id(event, draw) + (f"-redrawn{draws}" if draws else "")
    base = f"{source.suite}/task_{source.index}"
    pro = source.benchmark == "pro"
    sampler = REDRAWN_SAMPLER if draws else PRO_SAMPLER if pro else PLUS_SAMPLER
    scenario = {
        "scenario_id": scenario_id,
        "base_task_id": f"libero-pro/{source.category}/{base}" if pro else base,
        "seed": seed,
        "change_family": family,
        "change_type": event,
        "severity": severity[draw],
        "trigger": {"type": "on_proximity", "value": task.trigger_entity, "distance_m": TRIGGER_DISTANCE_M},
        "change": {"operation": EVENT_OPERATION[event], **change},
        "randomization": {"sampler": sampler, "draw_id": draw, "seed": seed},
        "expected_response_mode": response,
        "safety_constraints": list(_SAFETY),
    }
    if setup:
        scenario["setup"] = removals(setup)
    return {
        "case_id": f"{scenario_id}-p{POLICY_SEED}",
        "task_suite_name": source.suite,
        "task_index": source.index,
        "task_name": task.name,
        "init_state_index": source.init_state,
        "policy_seed": POLICY_SEED,
        "timing_bucket": "middle",
        "dynamic_phase": "pre_grasp_proximity",
        "substrate_category": source.substrate_category,
        "substrate_difficulty": None,
        "substrate_variant": variant,
        "scenario": scenario,
    }


def _change(
    task: Task, event: str, draw: int, seed: int, occluded: Occluded | None
) -> tuple[dict[str, Any], list[str], int]:
    """A change without its operation, the objects that setup removes, and how often it was drawn again."""
    if event == "illumination_switch":
        return {"scale": LIGHT_SCALE[draw]}, [], 0
    if event == "camera_shift":
        return {"camera": "agentview", "calibration": "fixed_global_viewpoint", **CAMERA[draw]}, [], 0
    if event == "visual_theme_switch":
        return dict(THEME[draw]), [], 0
    if event == "sensor_noise_onset":
        return {**NOISE[draw], "seed": seed}, [], 0
    target = task.trigger_entity
    assert target is not None, "an event needs something to approach"
    if event == "obstacle_insertion":
        obstacles = obstacles_of(task)
        chosen = obstacles[draw % len(obstacles)]
        x, y = OBSTACLE_OFFSET_M[draw]
        return {**_put(task, chosen, target, x, y), "placement_rule": "target_support_approach_ring"}, [chosen], 0
    if event == "distractor_burst":
        placements, draws = _ring(task, target, seed, occluded)
        change = {"placements": placements, "distractor_count": DISTRACTORS}
        return change, [p["object"] for p in placements], draws
    return _relocation(task, event, draw), [], 0


def _relocation(task: Task, event: str, draw: int) -> dict[str, Any]:
    name = task.trigger_entity if event == "target_relocation" else task.receptacle
    if name is None:
        raise BenchError(f"{task.suite} task {task.index} has nothing for {event} to move")
    number = stable_seed(_DIRECTION_SAMPLER, task.suite, task.index, event, "direction") % len(DIRECTIONS)
    x, y = DIRECTIONS[number]
    distance = RELOCATION_M[draw]
    return {
        "object": name,
        "delta_position_m": [round(distance * x, 8), round(distance * y, 8), 0.0],
        "direction_xy": [round(x, 8), round(y, 8)],
        "distance_m": distance,
        "support_entity": support_of(task, name),
        "calibration": "deterministic_candidate_requires_preflight",
    }


def _occluded(task: Task, row: int) -> Occluded | None:
    """The occluder of an initial state, and what else stands there."""
    standing, target = task.extra.get("occluder"), task.trigger_entity
    if standing is None or target not in task.scene.objects:
        return None
    try:
        fixture = standing(row)
    except BenchError:
        return None  # it has no place there, and the case fails preflight for that
    return fixture, Layout.of(task, np.asarray(task.load_init_states()[row]), POLICY_SEED)


def _ring(task: Task, target: str, seed: int, occluded: Occluded | None) -> tuple[list[dict[str, Any]], int]:
    """Five distractors around the target, as section 2.5 draws them; and how many draws, in the occluder, came before.

    Where no draw is clear of it, the first one is as good as any.
    """
    rng = random.Random(seed)
    first = None
    for draws in range(REDRAWS):
        chosen = distractors_of(task)
        rng.shuffle(chosen)
        phase = rng.uniform(0, 2 * math.pi)
        placements = []
        for i, name in enumerate(chosen[:DISTRACTORS]):
            angle, radius = phase + i * 2 * math.pi / DISTRACTORS, rng.uniform(*RING_M)
            placements.append(
                _put(task, name, target, round(radius * math.cos(angle), 8), round(radius * math.sin(angle), 8))
            )
        if occluded is None or all(_clear(occluded, p) for p in placements):
            return placements, draws
        first = first or placements
    assert first is not None
    return first, 0


def _clear(occluded: Occluded, placement: dict[str, Any]) -> bool:
    """Whether what is put there touches no part of the occluder, seen from above."""
    fixture, layout = occluded
    spot = layout.position[placement["relative_to"]] + np.array(placement["offset_m"][:2])
    return fixture.distance(spot) >= layout.radius[placement["object"]] + GAP_M


def _put(task: Task, name: str, target: str, x: float, y: float) -> dict[str, Any]:
    return {
        "object": name,
        "relative_to": target,
        "offset_m": [x, y, 0.0],
        "preserve_initial_z": True,
        "support_entity": support_of(task, target),
    }
