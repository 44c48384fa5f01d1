"""`mjx-bench agent`: mistakes in one line, what would be given, and a run that goes on."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from mjx_bench.agents.transcript import read_summary
from mjx_bench.records import load_run
from policies.agents.programmed import Programmed
from scripts import cli

ROOT = Path(__file__).resolve().parents[1]
RUN = ["agent", "--suite", "robotworld", "--task", "drone_payload_hover"]
PRIVILEGED = "agent scripted reads the simulator's state, which no benchmark lets an agent do\n"
HOUSE = ["agent", "--suite", "robot_agent_bench", "--task", "drink_selection", "--agent", "scripted"]
PARCEL = ["agent", "--suite", "roboquest", "--task", "odd_parcel", "--agent", "scripted"]


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ([*RUN, "--agent", "scriptd"], "unknown agent 'scriptd'; did you mean scripted"),
        ([*RUN, "--agent", "openai:"], "agent 'openai' needs a model"),
        ([*RUN, "--agent", "openai: "], "agent 'openai' needs a model"),
        ([*RUN, "--agent", "openai:", "--dry-run"], "agent 'openai' needs a model"),
        ([*RUN, "--agent", "openai:tiny"], "set OPENAI_API_KEY"),
        ([*RUN, "--agent", "code:/nowhere.py"], "cannot read the program"),
        ([*RUN, "--agent", "code:{tmp}/broken.py"], "the program is no Python: line 2: invalid syntax"),
        ([*RUN, "--agent", "code:{tmp}/outside.py"], "the program is no Python: line 1: 'return' outside function"),
        ([*RUN, "--agent", "code:{tmp}/long.py"], "16001 characters; a program may have 16000"),
        ([*RUN, "--agent", "code:{tmp}/empty.py"], "the program defines no act"),
        ([*RUN, "--agent", "code:{tmp}/other.py"], "the program defines no act"),
        ([*RUN, "--agent", "code:{tmp}/inside.py"], "the program defines no act"),
        ([*HOUSE, "--backend", "jax"], "--scene-form lean"),
        ([*PARCEL, "--backend", "jax"], "engine jax computes 2000 contacts a step at most"),
        ([*RUN, "--agent", "json:loads"], "give module:factory"),
        ([*RUN, "--agent", "json:JSONDecoder"], "expected the members of mjx_bench.agent.Agent"),
        ([*RUN, "--agent", "scripted", "--instances", "0"], "--instances 0 is too small"),
        ([*RUN[:3], "--task", "drone_payload_hove", "--agent", "scripted"], "did you mean drone_payload_hover"),
        ([*RUN, "--agent", "scripted", "--backend", "gpu", "--dry-run"], "unknown backend 'gpu'"),
        (["agent", "--suite", "robotwrld", "--task", "0", "--agent", "scripted"], "did you mean robotworld"),
    ],
)
def test_mistakes_are_one_line(
    args: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / "broken.py").write_text("def act(observation, memory, step, left):\n    return return\n")
    (tmp_path / "outside.py").write_text("return 3\ndef act(observation, memory, step, left): pass\n")
    (tmp_path / "long.py").write_text("#" * 16_001)
    (tmp_path / "empty.py").touch()
    (tmp_path / "other.py").write_text("def move(observation, memory, step, left):\n    return act\n")
    (tmp_path / "inside.py").write_text("class Program:\n    def act(self):\n        pass\n")
    args = [arg.replace("{tmp}", str(tmp_path)) for arg in args]
    assert cli.main([*args, "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err.removeprefix(PRIVILEGED)
    assert told in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_what_would_be_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    args = ["agent", "--suite", "roboquest", "--task", "search_room_open", "--agent", "scripted", "--dry-run"]
    assert cli.main([*args, "--out", str(tmp_path / "out")]) == 0
    text = capsys.readouterr().out
    assert "wait(gripper, ticks): Hold arm and base." in text
    assert "at most 40000 control steps" in text
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("agent", ["openai:tiny", "code:{tmp}/rise.py"])
def test_what_would_be_given_asks_no_server_and_names_code_control(
    agent: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / "rise.py").write_text("def act(observation, memory, step, left):\n    return [0.2] * 4\n")
    args = [*RUN, "--agent", agent.format(tmp=tmp_path), "--dry-run", "--json", "--out", str(tmp_path / "out")]
    assert cli.main(args) == 0
    tools = [tool["name"] for tool in json.loads(capfd.readouterr().out)["tools"]]
    assert tools == ["observe", "apply_action", *(["run_program"] if agent.startswith("code") else [])]
    assert not (tmp_path / "out").exists()


OWN = """
from mjx_bench.agent import AgentSpec, Reply, ToolCall

class Own:
    def __init__(self, **spec):
        self.spec = AgentSpec(**({"name": "own"} | spec))

    def init(self, task, tools, seed):
        return 0

    def reply(self, carry, turn):
        return Reply((ToolCall("1", None, {}),)), carry

class Half:
    spec = AgentSpec("half")
    reply = None

