"""Training: what a step minimises, that a run goes on to the bit, what it leaves behind, and what is refused."""

from __future__ import annotations

import dataclasses
import errno
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("grain")
pytest.importorskip("pyarrow")
pytest.importorskip("flax")
pytest.importorskip("optax")
pytest.importorskip("tensorboardX")

import jax
import jax.numpy as jnp

from mjx_bench.errors import BenchError
from policies import registry
from policies.pi05 import checkpoint, losses, weights
from scripts.train import Train
from scripts.train import run as run_command
from tests import train_data
from tests.train_models import NANO, NANO_TRAINING, register
from train import configs, loop, mesh, objective, parts, plan, saving
from train import log as logs
from train import step as stepping
from train.held_out import HeldOut

ROOT = Path(__file__).resolve().parents[1]
CALM = dataclasses.replace(NANO_TRAINING, augmentation=configs.Augmentation(0.0, 0.0, 0.0, 0.0, 0.0), auxiliary=0.0)


@pytest.fixture(autouse=True)
def known(monkeypatch, tmp_path_factory):
    register(monkeypatch)
    monkeypatch.setenv("MJX_BENCH_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return loop.Data((train_data.write(tmp_path_factory.mktemp("data") / "own"),))


@pytest.fixture(scope="module")
def whole(data, tmp_path_factory):
    """A run of six steps, its log, and its last state."""
    with pytest.MonkeyPatch.context() as patch:
        register(patch)
        patch.setenv("MJX_BENCH_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
        run = tmp_path_factory.mktemp("runs") / "whole"
        state = loop.fit(loop.Training(dataclasses.replace(NANO_TRAINING, picture_every=6), data, run))
        return SimpleNamespace(run=run, rows=logs.read(run), state=jax.tree.map(np.asarray, state))


def batch_of(data, frames=(0, 5, 20, 30)):
    training = loop.Training(CALM, data, data.folders[0].parent / "unused")
    training.saver.close()
    return jax.tree.map(jnp.asarray, training.maker(np.array(frames)))


def test_one_draw_costs_what_the_published_loss_is(data):
    """The prefix is read once instead of the whole sequence at once; keys and cameras that are left out change nothing."""
    batch, key = batch_of(data), jax.random.key(3)
    tree = weights.random_weights(NANO, 0)
    noise, at = losses.draw(key, batch.actions.shape)
    room = ((0, 0), (0, 1))
    inputs = batch.inputs._replace(
        images=jnp.pad(batch.inputs.images, (*room, (0, 0), (0, 0), (0, 0))),
        image_mask=jnp.pad(batch.inputs.image_mask, room),
    )

    def published(tree):
        return losses.total(losses.errors(weights.bound(NANO, tree), inputs, batch.actions, noise, at), False)

    def ours(tree):
        how = dataclasses.replace(CALM, draws=1)
        return objective.cost(NANO, how, tree, {}, batch, key)[0]

    (want, want_gradient), (got, gradient) = (jax.jit(jax.value_and_grad(f))(tree) for f in (published, ours))
    assert float(got) == pytest.approx(float(want), rel=1e-5)
    for name, leaf in weights.flat(want_gradient).items():
        scale = float(jnp.abs(leaf).max()) + 1e-4
        np.testing.assert_allclose(weights.flat(gradient)[name] / scale, leaf / scale, atol=2e-4, err_msg=name)


def test_a_run_leaves_a_log_a_picture_and_settings(whole):
    assert [row["step"] for row in whole.rows] == [1, 2, 3, 4, 5, 6]
    assert {"loss", "flow", "places", "gradient", "rate", "train_s", "frames_per_s", "data_share"} <= set(whole.rows[0])
    assert whole.rows[1]["rate"] == pytest.approx(2 * whole.rows[0]["rate"])
    assert (whole.run / "samples" / "00000006.png").stat().st_size > 1000
    assert list((whole.run / "tensorboard").iterdir())
    assert json.loads((whole.run / "config.json").read_text())["config"]["model"] == NANO.name


LOSSES = ("loss", "flow", "places", "gradient")


def test_killed_after_a_checkpoint_and_begun_again_a_run_ends_in_the_same_bits(whole, data, tmp_path, monkeypatch):
    run, taken = tmp_path / "killed", []

    class Killed(BaseException):
        pass

    def save(self, state):
        real(self, state)
        taken.append(int(state.step))
        self.wait()
        raise Killed

    real = saving.Saver.save
    with monkeypatch.context() as patch:
        patch.setattr(saving.Saver, "save", save)
        with pytest.raises(Killed):
            loop.fit(loop.Training(dataclasses.replace(NANO_TRAINING, picture_every=6), data, run))
    assert taken == [3]
    with (run / logs.FILE).open("a") as file:
        file.write('{"step": 4, "loss": 0.0}\n{"step": 5, "lo')
    state = loop.fit(loop.Training(dataclasses.replace(NANO_TRAINING, picture_every=6), data, run))
    assert [[row[name] for name in LOSSES] for row in logs.read(run)] == [
        [row[name] for name in LOSSES] for row in whole.rows
    ]
    jax.tree.map(np.testing.assert_array_equal, jax.tree.map(np.asarray, state), whole.state)
    # Done: nothing more is computed.
    assert int(loop.fit(loop.Training(dataclasses.replace(NANO_TRAINING, picture_every=6), data, run)).step) == 6


def test_a_run_and_each_of_its_checkpoints_are_policies(whole):
    assert sorted(path.name for path in (whole.run / "checkpoints").iterdir() if path.is_dir()) == ["3", "6"]
    acting = parts.whole(jax.tree.map(jnp.asarray, whole.state.ema), {})
    found = checkpoint.load(whole.run)
    jax.tree.map(np.testing.assert_array_equal, found.tree, jax.tree.map(np.asarray, acting))
    assert found.stats.features["actions"] == train_data.ROBOT.actions
    policy = registry.make(str(whole.run))
    assert policy.spec.cameras == ("agentview", "robot0_eye_in_hand")
    assert registry.make(str(whole.run / "checkpoints" / "3")).spec.horizon == NANO.horizon
    assert (whole.run / "checkpoints" / "6" / "assets" / "mjx-bench" / "norm_stats.json").is_file()


def test_a_half_written_checkpoint_is_no_policy_and_no_place_to_go_on_from(whole, data, tmp_path):
    run = tmp_path / "half"
    shutil.copytree(whole.run, run)
    unfinished = run / "checkpoints" / "9.orbax-checkpoint-tmp"
    unfinished.mkdir()
    assert checkpoint.newest(run).name == "6"
    for path in (run / "checkpoints" / "6" / "train_state").rglob("*"):
        if path.is_file() and path.stat().st_size > 2000:
            os.truncate(path, 100)
    training = loop.Training(dataclasses.replace(NANO_TRAINING, picture_every=6), data, run)
    with pytest.raises(BenchError, match=r"checkpoints/6 cannot be read, and may be half written: delete this folder"):
        training.state()


def test_a_run_is_not_gone_on_with_under_other_settings(whole, data, tmp_path):
    with pytest.raises(BenchError, match=r"begun with peak = 0.001, not 0.1; leave it so, or choose another --out"):
        loop.Training(dataclasses.replace(NANO_TRAINING, peak=0.1), data, whole.run)
    with pytest.raises(BenchError, match="begun with data folders"):
        loop.Training(NANO_TRAINING, loop.Data((tmp_path,)), whole.run)
    (tmp_path / "file").write_text("")
    with pytest.raises(BenchError, match="holds something that is no run"):
        loop.Training(NANO_TRAINING, data, tmp_path)


def test_a_disk_without_room_for_two_checkpoints_is_refused_at_the_start(data, tmp_path, monkeypatch):
    training = loop.Training(NANO_TRAINING, data, tmp_path / "run")
    monkeypatch.setattr("train.saving.shutil.disk_usage", lambda path: SimpleNamespace(free=1000))
    with pytest.raises(BenchError, match=r"two checkpoints take .* GB, and 0.00 GB are free"):
        training.state()


def test_a_disk_that_fills_up_later_leaves_the_last_whole_checkpoint(data, tmp_path, monkeypatch):
    def full(path, stats):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    training = loop.Training(NANO_TRAINING, data, tmp_path / "run")
    state = jax.tree.map(jnp.asarray, stepping.begin(training.config, weights.random_weights(NANO, 0), 0))
    training.saver.save(state)
    training.saver.wait()
    monkeypatch.setattr("train.saving.statistics.write", full)
    with pytest.raises(BenchError, match=r"could not be written .*No space left.*; the last whole one is 0; make room"):
        training.saver.save(state._replace(step=state.step + 1))
    assert checkpoint.newest(tmp_path / "run").name == "0"


def test_what_is_frozen_stays_and_adapters_stand_for_whole_matrices(data):
    batch = batch_of(data)
    for change in ({"frozen": ("tower", "trunk")}, {"lora": 2}):
        config = dataclasses.replace(CALM, draws=1, **change)
        tree = weights.random_weights(NANO, 0)
        state = jax.tree.map(jnp.asarray, stepping.begin(config, tree, 0))
        jax.tree.map(np.testing.assert_array_equal, stepping.acting(state), tree)
        after, _ = jax.jit(stepping.stepper(config))(state, batch)
        before, now = weights.flat(tree), weights.flat(parts.whole(after.trained, after.frozen))
        assert list(before) == list(now)
        moved = {name for name in before if not np.array_equal(before[name], now[name])}
        if "frozen" in change:
            assert {parts.part_of(name) for name in moved} == {"expert"}
            assert not after.trained.lora
        else:
            # Of a first step the first factors do not move yet: the second ones are zero.
            assert {n for n in moved if n.startswith("PaliGemma/llm/")} == {
                n for n in before if parts.adapted(n)
            } & moved
            assert any("einsum" in name for name in moved)
            assert len(after.trained.lora) == 2 * sum(map(parts.adapted, before))


def test_eight_devices_learn_what_one_does(whole, data):
    code = f"""
import dataclasses, json, sys
from pathlib import Path
import pytest
from mjx_bench import runtime
runtime.configure()
import jax
from tests.train_models import NANO_TRAINING, register
from train import loop, mesh
from train import log as logs
register(pytest.MonkeyPatch())
mesh.CUT_FROM = 512
assert len(jax.devices()) == 8
config = dataclasses.replace(NANO_TRAINING, fsdp=4, picture_every=6)
run = Path(sys.argv[1])
state = loop.fit(loop.Training(config, loop.Data((Path({str(data.folders[0])!r}),)), run))
cut = sum(len(x.addressable_shards[0].data.reshape(-1)) * 4 == x.size for x in jax.tree.leaves(state.trained))
print(json.dumps([cut, logs.read(run)]))
"""
    env = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    out = whole.run.parent / "eight"
    done = subprocess.run(
        [sys.executable, "-c", code, str(out)], cwd=ROOT, env=env, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stderr[-2000:]
    cut, rows = json.loads(done.stdout.splitlines()[-1])
    assert cut > 5
    for row, alone in zip(rows, whole.rows, strict=True):
        assert row["loss"] == pytest.approx(alone["loss"], rel=2e-4)


def test_a_batch_in_parts_has_the_gradient_of_its_parts(data):
    batch = batch_of(data, (0, 5, 20, 30))
    config = dataclasses.replace(CALM, draws=1, batch=4, accumulate=2, peak=1.0, warmup=0, clip=1e9)
    tree = weights.random_weights(NANO, 0)
    state = jax.tree.map(jnp.asarray, stepping.begin(config, tree, 0))
    _, told = jax.jit(stepping.stepper(config))(state, batch)
    keys = jax.random.split(jax.random.fold_in(jax.random.key(config.seed), 0), 2)
    halves = [jax.tree.map(lambda x, i=i: x[i::2], batch) for i in (0, 1)]
    parts_ = [objective.cost(NANO, config, tree, {}, half, key)[0] for half, key in zip(halves, keys, strict=True)]
    assert float(told["loss"]) == pytest.approx(float(sum(parts_)) / 2, rel=1e-5)


def test_a_plan_counts_what_eight_devices_hold():
    config = configs.named("pi05_micro_tabletop")
    found = plan.plan(dataclasses.replace(config, fsdp=1), 8)
    state = plan.abstract_state(config)
    count = sum(np.prod(leaf.shape) for leaf in jax.tree.leaves(state.trained.model))
    assert found["parameters"] == count == found["trained"]
    assert found["gib_per_device"]["weights"] == pytest.approx(4 * count / 2**30)
    assert found["gib_per_device"]["optimiser"] == pytest.approx(8 * count / 2**30, rel=1e-4)
    with pytest.raises(BenchError, match="fsdp = 3 does not divide 8 devices"):
        plan.plan(dataclasses.replace(config, fsdp=3), 8)


@pytest.mark.slow
def test_the_compiler_counts_what_the_plan_counts(tmp_path):
    code = """
import dataclasses, json
from mjx_bench import runtime
runtime.configure()
import pytest
from tests.train_models import NANO_TRAINING, register
from train import mesh, plan
register(pytest.MonkeyPatch())
mesh.CUT_FROM = 512
print(json.dumps(plan.plan(dataclasses.replace(NANO_TRAINING, fsdp=4, auxiliary=0.0), 8)))
"""
    env = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    held = sum(found["gib_per_device"][name] for name in ("weights", "average", "optimiser", "batch"))
    assert found["compiled"]["arguments_gib"] == pytest.approx(held, rel=0.02)
    assert found["compiled"]["temporaries_gib"] > found["kept_activations_gib"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch": 7, "accumulate": 2}, "batch = 7 is no multiple of accumulate = 2"),
        ({"ema": 1.0}, "ema = 1.0; give a decay"),
        ({"frozen": ("towr",)}, "unknown part of the model 'towr'; did you mean tower"),
        ({"steps": 0}, "steps = 0; give an integer of at least 1"),
        ({"peak": math.nan}, "peak = nan; give a finite number"),
        ({"weight_decay": math.inf}, "weight_decay = inf; give a finite number"),
        ({"betas": (0.9, math.nan)}, "betas = nan; give a finite number"),
        ({"augmentation": configs.Augmentation(crop=math.nan)}, "augmentation.crop = nan; give a finite number"),
        ({"peak": 0.0}, "peak = 0.0; give a number above 0"),
        ({"clip": -1.0}, "clip = -1.0; give a number above 0"),
        ({"floor": 1.5}, "floor = 1.5; give a share of the peak from 0 to 1"),
        ({"seed": -1}, "seed = -1; give an integer from 0 to 4294967295"),
        ({"frozen": configs.PARTS}, "frozen = tower, trunk, expert: nothing is left to train"),
        ({"frozen": configs.PARTS, "lora": 2}, "nothing is left to train"),
        (
            {"frozen": ("trunk", "expert"), "lora": 2},
            "lora = 2 is for matrices of trunk and expert, and frozen = trunk",
        ),
        ({"lora": 9}, "lora = 9 is more than the rank of pi05_nano's smallest matrix; give at most 8"),
    ],
)
def test_settings_that_cannot_be_are_refused(change, message):
    with pytest.raises(BenchError, match=message):
        dataclasses.replace(NANO_TRAINING, **change).check()


def test_the_largest_rank_is_that_of_the_smallest_matrix():
    dataclasses.replace(NANO_TRAINING, lora=8).check()
    sides = [min(x.shape[-2:]) for name, x in weights.flat(weights.abstract(NANO)[1]).items() if parts.adapted(name)]
    assert min(sides) == 8


@pytest.mark.parametrize("shares", [(math.nan,), (math.inf,), (0.0,), (1.0, 1.0)])
def test_weights_of_datasets_that_cannot_be_are_refused_before_anything_is_written(data, tmp_path, shares):
    with pytest.raises(BenchError, match=r"weights .* of 1 datasets: give a finite one above 0 for each"):
        loop.Training(NANO_TRAINING, dataclasses.replace(data, weights=shares), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_folder_that_cannot_be_made_is_refused_before_films_are_decoded(data, tmp_path, monkeypatch):
    monkeypatch.setattr("train.sources.load", lambda *args: pytest.fail("datasets are read"))
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file" / "new" / "run", Path("/proc/run")):
        with pytest.raises(BenchError, match=r"run: no run's folder can be made there \(.+\); choose another --out"):
            loop.Training(NANO_TRAINING, data, out)
    monkeypatch.setattr("train.run_folder.os.access", lambda path, mode: False)
    with pytest.raises(BenchError, match="run cannot be written to; choose another --out"):
        loop.Training(NANO_TRAINING, data, tmp_path / "run")


def test_datasets_that_are_refused_leave_no_folder(tmp_path):
    with pytest.raises(BenchError, match="no such folder"):
        loop.Training(NANO_TRAINING, loop.Data((tmp_path / "none",)), tmp_path / "new" / "run")
    assert not list(tmp_path.iterdir())
    (tmp_path / "there").mkdir()
    with pytest.raises(BenchError, match="there/none: no such folder"):
        loop.Training(NANO_TRAINING, loop.Data((tmp_path / "there" / "none",)), tmp_path / "there")
    assert (tmp_path / "there").is_dir()


def test_devices_that_cannot_be_arranged_are_refused_with_what_can_be():
    with pytest.raises(BenchError, match="fsdp = 8 does not divide the 1 devices; give --fsdp 1"):
        mesh.make(8, 256, [None])
    with pytest.raises(BenchError, match="fsdp = 8 does not divide the 12 devices; give --fsdp 4"):
        mesh.make(8, 256, [None] * 12)


@pytest.mark.parametrize(
    ("steps", "floor", "said"),
    [
        (6, 0.01, ["going on after step 3"]),
        (2, 0.01, [r".*run has 3 steps already, and steps = 2: nothing is left to do; give more --steps"]),
        (3, 0.01, [r".*run has 3 steps already, and steps = 3: nothing is left to do; give more --steps"]),
        (
            60,
            0.01,
            [
                "going on after step 3",
                "steps = 60, where the run was begun with 6: the cosine falls over 60 steps now, and the learning rate"
                " goes on from 0.000999, where it would have been 0.000855",
            ],
        ),
        (60, 1.0, ["going on after step 3"]),
    ],
)
def test_what_another_number_of_steps_means_is_said(data, tmp_path, monkeypatch, steps, floor, said):
    heard, config, run = [], dataclasses.replace(NANO_TRAINING, floor=floor), tmp_path / "run"
    loop.Training(config, data, run).saver.close()
    training = loop.Training(dataclasses.replace(config, steps=steps), data, run, heard.append)
    monkeypatch.setattr(saving.Saver, "latest", 3)
    monkeypatch.setattr(saving.Saver, "restore", lambda self, shapes: SimpleNamespace(step=np.array(3)))
    heard.clear()
    training.state()
    training.saver.close()
    assert len(heard) == len(said)
    for line, pattern in zip(heard, said, strict=True):
        assert re.fullmatch(pattern, line)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"eval_every": 50}, "--eval-every 50 is of evaluations on the way; give --eval-suite too"),
        ({"eval_task": "pick_lift"}, "--eval-task pick_lift is of"),
        ({"eval_instances": 5}, "--eval-instances 5 is of"),
        ({"eval_first": 0}, "--eval-first 0 is of"),
        ({"eval_renderer": "warp"}, "--eval-renderer warp is of"),
        ({"eval_suite": "tabletop", "eval_instances": 0}, "--eval-instances 0 is too small"),
        ({"eval_suite": "tabletop", "eval_first": -1}, "--eval-first -1 is too small"),
    ],
)
def test_options_of_evaluations_that_nobody_reads_are_refused(given, message):
    with pytest.raises(BenchError, match=message):
        run_command(Train(config="pi05_tiny_tabletop", **given), pytest.fail)


