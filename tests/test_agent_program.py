"""Code control: a program decides every control step, and can do nothing else, however it tries."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evals.toolsets import toolset_of
from mjx_bench.agents import program
from mjx_bench.agents.harness import with_programs
from mjx_bench.agents.lane import Lane
from mjx_bench.errors import BenchError
from mjx_bench.tools import BadCall, Program, Toolset
from policies.agents.registry import make
from tests.agent_plays import DRONE, Says, call, play, robotworld

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are locked up on Linux alone")

DEF = "def act(observation, memory, step, left):\n"


def ask(source: str, steps: int = 1, observed: Any = None) -> list[Any]:
    """What the program answers for each of so many steps; the text of the refusal last, if there is one."""
    found: list[Any] = []
    try:
        with program.running(Program(source, steps), lambda obs: observed or {"x": [1.5]}, 2) as action:
            for step in range(steps):
                answer = action(None, step)  # type: ignore[arg-type]
                found.append(answer if isinstance(answer, str) else answer.tolist())
    except BadCall as bad:
        found.append(bad.told)
    return found


def test_a_program_gets_what_may_be_observed_a_memory_and_its_steps():
    source = f"""
SCALE = math.sqrt(0.01)
{DEF}    memory["n"] = memory.get("n", 0) + 1
    print("is read by nobody")
    if left == 1:
        return None
    return np.array([SCALE * observation["x"][0], memory["n"] / 10 + step])
"""
    assert ask(source, 2) == [[pytest.approx(0.15), pytest.approx(0.1)], "done"]


BODIES: dict[str, Any] = {
    "raise ValueError('no\\nidea')": "ValueError: no idea",
    "return [0.0]": "act must return a list of 2 numbers",
    "return [0.0, 1.01]": "within -1 and 1",
    "return [0.0, float('nan')]": "act must return finite numbers within -1 and 1",
    "return [float('inf'), 0.0]": "act must return finite numbers within -1 and 1",
    "return [-float('inf'), 0.0]": "act must return finite numbers within -1 and 1",
    "return [10**400, 0.0]": "act must return finite numbers within -1 and 1",
    "return [True, 0.0]": "finite numbers",
    "return act": "not JSON serializable",
    "return act(observation, memory, step, left)": "RecursionError",
    "raise SystemExit": "SystemExit",
    "open('/etc/hostname')": "PermissionError",
    "open('/tmp/written', 'w')": "PermissionError",
    "import socket": "ModuleNotFoundError",
    "import os, json; return [0.0, 1.0]": [0.0, 1.0],  # Python has loaded them
    "import os; os.fork()": "PermissionError",
    "import os; os.kill(os.getppid(), 9)": "PermissionError",
    "import os; os.execv('/bin/sh', ['sh'])": "PermissionError",
    "import resource; resource.setrlimit(resource.RLIMIT_AS, (2**40, 2**40))": "ValueError",
    "import ctypes; return [1.0 if ctypes.CDLL(None).socket(2, 1, 0) < 0 else 0.0, 0.0]": [1.0, 0.0],
}


def test_programs_that_fail_or_reach_out_are_refused():
    """All in one process, which goes on after each: a process takes a second of a busy machine to begin."""
    source = f"""
BODIES = {list(BODIES)!r}
{DEF}    scope = dict(globals())
    exec("{DEF.strip()}\\n    " + BODIES[step], scope)
    return scope["act"](observation, memory, step, left)
