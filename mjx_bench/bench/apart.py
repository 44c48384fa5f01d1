"""A measurement in a process of its own: its memory is its own, and a deadline ends it whatever it is doing."""

from __future__ import annotations

import json
import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

from mjx_bench.errors import BenchError


class OutOfTimeError(Exception):
    """The deadline came first."""


def run(measure: Callable[..., Iterator[Any]], *args: Any, seconds: float | None) -> Iterator[Any]:
    """What `measure(*args)` yields, as it comes.

    Args:
      measure: a function of a module; what it yields is JSON data.
      args: what a new process can be handed.
      seconds: after so many the process is ended; None for no deadline.

    Raises:
      BenchError: as `measure`, or the process died.
      OutOfTimeError: `seconds` were over before it was done.
    """
    until = None if seconds is None else time.monotonic() + seconds
    context = multiprocessing.get_context("spawn")  # a fork would share JAX's threads, which it does not survive
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(theirs, measure, args), daemon=True)
    process.start()
    theirs.close()
    try:
        while True:
            if not ours.poll(None if until is None else max(0.0, until - time.monotonic())):
                raise OutOfTimeError
            try:
                kind, value = json.loads(ours.recv_bytes())
            except EOFError:
                process.join()
                raise BenchError(f"the process that measured died (exit status {process.exitcode})") from None
            if kind == "done":
                return
            if kind == "error":
                raise BenchError(value)
            yield value
    finally:
        process.kill()
        process.join()
        ours.close()


def _work(pipe: Connection, measure: Callable[..., Iterator[Any]], args: tuple[Any, ...]) -> None:
    """The process. An interrupt at the keyboard reaches it too, and is the other one's to deal with."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def send(kind: str, value: Any) -> None:
        pipe.send_bytes(json.dumps([kind, value]).encode())

    try:
        for value in measure(*args):
            send("value", value)
        send("done", None)
    except BenchError as error:
        send("error", str(error))
