"""`mjx-bench demos`: demonstrations of tasks by a scripted expert, as a LeRobot dataset."""

from __future__ import annotations

import dataclasses
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from scripts import options as shared
from scripts.output import Emit, note
from scripts.progress import PLAIN_INTERVAL_S, clock

if TYPE_CHECKING:
    from train.collect.collect import State


@dataclasses.dataclass(frozen=True, kw_only=True)
class Demos:
    """Collect demonstrations of tasks by a scripted expert, successful ones only, as a LeRobot dataset.

    They are made on instances that nobody is evaluated on. The same command again goes on where the last one ended.
    """

    suite: str
    """Suite of the tasks."""
    task: shared.Names = ()
    """Tasks, by index or by name; all of the suite if none is given."""
    episodes: int = 20
    """Demonstrations of each task."""
    format: Literal["lerobot-v2.1", "lerobot-v3.0"] = "lerobot-v2.1"
    """Version of the dataset."""
    out: Path
    """Folder of the dataset."""
    image_size: int = 64
    """Pixels a side of the pictures of all cameras."""
    noise: float = 0.0
    """Standard deviation of an error that is added to each of the three translations in half of all blocks of four steps
    (actions are -1 to 1); what the expert would have done is recorded beside what was."""
    detours: float = 0.0
    """Chance that a step begins a detour: ten steps in a direction drawn at random, from which the expert comes back."""
    seed: int = 0
    """Of noise and detours."""
    first: int | None = None
    """Instance to begin with; the first of those for training if not given."""
    renderer: Literal["auto", "gl", "warp"] = "auto"
    """What takes the pictures: gl (OpenGL, the reference) or warp (ray tracing)."""
    lanes: int = 16
    """Episodes of one task that run side by side; what is written does not depend on it."""
    threads: int = 0
    """Threads that step them; 0 for all processors."""
    dry_run: bool = False
    """Say what would be collected, and collect nothing."""
    json: bool = False
    """Print JSON."""


def run(options: Demos, emit: Emit) -> int:
    """Collects, and says what came of it."""
    shared.at_least(1, episodes=options.episodes, lanes=options.lanes)
    shared.at_least(0, threads=options.threads, seed=options.seed)

    from evals import registry
    from scripts.chosen import tasks_of
    from train.collect.collect import Wish, collect, planned
    from train.collect.demonstrator import Errors
    from train.collect.embodiments import embodiment_of

    found = tasks_of(shared.plain_suites([options.suite]), shared.flat(options.task))
    tasks = [registry.load_task(suite, index) for suite, index in found]
    expert = embodiment_of(tasks).expert()
    wish = Wish(
        episodes=options.episodes,
        version=options.format.removeprefix("lerobot-"),
        image_size=options.image_size,
        renderer=options.renderer,
        errors=Errors(options.noise, options.detours, options.seed),
        first=options.first,
    )
    if options.dry_run:
        plan = planned(tasks, expert, wish)
        emit(plan)
        note(
            f"{len(tasks)} task{'s' * (len(tasks) != 1)}, {options.episodes} demonstrations each, from instance"
            f" {plan['first']} on, pictures of {', '.join(plan['cameras'])} by {plan['renderer']}"
        )
        return 0
    threads = options.threads or os.cpu_count() or 1
    with Progress() as progress:
        made = collect(tasks, expert, wish, options.out, lanes=options.lanes, threads=threads, progress=progress)
    emit({"out": str(options.out), **made})
    for row in made["tasks"]:
        lost = "".join(f"\n  instance {f['instance']}: {f['reason']}" for f in row["failed"])
        note(f"{row['name']}: {len(row['instances'])} demonstrations, {len(row['failed'])} instances not solved{lost}")
    note(f"{options.out}: whole; mjx-bench dataset show {options.out}")
    return 0


class Progress:
    """A bar on a terminal, otherwise a line now and then."""

    def __init__(self) -> None:
        self._started = self._said = time.monotonic()
        self._bar: Any = None
        self._row: Any = None

    def __enter__(self) -> Progress:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), console=Console(stderr=True)
            )
            self._row = self._bar.add_task("starting", total=None)
            self._bar.start()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, state: State) -> None:
        """Takes in how far it is."""
        fresh, elapsed = state.done - state.before, time.monotonic() - self._started
        parts = ["demonstrations"]
        if fresh > 0:
            parts.append(f"{60 * fresh / max(elapsed, 1e-3):.1f} a minute")
            parts.append(f"{clock((state.wanted - state.done) * elapsed / fresh)} left")
        if state.failed:
            parts.append(f"{state.failed} instances not solved")
        if self._bar is not None:
            self._bar.update(self._row, completed=state.done, total=state.wanted, description=", ".join(parts))
        elif time.monotonic() - self._said >= PLAIN_INTERVAL_S or state.done == state.wanted:
            self._said = time.monotonic()
            note(f"{state.done}/{state.wanted} {', '.join(parts)}")