def test_what_the_first_evaluation_would_stumble_over_is_refused_before(monkeypatch):
    with pytest.raises(BenchError, match="--eval-interval 9 is more than the model's 8 actions"):
        HeldOut("tabletop", 0, query_interval=9).check(8)

    def lacks(name):
        raise BenchError(f"{name} does not work here")

    monkeypatch.setattr("train.held_out.choose", lacks)
    with pytest.raises(BenchError, match="warp does not work here"):
        HeldOut("tabletop", 0, renderer="warp").check(8)


def test_a_name_with_a_typo_is_refused_before_anything_is_loaded():
    with pytest.raises(
        BenchError, match="unknown training configuration 'pi05_tiny_tabeltop'; did you mean pi05_tiny_tab"
    ):
        configs.named("pi05_tiny_tabeltop")


def test_a_dimension_that_never_changes_is_said(data, tmp_path):
    said = []
    loop.Training(CALM, data, tmp_path / "run", said.append).saver.close()
    assert "actions: gripper never changes in the data, and counts as a constant" in said


@pytest.mark.slow
def test_an_interrupt_saves_and_says_how_to_go_on(data, tmp_path):
    command = [sys.executable, "-m", "scripts.cli", "train", "pi05_tiny_tabletop", "--data", str(data.folders[0])]
    command += ["--out", str(tmp_path / "run"), "--steps", "100000", "--batch", "2", "--log-every", "1"]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        while not (rows := logs.read(tmp_path / "run") if (tmp_path / "run").exists() else []):
            assert process.poll() is None
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=300)[1]
    assert process.returncode == 130
    assert "the same command goes on from there" in said
    assert int(checkpoint.newest(tmp_path / "run").name) >= rows[-1]["step"]
