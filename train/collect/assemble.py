"""Puts staged episodes together into a dataset."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mjx_bench.task import Task
from policies.scripted.expert import HORIZON
from train.collect.embodiments import Embodiment, embodiment_of
from train.collect.films import PREFIX
from train.collect.staging import COLUMNS, EPISODE, Staging, failure
from train.lerobot import schema, stats
from train.lerobot.layouts import About, Part
from train.lerobot.schema import INDEXES, Feature
from train.lerobot.write import write_dataset


def assemble(out: Path, tasks: Sequence[Task], plan: Mapping[str, Any], staging: Staging) -> dict[str, Any]:
    """Writes the dataset of all staged episodes, by task and instance; the folder `meta` comes last.

    Returns:
      Its `meta/demonstrations.json`.
    """
    texts: dict[str, dict[str, int]] = {"stage": {}, "subtask": {}}
    rows: list[dict[str, Any]] = []
    parts: list[tuple[Task, Path, str]] = []
    same_world = len({tuple(task.scene.entities) for task in tasks}) == 1
    for task in tasks:
        done = staging.done(task)
        lost = [failure(path) for path in done.values()]
        shown = [(i, path) for (i, path), f in zip(done.items(), lost, strict=True) if f is None]
        rows.append(
            {
                "name": task.name,
                "index": task.index,
                "version": task.version,
                "instances": [i for i, _ in shown],
                "failed": [f for f in lost if f is not None],
            }
        )
        allowed = range(*plan["training_instances"])
        assert all(i in allowed for i in rows[-1]["instances"]), "only instances for training are run"
        parts += [(task, path, task.instruction_of(i)) for i, path in shown]
        for _, path in shown:
            own = json.loads((path / EPISODE).read_text())["texts"]
            for name, known in texts.items():
                for text in own[name]:
                    known.setdefault(text, len(known))
    found = {**plan, "tasks": rows}
    instructions = list(dict.fromkeys(told for *_, told in parts))
    robot = embodiment_of(tasks)
    features = _features(tasks[0], plan, robot, same_world)
    about = About(
        version=plan["format"],
        fps=tasks[0].control_hz,
        robot_type=robot.robot,
        features=features,
        tasks=instructions,
        meta={
            schema.LANGUAGE: {f"{name}s": list(known) for name, known in texts.items()},
            schema.DEMONSTRATIONS: found,
        },
    )
    made = out / ".whole"
    shutil.rmtree(made, ignore_errors=True)
    write_dataset(
        made, about, (_part(path, task, features, instructions.index(told), told, texts) for task, path, told in parts)
    )
    for name in ("data", "videos", "meta"):
        shutil.rmtree(out / name, ignore_errors=True)
        (made / name).rename(out / name)
    made.rmdir()
    return found


def _part(
    folder: Path, task: Task, features: dict[str, Feature], number: int, told: str, texts: dict[str, dict[str, int]]
) -> Part:
    about = json.loads((folder / EPISODE).read_text())
    with np.load(folder / COLUMNS, allow_pickle=False) as stored:
        columns = {name: stored[name] for name in stored.files if name in features}
    for name, known in texts.items():
        numbers = np.array([known[text] for text in about["texts"][name]])
        columns[f"{name}_index"] = numbers[columns[f"{name}_index"]]
    columns["task_index"] = np.full(about["frames"], number)
    films = {name: (folder / f"{name}.mp4", 0.0) for name, f in features.items() if f.visual}
    extra = {"task": task.name, "instance": about["instance"]}
    return Part(columns, films, stats.from_json(about["stats"]), (told,), extra)


def _features(task: Task, plan: Mapping[str, Any], robot: Embodiment, same_world: bool) -> dict[str, Feature]:
    size = plan["image_size"]
    axes = [f"{name}.{axis}" for name in task.scene.entities for axis in "xyz"]
    world = {"environment_state": Feature("float32", (len(axes),), axes)} if same_world and axes else {}
    return {
        "observation.state": Feature("float32", (len(robot.state),), list(robot.state)),
        "action": Feature("float32", (len(robot.action),), list(robot.action)),
        "expert_action": Feature("float32", (len(robot.action),), list(robot.action)),
        "expert_chunk": Feature("float32", (HORIZON, len(robot.action)), None),
        **world,
        "stage_index": Feature("int64", (1,)),
        "subtask_index": Feature("int64", (1,)),
        **{PREFIX + c: Feature("video", (size, size, 3), ["height", "width", "channels"]) for c in plan["cameras"]},
        **INDEXES,
    }
