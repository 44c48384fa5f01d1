"""What decides turn by turn, as a language model does: the contract of an agent, and the conversation that it reads.

An agent is a pure function of a carry and a turn, like a policy of a chunk. The simulation stands still while it thinks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import numpy as np

from mjx_bench.errors import BenchError
from mjx_bench.policy import Carry, Observation
from mjx_bench.task import Task

SOURCE_MOST = 16_000  # characters of a program that decides control steps


class AgentFault(BenchError):
    """An agent that cannot go on for a reason of its own, a server that is gone: the run stops, and no episode is scored."""


@dataclasses.dataclass(frozen=True)
class AgentSpec:
    """What the harness must know of an agent before it runs.

    Attributes:
      name: as recorded.
      sees: whether it takes pictures; none are rendered for one that does not.
      privileged: whether it reads the simulator's state (`Turn.observation`), which no benchmark lets an agent do.
      code: whether it asks for the tool that runs a program of its own.
      settings: what else can change a result; recorded, and never a secret.
    """

    name: str
    sees: bool = False
    privileged: bool = False
    code: bool = False
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, eq=False)
class Picture:
    """What a camera saw.

    Attributes:
      camera: its name.
      label: for the agent: which round and step it is of.
      image: uint8 [H, W, 3], upright, RGB.
    """

    camera: str
    label: str
    image: np.ndarray


@dataclasses.dataclass(frozen=True)
class ToolCall:
    """One call.

    Attributes:
      id: the agent's own, to be answered by.
      name: of the tool.
      arguments: a JSON object as a mapping; None for text that is none.
      raw: that text, where the arguments came as text.
    """

    id: str
    name: str
    arguments: Any
    raw: str | None = None


@dataclasses.dataclass(frozen=True)
class Message:
    """One entry of a conversation.

    Attributes:
      role: who speaks; `tool` is the answer to the call `call_id`.
      parts: text and pictures, in order.
      calls: of an agent's own reply.
      extra: of an agent's own reply, what its client wants back in later turns.
    """

    role: Literal["system", "user", "assistant", "tool"]
    parts: tuple[str | Picture, ...]
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    extra: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def text(self) -> str:
        """The text of all its parts."""
        return "\n".join(part for part in self.parts if isinstance(part, str))


@dataclasses.dataclass(frozen=True)
class Turn:
    """What an agent answers to.

    Attributes:
      messages: the whole conversation as its benchmark lets it be read now, the newest last.
      tools: what may be called: name, description and parameters (JSON Schema).
      number: from 1.
      seed: 64 bits of (case, turn), for whatever an agent draws.
      observation: everything, one lane without pictures; None for an agent that is not privileged.
    """

    messages: Sequence[Message]
    tools: Sequence[Mapping[str, Any]]
    number: int
    seed: int
    observation: Observation | None = None


@dataclasses.dataclass(frozen=True)
class Reply:
    """What an agent answers.

    Attributes:
      calls: tools to call.
      text: what it says beside.
      ending: `refused` (its provider would not answer, which ends the episode) or `cut_off` (the answer is not whole:
        nothing of it is carried out, and the episode has no score); empty for a whole answer.
      usage: tokens by name ("input", "output", "cached") and whatever else is counted.
      extra: see `Message.extra`.
    """

    calls: tuple[ToolCall, ...] = ()
    text: str = ""
    ending: Literal["", "refused", "cut_off"] = ""
    usage: Mapping[str, float] = dataclasses.field(default_factory=dict)
    extra: Mapping[str, Any] = dataclasses.field(default_factory=dict)


class Agent(Protocol):
    """Three members; everything else is the agent's own business."""

    spec: AgentSpec

    def init(self, task: Task, tools: Sequence[Mapping[str, Any]], seed: int) -> Carry:
        """The carry of a new episode. Raises `BenchError` where it cannot play with these tools."""
        ...

    def reply(self, carry: Carry, turn: Turn) -> tuple[Reply, Carry]:
        """The answer to one turn, and the new carry; the one passed in must not be changed.

        Raises:
          AgentFault: it cannot go on; what was finished before is kept.
        """
        ...
