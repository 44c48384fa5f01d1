"""All that passed between an agent and its task, one JSON file an episode, in the folder `agent` of a results folder.

Private causes of refused calls stand here, and no agent reads them. Pictures are kept as digests: the episode is exact, so
`mjx-bench film` makes them again; asked to, the harness keeps the files too.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mjx_bench.agent import Reply, ToolCall
from mjx_bench.episode import Episode
from mjx_bench.errors import BenchError
from mjx_bench.fields import parse_json
from mjx_bench.records.media import stem
from mjx_bench.records.writer import write_whole
from mjx_bench.tools import BadCall, Toolset

SCHEMA = 1
LONGEST = 20_000  # characters of one text of an agent's that are kept
DEEPEST = 16  # lists and objects within each other of an agent's arguments that are kept


def transcript_path(directory: Path, case_id: str) -> Path:
    """The transcript of a case in a results folder."""
    return directory / "agent" / f"{stem(case_id)}.json"


class Transcript:
    """Grows during one episode, and is written when it has ended.

    Args:
      case_id: of the episode.
      agent: its name.
      pictures: a folder that gets the pictures that the agent saw, as PNG files; None to keep digests alone.

    Attributes:
      summary: what a table shows of the episode, once it has ended.
    """

    def __init__(self, case_id: str, agent: str, pictures: Path | None = None) -> None:
        self._head: dict[str, Any] = {"schema": SCHEMA, "case_id": case_id, "agent": agent}
        self._events: list[dict[str, Any]] = []
        self._usage: Counter[str] = Counter()
        self._calls: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._failed = 0  # calls of programs that failed
        self._last: str | None = None  # why the last call was refused, or its program failed
        self._turns = 0
        self._thinking = 0.0
        self._pictures = pictures
        self.summary: dict[str, Any] = {}

    def began(self, system: str, schemas: Sequence[Mapping[str, Any]], toolset: Toolset) -> None:
        """Keeps what the agent was given."""
        self._head |= {"toolset": toolset.name, "system": system, "tools": list(schemas)}

    def observed(self, step: int, state: Mapping[str, Any], pictures: Mapping[str, np.ndarray]) -> None:
        """Keeps a round: what could be read, and which pictures were taken."""
        digests = self._kept(step, pictures)
        self._events.append({"event": "observation", "step": step, "state": dict(state), "pictures": digests})

    def showed(self, turn: int, call: ToolCall, step: int, pictures: Mapping[str, np.ndarray]) -> None:
        """Keeps which pictures a call answered with."""
        digests = self._kept(step, pictures)
        self._events.append({"event": "shown", "turn": turn, "id": call.id[:200], "step": step, "pictures": digests})

    def _kept(self, step: int, pictures: Mapping[str, np.ndarray]) -> dict[str, str]:
        """Digests of pictures, which are saved too where that was asked for."""
        if self._pictures is not None:
            self._save(step, pictures)
        return {name: hashlib.sha256(image.tobytes()).hexdigest() for name, image in pictures.items()}

    def _save(self, step: int, pictures: Mapping[str, np.ndarray]) -> None:
        from PIL import Image

        assert self._pictures is not None
        try:
            self._pictures.mkdir(parents=True, exist_ok=True)
            for name, image in pictures.items():
                Image.fromarray(image).save(self._pictures / f"{step:06}-{name}.png")
        except OSError as error:
            raise BenchError(f"{self._pictures}: cannot write pictures: {error.strerror or error}") from None

    def replied(self, turn: int, step: int, reply: Reply, seconds: float) -> None:
        """Keeps a reply, whole or not."""
        self._turns, self._thinking = turn, self._thinking + seconds
        self._usage.update(reply.usage)
        self._events.append(
            {
                "event": "reply", "turn": turn, "step": step, "text": reply.text[:LONGEST], "ending": reply.ending,
                "calls": [{"id": c.id[:200], "name": c.name[:200]} for c in reply.calls], "usage": dict(reply.usage),
                "seconds": round(seconds, 3),
            }
        )  # fmt: skip

    def refused(self, turn: int, call: ToolCall, bad: BadCall) -> None:
        """Keeps why a call was not carried out."""
        self._refused[bad.cause] += 1
        self._last = bad.told
        self._events.append(
            {"event": "refused", "turn": turn, "id": call.id[:200], "cause": bad.cause, "why": bad.told}
        )

    def failed(self, bad: BadCall) -> None:
        """Counts a program that failed while its call was carried out; its answer says the rest."""
        self._failed += 1
        self._last = bad.told

    def answered(self, turn: int, call: ToolCall, feedback: Mapping[str, Any], steps: int) -> None:
        """Keeps a call and its answer."""
        self._calls[call.name[:200]] += 1
        text = call.arguments is None and call.raw is not None
        arguments = (call.raw or "")[:LONGEST] if text else plain(call.arguments)
        self._events.append(
            {"event": "call", "turn": turn, "id": call.id[:200], "name": call.name[:200], "arguments": arguments,
             "executed_steps": steps, "feedback": dict(feedback)}
        )  # fmt: skip

    def ended(self, e: Episode, budget: Mapping[str, Any], control_hz: float) -> None:
        """Sums the episode up."""
        self.summary = {
            "verdict": str(e.verdict),
            "termination": e.reason,
            "turns": self._turns,
            "steps": e.step,
            "simulated_s": round(e.step / control_hz, 4),
            "thinking_s": round(self._thinking, 3),
            "calls": dict(self._calls),
            "refused": dict(self._refused),
            "failed": self._failed,
            "last_error": self._last,
            "tokens": {name: int(n) if float(n).is_integer() else n for name, n in self._usage.items()},
            "budget": dict(budget),
        }

    def write(self, directory: Path) -> None:
        """Puts the file into a results folder, whole or not at all."""
        path = transcript_path(directory, str(self._head["case_id"]))
        data = self._head | {"summary": self.summary, "events": self._events}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, json.dumps(data, indent=1, allow_nan=False) + "\n")
        except OSError as error:
            raise BenchError(f"{path}: cannot be written: {error.strerror or error}; free some space") from None


def read_summary(directory: Path, case_id: str) -> dict[str, Any]:
    """What a transcript says in short.

    Raises:
      BenchError: no such file, or a broken one.
    """
    summary: dict[str, Any] = _read(directory, case_id)["summary"]
    return summary


def read_calls(directory: Path, case_id: str) -> list[tuple[str, Any, int]] | None:
    """Every call of an episode in turn: name, arguments as JSON, control steps executed; None where there is no transcript.

    Raises:
      BenchError: a broken file.
    """
    if not transcript_path(directory, case_id).exists():
        return None
    calls = [event for event in _read(directory, case_id)["events"] if event["event"] == "call"]
    return [(call["name"], call["arguments"], call["executed_steps"]) for call in calls]


def _read(directory: Path, case_id: str) -> dict[str, Any]:
    path = transcript_path(directory, case_id)
    try:
        data = parse_json(path.read_text("utf-8"), str(path))
    except OSError as error:
        raise BenchError(
            f"{path}: cannot be read: {error.strerror or error}; restore it, or use another folder"
        ) from None
    good = isinstance(data, dict) and data.get("schema") == SCHEMA
    if not good or not isinstance(data.get("summary"), dict) or not isinstance(data.get("events"), list):
        raise BenchError(f"{path}: not a transcript of schema {SCHEMA}; restore it, or use another folder")
    return data


def plain(value: Any, depth: int = 0) -> Any:
    """JSON data with what JSON does not have put in words, and nothing longer or deeper than a transcript should
    hold.

    Args:
      value: of an agent's arguments.
      depth: of the value within them.
    """
    if isinstance(value, Mapping | list | tuple) and depth == DEEPEST:
        return f"more than {DEEPEST} deep"
    if isinstance(value, Mapping):
        return {str(k)[:200]: plain(v, depth + 1) for k, v in list(value.items())[:64]}
    if isinstance(value, list | tuple):
        return [plain(v, depth + 1) for v in value[:1000]]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 2**63:
        return "an integer beyond 64 bits"
    if isinstance(value, str):
        return value[:LONGEST]
    return value if isinstance(value, bool | int | float) or value is None else str(value)[:200]
