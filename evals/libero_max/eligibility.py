"""Which events a task can have, by its task file alone: sections 1.6 and 6.6 of the LIBERO-MAX format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mjx_bench.records.schema import EVENT_ORDER
from mjx_bench.task import Task

# The operations of version 1, in the format's order: what is drawn unless other events are asked for.
EVENTS = (
    "illumination_switch",
    "camera_shift",
    "target_relocation",
    "receptacle_relocation",
    "distractor_burst",
    "obstacle_insertion",
)
# Every task that names something to approach can have these, two of which are younger than version 1.
VISUAL = EVENT_ORDER[:4]

# Objects that a distractor burst brings back.
DISTRACTORS = 5


def support_of(task: Task, name: str | None) -> str | None:
    """What an entity stands on at the start, None if the task file does not say."""
    return next((p.support for p in task.scene.placements if p.entity == name), None)


def stands_on_plane(task: Task, name: str | None) -> bool:
    """Whether it is a movable object that starts `on` a region of a floor or a table (6.6)."""
    if name is None or name not in task.scene.objects:
        return False
    first = next((p for p in task.scene.placements if p.entity == name), None)
    return first is not None and first.predicate == "on" and (first.support == "floor" or "table" in first.support)


def distractors_of(task: Task) -> list[str]:
    """Objects that play no part in the task and share the trigger entity's table or floor, sorted.

    They come back at the height they were taken from, so another support would leave them in the air. A suite of our own
    says which they are in `Task.extra["geometry"]`.
    """
    if (geometry := task.extra.get("geometry")) is not None:
        return list(geometry.spares)
    if not stands_on_plane(task, task.trigger_entity):
        return []
    support = support_of(task, task.trigger_entity)
    busy = {*task.goal_entities, *task.objects_of_interest}
    return sorted(
        name
        for name in task.scene.objects
        if name not in busy and stands_on_plane(task, name) and support_of(task, name) == support
    )


def eligible_events(task: Task) -> tuple[str, ...]:
    """The events of version 1 that a task can have, by its task file alone (1.6)."""
    if (geometry := task.extra.get("geometry")) is not None:
        return tuple(event for event in EVENTS if event in geometry.events)
    trigger = task.trigger_entity
    if trigger is None:
        return ()
    spare = len(distractors_of(task))
    possible = {
        "illumination_switch": True,
        "camera_shift": True,
        "target_relocation": stands_on_plane(task, trigger),
        "receptacle_relocation": stands_on_plane(task, task.receptacle) and task.receptacle != trigger,
        "distractor_burst": spare >= DISTRACTORS,
        "obstacle_insertion": spare >= 1,
    }
    return tuple(event for event in EVENTS if possible[event])


# (task, event, index of the initial state, policy seed, query interval) to the case's JSON.
CaseOf = Callable[[Task, str, int, int, int], dict[str, Any]]


def own_events(task: Task) -> Mapping[str, CaseOf]:
    """The events that a task has of its benchmark's own, with what makes a case of each: `Task.extra["own_events"]`."""
    found: Mapping[str, CaseOf] = task.extra.get("own_events", {})
    return found


def can_have(task: Task, event: str) -> bool:
    """Whether a task can have an event, of any version or of its benchmark's own."""
    geometry = task.extra.get("geometry")
    seen = VISUAL if geometry is None else set(VISUAL).intersection(geometry.events)
    visual = event in seen and task.trigger_entity is not None
    return visual or event in eligible_events(task) or event in own_events(task)
