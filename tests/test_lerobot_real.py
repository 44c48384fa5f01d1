"""The real LeRobot, of a version that reads v2.1 and of one that reads v3.0, on the other side.

Each lives in an environment of its own, with the torch that it pins; `LEROBOT_V21_PYTHON` and `LEROBOT_V30_PYTHON` name the
interpreters (lerobot 0.3.3 and 0.4.x).
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow.parquet", reason="needs the extra: train")

from evals import registry
from policies.scripted import Reactive
from tests.lerobot_child import CAMERA
from tests.lerobot_made import CAMERAS, FEATURES, FPS, LENGTHS, TASKS, columns_of, make
from train.collect.collect import Wish, collect
from train.collect.demonstrator import Errors
from train.lerobot.check import check
from train.lerobot.convert import convert
from train.lerobot.read import Dataset, open_dataset
from train.lerobot.schema import V21, V30, VERSIONS

pytestmark = pytest.mark.slow

CODEC = 2.5 / 255  # between two decoders of one film, which turn its colours into RGB each in its own way
ENCODED = 6.0  # grey levels on average: LeRobot's own encoder


def lerobot(version: str, *args: str | Path) -> None:
    name = f"LEROBOT_{version.replace('.', '').upper()}_PYTHON"
    python = os.environ.get(name)
    if python is None:
        pytest.skip(f"{name} names no interpreter with lerobot for {version}")
    scratch = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(Path(args[-1]).parent / "hf")}
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | scratch
    command = [python, Path(__file__).with_name("lerobot_child.py"), *args]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]


def assert_lerobot_sees(dataset: Dataset, out: Path) -> None:
    """Everything that LeRobot gave of a dataset, frame by frame, is what we read."""
    with np.load(out) as stored:
        theirs = {name: stored[name] for name in stored.files}
    assert int(theirs["episodes"]) == len(dataset.lengths)
    assert float(theirs["fps"]) == dataset.fps
    ours = [dataset.columns(e) for e in range(len(dataset.lengths))]
    for name, feature in dataset.features.items():
        if feature.visual:
            pictures = np.concatenate([dataset.pictures(name, e) for e in range(len(dataset.lengths))])
            apart = np.abs(theirs[name] - pictures.transpose(0, 3, 1, 2) / 255.0)
            assert apart.max() <= CODEC, (name, float(apart.max()))
        else:
            want = np.concatenate([columns[name] for columns in ours])
            np.testing.assert_array_equal(theirs[name], want, err_msg=name)
            assert feature.dtype == "string" or theirs[name].dtype == want.dtype
    tasks = np.concatenate([columns["task_index"] for columns in ours])
    assert theirs["task"].tolist() == [dataset.tasks[i] for i in tasks]
    if dataset.version == V30 and "subtask_index" in dataset.features:
        numbers = np.concatenate([columns["subtask_index"] for columns in ours])
        assert theirs["subtask"].tolist() == [dataset.language["subtasks"][i] for i in numbers]
    for name in ("observation.state", "action", *dataset.cameras):
        for k in ("min", "max", "mean", "std", "count"):
            np.testing.assert_allclose(theirs[f"stats/{name}/{k}"], dataset.stats[name][k], rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("version", VERSIONS)
def test_lerobot_reads_what_is_written(tmp_path: Path, version: str):
    made = make(tmp_path / "made", version, tmp_path / "films")
    lerobot(version, "read", made, tmp_path / "theirs.npz")
    dataset = open_dataset(made)
    assert_lerobot_sees(dataset, tmp_path / "theirs.npz")
    with np.load(tmp_path / "theirs.npz") as theirs:
        for name in ("observation.state", "action", "expert_chunk", "word"):
            want = np.concatenate([columns_of(e)[name] for e in range(len(LENGTHS))])
            np.testing.assert_array_equal(theirs[name], want)
        assert set(theirs["task"]) == set(TASKS)
        assert int(theirs["fps"]) == FPS
        assert set(CAMERAS) <= set(theirs.files)
        assert set(FEATURES) <= set(theirs.files)


@pytest.fixture(scope="module")
def demos(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Version to demonstrations of a task, with pictures by the ray tracer."""
    root = tmp_path_factory.mktemp("demos")
    wish = Wish(2, V21, 64, "warp", Errors(noise=0.4, detours=0.02))
    collect([registry.load_task("tabletop", 0)], Reactive(), wish, root / V21, lanes=2)
    convert(open_dataset(root / V21), root / V30, V30)
    return {version: root / version for version in VERSIONS}


@pytest.mark.parametrize("version", VERSIONS)
def test_lerobot_reads_demonstrations(demos: dict[str, Path], tmp_path: Path, version: str):
    lerobot(version, "read", demos[version], tmp_path / "theirs.npz")
    assert_lerobot_sees(open_dataset(demos[version]), tmp_path / "theirs.npz")


# Rules that take state and action for the same joints, and fall over where there are 8 numbers of one and 7 of the other.
UNFIT = {"ACTION_STATE_DIVERGENCE_CRASHED", "ACTION_RANGE_MISMATCH_CRASHED"}


def test_the_linter_finds_no_fault_in_demonstrations(demos: dict[str, Path], tmp_path: Path):
    lint = Path(os.environ.get("LEROBOT_V30_PYTHON", "")).with_name("lelint")
    if not lint.is_file():
        pytest.skip("LEROBOT_V30_PYTHON names no interpreter with lerobot-lint beside it")
    subprocess.run([lint, "check", demos[V30], "--json", tmp_path / "found.json"], capture_output=True, timeout=600)
    found = json.loads((tmp_path / "found.json").read_text())
    assert {f["check"] for f in found["findings"] if f["severity"] == "error"} <= UNFIT, found


@pytest.mark.parametrize("version", VERSIONS)
def test_lerobot_reads_what_is_converted(tmp_path: Path, version: str):
    made = make(tmp_path / "made", V30 if version == V21 else V21, tmp_path / "films")
    convert(open_dataset(made), tmp_path / "converted", version)
    lerobot(version, "read", tmp_path / "converted", tmp_path / "theirs.npz")
    assert_lerobot_sees(open_dataset(tmp_path / "converted"), tmp_path / "theirs.npz")


@pytest.mark.parametrize("version", VERSIONS)
def test_what_lerobot_writes_is_read_and_converted(tmp_path: Path, version: str):
    lerobot(version, "write", tmp_path / "theirs", tmp_path / "written.npz")
    other = V30 if version == V21 else V21
    dataset = open_dataset(tmp_path / "theirs")
    assert dataset.version == version
    assert not check(tmp_path / "theirs").faults
    convert(dataset, tmp_path / "other", other)
    assert not check(tmp_path / "other").faults
    with np.load(tmp_path / "written.npz") as written:
        for found in (dataset, open_dataset(tmp_path / "other")):
            columns = [found.columns(e) for e in range(len(found.lengths))]
            for name in ("observation.state", "action"):
                np.testing.assert_array_equal(np.concatenate([c[name] for c in columns]), written[name])
            pictures = np.concatenate([found.pictures(CAMERA, e) for e in range(len(found.lengths))])
            assert np.abs(pictures.astype(int) - written[CAMERA]).mean() < ENCODED
            assert found.tasks == ("task 0", "task 1")
    lerobot(other, "read", tmp_path / "other", tmp_path / "again.npz")
    assert_lerobot_sees(open_dataset(tmp_path / "other"), tmp_path / "again.npz")
