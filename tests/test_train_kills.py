"""A training that is killed, again and again, ends in the losses and the weights of one that was left alone."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("grain")
pytest.importorskip("pyarrow")
pytest.importorskip("flax")
pytest.importorskip("optax")
pytest.importorskip("tensorboardX")

import jax

from policies.pi05 import checkpoint
from tests import train_data
from train import log as logs

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
STEPS, SAVE_EVERY = 30, 3
LOSSES = ("loss", "flow", "places", "gradient", "rate")
PATIENCE_S = 900.0
# What is compiled need not be fast here, but soon.
HASTY = {"XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"}

# The command line, with the smallest model known to it.
PROGRAM = """
import sys
from mjx_bench import runtime
runtime.configure()
import pytest
from tests.train_models import register
register(pytest.MonkeyPatch())
from scripts import cli
sys.exit(cli.main())
"""


def command(data: Path, run: Path) -> list[str]:
    program = [sys.executable, "-c", PROGRAM, "train", "nano", "--data", str(data), "--out", str(run)]
    return [*program, "--steps", str(STEPS), "--save-every", str(SAVE_EVERY), "--picture-every", "25"]


def begun(data: Path, run: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(data, run), cwd=ROOT, env={**os.environ, **HASTY}, stderr=subprocess.PIPE, text=True
    )


def finish(data: Path, run: Path) -> list[dict[str, float]]:
    """Runs the command to its end; the lines of the log."""
    process = begun(data, run)
    said = process.communicate(timeout=PATIENCE_S)[1]
    assert process.returncode == 0, said[-3000:]
    return logs.read(run)


def killed(process: subprocess.Popen[str], when: Callable[[], bool]) -> bool:
    """Ends it with SIGKILL at this moment; whether it was still there."""
    give_up = time.monotonic() + PATIENCE_S
    while process.poll() is None and not when():
        assert time.monotonic() < give_up, "the moment never came"
        time.sleep(0.0005)
    process.kill()
    process.communicate()
    return process.returncode == -9


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return train_data.write(tmp_path_factory.mktemp("data") / "own")


@pytest.fixture(scope="module")
def alone(data, tmp_path_factory):
    """A run that nothing interrupts, and its log."""
    run = tmp_path_factory.mktemp("runs") / "alone"
    return run, finish(data, run)


def steps_of(run: Path) -> int:
    return max((row["step"] for row in logs.read(run)), default=0)


def writing(run: Path) -> list[Path]:
    """Folders of checkpoints that are not whole yet."""
    return [path for path in (run / "checkpoints").glob("*") if path.is_dir() and not path.name.isdecimal()]


def test_killed_at_any_moment_a_run_ends_in_the_same_bits(data, alone, tmp_path):
    run, rng, half_written = tmp_path / "killed", random.Random(0), 0
    moments = ["start", "log", "checkpoint", "checkpoint", "wait", "checkpoint"]
    for moment in moments:
        process, before, since = begun(data, run), steps_of(run), time.monotonic()
        more, pause = before + rng.randint(1, 5), rng.uniform(0.5, 4.0)
        late = rng.uniform(0.0, 0.03)

        def in_the_middle(run: Path = run, process=process, late: float = late) -> bool:
            if not writing(run):
                return False
            time.sleep(late)
            return bool(writing(run))

        when = {
            "start": lambda: run.exists(),
            "log": lambda more=more: steps_of(run) >= more,
            "checkpoint": in_the_middle,
            "wait": lambda since=since, pause=pause: time.monotonic() > since + pause,
        }[moment]
        assert killed(process, when), f"{moment}: the run was over before it was killed"
        half_written += bool(writing(run))
        if (run / "checkpoints").exists() and any(p.name.isdecimal() for p in (run / "checkpoints").iterdir()):
            checkpoint.load(run)  # at every moment the folder is a policy
    assert half_written >= 2, "no kill came while a checkpoint was being written"
    rows, (whole, expected) = finish(data, run), alone
    assert [row["step"] for row in rows] == list(range(1, STEPS + 1))  # none twice, none missing
    assert [[row[name] for name in LOSSES] for row in rows] == [[row[name] for name in LOSSES] for row in expected]
    jax.tree.map(np.testing.assert_array_equal, checkpoint.load(run).tree, checkpoint.load(whole).tree)
    assert not writing(run)
    assert all(b["train_s"] > a["train_s"] for a, b in itertools.pairwise(rows))
