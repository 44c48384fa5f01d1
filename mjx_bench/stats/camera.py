"""The camera study: the same shift before the first picture (Reset) and in mid-episode (Mid).

Section 5.3 of the LIBERO-MAX protocol. Each case has seven outcomes: Base once, Reset and Mid at each of three
strengths alpha. All stay together when cases are resampled, so every difference here is taken within cases.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

from mjx_bench.stats.bootstrap import exact_interval
from mjx_bench.stats.clusters import group_bootstrap, task_bootstrap
from mjx_bench.stats.outcomes import ratio, wilson


@dataclasses.dataclass(frozen=True)
class CameraCase:
    """One case of the study.

    Attributes:
      source: what is resampled apart, e.g. "plus" and "pro".
      task: reference task that the case descends from.
      group: task and initial configuration; cases of one source and group are resampled together.
      base: success of Base.
      reset, mid: success of Reset and of Mid, by alpha.
      entered: whether the hand of Reset ever came within 18 cm of the trigger entity, by alpha.
    """

    source: str
    task: str
    group: str
    base: bool
    reset: Mapping[float, bool]
    mid: Mapping[float, bool]
    entered: Mapping[float, bool]


def camera_summary(cases: Sequence[CameraCase]) -> dict[str, Any]:
    """Numbers of the study, as JSON data; rates and differences are fractions of the cases.

    Returns:
      `cases`; `base` (`successes`, `rate`, `wilson95`); `alphas`, strongest first, each with `alpha`, `reset` and `mid`
      (as `base`), the differences `mid_minus_reset`, `reset_minus_base` and `mid_minus_base`, `lost_by_mid` (`cases`
      whose Base and Reset succeed and whose Mid fails, `of` those whose Base and Reset succeed), `lost_by_reset` (Reset
      and Mid exchanged, and `never_entered`: those of its cases whose Reset never came within 18 cm) and
      `reset_outcomes` (`success`, `never_entered`, `entered_and_failed`); `gaps`, each with `alphas` [2] and the
      difference between Mid minus Reset at the first and at the second.
      A difference is `mean`; `ci95`, exact bootstrap with the sources' sizes fixed; `ci95_tasks`, reference tasks
      resampled jointly; `ci95_groups` and `ci95_source_tasks`, groups, or each source's own tasks, resampled within
      sources; and `by_source`.
    """
    alphas = sorted({alpha for case in cases for alpha in case.mid}, reverse=True)

    def gap(a: float, b: float) -> dict[str, Any]:
        return {"alphas": [a, b]} | _difference(cases, lambda c: _effect(c, a) - _effect(c, b))

    return {
        "cases": len(cases),
        "base": _rate([c.base for c in cases]),
        "alphas": [_at(cases, alpha) for alpha in alphas],
        "gaps": [gap(a, b) for a, b in combinations(alphas, 2)],
    }


def _at(cases: Sequence[CameraCase], alpha: float) -> dict[str, Any]:
    reset_kept = [c for c in cases if c.base and c.reset[alpha]]
    mid_kept = [c for c in cases if c.base and c.mid[alpha]]
    lost_by_reset = [c for c in mid_kept if not c.reset[alpha]]
    failed = [c for c in cases if not c.reset[alpha]]
    never = sum(not c.entered[alpha] for c in failed)
    return {
        "alpha": alpha,
        "reset": _rate([c.reset[alpha] for c in cases]),
        "mid": _rate([c.mid[alpha] for c in cases]),
        "mid_minus_reset": _difference(cases, lambda c: _effect(c, alpha)),
        "reset_minus_base": _difference(cases, lambda c: int(c.reset[alpha]) - int(c.base)),
        "mid_minus_base": _difference(cases, lambda c: int(c.mid[alpha]) - int(c.base)),
        "lost_by_mid": {"cases": sum(not c.mid[alpha] for c in reset_kept), "of": len(reset_kept)},
        "lost_by_reset": {
            "cases": len(lost_by_reset),
            "of": len(mid_kept),
            "never_entered": sum(not c.entered[alpha] for c in lost_by_reset),
        },
        "reset_outcomes": {
            "success": len(cases) - len(failed),
            "never_entered": never,
            "entered_and_failed": len(failed) - never,
        },
    }


def _effect(case: CameraCase, alpha: float) -> int:
    return int(case.mid[alpha]) - int(case.reset[alpha])


def _rate(outcomes: Sequence[bool]) -> dict[str, Any]:
    successes = sum(outcomes)
    bounds = wilson(successes, len(outcomes))
    return {
        "successes": successes,
        "rate": ratio(successes, len(outcomes)),
        "wilson95": None if bounds is None else list(bounds),
    }


def _difference(cases: Sequence[CameraCase], of: Callable[[CameraCase], int]) -> dict[str, Any]:
    values = [of(c) for c in cases]
    sources = [c.source for c in cases]
    by_source: dict[str, list[int]] = {}
    for source, value in zip(sources, values, strict=True):
        by_source.setdefault(source, []).append(value)
    tasks = [c.task for c in cases]

    def interval(bounds: tuple[float, float] | None) -> list[float] | None:
        return None if bounds is None else list(bounds)

    return {
        "mean": ratio(sum(values), len(values)),
        "ci95": interval(exact_interval(by_source.values())),
        "ci95_tasks": interval(task_bootstrap(values, sources, tasks)),
        "ci95_groups": interval(group_bootstrap(values, sources, [c.group for c in cases])),
        "ci95_source_tasks": interval(group_bootstrap(values, sources, tasks)),
        "by_source": {source: ratio(sum(part), len(part)) for source, part in sorted(by_source.items())},
    }
