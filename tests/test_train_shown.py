"""A trained policy is not evaluated on what it was shown: its folder says what that was, wherever it is taken."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("flax")

from mjx_bench.cases import evaluation
from mjx_bench.errors import BenchError
from mjx_bench.manifest import Case
from policies.pi05 import checkpoint
from train import run_folder, shown
from train.lerobot.schema import DEMONSTRATIONS

ROWS = [{"name": "pick_place", "index": 1, "instances": [10_000, 10_002]}]
DEMONSTRATED = {"suite": "tabletop", "tasks": ROWS, "training_instances": [10_000, 1_010_000]}


def cases(*instances: int, suite: str = "tabletop") -> list[Case]:
    return [Case(f"case {i}", suite, 1, i, 195, "middle", None) for i in instances]


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    path = tmp_path / "data" / DEMONSTRATIONS
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(DEMONSTRATED))
    return tmp_path / "data"


@pytest.fixture
def run(tmp_path: Path, dataset: Path) -> Path:
    """A run's folder, as far as it matters here."""
    step = tmp_path / "run" / checkpoint.STEPS / "20"
    (step / checkpoint.PARAMS).mkdir(parents=True)
    shown.write(step, shown.of_datasets([dataset]))
    return tmp_path / "run"


def test_instances_for_training_are_refused_and_those_for_evaluation_are_not(run: Path):
    for name in (str(run), f"pi05:{run}", f"libero_max:pi05:{run}", str(run / "checkpoints" / "20")):
        shown.check(name, cases(0, 9_999))
        with pytest.raises(
            BenchError,
            match="tabletop pick_place instance 10002 is one for training, and was demonstrated; evaluate on instances"
            " outside 10000 to 1009999",
        ):
            shown.check(name, cases(3, 10_002))
        with pytest.raises(BenchError, match="instance 10001 is one for training; evaluate on"):
            shown.check(name, cases(10_001))


def test_other_suites_and_policies_are_nobody_s_training(run: Path):
    shown.check(str(run), cases(10_002, suite="libero_spatial"))
    shown.check("scripted.reactive", cases(10_002))


def test_a_checkpoint_says_it_after_its_data_is_gone_and_an_older_one_is_asked_by_its_run(run: Path, dataset: Path):
    step = run / checkpoint.STEPS / "20"
    moved = run.parent / "elsewhere"
    shutil.copytree(step, moved)
    (step / shown.FILE).unlink()
    (run / run_folder.SETTINGS).write_text(json.dumps({"config": {}, "data": {"folders": [str(dataset)]}}))
    for name in (run, moved):
        with pytest.raises(BenchError, match="instance 10000 is one for training"):
            shown.check(str(name), cases(10_000))
    shutil.rmtree(dataset)
    shown.check(str(run), cases(10_000))
    with pytest.raises(BenchError, match="instance 10000 is one for training"):
        shown.check(str(moved), cases(10_000))


def test_the_command_refuses_before_it_runs_anything(run: Path, tmp_path: Path):
    from evals import registry
    from mjx_bench.settings import RunSettings
    from scripts import running

    task = registry.load_task("tabletop", 1, seeds=(195,))
    manifest = evaluation([task], 10_001, 195)
    out = tmp_path / "results"
    with pytest.raises(
        BenchError, match="tabletop pick_place instance 10000 is one for training, and was demonstrated"
    ):
        running.evaluate(manifest, {out: RunSettings(str(run), 8, 8)}, policy=None)  # type: ignore[arg-type]
    assert not out.exists()
