"""What an agent may call in a task, as data: tools with their arguments, and a pure mapping from a call to actions.

A benchmark declares a `Toolset`; `mjx_bench.agents` runs it. A tool's `use` reads checked arguments and what is observed at
that moment, and gives a `Motion` (control steps to execute), something `Told` (nothing moves), a `Recall` (a question to
what the benchmark tracks in the episode), or a `Stop`.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

import numpy as np

from mjx_bench.budgets import Budget
from mjx_bench.policy import Observation

Cause = Literal["calls", "fields", "values", "refused"]


class BadCall(Exception):
    """A call that is not carried out.

    Attributes:
      cause: `calls` (not exactly one where one is wanted), `fields` (no such tool or argument, one missing, no JSON object),
        `values` (an argument that is not what its tool takes), `refused` (sound arguments, and no way to do it).
      told: what is wrong, from the call alone: it says nothing of the simulator's state.
    """

    def __init__(self, cause: Cause, told: str) -> None:
        super().__init__(told)
        self.cause, self.told = cause, told


class _Required:
    """Marks a parameter that a call must name."""


REQUIRED = _Required()
_FARTHEST = 1e300  # of numbers without a bound of their own
_SHOWN = 40  # characters of a value in a message


@dataclasses.dataclass(frozen=True)
class Param:
    """One argument of a tool.

    Attributes:
      kind: `number`, `integer`, `text`, `flag`, `numbers` (a list of `length`), or `rows` (1 to `most` such lists).
      about: what it is, with unit and frame.
      low, high: bounds of every number, inclusive.
      length: numbers in a list.
      most: rows, or characters of a text.
      choices: the texts that are taken; any if empty.
      default: what `use` gets where a call leaves it out; `REQUIRED` where it may not. None stands for nothing.
    """

    kind: Literal["number", "integer", "text", "flag", "numbers", "rows"]
    about: str
    low: float = -math.inf
    high: float = math.inf
    length: int = 0
    most: int = 0
    choices: tuple[str, ...] = ()
    default: Any = REQUIRED

    def schema(self) -> dict[str, Any]:
        """As JSON Schema."""
        if self.kind == "text":
            found: dict[str, Any] = {"type": "string"}
            found |= {"enum": list(self.choices)} if self.choices else {}
            found |= {"maxLength": self.most} if self.most else {}
        elif self.kind == "flag":
            found = {"type": "boolean"}
        else:
            found = {"type": "integer" if self.kind == "integer" else "number"}
            found |= {name: v for name, v in (("minimum", self.low), ("maximum", self.high)) if math.isfinite(v)}
            if self.kind in ("numbers", "rows"):
                found = {"type": "array", "items": found, "minItems": self.length, "maxItems": self.length}
            if self.kind == "rows":
                found = {"type": "array", "items": found, "minItems": 1, "maxItems": self.most}
        return found | {"description": self.about}

    def read(self, name: str, value: Any) -> Any:
        """The value as `use` gets it: arrays are float64. Raises `BadCall`."""
        if self.kind == "flag":
            if not isinstance(value, bool):
                raise BadCall("values", f"{name} must be true or false, and is {_shown(value)}")
            return value
        if self.kind == "text":
            return self._text(name, value)
        if self.kind in ("number", "integer"):
            return self._number(name, value)
        if self.kind == "numbers":
            return self._row(name, value)
        if not isinstance(value, list) or not 1 <= len(value) <= self.most:
            raise BadCall("values", f"{name} must be a list of 1 to {self.most} rows of {self.length} numbers")
        return np.stack([self._row(f"{name}[{i}]", row) for i, row in enumerate(value)])

    def _text(self, name: str, value: Any) -> str:
        if not isinstance(value, str):
            raise BadCall("values", f"{name} must be text")
        if self.choices and value not in self.choices:
            raise BadCall("values", f"{name} must be one of {', '.join(self.choices)}, and is {_shown(value)}")
        if self.most and len(value) > self.most:
            raise BadCall("values", f"{name} has {len(value)} characters; at most {self.most} are taken")
        return value

    def _row(self, name: str, value: Any) -> np.ndarray:
        if not isinstance(value, list) or len(value) != self.length:
            raise BadCall("values", f"{name} must be a list of {self.length} numbers")
        return np.array([self._number(f"{name}[{i}]", v) for i, v in enumerate(value)], np.float64)

    def _number(self, name: str, value: Any) -> float | int:
        whole = self.kind == "integer"
        good = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
        if not good or (isinstance(value, float) and not math.isfinite(value)):
            wanted = "an integer" if whole else "a finite number"
            raise BadCall("values", f"{name} must be {wanted}, and is {_shown(value)}")
        # A whole number of any length is JSON; beyond what a float holds it is out of any range.
        low, high = max(self.low, -_FARTHEST), min(self.high, _FARTHEST)
        if not low <= value <= high:
            raise BadCall("values", f"{name} must be within {low:g} and {high:g}, and is {_shown(value)}")
        return int(value) if whole else float(value)


def _shown(value: Any) -> str:
    """A JSON value on one line, cut off where it is long."""
    try:
        text = " ".join(json.dumps(value, default=lambda v: f"a {type(v).__name__}").split())
    except (TypeError, ValueError, RecursionError):  # keys of another type, an object in itself, thousands of digits
        text = f"a {type(value).__name__}"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


@dataclasses.dataclass(frozen=True)
class Motion:
    """Control steps that a call asks for.

    Attributes:
      steps: at most; the episode's end may come before.
      action: of what is observed before a step (one lane, no pictures) and the steps executed so far in this call, the
        action [A] in [-1, 1], or why no more is needed ("reached", "stalled"), which ends the call without a step.
      spent: what the reply says where all steps were executed.
      residual: what the reply adds afterwards, from what is observed then; None for nothing.
    """

    steps: int
    action: Callable[[Observation, int], np.ndarray | str]
    spent: str = "executed"
    residual: Callable[[Observation], Mapping[str, Any]] | None = None


@dataclasses.dataclass(frozen=True)
class Program:
    """A call that hands control to a program of the agent's own, see `agents.program`.

    Attributes:
      source: Python.
      steps: it is asked for at most.
      bounds: of every number of its actions.
    """

    source: str
    steps: int
    bounds: tuple[float, float] = (-1.0, 1.0)


@dataclasses.dataclass(frozen=True)
class Told:
    """What a call answers where nothing moves.

    Attributes:
      data: plain JSON values.
      pictures: name to uint8 [H, W, 3], for an agent that sees; they come with the next packet.
    """

    data: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    pictures: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Recall:
    """A call that is answered from the episode's `Tracker`; nothing moves."""

    ask: Callable[[Any], Told]


