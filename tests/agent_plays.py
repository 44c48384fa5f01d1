"""Agents that say what a test has them say, and short plays with them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evals import registry
from evals.toolsets import toolset_of
from mjx_bench.agent import AgentSpec, Reply, ToolCall, Turn
from mjx_bench.agents.harness import Play
from mjx_bench.agents.lane import Lane
from mjx_bench.agents.transcript import Transcript
from mjx_bench.task import Task
from mjx_bench.tools import Toolset

ROOM = registry.load_task("roboquest", 0)


def robotworld(name: str) -> Task:
    return named("robotworld", name)


def quest(name: str) -> Task:
    return named("roboquest", name)


def named(suite: str, name: str) -> Task:
    (row,) = [row for row in registry.task_table(suite) if row["name"] == name]
    return registry.load_task(suite, row["index"])


DRONE = robotworld("drone_payload_hover")
HALF = {"action": [0.1, 0.1, 0.1, 0.1]}


def call(name: str, arguments: Any = None, call_id: str = "c") -> Reply:
    return Reply((ToolCall(call_id, name, {} if arguments is None else arguments),))


class Says:
    """Gives its replies in turn, then the last for ever; each may be a function of the turn. Keeps all turns."""

    def __init__(self, *replies: Reply | Callable[[Turn], Reply], **spec: Any) -> None:
        self.spec = AgentSpec("says", **spec)
        self.replies = replies
        self.turns: list[Turn] = []

    def init(self, task: Task, tools: Sequence[Mapping[str, Any]], seed: int) -> int:
        return 0

    def reply(self, carry: int, turn: Turn) -> tuple[Reply, int]:
        self.turns.append(turn)
        said = self.replies[min(carry, len(self.replies) - 1)]
        return said(turn) if callable(said) else said, carry + 1


@dataclasses.dataclass
class Played:
    """What came of a play."""

    lane: Lane
    transcript: Transcript
    agent: Says

    @property
    def events(self) -> list[dict[str, Any]]:
        return self.transcript._events

    def feedback(self) -> list[dict[str, Any]]:
        return [event["feedback"] for event in self.events if event["event"] == "call"]


def play(lane: Lane, agent: Says, toolset: Toolset | None = None, instance: int = 0) -> Played:
    """An episode of an instance from its beginning."""
    lane.begin("test", instance, 195)
    transcript = Transcript("case", agent.spec.name)
    Play(lane, toolset or toolset_of(lane.task), agent, "test", transcript).run()
    return Played(lane, transcript, agent)
