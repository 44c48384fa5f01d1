"""What SIGINT and SIGTERM do to a command: the first asks it to stop where nothing is lost, the second ends it.

Python runs a handler between two instructions of the main thread, which a compilation in that thread has none of. So the
signals are also read by a thread of their own: it says what the first is waiting for, and obeys the second.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
from types import FrameType, TracebackType

from mjx_bench import runtime

_SIGNALS = (signal.SIGINT, signal.SIGTERM)

# A terminal, `make` and `timeout` may each deliver what was meant as one signal.
SAME_S = 0.5
# How long a command may take to stop before it says what it waits for.
PATIENCE_S = 1.0


class Terminated(KeyboardInterrupt):
    """SIGTERM: what a scheduler sends before it kills. Everything is left as an interrupt leaves it."""


class Stopping:
    """A context in which the first signal raises `KeyboardInterrupt` or `Terminated` in the main thread.

    A second one, `SAME_S` or more after the first, ends the process at once with status 128 + signal. To be entered in the
    main thread; a signal that is ignored (by `nohup`, or a shell's `&`) stays ignored.

    Attributes:
      kept: what is said of work that is finished; empty if there is nothing to go on from.
    """

    def __init__(self) -> None:
        self.kept = ""
        self._stopped = False

    def __enter__(self) -> Stopping:
        self._before = {n: signal.getsignal(n) for n in _SIGNALS}
        for number, handler in self._before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, self._stop)
        self._reads, self._written = os.pipe()
        os.set_blocking(self._written, False)
        self._old = signal.set_wakeup_fd(self._written, warn_on_full_buffer=False)
        self._watch = threading.Thread(target=self._read, name="signals", daemon=True)
        self._watch.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        signal.set_wakeup_fd(self._old)
        os.close(self._written)  # which ends the thread
        self._watch.join()
        os.close(self._reads)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        # Once: what cleans up after the first must not be interrupted by its echo.
        if not self._stopped:
            self._stopped = True
            raise Terminated if number == signal.SIGTERM else KeyboardInterrupt

    def _read(self) -> None:
        first: float | None = None
        said = False
        while True:
            waits = None if first is None or said else max(0.0, first + PATIENCE_S - time.monotonic())
            if not select.select([self._reads], [], [], waits)[0]:
                said = True
                what = runtime.busy_with() or "what is being computed"
                _say(f"stopping: waiting for {what}{self.kept}; a second signal ends it at once")
                continue
            if not (numbers := os.read(self._reads, 64)):
                return
            for number in numbers:
                if number not in _SIGNALS:
                    continue
                if first is None:
                    first = time.monotonic()
                elif time.monotonic() - first >= SAME_S:
                    _say(f"ended{self.kept}")
                    os._exit(128 + number)


def _say(line: str) -> None:
    """Past Python's own buffers, which the main thread may hold."""
    with contextlib.suppress(OSError):
        os.write(2, f"\nmjx-bench: {line}\n".encode())