"""
    with program.running(Program(source, len(BODIES)), lambda obs: {}, 2) as action:
        for step, (body, told) in enumerate(BODIES.items()):
            try:
                found = action(None, step).tolist()  # type: ignore[arg-type, union-attr]
            except BadCall as bad:
                found = bad.told
            assert found == told or told in found, body


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("return [0] * 10**6", "act returned too much"),
        ("import os; os._exit(0)", "the program ended its process"),
        ("import os; os.write(1, b'{}\\n[]\\n'); return [0.0, 0.0]", "done"),  # it told so itself
    ],
)
def test_a_program_that_spoils_its_channel_ends(body: str, told: str):
    assert ask(f"{DEF}    {body}") == [told]


def test_a_program_that_answers_without_reading_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(program, "STEP_WALL_S", 1.0)
    source = f"import os\n{DEF}    while True: os.write(1, b'{{\"action\": [0.0, 0.0]}}\\n') and sum(range(10**5))"
    *answered, last = ask(source, 300, {"x": "y" * 4000})
    assert last == "the program does not read what it is told"
    assert len(answered) < 100


@pytest.mark.parametrize("source", ["def act(:", "x = 1", "import socket", "act = 3"])
def test_a_program_that_does_not_load_says_why(source: str):
    (told,) = ask(source)
    assert "the program failed" in told


def test_a_loop_without_end_ends_the_program(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(program, "STEP_CPU_S", 0.2)
    assert ask(f"{DEF}    while True: pass") == ["the program took more than 0.2 s for one step"]
    # Neither does one that waits, nor one that will not be told.
    monkeypatch.setattr(program, "STEP_WALL_S", 0.5)
    waits = f"import _thread\nlock = _thread.allocate_lock()\n{DEF}    lock.acquire(); lock.acquire()"
    assert "took more than" in ask(waits)[0]


def test_allocating_without_end_ends_the_program():
    (told,) = ask(f"kept = []\n{DEF}    while True: kept.append(bytearray(1 << 22))")
    assert "MemoryError" in told


def test_a_process_is_gone_afterwards_and_knows_nothing_of_ours(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    started: list[Any] = []
    popen = program.subprocess.Popen
    monkeypatch.setattr(program.subprocess, "Popen", lambda *a, **k: started.append(popen(*a, **k)) or started[-1])
    found = ask(f"import os\n{DEF}    return [0.0 if 'OPENAI_API_KEY' in os.environ else 1.0, float(len(os.environ))]")
    assert found == ["act must return finite numbers within -1 and 1"]
    assert ask(f"import os\n{DEF}    return [float('secret' in str(os.environ)), 0.0]") == [[0.0, 0.0]]
    for process in started:
        assert process.returncode is not None
        assert not os.path.exists(f"/proc/{process.pid}/exe")


@pytest.fixture(scope="module")
def drone() -> Iterator[Lane]:
    with Lane(DRONE, "c") as lane:
        yield lane


@pytest.fixture
def tools() -> Toolset:
    return with_programs(toolset_of(DRONE), DRONE)


def test_a_program_moves_the_robot_and_an_error_keeps_what_was_done(drone: Lane, tools: Toolset):
    source = f"{DEF}    if step == 3: raise RuntimeError('enough')\n    return [0.1] * 4"
    early = f"{DEF}    return None"
    replies = [call("run_program", {"source": s, "steps": 250}) for s in (source, early)]
    played = play(drone, Says(*replies, call("observe")), tools)
    first, second = played.feedback()[:2]
    assert (first["steps"], first["stopped"]) == (3, "error")
    assert "RuntimeError: enough (line 2)" in first["error"]
    assert second == {"accepted": True, "steps": 0, "stopped": "done"}
    assert drone.episode.step == 3
    # A call that executed nothing costs a unit, like any.
    assert played.transcript.summary["budget"]["kinds"]["robot_zero"] == 15


@pytest.mark.parametrize(
    "given",
    [{"steps": 3}, {"source": "x", "steps": 251}, {"source": "#" * 16_001, "steps": 3}, {"source": 3, "steps": 3}],
)
def test_a_bad_call_starts_no_process(monkeypatch: pytest.MonkeyPatch, drone: Lane, tools: Toolset, given: Any):
    monkeypatch.setattr(program, "_Child", None)
    played = play(drone, Says(call("run_program", given), call("observe")), tools)
    assert not played.feedback()[0]["accepted"]
    assert drone.episode.step == 0


def test_a_file_plays_by_itself(tmp_path: Path):
    file = tmp_path / "hold.py"
    file.write_text(f"{DEF}    return [0.12] * 4")
    agent = make(f"code:{file}")
    task = dataclasses.replace(DRONE, horizon=12)
    with Lane(task, "c") as lane:
        played = play(lane, agent, with_programs(toolset_of(task), task))  # type: ignore[arg-type]
        assert (lane.episode.step, lane.episode.reason) == (12, "horizon")
        assert played.transcript.summary["turns"] == 1
    with pytest.raises(BenchError, match="cannot read the program"):
        make(f"code:{tmp_path / 'none.py'}")


def test_a_benchmark_without_code_control_refuses_it():
    mug = robotworld("WhiteMugInCenterOfTableTask")
    with pytest.raises(BenchError, match="lets no program"):
        with_programs(toolset_of(mug), mug)
