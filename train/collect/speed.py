"""How fast demonstrations are collected: many lanes with pictures in batches beside, against one episode after the other."""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from mjx_bench.observe.choice import choose
from mjx_bench.policy import Policy
from mjx_bench.task import Task
from train.collect import films, split
from train.collect.demonstrator import Demonstrator, Errors
from train.collect.rollouts import runs
from train.collect.staging import Staging


def compare(
    task: Task,
    expert: Policy,
    *,
    episodes: int = 16,
    lanes: int = 16,
    threads: int = 1,
    image_size: int = 64,
    renderer: str = "auto",
    turns: int = 3,
) -> dict[str, Any]:
    """Collects the same demonstrations both ways, in turns, without putting them together.

    One after the other means: one lane, one thread, a picture of one pose at a time, and the next episode begins when the
    films of the last one are written.

    Args:
      task, expert: what is demonstrated by what.
      episodes: of a turn.
      lanes, threads, image_size, renderer: see `collect.collect`.
      turns: of each way, after one that is not counted.

    Returns:
      `batched` and `alone`, demonstrations a minute of each turn; `ratio`, of turn by turn, and its median `median_ratio`;
      and what was measured.
    """
    name, _ = choose(renderer)
    ways: dict[str, dict[str, Any]] = {
        "batched": {"lanes": lanes, "threads": threads, "batch": films.BATCH, "wait": False},
        "alone": {"lanes": 1, "threads": 1, "batch": 1, "wait": True},
    }
    paces: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(turns + 1):
        for way, how in ways.items():
            pace = _pace(task, expert, episodes, image_size, name, **how)
            if turn:
                paces[way].append(pace)
    ratios = [fast / slow for fast, slow in zip(paces["batched"], paces["alone"], strict=True)]
    measured = {"task": task.name, "episodes": episodes, "lanes": lanes, "threads": threads, "renderer": name}
    return {**measured, "image_size": image_size, **paces, "ratio": ratios, "median_ratio": statistics.median(ratios)}


def _pace(
    task: Task,
    expert: Policy,
    episodes: int,
    size: int,
    renderer: str,
    *,
    lanes: int,
    threads: int,
    batch: int,
    wait: bool,
) -> float:
    """Demonstrations a minute; what makes the engine and the renderer ready is not counted."""
    left: Iterator[int] = itertools.islice(split.training_instances(task.suite), episodes)
    cameras = (task.scene.observed or task.scene.cameras)[:2]
    filmed: list[Future[None]] = []
    with tempfile.TemporaryDirectory() as scratch:
        staging = Staging(Path(scratch) / "out", {})
        with films.Filming(task, cameras, size, renderer, staging, batch=batch) as filming:
            going = runs(task, Demonstrator(expert, Errors()), lambda: next(left, None), lanes, threads)
            start = time.perf_counter()
            for run in going:
                filmed.append(filming.film(run))
                if wait:
                    filmed[-1].result()
            for future in filmed:
                future.result()
            return 60.0 * episodes / (time.perf_counter() - start)
