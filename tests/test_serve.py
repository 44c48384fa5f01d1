"""`mjx-bench serve`: a pi0.5 policy behind a socket acts as it does in the engine, and refuses what it cannot read."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flax", reason="needs the extra: train")
pytest.importorskip("websockets", reason="needs the extra: serve")

from mjx_bench.records import load_run
from policies.pi05 import adapters, policy
from policies.pi05.served import Pi05Served
from scripts import cli
from tests.test_serving import a_request

ROOT = Path(__file__).resolve().parents[1]
COMMAND = ["pair", "--suite", "tabletop", "--pairs", "4", "--limit", "1", "--renderer", "warp"]


@pytest.fixture(scope="module")
def served() -> Pi05Served:
    tiny = policy.random("pi05_tiny")
    return Pi05Served(tiny, adapters.named(tiny.config.adapter))


def test_answers_depend_on_nothing_but_their_request(served: Pi05Served):
    requests = [a_request(i, __openpi_rng_seed__=i) for i in range(3)]
    for request in requests:
        served.check(request)
    together = [np.asarray(answer["actions"]) for answer in served.infer(requests)]
    for request, actions in zip(requests, together, strict=True):
        np.testing.assert_array_equal(served.infer([request])[0]["actions"], actions)
        assert actions.shape == (served.metadata["action_horizon"], 7)
    other = served.infer([requests[0] | {"__openpi_rng_seed__": 99}])[0]["actions"]
    assert np.abs(other - together[0]).max() > 1e-3


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (
            {"observation/image": np.zeros((8, 8, 3))},
            r"observation/image: expected a picture, .* got float64 \[8, 8, 3\]",
        ),
        ({"observation/image": np.zeros((8, 8), np.uint8)}, r"got uint8 \[8, 8\]"),
        ({"observation/image": "x"}, "got str"),
        ({"observation/image": np.zeros((5000, 1, 3), np.uint8)}, "at most 4096 a side"),
        ({"observation/state": np.zeros(7)}, r"observation/state: expected numbers of shape \[8\]"),
        ({"observation/state": np.full(8, np.inf)}, "not all numbers are finite"),
        ({"prompt": 5}, "prompt: expected text, got int"),
        ({"prompt": "x" * 4001}, "prompt: 4001 characters, at most 4000 are read"),
        ({"__openpi_rng_seed__": "x"}, "__openpi_rng_seed__: expected an integer, got str"),
        ({"__openpi_rng_seed__": -1}, "expected an integer from 0"),
    ],
)
def test_what_cannot_be_read_is_named(served: Pi05Served, change: dict[str, Any], complaint: str):
    with pytest.raises(ValueError, match=complaint):
        served.check(a_request() | change)


@pytest.fixture
def server() -> Iterator[str]:
    command = [sys.executable, "-m", "scripts.cli", "serve", "--policy", "pi05_tiny", "--random-weights", "--port", "0"]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=env) as process:
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(line)
            if found := re.search(r"answers at (ws://\S+);", line):
                yield found.group(1)
                break
        else:
            pytest.fail("".join(lines))
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


@pytest.mark.slow
def test_a_served_policy_acts_to_the_bit_as_in_the_engine(server: str, tmp_path: Path):
    assert cli.main([*COMMAND, "--policy", server, "--out", str(tmp_path / "served")]) == 0
    assert cli.main([*COMMAND, "--policy", "pi05_tiny", "--random-weights", "--out", str(tmp_path / "own")]) == 0
    served, own = (load_run(tmp_path / name) for name in ("served", "own"))
    assert len(served.records) == 2
    for record in served.records:
        np.testing.assert_array_equal(served.array(record, "chunks"), own.array(own.done[record.key], "chunks"))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--policy", "scripted.reactive"], "scripted.reactive reads what only our own scenes tell"),
        (["--policy", "pi05_tinny", "--random-weights"], "pi05_tiny"),
        (["--policy", "pi05:nowhere"], "nowhere"),
        (["--policy", "libero_max:pi05_tiny", "--random-weights"], "serve pi05_tiny, and ask it with"),
        (["--policy", "pi05_tiny", "--random-weights", "--port", "99999"], "--port 99999"),
        (["--policy", "pi05_tiny", "--random-weights", "--batch", "0"], "--batch must be 1 or more"),
    ],
)
def test_what_cannot_be_served_is_refused(options: list[str], complaint: str, capsys: pytest.CaptureFixture[str]):
    assert cli.main(["serve", *options]) == 2
    assert complaint in capsys.readouterr().err
