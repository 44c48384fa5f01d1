"""Comparisons of small hand-made runs whose numbers can be checked on paper, and what must not be compared."""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

from evals.libero.sources import catalogue
from mjx_bench.errors import BenchError
from mjx_bench.records import ArrayRef, Run, RunWriter, load_run
from mjx_bench.report.cadence import curves
from mjx_bench.report.compare import compare, distinct_names
from mjx_bench.report.grid import Column, Grid, latex_text, to_csv, to_latex, to_markdown
from mjx_bench.report.pairs import NEVER_HELD, labels_of, source_notes
from mjx_bench.report.results import results_of
from mjx_bench.report.summary import summarise
from mjx_bench.report.tables import comparison_grids, evaluation_grids, run_grids
from mjx_bench.stats import mcnemar_exact
from scripts import cli
from tests.test_report import make_run
from tests.test_report import record as a_record

RUN = Path(__file__).resolve().parents[1].parent / "shared/data/libero_max/results/v1/runs/pi05_physical"
needs_run = pytest.mark.skipif(not RUN.exists(), reason="the published run is not next to this checkout")

EVENTS = ("illumination_switch", "target_relocation")
# (Base, Dynamic) of eight cases, events in turn.
LEFT = [(1, 1), (1, 0), (1, 1), (1, 0), (0, 0), (1, 0), (1, 1), (1, 1)]
RIGHT = [(1, 1), (1, 1), (0, 0), (1, 1), (1, 1), (1, 0), (1, 1), (1, 1)]


def outcomes(folder: Path, pairs: list[Any], **settings: Any) -> Run:
    spec = [
        (EVENTS[i % 2], *(v if isinstance(v, str) or v is None else bool(v) for v in p), i) for i, p in enumerate(pairs)
    ]
    return make_run(folder, spec, sees_pictures=True, **settings)


def compared(tmp_path: Path, left: list[Any] = LEFT, right: list[Any] = RIGHT, **settings: Any) -> dict[str, Any]:
    runs = [outcomes(tmp_path / "a", left, policy="left"), outcomes(tmp_path / "b", right, policy="right", **settings)]
    return compare([results_of(run) for run in runs])


def test_a_comparison_by_hand(tmp_path: Path):
    c = compared(tmp_path)
    json.dumps(c, allow_nan=False)
    assert c["arms"] == ["base", "dynamic"]
    assert c["common"] == {"cases": 8, "all": 8, "not_in_every_set": 0, "without_outcome": 0}
    left, right = c["policies"]
    assert (left["name"], right["name"]) == ("left", "right")
    assert (left["base"]["successes"], left["dynamic"]["successes"]) == (7, 4)
    assert (right["base"]["successes"], right["dynamic"]["successes"]) == (7, 6)
    [base], [dynamic], [delta] = (c["contrasts"][m] for m in ("base", "dynamic", "delta"))
    # Base differs in cases 2 (left only) and 4 (right only), Dynamic in 2 and in 1, 3, 4.
    assert (base["left_only"], base["right_only"], base["difference_pp"], base["p"]) == (1, 1, 0, 1.0)
    assert (dynamic["left_only"], dynamic["right_only"]) == (1, 3)
    assert dynamic["difference_pp"] == 25
    assert dynamic["p"] == mcnemar_exact(1, 3)
    # Deltas of left: 0 -1 0 -1 0 -1 0 0, of right: 0 0 0 0 0 -1 0 0; both differences count for the right.
    assert (delta["difference_pp"], delta["p"]) == (25, 0.5)
    assert delta["left_only"] is None
    assert dynamic["ci95"][0] < 25 < dynamic["ci95"][1]
    assert c["notes"] == ["all 8 cases are common to all 2 results"]


def test_every_policy_has_what_a_run_s_own_summary_has(tmp_path: Path):
    runs = [outcomes(tmp_path / "a", LEFT, policy="left"), outcomes(tmp_path / "b", RIGHT, policy="right")]
    c = compare([results_of(run) for run in runs])
    for run, entry in zip(runs, c["policies"], strict=True):
        summary = summarise(run)
        own = set(summary) - {"cases", "left_out", "incomplete", "void_arms", "notes"}
        assert {field: entry[field] for field in own} == {field: summary[field] for field in own}


