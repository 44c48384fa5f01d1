"""Cases to run: manifest files in and out, identities, seeds, a representative few, and the check against a real task.

The format itself is in `manifest.py`, `scenario.py` and `changes.py`; their names are re-exported here.
"""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import heapq
import json
import os
import pathlib
from collections.abc import Sequence
from typing import Any

from mjx_bench.changes import EVENT_OPERATION, Change
from mjx_bench.errors import BenchError, unknown_name
from mjx_bench.fields import canonical_json, is_int, parse_json
from mjx_bench.manifest import ARMS, CONTROL_ONLY, OWN_SUITE, SUITES, Absent, Case, Manifest, Protocol
from mjx_bench.records.schema import EVENT_ORDER, OWN_EVENTS, VISUAL_EVENTS, event_rank
from mjx_bench.scenario import ENTITY_TRIGGERS, Scenario, Trigger, check_removed
from mjx_bench.task import Task


def load_manifest(path: str | os.PathLike[str]) -> Manifest:
    """Reads and checks a manifest file.

    Raises:
      BenchError: an unreadable file, bad JSON, or any broken rule; one line.
    """
    try:
        text = pathlib.Path(path).read_text("utf-8")
    except OSError as e:
        raise BenchError(f"{path}: cannot read the manifest: {e.strerror}") from None
    except UnicodeDecodeError as e:
        raise BenchError(f"{path}: not UTF-8 text (byte {e.start}); is this a manifest?") from None
    return Manifest.read(parse_json(text, str(path)), str(path))


def dump_manifest(manifest: Manifest) -> str:
    """The file's text in the released layout: 2-space indent, sorted keys, ASCII, one final newline."""
    return json.dumps(manifest.to_json(), indent=2, sort_keys=True, allow_nan=False) + "\n"


def _sha256(data: Any) -> str:
    return hashlib.sha256(canonical_json(data).encode()).hexdigest()


def manifest_sha256(manifest: Manifest) -> str:
    """Hex SHA-256 of the canonical JSON: independent of layout and of the file's name."""
    return _sha256(manifest.to_json())


def case_sha256(case: Case) -> str:
    """Hex SHA-256 of the case's canonical JSON."""
    return _sha256(case.to_json())


def base_key(case: Case) -> str:
    """Equal for cases whose Base arm is one and the same run: 16 hex digits.

    The Base arm sees the task, the initial state, the policy seed and the setup changes, and nothing of the event.
    The order of setup changes is kept, because changes may compound.
    """
    setup = [step.to_json() for step in case.setup]
    parts = (case.task_suite_name, case.task_index, case.init_state_index, case.policy_seed)
    return _sha256([*parts, setup, case.substrate_variant])[:16]


def stable_seed(*parts: object) -> int:
    """First 32 bits of the SHA-256 of the parts joined by "|" (1.5): the seed of everything that is drawn by name."""
    return int(hashlib.sha256("|".join(map(str, parts)).encode()).hexdigest()[:8], 16)


def select(manifest: Manifest, limit: int | None) -> Manifest:
    """Keeps `limit` cases, spread over event types, then over tasks, suites and draws.

    Events take turns in `EVENT_ORDER`. On its turn an event gives the case whose task was used least so far (by any
    event), then whose source category was, then whose suite was, then whose draw was (by this event), then the first in
    the file. So the selection depends on the manifest alone, and a larger limit keeps every case of a smaller one.

    Args:
      manifest: what to choose from.
      limit: number of cases, None for all.

    Returns:
      The manifest with the chosen cases, in the manifest's order.

    Raises:
      BenchError: `limit` is not a positive integer.
    """
    if limit is None:
        return manifest
    if not is_int(limit) or limit < 1:
        raise BenchError(f"limit = {limit!r}: expected an integer >= 1")
    if limit >= len(manifest.cases):
        return manifest

    uses: collections.Counter[tuple[object, ...]] = collections.Counter()

    def counted(i: int) -> tuple[tuple[object, ...], ...]:
        case = manifest.cases[i]
        suite, category = case.task_suite_name, case.substrate_category
        event, draw = case.event, None if case.scenario is None else case.scenario.draw
        return ("task", suite, case.task_index), ("category", category), ("suite", suite), ("draw", event, draw)

    def cost(i: int) -> tuple[int, ...]:
        return (*(uses[key] for key in counted(i)), i)

    queues: dict[str, list[tuple[int, ...]]] = {}
    for i, case in enumerate(manifest.cases):
        queues.setdefault(case.event, []).append(cost(i))  # all costs are zero: sorted, hence a heap
    turns = collections.deque(sorted(queues, key=event_rank))
    chosen: list[int] = []
    while len(chosen) < limit:
        event = turns.popleft()
        queue = queues[event]
        # Costs only ever grow, so a stale one at the front is refreshed and put back until the front is true.
        while queue[0] != cost(queue[0][-1]):
            heapq.heapreplace(queue, cost(queue[0][-1]))
        i = heapq.heappop(queue)[-1]
        chosen.append(i)
        uses.update(counted(i))
        if queue:
            turns.append(event)
    return dataclasses.replace(manifest, cases=tuple(manifest.cases[i] for i in sorted(chosen)))


