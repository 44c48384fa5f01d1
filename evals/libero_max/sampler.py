"""Our own cases on plain LIBERO: a valid manifest of any size from a seed, so that nobody needs a file to start.

Operations, parameters and eligibility are those of the LIBERO-MAX format (1.6, 2). Two things differ and have a sampler name
of their own: where objects go is chosen among free spots (`placing.py`), and obstacles stand on tables and floors only.
Events of another benchmark's own are drawn here too, where they are asked for by name; their cases are made by its tasks.
"""

from __future__ import annotations

import collections
import heapq
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from evals.libero_max.eligibility import DISTRACTORS, EVENTS, can_have, distractors_of, own_events, support_of
from evals.libero_max.placing import Layout, free_direction, free_offset, free_ring
from mjx_bench.cases import EVENT_OPERATION, EVENT_ORDER, OWN_EVENTS, Manifest, event_rank, stable_seed
from mjx_bench.errors import BenchError, unknown_name
from mjx_bench.fields import is_int
from mjx_bench.task import Task

SAMPLER = "mjx-bench-plain-v1"
DRAWS = (0, 1)
TRIGGER_DISTANCE_M = 0.18

# Parameters by draw: sections 2.1 to 2.8.
LIGHT_SCALE = (0.2, 1.8)
GLOBAL_VIEW = "agentview"
CAMERA = (
    {"delta_position_m": [0.06, 0.0, 0.02], "yaw_degrees": 18.0, "delta_fovy_degrees": 12.0},
    {"delta_position_m": [-0.06, 0.03, 0.0], "yaw_degrees": -22.0, "delta_fovy_degrees": -12.0},
)
THEME = (
    {"rgb_permutation": [2, 0, 1], "rgb_multiplier": [0.70, 1.15, 1.30]},
    {"rgb_permutation": [1, 2, 0], "rgb_multiplier": [1.25, 0.70, 1.10]},
)
NOISE = ({"noise_std": 24.0, "occlusion_fraction": 0.08}, {"noise_std": 36.0, "occlusion_fraction": 0.16})
RELOCATION_M = (0.06, 0.12)
OBSTACLE_OFFSET_M = ((0.14, 0.0), (0.0, -0.14))

# Event to (change_family, severity by draw, expected_response_mode): section 1.3.
LABELS = {
    "illumination_switch": ("OBS", ("high", "high"), "continue"),
    "camera_shift": ("OBS", ("high", "high"), "continue"),
    "visual_theme_switch": ("OBS", ("high", "high"), "continue"),
    "sensor_noise_onset": ("OBS", ("high", "high"), "continue"),
    "target_relocation": ("GEO", ("medium", "high"), "replan"),
    "receptacle_relocation": ("GEO", ("medium", "high"), "replan"),
    "distractor_burst": ("CLUTTER", ("high", "high"), "continue"),
    "obstacle_insertion": ("OBSTACLE", ("high", "high"), "replan"),
}


def sample_manifest(
    tasks: Sequence[Task],
    n: int,
    seed: int,
    *,
    events: Sequence[str] | None = None,
    init_states: Iterable[int] = range(10),
    policy_seed: int = 195,
    query_interval: int = 8,
) -> Manifest:
    """Makes a manifest of `n` cases, balanced over events, then over tasks, then over draws.

    A case's contents depend on its identity (task, initial state, event, draw, policy seed) alone; `seed` decides which
    cases are in. Cases without a free spot for what they move are left out.

    Args:
      tasks: what to choose from.
      n: number of cases.
      seed: of the choice.
      events: which events, of any version or of a benchmark's own; None for every one of `EVENTS` that some task is
        eligible for.
      init_states: rows of the tasks' initial states to choose from.
      policy_seed: of every case.
      query_interval: Q of the protocol.

    Returns:
      A manifest that `cases.Manifest.read` accepts, cases sorted by id.

    Raises:
      BenchError: an unknown event, an event that no task is eligible for, initial states that a task does not have, or
        more cases than there are.
    """
    for name, value, low in (("n", n, 1), ("seed", seed, 0), ("policy_seed", policy_seed, 0)):
        if not is_int(value) or value < low:
            raise BenchError(f"{name} = {value!r}: expected an integer >= {low}")
    if not tasks:
        raise BenchError("no tasks to sample from; name at least one suite")
    for event in events or ():
        if event not in (known := (*EVENT_ORDER, *OWN_EVENTS)):
            raise unknown_name("event", event, known)
    rows = sorted(set(init_states))
    for task in tasks:
        have = len(task.load_init_states())
        if not rows or rows[0] < 0 or rows[-1] >= have:
            wanted = f"{rows[0]}..{rows[-1]}" if rows else "none"
            raise BenchError(f"init_states = {wanted}: {task.suite} task {task.index} has 0..{have - 1}")

    queues: dict[str, list[_Candidate]] = {}
    for event in sorted(set(events or EVENTS), key=event_rank):
        queue = [
            _Candidate(task, row, event, draw)
            for task in tasks
            if can_have(task, event)
            for row in rows
            for draw in (DRAWS if event in LABELS else DRAWS[:1])
        ]
        if queue:
            queues[event] = queue
        elif events is not None:
            raise BenchError(f"event {event!r}: none of the {len(tasks)} task(s) is eligible for it; leave it out")
    cases = _choose(queues, n, seed, policy_seed, query_interval)
    if len(cases) < n:
        raise BenchError(
            f"n = {n}: only {len(cases)} cases can be made from {len(tasks)} task(s), {len(rows)} initial state(s) and "
            f"events {', '.join(queues)}; ask for fewer, or give more tasks or initial states"
        )
    data = {
        "benchmark_id": SAMPLER,
        "benchmark_version": "1",
        "protocol": {
            "arms": ["control", "intervention"],
            "query_interval": query_interval,
            "scoring_track": "physical_completion",
            "selection_contract": f"{SAMPLER}; seed {seed}; balanced over events, tasks and draws; geometry only",
        },
        "cases": sorted(cases, key=lambda case: case["case_id"]),
    }
    return Manifest.read(data, SAMPLER)