def test_holm_is_over_the_policy_pairs(tmp_path: Path):
    three = [[(1, 0)] * 8, [(1, 1)] * 8, [(1, i % 2) for i in range(8)]]
    c = compare([results_of(outcomes(tmp_path / str(i), pairs, policy=f"p{i}")) for i, pairs in enumerate(three)])
    p = {(x["left"], x["right"]): (x["p"], x["p_holm"]) for x in c["contrasts"]["dynamic"]}
    assert p == {("p0", "p1"): (2 / 2**8, 3 * 2 / 2**8), ("p0", "p2"): (0.125, 0.25), ("p1", "p2"): (0.125, 0.25)}
    assert {x["p"] for x in c["contrasts"]["base"]} == {x["p_holm"] for x in c["contrasts"]["base"]} == {None}


def test_only_common_cases_with_an_outcome_count(tmp_path: Path):
    """The right holds two cases more; one arm is void, one was not run."""
    right = [(1, None), *RIGHT[1:3], (1, "missing"), *RIGHT[4:], (1, 1), (1, 1)]
    c = compared(tmp_path, right=right)
    assert c["common"] == {"cases": 6, "all": 10, "not_in_every_set": 2, "without_outcome": 2}
    left, other = c["policies"]
    assert (left["pairs"], left["cases"], other["pairs"], other["cases"]) == (6, 8, 6, 10)
    assert left["dynamic"]["successes"] == sum(d for i, (_, d) in enumerate(LEFT) if i not in (0, 3))
    assert (other["missing"], other["void_cases"]) == (["case-3"], ["case-0"])
    assert c["notes"] == [
        "6 of 10 cases have an outcome in all 2 results, and every number is of these; left out: 2 that not every result "
        "holds and 2 without an outcome in some",
        "left: 2 of the 10 cases are not in its set",
        "right: 1 case(s) not run yet: case-3",
        "right: 1 case(s) void: case-0",
    ]


def test_missing_and_void_arms_can_count_as_failures(tmp_path: Path):
    """The Lite score's rule: section 5.2."""
    pairs = [(1, None), (1, "missing"), (None, 1), (1, 1)]
    run = outcomes(tmp_path / "a", pairs)
    s = summarise(run)
    assert (s["pairs"], s["void"], s["incomplete"]) == (1, 2, ["case-1"])
    s = summarise(run, missing_fails=True)
    assert (s["pairs"], s["void"], s["incomplete"]) == (4, 0, ["case-1"])
    assert s["outcomes"] == {"preserved": 1, "gained": 1, "regressed": 2, "failed": 0}
    assert s["notes"][0] == "3 pair(s) have an arm that is missing or void and counts as a failure"
    assert len(s["void_arms"]) == 2
    full = outcomes(tmp_path / "b", [(1, 1)] * 4, policy="full")
    c = compare([results_of(run, missing_fails=True), results_of(full)])
    assert c["common"]["cases"] == 4
    assert c["policies"][0]["dynamic"]["successes"] == 2
    assert c["policies"][0]["missing"] == ["case-1"]


def test_policies_of_one_name_are_told_apart(tmp_path: Path):
    whole = results_of(outcomes(tmp_path, LEFT))

    def named(**changes: Any) -> Any:
        return dataclasses.replace(whole, **changes)

    a = named(policy="p", horizon=16, query_interval=8, path="runs/a")
    assert distinct_names([a, named(policy="q", path="runs/b")]) == ["p", "q"]
    assert distinct_names([a, named(policy="p", horizon=16, query_interval=4, path="runs/b")]) == [
        "p H=16 Q=8",
        "p H=16 Q=4",
    ]
    assert distinct_names([a, named(policy="p", path="runs/b")]) == ["p (a)", "p (b)"]
    assert distinct_names([a, named(policy="p", path="other/a")]) == ["p (runs/a)", "p (other/a)"]
    three = [a, named(policy="p", query_interval=4, path="runs/b"), named(policy="p", path="runs/c")]
    assert len(set(distinct_names(three))) == 3
    assert distinct_names([named(policy=None, path="x/m/paired_results.jsonl"), a]) == ["m", "p"]


