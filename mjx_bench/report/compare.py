"""Several policies on the cases they have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import PurePath
from typing import Any

from mjx_bench.errors import BenchError
from mjx_bench.fields import canonical_json, short
from mjx_bench.report.cadence import curves
from mjx_bench.report.evaluation import by_task
from mjx_bench.report.results import CaseResult, Results
from mjx_bench.report.summary import breakdown
from mjx_bench.stats import agreement, exact_interval, holm, mcnemar_exact, sign_flip_exact

_NAMED = 3  # ids in a note; all of them are in the JSON


def compare(results: Sequence[Results]) -> dict[str, Any]:
    """The comparison's JSON: everything is of the cases for which every policy has an outcome.

    Returns:
      `arms` of a case; `common` (`cases`, `all` that are in any set, `not_in_every_set`, `without_outcome`);
      `policies`, one each in the order given: `name` (unlike any other here), `path`, `policy`, `horizon`,
      `query_interval`, `cases` (asked for), `missing` and `void_cases` (ids of those with an arm that was not run, or
      that is void), and the fields of `breakdown`, or of `by_task` in an evaluation; `contrasts` (see `_contrast`) of
      every two policies, by `base`, and in pairs `dynamic` and `delta`, with `p_holm` over the policy pairs;
      `agreement` of event losses (`events`, `spearman` [P][P], `mean`; None in an evaluation); `cadence`, see
      `cadence.curves`; and `notes`.

    Raises:
      BenchError: fewer than two results, evaluations and pairs, an A/A run among others, one case id that means two
      cases,
        or no common case with an outcome.
    """
    _check_kinds(results)
    names = distinct_names(results)
    _check_cases(results, names)
    every = list(dict.fromkeys(case_id for r in results for case_id in r.cases))
    shared = [case_id for case_id in every if all(case_id in r.cases for r in results)]
    common = [c for c in shared if all(r.cases[c].successes is not None for r in results)]
    counts = {
        "cases": len(common),
        "all": len(every),
        "not_in_every_set": len(every) - len(shared),
        "without_outcome": len(shared) - len(common),
    }
    if empty := next((r for r in results if all(case.missing for case in r.cases.values())), None):
        raise BenchError(f"{empty.path}: no case has been finished there yet; run the same command again")
    if not common:
        raise BenchError(
            f"{', '.join(r.path for r in results)}: no case has an outcome in all of them, of {len(every)} cases in any and "
            f"{len(shared)} in all; compare results of one manifest"
        )
    policies = [_entry(name, r, common) for name, r in zip(names, results, strict=True)]
    chosen = [[r.cases[c] for c in common] for r in results]
    paired = len(results[0].arms) > 1
    return {
        "arms": [str(arm) for arm in results[0].arms],
        "common": counts,
        "policies": policies,
        "contrasts": _contrasts(names, chosen),
        "agreement": _agreement(policies) if paired else None,
        "cadence": curves(policies) if paired else [],
        "notes": _notes(results, policies, counts),
    }


def distinct_names(results: Sequence[Results]) -> list[str]:
    """The policies' names; where two are equal, with their settings, and where that does not do, with their paths' ends."""
    names = [r.policy or PurePath(r.path).parent.name or PurePath(r.path).name for r in results]
    delay = any(r.delay for r in results)
    timing = [f" H={r.horizon} Q={r.query_interval}" + (f" delay={r.delay}" if delay else "") for r in results]
    for more in (timing, [f" ({PurePath(r.path).name})" for r in results], [f" ({r.path})" for r in results]):
        names = _tell_apart(names, more)
    return names


def _tell_apart(names: list[str], more: list[str]) -> list[str]:
    """Adds to names that are there twice, if that tells any of them apart."""
    out = list(names)
    for name in set(names):
        same = [i for i, n in enumerate(names) if n == name]
        if len({more[i] for i in same}) > 1:
            for i in same:
                out[i] = name + more[i]
    return out


def _check_kinds(results: Sequence[Results]) -> None:
    if len(results) < 2:
        raise BenchError("a comparison needs two results or more")
    first = results[0]
    for other in results[1:]:
        if other.arms != first.arms:
            alone, paired = sorted((first, other), key=lambda r: len(r.arms))
            raise BenchError(f"{alone.path} holds Base alone and {paired.path} pairs; compare one kind with its own")
        if bool(other.settings.get("no_event")) != bool(first.settings.get("no_event")):
            quiet = other if other.settings.get("no_event") else first
            raise BenchError(f"{quiet.path}: an A/A run, in which no event struck; leave it out")
    if len({r.path for r in results}) < len(results):
        twice = next(r.path for r in results if [s.path for s in results].count(r.path) > 1)
        raise BenchError(f"{twice}: given twice; give each result once")


def _check_cases(results: Sequence[Results], names: Sequence[str]) -> None:
    """The same id must mean the same case everywhere."""
    seen: dict[str, tuple[Results, CaseResult]] = {}
    for results_of_one in results:
        for case_id, case in results_of_one.cases.items():
            other, known = seen.setdefault(case_id, (results_of_one, case))
            for key in known.what.keys() & case.what.keys():
                if canonical_json(known.what[key]) != canonical_json(case.what[key]):
                    versions = f" ({other.benchmark or 'unnamed'}, {results_of_one.benchmark or 'unnamed'})"
                    raise BenchError(
                        f"case {case_id!r} is not the same in {other.path} and {results_of_one.path}: {key} = "
                        f"{short(known.what[key])} and {short(case.what[key])}; compare results of one manifest{versions}"
                    )


def _entry(name: str, results: Results, common: Sequence[str]) -> dict[str, Any]:
    chosen = [results.cases[c] for c in common]
    paired = len(results.arms) > 1
    numbers = (
        breakdown([(c.labels, c.scored) for c in chosen], unknown=results.unknown)
        if paired
        else by_task([(c.task or "", c.single) for c in chosen])
    )
    return {
        "name": name,
        "path": results.path,
        "policy": results.policy,
        "horizon": results.horizon,
        "query_interval": results.query_interval,
        "delay": results.delay,
        "cases": len(results.cases),
        "missing": [c for c, case in results.cases.items() if case.missing and not case.void],
        "void_cases": [c for c, case in results.cases.items() if case.void],
        **numbers,
    }


def _contrasts(names: Sequence[str], chosen: Sequence[Sequence[CaseResult]]) -> dict[str, list[dict[str, Any]]]:
    measures: dict[str, Callable[[Sequence[bool]], int]] = {"base": lambda s: int(s[0])}
    if len(chosen[0][0].successes or ()) > 1:
        measures |= {"dynamic": lambda s: int(s[1]), "delta": lambda s: int(s[1]) - int(s[0])}
    out: dict[str, list[dict[str, Any]]] = {}
    for measure, value in measures.items():
        columns = [[value(case.successes or ()) for case in cases] for cases in chosen]
        found = [
            _contrast(names[i], names[j], [b - a for a, b in zip(columns[i], columns[j], strict=True)], measure)
            for i, j in combinations(range(len(names)), 2)
        ]
        adjusted = holm([c["p"] for c in found])
        out[measure] = [c | {"p_holm": p} for c, p in zip(found, adjusted, strict=True)]
    return out


def _contrast(left: str, right: str, differences: Sequence[int], measure: str) -> dict[str, Any]:
    """Two policies case by case.

    Returns:
      `left`, `right`; `left_only` and `right_only`, cases in which one of them alone succeeds (None for deltas);
      `difference_pp`, right minus left in percentage points, its `ci95` (exact bootstrap) and the exact two-sided `p`
      of no
      difference: McNemar's, and for deltas the sign-flip test that it is a case of; None without a difference in any
      case.
    """
    plus, minus = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    interval = exact_interval([list(differences)])
    binary = measure != "delta"
    return {
        "left": left,
        "right": right,
        "left_only": minus if binary else None,
        "right_only": plus if binary else None,
        "difference_pp": 100 * sum(differences) / len(differences),
        "ci95": None if interval is None else [100 * bound for bound in interval],
        "p": mcnemar_exact(minus, plus) if binary else sign_flip_exact(differences),
    }


def _agreement(policies: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    events = list(policies[0]["events"])
    losses = [[None if (d := p["events"][e]["delta_pp"]) is None else -d for e in events] for p in policies]
    matrix, mean = agreement(losses)
    return {"events": events, "spearman": matrix, "mean": mean}


def _notes(results: Sequence[Results], policies: Sequence[Mapping[str, Any]], counts: Mapping[str, int]) -> list[str]:
    if counts["cases"] == counts["all"]:
        notes = [f"all {counts['cases']} cases are common to all {len(results)} results"]
    else:
        why = []
        if counts["not_in_every_set"]:
            why.append(f"{counts['not_in_every_set']} that not every result holds")
        if counts["without_outcome"]:
            why.append(f"{counts['without_outcome']} without an outcome in some")
        notes = [
            f"{counts['cases']} of {counts['all']} cases have an outcome in all {len(results)} results, and every number "
            f"is of these; left out: {' and '.join(why)}"
        ]
    if counts["not_in_every_set"]:
        for policy, r in zip(policies, results, strict=True):
            if lacking := counts["all"] - len(r.cases):
                notes.append(f"{policy['name']}: {lacking} of the {counts['all']} cases are not in its set")
    for policy in policies:
        for field, what in (("missing", "not run yet"), ("void_cases", "void")):
            if ids := policy[field]:
                more = ", ..." if len(ids) > _NAMED else ""
                notes.append(f"{policy['name']}: {len(ids)} case(s) {what}: {', '.join(ids[:_NAMED])}{more}")
    benchmarks = {r.benchmark for r in results if r.benchmark is not None}
    if len(benchmarks) > 1:
        notes.append(
            f"the results are of different manifests, {' and '.join(sorted(benchmarks))}; their cases were compared"
        )
    for key in sorted({key for r in results for key in r.settings}):
        held = [(p["name"], r.settings[key]) for p, r in zip(policies, results, strict=True) if key in r.settings]
        if len({canonical_json(value) for _, value in held}) > 1:
            notes.append(f"{key} differs: " + ", ".join(f"{name} {short(value, 40)}" for name, value in held))
    for note in dict.fromkeys(note for r in results for note in r.notes):
        whose = [p["name"] for p, r in zip(policies, results, strict=True) if note in r.notes]
        # A fault is told from the rest by its first word.
        notes.append(f"{note} ({', '.join(whose)})" if note.startswith("FAULT") else f"{', '.join(whose)}: {note}")
    return notes
