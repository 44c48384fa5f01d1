"""What an agent reads: observation packets, its own replies and their answers, with old pictures taken out.

A packet is delivered whenever the robot has answered; a turn that only held text gets the last one again. Which rounds
a packet holds and how long pictures stay is the benchmark's (`tools.History`); text always stays.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mjx_bench.agent import Message, Picture, Reply
from mjx_bench.tools import History

CURRENT, HISTORY = "CURRENT round", "HISTORY round"
REMOVED = "[picture of {} removed]"


@dataclasses.dataclass(frozen=True, eq=False)
class Round:
    """One observation.

    Attributes:
      number: from 0; step: control steps executed before it.
      state: what may be read of it; pictures: camera to uint8 [H, W, 3].
    """

    number: int
    step: int
    state: Mapping[str, Any]
    pictures: Mapping[str, np.ndarray]


class Conversation:
    """Grows by packets and replies.

    Args:
      system: what is said once, at the beginning.
      history: of the benchmark.
    """

    def __init__(self, system: str, history: History) -> None:
        self._history = history
        self._messages = [Message("system", (system,))]
        self._packets: list[int] = []  # where in the messages they are
        self._rounds: list[Round] = []
        self._shown: list[Picture] = []  # by calls, since the last packet
        self._delivered: list[Picture] = []  # of these, with the last packet

    def observe(self, step: int, state: Mapping[str, Any], pictures: Mapping[str, np.ndarray]) -> None:
        """Takes in a new observation, as the next round."""
        number = len(self._rounds)
        self._rounds.append(Round(number, step, state, pictures))
        # What no later packet can hold is let go of.
        oldest = number - max(self._history.rounds)
        self._rounds[:] = [r if r.number >= oldest else dataclasses.replace(r, pictures={}) for r in self._rounds]

    def show(self, step: int, pictures: Mapping[str, np.ndarray]) -> None:
        """Adds pictures that a call answered with, after so many steps, to the next packet."""
        self._shown += [Picture(name, f"{name} at step {step}", image) for name, image in pictures.items()]

    def deliver(self, told: Mapping[str, Any], note: str = "") -> None:
        """Adds the packet of the newest round, and what calls showed since the packet before.

        Args:
          told: what is said beside: of budgets.
          note: a line before it, where the packet before is delivered again.
        """
        if note:
            self._packets.pop()  # what it holds is in this one
        else:
            self._delivered, self._shown = self._shown, []
        newest = self._rounds[-1].number
        parts: list[str | Picture] = [note] if note else []
        for back in self._history.rounds:
            if back > newest:
                continue
            at = self._rounds[newest - back]
            label = f"{HISTORY if back else CURRENT} {at.number}, step {at.step}"
            parts.append(f"{label}: {json.dumps({**at.state, **(told if back == 0 else {})})}")
            parts += [Picture(camera, f"{label}, camera {camera}", image) for camera, image in at.pictures.items()]
        parts += self._delivered
        self._packets.append(len(self._messages))
        self._messages.append(Message("user", tuple(parts)))

    def reply(self, reply: Reply) -> None:
        """Adds what the agent said."""
        parts = (reply.text,) if reply.text else ()
        self._messages.append(Message("assistant", parts, reply.calls, extra=reply.extra))

    def answer(self, call_id: str, feedback: Mapping[str, Any]) -> None:
        """Adds the answer to a call."""
        self._messages.append(Message("tool", (json.dumps(feedback),), call_id=call_id))

    @property
    def messages(self) -> Sequence[Message]:
        """As the agent may read them now."""
        kept = set(self._packets[len(self._packets) - self._history.packets :])
        newest = self._packets[-1]
        return [m if i == newest or m.role != "user" else _past(m, i in kept) for i, m in enumerate(self._messages)]


def _past(message: Message, pictures: bool) -> Message:
    """A packet that is not the newest: what was current then is history, and its pictures stay or not."""
    parts: list[str | Picture] = []
    for part in message.parts:
        if isinstance(part, str):
            parts.append(_dated(part))
        else:
            label = _dated(part.label)
            parts.append(dataclasses.replace(part, label=label) if pictures else REMOVED.format(label))
    return dataclasses.replace(message, parts=tuple(parts))


def _dated(text: str) -> str:
    return HISTORY + text.removeprefix(CURRENT) if text.startswith(CURRENT) else text
