"""What a signal does to a command: the first lets it stop where nothing is lost, the second ends it at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from mjx_bench.records import load_run
from scripts import cli, stopping

ROOT = Path(__file__).resolve().parents[1]
SIGNALS = pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])

# A command that calls C for about half a minute in its main thread, as a compilation does: no handler of Python's runs.
IN_C = """
import hashlib, sys, threading
from mjx_bench import runtime
from scripts import cli

def command(options, emit):
    with runtime.busy("a compilation"):
        # Once the main thread is in there.
        threading.Timer(0.5, print, ["begun"], dict(flush=True)).start()
        hashlib.pbkdf2_hmac("sha256", b"", b"", {rounds})

cli._RUN[cli.film.Film] = command
sys.exit(cli.main(["film", "runs/a"]))
"""
# One that waits for a thread, as a run does for its workers.
IN_THREAD = """
import concurrent.futures, sys, time
from scripts import cli

def work():
    time.sleep(0.5)  # until the main thread waits
    print("begun", flush=True)
    time.sleep(30)

def command(options, emit):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()

cli._RUN[cli.film.Film] = command
sys.exit(cli.main(["film", "runs/a"]))
"""


@contextmanager
def begun(code: str) -> Iterator[subprocess.Popen[str]]:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        yield process
        process.kill()


@SIGNALS
@pytest.mark.parametrize(
    ("code", "what"), [(IN_C.format(rounds=10**8), "a compilation"), (IN_THREAD, "what is being computed")]
)
def test_the_first_says_what_it_waits_for_and_the_second_ends_it(code: str, what: str, number: int, status: int):
    with begun(code) as process:
        assert process.stderr is not None
        process.send_signal(number)
        assert process.stderr.readline() == "\n"
        assert process.stderr.readline() == (
            f"mjx-bench: stopping: waiting for {what}; what was finished is kept, and the same command goes on from there;"
            " a second signal ends it at once\n"
        )
        assert process.poll() is None
        process.send_signal(number)
        assert process.wait(timeout=5) == status
        assert "Traceback" not in process.stderr.read()


def test_an_echo_of_the_first_is_no_second():
    with begun(IN_C.format(rounds=10**7)) as process:
        process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 143
    assert "mjx-bench: interrupted; what was finished is kept" in err
    assert "ended" not in err


def test_handlers_are_given_back():
    before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    with stopping.Stopping():
        assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] != before
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == before


@pytest.mark.slow
@SIGNALS
def test_a_run_that_was_ended_while_it_compiled_goes_on(number: int, status: int, tmp_path: Path):
    out = tmp_path / "run"
    args = ["eval", "--suite", "tabletop", "--task", "press_button", "open_drawer", "--instances", "1"]
    args += ["--threads", "1", "--policy", "scripted.reactive", "--backend", "jax", "--out", str(out)]
    env = {**os.environ, "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache")}
    command: Sequence[str] = [sys.executable, "-m", "scripts.cli", *args]
    with subprocess.Popen(command, cwd=ROOT, env=env, stderr=subprocess.PIPE, text=True) as process:
        records = out / "records.jsonl"
        until = time.monotonic() + 300
        while not records.exists() or not records.read_bytes():
            assert time.monotonic() < until
            assert process.poll() is None
            time.sleep(0.2)
        kept = records.read_bytes()
        process.send_signal(number)
        time.sleep(2)
        assert process.poll() is None, "it waits for the second task's compilation"
        process.send_signal(number)
        err = process.communicate(timeout=5)[1]
    assert process.returncode == status
    assert "waiting for a compilation; what was finished is kept" in err
    assert cli.main(args) == 0
    assert records.read_bytes().startswith(kept)
    assert len(load_run(out).records) == 2
