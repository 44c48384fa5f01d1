"""Mid-episode changes: what an operation does to one lane, as data in and edits out.

`resolve` reads a lane and returns the edits that an engine applies, with a record of what changed. It touches nothing
itself, so an event can be resolved, inspected and tested without a simulator. Semantics: section 2 of the LIBERO-MAX format.

An event may take time. What it does later is a pure function of its record and of the steps since it began (`edits_after`):
whoever steps the lane calls `go_on` after every step, and a record alone is enough to do the same again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from mjx_bench.changes import Change
from mjx_bench.errors import BenchError
from mjx_bench.fields import thaw
from mjx_bench.physics.base import Edit, Park, Parked, Physics, SetPosition, Visual
from mjx_bench.signals import HAND, touch_pair

# Removed objects wait here, far above anything that collides, each entity in a slot of its own. (The reference puts them
# five metres under the floor's collision plane, which shoots them upwards; a declared deviation.)
PARK_ORIGIN = np.array([-2.0, 0.0, 5.0])
PARK_SPACING = np.array([-0.5, 0.0, 0.0])

# A line from the gripper to the target that is closer to vertical than this has no side to stand on.
MIN_PATH_XY = 1e-9

# Operations that take time.
LASTING = ("move_along", "vary_lighting")
VISUAL_OPERATIONS = ("set_lighting", "shift_camera", "set_visual_theme", "set_sensor_corruption")


@dataclasses.dataclass(frozen=True)
class LaneView:
    """What an operation may read of one lane.

    Attributes:
      position: entity name to [3] current position, world metres.
      eef_pos: [3] end-effector position that triggers are judged by.
      parked: objects out of the scene.
    """

    position: Mapping[str, np.ndarray]
    eef_pos: np.ndarray
    parked: Mapping[str, Parked]

    @classmethod
    def of(cls, physics: Physics, lane: int) -> LaneView:
        s = physics.signals
        return cls(
            position={name: s.entity_now[lane, e].copy() for e, name in enumerate(physics.index.entities)},
            eef_pos=s.eef_pos[lane].copy(),
            parked=dict(physics.parked(lane)),
        )


def resolve(change: Change, view: LaneView, *, faithful: bool = False) -> tuple[list[Edit], dict[str, Any]]:
    """Turns one change into edits of one lane.

    Args:
      change: a checked operation.
      view: the lane at the moment of the event.
      faithful: removed objects go where the reference puts them, under the floor, and come back as they tumbled.

    Returns:
      edits: for `Physics.edit`.
      details: for the record, JSON: the operation, and for everything moved its position before and after.

    Raises:
      BenchError: a change of the instruction, an object put back at a height it never left, or a path without a side.
    """
    if change.operation in VISUAL_OPERATIONS:
        fields = thaw(change.fields)
        return [Visual(change.operation, fields)], {"operation": change.operation, "visual": fields}
    if change.operation in LASTING:
        details = _begin(change, view)
        return edits_after(details, 0), details
    edits: list[Edit]
    if change.operation == "remove_object":
        name = change.fields["object"]
        slot = PARK_ORIGIN + list(view.position).index(name) * PARK_SPACING
        reference = np.array(change.fields["offworld_position_m"], np.float64)
        edits = [Park(name, reference, floating=False) if faithful else Park(name, slot)]
    elif change.operation in ("move_object", "insert_obstacle", "insert_distractors"):
        edits = [_put(part, view, faithful) for part in change.parts]
    else:
        raise BenchError(
            f"{change.operation} changes the instruction; this engine runs physical and visual changes only"
        )
    moved = [
        {"entity": e.entity, "before": view.position[e.entity].tolist(), "after": np.asarray(e.pos).tolist()}
        for e in edits
        if isinstance(e, SetPosition | Park)
    ]
    return edits, {"operation": change.operation, "moved": moved}


def apply_change(change: Change, physics: Physics, lane: int, *, faithful: bool = False) -> dict[str, Any]:
    """Resolves `change` on `lane` and applies it there; returns the record's details."""
    edits, details = resolve(change, LaneView.of(physics, lane), faithful=faithful)
    physics.edit(lane, edits)
    return details


def go_on(event: dict[str, Any], physics: Physics, lane: int, steps: int) -> None:
    """What an event that takes time does so many steps after it; nothing for one that was done at once.

    A motion with a `grasp_step` is called off by a hand that touches something of its tracks before then, where the task
    judges that touch.

    Args:
      event: its record's details, to which `called_off` is added where it is.
      physics, lane: where; the lane has just been stepped.
      steps: control steps since the event, from 1 on.
    """
    if steps < event.get("grasp_step", 0) and "called_off" not in event:
        judged = physics.index.touches
        pairs = [touch_pair(HAND, track["object"]) for track in event["tracks"]]
        if any(pair in judged and physics.signals.touch[lane, judged.index(pair)] for pair in pairs):
            event["called_off"] = steps
    if edits := edits_after(event, steps):
        physics.edit(lane, edits)


