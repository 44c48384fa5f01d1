"""The non-action budget: what an agent may do without moving the robot, counted from the events of an episode.

One unit is an auxiliary call (a shell command, a look at a picture), a poll of a running command, a call of the robot that
executed nothing, or a turn that did none of these and nothing else. Control steps reset the units in a row and never the
total. The first limit that is reached ends the episode, and what comes after it in the log changes nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

from evals.robotworld.contract import Contract
from mjx_bench.errors import BenchError

# Where the benchmark's own accounting is known to be wrong, as it says itself.
GAPS = ("invalid built-in calls and final polls may be missed", "repeated terminal notices may be counted twice")
ACCOUNTING = "observable-events-v2"
# Units in a row of the limits that were calibrated on records; their protocols have a name of their own.
CALIBRATED = 15
CONSECUTIVE, TOTAL = "nonaction_consecutive_limit", "nonaction_total_limit"
KINDS = ("aux", "stdin", "robot_zero", "empty_turn")


class Limits(NamedTuple):
    """Units in a row, and in all (None: not limited, because not public)."""

    consecutive: int
    total: int | None

    @classmethod
    def of(cls, contract: Contract) -> Limits:
        """Those of a task."""
        return cls(contract.consecutive, contract.total)


@dataclasses.dataclass(frozen=True)
class Event:
    """Something that was seen of an agent.

    Attributes:
      kind: `auxiliary` (start or end of a call, failed or not), `poll` (input to a running command or a look at it),
        `robot` (the reply to a call), `turn` (its end), `notice` (text, retries, anything that is free).
      steps: control steps confirmed so far, after it.
      turn: number of the turn that it belongs to.
      key: of an auxiliary call, the same for its start and its end.
      completed: of a turn, whether it ended as it should; a failed one is free.
    """

    kind: Literal["auxiliary", "poll", "robot", "turn", "notice"]
    steps: int
    turn: int = 0
    key: str = ""
    completed: bool = True


class Crossing(NamedTuple):
    """The first limit that was reached, and how things stood then."""

    reason: str
    turn: int
    consecutive: int
    total: int
    steps: int


@dataclasses.dataclass(frozen=True)
class Ledger:
    """The account of an episode after some events.

    Attributes:
      limits: of its task.
      enforced: whether reaching one ends the episode; otherwise the account goes on.
      consecutive, total: units; peak: the most in a row.
      steps: control steps.
      kinds: units by kind, in the order of `KINDS`.
      first: the first limit that was reached.
      keys: auxiliary calls that are paid for.
      turn: the last; turn_start: steps before it; turn_paid: whether it held a unit; open_turns: of earlier ones, how many
        had no end.
      turn_open: whether the last turn's end is still to come.
    """

    limits: Limits
    enforced: bool = True
    consecutive: int = 0
    total: int = 0
    peak: int = 0
    steps: int = 0
    kinds: tuple[int, ...] = (0,) * len(KINDS)
    first: Crossing | None = None
    keys: frozenset[str] = frozenset()
    turn: int = 0
    turn_start: int = 0
    turn_paid: bool = False
    turn_open: bool = False
    open_turns: int = 0

    @property
    def stopped(self) -> str | None:
        """Why the budget ended the episode; None if it did not."""
        return self.first.reason if self.enforced and self.first is not None else None

    def record(self) -> dict[str, Any]:
        """What an episode's record says of the budget."""
        total = "unknown" if self.limits.total is None else self.limits.total
        family = "astra-nonaction" if self.limits.consecutive == CALIBRATED else "nonaction"
        return {
            "protocol": f"{family}-{self.limits.consecutive}-{total}-v1",
            "mode": "enforce" if self.enforced else "observe",
            "accounting": ACCOUNTING,
            "counts_complete": False,
            "known_gaps": list(GAPS),
            "missing_turn_ends": self.open_turns + self.turn_open,
            "limits": list(self.limits),
            "consecutive": self.consecutive,
            "consecutive_peak": self.peak,
            "total": self.total,
            "kinds": dict(zip(KINDS, self.kinds, strict=True)),
            "control_steps": self.steps,
            "first_threshold": None if self.first is None else self.first._asdict(),
            "stop_reason": self.stopped,
        }


def tally(events: Iterable[Event], limits: Limits, *, enforced: bool = True) -> Ledger:
    """The account of an episode's events, in their order."""
    ledger = Ledger(limits, enforced)
    for event in events:
        ledger = charge(ledger, event)
    return ledger


def charge(ledger: Ledger, event: Event) -> Ledger:
    """The account after one more event; as it was, if the budget had already ended the episode.

    Raises:
      BenchError: control steps or turns that go back within an episode, which is an error of the infrastructure.
    """
    if ledger.stopped is not None:
        return ledger
    if event.steps < ledger.steps:
        raise BenchError(f"control steps went back from {ledger.steps} to {event.steps}; record the episode again")
    if event.turn < ledger.turn:
        raise BenchError(f"turns went back from {ledger.turn} to {event.turn}; record the episode again")
    if event.turn > ledger.turn:
        ledger = dataclasses.replace(
            ledger, turn=event.turn, turn_start=ledger.steps, turn_paid=False, turn_open=False,
            open_turns=ledger.open_turns + ledger.turn_open,
        )  # fmt: skip
    moved = event.steps > ledger.steps
    kind = _unit(ledger, event, moved)
    keys = ledger.keys | {event.key} if event.kind == "auxiliary" and event.key else ledger.keys
    consecutive = (0 if moved else ledger.consecutive) + (kind is not None)
    kinds = tuple(n + (name == kind) for name, n in zip(KINDS, ledger.kinds, strict=True))
    after = dataclasses.replace(
        ledger, consecutive=consecutive, total=ledger.total + (kind is not None), peak=max(ledger.peak, consecutive),
        steps=event.steps, kinds=kinds, keys=keys, turn_paid=ledger.turn_paid or kind is not None,
        turn_open=event.kind != "turn",
    )  # fmt: skip
    if kind is None or after.first is not None:
        return after
    return dataclasses.replace(after, first=_crossing(after))


def _unit(ledger: Ledger, event: Event, moved: bool) -> str | None:
    """The kind of unit that an event costs; None for one that is free."""
    if event.kind == "auxiliary":
        return None if event.key and event.key in ledger.keys else "aux"
    if event.kind == "poll":
        return "stdin"
    if event.kind == "robot":
        return None if moved else "robot_zero"
    if event.kind == "turn":
        idle = event.completed and not ledger.turn_paid and event.steps == ledger.turn_start
        return "empty_turn" if idle else None
    return None


def _crossing(ledger: Ledger) -> Crossing | None:
    """The limit that the last unit reached."""
    limits = ledger.limits
    if ledger.consecutive >= limits.consecutive:
        reason = CONSECUTIVE
    elif limits.total is not None and ledger.total >= limits.total:
        reason = TOTAL
    else:
        return None
    return Crossing(reason, ledger.turn, ledger.consecutive, ledger.total, ledger.steps)
