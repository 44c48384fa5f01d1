"""Small datasets as `mjx-bench demos` writes them: a dot in the picture, and actions that lead to it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from policies.pi05 import adapters
from train.lerobot import schema, video
from train.lerobot.layouts import About, Part
from train.lerobot.schema import INDEXES, Feature
from train.lerobot.write import write_dataset

CAMERAS = ("observation.images.agentview", "observation.images.robot0_eye_in_hand")
ROBOT = adapters.named("tabletop")
TASKS = ("push the red dome", "open the drawer")
SUBTASKS = ("reach for it", "take it")
FPS = 20


def episode(folder: Path, number: int, length: int, side: int) -> Part:
    """One episode; its films lie in `folder`."""
    rng = np.random.default_rng(number)
    at = rng.integers(4, side - 4, 2)
    frames = np.full((length, side, side, 3), 60, np.uint8)
    frames[:, at[0] - 3 : at[0] + 4, at[1] - 3 : at[1] + 4] = (220, 30, 30)
    films = {}
    for camera in CAMERAS:
        path = folder / f"{camera}-{number}.mp4"
        video.encode(path, frames, FPS)
        films[camera] = (path, 0.0)
    state = rng.normal(0.0, 0.1, (length, 8)).astype(np.float32)
    target = (2.0 * at / side - 1.0).astype(np.float32)
    action = np.tile(np.concatenate([target, np.zeros(4), [1.0]]).astype(np.float32), (length, 1))
    action[:, 2:6] += rng.normal(0.0, 0.1, (length, 4)).astype(np.float32)
    columns = {
        "observation.state": state,
        "action": np.clip(action + 0.05, -1.0, 1.0),
        "expert_action": action,
        "environment_state": np.tile(np.append(target, 0.0).astype(np.float32), (length, 1)),
        "subtask_index": (np.arange(length) * 2 // length).astype(np.int64),
        "task_index": np.full(length, number % len(TASKS)),
    }
    return Part(columns, films, {}, (TASKS[number % len(TASKS)],))


def write(folder: Path, episodes: int = 4, length: int = 12, side: int = 64, version: str = "v2.1") -> Path:
    """A whole dataset; returns its folder."""
    films = folder.parent / f"{folder.name}-films"
    films.mkdir(parents=True)
    features = {
        **{camera: Feature("video", (side, side, 3), ["height", "width", "channels"]) for camera in CAMERAS},
        "observation.state": Feature("float32", (8,), list(ROBOT.state)),
        "action": Feature("float32", (7,), list(ROBOT.actions)),
        "expert_action": Feature("float32", (7,), list(ROBOT.actions)),
        "environment_state": Feature("float32", (3,), ["dome_x", "dome_y", "dome_z"]),
        "subtask_index": Feature("int64", (1,)),
        **INDEXES,
    }
    language = {schema.LANGUAGE: {"stages": [], "subtasks": list(SUBTASKS)}}
    about = About(version, FPS, "panda", features, TASKS, language)
    write_dataset(folder, about, (episode(films, i, length + i, side) for i in range(episodes)))
    return folder
