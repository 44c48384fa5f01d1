"""How a session used the machine: a line of `sessions.jsonl`. Nothing of it is part of a result."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import pathlib
import threading
import time
from collections.abc import Iterator


@dataclasses.dataclass(frozen=True)
class Session:
    """One call of `run_pairs`, finished or interrupted.

    Attributes:
      started: UTC, ISO 8601.
      wall_s: seconds from the first task to the last.
      cpu_s: processor seconds of the process in that time, all threads.
      workers: threads that ran tasks side by side.
      busy_fraction: share of `workers * wall_s` that workers spent on a task and not waiting for the policy's turn.
      control_steps: executed in all lanes, settling and repeated prefixes included.
      arms: recorded.
      pictures: rendered for the policy.
      pictures_s: seconds that workers spent on them, each by its own clock.
      enlarged: programs of a compiled engine that were too small for their contacts and were made anew with more room.
    """

    started: str
    wall_s: float
    cpu_s: float
    workers: int
    busy_fraction: float
    control_steps: int
    arms: int
    pictures: int = 0
    pictures_s: float = 0.0
    enlarged: int = 0

    def __str__(self) -> str:
        wall = max(self.wall_s, 1e-9)
        seen = ""
        if self.pictures:
            share = self.pictures_s / (self.workers * wall)
            seen = f", {self.pictures} pictures, {share:.0%} of the workers' time"
        return (
            f"{self.workers} worker{'s' * (self.workers != 1)} busy {self.busy_fraction:.0%}, "
            f"{self.control_steps / wall:.0f} control steps a second, {self.cpu_s / wall:.1f} processors in use{seen}"
            + (f", {self.enlarged} programs made anew with more room" if self.enlarged else "")
        )

    def append_to(self, folder: pathlib.Path) -> None:
        """Adds the line to the folder's `sessions.jsonl`, where there is room for it."""
        line = (json.dumps(dataclasses.asdict(self)) + "\n").encode()
        # A run whose records are safe must not fail, nor an error be hidden, for want of a line about the machine.
        with contextlib.suppress(OSError), (folder / "sessions.jsonl").open("ab", buffering=0) as file:
            file.write(line)


class Meter:
    """Adds up what workers do, from any thread.

    Busy is wall time, not the thread's processor time: an engine may step lanes in threads of its own, whose time belongs
    to the worker that waits for them, and another program's load is no idleness of ours. What it cannot show, waits for
    the interpreter's lock, shows in `cpu_s`.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._lock = threading.Lock()
        self._busy = 0.0
        self._steps = 0
        self._pictures, self._pictures_s = 0, 0.0
        self._enlarged = 0
        self._started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Around a worker's task."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._add(time.perf_counter() - start)

    @contextlib.contextmanager
    def turn(self, lock: threading.Lock) -> Iterator[None]:
        """Holds `lock`; the wait for it was not work."""
        start = time.perf_counter()
        with lock:
            self._add(start - time.perf_counter())
            yield

    def _add(self, seconds: float) -> None:
        with self._lock:
            self._busy += seconds

    def stepped(self, control_steps: int) -> None:
        with self._lock:
            self._steps += control_steps

    def enlarged(self, programs: int) -> None:
        """Programs that a worker's engine made anew with more room."""
        with self._lock:
            self._enlarged += programs

    def pictured(self, pictures: int, seconds: float) -> None:
        """Pictures that a worker rendered, and how long that took it."""
        with self._lock:
            self._pictures += pictures
            self._pictures_s += seconds

    def session(self, arms: int) -> Session:
        """The session so far."""
        wall = time.perf_counter() - self._wall
        return Session(
            started=self._started,
            wall_s=round(wall, 3),
            cpu_s=round(time.process_time() - self._cpu, 3),
            workers=self._workers,
            busy_fraction=round(self._busy / max(self._workers * wall, 1e-9), 4),
            control_steps=self._steps,
            arms=arms,
            pictures=self._pictures,
            pictures_s=round(self._pictures_s, 3),
            enlarged=self._enlarged,
        )
