"""Option types that several commands share, and the checks that come before any work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import tyro

from mjx_bench.errors import BenchError, unknown_name

# `--suite a b` and `--suite a --suite b` mean the same.
Names = Annotated[tuple[tuple[str, ...], ...], tyro.conf.UseAppendAction]


def flat(names: Names) -> tuple[str, ...]:
    """All names of a `Names` option, in order, each once."""
    return tuple(dict.fromkeys(name for group in names for name in group))


def at_least(minimum: int, **values: int | None) -> None:
    """Raises `BenchError` for the first value below `minimum`; None is an option that was not given."""
    for name, value in values.items():
        if value is not None and value < minimum:
            flag = "--" + name.replace("_", "-")
            raise BenchError(f"{flag} {value} is too small; give an integer of at least {minimum}")


def suites(names: Sequence[str]) -> tuple[str, ...]:
    """The named suites, checked; raises `BenchError` with the nearest names for an unknown one."""
    from evals import registry

    for name in names:
        registry.check_suite(name)
    return tuple(names)


def no_event(names: Sequence[str]) -> tuple[bool, tuple[str, ...]]:
    """Whether the event is to be `none`, and the other names; `BenchError` where both are given."""
    others = tuple(name for name in names if name != "none")
    if others and len(others) < len(names):
        raise BenchError(f"--event none changes nothing in any case; give it without {', '.join(others)}")
    return len(others) < len(names), others


def plain_suites(names: Sequence[str]) -> tuple[str, ...]:
    """The named suites, checked, all of which cases can be drawn on; a varied one's cases come from a manifest only."""
    from evals import registry

    for name in suites(names):
        if name not in registry.suites():
            raise BenchError(
                f"cases cannot be drawn on {name!r}, a suite of varied tasks; give a manifest of them,"
                f" or draw on {', '.join(registry.suites())}"
            )
    return tuple(names)


def events(names: Sequence[str]) -> tuple[str, ...] | None:
    """The named event types, checked; None, which means all of version 1, if none is named."""
    from mjx_bench.records import EVENT_ORDER

    for name in names:
        if name not in EVENT_ORDER:
            raise unknown_name("event", name, EVENT_ORDER)
    return tuple(names) or None
