"""What surrounds a run: the environment, the check for system libraries, and the progress display."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from mjx_bench import runtime
from scripts import progress, system_check

ROOT = Path(__file__).resolve().parents[1]


def test_settings_of_the_user_win(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("MJX_BENCH_CACHE", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    runtime.configure()
    assert os.environ["OMP_NUM_THREADS"] == "3"
    assert os.environ["OPENBLAS_NUM_THREADS"] == "1"
    assert os.environ["NUMBA_CACHE_DIR"] == str(tmp_path / "numba")


def test_a_missing_library_is_named_by_its_package(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(system_check.platform, "system", lambda: "Linux")
    monkeypatch.setattr(system_check, "REQUIRED", {"libnowhere.so.7": "libnowhere7"})
    assert system_check.main() == 1
    assert capsys.readouterr().err.splitlines() == [
        "missing system library libnowhere.so.7: install the package libnowhere7",
        "on Debian or Ubuntu: apt-get install libnowhere7",
    ]


@pytest.mark.parametrize(
    ("candidate", "message"),
    [("no-such-python", "no Python 3.11 or newer found"), ("{tmp}/without-venv", "install the package python3-venv")],
)
def test_setup_names_what_a_bare_machine_lacks(candidate: str, message: str, tmp_path: Path):
    # Answers the version check, and fails as a Debian Python does that has no ensurepip.
    fake = tmp_path / "without-venv"
    fake.write_text('#!/bin/sh\ncase "$2" in *ensurepip*) exit 1;; esac\n')
    fake.chmod(0o755)
    done = subprocess.run(
        ["sh", "scripts/setup_venv.sh", "dev"],
        cwd=ROOT,
        env={**os.environ, "PYTHON": candidate.format(tmp=tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert message in done.stderr


def test_progress_counts_what_this_process_did(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    now = 100.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    with progress.ArmProgress() as bar:
        now += 50  # loading is not in the rate
        bar(4, 10, None)
        for done, (arm, success) in enumerate([("base", True), ("base", False), ("dynamic", None)], 5):
            now += 4
            bar(done, 10, SimpleNamespace(arm=arm, success=success))  # type: ignore[arg-type]
    first, last = capsys.readouterr().err.splitlines()
    assert first == "5/10 arms, 15.0 a minute, 0:20 left, base 1/1"
    assert last == "7/10 arms, 15.0 a minute, 0:12 left, base 1/2, 1 void"


@pytest.mark.parametrize(("seconds", "text"), [(5, "0:05"), (600, "10:00"), (3725, "1:02:05")])
def test_clock(seconds: float, text: str):
    assert progress.clock(seconds) == text