class _Candidate:
    """A case that could be made: one task, initial state, event and draw."""

    def __init__(self, task: Task, row: int, event: str, draw: int):
        self.task, self.row, self.event, self.draw = task, row, event, draw
        self.identity = (task.suite, task.index, row, event, draw)

    def counted(self) -> tuple[tuple[object, ...], ...]:
        task = self.task.suite, self.task.index
        return ("task", *task), ("task and event", *task, self.event), ("draw", self.event, self.draw)


def _choose(
    queues: dict[str, list[_Candidate]], n: int, seed: int, policy_seed: int, interval: int
) -> list[dict[str, Any]]:
    """Events take turns; on its turn an event gives the candidate whose task was used least, ties broken by the seed."""
    uses: collections.Counter[tuple[object, ...]] = collections.Counter()
    layouts: dict[tuple[object, ...], Layout] = {}

    def cost(c: _Candidate) -> tuple[int, ...]:
        return *(uses[key] for key in c.counted()), stable_seed(SAMPLER, seed, *c.identity)

    heaps = {event: [(cost(c), i, c) for i, c in enumerate(queue)] for event, queue in queues.items()}
    for heap in heaps.values():
        heapq.heapify(heap)
    turns = collections.deque(heaps)
    cases: list[dict[str, Any]] = []
    case: dict[str, Any] | None
    while turns and len(cases) < n:
        event = turns.popleft()
        heap = heaps[event]
        while heap:
            old, i, candidate = heap[0]
            # Costs only ever grow, so a stale one at the front is refreshed and put back until the front is true.
            if old != cost(candidate):
                heapq.heapreplace(heap, (cost(candidate), i, candidate))
                continue
            heapq.heappop(heap)
            task, row = candidate.task, candidate.row
            if (own := own_events(task).get(event)) is not None:
                case = own(task, event, row, policy_seed, interval)
            else:
                place = (task.suite, task.index, row)
                if place not in layouts:
                    layouts[place] = _layout(task, row, policy_seed)
                case = _make_case(candidate, layouts[place], policy_seed)
            if case is not None:
                cases.append(case)
                uses.update(candidate.counted())
                turns.append(event)
                break
    return cases


def _layout(task: Task, row: int, policy_seed: int) -> Layout:
    """What stands where in an initial state; a suite of our own says so in `Task.extra["geometry"]`."""
    if (geometry := task.extra.get("geometry")) is not None:
        layout: Layout = geometry.layout(row)
        return layout
    return Layout.of(task, task.load_init_states()[row], policy_seed)


