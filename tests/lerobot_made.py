"""A small dataset for tests: three episodes of moving stripes from two cameras."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from train.lerobot import schema, stats, video
from train.lerobot.layouts import About, Part
from train.lerobot.schema import INDEXES, Feature
from train.lerobot.write import write_dataset

CAMERAS = ("observation.images.agentview", "observation.images.robot0_eye_in_hand")
LENGTHS = (12, 31, 7)
FPS = 20
SIDE = 32
TASKS = ("lift the block", "press the button")
FEATURES = {
    "observation.state": Feature("float32", (4,), ["x", "y", "z", "gap"]),
    "action": Feature("float32", (3,), ["x", "y", "grip"]),
    "expert_chunk": Feature("float32", (5, 3)),
    "stage_index": Feature("int64", (1,)),
    "subtask_index": Feature("int64", (1,)),
    "word": Feature("string", (1,)),
    **{name: Feature("video", (SIDE, SIDE, 3), ["height", "width", "channels"]) for name in CAMERAS},
    **INDEXES,
}


def columns_of(episode: int) -> dict[str, np.ndarray]:
    """What an episode's columns hold."""
    rng, length = np.random.default_rng(episode), LENGTHS[episode]
    action = rng.uniform(-1, 1, (length, 3)).astype(np.float32)
    action[:, 1] = 0.25  # a dimension that never changes
    return {
        "observation.state": rng.normal(size=(length, 4)).astype(np.float32),
        "action": action,
        "expert_chunk": rng.uniform(-1, 1, (length, 5, 3)).astype(np.float32),
        "stage_index": np.full(length, episode % 2),
        "subtask_index": np.arange(length) // 5 % 3,
        "word": np.array([f"é{k}" for k in range(length)], object),
        "task_index": np.full(length, episode % 2),
    }


def frames_of(camera: str, episode: int) -> np.ndarray:
    """uint8 [T, SIDE, SIDE, 3]: a gradient with a bright stripe that moves by a pixel a frame."""
    length = LENGTHS[episode]
    out = np.empty((length, SIDE, SIDE, 3), np.uint8)
    out[:] = np.linspace(40, 180, SIDE)[None, :, None, None]
    for k in range(length):
        out[k, :, (k + 5 * episode) % SIDE, :] = 230
        if camera == CAMERAS[1]:
            out[k] = out[k].transpose(1, 0, 2)
    return out


def parts(scratch: Path) -> Iterator[Part]:
    for episode, length in enumerate(LENGTHS):
        films, described = {}, {}
        for camera in CAMERAS:
            frames = frames_of(camera, episode)
            path = scratch / f"{episode}-{camera}.mp4"
            video.encode(path, frames, FPS)
            films[camera], described[camera] = (path, 0.0), stats.of_pictures(frames)
        assert length == len(frames)
        yield Part(columns_of(episode), films, described, (TASKS[episode % 2],), {"instance": 10_000 + episode})


def make(folder: Path, version: str, scratch: Path) -> Path:
    """Writes the dataset."""
    meta = {schema.LANGUAGE: {"stages": ["one", "two"], "subtasks": ["a", "b", "c"]}}
    write_dataset(folder, About(version, FPS, "panda", FEATURES, TASKS, meta), parts(scratch))
    return folder
