"""What happens in the middle of an episode, as data: a trigger, a change, and what both arms start with.

Sections 1.3 and 3.1 of the LIBERO-MAX format. How triggers are evaluated and changes applied is not here.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from mjx_bench.changes import EVENT_OPERATION, INSTRUCTION_OPERATIONS, Change, check_operation_of_event
from mjx_bench.errors import BenchError
from mjx_bench.fields import FrozenMap, Reader, is_int, is_number, thaw

FAMILIES = ("OBS", "GEO", "CLUTTER", "OBSTACLE", "OBS-NEW", "INTENT", "FEAS")
SEVERITIES = ("low", "medium", "high")
RESPONSES = ("continue", "replan", "follow_update", "clarify", "stop", "report_infeasible")

# Trigger type to what its value is.
TRIGGERS = {
    "on_proximity": "an entity name",
    "before_grasp": "an entity name",
    "after_grasp": "an entity name",
    "before_place": "an entity name",
    "after_subgoal": "a non-empty string",
    "on_region_entry": "a non-empty string",
    "progress_fraction": "a number in (0, 1)",
    "fixed_step": "an integer >= 1",
}
ENTITY_TRIGGERS = tuple(t for t, value in TRIGGERS.items() if value == "an entity name")


def present(**fields: Any) -> dict[str, Any]:
    """JSON of the fields that are set; None stands for a key that the file does not have."""
    return {k: thaw(v) for k, v in fields.items() if v is not None}


@dataclasses.dataclass(frozen=True)
class Trigger:
    """When the event fires.

    Attributes:
      type: a key of `TRIGGERS`.
      value: an entity name, a step or a fraction, as `TRIGGERS` says.
      distance_m: largest end-effector distance, inclusive, metres; needed by on_proximity and before_place.
      target_entity: before_place only, where the object is to be placed.
    """

    type: str
    value: Any
    distance_m: float | None = None
    target_entity: str | None = None

    @classmethod
    def read(cls, r: Reader) -> Trigger:
        kind = r.choice("type", tuple(TRIGGERS))

        def ok(v: Any) -> bool:
            if kind == "fixed_step":
                return is_int(v) and v >= 1
            if kind == "progress_fraction":
                return is_number(v) and 0 < v < 1
            return isinstance(v, str) and v != ""

        value = r.get("value", ok, f"{TRIGGERS[kind]} (trigger type {kind})")
        distance = r.number("distance_m", low=0, high=float("inf"), strict=True, default=None)
        if distance is None and kind in ("on_proximity", "before_place"):
            r.fail("distance_m", f"a finite number > 0 (trigger type {kind})")
        if distance is not None and kind not in ("on_proximity", "before_place", "before_grasp"):
            r.fail("distance_m", f"no such field with trigger type {kind}; remove it")
        target = r.text("target_entity", default=None)
        if target is not None and kind != "before_place":
            r.fail("target_entity", f"no such field with trigger type {kind}; remove it")
        r.finish()
        return cls(kind, value, distance, target)

    def to_json(self) -> dict[str, Any]:
        return present(**vars(self))


@dataclasses.dataclass(frozen=True)
class Scenario:
    """One event: when it fires, what changes, and what both arms start with.

    Attributes:
      seed: the resolved intervention seed.
      setup: changes applied to both arms right after the initial state is restored, in order.
      randomization: sampler, draw_id and seed that the event was drawn with, or None.
      safety_constraints: declarative; never evaluated.
    """

    scenario_id: str
    base_task_id: str
    seed: int
    change_family: str
    severity: str
    trigger: Trigger
    change: Change
    expected_response_mode: str
    safety_constraints: tuple[str, ...]
    change_type: str | None = None
    setup: tuple[Change, ...] | None = None
    randomization: FrozenMap | None = None

    @classmethod
    def read(cls, r: Reader) -> Scenario:
        scenario_id = r.text("scenario_id")
        base_task_id = r.text("base_task_id")
        if not re.fullmatch(r"(libero-pro/[^/]+/)?[^/]+/task_\d+", base_task_id):
            r.fail("base_task_id", "<suite>/task_<i> or libero-pro/<category>/<suite>/task_<i>")
        change = Change.read(r.object("change"))
        event = r.choice("change_type", tuple(EVENT_OPERATION), default=None)
        check_operation_of_event(r, event, change.operation)
        setup: tuple[Change, ...] | None = None
        if r.has("setup"):
            setup = tuple(
                Change.read(Reader(step, r.where, f"scenario.setup[{i}]")) for i, step in enumerate(r.items("setup"))
            )
            for i, step in enumerate(setup):
                if step.operation in INSTRUCTION_OPERATIONS:
                    r.fail("setup", f"changes of the scene only; setup[{i}] is {step.operation!r}")
        randomization = None
        if r.has("randomization"):
            q = r.object("randomization")
            q.text("sampler")
            q.integer("draw_id")
            q.integer("seed")
            randomization = q.finish()

        def constraints(v: Any) -> bool:
            return isinstance(v, (list, tuple)) and all(isinstance(x, str) and x for x in v) and len(set(v)) == len(v)

        scenario = cls(
            scenario_id=scenario_id,
            base_task_id=base_task_id,
            seed=r.integer("seed"),
            change_family=r.choice("change_family", FAMILIES),
            severity=r.choice("severity", SEVERITIES),
            trigger=Trigger.read(r.object("trigger")),
            change=change,
            expected_response_mode=r.choice("expected_response_mode", RESPONSES),
            safety_constraints=tuple(r.get("safety_constraints", constraints, "a list of unique non-empty strings")),
            change_type=event,
            setup=setup,
            randomization=randomization,
        )
        r.finish()
        check_removed(scenario, r.where)
        return scenario

    def to_json(self) -> dict[str, Any]:
        out = present(**vars(self))
        out |= {"trigger": self.trigger.to_json(), "change": self.change.to_json()}
        if self.setup is not None:
            out["setup"] = [step.to_json() for step in self.setup]
        return out

    @property
    def event(self) -> str:
        """The name that tables use: the change type, or the operation of a scenario without one."""
        return self.change_type or self.change.operation

    @property
    def draw(self) -> int | None:
        return None if self.randomization is None else self.randomization["draw_id"]


def check_removed(scenario: Scenario, where: str) -> None:
    """An object that is put back at its height before removal must have been removed in setup."""
    removed = {step.fields["object"] for step in scenario.setup or () if step.operation == "remove_object"}
    for name in scenario.change.needs_initial_height():
        if name not in removed:
            raise BenchError(
                f"{where}: scenario.change puts {name!r} back at the height it had before removal, "
                f"but scenario.setup never removes it; add a remove_object of {name!r} to setup"
            )