# --- what must not be compared, or not without a word ---


def rewrite(run: Run, change: Any, **header: Any) -> Run:
    """The same folder with another manifest, its hash put right."""
    manifest = json.loads((run.directory / "manifest.json").read_text())
    change(manifest)
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    (run.directory / "manifest.json").write_text(text)
    settings = json.loads((run.directory / "run.json").read_text())
    settings |= {"manifest_sha256": hashlib.sha256(text.encode()).hexdigest(), **header}
    (run.directory / "run.json").write_text(json.dumps(settings))
    return load_run(run.directory)


def test_one_case_id_that_means_two_cases_is_an_error(tmp_path: Path):
    def version(number: str, angle: float) -> Any:
        def change(manifest: dict[str, Any]) -> None:
            manifest |= {"benchmark_id": "libero-max", "benchmark_version": number}
            manifest["cases"][3]["scenario"]["change"]["angle_deg"] = angle

        return change

    a = rewrite(outcomes(tmp_path / "a", LEFT), version("2.0.0", 15.0))
    b = rewrite(outcomes(tmp_path / "b", RIGHT), version("3.0.0", 15.0))
    notes = compare([results_of(a), results_of(b)])["notes"]
    assert (
        "the results are of different manifests, libero-max 2.0.0 and libero-max 3.0.0; their cases were compared"
        in notes
    )
    b = rewrite(b, version("3.0.0", 25.0))
    with pytest.raises(BenchError) as error:
        compare([results_of(a), results_of(b)])
    assert str(error.value).startswith(f"case 'case-3' is not the same in {a.directory} and {b.directory}: change = ")
    assert "15.0" in str(error.value)
    assert "25.0" in str(error.value)
    assert str(error.value).endswith("compare results of one manifest (libero-max 2.0.0, libero-max 3.0.0)")


def test_settings_that_differ_are_told(tmp_path: Path):
    runs = [
        outcomes(tmp_path / "a", LEFT, policy="left", run_on=False),
        outcomes(tmp_path / "b", RIGHT, policy="right", run_on=True, query_interval=4),
    ]
    runs[1] = rewrite(runs[1], lambda manifest: None, mjx_bench_version="0.2.0", packages={"mujoco": "3.18.0"})
    runs[0] = rewrite(runs[0], lambda manifest: None, packages={"mujoco": "3.17.0"})
    assert compare([results_of(run) for run in runs])["notes"][1:] == [
        "mjx_bench_version differs: left '0.1.0', right '0.2.0'",
        "package mujoco differs: left '3.17.0', right '3.18.0'",
        "run_on differs: left False, right True",
    ]


def test_what_cannot_be_compared(tmp_path: Path):
    a = results_of(outcomes(tmp_path / "a", LEFT))
    quiet = results_of(outcomes(tmp_path / "b", LEFT, no_event=True))
    with pytest.raises(BenchError, match="b: an A/A run, in which no event struck; leave it out"):
        compare([a, quiet])
    with pytest.raises(BenchError, match="a: given twice"):
        compare([a, a])
    with pytest.raises(BenchError, match="two results or more"):
        compare([a])
    nothing = results_of(outcomes(tmp_path / "c", [("missing", "missing")] * 8))
    with pytest.raises(BenchError, match="c: no case has been finished there yet; run the same command again"):
        compare([a, nothing])
    void = results_of(outcomes(tmp_path / "d", [(None, 1)] * 8))
    with pytest.raises(BenchError, match="no case has an outcome in all of them, of 8 cases in any and 8 in all"):
        compare([a, void])
    single = dataclasses.replace(a, arms=a.arms[:1], path="single")
    with pytest.raises(BenchError, match=r"single holds Base alone and .*a pairs"):
        compare([a, single])


