"""What a case costs does not depend on how many there are: nothing in a run is done again for each case before it."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path

import pytest

from evals import registry
from evals.libero_max.sampler import sample_manifest
from mjx_bench.cases import Case, Manifest
from mjx_bench.records import load_run
from mjx_bench.report.summary import summarise
from mjx_bench.scenario import Trigger
from mjx_bench.schedule import run_pairs
from mjx_bench.settings import RunSettings
from mjx_bench.task import Task
from policies.registry import make

SETTINGS = RunSettings("zero", lanes=32, query_interval=1, threads=2, backend="c")


def short_task(case: Case) -> Task:
    """Two control steps: little else than what a run does about a case."""
    return dataclasses.replace(registry.load_case(case), horizon=2, settle_steps=0)


def many(count: int) -> Manifest:
    """Cases that differ in their seed and initial state, by their order."""
    task = registry.load_task("tabletop", 0)
    drawn = sample_manifest([task], 1, 0, events=("illumination_switch",), policy_seed=195)
    [case] = drawn.cases
    trigger = Trigger("fixed_step", 1)
    cases = [
        dataclasses.replace(
            case,
            case_id=f"case-{i:05}",
            init_state_index=i % 10_000,
            scenario=dataclasses.replace(case.scenario, scenario_id=f"case-{i:05}", trigger=trigger),
        )
        for i in range(count)
    ]
    return dataclasses.replace(drawn, cases=tuple(cases))


def milliseconds_a_case(count: int, folder: Path) -> dict[str, float]:
    manifest = many(count)

    def measured(work) -> float:
        start = time.process_time()
        work()
        return 1e3 * (time.process_time() - start) / count

    def go() -> None:
        run_pairs(manifest, SETTINGS, folder, load_task=short_task, policy=make("zero"))

    spent = {"run": measured(go), "resume": measured(go), "report": measured(lambda: summarise(load_run(folder)))}
    assert len(load_run(folder).records) == 2 * count
    return spent


@pytest.mark.slow
def test_a_case_of_ten_thousand_costs_what_one_of_a_hundred_costs(tmp_path: Path):
    milliseconds_a_case(20, tmp_path / "warm")
    spent = {count: milliseconds_a_case(count, tmp_path / str(count)) for count in (100, 1_000, 10_000)}
    print(json.dumps(spent, indent=1))
    for name in spent[100]:
        assert spent[10_000][name] < 1.5 * spent[100][name] + 0.1, name
