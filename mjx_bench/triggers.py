"""When an event fires, judged after every control step of the policy.

The format's triggers of physical cases: `fixed_step`, `on_proximity`, and three about grasping. An object is grasped while
both finger pads touch it. Of a robot with several hands, the one that is nearest to the entity is the end effector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mjx_bench.errors import BenchError
from mjx_bench.predicates import touches_of
from mjx_bench.scenario import Trigger
from mjx_bench.signals import FINGERS, SignalIndex, Signals, touch_pair
from mjx_bench.task import Task

SUPPORTED = ("on_proximity", "fixed_step", "before_grasp", "after_grasp", "before_place")

# Metres of `before_grasp` where the manifest names none (section 1.3 of the format).
BEFORE_GRASP_DISTANCE = 0.18

Firing = Callable[[Signals, int, int], bool]


def touches_of_triggers(triggers: Sequence[Trigger]) -> tuple[tuple[str, str], ...]:
    """Pairs of names whose contact the triggers read."""
    grasping = [str(t.value) for t in triggers if t.type in ("before_grasp", "after_grasp", "before_place")]
    return tuple(dict.fromkeys(touch_pair(finger, name) for name in grasping for finger in FINGERS))


def touches_judged(task: Task, triggers: Sequence[Trigger], *, engine: str) -> tuple[tuple[str, str], ...]:
    """Pairs of names whose contact an engine must report to judge the goal of `task` and `triggers`.

    A compiled engine reports whatever any trigger could read: what else its program computes might change a bit, so this
    must not depend on which cases happen to be run.
    """
    reads = touches_of_triggers(triggers)
    if engine != "c" and task.scene.robot.finger_geoms[0]:
        reads = tuple(touch_pair(finger, name) for name in task.scene.entities for finger in FINGERS)
    return tuple(dict.fromkeys((*touches_of(task.atoms, task.scene), *reads)))


def compile_trigger(trigger: Trigger, index: SignalIndex) -> Firing:
    """Resolves a trigger into a function of (signals, lane, policy steps executed) that says whether it holds.

    * `fixed_step`: that many policy steps were executed.
    * `on_proximity`: the end effector is within the distance of the entity, the bound included.
    * `before_grasp`: the same, and the entity is not grasped.
    * `after_grasp`: the entity is grasped.
    * `before_place`: the entity is grasped and within the distance of the target entity.

    Raises:
      BenchError: a trigger type that this engine does not judge.
    """
    if trigger.type == "fixed_step":
        step_of = int(trigger.value)
        return lambda signals, lane, step: step >= step_of
    if trigger.type not in SUPPORTED:
        raise BenchError(f"trigger type {trigger.type!r} is not supported; supported: {', '.join(SUPPORTED)}")
    near = _near(trigger, index)
    if trigger.type == "on_proximity":
        return lambda signals, lane, step: near(signals, lane)
    pads = [index.touch(finger, str(trigger.value)) for finger in FINGERS]

    def grasped(signals: Signals, lane: int) -> bool:
        return bool(signals.touch[lane, pads].all())

    if trigger.type == "before_grasp":
        return lambda signals, lane, step: near(signals, lane) and not grasped(signals, lane)
    if trigger.type == "after_grasp":
        return lambda signals, lane, step: grasped(signals, lane)
    return lambda signals, lane, step: grasped(signals, lane) and near(signals, lane)


def trigger_distance(trigger: Trigger, index: SignalIndex, signals: Signals, lane: int) -> float | None:
    """Metres that the trigger compares, for the record; None for a trigger without a distance."""
    points = _points(trigger, index)
    return None if points is None else _distance(*points, index, signals, lane)


def _near(trigger: Trigger, index: SignalIndex) -> Callable[[Signals, int], bool]:
    points, bound = _points(trigger, index), trigger.distance_m
    if trigger.type == "before_grasp" and bound is None:
        bound = BEFORE_GRASP_DISTANCE
    if points is None or bound is None:
        return lambda signals, lane: True
    return lambda signals, lane: _distance(*points, index, signals, lane) <= bound


def _points(trigger: Trigger, index: SignalIndex) -> tuple[int | None, int] | None:
    """What the trigger measures between: columns of entities, None for the end effector."""
    if trigger.type in ("on_proximity", "before_grasp"):
        return None, index.entity(str(trigger.value))
    if trigger.type == "before_place":
        return index.entity(str(trigger.value)), index.entity(str(trigger.target_entity))
    return None


def _distance(a: int | None, b: int, index: SignalIndex, signals: Signals, lane: int) -> float:
    if a is not None:
        starts = [signals.entity_now[lane, a]]
    else:
        starts = [signals.eef_pos[lane], *(signals.region_pos[lane, index.region(hand)] for hand in index.hands)]
    return min(float(np.linalg.norm(start - signals.entity_now[lane, b])) for start in starts)
