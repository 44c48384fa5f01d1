"""Reports of small hand-made runs, whose numbers can be checked on paper."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from mjx_bench.errors import BenchError
from mjx_bench.records import Header, Record, Run, RunWriter, Shard, load_run
from mjx_bench.report.plot import choose_pair, plot_pair
from mjx_bench.report.summary import summarise
from mjx_bench.report.table import COLUMNS, render, rows, to_markdown

# (event, base success, dynamic success, stale actions); None: void, "missing": not recorded.
SPEC: list[tuple[str, Any, Any, int | None]] = [
    ("target_relocation", True, False, 6),
    ("target_relocation", True, True, 2),
    ("illumination_switch", True, True, 4),
    ("target_relocation", False, True, None),
    ("illumination_switch", False, False, 0),
    ("target_relocation", True, None, None),
    ("obstacle_insertion", True, "missing", None),
    ("set_of_my_own", True, True, None),
]


def hand(target: np.ndarray, turn: int | None, moved: np.ndarray, steps: int) -> np.ndarray:
    """A made-up path, [steps, 3]: down to the target, bending to where it moved to from step `turn` on, then up."""
    out = np.empty((steps, 3))
    pos = np.array([-0.2, 0.0, 1.17])
    for t in range(steps):
        goal = (moved if turn is not None and t >= turn else target) + [0, 0, 0.02]
        if t > 0.7 * steps:
            goal = np.array([0.02, 0.2, 1.15])
        pos = pos + 0.06 * (goal - pos) + 0.0015 * np.array([math.sin(t / 5), math.cos(t / 7), 0])
        out[t] = pos
    return out


def record(i: int, arm: str, event: str, success: bool | None, stale: int | None) -> Record:
    verdict = {True: "success", False: "timeout", None: "void"}[success]
    fired = arm == "dynamic" and stale is not None
    moved = {"entity": "akita_black_bowl_1", "before": [0.05, -0.12, 0.9], "after": [0.11, -0.016, 0.9]}
    applied = (
        {"operation": "move_object", "moved": [moved]}
        if event == "target_relocation"
        else {"operation": "x", "moved": []}
    )
    return Record(
        case_id=f"case-{i}",
        arm=arm,
        verdict=verdict,
        reason="physics diverged" if success is None else "",
        success=success,
        end_step=110 if success else 160,
        success_step=110 if success else None,
        success_end=success,
        trigger_step=34 if stale is not None else None,
        trigger_distance_m=0.179 if stale is not None else None,
        first_response_step=34 + stale if fired and stale is not None else None,
        common_response_step=40 if fired and stale == 6 else None,
        stale_actions=stale if fired else None,
        n_queries=14,
        base_key=f"{i:016x}",
        suite="libero_spatial",
        task_index=0,
        task_name="pick_up_the_black_bowl_between_the_plate_and_the_ramekin_and_place_it_on_the_plate",
        init_state_index=i,
        policy_seed=195,
        change_type=event,
        change_family="GEO",
        severity="high",
        draw=0,
        event=applied if fired else None,
        fork_sha256=None,
        init_sha256=None,
    )


def make_run(
    folder: Path,
    spec: list[tuple[str, Any, Any, int | None]] = SPEC,
    sees_pictures: bool = False,
    undone: tuple[tuple[int, str], ...] = (),
    shard: Shard | None = None,
    **settings: Any,
) -> Run:
    """`undone`: arms, by case and name, whose success did not last to the end."""
    cases = []
    for i, (event, *_) in enumerate(spec):
        scenario = {"change": {"operation": event}} | ({} if event == "set_of_my_own" else {"change_type": event})
        cases.append({"case_id": f"case-{i}", "scenario": scenario})
    text = json.dumps({"cases": cases}, sort_keys=True, separators=(",", ":"))
    header = Header(
        mjx_bench_version="0.1.0",
        git_commit=None,
        git_dirty=None,
        packages={},
        device="test",
        settings={
            "policy": "scripted.reactive",
            "query_interval": 8,
            "horizon": 16,
            "sees_pictures": sees_pictures,
            **settings,
        },
        manifest_sha256=hashlib.sha256(text.encode()).hexdigest(),
        assets={},
        created="2026-01-01T00:00:00+00:00",
        shard=shard,
    )
    target, moved = np.array([0.05, -0.12, 0.9]), np.array([0.11, -0.016, 0.9])
    with RunWriter.open(folder, header, text) as writer:
        # Written last to first: a report follows the manifest, not the order in which cases finished.
        for i, (event, base, dynamic, stale) in reversed(list(enumerate(spec))):
            for arm, success in (("dynamic", dynamic), ("base", base)):
                if success == "missing":
                    continue
                one = record(i, arm, event, success, stale)
                if (i, arm) in undone:
                    one = dataclasses.replace(one, success_end=False)
                turn = 34 + stale if arm == "dynamic" and stale is not None else None
                writer.append(one, {"eef_pos": hand(target, turn, moved, one.end_step)})
    return load_run(folder)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make_run(tmp_path_factory.mktemp("run"))


def test_the_summary_by_hand(run: Run):
    s = summarise(run)
    assert (s["policy"], s["query_interval"], s["horizon"], s["cases"]) == ("scripted.reactive", 8, 16, 8)
    # Scored: cases 0 to 4 and 7. Base 1 1 1 0 0 1, dynamic 0 1 1 1 0 1.
    assert (s["pairs"], s["void"], s["incomplete"]) == (6, 1, ["case-6"])
    assert (s["base"]["successes"], s["base"]["rate"]) == (4, 4 / 6)
    assert (s["dynamic"]["successes"], s["dynamic"]["rate"]) == (4, 4 / 6)
    assert s["outcomes"] == {"preserved": 3, "gained": 1, "regressed": 1, "failed": 1}
    assert s["delta_pp"] == 0
    assert s["conditional_regression"] == 1 / 4
    assert s["retained_performance"] == 1
    assert s["mcnemar_p"] == 1.0
    assert s["trigger_coverage"] == s["response_coverage"] == 4 / 6
    assert s["common_response_coverage"] == 1 / 6
    assert s["mean_stale_actions"] == (6 + 2 + 4 + 0) / 4
    assert s["void_arms"] == [{"case_id": "case-5", "arm": "dynamic", "reason": "physics diverged"}]
    # Wilson for 4 of 6, worked out: (2/3 + z²/12 ± z sqrt(2/54 + z²/144)) / (1 + z²/6).
    assert s["base"]["wilson95"] == pytest.approx([0.29999, 0.903229], abs=1e-5)
    json.dumps(s, allow_nan=False)


def test_the_summary_by_event(run: Run):
    events = summarise(run)["events"]
    assert list(events) == ["illumination_switch", "target_relocation", "obstacle_insertion", "set_of_my_own"]
    target = events["target_relocation"]
    assert (target["pairs"], target["void"]) == (3, 1)
    assert target["delta_pp"] == 0
    assert target["delta_ci95"] == [-100.0, 100.0]
    assert target["mean_stale_actions"] == 4
    light = events["illumination_switch"]
    assert light["delta_pp"] == 0
    assert light["delta_ci95"] == [0, 0]
    assert light["mcnemar_p"] is None
    nothing = events["obstacle_insertion"]
    assert nothing["pairs"] == nothing["void"] == 0
    for field in ("delta_pp", "delta_ci95", "conditional_regression", "trigger_coverage", "mean_stale_actions"):
        assert nothing[field] is None
    assert nothing["base"] == {"successes": 0, "rate": None, "wilson95": None}
    assert set(target) <= set(summarise(run))


def test_notes(tmp_path: Path, run: Run):
    light, incomplete, void = summarise(run)["notes"]
    assert light.startswith("illumination_switch: delta is exactly zero because scripted.reactive sees no pictures")
    assert incomplete.startswith("1 case(s) have an arm missing")
    assert void == "1 pair(s) are void and outside of every rate: physics diverged (1 arm)"
    two = [("illumination_switch", True, True, 0), ("camera_shift", True, True, 0)]
    assert summarise(make_run(tmp_path / "a", two))["notes"][0].startswith("illumination_switch and camera_shift: ")
    assert summarise(make_run(tmp_path / "b", two, sees_pictures=True))["notes"] == []
    broken = [("camera_shift", True, False, 0)]
    assert summarise(make_run(tmp_path / "c", broken))["notes"][0].startswith("FAULT: 1 pair(s) of camera_shift differ")
    assert summarise(make_run(tmp_path / "d", broken, sees_pictures=True))["notes"] == []


def test_success_at_the_end_is_a_column_of_its_own(tmp_path: Path, run: Run):
    spec = [("target_relocation", True, True, 6), ("camera_shift", True, True, 0), ("camera_shift", False, None, 0)]
    s = summarise(make_run(tmp_path, spec, undone=((0, "dynamic"),)))
    assert s["success_any"] == {"base": 1, "dynamic": 1}
    assert s["success_end"] == {"base": 1, "dynamic": 0.5}
    assert s["delta_pp"] == 0, "all else counts success at any step"
    assert s["events"]["target_relocation"]["success_end"] == {"base": 1, "dynamic": 0}
    page = to_markdown(s)
    assert "| target_relocation | 1 | 0 | 1/1 100.0% | 1/1 100.0%, at end 0.0% |" in page
    assert "| camera_shift | 1 | 1 | 1/1 100.0% | 1/1 100.0% |" in page
    assert "at end" not in to_markdown(summarise(run))
    # Six scored pairs, four successes each: nothing was undone.
    assert summarise(run)["success_end"] == summarise(run)["success_any"] == {"base": 4 / 6, "dynamic": 4 / 6}
    nothing = summarise(run)["events"]["obstacle_insertion"]
    assert nothing["success_any"] == nothing["success_end"] == {"base": None, "dynamic": None}


def test_cases_that_were_left_out_are_told(tmp_path: Path):
    s = summarise(make_run(tmp_path, sees_pictures=True, left_out={"needs a package": 480}))
    assert s["left_out"] == {"needs a package": 480}
    assert s["cases"] == len(SPEC)
    assert s["notes"][0] == "480 case(s) left out, and in no number here: needs a package"
    assert "* 480 case(s) left out" in to_markdown(s)


def test_a_shard_says_that_it_is_one(tmp_path: Path):
    shard = Shard(1, 4, "0" * 64, tuple(f"case-{i}" for i in range(32)))
    s = summarise(make_run(tmp_path, sees_pictures=True, shard=shard))
    assert s["cases"] == len(SPEC)
    assert s["notes"][0] == "shard 1/4, of 32 cases in all; mjx-bench merge puts the shards together"


def test_an_a_a_run_says_so_and_whether_its_arms_are_equal(tmp_path: Path):
    same = [("camera_shift", True, True, None), ("target_relocation", False, False, None)]
    s = summarise(make_run(tmp_path / "a", same, no_event=True))
    assert s["notes"] == [
        "A/A run: nothing was changed at any trigger, and both arms of all 2 pairs are equal to the bit"
    ]
    # The same outcome by another path: hands that turned elsewhere.
    other = [*same, ("target_relocation", True, True, 6)]
    [note] = summarise(make_run(tmp_path / "b", other, no_event=True))["notes"]
    assert note.startswith("FAULT: 1 pair(s) of an A/A run differ")


def test_one_void_arm_voids_its_pair_in_either_place(tmp_path: Path):
    spec = [("camera_shift", None, True, 0), ("camera_shift", True, None, 0), ("camera_shift", None, "missing", None)]
    s = summarise(make_run(tmp_path, spec))
    assert (s["pairs"], s["void"], s["incomplete"]) == (0, 3, [])
    assert s["base"]["rate"] is s["dynamic"]["rate"] is s["delta_pp"] is None
    assert len(s["void_arms"]) == 3


def printed(summary: dict[str, Any], width: int) -> str:
    console = Console(width=width, color_system=None)
    with console.capture() as out:
        console.print(render(summary, width))
    return out.get()


def test_the_table_in_a_terminal(run: Run):
    text = printed(summarise(run), 170)
    assert all(column in text for column in COLUMNS)
    (row,) = [line for line in text.splitlines() if line.strip().startswith("target_relocation")]
    assert " ".join(row.split()) == (
        "target_relocation 3 1 2/3 66.7% 2/3 66.7% 0 -100.0 .. +100.0 1 1 1 0 50% 67% 67% 4.0"
    )
    (total,) = [line for line in text.splitlines() if line.strip().startswith("all ")]
    assert total.split()[1:3] == ["6", "1"]


@pytest.mark.parametrize("width", [60, 80, 100, 120, 140])
def test_the_table_fits_its_terminal(run: Run, width: int):
    """Whatever the width, nothing is left out or cut, and every table begins with the events."""
    summary = summarise(run)
    lines = printed(summary, width).splitlines()
    assert max(map(len, lines)) <= width
    found: dict[str, str] = dict.fromkeys((*summary["events"], "all"), "")
    header = ""
    for line in lines[: next(i for i, line in enumerate(lines) if line.startswith("base, dynamic:"))]:
        name, _, figures = " ".join(line.split()).partition(" ")
        if name in found:
            found[name] += f" {figures}"
        elif name == "event":
            header += f" {figures}"
    assert header == " " + " ".join(COLUMNS[1:])
    assert found == {cells[0]: " " + " ".join(cells[1:]) for cells in rows(summary)}


def test_the_markdown_page(run: Run):
    lines = to_markdown(summarise(run)).splitlines()
    assert lines[0] == "# scripted.reactive · H = 16, Q = 8 · 8 cases"
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 2 + 4 + 1
    assert {line.count("|") for line in table} == {len(COLUMNS) + 1}
    assert table[2].startswith("| illumination_switch | 2 | 0 | 1/2 50.0% | 1/2 50.0% | 0 | +0.0 .. +0.0 |")
    assert lines[-1].startswith("* 1 pair(s) are void")


def test_the_picture_shows_a_broken_relocation(tmp_path: Path, run: Run):
    pair = choose_pair(run)
    assert pair is not None
    assert pair.case_id == "case-0"
    path = plot_pair(run, pair, tmp_path / "pair.png")
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert len(data) > 20_000
    with pytest.raises(BenchError, match="cannot write the picture"):
        plot_pair(run, pair, tmp_path / "no" / "pair.png")


def test_pictures_need_an_event_that_fired(tmp_path: Path, run: Run):
    kept = [
        ("target_relocation", True, True, 3),
        ("target_relocation", True, False, None),
        ("camera_shift", True, False, 1),
    ]
    pair = choose_pair(make_run(tmp_path / "a", kept))
    assert pair is not None
    assert pair.case_id == "case-0"
    assert choose_pair(make_run(tmp_path / "b", kept[1:])) is None
    never = dataclasses.replace(pair, dynamic=dataclasses.replace(pair.dynamic, event=None))
    with pytest.raises(BenchError, match="nothing to draw"):
        plot_pair(run, never, tmp_path / "x.png")
