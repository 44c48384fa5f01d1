"""Pairs of arms, as reports count them, and the labels that tables group them by."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from mjx_bench.records import Record, Run
from mjx_bench.types import Arm


@dataclasses.dataclass(frozen=True)
class Labels:
    """What a case is, as far as tables group by it; None where it is not recorded.

    Attributes:
      event: the change type.
      suite: of tasks.
      category: of the source that varied the task; None for a task as LIBERO has it.
      difficulty: 1 to 5, of LIBERO-Plus.
      severity, draw: of the event.
      regenerated: whether the varied task was made again from its rule, because its files are not public.
    """

    event: str
    suite: str | None = None
    category: str | None = None
    difficulty: int | None = None
    severity: str | None = None
    draw: int | None = None
    regenerated: bool = False

    @property
    def source(self) -> str:
        """Whose variation of the task it is: LIBERO-Plus, LIBERO-PRO, either of them regenerated, or plain."""
        if self.category is None:
            return "plain"
        source = "LIBERO-PRO" if self.category.startswith("LIBERO-PRO/") else "LIBERO-Plus"
        return source + (" (regenerated)" if self.regenerated else "")


# Categories of LIBERO-PRO whose files are not public: whoever's manifest it is, what ran was regenerated.
NEVER_HELD = (
    "visual_noise_glare",
    "camera_view_angle",
    "object_texture",
    "view_occlusion",
    "object_shape",
    "initial_pose_position_angle",
)

# Fields of `Labels` that breakdowns are made by, besides the event.
DIMENSIONS = ("suite", "source", "category", "difficulty", "severity", "draw")


@dataclasses.dataclass(frozen=True)
class Scored:
    """What statistics need of a pair whose arms both have an outcome.

    Attributes:
      outcome: (Base, Dynamic) success at any step.
      end: the same at the last step; None where that was not recorded.
      trigger_step, first_response_step, common_response_step, stale_actions: of the Dynamic arm; see `records.Record`.
      progress: (Base, Dynamic) progress at the end, in [0, 1]; None for a task without.
    """

    outcome: tuple[bool, bool]
    end: tuple[bool, bool] | None
    trigger_step: int | None
    first_response_step: int | None
    common_response_step: int | None
    stale_actions: int | None
    progress: tuple[float, float] | None = None


@dataclasses.dataclass(frozen=True)
class Pair:
    """Both arms of one case, as far as they were recorded."""

    case_id: str
    labels: Labels
    base: Record | None
    dynamic: Record | None

    @property
    def event(self) -> str:
        return self.labels.event

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
        return self.terminal if self.complete and not self.void else None

    @property
    def terminal(self) -> Scored:
        """As `scored`, but an arm that is missing or void is a failure: the rule of the Lite score, protocol 5.2."""
        b, d = self.base, self.dynamic
        progress = (None if b is None else b.progress, None if d is None else d.progress)
        return Scored(
            (bool(b and b.success), bool(d and d.success)),
            (bool(b and b.success_end), bool(d and d.success_end)),
            None if d is None else d.trigger_step,
            None if d is None else d.first_response_step,
            None if d is None else d.common_response_step,
            None if d is None else d.stale_actions,
            None if progress[0] is None or progress[1] is None else (progress[0], progress[1]),
        )


def pairs_of(run: Run) -> list[Pair]:
    """The cases of a run in the manifest's order, in whatever order they were run; an evaluation's have no Dynamic arm."""
    done = run.done
    out = []
    for case in run.manifest["cases"]:
        name = case["case_id"]
        base, dynamic = done.get((name, Arm.BASE)), done.get((name, Arm.DYNAMIC))
        out.append(Pair(name, labels_of(case, dynamic or base), base, dynamic))
    return out


def labels_of(case: Mapping[str, Any], record: Record | None) -> Labels:
    """Labels of a case of a manifest; what its record says of them comes first."""
    scenario = case.get("scenario") or {}
    event = scenario.get("change_type") or scenario["change"]["operation"] if scenario else "none"
    return Labels(
        event=event,
        suite=record.suite if record else case.get("task_suite_name"),
        category=case.get("substrate_category"),
        difficulty=case.get("substrate_difficulty"),
        severity=record.severity if record else scenario.get("severity"),
        draw=record.draw if record else (scenario.get("randomization") or {}).get("draw_id"),
        regenerated=_regenerated(case.get("substrate_variant")),
    )


def _regenerated(variant: Mapping[str, Any] | None) -> bool:
    return variant is not None and (variant["benchmark"].endswith("(regenerated)") or variant["category"] in NEVER_HELD)


def source_notes(labels: Sequence[Labels]) -> list[str]:
    """That cases start from regenerated sources, where some do."""
    if not (count := sum(own.regenerated for own in labels)):
        return []
    return [
        f"{count} of {len(labels)} cases start from sources that were regenerated from their rules: they compare policies"
        " with each other, not with published numbers"
    ]
