"""Result lines of the reference implementation: `paired_results.jsonl`, one pair a line.

Section 1.4 of the LIBERO-MAX format.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
from typing import Any

from mjx_bench.changes import EVENT_OPERATION
from mjx_bench.errors import BenchError
from mjx_bench.fields import Reader, is_int, is_number, parse_json
from mjx_bench.manifest import TIMING_BUCKETS
from mjx_bench.records.reader import read_bytes
from mjx_bench.scenario import FAMILIES, RESPONSES, SEVERITIES


@dataclasses.dataclass(frozen=True)
class ReferencePair:
    """One line, as far as reports use it.

    Attributes:
      pair_id: the case's id.
      change_type: the event, or its family where the line names no event.
      base, dynamic: success of the control and of the intervention arm.
      event_step: policy steps executed when the event fired; None if the line does not say.
      response_step: first later query at a step where both arms queried; None if the line does not say.
      exposure: actions executed after the event that were chosen before it; None if the line does not say.
    """

    pair_id: str
    change_type: str
    base: bool
    dynamic: bool
    event_step: int | None
    response_step: int | None
    exposure: int | None


def read_reference(path: str | os.PathLike[str]) -> list[ReferencePair]:
    """Reads every line, in order; a blank line counts as none.

    Raises:
      BenchError: a file that cannot be read or holds no line, a missing, unknown or mistyped field, or a pair or execution
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
        execution = tuple(data.get(k) for k in ("scenario_id", "seed", "task_suite_name", "task_index"))
        execution += tuple(data.get(k) for k in ("init_state_index", "policy_seed"))
        for what, key in (("pair_id", (pair.pair_id,)), ("execution (scenario, seed, task, state)", execution)):
            if (first := seen.setdefault(key, number)) != number:
                raise BenchError(f"{where}: {what} repeats line {first}; remove one")
        pairs.append(pair)
    if not pairs:
        raise BenchError(f"{file}: no result in it")
    return pairs


def _read(r: Reader) -> ReferencePair:
    family = r.choice("change_family", FAMILIES)
    pair = ReferencePair(
        pair_id=r.text("pair_id"),
        change_type=r.choice("change_type", tuple(EVENT_OPERATION), default=family),
        base=r.flag("control_correct"),
        dynamic=r.flag("intervention_correct"),
        event_step=r.integer("intervention_event_step", default=None),
        response_step=r.integer("policy_response_query_step", default=None),
        exposure=r.integer("open_loop_exposure_steps", default=None),
    )
    _check_the_rest(r)
    r.finish()
    return pair


def _check_the_rest(r: Reader) -> None:
    """Fields that no report uses; the file is still held to its format."""

    def count_or_null(v: Any) -> bool:
        return v is None or (is_int(v) and v >= 0)

    def difficulty(v: Any) -> bool:
        return v is None or (is_int(v) and 1 <= v <= 5)

    r.text("scenario_id")
    r.integer("seed")
    r.choice("expected_response_mode", RESPONSES)
    for key in ("adaptation_latency_steps", "safety_violations"):
        r.get(key, count_or_null, "null or an integer >= 0")
    for key in ("intervention_draw_id", "intervention_seed", "task_index", "init_state_index", "policy_seed"):
        r.integer(key, default=None)
    for key in ("task_suite_name", "substrate_category", "dynamic_phase", "scoring_mode"):
        r.text(key, default=None)
    r.choice("severity", SEVERITIES, default=None)
    r.choice("timing_bucket", TIMING_BUCKETS, default=None)
    r.get("substrate_difficulty", difficulty, "null or an integer 1..5", default=None)
    for key in ("mean_absolute_raw_pixel_delta", "post_event_action_chunk_mad"):
        r.get(key, lambda v: v is None or (is_number(v) and v >= 0), "null or a number >= 0", default=None)
