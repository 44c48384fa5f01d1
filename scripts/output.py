"""What a command prints: JSON that nothing else gets into, or text for people."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mjx_bench.errors import BenchError

if TYPE_CHECKING:
    from rich.console import Console

Emit = Callable[[Any], None]


def reserve_stdout() -> Emit:
    """Keeps standard output for one JSON document: for the rest of the process everything else goes to standard error.

    The redirection is of the file descriptor, so it also holds for C libraries, child processes and exit handlers.
    Returns the function that writes the document.
    """
    sys.stdout.flush()
    reserved = os.dup(1)
    os.dup2(2, 1)

    def emit(value: Any) -> None:
        data = (json.dumps(value, indent=2, allow_nan=False) + "\n").encode()
        while data:  # unbuffered, so nothing is left to flush at exit when the reader went away
            data = data[os.write(reserved, data) :]

    return emit


def no_json(value: Any) -> None:
    """The `Emit` of a command that prints text."""


def console() -> Console:
    """A console on standard output. A pipe gets wide lines, so that no name is cut off for want of columns."""
    from rich.console import Console

    return Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=200)


def note(line: str) -> None:
    """One line for people, on standard error: what is going on, never a result."""
    print(line, file=sys.stderr, flush=True)


def check_writable(path: Path) -> None:
    """Makes sure, before any work, that a file can be made at `path`; leaves what is there as it is.

    Raises:
      BenchError: it cannot, with what to change.
    """
    if path.is_dir():
        raise BenchError(f"{path}: is a folder; give the name of a file in it")
    if not path.parent.is_dir():
        raise BenchError(f"{path}: its folder {path.parent} is not there; make it first, or choose another one")
    there = path.exists()
    try:
        with path.open("ab"):
            pass
        if not there:
            path.unlink()
    except OSError as error:
        why = error.strerror or error
        raise BenchError(f"{path}: cannot be written: {why}; free the path, or choose another one") from None


def drop_stdout() -> None:
    """Gives the interpreter somewhere to flush to at exit when the reader of standard output went away."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
