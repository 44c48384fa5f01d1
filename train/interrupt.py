"""Signals that wait: a step uses up the state that it is given, and must not be broken off in between."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Interrupt:
    """What was asked of a run from outside."""

    def __init__(self) -> None:
        self.asked: int | None = None
        self.before: dict[int, Any] = {}

    def obey(self) -> None:
        """Does what the signal does elsewhere."""
        if self.asked is not None and callable(handler := self.before[self.asked]):
            handler(self.asked, None)


@contextmanager
def deferred() -> Iterator[Interrupt]:
    """SIGINT and SIGTERM only leave a mark: a step uses up its state, and must not be broken off in between."""
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return

    def mark(number: int, frame: Any) -> None:
        interrupt.asked = number

    for number in (int(signal.SIGINT), int(signal.SIGTERM)):
        interrupt.before[number] = signal.getsignal(number)
        if interrupt.before[number] is not signal.SIG_IGN:
            signal.signal(number, mark)
    try:
        yield interrupt
    finally:
        for number, handler in interrupt.before.items():
            signal.signal(number, handler)
