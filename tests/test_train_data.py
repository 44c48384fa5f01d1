"""From datasets to batches: what is read, what is refused, in which order, and that training sees what acting sees."""

from __future__ import annotations

import dataclasses
import itertools
import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("grain")
pytest.importorskip("pyarrow")
pytest.importorskip("flax")

import jax
import jax.numpy as jnp

from mjx_bench.errors import BenchError
from policies.pi05 import observing, tokenizer
from tests import train_data
from tests.train_models import NANO
from train import augment, batches, sources
from train.configs import Augmentation
from train.lerobot.check import check
from train.lerobot.read import Dataset


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return train_data.write(tmp_path_factory.mktemp("data") / "own")


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("MJX_BENCH_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture
def source(folder):
    return sources.load(folder, NANO)


def maker_of(*found, config=NANO):
    return batches.Maker(config, tokenizer.small(), sources.statistics_of(found, config), found)


def test_a_dataset_becomes_arrays_over_all_frames(source):
    lengths = [12, 13, 14, 15]
    assert len(source) == sum(lengths)
    np.testing.assert_array_equal(np.unique(source.end), np.cumsum(lengths))
    assert [p is None for p in source.pictures] == [False, False, True]
    assert source.pictures[0][np.arange(3)].shape == (3, 16, 16, 3)
    assert source.prompts == train_data.TASKS
    np.testing.assert_array_equal(source.task, np.repeat([0, 1, 0, 1], lengths))


def test_the_expert_is_learnt_from_and_not_what_was_executed(folder, source):
    columns = [Dataset.columns(sources.open_dataset(folder), e) for e in range(4)]
    np.testing.assert_array_equal(source.actions, np.concatenate([c["expert_action"] for c in columns]))
    assert (source.actions != np.concatenate([c["action"] for c in columns])).any()


def test_only_places_of_things_that_a_task_names_are_told(source):
    assert source.places.shape == (len(source), 3)
    assert maker_of(source).places == 5  # x and y, and x, y and z from the hand; z itself never changes


def test_a_batch_is_what_acting_would_read(source):
    maker, rows = maker_of(source), np.array([3, 20, 30])
    batch = maker(rows)
    stats = sources.statistics_of([source], NANO)
    pictures = [None if p is None else p[rows] for p in source.pictures]
    prompts = [source.prompts[i] for i in source.task[rows]]
    scale = stats.scale("state", NANO.normalisation)
    acting = observing.inputs_of(NANO, tokenizer.small(), scale, pictures, source.state[rows].astype(float), prompts)
    np.testing.assert_array_equal(batch.inputs.images, np.asarray(acting.images)[:, :2])
    np.testing.assert_array_equal(batch.inputs.tokens, acting.tokens)
    np.testing.assert_array_equal(batch.inputs.state, acting.state)
    back = stats.scale("actions", NANO.normalisation).restore(batch.actions[..., :7].astype(float))
    np.testing.assert_allclose(back[:, 0], source.actions[rows], atol=1e-5)


def test_the_last_action_of_an_episode_is_repeated_and_the_next_one_is_not_looked_at(source):
    batch = maker_of(source)(np.array([11, 10]))
    np.testing.assert_array_equal(batch.actions[0], np.repeat(batch.actions[0, :1], NANO.horizon, 0))
    np.testing.assert_array_equal(batch.actions[1, 1:], np.repeat(batch.actions[0, :1], NANO.horizon - 1, 0))


def test_subtasks_are_taught_where_the_model_has_room_for_them(folder):
    config = dataclasses.replace(NANO, subtask_tokens=8)
    batch = maker_of(sources.load(folder, config), config=config)(np.array([0, 11]))
    said = [tokenizer.small().decode(row) for row in batch.inputs.subtask.targets.tolist()]
    assert said == list(train_data.SUBTASKS)


def frames_of(stream, count):
    return [frames.tolist() for frames in itertools.islice(stream, count)]


def test_the_order_depends_on_the_seed_alone_and_every_frame_comes_once_an_epoch():
    def stream(seed, **more):
        return batches.stream(lambda frames: frames, [30], [1.0], 5, seed, **more)

    first = frames_of(stream(0), 12)
    assert frames_of(stream(0), 12) == first
    assert frames_of(stream(0, begin=4), 8) == first[4:]
    assert frames_of(stream(1), 12) != first
    for epoch in (first[:6], first[6:]):
        assert sorted(itertools.chain(*epoch)) == list(range(30))
    assert first[:6] != first[6:]


def test_shards_are_parts_of_one_batch():
    parts = [frames_of(batches.stream(lambda f: f, [30], [1.0], 6, 0, shard=(i, 2)), 4) for i in (0, 1)]
    whole = frames_of(batches.stream(lambda f: f, [30], [1.0], 6, 0), 4)
    assert [a + b for a, b in zip(*parts, strict=True)] == whole


def test_datasets_are_mixed_by_weight():
    taken = np.concatenate(frames_of(batches.stream(lambda f: f, [100, 100], [3.0, 1.0], 40, 0), 20))
    assert np.mean(taken < 100) == pytest.approx(0.75, abs=0.02)


@pytest.mark.slow
def test_processes_make_the_same_batches(source):
    alone, several = (
        list(itertools.islice(batches.stream(maker_of(source), [len(source)], [1.0], 4, 0, begin=1, workers=n), 3))
        for n in (0, 2)
    )
    for a, b in zip(alone, several, strict=True):
        jax.tree.map(np.testing.assert_array_equal, a, b)


def test_statistics_of_several_datasets_are_those_of_all_frames(folder, source, tmp_path):
    other = sources.load(train_data.write(tmp_path / "other", episodes=2, length=30), NANO)
    merged = sources.statistics_of([source, other], NANO).tables["state"]
    everything = np.concatenate([source.state, other.state])
    np.testing.assert_allclose(merged["mean"], everything.mean(0), atol=1e-5)
    np.testing.assert_allclose(merged["std"], everything.std(0), atol=1e-5)
    assert (merged["q01"] <= source.stats["state"]["q01"]).all()
    assert (merged["q99"] >= other.stats["state"]["q99"]).all()
    mixed = maker_of(source, other)(np.array([0, len(source), 1]))
    np.testing.assert_array_equal(mixed.inputs.images[2], maker_of(source, other)(np.array([1])).inputs.images[0])


def test_numbers_that_are_not_finite_are_refused(folder, monkeypatch):
    true = Dataset.columns

    def broken(self, episode):
        columns = true(self, episode)
        if episode == 2:
            columns["expert_action"] = columns["expert_action"].copy()
            columns["expert_action"][5, 1] = np.nan
        return columns

    monkeypatch.setattr(Dataset, "columns", broken)
    with pytest.raises(BenchError, match="expert_action is not finite in 1 frames, first in frame 5 of episode 2"):
        sources.load(folder, NANO)


def test_another_robot_is_refused(folder):
    with pytest.raises(
        BenchError, match=r"no camera observation.images.image or image; it has observation.images.agent"
    ):
        sources.load(folder, dataclasses.replace(NANO, adapter="roboquest"))


def test_a_missing_film_is_refused(folder, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    next(copy.rglob("*000002.mp4")).unlink()
    with pytest.raises(BenchError, match=r"episode_000002.mp4: .*missing"):
        sources.load(copy, NANO)


def edited(folder, tmp_path, name, edit):
    """A copy of the dataset, one of its files changed."""
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    path = next(copy.rglob(name))
    path.write_text(edit(path.read_text()))
    return copy


def test_statistics_of_another_length_are_refused(folder, tmp_path):
    def cut(text):
        info = json.loads(text)
        (info.get("stats") or info)["expert_action"]["mean"].pop()
        return json.dumps(info)

    copy = edited(folder, tmp_path / "whole", "stats.json", cut)
    wrong = (
        "mean of expert_action has 6 numbers, where 7 are needed; take those of expert_action out, and they are counted"
    )
    with pytest.raises(BenchError, match=rf"meta/stats.json: {wrong}"):
        sources.load(copy, NANO)
    assert any(f"meta/stats.json: {wrong}" in fault.text for fault in check(copy, decode=False).faults)

    def first(text):
        line, rest = text.split("\n", 1)
        return f"{cut(line)}\n{rest}"

    copy = edited(folder, tmp_path / "episodes", "episodes_stats.jsonl", first)
    assert any(f"episode 0: {wrong}" in fault.text for fault in check(copy).faults)
    (copy / "meta" / "stats.json").unlink()
    with pytest.raises(BenchError, match=f"statistics of episode 0: {wrong}"):
        sources.load(copy, NANO)


def test_a_file_is_no_dataset(tmp_path):
    (tmp_path / "data").write_text("")
    with pytest.raises(BenchError, match="data: is a file; give the folder that mjx-bench demos"):
        sources.load(tmp_path / "data", NANO)


def test_shifted_timestamps_are_refused(folder, monkeypatch):
    true = Dataset.columns

    def shifted(self, episode):
        columns = true(self, episode)
        late = 0.05 * (episode == 1) * (np.arange(len(columns["timestamp"])) >= 4)
        return columns | {"timestamp": columns["timestamp"] + late}

    monkeypatch.setattr(Dataset, "columns", shifted)
    with pytest.raises(BenchError, match=r"episode_000001.parquet: frame 4 is at 0.2500 s, and belongs at 0.2000 s"):
        sources.load(folder, NANO)


def test_other_features_are_refused(folder, tmp_path):
    def renamed(text):
        return text.replace('"observation.state"', '"observation.joints"')

    with pytest.raises(BenchError, match=r"unknown feature of .*'observation.state'; did you mean observation.joints"):
        sources.load(edited(folder, tmp_path / "a", "info.json", renamed), NANO)

    def turned(text):
        info = json.loads(text)
        names = info["features"]["expert_action"]["names"]
        names[0], names[1] = names[1], names[0]
        return json.dumps(info)

    with pytest.raises(BenchError, match="expert_action has eef_delta_y, where eef_delta_x is needed"):
        sources.load(edited(folder, tmp_path / "b", "info.json", turned), NANO)

    def longer(text):
        info = json.loads(text)
        info["features"]["observation.state"] |= {"shape": [9], "names": None}
        return json.dumps(info)

    with pytest.raises(BenchError, match=r"observation.state has shape \[9\], and the robot has 8: "):
        sources.load(edited(folder, tmp_path / "c", "info.json", longer), NANO)


def test_other_names_of_cameras_are_refused_with_those_there_are(folder, tmp_path):
    def renamed(text):
        return text.replace("observation.images.agentview", "observation.images.front")

    copy = edited(folder, tmp_path, "info.json", renamed)
    with pytest.raises(BenchError, match=r"no camera .*agentview.*; it has .*images.front"):
        sources.load(copy, NANO)


def test_statistics_that_a_dataset_lacks_are_counted(folder, source, monkeypatch):
    """LeRobot's first datasets of version 3.0 have no quantiles."""

    def without(self):
        return {name: {k: v for k, v in stats.items() if k[0] != "q"} for name, stats in full(self).items()}

    full = Dataset.stats.func
    monkeypatch.setattr(Dataset, "stats", property(without))
    for vector, found in sources.load(folder, NANO).stats.items():
        for name in ("q01", "q99"):
            np.testing.assert_allclose(found[name], source.stats[vector][name], atol=1e-6)


def test_a_disk_without_room_is_refused_before_anything_is_decoded(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("MJX_BENCH_CACHE", str(tmp_path / "small"))
    monkeypatch.setattr("train.store.shutil.disk_usage", lambda path: SimpleNamespace(free=10))
    with pytest.raises(BenchError, match="set MJX_BENCH_CACHE to a folder with room"):
        sources.load(folder, NANO)


def pictures(seed=0):
    return np.random.default_rng(seed).integers(0, 256, (3, 2, 16, 16, 3), np.uint8)


PLAIN = Augmentation(crop=0.0, rotation=0.0, brightness=0.0, contrast=0.0, saturation=0.0)


def test_no_augmentation_leaves_pictures_as_acting_sees_them():
    out = augment.augmented(jnp.asarray(pictures()), jax.random.key(0), (False, True), PLAIN)
    np.testing.assert_allclose(out, pictures() / 127.5 - 1.0, atol=1e-6)


@pytest.mark.parametrize("rotation", [0.0, 5.0])
def test_a_crop_moves_what_a_fixed_camera_sees_by_no_more_than_was_cut_away(rotation):
    images = np.zeros((64, 2, 32, 32, 3), np.uint8)
    images[:, :, 15:17, 15:17] = 255  # around the middle, where a turn moves nothing
    how = dataclasses.replace(PLAIN, crop=0.25, rotation=rotation)
    out = (np.asarray(augment.augmented(jnp.asarray(images), jax.random.key(1), (False, True), how)) + 1.0) / 2.0
    np.testing.assert_allclose(out[:, 1], images[:, 1] / 255.0, atol=1e-6)
    weight = out[:, 0, ..., 0]
    centre = (weight * np.arange(32)).sum((1, 2)) / weight.sum((1, 2)) - 15.5
    assert np.abs(centre).max() <= 4.0 / 0.75 + 0.1
    assert centre.std() > 1.0


def test_colours_change_by_their_factors_and_from_the_key_alone():
    images = np.full((256, 1, 4, 4, 3), 100, np.uint8)
    how = dataclasses.replace(PLAIN, brightness=0.3)
    out = (np.asarray(augment.augmented(jnp.asarray(images), jax.random.key(2), (True,), how)) + 1.0) / 2.0
    factor = out[:, 0, 0, 0, 0] / (100 / 255)
    assert 0.7 <= factor.min() < 0.75
    assert 1.25 < factor.max() <= 1.3
    again = augment.augmented(jnp.asarray(images), jax.random.key(2), (True,), how)
    np.testing.assert_array_equal(again, out * 2.0 - 1.0)
