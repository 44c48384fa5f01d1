"""Result lines of the reference implementation: `paired_results.jsonl`, one pair a line.

Section 1.4 of the LIBERO-MAX format.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from mjx_bench.changes import EVENT_OPERATION
from mjx_bench.errors import BenchError
from mjx_bench.fields import Reader, is_int, is_number, parse_json
from mjx_bench.manifest import TIMING_BUCKETS
from mjx_bench.records.reader import read_bytes
from mjx_bench.scenario import FAMILIES, RESPONSES, SEVERITIES

_EXECUTION = ("scenario_id", "seed", "task_suite_name", "task_index", "init_state_index", "policy_seed")


@dataclasses.dataclass(frozen=True)
class ReferencePair:
    """One line, as far as reports use it.

    Attributes:
      pair_id: the case's id.
      change_type: the event, or its family where the line names no event.
      execution: scenario_id, seed, task_suite_name, task_index, init_state_index and policy_seed, as far as the line
      has them.
      suite, category, difficulty, severity, draw: what the case is; None if the line does not say.
      base, dynamic: success of the control and of the intervention arm.
      event_step: policy steps executed when the event fired; None if the line does not say.
      response_step: first later query at a step where both arms queried; None if the line does not say.
      exposure: actions executed after the event that were chosen before it; None if the line does not say.
    """

    pair_id: str
    change_type: str
    execution: Mapping[str, Any]
    suite: str | None
    category: str | None
    difficulty: int | None
    severity: str | None
    draw: int | None
    base: bool
    dynamic: bool
    event_step: int | None
    response_step: int | None
    exposure: int | None


def read_reference(path: str | os.PathLike[str]) -> list[ReferencePair]:
    """Reads every line, in order; a blank line counts as none.

    Raises:
      BenchError: a file that cannot be read or holds no line, a missing, unknown or mistyped field, or a pair or
      execution
        that is there twice; the line is named.
    """
    file = pathlib.Path(path)
    pairs: list[ReferencePair] = []
    seen: dict[tuple[Any, ...], int] = {}
    for number, line in enumerate(read_bytes(file).decode("utf-8", "replace").splitlines(), 1):
        if not line.strip():
            continue
        where = f"{file} line {number}"
        data = parse_json(line, where)
        pair = _read(Reader(data, where))
        execution = tuple(pair.execution.get(k) for k in _EXECUTION)
        for what, key in (("pair_id", (pair.pair_id,)), ("execution (scenario, seed, task, state)", execution)):
            if (first := seen.setdefault(key, number)) != number:
                raise BenchError(f"{where}: {what} repeats line {first}; remove one")
        pairs.append(pair)
    if not pairs:
        raise BenchError(f"{file}: no result in it")
    return pairs


def _read(r: Reader) -> ReferencePair:
    def difficulty(v: Any) -> bool:
        return v is None or (is_int(v) and 1 <= v <= 5)

    def count_or_null(v: Any) -> bool:
        return v is None or (is_int(v) and v >= 0)

    family = r.choice("change_family", FAMILIES)
    execution = {
        "scenario_id": r.text("scenario_id"),
        "seed": r.integer("seed"),
        "task_suite_name": r.text("task_suite_name", default=None),
        **{key: r.integer(key, default=None) for key in ("task_index", "init_state_index", "policy_seed")},
    }
    pair = ReferencePair(
        pair_id=r.text("pair_id"),
        change_type=r.choice("change_type", tuple(EVENT_OPERATION), default=family),
        execution={key: value for key, value in execution.items() if value is not None},
        suite=execution["task_suite_name"],
        category=r.text("substrate_category", default=None),
        difficulty=r.get("substrate_difficulty", difficulty, "null or an integer 1..5", default=None),
        severity=r.choice("severity", SEVERITIES, default=None),
        draw=r.integer("intervention_draw_id", default=None),
        base=r.flag("control_correct"),
        dynamic=r.flag("intervention_correct"),
        event_step=r.integer("intervention_event_step", default=None),
        response_step=r.integer("policy_response_query_step", default=None),
        exposure=r.integer("open_loop_exposure_steps", default=None),
    )
    # No report uses the rest; the file is still held to its format.
    r.choice("expected_response_mode", RESPONSES)
    for key in ("adaptation_latency_steps", "safety_violations"):
        r.get(key, count_or_null, "null or an integer >= 0")
    r.integer("intervention_seed", default=None)
    for key in ("dynamic_phase", "scoring_mode"):
        r.text(key, default=None)
    r.choice("timing_bucket", TIMING_BUCKETS, default=None)
    for key in ("mean_absolute_raw_pixel_delta", "post_event_action_chunk_mad"):
        r.get(key, lambda v: v is None or (is_number(v) and v >= 0), "null or a number >= 0", default=None)
    r.finish()
    return pair