def no_name(): return Own(name=None)
def sees_much(): return Own(sees="much")
def no_json(): return Own(settings={"temperature": float("nan")})
def leaves(): raise SystemExit(3)
"""


@pytest.mark.parametrize(
    ("factory", "told"),
    [
        ("Own", "agent 'own': gave Reply.calls[0].name = None; expected text; the same command goes on"),
        ("Half", "expected the members of mjx_bench.agent.Agent"),
        ("no_name", "agent 'own_agent:no_name': its spec has the name None; expected text"),
        ("sees_much", "its spec has sees = 'much'; expected True or False"),
        ("no_json", "settings of its spec cannot be recorded"),
        ("leaves", "agent 'own_agent:leaves': SystemExit: 3"),
    ],
)
def test_an_agent_that_breaks_the_contract_is_one_line(
    factory: str, told: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "own_agent.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    assert cli.main([*RUN, "--agent", f"own_agent:{factory}", "--out", str(tmp_path / "out")]) == 2
    error = capfd.readouterr().err
    assert told in error
    assert "Traceback" not in error
    assert not (tmp_path / "out" / "agent").exists()


def test_the_agent_in_the_docs_plays(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    text = (ROOT / "docs/agents.md").read_text()
    source = text.partition("```python\n# my_agent.py:")[2].partition("```")[0]
    (tmp_path / "my_agent.py").write_text(f"#{source}")
    command = shlex.split(source.splitlines()[0].partition("mjx-bench ")[2])
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert cli.main([*command, "--json"]) == 0
    [row] = json.loads(capfd.readouterr().out)["rows"]
    assert (row["termination"], row["turns"], row["steps"]) == ("declared_stop", 4, 30)
    assert (row["refused"], row["failed"], row["last_error"]) == ({}, 0, None)


@pytest.mark.parametrize(
    "source",
    [
        "exec('def act(o, m, s, n): pass')",
        "globals()['act'] = lambda *a: None",
        "def setup():\n    global act\n    def act(*a): pass\nsetup()",
        "from mine import *",
        "act = lambda *a: None",
    ],
)
def test_a_program_may_bring_its_act_as_it_likes(source: str, tmp_path: Path):
    (tmp_path / "mine.py").write_text(source + "\nprint('\\d')\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Programmed(str(tmp_path / "mine.py")).spec.code


FAILS = "def act(observation, memory, step, left):\n    return [0.0, float('nan')] if step == 100 else [0.0] * 4\n"


def test_why_a_program_failed_is_shown(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    (tmp_path / "fails.py").write_text(FAILS)
    assert cli.main([*RUN, "--agent", f"code:{tmp_path / 'fails.py'}", "--out", str(tmp_path / "out")]) == 0
    said = capfd.readouterr().err
    assert "the last call that was refused or failed: act must return a list of 4 numbers, or None" in said
    summary = read_summary(tmp_path / "out", load_run(tmp_path / "out").records[0].case_id)
    assert summary["failed"] == summary["turns"] - 1 > 0, "the last call ends with its episode"


PATIENT = """
import time
from mjx_bench.agent import AgentSpec, Reply, ToolCall

class Patient:
    spec = AgentSpec("patient")

    def init(self, task, tools, seed):
        return 0

    def reply(self, carry, turn):
        time.sleep(0.02)
        action = [0.1 + (turn.seed % 7) / 50] * 4
        return Reply((ToolCall(str(turn.number), "apply_action", {"action": action, "steps": 5}),)), carry + 1
"""


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on_and_comes_out_as_one_that_was_not(tmp_path: Path):
    (tmp_path / "patient.py").write_text(PATIENT)
    env = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    args = [sys.executable, "-m", "scripts.cli", *RUN, "--agent", "patient:Patient", "--instances", "4", "--out"]

    def records(out: str) -> dict[str, object]:
        return {r.case_id: r.result() for r in load_run(tmp_path / out).records}

    for kills in range(3):
        running = subprocess.Popen([*args, str(tmp_path / "killed")], cwd=tmp_path, env=env, stderr=subprocess.DEVNULL)
        path, end = tmp_path / "killed" / "records.jsonl", time.monotonic() + 120
        # With one episode more than before, and the next begun.
        while time.monotonic() < end and (not path.exists() or path.read_bytes().count(b"\n") <= kills):
            time.sleep(0.02)
        running.kill()
        running.wait()
        assert len(records("killed")) >= kills + 1
    for out in ("killed", "whole"):
        done = subprocess.run([*args, str(tmp_path / out)], cwd=tmp_path, env=env, capture_output=True, timeout=300)
        assert done.returncode == 0, done.stderr
    assert records("killed") == records("whole")
    for out in ("killed", "whole"):
        assert len(load_run(tmp_path / out).records) == len(list((tmp_path / out / "agent").iterdir())) == 4


def test_a_program_flies_by_the_command_and_a_second_call_has_nothing_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "rise.py"
    # A little more than it weighs, however the lag has the rotors.
    file.write_text("def act(observation, memory, step, left):\n    return [0.2] * 4\n")
    args = [*RUN, "--agent", f"code:{file}", "--out", str(tmp_path / "out")]
    assert cli.main(args) == 0
    assert "code:rise.py" in capsys.readouterr().out
    (record,) = load_run(tmp_path / "out").records
    assert (
        record.n_queries == len(json.loads((next((tmp_path / "out" / "agent").iterdir())).read_text())["events"]) // 3
    )
    before = (tmp_path / "out" / "records.jsonl").read_bytes()
    assert cli.main(args) == 0
    assert (tmp_path / "out" / "records.jsonl").read_bytes() == before
