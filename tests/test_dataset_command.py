"""`mjx-bench demos` and `mjx-bench dataset` as they are typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("pyarrow.parquet", reason="needs the extra: train")

from scripts.dataset import DatasetFiles
from scripts.dataset import run as run_dataset
from scripts.demos import Demos, Progress
from scripts.demos import run as run_demos
from tests.lerobot_made import LENGTHS, make
from tests.test_lerobot import missing_video, shifted_timestamps
from train.collect.collect import State
from train.lerobot.schema import V21, V30


def told(options: DatasetFiles) -> tuple[int, dict]:
    said: list[dict] = []
    return run_dataset(options, said.append), said[0]


def test_show_check_and_convert(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    made = make(tmp_path / "made", V21, tmp_path / "films")
    status, found = told(DatasetFiles("show", made, json=True))
    assert (status, found["episodes"], found["frames"], found["version"]) == (0, 3, sum(LENGTHS), V21)
    assert found["subtasks"] == ["a", "b", "c"]
    status, found = told(DatasetFiles("convert", made, "lerobot-v3.0", tmp_path / "new", json=True))
    assert (status, found["version"], found["frames"]) == (0, V30, sum(LENGTHS))
    status, found = told(DatasetFiles("check", tmp_path / "new", json=True))
    assert (status, found["whole"], found["faults"]) == (0, True, ())
    capsys.readouterr()
    for spoil in (missing_video, shifted_timestamps):
        spoil(made)
    status, found = told(DatasetFiles("check", made, json=True))
    assert (status, found["whole"]) == (1, False)
    assert {f["kind"] for f in found["faults"]} == {"videos", "timestamps", "statistics"}
    assert run_dataset(DatasetFiles("check", made), lambda value: None) == 1
    out = capsys.readouterr()
    assert "timestamps: " in out.out
    assert "this video is missing" in out.out
    assert "3 faults in 3 episodes" in out.err


def test_mistakes_are_one_line(tmp_path: Path):
    from mjx_bench.errors import BenchError

    with pytest.raises(BenchError, match="no such folder; give the folder that"):
        run_dataset(DatasetFiles("show", tmp_path / "none"), lambda value: None)
    with pytest.raises(BenchError, match="dataset convert needs --to"):
        run_dataset(DatasetFiles("convert", tmp_path), lambda value: None)
    with pytest.raises(BenchError, match="takes neither --to nor --out"):
        run_dataset(DatasetFiles("check", tmp_path, to="lerobot-v3.0"), lambda value: None)
    with pytest.raises(BenchError, match=r"unknown task of tabletop 'pick_up'"):
        run_demos(Demos(suite="tabletop", task=(("pick_up",),), out=tmp_path / "d"), lambda value: None)
    with pytest.raises(BenchError, match="pictures of 63 pixels a side; give an even number"):
        run_demos(Demos(suite="tabletop", task=(("0",),), out=tmp_path / "d", image_size=63), lambda value: None)
    assert not (tmp_path / "d").exists()


def test_a_dry_run_collects_nothing(tmp_path: Path):
    said: list[dict] = []
    options = Demos(suite="tabletop", task=(("pick_place",),), out=tmp_path / "d", episodes=7, dry_run=True)
    assert run_demos(options, said.append) == 0
    assert [row["name"] for row in said[0]["tasks"]] == ["pick_place"]
    assert (said[0]["episodes"], said[0]["first"], said[0]["format"]) == (7, 10_000, V21)
    assert json.dumps(said[0])
    assert not (tmp_path / "d").exists()


def test_progress_says_how_long_it_takes(capsys: pytest.CaptureFixture[str]):
    with Progress() as progress:
        progress(State(2, 8, 0, 2))
        progress._started -= 60.0
        progress(State(8, 8, 1, 2))
    assert "8/8 demonstrations, 6.0 a minute, 0:00 left, 1 instances not solved" in capsys.readouterr().err
