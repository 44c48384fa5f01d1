"""Numbers of a run: success in both arms, what the events broke, and what is missing."""

from __future__ import annotations

import dataclasses
import statistics
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from mjx_bench.records import VISUAL_EVENTS, Run, event_rank
from mjx_bench.report.pairs import DIMENSIONS, Labels, Pair, Scored, pairs_of, source_notes
from mjx_bench.stats import Outcomes, macro, paired_bootstrap, ratio, split, wilson

_SEVERITIES = ("low", "medium", "high")


def summarise(run: Run, missing_fails: bool = False) -> dict[str, Any]:
    """The report's JSON.

    Rates and coverages are fractions of the scored pairs (both arms recorded, neither void); `delta_pp` and
    `delta_ci95` are percentage points. A case that never reached its trigger is a real outcome and stays in. Ratios
    with an empty denominator are None.

    Args:
      run: a results folder of pairs.
      missing_fails: an arm that is missing or void counts as a failure, and its pair in every rate (protocol 5.2,
        Lite).

    Returns:
      The fields of `statistics_of` for all pairs, `void` (pairs), then the fields of `breakdown`, `policy`,
      `query_interval`, `horizon` (actions a query returns), `cases` (asked for), `left_out` (cases that were not run, a
      count a reason), `incomplete` (ids of cases with an arm missing), `void_arms` and `notes`.
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
        **breakdown(
            [(p.labels, p.terminal if missing_fails else p.scored) for p in pairs],
            [] if missing_fails else [p.labels for p in pairs if p.void],
        ),
        "incomplete": [p.case_id for p in pairs if not p.complete and not p.void],
        "void_arms": [
            {"case_id": r.case_id, "arm": str(r.arm), "reason": r.reason}
            for p in pairs
            for r in p.arms
            if r.success is None
        ],
    }
    failed = sum(p.scored is None for p in pairs) if missing_fails else 0
    notes = [f"{failed} pair(s) have an arm that is missing or void and counts as a failure"] if failed else []
    return summary | {"notes": [*folder_notes(run), *notes, *_notes(summary, by_event, settings)]}


def folder_notes(run: Run) -> list[str]:
    """That the folder holds one shard only, records of other cases, or has lost its arrays, where that is so."""
    notes = []
    own = {case["case_id"] for case in run.manifest["cases"]}
    foreign = [record.case_id for record in run.records if record.case_id not in own]
    if foreign:
        names = list(dict.fromkeys(foreign))
        notes.append(
            f"{len(foreign)} record(s) are of no case of {run.directory / 'manifest.json'}, and in no number here: "
            + ", ".join(names[:3])
            + (", ..." if len(names) > 3 else "")
        )
    if (shard := run.header.shard) is not None:
        notes.append(f"shard {shard}, of {len(shard.case_ids)} cases in all; mjx-bench merge puts the shards together")
    needed = max((ref.offset + ref.nbytes for r in run.records for ref in r.arrays.values()), default=0)
    arrays = run.directory / "arrays.bin"
    if (held := arrays.stat().st_size if arrays.is_file() else 0) < needed:
        notes.append(
            f"{arrays}: {held} bytes, and the records point at {needed}: rates are those of the records, but nothing in"
            " them can be judged again or shown"
        )
    return notes


def void_reasons(summary: Mapping[str, Any]) -> str:
    """The most frequent reason among `void_arms`, and how many others there are."""
    counts = Counter(" ".join(arm["reason"].split())[:200] for arm in summary["void_arms"])
    reason, times = counts.most_common(1)[0]
    rest = sum(counts.values()) - times
    return f"{reason} ({times} arm{'s' * (times != 1)}" + (f"; {rest} more in void_arms)" if rest else ")")


def summarise_outcomes(
    pairs: Sequence[tuple[Labels, Scored]], *, unknown: Collection[str] = (), notes: Sequence[str] = ()
) -> dict[str, Any]:
    """The fields of `summarise` for pairs that come from elsewhere.

    Args:
      pairs: what each is, and its outcome, in the source's order.
      unknown: steps of `Scored` that the source does not record; what follows from them is None.
      notes: what to know about the source.
    """
    return {
        "policy": None,
        "query_interval": None,
        "horizon": None,
        "cases": len(pairs),
        "left_out": {},
        **breakdown(pairs, unknown=unknown),
        "incomplete": [],
        "void_arms": [],
        "notes": list(notes),
    }


def breakdown(
    pairs: Sequence[tuple[Labels, Scored | None]], void: Sequence[Labels] = (), unknown: Collection[str] = ()
) -> dict[str, Any]:
    """Statistics of all pairs and of every group of them.

    Args:
      pairs: what each is, and its outcome, None where it has none; in record order.
      void: those that have none because an arm is void.
      unknown: see `summarise_outcomes`.

    Returns:
      The fields of `statistics_of` and `void` (pairs), for all; `events`, the same by event; `breakdowns`, the same by
      suite, source, category, difficulty, severity and draw; `profiles`, for the same groups `pairs` and `delta_pp` of
      each event; `category_macro` (unweighted means over categories, with their number in `categories`; None without
      categories); and `split` (`event`, `points`: the largest difference between the Dynamic rates of an event's draws;
      None without draws).
    """

    def group(field: str, value: Any) -> dict[str, Any]:
        own = [scored for labels, scored in pairs if getattr(labels, field) == value and scored is not None]
        return statistics_of(own, unknown) | {"void": sum(getattr(labels, field) == value for labels in void)}

    def profile(field: str, value: Any) -> dict[str, dict[str, Any]]:
        own: dict[str, list[tuple[bool, bool]]] = {event: [] for event in events}
        for labels, scored in pairs:
            if getattr(labels, field) == value and scored is not None:
                own[labels.event].append(scored.outcome)
        counts = {event: Outcomes.count(outcomes) for event, outcomes in own.items()}
        return {
            e: {"pairs": o.pairs, "delta_pp": ratio(100 * (o.gained - o.regressed), o.pairs)} for e, o in counts.items()
        }

    def values(field: str) -> list[Any]:
        found = {v for labels, _ in pairs if (v := getattr(labels, field)) is not None}
        return sorted(found, key=lambda v: (_SEVERITIES.index(v) if v in _SEVERITIES else -1, v))

    events = sorted(values("event"), key=event_rank)

    scored = [s for _, s in pairs if s is not None]
    by_draw: dict[str, dict[int, list[bool]]] = {}
    by_category: dict[str, list[tuple[bool, bool]]] = {}
    for labels, one in pairs:
        if one is not None and labels.draw is not None:
            by_draw.setdefault(labels.event, {}).setdefault(labels.draw, []).append(one.outcome[1])
        if one is not None and labels.category is not None:
            by_category.setdefault(labels.category, []).append(one.outcome)
    widest = split({e: {d: sum(v) / len(v) for d, v in by_draw[e].items()} for e in sorted(by_draw, key=event_rank)})
    means = macro(Outcomes.count(outcomes) for outcomes in by_category.values())
    return {
        **statistics_of(scored, unknown),
        "void": len(void),
        "events": {event: group("event", event) for event in events},
        "breakdowns": {field: {str(v): group(field, v) for v in values(field)} for field in DIMENSIONS},
        "profiles": {field: {str(v): profile(field, v) for v in values(field)} for field in DIMENSIONS},
        "category_macro": {"categories": len(by_category), **means} if by_category else None,
        "split": None if widest is None else {"event": widest[0], "points": 100 * widest[1]},
    }


def statistics_of(scored: Sequence[Scored], unknown: Collection[str] = ()) -> dict[str, Any]:
    """Counts, rates and intervals of a group of scored pairs; section 5.1 of the protocol.

    Returns:
      `pairs`, `base` and `dynamic` (`successes`, `rate`, `wilson95`), `success_any` and `success_end` (rates of success
      at any step, which all else here counts, and at the last), `delta_pp`, `delta_ci95` (paired bootstrap),
      `outcomes`, `conditional_regression`, `retained_performance`, `mcnemar_p`, `trigger_coverage`, `response_coverage`
      (a later query by the dynamic arm), `common_response_coverage` (a later query at a step where both arms queried,
      the reference's count), `mean_stale_actions`, `median_stale_actions`, `stale_actions` (number of them to pairs),
      and `mean_progress` (of both arms, over the `pairs` whose task measures it).
    """
    o = Outcomes.count(s.outcome for s in scored)
    interval = paired_bootstrap([int(d) - int(b) for b, d in (s.outcome for s in scored)])
    stale = [s.stale_actions for s in scored if s.stale_actions is not None]
    progress = [s.progress for s in scored if s.progress is not None]
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
        "median_stale_actions": statistics.median(stale) if stale else None,
        "stale_actions": {str(n): count for n, count in sorted(Counter(stale).items())},
        "mean_progress": {
            "pairs": len(progress),
            "base": sum(b for b, _ in progress) / len(progress) if progress else None,
            "dynamic": sum(d for _, d in progress) / len(progress) if progress else None,
        },
    }


def _notes(summary: dict[str, Any], by_event: dict[str, list[Pair]], settings: Mapping[str, Any]) -> list[str]:
    notes = [f"{count} case(s) left out, and in no number here: {why}" for why, count in summary["left_out"].items()]
    notes += source_notes([p.labels for pairs in by_event.values() for p in pairs])
    if settings.get("no_event"):
        notes.append(_a_a_note([p for pairs in by_event.values() for p in pairs if p.scored]))
    else:
        notes += visual_notes([p for pairs in by_event.values() for p in pairs], settings)
    if summary["incomplete"]:
        notes.append(f"{len(summary['incomplete'])} case(s) have an arm missing; run the same command again to finish")
    if summary["void"]:
        notes.append(f"{summary['void']} pair(s) are void and outside of every rate: {void_reasons(summary)}")
    return notes


def _a_a_note(pairs: Sequence[Pair]) -> str:
    def same(p: Pair) -> bool:
        a, b = (r.result() for r in p.arms)
        return all(a[field] == b[field] for field in ("verdict", "end_step", "success_step", "arrays"))

    if different := sum(not same(p) for p in pairs):
        return f"FAULT: {different} pair(s) of an A/A run differ; nothing was changed, so both arms must be equal to the bit"
    return f"A/A run: nothing was changed at any trigger, and both arms of all {len(pairs)} pairs are equal to the bit"


def visual_notes(pairs: Sequence[Pair], settings: Mapping[str, Any]) -> list[str]:
    """What events that change only pictures did to a policy that sees none: nothing, or a fault."""
    visual = [event for event in VISUAL_EVENTS if any(p.event == event for p in pairs)]
    if settings.get("sees_pictures", True) or not visual:
        return []
    scored, policy = [s for p in pairs if p.event in visual and (s := p.scored)], settings.get("policy")
    names = " and ".join(visual) if len(visual) < 3 else ", ".join(visual)
    if changed := sum(s.outcome[0] != s.outcome[1] for s in scored):
        return [
            f"FAULT: {changed} pair(s) of {names} differ although {policy} cannot see pictures; "
            "an event that changes only pictures must change nothing here"
        ]
    return [f"{names}: delta is exactly zero because {policy} sees no pictures; this says nothing about robustness"]
