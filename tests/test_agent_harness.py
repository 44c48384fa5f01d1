"""An agent's episode: what a call does, what a bad one costs, what ends it, and what is kept."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from evals import registry
from evals.roboquest.tools import REJECTION
from evals.robotworld.budget import CONSECUTIVE
from evals.toolsets import toolset_of
from mjx_bench.agent import AgentFault, Picture, Reply, ToolCall, Turn
from mjx_bench.agents.harness import AGAIN
from mjx_bench.agents.lane import Lane
from mjx_bench.agents.transcript import read_calls
from mjx_bench.budgets import Decisions
from mjx_bench.tools import BadCall, Motion, Recall, Told, Tool
from tests.agent_plays import DRONE, HALF, ROOM, Says, call, play

GO = call("apply_action", HALF | {"steps": 2})
STOP = call("stop")
HERE = [-0.1, 0.0, 1.1]


@pytest.fixture(scope="module")
def drone() -> Iterator[Lane]:
    with Lane(DRONE, "c") as lane:
        yield lane


@pytest.fixture(scope="module")
def room() -> Iterator[Lane]:
    with Lane(ROOM, "c") as lane:
        yield lane


def test_a_call_moves_so_many_steps_and_its_agent_sees_the_next_state(drone: Lane):
    agent = Says(GO, GO, call("apply_action", HALF | {"steps": 50}))
    played = play(drone, agent)
    assert [f["steps"] for f in played.feedback()[:3]] == [2, 2, 50]
    assert drone.episode.query_steps[:3] == [0, 2, 4]
    states = [json.loads(t.messages[-1].text.partition(": ")[2].partition("\n")[0]) for t in agent.turns[:3]]
    assert [s["step"] for s in states] == [0, 2, 4]
    assert states[0]["linear_velocity_m_s"] != states[1]["linear_velocity_m_s"]


def test_a_motion_ends_where_it_says_and_adds_what_is_left(room: Lane):
    def use(a, obs):
        return Motion(5, lambda now, step: np.zeros(7) if step < 3 else "reached", residual=lambda now: {"left": 0.5})

    told = Tool("look", "Look.", {}, lambda a, obs: Told({"seen": 3}))
    toolset = dataclasses.replace(toolset_of(ROOM), tools=(Tool("go", "Go.", {}, use), told, *toolset_of(ROOM).tools))
    played = play(room, Says(call("go"), call("look"), STOP), toolset)
    assert played.feedback()[0] == {"accepted": True, "steps": 3, "stopped": "reached", "left": 0.5}
    assert played.feedback()[1] == {"accepted": True, "steps": 0, "seen": 3}
    assert room.episode.reason == "declared_stop"


ARM = {"position_world_m": HERE}
BAD = {
    "unknown tool": ("fly", {}, "fields"),
    "missing argument": ("arm", {"ticks": 3}, "fields"),
    "extra argument": ("arm", {**ARM, "speed": 1.0}, "fields"),
    "no object": ("arm", [1, 2], "fields"),
    "NaN": ("arm", {"position_world_m": [0.0, math.nan, 1.0]}, "values"),
    "infinite": ("arm", {"position_world_m": [0.0, math.inf, 1.0]}, "values"),
    "an integer of 400 digits": ("arm", {"position_world_m": [10**400, 0.0, 1.0]}, "values"),
    "boolean": ("arm", {"position_world_m": [0.0, True, 1.0]}, "values"),
    "text": ("arm", {"position_world_m": [0.0, "0", 1.0]}, "values"),
    "short list": ("arm", {"position_world_m": [0.0, 1.0]}, "values"),
    "out of the envelope": ("arm", {"position_world_m": [0.0, 7.0, 1.0]}, "values"),
    "too low": ("arm", {"position_world_m": [0.0, 0.0, 0.2]}, "values"),
    "quaternion": ("arm", {**ARM, "quaternion_xyzw": [0.0, 0.0, 0.0, 0.9]}, "values"),
    "no ticks": ("arm", {**ARM, "ticks": 0}, "values"),
    "too many ticks": ("wait", {"ticks": 201}, "values"),
    "half a tick": ("wait", {"ticks": 1.5}, "values"),
    "gripper": ("wait", {"gripper": 1.01}, "values"),
    "nested": ("wait", {"ticks": {"a": [1]}}, "values"),
    "null": ("wait", {"ticks": None}, "values"),
}


def test_a_bad_call_costs_a_decision_and_moves_nothing(room: Lane):
    digests: list[str] = []

    def bad(name, arguments):
        def say(turn: Turn) -> Reply:
            digests.append(room.digest())
            return call(name, arguments)

        return say

    agent = Says(*(bad(name, given) for name, given, _ in BAD.values()), bad("stop", {}))
    played = play(room, agent)
    assert len(set(digests)) == 1, "the state is the same to the bit, whatever was asked"
    # One thing is said of all of them, so that nothing can leak; the cause stands in the transcript alone.
    assert played.feedback()[:-1] == [{"accepted": False, "steps": 0, "error": REJECTION}] * len(BAD)
    refused = [event["cause"] for event in played.events if event["event"] == "refused"]
    assert refused == [cause for _, _, cause in BAD.values()]
    left = [json.loads(t.messages[-1].text.partition(": ")[2])["decisions_left"] for t in agent.turns]
    assert left == [200 - i for i in range(len(BAD) + 1)]
    assert played.transcript.summary["refused"] == {"fields": 4, "values": len(BAD) - 4}


def test_two_calls_at_once_are_none_where_one_is_wanted(room: Lane):
    two = Reply((ToolCall("a", "wait", {}), ToolCall("b", "wait", {})))
    agent = Says(two, STOP)
    played = play(room, agent)
    assert room.episode.step == 0
    assert [event["cause"] for event in played.events if event["event"] == "refused"] == ["calls", "calls"]
    answers = [m for m in agent.turns[1].messages if m.role == "tool"]
    assert [m.call_id for m in answers] == ["a", "b"], "every call is answered"


def test_calls_of_a_reply_run_in_turn_where_several_may_be(drone: Lane):
    several = Reply((*GO.calls, ToolCall("b", "apply_action", {"action": [2.0] * 4, "steps": 1}), *GO.calls))
    ends = Says(several, call("observe"))
    played = play(drone, ends)
    assert [f["steps"] for f in played.feedback()[:3]] == [2, 0, 2]
    assert "action[0] must be within -1 and 1" in played.feedback()[1]["error"]


def test_idling_ends_by_the_ledger_and_not_by_text(drone: Lane):
    agent = Says(GO, Reply(text="I have done it."), call("observe"))
    played = play(drone, agent)
    # One unit for the empty turn, then one for each call that executes nothing.
    assert (drone.episode.verdict, drone.episode.reason) == ("timeout", CONSECUTIVE)
    budget = played.transcript.summary["budget"]
    assert (budget["consecutive"], budget["kinds"]["empty_turn"], budget["kinds"]["robot_zero"]) == (15, 1, 14)
    assert len(agent.turns) == 1 + 15
    # The text got the last packet again, and a word that the episode goes on.
    before, again = (turn.messages[-1].text.partition('"nonaction')[0] for turn in agent.turns[1:3])
    assert again == f"{AGAIN}\n{before}"
    assert "round 1, step 2" in before


def test_a_text_ends_where_the_benchmark_says_so(room: Lane):
    play(room, Says(Reply(text="Done.")))
    assert (room.episode.verdict, room.episode.reason, room.episode.step) == ("timeout", "provider_final_answer", 0)


def test_decisions_run_out(room: Lane):
    toolset = dataclasses.replace(toolset_of(ROOM), budget=Decisions(3))
    played = play(room, Says(call("wait", {"ticks": 2})), toolset)
    assert (room.episode.verdict, room.episode.reason) == ("timeout", "model_response_budget")
    assert (room.episode.step, played.transcript.summary["turns"]) == (6, 3)


def test_an_answer_that_is_not_whole_is_not_carried_out_and_scores_nothing(room: Lane):
    cut = dataclasses.replace(call("wait"), ending="cut_off")
    play(room, Says(cut))
    assert (room.episode.verdict, room.episode.step) == ("void", 0)
    play(room, Says(dataclasses.replace(cut, ending="refused")))
    assert (room.episode.verdict, room.episode.reason) == ("timeout", "provider_refusal")


@pytest.mark.parametrize("error", [RuntimeError("no\nidea"), SystemExit("no idea")])
def test_an_agent_that_raises_stops_the_run(room: Lane, error: BaseException):
    def fails(turn: Turn) -> Reply:
        raise error

    said = rf"^raised {type(error).__name__}: no idea \(test_agent_harness\.py, line \d+\)$"
    with pytest.raises(AgentFault, match=said):
        play(room, Says(call("wait", {"ticks": 1}), fails))
    assert room.episode.verdict is None


def test_an_agent_that_rewrites_its_tools_rewrites_a_copy(room: Lane):
    class Rewrites(Says):
        def init(self, task: Any, tools: Any, seed: int) -> int:
            tools[0]["name"] = "hold"
            return super().init(task, tools, seed)

    def again(turn: Turn) -> Reply:
        turn.tools[0]["parameters"].clear()  # type: ignore[attr-defined]
        return call("wait", {"ticks": 1})

    played = play(room, Rewrites(again, again, call("stop")))
    wanted = [tool.schema() for tool in toolset_of(ROOM).tools]
    assert list(played.agent.turns[2].tools) == wanted
    assert played.transcript._head["tools"] == wanted


class Wordless:
    def __repr__(self) -> str:
        raise RuntimeError("no words")

    __str__ = __repr__


WAIT = ToolCall("c", "wait", {"ticks": 1})
# What an agent's reply is (with its carry, unless it is given as it is), and what is said of it.
BROKEN: dict[str, tuple[Any, str]] = {
    "nothing": (Reply, "returned <class 'mjx_bench.agent.Reply'>; expected a pair (Reply, carry)"),
    "no carry": ((Reply(),), "expected a pair (Reply, carry)"),
    "no reply": ((None, 0), "returned as its reply None; expected a Reply"),
    "calls None": (Reply(None), "gave Reply.calls = None; expected a tuple of ToolCall"),  # type: ignore[arg-type]
    "one call": (Reply(WAIT), "gave Reply.calls = ToolCall(id='c', name='wait'"),  # type: ignore[arg-type]
    "a call as a dict": (Reply(({"name": "wait"},)), "gave Reply.calls[0] = {'name': 'wait'}; expected a ToolCall"),  # type: ignore[arg-type]
    "text None": (Reply(text=None), "gave Reply.text = None; expected text"),  # type: ignore[arg-type]
    "ending": (Reply(ending="stop"), "gave Reply.ending = 'stop'; expected one of '', 'refused', 'cut_off'"),  # type: ignore[arg-type]
    "ending list": (Reply(ending=[]), "gave Reply.ending = []; expected one of"),  # type: ignore[arg-type]
    "usage None": (Reply(usage=None), "gave Reply.usage = None; expected a mapping"),  # type: ignore[arg-type]
    "usage text": (Reply(usage={"input": "7"}), "gave Reply.usage['input'] = '7'; expected a finite number"),  # type: ignore[dict-item]
    "usage NaN": (Reply(usage={"input": math.nan}), "gave Reply.usage['input'] = nan; expected a finite number"),
    "usage below 0": (Reply(usage={"input": -1}), "gave Reply.usage['input'] = -1; expected a finite number"),
    "usage huge": (Reply(usage={"input": 10**5000}), "gave Reply.usage['input'] = a int; expected a finite number"),
    "usage by number": (Reply(usage={1: 1}), "gave Reply.usage with the name 1; expected text"),  # type: ignore[dict-item]
    "extra": (Reply(extra=[1]), "gave Reply.extra = [1]; expected a mapping"),  # type: ignore[arg-type]
    **{
        f"{field} {type(value).__name__}": (
            Reply((WAIT, dataclasses.replace(WAIT, **{field: value}))),
            f"gave Reply.calls[1].{field} = {value!r}; expected text",
        )
        for field, values in {"id": (None, 3, ["c"]), "name": (None, b"wait", ["wait"]), "raw": (b"{}", {})}.items()
        for value in values
    },
    "a name without words": (
        Reply((dataclasses.replace(WAIT, name=Wordless()),)),  # type: ignore[arg-type]
        "gave Reply.calls[0].name = a Wordless; expected text",
    ),
    "arguments without words": (
        Reply((ToolCall("c", "wait", {"ticks": Wordless()}),)),
        "gave Reply.calls[0].arguments that cannot be kept (RuntimeError); expected JSON data",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_reply_that_is_none_stops_the_run_by_a_line_that_names_what_is_wrong(room: Lane, case: str):
    given, told = BROKEN[case]

    class Breaks(Says):
        def reply(self, carry: int, turn: Turn) -> Any:
            return given if not isinstance(given, Reply) else (given, carry)

    with pytest.raises(AgentFault) as fault:
        play(room, Breaks())
    said = str(fault.value)
    assert said.startswith(("returned ", "gave "))
    assert told in said
    assert "\n" not in said
    assert len(said) < 250
    assert (room.episode.verdict, room.episode.step) == (None, 0), "nothing of it is carried out, nothing is scored"


def test_arguments_that_are_deeper_than_a_transcript_are_a_bad_call(room: Lane, tmp_path: Path):
    deep: list[Any] = []
    for _ in range(900):  # a server's JSON may be so deep
        deep = [deep]
    circle: dict[str, Any] = {}
    circle["circle"] = circle
    bad = [ToolCall("c", "wait", {"ticks": value}) for value in (deep, circle)] + [ToolCall("c", "wait", deep)]
    played = play(room, Says(*(Reply((c,)) for c in bad), call("wait", MappingProxyType({"ticks": 1})), STOP))
    assert [f["accepted"] for f in played.feedback()] == [False, False, False, True, True]
    played.transcript.write(tmp_path)
    kept = [call[1] for call in read_calls(tmp_path, "case") or ()]
    assert "more than 16 deep" in json.dumps(kept[0])
    assert kept[3] == {"ticks": 1}


def test_a_fault_of_a_tool_voids_and_tells_its_agent_nothing(room: Lane):
    def broken(a, obs):
        raise ZeroDivisionError(f"the red block is at {obs.entity_pos[0, 0]}")

    toolset = dataclasses.replace(toolset_of(ROOM), tools=(Tool("go", "Go.", {}, broken),))
    played = play(room, Says(call("go")), toolset)
    assert room.episode.verdict == "void"
    assert played.feedback() == [{"accepted": False, "steps": 0, "error": "the call could not be carried out"}]


def test_a_tool_may_refuse_what_it_cannot_do(drone: Lane):
    def refuses(a, obs):
        raise BadCall("refused", "there is no way there")

    toolset = dataclasses.replace(toolset_of(DRONE), tools=(Tool("go", "Go.", {}, refuses),))
    played = play(drone, Says(call("go")), toolset)
    assert played.feedback()[0]["error"] == "there is no way there"
    assert played.transcript.summary["refused"] == {"refused": 15}


def test_an_agent_reads_no_state_but_its_own(room: Lane):
    agent = Says(call("wait", {"ticks": 1}), STOP)
    play(room, agent)
    assert all(turn.observation is None for turn in agent.turns)
    said = "".join(m.text for t in agent.turns for m in t.messages)
    assert "block" not in said.replace(ROOM.instruction, "")
    assert "progress" not in said


def test_an_agent_is_told_what_its_instance_says(room: Lane):
    task = registry.load_task("robot_agent_bench", 0)
    goals = []
    with Lane(task, "c") as lane:
        for instance in range(3):
            agent = Says(dataclasses.replace(call("wait"), ending="refused"))
            play(lane, agent, instance=instance)
            goals.append(agent.turns[0].messages[0].text.partition("Goal: ")[2])
    assert goals == [task.instruction_of(i) for i in range(3)]
    assert len({*goals, task.instruction}) == 4
    play(room, agent, instance=1)
    assert agent.turns[-1].messages[0].text.endswith(f"Goal: {ROOM.instruction}")


def test_what_a_call_shows_comes_with_the_next_packet_and_goes_as_pictures_do(room: Lane):
    tools = (
        Tool("plan", "Show.", {}, lambda a, obs: Told({"seen": 1}, {"plan": np.ones((2, 2, 3), np.uint8)})),
        *toolset_of(ROOM).tools,
    )
    toolset = dataclasses.replace(toolset_of(ROOM), tools=tools, answer_ends=False, one_call=False)
    for sees in (True, False):
        two = Reply((*call("wait", {"ticks": 3}).calls, *call("plan").calls))
        waits = call("wait", {"ticks": 1})
        agent = Says(call("plan"), Reply(text="Well."), two, waits, waits, STOP, sees=sees)
        played = play(room, agent, toolset)
        shown = [[p.label for p in t.messages[-1].parts if isinstance(p, Picture)] for t in agent.turns]
        expected: list[list[str]] = [[], ["plan at step 0"], ["plan at step 0"], ["plan at step 3"], [], []]
        assert shown == (expected if sees else [[]] * 6)
        there = [[p.label for m in t.messages for p in m.parts if isinstance(p, Picture)] for t in agent.turns]
        # Of the two newest packets; one that came again counts once.
        two_newest = [[], *(["plan at step 0"],) * 2, ["plan at step 0", "plan at step 3"], ["plan at step 3"], []]
        assert there == (two_newest if sees else [[]] * 6)
        assert ("[picture of plan at step 3 removed]" in "".join(m.text for m in agent.turns[-1].messages)) == sees
        kept = [e["pictures"].keys() for e in played.events if e["event"] == "shown"]
        assert kept == ([{"plan"}] * 2 if sees else [])


def test_a_tracker_sees_every_step_and_adds_to_what_a_call_that_moved_is_answered(room: Lane):
    class Steps:
        def __init__(self, instance: int) -> None:
            self.steps: list[int] = []

        def saw(self, obs):
            self.steps.append(int(obs.step[0]))

        def reply(self):
            return {"steps_seen": len(self.steps)}

    recalls = Tool("recall", "Ask.", {}, lambda a, obs: Recall(lambda steps: Told({"all": list(steps.steps)})))
    toolset = dataclasses.replace(toolset_of(ROOM), tools=(recalls, *toolset_of(ROOM).tools), tracker=Steps)
    waits = call("wait", {"ticks": 2})
    for _ in range(2):
        played = play(room, Says(waits, call("wait", {"ticks": 0}), waits, call("recall"), STOP), toolset)
        first, bad, second, asked, _ = played.feedback()
        assert (first["steps_seen"], second["steps_seen"]) == (3, 5)
        assert "steps_seen" not in bad
        assert asked == {"accepted": True, "steps": 0, "all": [0, 1, 2, 3, 4]}, "of this episode alone"


def test_packets_hold_rounds_and_old_pictures_go(monkeypatch: pytest.MonkeyPatch, drone: Lane, room: Lane):
    shown = {"front": np.zeros((4, 4, 3), np.uint8)}
    for lane in (drone, room):
        monkeypatch.setattr(lane, "pictures", lambda: shown)
    agent = Says(*[call("observe")] * 9, sees=True)
    play(drone, agent)
    newest = agent.turns[9].messages[-1]
    labels = [part.label for part in newest.parts if isinstance(part, Picture)]
    assert [label.split(",")[0] for label in labels] == [
        "CURRENT round 9", *(f"HISTORY round {r}" for r in (7, 5, 3, 1))
    ]  # fmt: skip
    older = [m for m in agent.turns[9].messages[:-1] if m.role == "user"]
    assert not [p for m in older for p in m.parts if isinstance(p, Picture)]
    assert "[picture of HISTORY round 8" in older[-1].text
    assert "CURRENT" not in "".join(m.text for m in older)

    agent = Says(*[call("wait", {"ticks": 1})] * 4, STOP, sees=True)
    play(room, agent)
    users = [m for m in agent.turns[4].messages if m.role == "user"]
    assert [sum(isinstance(p, Picture) for p in m.parts) for m in users] == [0, 0, 0, 1, 1]
    labels = [p.label for m in users for p in m.parts if isinstance(p, Picture)]
    assert labels == ["HISTORY round 3, step 3, camera front", "CURRENT round 4, step 4, camera front"]
    assert [m.text.split(",")[0] for m in users] == [*(f"HISTORY round {r}" for r in range(4)), "CURRENT round 4"]
    again = [m for m in agent.turns[1].messages if m.role == "user"]
    assert again[-1].text.startswith("CURRENT round 1"), "as it was read then"