def test_regenerated_sources_are_told_apart_and_told():
    ours = {"benchmark": "LIBERO-PRO (regenerated)", "category": "view_occlusion"}
    released = {"benchmark": "LIBERO-PRO", "category": "view_occlusion"}
    held = {"benchmark": "LIBERO-PRO", "category": "semantic"}
    labels = [
        labels_of({"substrate_category": f"LIBERO-PRO/{v['category']}", "substrate_variant": v}, None)
        for v in (ours, released, held)
    ]
    assert [own.source for own in labels] == ["LIBERO-PRO (regenerated)"] * 2 + ["LIBERO-PRO"]
    (note,) = source_notes(labels)
    assert note.startswith("2 of 3 cases start from sources that were regenerated")
    assert source_notes(labels[2:]) == []
    assert set(NEVER_HELD) == set(catalogue.PRO_FOLDERS)


def test_lost_arrays_are_told(tmp_path: Path):
    run = outcomes(tmp_path / "a", LEFT)
    assert summarise(run)["notes"] == []
    ref = ArrayRef(10**6, (3, 4), "<f4", "0" * 64)
    lost = dataclasses.replace(
        run, records=(dataclasses.replace(run.records[0], arrays={"actions": ref}), *run.records[1:])
    )
    (note,) = summarise(lost)["notes"]
    assert "the records point at 1000048: rates are those of the records" in note


def test_a_fault_of_one_run_is_told_in_the_comparison(tmp_path: Path):
    blind = make_run(tmp_path / "a", [("camera_shift", True, False, 0), ("target_relocation", True, True, 0)])
    sees = make_run(tmp_path / "b", [("camera_shift", True, False, 0), ("target_relocation", True, True, 0)], True)
    [fault] = [n for n in compare([results_of(blind), results_of(sees)])["notes"] if n.startswith("FAULT")]
    assert "1 pair(s) of camera_shift differ" in fault
    assert fault.endswith("(scripted.reactive (a))")


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda d: (d / "run.json").unlink(), "not a results folder (no run.json)"),
        (lambda d: (d / "records.jsonl").unlink(), "records.jsonl: cannot read: No such file"),
        (lambda d: (d / "manifest.json").unlink(), "manifest.json: cannot read: No such file"),
        (lambda d: (d / "manifest.json").write_text('{"cases": []}'), "not the manifest that run.json names by hash"),
        (lambda d: (d / "records.jsonl").write_text("hello\n"), "records.jsonl line 1: not valid JSON"),
        (lambda d: (d / "run.json").write_text("{}"), "schema is missing"),
        (lambda d: (d / "run.json").write_text("[1]"), "expected a JSON object"),
    ],
)
def test_a_folder_that_is_no_whole_result(tmp_path: Path, capfd: pytest.CaptureFixture[str], damage: Any, says: str):
    a, b = outcomes(tmp_path / "a", LEFT).directory, outcomes(tmp_path / "b", RIGHT).directory
    damage(b)
    for command in (["report", str(a), str(b)], ["report", str(b)]):
        assert cli.main(command) == 2
        out, error = capfd.readouterr()
        assert out == ""
        assert says in error
        assert len(error.splitlines()) == 1


