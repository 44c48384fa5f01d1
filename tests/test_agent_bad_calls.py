"""Bad calls and bad programs against the tools of all three benchmarks: told, charged, and nothing moves, to the bit."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from evals import registry
from evals.toolsets import toolset_of
from mjx_bench.agent import Reply, ToolCall, Turn
from mjx_bench.agents import program
from mjx_bench.agents.harness import with_programs
from mjx_bench.agents.lane import Lane
from mjx_bench.budgets import Decisions
from mjx_bench.task import Task
from mjx_bench.tools import REQUIRED, Param, Tool
from tests.agent_plays import DRONE, ROOM, Played, Says, call, named, play, robotworld

HOUSE = registry.load_task("robot_agent_bench", 2)
CAR = robotworld("rw-courtyard")
MUG = robotworld("WhiteMugInCenterOfTableTask")
LANES: dict[str, Task] = {"roboquest": ROOM, "drone": DRONE, "car": CAR, "arm": MUG, "house": HOUSE}


@pytest.fixture(scope="module", params=LANES, ids=list(LANES))
def lane(request: pytest.FixtureRequest) -> Iterator[Lane]:
    with Lane(LANES[request.param], "c") as lane:
        yield lane


def sound(param: Param) -> Any:
    """A value that is taken."""
    if param.kind == "text":
        return param.choices[0] if param.choices else "x"
    if param.kind == "flag":
        return False
    number = 1 if param.kind == "integer" else min(max(0.5, param.low), param.high)
    row = [number] * param.length
    return {"numbers": row, "rows": [row]}.get(param.kind, number)


def unsound(param: Param) -> list[Any]:
    """Values that are not: of another type, not finite, out of range, too long."""
    wrong: list[Any] = [{}, {"a": [1]}, [], [[]], [None]]
    wrong += [] if param.kind == "text" and not param.choices else ["far", ""]
    if param.kind == "text":
        return [*wrong, 3, True, *(["x" * (param.most + 1)] if param.most else [])]
    if param.kind == "flag":
        return [*wrong, 0, "true"]
    beyond = [param.high * 1.01 + 1.0] if math.isfinite(param.high) else []
    beyond += [param.low * 1.01 - 1.0] if math.isfinite(param.low) else []
    numbers = [math.nan, math.inf, -math.inf, True, "0", None, 10**400, *beyond]
    if param.kind in ("number", "integer"):
        return [*wrong, *numbers, *([1.5] if param.kind == "integer" else [])]
    good = sound(param) if param.kind == "numbers" else sound(param)[0]
    rows = [[n, *good[1:]] for n in numbers] + [good[1:], [*good, 0.0], good[0]]
    return [*wrong, *(rows if param.kind == "numbers" else [[r] for r in rows] + [[good] * (param.most + 1)])]


def bad_calls(tool: Tool) -> list[Any]:
    """Arguments that the tool must not take."""
    good = {name: sound(param) for name, param in tool.params.items()}
    required = [name for name, param in tool.params.items() if param.default is REQUIRED]
    bad: list[Any] = [None, [good], "go", 3, {**good, "force": 1.0}, {**good, "": 0}]
    bad += [{k: v for k, v in good.items() if k != name} for name in required]
    return bad + [{**good, name: value} for name, param in tool.params.items() for value in unsound(param)]


def refuse(lane: Lane, instance: int) -> tuple[Played, set[str]]:
    """Asks for every bad thing there is; what came of it, and digests of the state between."""
    tools = toolset_of(lane.task).tools
    asked = [("fly", {}), ("", {}), *((tool.name, bad) for tool in tools for bad in bad_calls(tool))]
    calls = [ToolCall(str(i), name, given) for i, (name, given) in enumerate(asked)]
    together = 1 if toolset_of(lane.task).one_call else 25
    every = [Reply(tuple(calls[i : i + together])) for i in range(0, len(calls), together)]
    digests: set[str] = set()

    def asks(reply: Reply) -> Any:
        def say(turn: Turn) -> Reply:
            digests.add(lane.digest())
            return reply

        return say

    # So many decisions that all fit; what each costs is asked for below.
    toolset = dataclasses.replace(toolset_of(lane.task), budget=Decisions(len(every) + 1))
    played = play(lane, Says(*map(asks, every), asks(Reply(ending="refused"))), toolset, instance)
    assert len(played.feedback()) == len(asked)
    return played, digests


def test_no_bad_call_of_any_tool_moves_anything_or_tells_of_the_state(lane: Lane):
    answers = []
    for instance in range(2):
        played, digests = refuse(lane, instance)
        assert len(digests) == 1, "the state is the same to the bit"
        assert (lane.episode.step, lane.episode.reason) == (0, "provider_refusal")
        answers.append(played.feedback())
    assert len(answers[0]) > 20
    assert all(set(a) == {"accepted", "steps", "error"} and not a["accepted"] and a["steps"] == 0 for a in answers[0])
    assert all(a["error"].isascii() and "\n" not in a["error"] and len(a["error"]) < 400 for a in answers[0])
    # What is said follows from the call alone: another home, another state, and the same words.
    assert answers[0] == answers[1]
    json.dumps(played.events, allow_nan=False)


BAD = ToolCall("b", "wait", {"ticks": math.nan})


def left(turn: Turn) -> dict[str, Any]:
    """What an agent is told of its budget."""
    text = next(part for part in turn.messages[-1].parts if isinstance(part, str) and "CURRENT" in part)
    found: dict[str, Any] = json.loads(text.partition(": ")[2])
    return {name: value for name, value in found.items() if name.startswith(("decisions", "nonaction"))}


def test_a_bad_call_costs_what_its_benchmark_says(lane: Lane):
    agent = Says(Reply((BAD,)), Reply((BAD, BAD)), Reply(ending="refused"))
    play(lane, agent)
    spent = [left(turn) for turn in agent.turns]
    if lane.task.suite == "robotworld":
        # One unit for each call that was not carried out.
        assert [s["nonaction_total"] for s in spent] == [0, 1, 3]
        assert [s["nonaction_in_a_row"] for s in spent] == [0, 1, 3]
    else:
        # One decision a reply, however many calls it holds.
        assert [s["decisions_left"] for s in spent] == [toolset_of(lane.task).budget.limit - n for n in range(3)]  # type: ignore[attr-defined]


def test_a_bad_call_among_others_is_left_out_where_several_may_be(lane: Lane):
    names = {tool.name: tool for tool in toolset_of(lane.task).tools}
    if toolset_of(lane.task).one_call:
        agent = Says(Reply((BAD, ToolCall("c", "wait", {}))), Reply(ending="refused"))
        played = play(lane, agent)
        assert [f["steps"] for f in played.feedback()] == [0, 0], "not exactly one call: none"
        return
    name = next(n for n in ("step", "drive", "apply_action", "set_gripper") if n in names)
    good = {n: sound(p) for n, p in names[name].params.items() if p.default is REQUIRED}
    agent = Says(Reply((ToolCall("a", name, good), BAD, ToolCall("c", name, good))), Reply(ending="refused"))
    played = play(lane, agent)
    assert [f["steps"] for f in played.feedback()] == [1, 0, 1]
    assert [m.call_id for m in agent.turns[1].messages if m.role == "tool"] == ["a", "b", "c"]


DEF = "def act(observation, memory, step, left):\n    "
PROGRAMS = {
    "loops": "while True: pass",
    "prints": "while True: print('x' * 10**6)",
    "writes": "import os\n    while True: os.write(1, b'x' * 65536)",
    "allocates": "kept = []\n    while True: kept.append(np.ones(10**6))",
    "forks": "import os\n    while True: os.fork()",
    "threads": "import threading\n    while True: threading.Thread(target=print).start()",
    "floods": "import os\n    while True: os.write(1, b'{}')",
    "sleeps": "import time\n    time.sleep(10**6)",
}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="processes are locked up on Linux alone")
def test_no_program_does_more_than_its_own_call(lane: Lane, monkeypatch: pytest.MonkeyPatch):
    if not toolset_of(lane.task).program_steps:
        pytest.skip("this task has no code control")
    monkeypatch.setattr(program, "STEP_CPU_S", 0.5)
    monkeypatch.setattr(program, "STEP_WALL_S", 5.0)
    digests: list[str] = []

    def runs(body: str) -> Any:
        def say(turn: Turn) -> Reply:
            digests.append(lane.digest())
            return call("run_program", {"source": DEF + body, "steps": 5})

        return say

    toolset = with_programs(toolset_of(lane.task), lane.task)
    agent = Says(*map(runs, PROGRAMS.values()), Reply(ending="refused"))
    played = play(lane, agent, toolset)
    assert len(set(digests)) == 1
    assert lane.episode.step == 0
    answers = dict(zip(PROGRAMS, played.feedback(), strict=True))
    assert all(a["steps"] == 0 and a["stopped"] == "error" for a in answers.values()), answers
    assert "took more than" in answers["loops"]["error"]
    assert "PermissionError" in answers["forks"]["error"]
    if lane.task.suite == "robotworld":
        assert left(agent.turns[-1])["nonaction_total"] == len(PROGRAMS)
    else:
        assert left(agent.turns[-1])["decisions_left"] == toolset.budget.limit - len(PROGRAMS)  # type: ignore[attr-defined]


SUITES = ("roboquest", "robotworld", "robot_agent_bench")
EVERY = [(suite, row["name"]) for suite in SUITES for row in registry.task_table(suite)]


@pytest.mark.slow
@pytest.mark.parametrize(("suite", "name"), EVERY, ids=[name for _, name in EVERY])
def test_every_tool_of_every_task_takes_a_sound_call(suite: str, name: str):
    task = named(suite, name)
    tools = [tool for tool in toolset_of(task).tools if tool.name not in ("stop", "done")]
    calls = [call(tool.name, {n: sound(p) for n, p in tool.params.items() if p.default is REQUIRED}) for tool in tools]
    with Lane(task, "c") as lane:
        played = play(lane, Says(*calls, Reply(ending="refused")))
        answers = dict(zip([tool.name for tool in tools], played.feedback(), strict=False))
        assert lane.episode.verdict != "void", lane.episode.reason
    assert answers
    assert all(answer["accepted"] for answer in answers.values()), answers
    json.dumps(answers, allow_nan=False)
