"""Regenerated sources by name: which there are, and what a name does to its task.

LIBERO-Plus's variants keep the names of its files: `<task>_view_20_0_100_0_0_initstate_0.bddl` is a viewpoint of a task. The
suffix says everything; nothing of it reaches a policy. LIBERO-PRO's six extended categories have one variant a task.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from evals.libero.sources import (
    background,
    camera,
    extra,
    layout,
    lenses,
    light,
    occluder,
    pose,
    recolour,
    robot,
    shape,
    wording,
)
from evals.libero.sources.edits import Edit
from mjx_bench.errors import BenchError, unknown_name
from mjx_bench.task import Task

# Part of the version of every task that comes from here: changes when anything does that the rules make of a name.
REVISION = "mjx-bench-sources-1"

PLUS = "LIBERO-Plus (regenerated)"
PRO = "LIBERO-PRO (regenerated)"

PLUS_CATEGORIES = (
    "Background Textures",
    "Camera Viewpoints",
    "Language Instructions",
    "Light Conditions",
    "Objects Layout",
    "Robot Initial States",
    "Sensor Noise",
)
# LIBERO-PRO's category to the folder of its files.
PRO_FOLDERS = {
    "visual_noise_glare": "01_visual_noise_glare",
    "camera_view_angle": "02_camera_view_angle",
    "object_texture": "04_object_texture",
    "view_occlusion": "05_view_occlusion",
    "object_shape": "06_object_shape",
    "initial_pose_position_angle": "07_initial_pose_position_angle",
}
_LIGHTS = 1000
_LIGHT = re.compile(r"light_(\d+)")


def pro_edit(category: str) -> Edit:
    """What one of LIBERO-PRO's extended categories does to a task."""
    edits: dict[str, Edit] = {
        "visual_noise_glare": lambda task: lenses.grainy(light.dimmed(task)),
        "camera_view_angle": camera.seen_from_pro,
        "object_texture": recolour.blended,
        "view_occlusion": occluder.occluded,
        "object_shape": lambda task: shape.scaled(task, _target(task), shape.PRO_FACTOR),
        "initial_pose_position_angle": pose.displaced,
    }
    if category not in edits:
        raise unknown_name("LIBERO-PRO category", category, edits)
    return edits[category]


def plus_edit(category: str, name: str) -> Edit:
    """What a variant of LIBERO-Plus does to its task.

    Args:
      category: one of `PLUS_CATEGORIES`.
      name: what the variant's file has after the task's name and an underscore.

    Raises:
      BenchError: a name that is none of the category.
    """
    if category not in _PLUS:
        raise unknown_name("LIBERO-Plus category", category, PLUS_CATEGORIES)
    edit = _PLUS[category](name)
    if edit is None:
        raise BenchError(f"{name!r} is no variant of LIBERO-Plus's {category}")
    return edit


def wording_of(category: str, name: str, instruction: str) -> str:
    """What the policy is told in a variant: the task's own instruction, but for a variant of its wording."""
    number = wording.number_of(name) if category == "Language Instructions" else None
    return instruction if number is None else wording.paraphrase(instruction, number)


def _target(task: Task) -> str:
    if task.trigger_entity is None:
        raise BenchError(f"{task.suite} task {task.index}: its goal names no entity")
    return task.trigger_entity


def _background(name: str) -> Edit | None:
    found = background.parse(name)
    return None if found is None else lambda task: background.papered(task, *found)


def _camera(name: str) -> Edit | None:
    view = camera.View.parse(name)
    return None if view is None else lambda task: camera.seen_from(task, view)


def _language(name: str) -> Edit | None:
    return None if wording.number_of(name) is None else lambda task: task


def _light(name: str) -> Edit | None:
    match = _LIGHT.fullmatch(name)
    if match is None or not 1 <= int(match.group(1)) <= _LIGHTS:
        return None
    number = int(match.group(1))
    return lambda task: light.lit(task, number)


def _layout(name: str) -> Edit | None:
    if (number := extra.number_of(name)) is not None:
        return lambda task: extra.furnished(task, number)
    found = layout.parse(name)
    return None if found is None else lambda task: layout.shifted(task, *found)


def _robot(name: str) -> Edit | None:
    number = robot.number_of(name)
    return None if number is None else lambda task: robot.posed(task, number)


def _noise(name: str) -> Edit | None:
    number = lenses.number_of(name)
    return None if number is None else lambda task: lenses.noisy(task, number)


_PLUS: dict[str, Callable[[str], Edit | None]] = dict(
    zip(PLUS_CATEGORIES, (_background, _camera, _language, _light, _layout, _robot, _noise), strict=True)
)
