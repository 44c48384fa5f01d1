"""Whole runs of the smallest model: evaluated on the way, with adapters and frozen parts, with subtasks."""

from __future__ import annotations

import dataclasses
import json
import shutil
import struct
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("grain")
pytest.importorskip("pyarrow")
pytest.importorskip("flax")
pytest.importorskip("optax")
pytest.importorskip("tensorboardX")

import jax
from tensorboardX.proto.event_pb2 import Event

from mjx_bench import records
from mjx_bench.errors import BenchError
from policies import registry
from policies.pi05 import checkpoint, weights
from policies.pi05 import configs as models
from policies.pi05.policy import Episode, Pi05
from scripts.policy import PolicyFiles
from scripts.policy import run as run_policy
from tests import train_data
from tests.train_models import NANO, NANO_TRAINING, register
from train import log as logs
from train import loop, parts, shown
from train.held_out import HeldOut
from train.lerobot.schema import DEMONSTRATIONS

DEMONSTRATED = {"suite": "tabletop", "tasks": [], "training_instances": [10_000, 1_010_000]}
TALKING = dataclasses.replace(NANO, name="pi05_nano_talking", subtask_tokens=8)
SETTINGS = dataclasses.replace(NANO_TRAINING, steps=4, save_every=2)


@pytest.fixture(autouse=True)
def known(monkeypatch, tmp_path_factory):
    register(monkeypatch)
    monkeypatch.setitem(models.CONFIGS, TALKING.name, TALKING)
    monkeypatch.setenv("MJX_BENCH_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = train_data.write(tmp_path_factory.mktemp("data") / "own")
    (folder / DEMONSTRATIONS).write_text(json.dumps(DEMONSTRATED))
    return loop.Data((folder,))


def board(run: Path) -> dict[str, dict[int, float]]:
    """Name and step to value, of a run's TensorBoard files."""
    found: dict[str, dict[int, float]] = defaultdict(dict)
    for path in sorted((run / "tensorboard").iterdir()):
        rest = path.read_bytes()
        while rest:  # length, its checksum, an event, its checksum
            (size,) = struct.unpack("<Q", rest[:8])
            event = Event.FromString(rest[12 : 12 + size])
            rest = rest[16 + size :]
            for value in event.summary.value:
                found[value.tag][event.step] = value.simple_value
    return found


class Held:
    """Stands for an evaluation: remembers what it was asked about."""

    instances = 4

    def __init__(self, rates=(0.25, 0.5, 0.75)):
        self.rates, self.seen = list(rates), {}

    def success(self, found, run, step, note):
        self.seen[step] = found.tree
        return self.rates.pop(0)


def curve(run):
    return {row["step"]: row["success"] for row in logs.read(run) if "success" in row}


@pytest.mark.slow
def test_what_acts_is_evaluated_on_the_way_and_once_more_where_a_kill_came_before_it(data, tmp_path):
    run, held = tmp_path / "run", Held()
    config = dataclasses.replace(SETTINGS, eval_every=2)
    loop.fit(loop.Training(config, data, run), held)
    assert curve(run) == {2: 0.25, 4: 0.5}
    assert board(run)["success"] == {2: 0.25, 4: 0.5}
    assert board(run)["loss"].keys() == {1, 2, 3, 4}
    for step, tree in held.seen.items():
        jax.tree.map(np.testing.assert_array_equal, tree, checkpoint.load(run / "checkpoints" / str(step)).tree)
    # Nothing is evaluated twice; but what was killed between the last checkpoint and its evaluation is.
    again = Held([1.0])
    loop.fit(loop.Training(config, data, run), again)
    assert not again.seen
    rows = [row for row in logs.read(run) if row["step"] < 4 or "success" not in row]
    (run / logs.FILE).write_text("".join(json.dumps(row) + "\n" for row in rows))
    loop.fit(loop.Training(config, data, run), again)
    assert curve(run) == {2: 0.25, 4: 1.0}


@pytest.mark.slow
def test_success_on_held_out_instances_is_what_their_records_say(data, tmp_path):
    run = tmp_path / "run"
    held = HeldOut("tabletop", 0, 2, 9_000, 4)
    loop.fit(loop.Training(dataclasses.replace(SETTINGS, steps=2, eval_every=2), data, run), held)
    done = records.load_run(run / "held_out" / "00000002").done
    assert len(done) == 2
    assert curve(run) == {2: sum(record.success for record in done.values()) / 2}
    assert board(run)["success"] == curve(run)


@pytest.mark.slow
@pytest.mark.parametrize("change", [{"lora": 2}, {"lora": 2, "frozen": ("tower",)}, {"frozen": ("tower", "trunk")}])
def test_a_run_with_adapters_or_frozen_parts_goes_on_acts_and_is_exported(data, tmp_path, change):
    run, config = tmp_path / "run", dataclasses.replace(SETTINGS, **change)
    whole = loop.fit(loop.Training(config, data, run))
    with pytest.raises(BenchError, match="this run was begun with"):
        loop.Training(SETTINGS, data, run)
    shutil.rmtree(run / "checkpoints" / "4")
    state = loop.fit(loop.Training(config, data, run))
    jax.tree.map(np.testing.assert_array_equal, state, whole)
    found = checkpoint.load(run)
    begun, now = (weights.flat(t) for t in (weights.initial_weights(NANO, config.seed), found.tree))
    assert begun.keys() == now.keys()
    moved = {name for name in begun if not np.array_equal(begun[name], now[name])}
    assert moved
    frozen = {name for name in begun if parts.part_of(name) in change.get("frozen", ())}
    assert not moved & frozen
    if "lora" in change:
        assert bool(state.trained.lora)
        assert {name for name in moved if name.startswith("PaliGemma/llm/")} <= {n for n in begun if parts.adapted(n)}
    assert registry.make(str(run)).spec.horizon == NANO.horizon
    assert run_policy(PolicyFiles("export", run, tmp_path / "exported"), lambda value: None) == 0
    jax.tree.map(np.testing.assert_array_equal, checkpoint.load(tmp_path / "exported").tree, found.tree)
    for folder in (run / "checkpoints" / "4", tmp_path / "exported"):
        assert shown.of_checkpoint(folder) == [DEMONSTRATED]


@pytest.mark.slow
def test_subtasks_are_learnt_beside_actions_and_said_before_them(data, tmp_path):
    run = tmp_path / "run"
    config = dataclasses.replace(SETTINGS, model=TALKING.name, steps=200, save_every=200, peak=1e-2, auxiliary=0.0)
    loop.fit(loop.Training(config, data, run))
    errors = [row["subtask"] for row in logs.read(run)]
    assert errors[-1] < 0.5 * errors[0]
    policy = Pi05(checkpoint.load(run), "run", subtasks="greedy")
    side = NANO.vision.image_size
    pictures = [np.zeros((1, side, side, 3), np.uint8)] * 2 + [None]
    _, after = policy.infer([Episode()], pictures, np.zeros((1, 8)), [train_data.TASKS[0]], np.zeros(1, np.uint64))
    assert after[0].subtask in train_data.SUBTASKS
