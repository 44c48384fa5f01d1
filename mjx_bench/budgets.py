"""What an agent may spend on an episode beside control steps: accounts that are charged with what is seen of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, Protocol


@dataclasses.dataclass(frozen=True)
class Spent:
    """Something that was seen of an agent.

    Attributes:
      kind: `call` (the reply to one call, refused ones included) or `turn` (the end of one reply of the agent's).
      turn: its number, from 1.
      steps: control steps executed so far, after it.
    """

    kind: Literal["call", "turn"]
    turn: int
    steps: int


class Account(Protocol):
    """The state of a budget within an episode; never changed, only replaced."""

    @property
    def stopped(self) -> str | None:
        """Why the budget has ended the episode; None if it has not."""
        ...

    def charge(self, spent: Spent) -> Account:
        """The account after this."""
        ...

    def told(self) -> Mapping[str, Any]:
        """What an agent is told of it before each turn."""
        ...

    def record(self) -> Mapping[str, Any]:
        """What the episode's transcript keeps of it."""
        ...


class Budget(Protocol):
    """Makes accounts."""

    def open(self) -> Account:
        """That of a new episode."""
        ...


@dataclasses.dataclass(frozen=True)
class Decisions:
    """So many replies of the agent's, whatever they hold; a budget and its own account.

    Attributes:
      limit: replies in all.
      used: so far.
      reason: what is recorded where they are used up.
    """

    limit: int
    used: int = 0
    reason: str = "model_response_budget"

    def open(self) -> Decisions:
        """See `Budget.open`."""
        return dataclasses.replace(self, used=0)

    @property
    def stopped(self) -> str | None:
        """See `Account.stopped`."""
        return self.reason if self.used >= self.limit else None

    def charge(self, spent: Spent) -> Decisions:
        """See `Account.charge`."""
        return dataclasses.replace(self, used=self.used + 1) if spent.kind == "turn" else self

    def told(self) -> Mapping[str, Any]:
        """See `Account.told`."""
        return {"decisions_left": self.limit - self.used}

    def record(self) -> Mapping[str, Any]:
        """See `Account.record`."""
        return {"protocol": "decisions", "limit": self.limit, "used": self.used, "stop_reason": self.stopped}
