"""Numbers of a run: success in both arms, what the events broke, and what is missing."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from mjx_bench.records import VISUAL_EVENTS, Record, Run, event_rank
from mjx_bench.stats import Outcomes, paired_bootstrap, ratio, wilson
from mjx_bench.types import Arm


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


def pairs_of(run: Run) -> list[Pair]:
    """The cases of a run in the manifest's order, whatever order they were run in."""
    done = run.done
    out = []
    for case in run.manifest["cases"]:
        name, scenario = case["case_id"], case["scenario"]
        event = scenario.get("change_type") or scenario["change"]["operation"]
        out.append(Pair(name, event, done.get((name, Arm.BASE)), done.get((name, Arm.DYNAMIC))))
    return out


def summarise(run: Run) -> dict[str, Any]:
    """The report's JSON.

    Rates and coverages are fractions of the scored pairs (both arms recorded, neither void); `delta_pp` and `delta_ci95` are
    percentage points. A case that never reached its trigger is a real outcome and stays in. Ratios with an empty denominator
    are None.

    Returns:
      The fields of `summarise_pairs` for all pairs, then `events` (the same by event), `policy`, `query_interval`,
      `horizon` (actions a query returns), `cases` (asked for), `incomplete` (ids of cases with an arm missing),
      `void_arms` and `notes`.
    """
    pairs = pairs_of(run)
    by_event: dict[str, list[Pair]] = {}
    for pair in sorted(pairs, key=lambda p: event_rank(p.event)):
        by_event.setdefault(pair.event, []).append(pair)
    settings = run.header.settings
    summary = {
        "policy": settings.get("policy"),
        "query_interval": settings.get("query_interval"),
        "horizon": settings.get("horizon"),
        "cases": len(pairs),
        **summarise_pairs(pairs),
        "events": {event: summarise_pairs(group) for event, group in by_event.items()},
        "incomplete": [p.case_id for p in pairs if not p.complete and not p.void],
        "void_arms": [
            {"case_id": r.case_id, "arm": str(r.arm), "reason": r.reason}
            for p in pairs
            for r in p.arms
            if r.success is None
        ],
    }
    return summary | {"notes": _notes(summary, by_event, bool(settings.get("privileged")))}


def summarise_pairs(pairs: Sequence[Pair]) -> dict[str, Any]:
    """Counts, rates and intervals of a group of pairs; section 5.1 of the protocol.

    Returns:
      `pairs` (scored), `void`, `base` and `dynamic` (`successes`, `rate`, `wilson95`), `delta_pp`, `delta_ci95` (paired
      bootstrap), `outcomes`, `conditional_regression`, `retained_performance`, `mcnemar_p`, `trigger_coverage`,
      `response_coverage` (a later query by the dynamic arm), `common_response_coverage` (a later query at a step where both
      arms queried, the reference's count) and `mean_stale_actions`.
    """
    scored = [p for p in pairs if p.complete and not p.void]
    o = Outcomes.count(p.outcome for p in scored)
    interval = paired_bootstrap([int(d) - int(b) for b, d in (p.outcome for p in scored)])
    dynamic = [p.dynamic for p in scored if p.dynamic is not None]
    stale = [r.stale_actions for r in dynamic if r.stale_actions is not None]

    def arm(successes: int) -> dict[str, Any]:
        bounds = wilson(successes, o.pairs)
        return {
            "successes": successes,
            "rate": ratio(successes, o.pairs),
            "wilson95": None if bounds is None else list(bounds),
        }

    def coverage(field: str) -> float | None:
        return ratio(sum(getattr(r, field) is not None for r in dynamic), len(dynamic))

    return {
        "pairs": o.pairs,
        "void": sum(p.void for p in pairs),
        "base": arm(o.base_successes),
        "dynamic": arm(o.dynamic_successes),
        "delta_pp": ratio(100 * (o.gained - o.regressed), o.pairs),
        # The recipe rounds fractions to 6 decimals; multiplying must not add digits that are not there.
        "delta_ci95": None if interval is None else [round(100 * bound, 4) for bound in interval],
        "outcomes": dataclasses.asdict(o),
        "conditional_regression": o.conditional_regression,
        "retained_performance": o.retained_performance,
        "mcnemar_p": o.mcnemar_p,
        "trigger_coverage": coverage("trigger_step"),
        "response_coverage": coverage("first_response_step"),
        "common_response_coverage": coverage("common_response_step"),
        "mean_stale_actions": ratio(sum(stale), len(stale)),
    }


def _notes(summary: dict[str, Any], by_event: dict[str, list[Pair]], privileged: bool) -> list[str]:
    notes = []
    visual = [event for event in VISUAL_EVENTS if event in by_event]
    if privileged and visual:
        changed = sum(
            p.complete and not p.void and p.outcome[0] != p.outcome[1] for event in visual for p in by_event[event]
        )
        names = " and ".join(visual) if len(visual) < 3 else ", ".join(visual)
        if changed:
            notes.append(
                f"FAULT: {changed} pair(s) of {names} differ although {summary['policy']} cannot see pictures; "
                "an event that changes only pictures must change nothing here"
            )
        else:
            notes.append(
                f"{names}: delta is exactly zero because {summary['policy']} reads the simulator's state and no pictures; "
                "this says nothing about robustness"
            )
    if summary["incomplete"]:
        notes.append(f"{len(summary['incomplete'])} case(s) have an arm missing; run the same command again to finish")
    if summary["void"]:
        notes.append(f"{summary['void']} pair(s) are void and outside of every rate; their reasons are in void_arms")
    return notes
