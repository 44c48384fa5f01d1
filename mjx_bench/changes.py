"""The change operations as data: which fields each takes, and which values those may have.

What an operation does to a simulator is not here. An operation is checked completely when a manifest is loaded, so that
a mistake in the last of a thousand cases shows before the first one runs. Fields and values: sections 2.1 to 2.9 of the
LIBERO-MAX format; `move_along` and `vary_lighting`, which take time, are our own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from mjx_bench.fields import FrozenMap, Reader, is_int, thaw


@dataclasses.dataclass(frozen=True)
class Change:
    """One operation and its fields, as written in the manifest.

    Attributes:
      operation: a key of `OPERATIONS`.
      fields: everything else; lists are tuples, objects are `FrozenMap`s. Metres, world axes, degrees.
    """

    operation: str
    fields: FrozenMap

    @classmethod
    def make(cls, operation: str, **fields: Any) -> Change:
        """Builds and checks a change in code, the way a file would be.

        Raises:
          BenchError: an unknown operation or a bad field.
        """
        return cls.read(Reader({"operation": operation, **fields}, "change"))

    @classmethod
    def read(cls, r: Reader) -> Change:
        operation = r.choice("operation", tuple(OPERATIONS))
        OPERATIONS[operation](r)
        everything = r.finish()
        return cls(operation, FrozenMap({k: v for k, v in everything.items() if k != "operation"}))

    def to_json(self) -> dict[str, Any]:
        return {"operation": self.operation, **thaw(self.fields)}

    @property
    def parts(self) -> tuple[Mapping[str, Any], ...]:
        """The objects that name entities: one each distractor or track, otherwise the fields themselves."""
        return self.fields[_PARTS[self.operation]] if self.operation in _PARTS else (self.fields,)

    def entities(self) -> Iterator[tuple[str, str]]:
        """Yields (dotted field, entity name) for every entity that must exist in the scene.

        `support_entity` is left out: it is informational and may name the floor or a table.
        """
        many = _PARTS.get(self.operation)
        for i, part in enumerate(self.parts):
            for key in ("object", "relative_to", "path_target"):
                if key in part:
                    yield (f"{many}[{i}].{key}" if many else key), part[key]

    def needs_initial_height(self) -> Iterator[str]:
        """Yields the objects that are put back at the height they had when `remove_object` took them away."""
        for part in self.parts:
            if part.get("preserve_initial_z") or "path_target" in part:
                yield part["object"]


def _position(r: Reader) -> None:
    """The position forms, of which the first present one wins: absolute, relative to itself, relative to an anchor."""
    r.vector("position_m", 3, default=None)
    r.vector("delta_position_m", 3, default=None)
    r.text("relative_to", default=None)
    r.vector("offset_m", 3, default=None)
    r.flag("preserve_initial_z", default=None)
    if r.has("relative_to") != r.has("offset_m"):
        r.fail("offset_m" if r.has("relative_to") else "relative_to", "both relative_to and offset_m, or neither")
    if not (r.has("position_m") or r.has("delta_position_m") or r.has("relative_to")):
        r.fail("position_m", "one of position_m, delta_position_m, or relative_to with offset_m")


def _set_lighting(r: Reader) -> None:
    r.number("scale", low=0, default=None)  # a missing scale means 0: lights out


def _shift_camera(r: Reader) -> None:
    r.text("camera")
    r.vector("delta_position_m", 3, default=None)
    r.number("yaw_degrees", default=None)
    r.number("fovy_degrees", 5, 150, default=None)
    r.number("delta_fovy_degrees", -145, 145, default=None)  # the sum is checked against 5..150 when it is applied
    r.text("calibration", default=None)
    if r.has("fovy_degrees") and r.has("delta_fovy_degrees"):
        r.fail("fovy_degrees", "either fovy_degrees or delta_fovy_degrees, not both")
    if not any(map(r.has, ("delta_position_m", "yaw_degrees", "fovy_degrees", "delta_fovy_degrees"))):
        r.fail("delta_position_m", "at least one of delta_position_m, yaw_degrees, fovy_degrees, delta_fovy_degrees")


def _move_object(r: Reader) -> None:
    r.text("object")
    _position(r)
    r.text("support_entity", default=None)
    r.number("distance_m", low=0, default=None)
    r.vector("direction_xy", 2, default=None)
    r.text("calibration", default=None)
    r.text("placement_rule", default=None)


def _insert_obstacle(r: Reader) -> None:
    r.text("object")
    r.text("support_entity", default=None)
    if r.has("path_target"):
        r.text("path_target")
        r.number("path_fraction", 0, 1, strict=True)
        r.number("lateral_offset_m")
    else:
        _position(r)
        r.text("placement_rule", default=None)


def _insert_distractors(r: Reader) -> None:
    placements = r.items("placements", at_least=1)
    names: list[str] = []
    for i, placement in enumerate(placements):
        p = Reader(placement, r.where, f"{r.path}.placements[{i}]".lstrip("."))
        names.append(p.text("object"))
        if names.index(names[i]) != i:
            p.fail("object", f"a different object from placement {names.index(names[i])}")
        _position(p)
        p.text("support_entity", default=None)
        p.text("placement_rule", default=None)
        p.finish()
    if r.integer("distractor_count", default=len(placements)) != len(placements):
        r.fail("distractor_count", f"the number of placements, {len(placements)}")


def _remove_object(r: Reader) -> None:
    r.text("object")
    r.vector("offworld_position_m", 3)


def _set_sensor_corruption(r: Reader) -> None:
    r.number("noise_std", 0, 100)
    r.number("occlusion_fraction", 0, 0.5)
    r.integer("seed")


def _set_visual_theme(r: Reader) -> None:
    def permutation(v: Any) -> bool:
        return isinstance(v, (list, tuple)) and all(map(is_int, v)) and sorted(v) == [0, 1, 2]

    r.get("rgb_permutation", permutation, "a permutation of [0, 1, 2]")
    r.vector("rgb_multiplier", 3, low=0)


def _move_along(r: Reader) -> None:
    """Entities that move along paths of their own, as if carried: `step` counts control steps from the event."""
    names: list[str] = []
    for i, track in enumerate(r.items("tracks", at_least=1)):
        t = Reader(track, r.where, f"{r.path}.tracks[{i}]".lstrip("."))
        names.append(t.text("object"))
        if names.index(names[i]) != i:
            t.fail("object", f"a different object from track {names.index(names[i])}")
        t.text("relative_to")
        last = -1
        for j, point in enumerate(t.items("points", at_least=2)):
            p = Reader(point, r.where, f"{t.path}.points[{j}]")
            last = p.integer("step", low=last + 1)
            p.vector("offset_m", 3)
            p.finish()
        t.finish()
    r.integer("grasp_step", low=0, default=None)


def _vary_lighting(r: Reader) -> None:
    """Light that goes through phases, each a scale of the scene's own light for some control steps, once or for ever."""
    for i, phase in enumerate(r.items("phases", at_least=1)):
        p = Reader(phase, r.where, f"{r.path}.phases[{i}]".lstrip("."))
        p.integer("steps", low=1)
        p.number("scale", low=0)
        p.finish()
    r.flag("repeat")