def evaluation(tasks: Sequence[Task], instances: int, policy_seed: int) -> Manifest:
    """The cases of an evaluation: the first initial states of each task, as they are, in one arm.

    Args:
      tasks: what to evaluate on.
      instances: initial states of each task.
      policy_seed: of every case.

    Raises:
      BenchError: a task that has fewer initial states.
    """
    for task in tasks:
        if instances > (have := len(task.load_init_states())):
            raise BenchError(
                f"{task.suite} task {task.index} has {have} initial states, and {instances} are asked for;"
                f" give --instances {have} or fewer"
            )
    cases = [
        Case(
            case_id=f"{task.suite}-t{task.index:02d}-i{i}-p{policy_seed}",
            task_suite_name=task.suite,
            task_index=task.index,
            init_state_index=i,
            policy_seed=policy_seed,
            timing_bucket="middle",
            scenario=None,
            task_name=task.name,
        )
        for task in tasks
        for i in range(instances)
    ]
    protocol = Protocol(query_interval=1, arms=CONTROL_ONLY)
    return Manifest("mjx_bench.evaluation", "1", protocol, tuple(cases), "the evaluation")


def check_case(case: Case, task: Task, n_init_states: int, source: str = "manifest") -> None:
    """Checks a case against the task it names.

    Args:
      case: the case.
      task: the task that `task_suite_name` and `task_index` (and the variant) lead to.
      n_init_states: rows of the task's initial states.
      source: file name for the message.

    Raises:
      BenchError: another task, an initial state out of range, an entity or camera that is not in the scene, or an
        object that is put back at its height before removal and was never removed.
    """
    where = f"{source}: case {case.case_id!r}"
    own = f"{case.task_suite_name}/task_{case.task_index}"
    if case.scenario is not None and not f"/{case.scenario.base_task_id}".endswith(f"/{own}"):
        raise BenchError(
            f"{where}: scenario.base_task_id = {case.scenario.base_task_id!r} is another task than {own!r}, the case's; fix"
            " the one or the other"
        )
    if case.task_name is not None and case.task_name != task.name:
        raise BenchError(
            f"{where}: task_name = {case.task_name!r}: "
            f"task {case.task_index} of {case.task_suite_name} is {task.name!r}; fix the name or the index"
        )
    if case.init_state_index >= n_init_states:
        raise BenchError(
            f"{where}: init_state_index = {case.init_state_index}: expected 0..{n_init_states - 1}, "
            f"{task.suite} task {task.index} has {n_init_states} initial states"
        )
    s = case.scenario
    if s is None:
        return
    named: list[tuple[str, str]] = []
    if s.trigger.type in ENTITY_TRIGGERS:
        named.append(("scenario.trigger.value", s.trigger.value))
    if s.trigger.target_entity is not None:
        named.append(("scenario.trigger.target_entity", s.trigger.target_entity))
    changes = [("scenario.change", s.change), *((f"scenario.setup[{i}]", c) for i, c in enumerate(s.setup or ()))]
    for path, change in changes:
        named += [(f"{path}.{field}", name) for field, name in change.entities()]
        last = change.fields.get("seed", 0) + task.settle_steps + task.horizon
        if last >= 2**32:
            raise BenchError(
                f"{where}: {path}.seed = {change.fields['seed']}: every control step draws from the next seed, up to {last}"
                f" here, and seeds must stay below {2**32}"
            )
        if "camera" in change.fields and change.fields["camera"] not in task.scene.cameras:
            error = unknown_name("camera", change.fields["camera"], task.scene.cameras)
            raise BenchError(f"{where}: {path}.camera: {error}")
    for field, name in named:
        if name not in task.scene.entities:
            raise BenchError(f"{where}: {field}: {unknown_name('entity', name, task.scene.entities)}")
    check_removed(s, where)


__all__ = [
    "ARMS",
    "CONTROL_ONLY",
    "EVENT_OPERATION",
    "EVENT_ORDER",
    "OWN_EVENTS",
    "OWN_SUITE",
    "SUITES",
    "VISUAL_EVENTS",
    "Absent",
    "Case",
    "Change",
    "Manifest",
    "Protocol",
    "Scenario",
    "Trigger",
    "base_key",
    "case_sha256",
    "check_case",
    "dump_manifest",
    "evaluation",
    "load_manifest",
    "manifest_sha256",
    "select",
    "stable_seed",
]
