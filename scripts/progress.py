"""Where a run is: arms done, rate, time left and successes so far, on standard error."""

from __future__ import annotations

import sys
import time
from collections import Counter
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mjx_bench.records import Record

PLAIN_INTERVAL_S = 10.0


class ArmProgress:
    """A bar on a terminal, otherwise a line now and then. A context manager, called as `schedule.Progress` is."""

    def __init__(self) -> None:
        self._started = self._said = time.monotonic()
        self._done = self._total = self._resumed = 0
        self._ended: Counter[str] = Counter()
        self._succeeded: Counter[str] = Counter()
        self._void = 0
        self._bar: Any = None
        self._row: Any = None

    def __enter__(self) -> ArmProgress:
        self._bar, self._row = begun_bar("arms", "loading")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        elif self._total:
            self._say()

    def __call__(self, done: int, total: int, record: Record | None) -> None:
        """Takes in the record just written; None at the start, when `done` is what an earlier run left."""
        self._done, self._total = done, total
        if record is None:
            self._resumed, self._started = done, time.monotonic()
        elif record.success is None:
            self._void += 1
        else:
            self._ended[record.arm] += 1
            self._succeeded[record.arm] += record.success
        if self._bar is not None:
            self._bar.update(self._row, completed=done, total=total, description=self.state())
        elif record is not None and time.monotonic() - self._said >= PLAIN_INTERVAL_S:
            self._say()

    def state(self) -> str:
        """Rate, time left, and what this process finished."""
        fresh = self._done - self._resumed
        elapsed = time.monotonic() - self._started
        parts = []
        if fresh:
            parts.append(f"{60 * fresh / max(elapsed, 1e-3):.1f} a minute")
            if self._done < self._total:
                parts.append(f"{clock((self._total - self._done) * elapsed / fresh)} left")
        parts += [f"{arm} {self._succeeded[arm]}/{self._ended[arm]}" for arm in sorted(self._ended)]
        if self._void:
            parts.append(f"{self._void} void")
        return ", ".join(parts) or ("all done before" if self._done == self._total else "starting")

    def _say(self) -> None:
        self._said = time.monotonic()
        print(f"{self._done}/{self._total} arms, {self.state()}", file=sys.stderr, flush=True)


def begun_bar(unit: str, doing: str) -> tuple[Any, Any]:
    """A bar on standard error that has begun, and its row; (None, None) where that is no terminal.

    Args:
      unit: of what is counted.
      doing: what is said until there is more to say.
    """
    if not sys.stderr.isatty():
        return None, None
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn(f"{unit}, {{task.description}}"))
    bar = Progress(*columns, console=Console(stderr=True))
    row = bar.add_task(doing, total=None)
    bar.start()
    return bar, row


def clock(seconds: float) -> str:
    """`h:mm:ss`, or `m:ss` below an hour."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
