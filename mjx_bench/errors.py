"""Errors that a user can act on: one line, the offending value, and the fix."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class BenchError(Exception):
    """A mistake in what the user gave, or something missing on the machine.

    The message is one line that names the offending value and says what to do. The command line prints it
    without a traceback and exits with status 2; library users can catch it.
    """


class MissingExtra(BenchError):
    """An optional dependency is not installed; the message names the extra."""


def unknown_name(kind: str, value: object, known: Iterable[str]) -> BenchError:
    """Returns the error for a name that is not in `known`, with the nearest valid names.

    Args:
      kind: what the name should be, for the message ("suite", "policy", ...).
      value: what was given.
      known: all valid names.
    """
    names = sorted(known)
    close = difflib.get_close_matches(str(value), names, n=3, cutoff=0.5)
    if close:
        hint = "did you mean " + ", ".join(close) + "?"
    elif len(names) <= 12:
        hint = "known: " + ", ".join(names)
    else:
        hint = f"known: {', '.join(names[:8])}, ... ({len(names)} in all)"
    return BenchError(f"unknown {kind} {value!r}; {hint}")


def broken(what: str, error: Exception) -> str:
    """One line about something that is installed and does not work: what, and which package raised what.

    Args:
      what: as a person knows it ("engine jax").
      error: what came out of importing or starting it, with its traceback.
    """
    where, trace = "", error.__traceback__
    while trace is not None:
        where, trace = trace.tb_frame.f_globals.get("__name__", "").split(".")[0], trace.tb_next
    return " ".join(f"{what} does not work here: {where} raised {type(error).__name__}: {error}".split()).rstrip(": ")
