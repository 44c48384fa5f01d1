"""When an event fires, judged after every control step of the policy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mjx_bench.errors import BenchError
from mjx_bench.scenario import Trigger
from mjx_bench.signals import SignalIndex, Signals

SUPPORTED = ("on_proximity", "fixed_step")

Firing = Callable[[Signals, int, int], bool]


def compile_trigger(trigger: Trigger, index: SignalIndex) -> Firing:
    """Resolves a trigger into a function of (signals, lane, policy steps executed) that says whether it holds.

    Raises:
      BenchError: a trigger type that this engine does not judge.
    """
    if trigger.type == "fixed_step":
        step_of = int(trigger.value)
        return lambda signals, lane, step: step >= step_of
    if trigger.type == "on_proximity":
        entity, distance = index.entity(str(trigger.value)), trigger.distance_m
        assert distance is not None, "checked when the manifest was read"
        return lambda signals, lane, step: _distance(signals, lane, entity) <= distance
    raise BenchError(f"trigger type {trigger.type!r} is not supported; supported: {', '.join(SUPPORTED)}")


def trigger_distance(trigger: Trigger, index: SignalIndex, signals: Signals, lane: int) -> float | None:
    """Metres from the end effector to the trigger's entity, for the record; None for a trigger without one."""
    if trigger.type != "on_proximity":
        return None
    return _distance(signals, lane, index.entity(str(trigger.value)))


def _distance(signals: Signals, lane: int, entity: int) -> float:
    return float(np.linalg.norm(signals.eef_pos[lane] - signals.entity_now[lane, entity]))
