"""Runs of the native suite: every event on every task that can have it, and the policies that must fail."""

from __future__ import annotations

import collections
import dataclasses
from pathlib import Path

from evals.libero_max.eligibility import can_have
from evals.libero_max.sampler import sample_manifest
from mjx_bench.cases import EVENT_ORDER, Case, Manifest
from mjx_bench.policy import Policy
from mjx_bench.records import Run, load_run
from mjx_bench.rescore import rescore
from mjx_bench.schedule import run_pairs
from mjx_bench.settings import RunSettings
from mjx_bench.task import Task
from policies.simple import Random, Zero
from tests.test_tabletop import NAMES, scene_of

BURST = ("pick_lift", "pick_place", "place_in_bin", "push_to_region")


def run(out: Path, manifest: Manifest, policy: Policy, horizon: int | None = None) -> Run:
    def load(case: Case) -> Task:
        task = scene_of(NAMES[case.task_index])[0]
        return task if horizon is None else dataclasses.replace(task, horizon=horizon)

    settings = RunSettings(policy=policy.spec.name, lanes=8, query_interval=8, threads=1)
    run_pairs(manifest, settings, out, load_task=load, policy=policy)
    return load_run(out)


def every_event() -> Manifest:
    """A case for each task and each event that it can have, with the event after the first query."""
    cases = []
    for name in NAMES:
        task = scene_of(name)[0]
        for event in EVENT_ORDER:
            if not can_have(task, event):
                continue
            data = sample_manifest([task], 1, 0, events=[event], init_states=range(8)).to_json()
            case = data["cases"][0]
            case["scenario"]["trigger"] = {"type": "fixed_step", "value": 8}
            cases.append(case)
    return Manifest.read(data | {"cases": cases}, "every event")


def test_every_event_runs_on_every_task_that_can_have_it(tmp_path: Path):
    manifest = every_event()
    tasks_of = collections.defaultdict(set)
    for case in manifest.cases:
        tasks_of[case.scenario.event].add(NAMES[case.task_index])
    for event in (*EVENT_ORDER[:4], "target_relocation"):
        assert tasks_of[event] == set(NAMES), event
    receptacles = {"pick_place", "place_in_bin", "stack_two", "stack_three_in_order", "push_to_region", "insert_peg"}
    assert tasks_of["receptacle_relocation"] == receptacles
    assert tasks_of["distractor_burst"] == set(BURST)
    assert tasks_of["obstacle_insertion"] == set(NAMES) - {"open_drawer", "close_drawer", "open_door"}

    done = run(tmp_path / "events", manifest, Zero(), horizon=16)
    assert len(done.records) == 2 * len(manifest.cases)
    for record in done.records:
        result = record.result()
        assert result["verdict"] == "timeout", (record.key, result["reason"])
        assert result["trigger_step"] == 8
    checked = rescore(done.directory)
    assert checked.arms == len(done.records)
    assert not (*checked.mismatches, *checked.damaged)


def test_doing_nothing_and_noise_solve_nothing(tmp_path: Path):
    """Over all of the suite, 240 instances: 0% for both (measured); here, the tasks that are done by a touch."""
    tasks = [scene_of(name)[0] for name in ("close_drawer", "press_button", "turn_knob")]
    manifest = sample_manifest(tasks, 12, 0, events=["target_relocation"], init_states=range(20))
    for policy in (Zero(), Random()):
        done = run(tmp_path / policy.spec.name, manifest, policy)
        assert {r.result()["verdict"] for r in done.records} == {"timeout"}