def _replace_instruction(r: Reader) -> None:
    r.text("instruction")
    for i, atom in enumerate(r.items("alternate_goal", at_least=1)):
        a = Reader(atom, r.where, f"{r.path}.alternate_goal[{i}]".lstrip("."))
        a.text("predicate")
        a.get(
            "arguments", lambda v: isinstance(v, (list, tuple)) and all(isinstance(x, str) for x in v), "entity names"
        )
        a.finish()


def _cancel_instruction(r: Reader) -> None:
    r.text("instruction", default=None)


OPERATIONS: dict[str, Callable[[Reader], None]] = {
    "set_lighting": _set_lighting,
    "shift_camera": _shift_camera,
    "move_object": _move_object,
    "insert_obstacle": _insert_obstacle,
    "insert_distractors": _insert_distractors,
    "remove_object": _remove_object,
    "set_sensor_corruption": _set_sensor_corruption,
    "set_visual_theme": _set_visual_theme,
    "move_along": _move_along,
    "vary_lighting": _vary_lighting,
    "replace_instruction": _replace_instruction,
    "cancel_instruction": _cancel_instruction,
}
# Operations of many parts, and the field that holds them.
_PARTS = {"insert_distractors": "placements", "move_along": "tracks"}
INSTRUCTION_OPERATIONS = ("replace_instruction", "cancel_instruction")

# The operation of every event name that a manifest may use.
EVENT_OPERATION = {
    "illumination_switch": "set_lighting",
    "camera_shift": "shift_camera",
    "visual_theme_switch": "set_visual_theme",
    "sensor_noise_onset": "set_sensor_corruption",
    "target_relocation": "move_object",
    "receptacle_relocation": "move_object",
    "distractor_burst": "insert_distractors",
    "obstacle_insertion": "insert_obstacle",
    "target_removal": "remove_object",
    "receptacle_removal": "remove_object",
    "instruction_target_update": "replace_instruction",
    "instruction_receptacle_update": "replace_instruction",
    "task_cancel": "cancel_instruction",
    "target_carried": "move_along",
    "illumination_alternation": "vary_lighting",
}


def check_operation_of_event(r: Reader, event: str | None, operation: str) -> None:
    """Raises when a case is named after one event and carries the operation of another: tables go by the name."""
    if event is not None and EVENT_OPERATION[event] != operation:
        r.fail("change_type", f"an event whose operation is {operation!r} ({event} uses {EVENT_OPERATION[event]!r})")
