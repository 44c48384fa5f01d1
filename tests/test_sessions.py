"""How a session used the machine: what counts as busy, and that a line is left behind however the session ended."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from mjx_bench import sessions
from mjx_bench.records import load_run
from mjx_bench.sessions import Meter, Session
from tests.test_pairs import HORIZON, MIXED, run


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = self.cpu = 100.0
        monkeypatch.setattr(sessions.time, "perf_counter", lambda: self.now)
        monkeypatch.setattr(sessions.time, "process_time", lambda: self.cpu)

    def sleep(self, seconds: float, cpu: float = 0.0) -> None:
        self.now += seconds
        self.cpu += cpu


class SlowLock:
    """A lock that another worker holds for two seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def __enter__(self) -> None:
        self._clock.sleep(2)

    def __exit__(self, *_: object) -> None:
        pass


def test_busy_is_time_on_a_task_without_waiting_for_the_policy(monkeypatch: pytest.MonkeyPatch):
    clock = Clock(monkeypatch)
    meter = Meter(workers=2)
    with meter.working():
        clock.sleep(3, cpu=4)
        with meter.turn(SlowLock(clock)):  # type: ignore[arg-type]
            clock.sleep(1, cpu=1)
        meter.stepped(240)
    clock.sleep(4)
    session = meter.session(arms=7)
    # Ten seconds of two workers; one worked for four and waited for two, the other had nothing to do.
    assert (session.wall_s, session.cpu_s, session.workers) == (10, 5, 2)
    assert session.busy_fraction == 0.2
    assert (session.control_steps, session.arms) == (240, 7)
    assert str(session) == "2 workers busy 20%, 24 control steps a second, 0.5 processors in use"


def test_a_failing_task_was_work_too(monkeypatch: pytest.MonkeyPatch):
    clock = Clock(monkeypatch)
    meter = Meter(workers=1)

    def fail() -> None:
        with meter.working():
            clock.sleep(1)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert meter.session(0).busy_fraction == 1


def test_a_meter_adds_up_from_many_threads():
    meter = Meter(workers=8)
    threads = [threading.Thread(target=lambda: [meter.stepped(1) for _ in range(1000)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert meter.session(0).control_steps == 8000


def lines(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "sessions.jsonl").read_text().splitlines()]


def test_every_session_leaves_a_line_also_an_interrupted_one(tmp_path: Path):
    def interrupt(done: int, total: int, record: object) -> None:
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, progress=interrupt)
    [first] = lines(tmp_path)
    run(tmp_path)
    _, second = lines(tmp_path)
    run(tmp_path)
    assert len(lines(tmp_path)) == 2, "a session with nothing left to run is none"
    assert (first["arms"], second["arms"]) == (4, 2 * len(MIXED.cases) - 4)
    for session in (first, second):
        assert session["workers"] == 1
        assert 0 < session["busy_fraction"] <= 1
        assert session["control_steps"] > HORIZON
    assert "busy_fraction" not in (tmp_path / "records.jsonl").read_text()
    assert len(load_run(tmp_path).records) == 2 * len(MIXED.cases)


def test_no_room_for_the_line_is_no_reason_to_fail(tmp_path: Path):
    (tmp_path / "sessions.jsonl").mkdir()
    Session("2026-01-01T00:00:00+00:00", 1.0, 1.0, 1, 1.0, 10, 2).append_to(tmp_path)