@dataclasses.dataclass(frozen=True)
class Stop:
    """A call that ends the episode, and what its record says."""

    reason: str


Use = Callable[[Mapping[str, Any], Observation], Motion | Program | Told | Recall | Stop]


class Tracker(Protocol):
    """What a benchmark keeps of one episode beside the present observation: a map, contacts. Tools ask it by `Recall`."""

    def saw(self, obs: Observation) -> None:
        """Takes in what is observed (one lane, no pictures): at the beginning, and after every control step."""
        ...

    def reply(self) -> Mapping[str, Any]:
        """What the answer to a call that moved adds: plain JSON values, of the time since it was asked last."""
        ...


@dataclasses.dataclass(frozen=True)
class Tool:
    """One thing that an agent may call.

    Attributes:
      name: as called.
      about: what it does, for the agent.
      params: argument to what it takes.
      use: what a call with checked arguments does; may raise `BadCall`. Any other exception is a fault of the benchmark.
    """

    name: str
    about: str
    params: Mapping[str, Param]
    use: Use

    def schema(self) -> dict[str, Any]:
        """Name, description and parameters as JSON Schema."""
        return {
            "name": self.name,
            "description": self.about,
            "parameters": {
                "type": "object",
                "properties": {name: param.schema() for name, param in self.params.items()},
                "required": [name for name, param in self.params.items() if param.default is REQUIRED],
                "additionalProperties": False,
            },
        }

    def read(self, arguments: Any) -> dict[str, Any]:
        """Every argument as `use` gets it. Raises `BadCall`."""
        if not isinstance(arguments, Mapping):
            raise BadCall("fields", f"the arguments of {self.name} must be a JSON object")
        if unknown := sorted(str(name)[:40] for name in arguments.keys() - self.params.keys()):
            raise BadCall("fields", f"{self.name} takes no argument {', '.join(map(repr, unknown[:4]))}")
        missing = [n for n, p in self.params.items() if p.default is REQUIRED and n not in arguments]
        if missing:
            raise BadCall("fields", f"{self.name} needs {', '.join(missing)}")
        return {
            name: param.read(name, arguments[name]) if name in arguments else param.default
            for name, param in self.params.items()
        }


@dataclasses.dataclass(frozen=True)
class History:
    """What of earlier observations an agent still gets. Text of earlier turns always stays.

    Attributes:
      rounds: how many rounds back the observations lie that one packet holds, its own (0) first; those that exist.
      packets: the newest so many packets keep their pictures; earlier ones lose them.
    """

    rounds: tuple[int, ...] = (0,)
    packets: int = 2


@dataclasses.dataclass(frozen=True)
class Toolset:
    """What an agent is given in a task, and by which rules it plays.

    Attributes:
      name: with a version; changes when anything that an agent can notice does.
      brief: the interface in words: frames, units, conventions, what ends an episode. The goal follows it.
      tools: what may be called.
      state: of what is observed, what an agent may read of it as plain JSON values.
      budget: what thinking and idling cost.
      cameras, image_size: the pictures of an observation, square.
      history: what stays of earlier ones.
      one_call: a reply must hold exactly one call; else its calls are carried out in turn.
      answer_ends: a reply without a call ends the episode.
      rejection: the one thing said of a call that is not carried out; None: what is wrong with the call.
      horizon: control steps of an episode; None for the task's own.
      program_steps: control steps that one program of the agent's own may run for; 0 where the benchmark has no such thing.
      action_bounds: of every number of the actions of such a program.
      tracker: from the index of an instance, what is kept of an episode of it; None where nothing is.
    """

    name: str
    brief: str
    tools: tuple[Tool, ...]
    state: Callable[[Observation], Mapping[str, Any]]
    budget: Budget
    cameras: tuple[str, ...] = ()
    image_size: int = 512
    history: History = History()
    one_call: bool = True
    answer_ends: bool = True
    rejection: str | None = None
    horizon: int | None = None
    program_steps: int = 0
    action_bounds: tuple[float, float] = (-1.0, 1.0)
    tracker: Callable[[int], Tracker] | None = None

    def tool(self, name: Any) -> Tool:
        """The tool of this name; raises `BadCall`."""
        for tool in self.tools:
            if tool.name == name:
                return tool
        raise BadCall(
            "fields", f"there is no tool {str(name)[:40]!r}; there are {', '.join(t.name for t in self.tools)}"
        )


def held(action: np.ndarray, steps: int) -> Motion:
    """The same action [A] for so many control steps."""
    return Motion(steps, lambda obs, step: action)


def executed(rows: Sequence[np.ndarray] | np.ndarray) -> Motion:
    """Actions [n, A] one after the other."""
    return Motion(len(rows), lambda obs, step: np.asarray(rows[step]))
