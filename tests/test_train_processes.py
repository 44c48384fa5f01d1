"""Two processes that train together, each with its part of every batch, against one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

pytest.importorskip("grain")
pytest.importorskip("pyarrow")
pytest.importorskip("flax")
pytest.importorskip("optax")
pytest.importorskip("tensorboardX")

from policies.pi05 import checkpoint
from tests import train_data
from tests.test_train_kills import HASTY, PROGRAM, ROOT
from train import log as logs

pytestmark = pytest.mark.slow

LOSS = 2e-4  # relative; sums are made in another order
PATIENCE_S = 900.0


def command(data, run, *more):
    return [sys.executable, "-c", PROGRAM, "train", "nano", "--data", str(data), "--out", str(run), *more]


def together(data, run, *more):
    """Runs the command in two processes, with weights cut over both; what each said."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    shared = {"JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{port}", "JAX_NUM_PROCESSES": "2"}
    processes = [
        subprocess.Popen(
            command(data, run, "--distributed", "--fsdp", "2", "--picture-every", "4", *more),
            cwd=ROOT,
            env={**os.environ, **HASTY, **shared, "JAX_PROCESS_ID": str(i)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for i in (0, 1)
    ]
    said = [process.communicate(timeout=PATIENCE_S)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said[0][-2000:] + said[1][-2000:]
    return said


def test_two_processes_learn_what_one_does_and_write_everything_once(tmp_path):
    data = train_data.write(tmp_path / "own")
    alone, run = tmp_path / "alone", tmp_path / "together"
    env = {**os.environ, **HASTY}
    done = subprocess.run(command(data, alone), cwd=ROOT, env=env, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr[-2000:]
    together(data, run, "--steps", "6")
    rows, expected = logs.read(run), logs.read(alone)
    assert [row["step"] for row in rows] == [row["step"] for row in expected] == [1, 2, 3, 4, 5, 6]
    for row, one in zip(rows, expected, strict=True):
        assert row["loss"] == pytest.approx(one["loss"], rel=LOSS)
    assert len(list((run / "tensorboard").iterdir())) == 1
    assert sorted(path.name for path in (run / "samples").iterdir()) == ["00000004.png", "00000006.png"]
    assert checkpoint.load(run).config.name == "pi05_nano"
    assert all("going on after step 6" in said for said in together(data, run, "--steps", "7"))
    assert logs.read(run)[-1]["step"] == 7
