"""Pairs of arms, as reports count them."""

from __future__ import annotations

import dataclasses

from mjx_bench.records import Record, Run
from mjx_bench.types import Arm


@dataclasses.dataclass(frozen=True)
class Scored:
    """What statistics need of a pair whose arms both have an outcome.

    Attributes:
      outcome: (Base, Dynamic) success at any step.
      end: the same at the last step; None where that was not recorded.
      trigger_step, first_response_step, common_response_step, stale_actions: of the Dynamic arm; see `records.Record`.
    """

    outcome: tuple[bool, bool]
    end: tuple[bool, bool] | None
    trigger_step: int | None
    first_response_step: int | None
    common_response_step: int | None
    stale_actions: int | None


@dataclasses.dataclass(frozen=True)
class Pair:
    """Both arms of one case, as far as they were recorded."""

    case_id: str
    event: str
    base: Record | None
    dynamic: Record | None

    @property
    def arms(self) -> tuple[Record, ...]:
        return tuple(r for r in (self.base, self.dynamic) if r is not None)

    @property
    def void(self) -> bool:
        """One arm without evidence voids the pair: it is counted beside the rates, never in them."""
        return any(r.success is None for r in self.arms)

    @property
    def complete(self) -> bool:
        return self.base is not None and self.dynamic is not None

    @property
    def outcome(self) -> tuple[bool, bool]:
        """(base success, dynamic success) of a scored pair."""
        assert self.base is not None
        assert self.dynamic is not None
        return bool(self.base.success), bool(self.dynamic.success)

    @property
    def scored(self) -> Scored | None:
        """None where an arm is missing or void."""
        if self.base is None or self.dynamic is None or self.void:
            return None
        d = self.dynamic
        return Scored(
            self.outcome,
            (bool(self.base.success_end), bool(d.success_end)),
            d.trigger_step,
            d.first_response_step,
            d.common_response_step,
            d.stale_actions,
        )


def pairs_of(run: Run) -> list[Pair]:
    """The cases of a run in the manifest's order, whatever order they were run in; an evaluation's have no Dynamic arm."""
    done = run.done
    out = []
    for case in run.manifest["cases"]:
        name, scenario = case["case_id"], case.get("scenario")
        event = "none" if scenario is None else scenario.get("change_type") or scenario["change"]["operation"]
        out.append(Pair(name, event, done.get((name, Arm.BASE)), done.get((name, Arm.DYNAMIC))))
    return out
