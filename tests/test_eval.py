"""Evaluations: the Base arm alone, on the first instances of tasks, with the same records and tools as a paired run."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evals import registry
from evals.libero_max.sampler import sample_manifest
from mjx_bench.arms import Arms
from mjx_bench.cases import Manifest, dump_manifest, evaluation, load_manifest
from mjx_bench.errors import BenchError
from mjx_bench.film import film_pair, moments_of
from mjx_bench.inspection import inspect_case
from mjx_bench.records import Run, load_run
from mjx_bench.report.evaluation import summarise_evaluation
from mjx_bench.report.html_page import render
from mjx_bench.report.table import to_markdown
from mjx_bench.rescore import rescore
from mjx_bench.schedule import run_pairs
from mjx_bench.settings import RunSettings
from mjx_bench.types import Arm
from policies import registry as policies
from scripts import cli
from scripts.chosen import tasks_of

POLICY = "scripted.reactive"
COMMAND = [
    *("eval", "--suite", "tabletop", "--task", "pick_place", "--task", "9", "--instances", "3"),
    *("--policy", POLICY, "--backend", "c"),
]
NAMES = ("tabletop/pick_place", "tabletop/press_button")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out: Path = tmp_path_factory.mktemp("eval") / "run"
    assert cli.main([*COMMAND, "--out", str(out)]) == 0
    return out


def lines(out: Path) -> list[str]:
    """What was recorded, without what may differ between two runs."""
    results = [record.result() for record in load_run(out).records]
    return sorted(json.dumps(result, sort_keys=True) for result in results)


def test_success_rates_by_task(folder: Path):
    run = load_run(folder)
    assert [record.arm for record in run.records] == ["base"] * 6
    assert {(r.change_type, r.trigger_step, r.fork_sha256) for r in run.records} == {("none", None, None)}
    report = json.loads((folder / "report.json").read_text())
    assert report == summarise_evaluation(run)
    assert tuple(report["tasks"]) == NAMES
    solved = {name: report["tasks"][name] for name in NAMES}
    assert [(g["instances"], g["successes"], g["rate"]) for g in solved.values()] == [(3, 3, 1.0)] * 2
    # Wilson of n out of n: [n / (n + z^2), 1] with z^2 = 3.8415.
    assert solved[NAMES[0]]["wilson95"] == pytest.approx([3 / 6.8415, 1.0], abs=1e-4)
    assert report["wilson95"] == pytest.approx([6 / 9.8415, 1.0], abs=1e-4)
    steps = [r.success_step for r in run.records if r.task_name == "press_button"]
    assert solved[NAMES[1]]["mean_success_step"] == pytest.approx(np.mean(np.array(steps, float)))
    assert (report["cases"], report["incomplete"], report["void"], report["notes"]) == (6, [], 0, [])


def test_failures_and_what_is_missing_are_told(folder: Path, tmp_path: Path):
    run = load_run(folder)
    failed = dataclasses.replace(run.records[0], success=False, verdict="timeout", success_step=None, success_end=False)
    void = dataclasses.replace(run.records[1], success=None, verdict="void", reason="state is not finite")
    half = dataclasses.replace(run, records=(failed, void, *run.records[2:5]))
    report = summarise_evaluation(half)
    assert (report["instances"], report["successes"], report["void"]) == (4, 3, 1)
    assert report["void_arms"] == [{"case_id": void.case_id, "arm": "base", "reason": "state is not finite"}]
    assert "1 case(s) are void and outside of every rate: state is not finite (1 arm)" in report["notes"]
    other = dataclasses.replace(failed, case_id="of-another-run")
    [said] = summarise_evaluation(dataclasses.replace(run, records=(*run.records, other)))["notes"]
    assert said.startswith("1 record(s) are of no case of ")
    assert said.endswith("of-another-run")
    assert report["incomplete"] == [run.records[5].case_id]
    assert [note.split(" ", 1)[1][:14] for note in report["notes"]] == ["case(s) are no", "case(s) are vo"]
    page = to_markdown(report)
    assert "| tabletop/press_button |" in page
    assert "3/4" in page
    assert "75.0%" in page
    html = render(report, half)
    assert "Numbers by task" in html
    assert "Dynamic" not in html


def test_the_table_and_the_json_of_the_command(folder: Path, capfd: pytest.CaptureFixture[str]):
    assert cli.main([*COMMAND, "--out", str(folder), "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["successes"] == 6
    assert cli.main(["report", str(folder)]) == 0
    out = capfd.readouterr().out
    assert "tabletop/pick_place" in out
    assert "100.0%" in out


def test_an_interrupted_evaluation_goes_on_and_ends_the_same(folder: Path, tmp_path: Path):
    part = tmp_path / "part"
    assert cli.main([*COMMAND, "--out", str(part), "--lanes", "2"]) == 0
    written = (part / "records.jsonl").read_bytes().splitlines(keepends=True)
    (part / "records.jsonl").write_bytes(b"".join(written[:2]) + written[2][:40])
    assert cli.main([*COMMAND, "--out", str(part), "--lanes", "5", "--threads", "1"]) == 0
    assert lines(part) == lines(folder)


def test_shards_merge_into_the_whole(folder: Path, tmp_path: Path):
    shards = [tmp_path / f"s{i}" for i in range(2)]
    for i, out in enumerate(shards):
        assert cli.main([*COMMAND, "--out", str(out), "--shard", f"{i}/2"]) == 0
    assert cli.main(["merge", *map(str, shards), "--out", str(tmp_path / "whole")]) == 0
    assert lines(tmp_path / "whole") == lines(folder)


def test_it_is_the_base_arm_of_a_pair(folder: Path, tmp_path: Path):
    task = registry.load_task("tabletop", 9)
    manifest = sample_manifest([task], 1, 0, events=["illumination_switch"], init_states=range(3))
    settings = RunSettings(policy=POLICY, lanes=2, query_interval=8, backend="c")
    run_pairs(manifest, settings, tmp_path / "pair", load_task=lambda case: task, policy=policies.make(POLICY))
    base = next(r for r in load_run(tmp_path / "pair").records if r.arm == "base")
    same = next(r for r in load_run(folder).records if r.base_key == base.base_key)
    ours, theirs = same.result(), base.result()
    labels = {n for n in ours if n.startswith(("case_id", "change_", "severity", "draw", "trigger", "fork"))}
    assert {n: v for n, v in ours.items() if n not in labels} == {n: v for n, v in theirs.items() if n not in labels}


def test_it_is_judged_again_from_its_records(folder: Path):
    again = rescore(folder)
    assert (again.arms, again.agrees, again.triggers_unchecked) == (6, True, 0)


def test_one_arm_is_filmed_and_inspected(folder: Path):
    run = load_run(folder)
    manifest = load_manifest(folder / "manifest.json")
    case = manifest.cases[-1]
    task = registry.load_case(case)
    footage = film_pair(run, case, task)
    assert list(footage.arms) == [Arm.BASE]
    record = run.done[case.case_id, Arm.BASE]
    assert len(footage.arms[Arm.BASE].poses) == record.end_step + 1
    assert moments_of(run, case.case_id) == {"start": 0, "end": record.end_step}
    views = inspect_case(case, task, policies.make(POLICY), Arms(8, 16))
    assert list(views) == [Arm.BASE]
    assert views[Arm.BASE].result.end_step == record.end_step


def test_a_manifest_of_one_arm_is_a_format(folder: Path, tmp_path: Path):
    manifest = load_manifest(folder / "manifest.json")
    assert manifest.protocol.arms == ("control",)
    assert "scenario" not in manifest.to_json()["cases"][0]
    path = tmp_path / "m.json"
    path.write_text(dump_manifest(manifest))
    assert load_manifest(path) == manifest
    both: dict[str, Any] = manifest.to_json()
    both["protocol"]["arms"] = ["control", "intervention"]
    with pytest.raises(BenchError, match="scenario is missing"):
        Manifest.read(both)
    both["protocol"]["arms"] = ["intervention"]
    with pytest.raises(BenchError, match=r"\['control'\] for an evaluation"):
        Manifest.read(both)


def test_tasks_by_index_and_by_name():
    assert tasks_of(["tabletop"], ["press_button", "1"]) == [("tabletop", 1), ("tabletop", 9)]
    assert len(tasks_of(["tabletop"], [])) == 12
    with pytest.raises(BenchError, match=r"unknown task of tabletop 'pick_plce'; did you mean pick_place"):
        tasks_of(["tabletop"], ["0", "pick_plce"])
    with pytest.raises(BenchError, match="unknown task of tabletop '12'"):
        tasks_of(["tabletop"], ["12"])


def test_pairs_on_named_tasks_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "m.json"
    drawn = ["sample", "--suite", "tabletop", "--task", "press_button", "1", "--pairs", "6", "--out", str(out)]
    assert cli.main(drawn) == 0
    assert {case.task_index for case in load_manifest(out).cases} == {1, 9}
    capsys.readouterr()
    pairs = ["pair", "--policy", "zero", "--out", str(tmp_path / "r"), "--manifest", str(out), "--task", "1"]
    assert cli.main(pairs) == 2
    assert "--task 1 chooses what to draw cases on; give it with --suite NAME" in capsys.readouterr().err


def test_more_instances_than_there_are_is_an_error():
    task = dataclasses.replace(registry.load_task("tabletop", 0), load_init_states=lambda: np.zeros((50, 3)))
    assert len(evaluation([task], 50, 7).cases) == 50
    with pytest.raises(BenchError, match="has 50 initial states, and 51 are asked for"):
        evaluation([task], 51, 7)


def test_a_libero_task(tmp_path: Path):
    pytest.importorskip("libero", reason="needs the extra: libero")
    out = tmp_path / "run"
    command = ["eval", "--suite", "libero_object", "--task", "0", "--instances", "2", "--policy", POLICY]
    assert cli.main([*command, "--out", str(out)]) == 0
    run: Run = load_run(out)
    assert sorted(r.init_state_index for r in run.records if r.success is not None) == [0, 1]
