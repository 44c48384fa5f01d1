"""Numbers of a run: success in both arms, what the events broke, and what is missing."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from mjx_bench.records import VISUAL_EVENTS, Run, event_rank
from mjx_bench.report.pairs import Pair, Scored, pairs_of
from mjx_bench.stats import Outcomes, paired_bootstrap, ratio, wilson


def summarise(run: Run) -> dict[str, Any]:
    """The report's JSON.

    Rates and coverages are fractions of the scored pairs (both arms recorded, neither void); `delta_pp` and `delta_ci95` are
    percentage points. A case that never reached its trigger is a real outcome and stays in. Ratios with an empty denominator
    are None.

    Returns:
      The fields of `summarise_pairs` for all pairs, then `events` (the same by event), `policy`, `query_interval`,
      `horizon` (actions a query returns), `cases` (asked for), `left_out` (cases that were not run, a count a reason),
      `incomplete` (ids of cases with an arm missing), `void_arms` and `notes`.
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
        "left_out": dict(settings.get("left_out", {})),
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
    return summary | {"notes": [*shard_notes(run), *_notes(summary, by_event, settings)]}


def shard_notes(run: Run) -> list[str]:
    """That the folder holds one shard only, where it does."""
    if (shard := run.header.shard) is None:
        return []
    return [f"shard {shard}, of {len(shard.case_ids)} cases in all; mjx-bench merge puts the shards together"]


def summarise_outcomes(
    pairs: Sequence[tuple[str, Scored]], *, unknown: Collection[str] = (), notes: Sequence[str] = ()
) -> dict[str, Any]:
    """The fields of `summarise` for pairs that come from elsewhere.

    Args:
      pairs: (event, outcome) each, in the source's order.
      unknown: steps of `Scored` that the source does not record; what follows from them is None.
      notes: what to know about the source.
    """
    by_event: dict[str, list[Scored]] = {}
    for event, scored in sorted(pairs, key=lambda p: event_rank(p[0])):
        by_event.setdefault(event, []).append(scored)
    return {
        "policy": None,
        "query_interval": None,
        "horizon": None,
        "cases": len(pairs),
        "left_out": {},
        **_statistics([scored for _, scored in pairs], 0, unknown),
        "events": {event: _statistics(group, 0, unknown) for event, group in by_event.items()},
        "incomplete": [],
        "void_arms": [],
        "notes": list(notes),
    }


def summarise_pairs(pairs: Sequence[Pair]) -> dict[str, Any]:
    """Counts, rates and intervals of a group of pairs; section 5.1 of the protocol.

    Returns:
      `pairs` (scored), `void`, `base` and `dynamic` (`successes`, `rate`, `wilson95`), `success_any` and `success_end`
      (rates of success at any step, which all else here counts, and at the last), `delta_pp`, `delta_ci95` (paired
      bootstrap), `outcomes`, `conditional_regression`, `retained_performance`, `mcnemar_p`, `trigger_coverage`,
      `response_coverage` (a later query by the dynamic arm), `common_response_coverage` (a later query at a step where both
      arms queried, the reference's count) and `mean_stale_actions`.
    """
    scored = [s for s in (pair.scored for pair in pairs) if s is not None]
    return _statistics(scored, sum(p.void for p in pairs))


def _statistics(scored: Sequence[Scored], void: int, unknown: Collection[str] = ()) -> dict[str, Any]:
    o = Outcomes.count(s.outcome for s in scored)
    interval = paired_bootstrap([int(d) - int(b) for b, d in (s.outcome for s in scored)])
    stale = [s.stale_actions for s in scored if s.stale_actions is not None]
    ends = [s.end for s in scored if s.end is not None]
    end = Outcomes.count(ends) if len(ends) == len(scored) else None

    def arm(successes: int) -> dict[str, Any]:
        bounds = wilson(successes, o.pairs)
        return {
            "successes": successes,
            "rate": ratio(successes, o.pairs),
            "wilson95": None if bounds is None else list(bounds),
        }

    def coverage(field: str) -> float | None:
        if field in unknown:
            return None
        return ratio(sum(getattr(s, field) is not None for s in scored), len(scored))

    return {
        "pairs": o.pairs,
        "void": void,
        "base": arm(o.base_successes),
        "dynamic": arm(o.dynamic_successes),
        "success_any": {"base": o.base_rate, "dynamic": o.dynamic_rate},
        "success_end": {"base": end and end.base_rate, "dynamic": end and end.dynamic_rate},
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


def _notes(summary: dict[str, Any], by_event: dict[str, list[Pair]], settings: Mapping[str, Any]) -> list[str]:
    notes = [f"{count} case(s) left out, and in no number here: {why}" for why, count in summary["left_out"].items()]
    visual = [event for event in VISUAL_EVENTS if event in by_event]
    if settings.get("no_event"):
        notes.append(_a_a_note([p for pairs in by_event.values() for p in pairs if p.scored]))
    elif not settings.get("sees_pictures", True) and visual:
        scored = [s for event in visual for p in by_event[event] if (s := p.scored)]
        notes.append(_visual_note(visual, scored, summary["policy"]))
    if summary["incomplete"]:
        notes.append(f"{len(summary['incomplete'])} case(s) have an arm missing; run the same command again to finish")
    if summary["void"]:
        notes.append(f"{summary['void']} pair(s) are void and outside of every rate; their reasons are in void_arms")
    return notes


def _a_a_note(pairs: Sequence[Pair]) -> str:
    def same(p: Pair) -> bool:
        a, b = (r.result() for r in p.arms)
        return all(a[field] == b[field] for field in ("verdict", "end_step", "success_step", "arrays"))

    if different := sum(not same(p) for p in pairs):
        return f"FAULT: {different} pair(s) of an A/A run differ; nothing was changed, so both arms must be equal to the bit"
    return f"A/A run: nothing was changed at any trigger, and both arms of all {len(pairs)} pairs are equal to the bit"


def _visual_note(visual: Sequence[str], scored: Sequence[Scored], policy: str) -> str:
    names = " and ".join(visual) if len(visual) < 3 else ", ".join(visual)
    if changed := sum(s.outcome[0] != s.outcome[1] for s in scored):
        return (
            f"FAULT: {changed} pair(s) of {names} differ although {policy} cannot see pictures; "
            "an event that changes only pictures must change nothing here"
        )
    return f"{names}: delta is exactly zero because {policy} sees no pictures; this says nothing about robustness"
