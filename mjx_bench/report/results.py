"""Results of one policy as a comparison needs them, wherever they come from."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from mjx_bench.records import Record, Run
from mjx_bench.report.evaluation import task_of
from mjx_bench.report.pairs import Labels, Scored, labels_of, pairs_of, source_notes
from mjx_bench.report.summary import folder_notes, visual_notes
from mjx_bench.types import Arm

# Parts of a case that say what is run; two cases that share an id must share these.
_WHAT = ("task_suite_name", "task_index", "init_state_index", "policy_seed", "substrate_category", "substrate_variant")
_EVENT = ("scenario_id", "seed", "trigger", "change", "setup")


@dataclasses.dataclass(frozen=True)
class CaseResult:
    """One case.

    Attributes:
      labels: what tables group it by.
      what: dotted name to value of what was run, as far as the source says.
      scored: outcome of both arms; None where it has none, or where there is one arm.
      task: suite and name of an evaluation's task.
      single: the record of an evaluation's only arm; None where it has no outcome, and in pairs.
      void: whether an arm was run and is void.
      missing: whether an arm was not run.
    """

    labels: Labels
    what: Mapping[str, Any]
    scored: Scored | None = None
    task: str | None = None
    single: Record | None = None
    void: bool = False
    missing: bool = False

    @property
    def successes(self) -> tuple[bool, ...] | None:
        """Success by arm; None without an outcome."""
        if self.single is not None:
            return (bool(self.single.success),)
        return None if self.scored is None else self.scored.outcome


@dataclasses.dataclass(frozen=True)
class Results:
    """A policy's cases.

    Attributes:
      path: where they were read from.
      policy: its name; None where the source does not say.
      horizon, query_interval: H and Q; None where the source does not say.
      delay: control steps from an observation to the first action chosen from it.
      arms: Base alone in an evaluation.
      cases: case id to result, in the source's order.
      benchmark: id and version of the manifest; None where the source does not say.
      settings: of the run, what else could make a difference.
      unknown: steps of `Scored` that the source does not record.
      notes: what to know about the source.
    """

    path: str
    policy: str | None
    horizon: int | None
    query_interval: int | None
    delay: int
    arms: tuple[Arm, ...]
    cases: Mapping[str, CaseResult]
    benchmark: str | None
    settings: Mapping[str, Any]
    unknown: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


def results_of(run: Run, missing_fails: bool = False) -> Results:
    """The results in a folder; `missing_fails` as in `summarise`."""
    settings, header = run.header.settings, run.header
    own = ("policy", "horizon", "query_interval", "delay", "left_out", "sees_pictures", "cameras", "image_size")
    packages = {f"package {name}": version for name, version in header.packages.items()}
    identity = [str(run.manifest[key]) for key in ("benchmark_id", "benchmark_version") if key in run.manifest]
    return Results(
        path=str(run.directory),
        policy=settings.get("policy"),
        horizon=settings.get("horizon"),
        query_interval=settings.get("query_interval"),
        delay=settings.get("delay", 0),
        arms=run.arms,
        cases=_pairs(run, missing_fails) if len(run.arms) > 1 else _singles(run),
        benchmark=" ".join(identity) or None,
        settings={name: value for name, value in settings.items() if name not in own}
        | {"mjx_bench_version": header.mjx_bench_version, **packages},
        notes=(
            *folder_notes(run),
            *source_notes([labels_of(case, None) for case in run.manifest["cases"]]),
            *(visual_notes(pairs_of(run), settings) if len(run.arms) > 1 else ()),
            *(f"{count} case(s) left out: {why}" for why, count in settings.get("left_out", {}).items()),
        ),
    )


def _pairs(run: Run, missing_fails: bool) -> dict[str, CaseResult]:
    return {
        pair.case_id: CaseResult(
            pair.labels,
            _what(case),
            scored=pair.terminal if missing_fails else pair.scored,
            void=pair.void,
            missing=not pair.complete,
        )
        for pair, case in zip(pairs_of(run), run.manifest["cases"], strict=True)
    }


def _singles(run: Run) -> dict[str, CaseResult]:
    done, out = run.done, {}
    for case in run.manifest["cases"]:
        record = done.get((case["case_id"], Arm.BASE))
        void = record is not None and record.success is None
        labels = labels_of(case, record)
        single = None if void else record
        out[case["case_id"]] = CaseResult(
            labels, _what(case), task=task_of(case), single=single, void=void, missing=record is None
        )
    return out


def _what(case: Mapping[str, Any]) -> dict[str, Any]:
    scenario = case.get("scenario") or {}
    return {key: case[key] for key in _WHAT if key in case} | {key: scenario[key] for key in _EVENT if key in scenario}
