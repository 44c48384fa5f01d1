"""The manifest format as frozen dataclasses: a protocol and a list of cases, every rule checked when they are read.

A case is one task, one initial state, one policy seed and one scenario. Fields and rules: sections 1.1 and 1.2 of the
LIBERO-MAX format. Files, hashes and selection are in `cases.py`.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

from mjx_bench.changes import INSTRUCTION_OPERATIONS, OPERATIONS, Change
from mjx_bench.errors import BenchError
from mjx_bench.fields import FrozenMap, Reader, is_int, short
from mjx_bench.scenario import Scenario, Trigger, present

# The suite of a task file of the user's own, which only the command line can name.
OWN_SUITE = "bddl"
# The format's own, then our extensions of it.
SUITES = (
    *("libero_spatial", "libero_object", "libero_goal", "libero_10", "libero_90"),
    *("tabletop", "robotworld", "roboquest", "robot_agent_bench", OWN_SUITE),
)
# Where varied tasks come from: the format's own, then sources that are regenerated from their rules (an extension of ours).
VARIED = ("LIBERO-PRO", "LIBERO-PRO (regenerated)", "LIBERO-Plus (regenerated)")
TIMING_BUCKETS = ("early", "middle", "late")
ARMS = ("control", "intervention")
# Of an evaluation: each case is run as it is, and nothing else (an extension of ours).
CONTROL_ONLY = ("control",)

# What each scoring track may contain.
_TRACKS: dict[str, dict[str, tuple[str, ...]]] = {
    "physical_completion": {
        "change_family": ("OBS", "GEO", "CLUTTER", "OBSTACLE", "OBS-NEW"),
        "expected_response_mode": ("continue", "replan"),
        "trigger.type": ("fixed_step", "on_proximity", "before_grasp", "after_grasp", "before_place"),
        "change.operation": tuple(op for op in OPERATIONS if op not in INSTRUCTION_OPERATIONS),
    },
    "intent_response": {
        "change_family": ("INTENT",),
        "expected_response_mode": ("follow_update", "stop"),
        "trigger.type": ("on_proximity",),
        "change.operation": INSTRUCTION_OPERATIONS,
    },
}


class Absent(enum.Enum):
    """Marks a key that the file does not have, where null is a value of its own."""

    ABSENT = "absent"


@dataclasses.dataclass(frozen=True)
class Case:
    """One thing to run, in two arms; in one, where nothing is to happen.

    Attributes:
      task_index: index in the suite; of the expanded suite for LIBERO-Plus.
      init_state_index: row of the task's initial states.
      policy_seed: seeds the source's reset (fixture poses) and the policy.
      scenario: what happens in the Dynamic arm; None in an evaluation, whose cases have a Base arm only.
      substrate_variant: where a varied task comes from; LIBERO-PRO's, and every regenerated one.
    """

    case_id: str
    task_suite_name: str
    task_index: int
    init_state_index: int
    policy_seed: int
    timing_bucket: str
    scenario: Scenario | None
    task_name: str | None = None
    substrate_category: str | None = None
    substrate_difficulty: int | Absent | None = Absent.ABSENT
    substrate_variant: FrozenMap | None = None
    dynamic_phase: str | None = None

    @classmethod
    def read(cls, r: Reader, *, needs_scenario: bool = True) -> Case:
        def difficulty(v: Any) -> bool:
            return v is None or (is_int(v) and 1 <= v <= 5)

        case = cls(
            case_id=r.text("case_id"),
            task_suite_name=r.choice("task_suite_name", SUITES),
            task_index=r.integer("task_index"),
            init_state_index=r.integer("init_state_index"),
            policy_seed=r.integer("policy_seed"),
            timing_bucket=r.choice("timing_bucket", TIMING_BUCKETS),
            scenario=Scenario.read(r.object("scenario")) if needs_scenario or r.has("scenario") else None,
            task_name=r.text("task_name", default=None),
            substrate_category=r.text("substrate_category", default=None),
            substrate_difficulty=r.get("substrate_difficulty", difficulty, "null or an integer 1..5", Absent.ABSENT),
            substrate_variant=_read_variant(r.object("substrate_variant")) if r.has("substrate_variant") else None,
            dynamic_phase=r.text("dynamic_phase", default=None),
        )
        r.finish()
        return case

    def to_json(self) -> dict[str, Any]:
        out = present(**vars(self))
        if self.scenario is not None:
            out["scenario"] = self.scenario.to_json()
        if self.substrate_difficulty is Absent.ABSENT:
            del out["substrate_difficulty"]
        else:
            out["substrate_difficulty"] = self.substrate_difficulty
        return out

    @property
    def execution_key(self) -> tuple[Any, ...]:
        """Two cases with equal keys would be the same run twice."""
        s = self.scenario
        event = (None, None) if s is None else (s.scenario_id, s.seed)
        return (*event, self.task_suite_name, self.task_index, self.init_state_index, self.policy_seed)

    @property
    def event(self) -> str:
        """The name that tables use; "none" for a case without a scenario."""
        return "none" if self.scenario is None else self.scenario.event

    @property
    def setup(self) -> tuple[Change, ...]:
        """What both arms start with."""
        return () if self.scenario is None else self.scenario.setup or ()

    @property
    def trigger(self) -> Trigger | None:
        return None if self.scenario is None else self.scenario.trigger


def _read_variant(r: Reader) -> FrozenMap:
    r.choice("benchmark", VARIED)
    for key in ("category", "language", "source_revision"):
        r.text(key)
    for key, suffix in (
        ("bddl_file", ".bddl"),
        ("init_reference_bddl_file", ".bddl"),
        ("init_states_file", ".pruned_init"),
    ):

        def relative(v: Any, suffix: str = suffix) -> bool:
            # It is joined to a folder later and must not lead out of it. An absolute path starts with an empty part.
            return isinstance(v, str) and v.endswith(suffix) and not {"", ".", ".."} & set(v.split("/"))

        r.get(key, relative, f"a relative path without empty, '.' or '..' parts that ends in {suffix}")
    return r.finish()


def _arms(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and tuple(value) in (ARMS, CONTROL_ONLY)


@dataclasses.dataclass(frozen=True)
class Protocol:
    """How the cases are meant to be run; a run may override `query_interval` (see `with_query_interval`)."""

    query_interval: int
    scoring_track: str = "physical_completion"
    arms: tuple[str, ...] = ARMS
    substrate: str | None = None
    profile: str | None = None
    source_benchmark_commit: str | None = None
    selection_contract: str | None = None

    @classmethod
    def read(cls, r: Reader) -> Protocol:
        protocol = cls(
            arms=tuple(r.get("arms", _arms, f"exactly {list(ARMS)}, or {list(CONTROL_ONLY)} for an evaluation")),
            query_interval=r.integer("query_interval", low=1),
            scoring_track=r.choice("scoring_track", tuple(_TRACKS)),
            substrate=r.text("substrate", default=None),
            profile=r.text("profile", default=None),
            source_benchmark_commit=r.text("source_benchmark_commit", default=None),
            selection_contract=r.text("selection_contract", default=None),
        )
        r.finish()
        return protocol

    def to_json(self) -> dict[str, Any]:
        return present(**vars(self))


@dataclasses.dataclass(frozen=True)
class Manifest:
    """Cases to run and the protocol they are meant for; consistent by construction through `read`.

    Attributes:
      source: the file it came from, for messages; no part of the manifest's identity.
    """

    benchmark_id: str
    benchmark_version: str
    protocol: Protocol
    cases: tuple[Case, ...]
    source: str = dataclasses.field(default="manifest", compare=False)

    @classmethod
    def read(cls, data: Any, source: str = "manifest") -> Manifest:
        """Parses and checks a whole manifest.

        Args:
          data: what `json.loads` returned.
          source: file name for messages.

        Raises:
          BenchError: one line that names the file, the case, the field, its value and what is expected.
        """
        r = Reader(data, source)
        protocol = Protocol.read(r.object("protocol"))
        cases = []
        for i, item in enumerate(r.items("cases", at_least=1)):
            name = item.get("case_id") if isinstance(item, dict) else None
            where = f"{source}: case {name!r}" if isinstance(name, str) and name else f"{source}: cases[{i}]"
            cases.append(Case.read(Reader(item, where), needs_scenario=protocol.arms == ARMS))
        manifest = cls(r.text("benchmark_id"), r.text("benchmark_version"), protocol, tuple(cases), source)
        r.finish()
        _check_duplicates(manifest)
        _check_track(manifest)
        return manifest

    def to_json(self) -> dict[str, Any]:
        return {
            "benchmark_id": self.benchmark_id,
            "benchmark_version": self.benchmark_version,
            "protocol": self.protocol.to_json(),
            "cases": [case.to_json() for case in self.cases],
        }

    def with_query_interval(self, query_interval: int) -> Manifest:
        """The same cases for a run that executes `query_interval` actions between queries.

        Raises:
          BenchError: a fixed_step trigger that is not a multiple of it.
        """
        protocol = dataclasses.replace(self.protocol, query_interval=query_interval)
        manifest = dataclasses.replace(self, protocol=protocol)
        _check_track(manifest)
        return manifest


def _check_duplicates(manifest: Manifest) -> None:
    ids: dict[str, int] = {}
    runs: dict[tuple[Any, ...], str] = {}
    scenarios: dict[tuple[str, int], Case] = {}
    for i, case in enumerate(manifest.cases):
        where = f"{manifest.source}: case {case.case_id!r}"
        if case.case_id in ids:
            raise BenchError(f"{where}: duplicate case_id, at cases[{ids[case.case_id]}] and cases[{i}]; rename one")
        ids[case.case_id] = i
        first = runs.setdefault(case.execution_key, case.case_id)
        if first != case.case_id:
            raise BenchError(
                f"{where}: same (scenario_id, seed, suite, task_index, init_state_index, policy_seed) as case "
                f"{first!r}: {short(case.execution_key, 160)}; remove one"
            )
        s = case.scenario
        if s is None:
            continue
        other = scenarios.setdefault((s.scenario_id, s.seed), case)
        if other.scenario != s:
            raise BenchError(
                f"{where}: scenario_id = {s.scenario_id!r} with seed {s.seed} has other "
                f"contents in case {other.case_id!r}; rename one"
            )


def _check_track(manifest: Manifest) -> None:
    track, interval = manifest.protocol.scoring_track, manifest.protocol.query_interval
    for case in manifest.cases:
        where = f"{manifest.source}: case {case.case_id!r}"
        s = case.scenario
        if s is None:
            continue
        found = {
            "change_family": s.change_family,
            "expected_response_mode": s.expected_response_mode,
            "trigger.type": s.trigger.type,
            "change.operation": s.change.operation,
        }
        for field, value in found.items():
            allowed = _TRACKS[track][field]
            if value not in allowed:
                raise BenchError(
                    f"{where}: scenario.{field} = {value!r}: scoring track {track} allows only {', '.join(allowed)}"
                )
        if s.trigger.type == "fixed_step" and s.trigger.value % interval:
            raise BenchError(
                f"{where}: scenario.trigger.value = {s.trigger.value}: "
                f"expected a multiple of query_interval = {interval}"
            )