def test_a_half_written_folder_is_compared_as_far_as_it_goes(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    a, b = outcomes(tmp_path / "a", LEFT, policy="l").directory, outcomes(tmp_path / "b", RIGHT, policy="r").directory
    lines = (b / "records.jsonl").read_bytes().splitlines(keepends=True)
    (b / "records.jsonl").write_bytes(b"".join(lines[:5]) + lines[5][:40])  # torn in the third case from the end
    assert cli.main(["report", str(a), str(b)]) == 0
    out = capfd.readouterr().out
    assert "note: 2 of 8 cases have an outcome in all 2 results" in out
    assert "r: 6 case(s) not run yet: case-0, case-1, case-2, ..." in out


def test_files_that_are_no_results(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    a = outcomes(tmp_path / "a", LEFT).directory
    (tmp_path / "notes.txt").write_text("hello\n")
    (tmp_path / "table.jsonl").write_text('{"policy": "x", "success": 0.5}\n')
    for path, says in (
        (tmp_path / "notes.txt", "line 1: not valid JSON"),
        (tmp_path / "table.jsonl", "line 1: change_family is missing"),
        (tmp_path / "nowhere", "not a results folder"),
        (a / "records.jsonl", f"records.jsonl: a file of a results folder; give the folder, {a}"),
    ):
        assert cli.main(["report", str(a), str(path)]) == 2
        out, error = capfd.readouterr()
        assert out == ""
        assert says in error
    assert cli.main(["report"]) == 2
    assert "give results to report" in capfd.readouterr().err


# --- evaluations ---


def evaluation(folder: Path, successes: list[Any], policy: str, progress: float | None = None) -> Run:
    """Base alone; the first half of the instances are of one task."""
    run = make_run(folder / "pairs", [("none", bool(s), "missing", None) for s in successes], policy=policy)
    manifest = {"protocol": {"arms": ["control"]}, "cases": []}
    for i in range(len(successes)):
        manifest["cases"].append(
            {"case_id": f"case-{i}", "task_suite_name": "s", "task_name": f"t{2 * i // len(successes)}"}
        )
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    header = dataclasses.replace(run.header, manifest_sha256=hashlib.sha256(text.encode()).hexdigest())
    with RunWriter.open(folder / "eval", header, text) as writer:
        for i, success in enumerate(successes):
            writer.append(dataclasses.replace(a_record(i, "base", "none", bool(success), None), progress=progress), {})
    return load_run(folder / "eval")


def test_evaluations_are_compared_too(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    runs = [
        evaluation(tmp_path / "a", [1, 1, 0, 0, 0, 0], "left"),
        evaluation(tmp_path / "b", [1, 1, 1, 1, 1, 0], "right", progress=0.75),
    ]
    c = compare([results_of(run) for run in runs])
    assert c["arms"] == ["base"]
    assert list(c["contrasts"]) == ["base"]
    [contrast] = c["contrasts"]["base"]
    assert (contrast["left_only"], contrast["right_only"], contrast["p"]) == (0, 3, 0.25)
    assert [p["tasks"]["s/t0"]["successes"] for p in c["policies"]] == [2, 3]
    assert [p["mean_progress"] for p in c["policies"]] == [None, 0.75]
    grids = {grid.name: grid for grid in comparison_grids(c)}
    assert list(grids) == ["policies", "tasks", "contrasts"]
    assert grids["policies"].heads[-1] == "progress"
    assert cli.main(["report", *(str(run.directory) for run in runs)]) == 0
    assert "note: all 6 cases are common to all 2 results" in capfd.readouterr().out


# --- the reference's results ---


@needs_run
def test_the_published_run_among_others(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    """Every number of section 8.1, from the folder of the reference, and the same run with one pair less beside it."""
    lines = (RUN / "paired_results.jsonl").read_text().splitlines()
    other = tmp_path / "other" / "paired_results.jsonl"
    other.parent.mkdir()
    # Another policy: fails Dynamic wherever an obstacle was inserted, and lacks the first case.
    rows = [json.loads(line) for line in lines[1:]]
    for row in rows:
        row["intervention_correct"] &= row["change_type"] != "obstacle_insertion"
    other.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert cli.main(["report", str(RUN), str(other.parent), "--json"]) == 0
    c = json.loads(capfd.readouterr().out)
    assert c["common"] == {"cases": 1334, "all": 1335, "not_in_every_set": 1, "without_outcome": 0}
    assert [p["name"] for p in c["policies"]] == ["pi05_physical", "other"]
    assert [p["events"]["obstacle_insertion"]["dynamic"]["successes"] for p in c["policies"]] == [83, 0]
    [dynamic] = c["contrasts"]["dynamic"]
    assert (dynamic["left_only"], dynamic["right_only"]) == (83, 0)
    assert dynamic["p"] == mcnemar_exact(83, 0)
    assert any("holds only pairs whose event was answered" in note for note in c["notes"])


@needs_run
def test_the_published_run_by_its_folder_and_in_tables(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    assert cli.main(["report", str(RUN), "--json", "--tables", str(tmp_path / "t")]) == 0
    s = json.loads(capfd.readouterr().out)
    assert s["outcomes"] == {"preserved": 1076, "gained": 27, "regressed": 213, "failed": 19}
    assert s["mcnemar_p"] == 4.795549348663333e-37
    assert s["delta_ci95"] == [-16.03, -11.9101]
    assert (s["mean_stale_actions"], s["median_stale_actions"]) == (pytest.approx(2.002247, abs=1e-6), 2)
    assert list(s["stale_actions"]) == ["0", "1", "2", "3", "4"]
    assert list(s["breakdowns"]["severity"]) == ["low", "medium", "high"]
    assert {suite: g["pairs"] for suite, g in s["breakdowns"]["suite"].items()} == {
        "libero_10": 318,
        "libero_goal": 261,
        "libero_object": 456,
        "libero_spatial": 300,
    }
    assert list(s["breakdowns"]["source"]) == ["plain"]
    published = json.loads((RUN / "benchmark_summary.json").read_text())["metrics"]
    for dimension, group in (("severity", "by_severity"), ("draw", "by_intervention_draw")):
        for name, want in published[group].items():
            got = s["breakdowns"][dimension][name]
            assert round(got["delta_pp"] / 100, 6) == want["paired_robustness_delta"]
            assert [round(v / 100, 6) for v in got["delta_ci95"]] == want["paired_robustness_delta_95ci_bootstrap"]
            assert got["mcnemar_p"] == want["mcnemar_exact_two_sided_p"]
    rows = read_csv(tmp_path / "t" / "events.csv")
    assert [(r["event"], r["regressed"]) for r in rows][-2:] == [("obstacle_insertion", "87"), ("all", "213")]
    assert float(rows[-1]["mcnemar_p"]) == 4.795549348663333e-37
    assert (float(rows[-1]["delta_ci95_low"]), float(rows[-1]["delta_ci95_high"])) == (-16.03, -11.9101)
    # For every event, the profiles of the suites add up to the event's own losses.
    for event, group in s["events"].items():
        cells = [g[event] for g in s["profiles"]["suite"].values()]
        assert sum(cell["pairs"] for cell in cells) == group["pairs"]
        lost = sum(cell["delta_pp"] * cell["pairs"] for cell in cells if cell["pairs"])
        assert lost / group["pairs"] == pytest.approx(group["delta_pp"])


def test_categories_have_a_macro_mean_and_sources(tmp_path: Path):
    def label(manifest: dict[str, Any]) -> None:
        names = [
            "Light Conditions",
            "LIBERO-PRO/object_shape",
            "LIBERO-PRO/object_shape",
            "LIBERO-PRO/object_shape",
        ] * 2
        for case, name in zip(manifest["cases"], names, strict=True):
            case |= {
                "substrate_category": name,
                "substrate_difficulty": 2 if name[0] == "L" and name[1] == "i" else None,
            }

    s = summarise(rewrite(outcomes(tmp_path / "a", LEFT), label))
    assert {k: g["pairs"] for k, g in s["breakdowns"]["source"].items()} == {"LIBERO-PRO": 6, "LIBERO-Plus": 2}
    assert {k: g["pairs"] for k, g in s["breakdowns"]["difficulty"].items()} == {"2": 2}
    # Light: cases 0, 4: Base 1 0, Dynamic 1 0. Shape: the other six, all Base, Dynamic 3 of 6.
    macro = s["category_macro"]
    assert (macro["categories"], macro["base_rate"], macro["dynamic_rate"]) == (2, 0.75, 0.5)
    assert macro["delta"] == -0.25
    grids = {grid.name: grid for grid in run_grids(s)}
    assert [row[:2] for row in grids["breakdowns"].rows if row[0] == "category"] == [
        ("category", "LIBERO-PRO/object_shape"),
        ("category", "Light Conditions"),
        ("category", "macro mean"),
    ]


# --- tables ---


def read_csv(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text("utf-8"))))


def test_tables_in_three_formats(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    a, b = (
        outcomes(tmp_path / "a", LEFT, policy="l_50%").directory,
        outcomes(tmp_path / "b", RIGHT, policy="r").directory,
    )
    assert cli.main(["report", str(a), str(b), "--tables", str(tmp_path / "t" / "deep")]) == 0
    names = {p.name for p in (tmp_path / "t" / "deep").iterdir()}
    assert "all 8 cases are common" in (tmp_path / "t" / "deep" / "notes.txt").read_text()
    assert "all 8 cases are common" in (tmp_path / "t" / "deep" / "policies.tex").read_text()
    assert names == {"notes.txt"} | {
        f"{n}.{e}"
        for n in ("policies", "profile", "contrasts", "events", "breakdowns", "agreement")
        for e in ("md", "csv", "tex")
    }
    rows = read_csv(tmp_path / "t" / "deep" / "policies.csv")
    assert [(r["policy"], r["base_successes"], float(r["delta_pp"])) for r in rows] == [
        ("l_50%", "7", -37.5),
        ("r", "7", -12.5),
    ]
    tex = (tmp_path / "t" / "deep" / "policies.tex").read_text()
    assert r"l\_50\%" in tex
    assert "$-$37.5" in tex
    for text in (tex, (tmp_path / "t" / "deep" / "breakdowns.tex").read_text()):
        body = text.split(r"\toprule")[1].split(r"\bottomrule")[0].splitlines()
        columns = text.split(r"\begin{tabular}{@{}")[1].split("@{}}")[0]
        assert {line.count(" & ") + 1 for line in body if line.endswith(r"\\")} == {len(columns)}
    assert cli.main(["report", str(a), "--tables", str(a / "run.json")]) == 2
    assert "cannot write tables" in capfd.readouterr().err


def test_cells_of_a_table():
    grid = Grid(
        "t",
        "Title & more",
        (
            Column("name", "na|me"),
            Column("p", "p", lambda p: f"{p:.2e}"),
            Column("ci", "95% CI", lambda b: f"{b[0]:+.1f} .. {b[1]:+.1f}", interval=True),
        ),
        (("a|b_c", 1e-12, (-2.5, 1.25)), ("all", None, None)),
        "legend",
        total=True,
    )
    assert to_csv(grid) == "name,p,ci_low,ci_high\na|b_c,1e-12,-2.5,1.25\nall,,,\n"
    lines = to_markdown(grid).splitlines()
    assert lines[4:] == [r"| a\|b_c | 1.00e-12 | -2.5 .. +1.2 |", "| **all** | **-** | **-** |", "", "legend"]
    tex = to_latex(grid)
    assert r"a\textbar{}b\_c & $1.00\times10^{-12}$ & [$-$2.5, +1.2] \\" in tex
    assert "\\midrule\nall & - & - \\\\\n\\bottomrule" in tex
    assert r"\caption{Title \& more. legend}" in tex
    assert latex_text(r"50% of $x_1 {a}~^ \cmd Δ π") == (
        r"50\% of \$x\_1 \{a\}\textasciitilde{}\textasciicircum{} \textbackslash{}cmd $\Delta$ $\pi$"
    )
    assert next(csv.reader(io.StringIO(to_csv(grid)))) == ["name", "p", "ci_low", "ci_high"]


# --- progress ---


def with_progress(run: Run, values: dict[tuple[int, str], float]) -> Run:
    records = [
        dataclasses.replace(r, progress=values.get((int(r.case_id.split("-")[1]), str(r.arm)))) for r in run.records
    ]
    return dataclasses.replace(run, records=tuple(records))


def test_mean_progress_of_both_arms(tmp_path: Path):
    run = outcomes(tmp_path / "a", [(1, 1), (1, 0), (0, 0), (1, None)])
    values = {(0, "base"): 1.0, (0, "dynamic"): 1.0, (1, "base"): 1.0, (1, "dynamic"): 0.25, (3, "base"): 1.0}
    s = summarise(with_progress(run, values))
    assert s["mean_progress"] == {"pairs": 2, "base": 1.0, "dynamic": 0.625}
    assert s["events"]["target_relocation"]["mean_progress"] == {"pairs": 1, "base": 1.0, "dynamic": 0.25}
    from mjx_bench.report import html_page, table

    assert table.columns(s)[-1] == "progress"
    assert [row[-1] for row in table.rows(s)] == ["1.00 → 1.00", "1.00 → 0.25", "1.00 → 0.62"]
    assert "Base and Dynamic at the end, mean of 2 pairs that measure it" in html_page.render(s)
    assert run_grids(s)[0].heads[-2:] == ("Base progress", "Dynamic progress")
    plain = summarise(run)
    assert plain["mean_progress"] == {"pairs": 0, "base": None, "dynamic": None}
    assert "progress" not in table.columns(plain)


def test_mean_progress_of_an_evaluation(tmp_path: Path):
    from mjx_bench.report import html_page, table
    from mjx_bench.report.evaluation import summarise_evaluation

    run = evaluation(tmp_path, [1, 0, 1, 0], "p", progress=0.5)
    s = summarise_evaluation(run)
    assert s["mean_progress"] == s["tasks"]["s/t0"]["mean_progress"] == 0.5
    assert table.columns(s)[-1] == "progress"
    assert table.rows(s)[-1][-1] == "0.50"
    assert "progress" in evaluation_grids(s)[0].heads
    assert "mean of those that measure it" in html_page.render(s)


# --- cadence ---


def test_curves_over_the_query_interval():
    def setting(policy: str | None, h: int | None, q: int | None) -> dict[str, Any]:
        arm = {"successes": 1, "rate": 0.5, "wilson95": [0.1, 0.9]}
        return {
            "policy": policy,
            "horizon": h,
            "query_interval": q,
            "pairs": 2,
            "base": arm,
            "dynamic": arm,
            "delta_pp": 0.0,
        }

    grid = [(2, 2), (16, 4), (8, 8), (16, 16), (16, 2), (32, 32)]
    found = curves(
        [setting("x", h, q) for h, q in grid] + [setting("y", 10, 5), setting(None, 2, 2), setting("x", None, 3)]
    )
    assert [(c["policy"], c["protocol"], [p["query_interval"] for p in c["points"]]) for c in found] == [
        ("x", "H = Q", [2, 8, 16, 32]),
        ("x", "H = 16", [2, 4, 16]),
    ]
    assert curves([setting("x", 8, 4), setting("x", 8, 4)]) == [], "one setting run twice is no curve"


def test_curves_over_the_delay(tmp_path: Path):
    settings = [(16, 4, 0), (16, 8, 0), (16, 4, 2), (16, 8, 2), (16, 4, 4)]
    runs = [
        outcomes(tmp_path / f"{h}-{q}-{d}", LEFT, policy="x", horizon=h, query_interval=q, delay=d)
        for h, q, d in settings
    ]
    c = compare([results_of(run) for run in runs])
    assert [p["name"] for p in c["policies"]][::2] == [f"x H=16 Q=4 delay={d}" for d in (0, 2, 4)]
    assert c["notes"] == ["all 8 cases are common to all 5 results"]
    found = [(x["protocol"], x["over"], [p[x["over"]] for p in x["points"]]) for x in c["cadence"]]
    assert found == [
        ("H = 16, delay 0", "query_interval", [4, 8]),
        ("H = 16, delay 2", "query_interval", [4, 8]),
        ("H = 16, Q = 4", "delay", [0, 2, 4]),
        ("H = 16, Q = 8", "delay", [0, 2]),
    ]
    assert "delay" in comparison_grids(c)[0].heads