def _make_case(c: _Candidate, layout: Layout, policy_seed: int) -> dict[str, Any] | None:
    """The case's JSON, None when there is no free spot."""
    task = c.task
    scenario_seed = stable_seed(SAMPLER, *c.identity)
    made = _CHANGES[c.event](task, layout, c.event, c.draw, scenario_seed)
    if made is None:
        return None
    change, setup = made
    scenario_id = f"{task.suite}-t{task.index:02d}-i{c.row}-{c.event}-d{c.draw}"
    family, severity, response = LABELS[c.event]
    scenario = {
        "scenario_id": scenario_id,
        "base_task_id": f"{task.suite}/task_{task.index}",
        "seed": scenario_seed,
        "change_family": family,
        "change_type": c.event,
        "severity": severity[c.draw],
        "trigger": {"type": "on_proximity", "value": task.trigger_entity, "distance_m": TRIGGER_DISTANCE_M},
        "change": {"operation": EVENT_OPERATION[c.event], **change},
        "randomization": {"sampler": SAMPLER, "draw_id": c.draw, "seed": scenario_seed},
        "expected_response_mode": response,
        "safety_constraints": ["no_simulator_error"],
    }
    if c.event == "obstacle_insertion":
        scenario["safety_constraints"] = ["no_simulator_error", "no_obstacle_collision"]
    if setup:
        scenario["setup"] = removals(setup)
    return {
        "case_id": f"{scenario_id}-p{policy_seed}",
        "task_suite_name": task.suite,
        "task_index": task.index,
        "task_name": task.name,
        "init_state_index": c.row,
        "policy_seed": policy_seed,
        "timing_bucket": "middle",
        "scenario": scenario,
    }


# A change without its operation, and the objects to remove in setup.
_Made = tuple[dict[str, Any], list[str]] | None


def removals(names: Sequence[str]) -> list[dict[str, Any]]:
    """The setup that takes objects away, each to a place of its own (section 2.5)."""
    return [
        {"operation": "remove_object", "object": name, "offworld_position_m": [round(-2.0 - 0.2 * i, 1), 0.0, -5.0]}
        for i, name in enumerate(names)
    ]


def _light(task: Task, layout: Layout, event: str, draw: int, seed: int) -> _Made:
    return {"scale": LIGHT_SCALE[draw]}, []


def _camera(task: Task, layout: Layout, event: str, draw: int, seed: int) -> _Made:
    if GLOBAL_VIEW in task.scene.cameras:
        return {"camera": GLOBAL_VIEW, "calibration": "fixed_global_viewpoint", **CAMERA[draw]}, []
    return {"camera": task.scene.cameras[0], **CAMERA[draw]}, []  # where there is none, the robot's first


def _theme(task: Task, layout: Layout, event: str, draw: int, seed: int) -> _Made:
    return dict(THEME[draw]), []


def _noise(task: Task, layout: Layout, event: str, draw: int, seed: int) -> _Made:
    return {**NOISE[draw], "seed": seed}, []


def _relocation(task: Task, layout: Layout, event: str, draw: int, seed: int) -> _Made:
    target = task.trigger_entity
    name = target if event == "target_relocation" else task.receptacle
    assert name is not None
    distance = RELOCATION_M[draw]
    grasped = None if name == target else target
    direction = free_direction(layout, name, distance, stable_seed(seed, "direction"), grasped=grasped)
    if direction is None:
        return None
    return {
        "object": name,
        "delta_position_m": [round(distance * direction[0], 8), round(distance * direction[1], 8), 0.0],
        "direction_xy": [round(direction[0], 8), round(direction[1], 8)],
        "distance_m": distance,
        "support_entity": support_of(task, name),
        "calibration": "free_spot_at_initial_state",
    }, []


def _obstacle(task: Task, layout: Layout, event: str, draw: int, seed: int) -> _Made:
    target, spare = task.trigger_entity, distractors_of(task)
    assert target is not None
    obstacle = spare[draw % len(spare)]
    found = free_offset(layout, obstacle, target, OBSTACLE_OFFSET_M[draw])
    if found is None:
        return None
    (x, y), degrees = found
    return {
        "object": obstacle,
        "relative_to": target,
        "offset_m": [x, y, 0.0],
        "preserve_initial_z": True,
        "support_entity": support_of(task, target),
        "placement_rule": "target_support_approach_ring" + (f"_rotated_{degrees}" if degrees else ""),
    }, [obstacle]


def _distractors(task: Task, layout: Layout, event: str, draw: int, seed: int) -> _Made:
    target = task.trigger_entity
    assert target is not None
    ring = free_ring(layout, target, distractors_of(task), DISTRACTORS, seed)
    if ring is None:
        return None
    placements = [
        {
            "object": name,
            "relative_to": target,
            "offset_m": [*map(float, offset), 0.0],
            "preserve_initial_z": True,
            "support_entity": support_of(task, target),
        }
        for name, offset in ring.items()
    ]
    return {"placements": placements, "distractor_count": len(placements)}, list(ring)


_CHANGES: dict[str, Callable[[Task, Layout, str, int, int], _Made]] = {
    "illumination_switch": _light,
    "camera_shift": _camera,
    "visual_theme_switch": _theme,
    "sensor_noise_onset": _noise,
    "target_relocation": _relocation,
    "receptacle_relocation": _relocation,
    "distractor_burst": _distractors,
    "obstacle_insertion": _obstacle,
}
