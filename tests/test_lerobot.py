"""LeRobot datasets: what is written is read again, in both versions and through conversions; what is broken is named."""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("pyarrow.parquet", reason="needs the extra: train")

import pyarrow as pa
import pyarrow.parquet as pq

from mjx_bench.errors import BenchError
from tests.lerobot_made import CAMERAS, FEATURES, FPS, LENGTHS, SIDE, TASKS, columns_of, frames_of, make
from train.lerobot import schema, stats, video
from train.lerobot.check import check, require
from train.lerobot.convert import convert
from train.lerobot.layouts import About, Part
from train.lerobot.read import Dataset, open_dataset
from train.lerobot.schema import V21, V30, VERSIONS, Feature
from train.lerobot.write import write_dataset

CODEC_MEAN, CODEC_MOST = 3.0, 70  # grey levels of 256 that encoding costs: one-pixel stripes lose most


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Version to a dataset, not to be changed."""
    root = tmp_path_factory.mktemp("lerobot")
    return {version: make(root / version, version, root / "films") for version in VERSIONS}


@pytest.fixture
def copied(made: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    def copy(version: str) -> Path:
        return shutil.copytree(made[version], tmp_path / version)

    return copy


def assert_is_what_was_made(dataset: Dataset) -> None:
    assert dataset.lengths.tolist() == list(LENGTHS)
    assert dataset.tasks == TASKS
    assert dataset.cameras == CAMERAS
    assert dataset.fps == FPS
    assert dataset.features == FEATURES
    assert dataset.language == {"stages": ["one", "two"], "subtasks": ["a", "b", "c"]}
    first = 0
    for episode, length in enumerate(LENGTHS):
        assert dataset.episodes[episode].extra == {"instance": 10_000 + episode}
        columns = dataset.columns(episode)
        for name, values in columns_of(episode).items():
            np.testing.assert_array_equal(columns[name], values)
            assert columns[name].dtype == (object if name == "word" else FEATURES[name].dtype)
        np.testing.assert_array_equal(columns["timestamp"], np.float32(np.arange(length) / FPS))
        np.testing.assert_array_equal(columns["index"], first + np.arange(length))
        np.testing.assert_array_equal(columns["episode_index"], np.full(length, episode))
        first += length
        for camera in CAMERAS:
            apart = np.abs(dataset.pictures(camera, episode).astype(int) - frames_of(camera, episode))
            assert apart.mean() < CODEC_MEAN
            assert apart.max() < CODEC_MOST


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_written_is_read(made: dict[str, Path], version: str):
    dataset = open_dataset(made[version])
    assert dataset.version == version
    assert_is_what_was_made(dataset)
    report = check(made[version])
    assert not report.faults
    assert (report.episodes, report.frames) == (3, sum(LENGTHS))
    assert report.constant == {"action": ("y",)}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_other_version_and_back_loses_nothing(made: dict[str, Path], tmp_path: Path, version: str):
    other = V30 if version == V21 else V21
    convert(open_dataset(made[version]), tmp_path / "other", other)
    assert_is_what_was_made(open_dataset(tmp_path / "other"))
    assert not check(tmp_path / "other").faults
    convert(open_dataset(tmp_path / "other"), tmp_path / "back", version)
    for path in sorted(p for p in made[version].rglob("*") if p.is_file()):
        again = tmp_path / "back" / path.relative_to(made[version])
        if path.suffix == ".mp4":  # the packets are the same, the container's header is not always
            times = video.times(path)
            np.testing.assert_array_equal(video.times(again), times)
            pictures = [video.decode(p, 0.0, len(times), FPS) for p in (path, again)]
            np.testing.assert_array_equal(*pictures)
        else:
            assert again.read_bytes() == path.read_bytes(), path
    there = {p.relative_to(tmp_path / "back") for p in (tmp_path / "back").rglob("*")}
    assert there == {p.relative_to(made[version]) for p in made[version].rglob("*")}


def test_the_same_episodes_give_the_same_bytes(made: dict[str, Path], tmp_path: Path):
    again = make(tmp_path / "again", V30, tmp_path / "films")
    for path in sorted(p for p in made[V30].rglob("*") if p.is_file()):
        assert (again / path.relative_to(made[V30])).read_bytes() == path.read_bytes(), path


def test_large_files_are_divided(made: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(schema, "DATA_MB", 1e-6)
    monkeypatch.setattr(schema, "VIDEO_MB", 1e-6)
    convert(open_dataset(made[V21]), tmp_path / "many", V30)
    names = {p.relative_to(tmp_path / "many").as_posix() for p in (tmp_path / "many").rglob("*") if p.is_file()}
    assert {f"data/chunk-000/file-00{k}.parquet" for k in range(3)} <= names
    assert {f"videos/{c}/chunk-000/file-00{k}.mp4" for k in range(3) for c in CAMERAS} <= names
    assert_is_what_was_made(open_dataset(tmp_path / "many"))
    assert not check(tmp_path / "many").faults


def test_statistics(made: dict[str, Path]):
    states = np.concatenate([columns_of(e)["observation.state"] for e in range(3)]).astype(float)
    for version in VERSIONS:
        own = open_dataset(made[version]).stats
        assert set(own) == set(FEATURES) - {"word"}
        state = own["observation.state"]
        assert set(state) == set(stats.NAMES)
        np.testing.assert_allclose(state["mean"], states.mean(0), rtol=1e-12)
        np.testing.assert_allclose(state["std"], states.std(0), rtol=1e-12)
        np.testing.assert_array_equal(state["min"], states.min(0))
        np.testing.assert_allclose(state["q01"], np.quantile(states, 0.01, axis=0), rtol=1e-12)
        np.testing.assert_allclose(state["q90"], np.quantile(states, 0.90, axis=0), rtol=1e-12)
        assert state["count"].tolist() == [sum(LENGTHS)]
        pictures = np.concatenate([frames_of(CAMERAS[0], e) for e in range(3)]) / 255.0
        np.testing.assert_allclose(own[CAMERAS[0]]["mean"].ravel(), pictures.mean((0, 1, 2)), rtol=1e-9)
        np.testing.assert_allclose(own[CAMERAS[0]]["std"].ravel(), pictures.std((0, 1, 2)), rtol=1e-9)
        assert own[CAMERAS[0]]["q50"].shape == (3, 1, 1)


def test_quantiles_of_pictures_are_those_of_their_pixels():
    frames = np.random.default_rng(0).integers(0, 256, (9, 8, 8, 3)).astype(np.uint8)
    own = stats.of_pictures(frames)
    for name, q in zip(stats.QUANTILE_NAMES, stats.QUANTILES, strict=True):
        want = np.quantile(frames.reshape(-1, 3), q, axis=0, method="higher") / 255.0
        np.testing.assert_allclose(own[name].ravel(), want, atol=1.01 / 255)


def edit_parquet(path: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    table = pq.read_table(path)
    columns = {name: table[name].to_pylist() for name in table.column_names}
    edit(columns)

    fields = [
        pa.array(values, table.schema.field(n).type if n in table.column_names else None)
        for n, values in columns.items()
    ]
    pq.write_table(pa.table(dict(zip(columns, fields, strict=True))), path)


def first_data(folder: Path) -> Path:
    return sorted((folder / "data").rglob("*.parquet"))[0]


def first_film(folder: Path) -> Path:
    return sorted((folder / "videos").rglob("*.mp4"))[0]


def missing_video(folder: Path) -> None:
    first_film(folder).unlink()


def short_video(folder: Path) -> None:
    path = first_film(folder)
    count = len(video.times(path))
    frames = video.decode(path, 0.0, count, FPS)
    video.encode(path, frames[:-1], FPS)


def no_video(folder: Path) -> None:
    first_film(folder).write_bytes(b"half a page of text, and no film" * 99)


def cut_video(folder: Path) -> None:
    path = first_film(folder)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def other_pictures(folder: Path) -> None:
    path = first_film(folder)
    frames = video.decode(path, 0.0, len(video.times(path)), FPS)
    video.encode(path, 255 - frames, FPS)


def shifted_timestamps(folder: Path) -> None:
    def shift(columns: dict[str, Any]) -> None:
        columns["timestamp"] = [t + 0.01 * (k >= 4) for k, t in enumerate(columns["timestamp"])]

    edit_parquet(first_data(folder), shift)


def not_a_number(folder: Path) -> None:
    def spoil(columns: dict[str, Any]) -> None:
        columns["action"][5][2] = float("nan")

    edit_parquet(first_data(folder), spoil)


def other_action(folder: Path) -> None:
    def change(columns: dict[str, Any]) -> None:
        columns["action"][5][2] += 0.5

    edit_parquet(first_data(folder), change)


def renamed_column(folder: Path) -> None:
    def rename(columns: dict[str, Any]) -> None:
        columns["actions"] = columns.pop("action")

    edit_parquet(first_data(folder), rename)


def more_columns(folder: Path) -> None:
    edit_parquet(first_data(folder), lambda columns: columns.update(reward=[0.0] * len(columns["index"])))


def wrong_index(folder: Path) -> None:
    edit_parquet(first_data(folder), lambda columns: columns["index"].__setitem__(3, 99))


def cut_parquet(folder: Path) -> None:
    path = first_data(folder)
    path.write_bytes(path.read_bytes()[:-40])


def renamed_camera(folder: Path) -> None:
    for path in sorted((folder / "videos").rglob(CAMERAS[0])):
        path.rename(path.with_name("observation.images.agent_view"))


def fewer_episodes(folder: Path) -> None:
    path = folder / schema.INFO
    info = json.loads(path.read_text())
    path.write_text(json.dumps(info | {"total_episodes": 2}))


def no_info(folder: Path) -> None:
    (folder / schema.INFO).unlink()


def another_version(folder: Path) -> None:
    path = folder / schema.INFO
    path.write_text(path.read_text().replace(json.loads(path.read_text())["codebase_version"], "v1.6"))


FAULTS = {
    missing_video: ("videos", "this video is missing"),
    short_video: ("videos", "frames, where its episodes have"),
    no_video: ("videos", "is no whole video"),
    cut_video: ("videos", "frames, where its episodes have"),
    other_pictures: ("statistics", "are not those of its pictures"),
    shifted_timestamps: ("timestamps", "frame 4 is at 0.2100 s, and belongs at 0.2000 s"),
    not_a_number: ("values", "action is not finite in frame 5"),
    other_action: ("statistics", "of action is not that of its numbers"),
    renamed_column: ("files", "lacks the column action"),
    more_columns: ("features", "columns that info.json does not name: reward"),
    wrong_index: ("counts", "index is 99 in frame 3, expected 3"),
    cut_parquet: ("files", "is no whole parquet file"),
    renamed_camera: (
        "cameras",
        "observation.images.agent_view, which info.json does not name; observation.images.agentview?",
    ),
    fewer_episodes: ("files", "total_episodes = 2, and 3 are listed"),
    no_info: ("files", "it has no meta/info.json"),
    another_version: ("files", "version v1.6; this reads v2.1 and v3.0"),
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("spoil", FAULTS, ids=lambda f: f.__name__)
def test_each_fault_is_named(copied: Callable[[str], Path], spoil: Callable[[Path], None], version: str):
    folder = copied(version)
    spoil(folder)
    kind, text = FAULTS[spoil]
    found = check(folder).faults
    assert any(f.kind == kind and text in f.text for f in found), found
    assert all("\n" not in f.text for f in found)


def test_training_refuses_other_columns_and_cameras(made: dict[str, Path]):
    dataset = open_dataset(made[V21])
    require(dataset, {"action": (3,), "observation.state": (4,)}, CAMERAS)
    with pytest.raises(
        BenchError, match=r"unknown camera .*'observation.images.agent'.*did you mean observation.images.ag"
    ):
        require(dataset, {}, ["observation.images.agent"])
    with pytest.raises(BenchError, match=r"unknown column .*'actions'.*did you mean action"):
        require(dataset, {"actions": (3,)}, [])
    with pytest.raises(BenchError, match=r"action has shape \(3,\), and \(7,\) is needed"):
        require(dataset, {"action": (7,)}, [])


def test_pictures_as_images_are_read_and_converted(made: dict[str, Path], tmp_path: Path):
    def png(frame: np.ndarray) -> dict[str, Any]:
        data = io.BytesIO()
        Image.fromarray(frame).save(data, "PNG")
        return {"bytes": data.getvalue(), "path": "frame.png"}

    frames = frames_of(CAMERAS[0], 0)
    stored = np.empty(len(frames), object)
    stored[:] = [png(frame) for frame in frames]
    features = {"image": Feature("image", (SIDE, SIDE, 3), ["height", "width", "channel"]), **schema.INDEXES}
    part = Part(
        {"image": stored, "task_index": np.zeros(len(frames))}, {}, {"image": stats.of_pictures(frames)}, ("t",)
    )
    write_dataset(tmp_path / "a", About(V21, FPS, "panda", features, ("t",)), [part])
    convert(open_dataset(tmp_path / "a"), tmp_path / "b", V30)
    for name in ("a", "b"):
        dataset = open_dataset(tmp_path / name)
        assert dataset.info["video_path"] is None
        np.testing.assert_array_equal(dataset.pictures("image", 0), frames)
        assert not check(tmp_path / name).faults


def test_a_writer_refuses_what_is_not_finite(tmp_path: Path):
    features = {"action": Feature("float32", (2,)), **schema.INDEXES}
    action = np.zeros((4, 2), np.float32)
    action[2, 1] = np.inf
    parts = [Part({"action": action, "task_index": np.zeros(4)}, {}, {}, ("t",))]
    with pytest.raises(BenchError, match="episode 0: action is not finite in frame 2"):
        write_dataset(tmp_path / "a", About(V21, FPS, "panda", features, ("t",)), parts)


def test_a_full_disk_is_one_line(made: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(source: object, target: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(BenchError, match=r"cannot write: No space left on device; free space"):
        convert(open_dataset(made[V21]), tmp_path / "out", V21)
    assert not any(tmp_path.iterdir()), "nothing half written stays"


def test_an_interrupted_conversion_leaves_nothing(made: dict[str, Path], tmp_path: Path):
    def stop(done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert(open_dataset(made[V21]), tmp_path / "out", V30, stop)
    assert not any(tmp_path.iterdir())


def test_nothing_is_overwritten(made: dict[str, Path]):
    with pytest.raises(BenchError, match="is there already"):
        convert(open_dataset(made[V21]), made[V30], V30)