def edits_after(event: Mapping[str, Any], steps: int) -> list[Edit]:
    """The edits of an event so many control steps after it began.

    Args:
      event: its record's details.
      steps: 0 at the event itself.
    """
    if event["operation"] == "vary_lighting":
        return _light(event, steps)
    if event["operation"] != "move_along":
        return []
    off = event.get("called_off")
    edits: list[Edit] = []
    for track in event["tracks"]:
        name, points = track["object"], track["points"]
        first, last = points[0]["step"], points[-1]["step"]
        if off is not None and steps >= off:
            # Whoever was on the way is gone at once; what was not yet taken stays.
            if steps == off and first < off:
                edits.append(SetPosition(name, np.array(points[-1]["position_m"])))
        elif first <= steps <= last:
            edits.append(SetPosition(name, _on_track(points, steps), carried=steps < last))
    return edits


def _begin(change: Change, view: LaneView) -> dict[str, Any]:
    """The record of an event that takes time: everything that `edits_after` needs, in the world's coordinates."""
    fields = thaw(change.fields)
    if change.operation == "vary_lighting":
        return {"operation": change.operation, **fields}
    tracks = []
    for track in fields["tracks"]:
        origin = view.position[track["relative_to"]]
        points = [
            {"step": point["step"], "position_m": (origin + np.array(point["offset_m"])).tolist()}
            for point in track["points"]
        ]
        tracks.append({"object": track["object"], "points": points})
    moved = [
        {
            "entity": track["object"],
            "before": view.position[track["object"]].tolist(),
            "after": track["points"][-1]["position_m"],
        }
        for track in tracks
    ]
    return {"operation": change.operation, "moved": moved, **fields, "tracks": tracks}


def _on_track(points: list[dict[str, Any]], steps: int) -> np.ndarray:
    """[3] where a track is: between two points with the least jerk, at rest at both (Flash and Hogan, 1985)."""
    after = next(i for i, point in enumerate(points) if point["step"] >= steps)
    end = np.array(points[after]["position_m"])
    if points[after]["step"] == steps:
        return end
    start = np.array(points[after - 1]["position_m"])
    begin = points[after - 1]["step"]
    t = (steps - begin) / (points[after]["step"] - begin)
    moved: np.ndarray = start + (10 * t**3 - 15 * t**4 + 6 * t**5) * (end - start)
    return moved


def _light(event: Mapping[str, Any], steps: int) -> list[Edit]:
    """The light's new scale where a phase begins; its own again after the last one."""
    phases = event["phases"]
    whole = sum(phase["steps"] for phase in phases)
    at = steps % whole if event["repeat"] else steps
    if at == whole:
        return [Visual("vary_lighting", {"scale": 1.0})]
    for phase in phases:
        if at == 0:
            return [Visual("vary_lighting", {"scale": phase["scale"]})]
        at -= phase["steps"]
    return []


def _put(part: Mapping[str, Any], view: LaneView, faithful: bool) -> SetPosition:
    """One placement. A removed object comes back with the orientation that it was taken away with."""
    name = part["object"]
    pos = _beside_path(part, view) if "path_target" in part else _requested(part, view)
    parked = view.parked.get(name)
    if part.get("preserve_initial_z") or "path_target" in part:
        if parked is None:
            raise BenchError(f"{name!r} is to come back at the height it was taken from, and nothing took it away")
        pos[2] = parked.pos[2]
    return SetPosition(name, pos, None if parked is None or faithful else parked.quat)


def _requested(part: Mapping[str, Any], view: LaneView) -> np.ndarray:
    """The first form that is present: absolute, relative to itself, relative to another entity."""
    if "position_m" in part:
        return np.array(part["position_m"], np.float64)
    if "delta_position_m" in part:
        return view.position[part["object"]] + np.array(part["delta_position_m"])
    return view.position[part["relative_to"]] + np.array(part["offset_m"])


def _beside_path(part: Mapping[str, Any], view: LaneView) -> np.ndarray:
    """A point on the straight line from the gripper to the target, shifted sideways in the plane (version 1 obstacles)."""
    target = view.position[part["path_target"]]
    line = target - view.eef_pos
    length = float(np.hypot(line[0], line[1]))
    if length <= MIN_PATH_XY:
        raise BenchError(f"the gripper is straight above {part['path_target']!r}: its path has no side for an obstacle")
    pos = view.eef_pos + part["path_fraction"] * line
    pos[:2] += part["lateral_offset_m"] * np.array([-line[1], line[0]]) / length
    return pos
