"""The suites of our own as they are typed: `mjx-bench eval` and `mjx-bench agent`, to success."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mjx_bench.agents.transcript import read_summary
from mjx_bench.records import Run, load_run
from mjx_bench.rescore import rescore
from scripts import cli

WHICH = {
    "drink_selection": "robot_agent_bench",
    "drone_payload_hover": "robotworld",
    "puzzle_box": "roboquest",
    "skill_pick_place": "roboquest",
    "WhiteMugInCenterOfTableTask": "robotworld",
}
LONG = {"puzzle_box"}


def each(*names: str) -> list:
    return [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in names]


def solved(out: Path, name: str, instances: int) -> Run:
    """A run of the first instances, each of which succeeded; what is recorded gives the same verdicts again."""
    run = load_run(out)
    found = sorted((r.suite, r.task_name, r.arm, r.init_state_index, r.verdict, r.success) for r in run.records)
    assert found == [(WHICH[name], name, "base", i, "success", True) for i in range(instances)]
    assert rescore(out).agrees
    report = json.loads((out / "report.json").read_text())
    assert (report["instances"], report["successes"], report["void"]) == (instances, instances, 0)
    return run


@pytest.mark.parametrize("name", each(*WHICH))
def test_the_oracle_solves_it_by_the_command(name: str, tmp_path: Path):
    command = ["eval", "--suite", WHICH[name], "--task", name, "--instances", "2", "--policy", "scripted.oracle"]
    assert cli.main([*command, "--out", str(tmp_path / "run")]) == 0
    assert solved(tmp_path / "run", name, 2).header.settings["policy"] == "scripted.oracle"


@pytest.mark.parametrize("name", each("skill_pick_place", "puzzle_box"))
def test_the_scripted_agent_solves_it_by_the_command(name: str, tmp_path: Path):
    command = ["agent", "--suite", WHICH[name], "--task", name, "--agent", "scripted"]
    assert cli.main([*command, "--out", str(tmp_path / "run")]) == 0
    (record,) = solved(tmp_path / "run", name, 1).records
    summary = read_summary(tmp_path / "run", record.case_id)
    assert (summary["steps"], summary["refused"], summary["failed"]) == (record.end_step, {}, 0)
    assert summary["turns"] > 1
