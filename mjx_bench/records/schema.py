"""What one line of `records.jsonl` says.

The schema has a number; a reader refuses lines of another one rather than guess. Old files are kept as test fixtures.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import Any

from mjx_bench.fields import Reader, is_int, is_number, thaw
from mjx_bench.types import Arm, Verdict

SCHEMA = 2

# Event names (`change_type`) in the order in which tables list them: section 1.5 of the LIBERO-MAX format.
EVENT_ORDER = (
    "illumination_switch",
    "camera_shift",
    "visual_theme_switch",
    "sensor_noise_onset",
    "target_relocation",
    "receptacle_relocation",
    "distractor_burst",
    "obstacle_insertion",
)
# Events of a benchmark's own, which its tasks make themselves (`Task.extra["own_events"]`); tables list them after those.
OWN_EVENTS = ("target_carried", "illumination_alternation")
# These change what cameras see and nothing else: a policy that reads the simulator's state cannot notice them.
VISUAL_EVENTS = (*EVENT_ORDER[:4], "illumination_alternation")


def event_rank(event: str) -> tuple[int, str]:
    """Sort key that puts events in `EVENT_ORDER`, then `OWN_EVENTS`, other names after them."""
    order = (*EVENT_ORDER, *OWN_EVENTS)
    return (order.index(event) if event in order else len(order), event)


@dataclasses.dataclass(frozen=True)
class ArrayRef:
    """Where an array lies in `arrays.bin`.

    Attributes:
      offset: first byte.
      shape: dimensions, C order.
      dtype: NumPy type string with byte order, e.g. "<f4".
      sha256: hex digest of the raw bytes.
    """

    offset: int
    shape: tuple[int, ...]
    dtype: str
    sha256: str

    @property
    def nbytes(self) -> int:
        size = int(self.dtype[2:])
        for n in self.shape:
            size *= n
        return size

    @classmethod
    def read(cls, r: Reader) -> ArrayRef:
        def shape(v: Any) -> bool:
            return isinstance(v, (list, tuple)) and all(is_int(n) and n >= 0 for n in v)

        def dtype(v: Any) -> bool:
            return (
                isinstance(v, str) and v[:1] in ("<", ">", "|") and v[1:2] in ("b", "i", "u", "f") and v[2:].isdigit()
            )

        ref = cls(
            offset=r.integer("offset"),
            shape=tuple(r.get("shape", shape, "a list of integers >= 0")),
            dtype=r.get("dtype", dtype, 'a type string such as "<f4"'),
            sha256=r.text("sha256"),
        )
        r.finish()
        return ref

    def to_json(self) -> dict[str, Any]:
        return {"offset": self.offset, "shape": list(self.shape), "dtype": self.dtype, "sha256": self.sha256}


def optional(ok: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda v: v is None or ok(v)


def _text(v: Any) -> bool:
    return isinstance(v, str) and v != ""


def _count(v: Any) -> bool:
    return is_int(v) and v >= 0


_TEXT = (_text, "a non-empty string")
_COUNT = (_count, "an integer >= 0")
TEXT_OR_NULL = (optional(_text), "null or a non-empty string")
_COUNT_OR_NULL = (optional(_count), "null or an integer >= 0")

# Every field of a line but schema, arrays, event and timing, which have structure of their own.
_SCALARS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "case_id": _TEXT,
    "arm": (lambda v: v in list(Arm), f"one of {', '.join(Arm)}"),
    "verdict": (lambda v: v in list(Verdict), f"one of {', '.join(Verdict)}"),
    "reason": (lambda v: isinstance(v, str), "a string"),
    "success": (optional(lambda v: isinstance(v, bool)), "true, false or null"),
    "end_step": _COUNT,
    "success_step": _COUNT_OR_NULL,
    "success_end": (optional(lambda v: isinstance(v, bool)), "true, false or null"),
    "trigger_step": _COUNT_OR_NULL,
    "trigger_distance_m": (optional(is_number), "null or a finite number"),
    "first_response_step": _COUNT_OR_NULL,
    "common_response_step": _COUNT_OR_NULL,
    "stale_actions": _COUNT_OR_NULL,
    "n_queries": _COUNT,
    "base_key": _TEXT,
    "suite": _TEXT,
    "task_index": _COUNT,
    "task_name": _TEXT,
    "init_state_index": _COUNT,
    "policy_seed": _COUNT,
    "change_type": _TEXT,
    "change_family": _TEXT,
    "severity": _TEXT,
    "draw": _COUNT_OR_NULL,
    "fork_sha256": TEXT_OR_NULL,
    "init_sha256": TEXT_OR_NULL,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Record:
    """One arm of one case. Steps are policy steps: control steps counted after settling.

    Attributes:
      case_id: the manifest's.
      arm: base or dynamic.
      verdict: how the arm ended.
      reason: one line for people: which fault made it void, which predicate failed; may be empty.
      success: whether the goal was reached; null where there is no evidence (void, abstain).
      end_step: policy steps executed.
      success_step: step after which the goal first held, or null.
      success_end: whether the goal held after the last step; null for void. `success` is success at any step. They can
        differ only where the run goes on after success (`settings.run_on`).
      trigger_step: steps executed when the trigger first held, the causing one included; in both arms; null if never.
      trigger_distance_m: end effector to trigger entity at that step, metres; null without a distance.
      first_response_step: first query of this arm at or after `trigger_step`; null if there was none.
      common_response_step: the same, counting only steps at which both arms queried (the reference's definition).
      stale_actions: actions executed after the event, chosen before it: `first_response_step - trigger_step`, and as many
        more as the policy's delay has (`settings.delay`) and the episode lasts; null without a response.
      n_queries: policy calls, replayed ones included.
      base_key: equal for cases that share one Base run.
      suite, task_index, task_name, init_state_index, policy_seed: what was run.
      change_type, change_family, severity, draw: the event's labels; draw is null where none was recorded.
      event: what was applied, before and after values; null in the base arm and where the event never fired.
      fork_sha256: hex digest of the full physics state at the trigger; null where it never held.
      init_sha256: hex digest of the restored initial state; null where none was restored.
      progress: in [0, 1] at the end of the episode, by the task's rules; null for a task without, and then not in the line.
      arrays: name to place in `arrays.bin`. `actions` f4 [T, A], `chunks` f4 [nq, H, A], `query_steps` i4 [nq],
        `eef_pos` and `target_pos` f8 [T, 3] world metres after each policy step, and `signals.<field>` [T, ...], what the
        goal was judged by after each (columns: `judged.Judged.index` of the task in `tasks.json`). Where the run had them:
        `cancel_steps` i4 [n], after which waiting actions were dropped, and `repaired` bool [nq, C], whether the gate of
        the restoration opened, by camera.
      timing: name to seconds: `wall_s`; `query_mean_s` and `query_max_s`, from asking the policy to its answer; `repair_s`,
        of the pictures. The only field in which two runs of one case may differ (with array offsets).
      schema: version of this layout.
    """

    case_id: str
    arm: str
    verdict: str
    reason: str
    success: bool | None
    end_step: int
    success_step: int | None
    success_end: bool | None
    trigger_step: int | None
    trigger_distance_m: float | None
    first_response_step: int | None
    common_response_step: int | None
    stale_actions: int | None
    n_queries: int
    base_key: str
    suite: str
    task_index: int
    task_name: str
    init_state_index: int
    policy_seed: int
    change_type: str
    change_family: str
    severity: str
    draw: int | None
    event: Mapping[str, Any] | None
    fork_sha256: str | None
    init_sha256: str | None
    progress: float | None = None
    arrays: Mapping[str, ArrayRef] = dataclasses.field(default_factory=dict)
    timing: Mapping[str, float] = dataclasses.field(default_factory=dict)
    schema: int = SCHEMA

    @property
    def key(self) -> tuple[str, str]:
        """(case_id, arm), unique in a results folder."""
        return self.case_id, str(self.arm)

    @classmethod
    def from_json(cls, data: Any, where: str = "record") -> Record:
        """Reads one parsed line.

        Args:
          data: the parsed line.
          where: file and line number, for messages.

        Raises:
          BenchError: another schema, an unknown or missing field, a wrong type, or fields that contradict each other.
        """
        r = Reader(data, where)
        check_schema(r)
        values = {name: r.get(name, ok, expected) for name, (ok, expected) in _SCALARS.items()}
        progress = r.number("progress", low=0.0, high=1.0, default=None)
        event = r.get("event", optional(lambda v: isinstance(v, Mapping)), "null or an object")
        timing = r.object("timing")
        refs = r.object("arrays")
        seconds = {name: timing.number(name) for name in data["timing"]}
        arrays = {name: ArrayRef.read(refs.object(name)) for name in data["arrays"]}
        if values["success"] is not _success_of(values["verdict"]):
            r.fail("success", f"{_success_of(values['verdict'])} with verdict {values['verdict']!r}")
        if values["arm"] == Arm.BASE and event is not None:
            r.fail("event", "null in the base arm")
        r.finish()
        return cls(**values, progress=progress, event=event, arrays=arrays, timing=seconds)

    def to_json(self) -> dict[str, Any]:
        """The line as plain JSON data, in the order of the fields above, schema first."""
        out = {"schema": self.schema} | {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        out["arm"], out["verdict"] = str(self.arm), str(self.verdict)
        out["event"] = thaw(self.event)
        if self.progress is None:
            del out["progress"]
        out["arrays"] = {name: ref.to_json() for name, ref in self.arrays.items()}
        out["timing"] = dict(self.timing)
        return out

    def line(self) -> str:
        """The line as it stands in the file.

        Raises:
          TypeError, ValueError: a value that JSON does not have.
        """
        return json.dumps(self.to_json(), allow_nan=False, separators=(",", ":")) + "\n"

    def result(self) -> dict[str, Any]:
        """The line without what may differ between two equal runs: timings, and where in the file the arrays lie."""
        out = self.to_json()
        del out["timing"]
        for ref in out["arrays"].values():
            del ref["offset"]
        return out


def _success_of(verdict: str) -> bool | None:
    return None if verdict in (Verdict.VOID, Verdict.ABSTAIN) else verdict == Verdict.SUCCESS


def check_schema(r: Reader) -> None:
    """Refuses a line or header of another schema before its fields are looked at."""
    found = r.integer("schema", low=1)
    if found != SCHEMA:
        r.fail("schema", f"{SCHEMA}, the layout that this version reads; use the version of mjx-bench that wrote it")
