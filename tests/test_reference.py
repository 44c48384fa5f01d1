"""Reports of the reference's own result lines: its published numbers, and every broken line refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mjx_bench.errors import BenchError
from mjx_bench.reference import read_reference
from scripts import cli
from scripts.report import reference_summary

RUN = Path(__file__).resolve().parents[1].parent / "shared/data/libero_max/results/v1/runs/pi05_physical"
needs_run = pytest.mark.skipif(not RUN.exists(), reason="the published run is not next to this checkout")

LINE: dict[str, Any] = {
    "pair_id": "a-p195",
    "scenario_id": "a",
    "seed": 7,
    "change_family": "GEO",
    "change_type": "target_relocation",
    "expected_response_mode": "replan",
    "control_correct": True,
    "intervention_correct": False,
    "adaptation_latency_steps": None,
    "safety_violations": None,
    "intervention_event_step": 32,
    "policy_response_query_step": 35,
    "open_loop_exposure_steps": 3,
}


def write(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def rounded(value: Any) -> Any:
    """The published summary is rounded to six decimals, p values excepted."""
    return [round(v, 6) for v in value] if isinstance(value, list) else round(value, 6)


@needs_run
def test_the_published_summary(tmp_path: Path):
    ours = reference_summary(RUN / "paired_results.jsonl")
    published = json.loads((RUN / "benchmark_summary.json").read_text())["metrics"]
    groups = {"overall": (ours, published["overall"])}
    groups |= {event: (ours["events"][event], want) for event, want in published["by_change_type"].items()}
    assert len(groups) == 7
    for group, want in groups.values():
        assert group["pairs"] == want["episodes"]
        assert group["void"] == 0
        assert rounded(group["base"]["rate"]) == want["control_accuracy"] == rounded(group["success_any"]["base"])
        assert rounded(group["base"]["wilson95"]) == want["control_accuracy_95ci_wilson"]
        assert rounded(group["dynamic"]["rate"]) == want["scenario_aware_outcome_accuracy"]
        assert rounded(group["dynamic"]["wilson95"]) == want["scenario_aware_outcome_accuracy_95ci_wilson"]
        assert rounded(group["delta_pp"] / 100) == want["paired_robustness_delta"]
        assert rounded([v / 100 for v in group["delta_ci95"]]) == want["paired_robustness_delta_95ci_bootstrap"]
        assert rounded(group["conditional_regression"]) == want["regression_rate"]
        assert group["mcnemar_p"] == want["mcnemar_exact_two_sided_p"]
        assert group["outcomes"] == {
            "preserved": want["outcome_table"]["preserved_capability"],
            "gained": want["outcome_table"]["intervention_side_gain"],
            "regressed": want["outcome_table"]["regression_under_change"],
            "failed": want["outcome_table"]["persistent_failure"],
        }
    # Section 8.1 of the format: exposure of this run.
    assert rounded(ours["mean_stale_actions"]) == 2.002247
    assert ours["trigger_coverage"] == ours["common_response_coverage"] == 1


@needs_run
def test_the_command_prints_it_and_writes_nothing(capfd: pytest.CaptureFixture[str]):
    before = sorted(RUN.iterdir())
    assert cli.main(["report", "--from-reference", str(RUN / "paired_results.jsonl")]) == 0
    out = capfd.readouterr().out
    assert "results of the reference · 1335 cases" in out
    assert "1289/1335 96.6%" in out
    assert sorted(RUN.iterdir()) == before


def test_what_a_line_does_not_say_is_null(tmp_path: Path):
    required = {k: v for k, v in LINE.items() if not k.endswith("_step") and k != "open_loop_exposure_steps"}
    del required["change_type"]
    summary = reference_summary(write(tmp_path / "r.jsonl", required))
    assert list(summary["events"]) == ["GEO"]
    assert summary["base"]["successes"] == 1
    assert summary["success_any"] == {"base": 1, "dynamic": 0}
    assert summary["success_end"] == {"base": None, "dynamic": None}
    for field in ("trigger_coverage", "response_coverage", "common_response_coverage", "mean_stale_actions"):
        assert summary[field] is None
    json.dumps(summary, allow_nan=False)


def test_the_reference_s_count_of_responses_is_not_taken_for_ours(tmp_path: Path):
    summary = reference_summary(write(tmp_path / "r.jsonl", LINE))
    assert (summary["common_response_coverage"], summary["response_coverage"]) == (1, None)
    assert summary["mean_stale_actions"] == 3


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"verdict": "success"}, "unknown field 'verdict'"),
        ({"control_corect": True}, "did you mean control_correct"),
        ({"control_correct": 1}, "control_correct = 1: expected true or false"),
        ({"intervention_correct": None}, "intervention_correct = None"),
        ({"change_family": "GEOM"}, "unknown change_family 'GEOM'; did you mean GEO"),
        ({"change_type": "target_relocaton"}, "did you mean target_relocation"),
        ({"severity": "extreme"}, "unknown severity 'extreme'"),
        ({"intervention_event_step": -1}, "intervention_event_step = -1"),
        ({"safety_violations": 0.5}, "safety_violations = 0.5"),
        ({"substrate_difficulty": 6}, "substrate_difficulty = 6"),
        ({"post_event_action_chunk_mad": -0.1}, "post_event_action_chunk_mad = -0.1"),
        ({"pair_id": "a-p195"}, "pair_id repeats line 1"),
        ({"scenario_id": "a"}, "repeats line 1"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, change: dict[str, Any], says: str):
    second = {**LINE, "pair_id": "b", "scenario_id": "b"} | change
    path = write(tmp_path / "r.jsonl", LINE, second)
    with pytest.raises(BenchError) as error:
        read_reference(path)
    assert str(error.value).startswith(f"{path} line 2: ")
    assert says in str(error.value)


def test_files_that_are_no_results(tmp_path: Path):
    for text, says in [("", "no result in it"), ("\n\n", "no result in it"), ('{"a"', "line 1: not valid JSON")]:
        (tmp_path / "r.jsonl").write_text(text)
        with pytest.raises(BenchError, match=says):
            read_reference(tmp_path / "r.jsonl")
    missing = {k: v for k, v in LINE.items() if k != "control_correct"}
    with pytest.raises(BenchError, match="control_correct is missing"):
        read_reference(write(tmp_path / "r.jsonl", missing))
