"""From a run that has ended to an episode that is ready to be written: pictures of every step, films and columns."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from mjx_bench.observe.choice import make_renderer
from mjx_bench.observe.pictures import Pictures
from mjx_bench.task import Task
from mjx_bench.types import Verdict
from train.collect.demonstrator import shots_of
from train.collect.rollouts import Run
from train.collect.staging import COLUMNS, EPISODE, Staging
from train.lerobot import stats, video

BATCH = 64  # poses in one call of a renderer
PREFIX = "observation.images."


class Filming:
    """Takes the pictures of runs, after they have ended, in a thread of its own while the next ones are simulated.

    A context manager: on leaving, what was begun is finished, or dropped after an error.

    Args:
      task: of all runs.
      cameras, size: what to film, and pixels a side.
      renderer: name.
      staging: where episodes go.
      batch: poses in one call of the renderer, at most.
    """

    def __init__(
        self, task: Task, cameras: Sequence[str], size: int, renderer: str, staging: Staging, *, batch: int = BATCH
    ) -> None:
        self._task, self._staging, self._batch = task, staging, batch
        make = functools.partial(make_renderer, renderer, task.scene, cameras, size, size, batch)
        self._cameras, self._thread = tuple(cameras), ThreadPoolExecutor(1, "films")
        # A renderer belongs to the thread that makes it.
        self._pictures = self._thread.submit(lambda: Pictures(make(), task.scene)).result()

    def film(self, run: Run) -> Future[None]:
        """Stages a run, as a success with its films or as a failure, soon."""
        return self._thread.submit(self._stage, run)

    def __enter__(self) -> Filming:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        self._thread.submit(self._pictures.close)
        self._thread.shutdown(wait=True, cancel_futures=kind is not None)

    def _stage(self, run: Run) -> None:
        if run.episode.verdict is not Verdict.SUCCESS:
            self._staging.fail(self._task, run.instance, f"{run.episode.reason} at step {run.episode.step}")
            return
        films = self._shoot(run)
        shots = shots_of(run.episode.carry)
        texts = {name: list(dict.fromkeys(getattr(s, name) for s in shots)) for name in ("stage", "subtask")}
        columns = {
            "observation.state": np.array([s.state for s in shots], np.float32),
            "action": np.array(run.episode.actions, np.float32),
            "expert_action": np.array([s.chunk[0] for s in shots], np.float32),
            "expert_chunk": np.array([s.chunk for s in shots], np.float32),
            "environment_state": np.array([s.entities for s in shots], np.float32).reshape(len(shots), -1),
            **{f"{n}_index": np.array([own.index(getattr(s, n)) for s in shots]) for n, own in texts.items()},
        }
        about = {
            "instance": run.instance,
            "frames": len(shots),
            "texts": texts,
            "stats": stats.to_json({PREFIX + name: stats.of_pictures(frames) for name, frames in films.items()}),
        }
        with self._staging.episode(self._task, run.instance) as folder:
            for name, frames in films.items():
                video.encode(folder / f"{PREFIX}{name}.mp4", frames, self._task.control_hz)
            _save(folder, columns, about)

    def _shoot(self, run: Run) -> dict[str, np.ndarray]:
        """Camera to uint8 [T, size, size, 3]: before each step."""
        parts = [self._pictures.take(run.poses[i : i + self._batch]) for i in range(0, len(run.poses), self._batch)]
        return {name: np.concatenate([part[name] for part in parts]) for name in self._cameras}


def _save(folder: Path, columns: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> None:
    np.savez(folder / COLUMNS, allow_pickle=False, **columns)
    (folder / EPISODE).write_text(json.dumps(about) + "\n")
