"""What an episode counts as: scoring by profile, the budget's part in it, and adjudication of older logs.

An outcome is True, False or None. None is no outcome (infrastructure, an incomplete window, a missing field), is never a
failure and is never dropped silently.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from evals.robotworld.budget import Ledger
from evals.robotworld.contract import PROFILES
from evals.robotworld.world import Evaluation
from mjx_bench.errors import BenchError, unknown_name


def score(profile: str, *, native: bool | None, world: Evaluation | None, stopped: bool) -> bool | None:
    """The outcome of an episode.

    Args:
      profile: N, the task's own checker decides; W, the world's rules do.
      native: result of the own checker; None if there is none.
      world: evaluation by the rules; None if there is none.
      stopped: whether the non-action budget ended the episode. Then only what is exactly true is a success, and all else a
        failure.
    """
    if profile not in PROFILES:
        raise unknown_name("scoring profile", profile, PROFILES)
    if profile == "N":
        found = native
    else:
        found = world.success if world is not None and world.valid else None
    return found is True if stopped else found


@dataclasses.dataclass(frozen=True)
class Recorded:
    """What a log says of an episode, limits aside.

    Attributes:
      original: the result at its end; None if there was none.
      observed_step: control steps in it.
      success_step: control steps after which it first was a success; None if it never was.
    """

    original: bool | None
    observed_step: int
    success_step: int | None = None


@dataclasses.dataclass(frozen=True)
class Adjudicated:
    """The three readings of an episode, side by side; none rewrites another.

    Attributes:
      outcome: as scored.
      scored_step: control steps at the first limit reached, or all of them.
      reason: the limit; None if none was reached.
      original: the result that was recorded; None is unavailable, and no native failure.
      observed_step: control steps in the log, to which resources are counted.
    """

    outcome: bool | None
    scored_step: int
    reason: str | None
    original: bool | None
    observed_step: int

    @property
    def overturned(self) -> bool:
        """Whether a recorded success does not count."""
        return self.original is True and self.outcome is False

    def as_row(self) -> dict[str, Any]:
        """As plain values, with the recorded result in words."""
        original = "unavailable" if self.original is None else "success" if self.original else "failure"
        return {**dataclasses.asdict(self), "original": original}


def adjudicate(recorded: Recorded, ledger: Ledger) -> Adjudicated:
    """Scores an episode that may have gone on beyond its budget.

    What held when the first limit was reached counts; a task that was not done by then is a failure, whatever came later.

    Args:
      recorded: what the log says.
      ledger: the account of its whole event stream, kept without enforcing it or with.

    Raises:
      BenchError: the limit was reached after more steps than the log has, or a success lies outside of it.
    """
    first, end = ledger.first, recorded.observed_step
    for name, step in (("the limit", None if first is None else first.steps), ("success", recorded.success_step)):
        if step is not None and step > end:
            raise BenchError(f"{name} came after {step} control steps, and the log ends after {end}")
    if first is None:
        return Adjudicated(recorded.original, end, None, recorded.original, end)
    done = recorded.success_step is not None and recorded.success_step <= first.steps
    return Adjudicated(done, first.steps, first.reason, recorded.original, end)
