"""An agent that is a file: the same program is run, call after call, until the episode ends: `--agent code:FILE`."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mjx_bench.agent import AgentSpec, Reply, ToolCall, Turn
from mjx_bench.errors import BenchError
from mjx_bench.task import Task

TOOL = "run_program"


class Programmed:
    """Calls `run_program` with a file's text, for as many steps as a call may have.

    Args:
      path: of the program.

    Raises:
      BenchError: a file that cannot be read, is no Python, or defines no `act`.
    """

    def __init__(self, path: str) -> None:
        try:
            self._source = Path(path).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BenchError(f"agent 'code:{path}': cannot read the program: {error}; give a Python file") from None
        self._check(path)
        digest = hashlib.sha256(self._source.encode()).hexdigest()
        self.spec = AgentSpec(f"code:{Path(path).name}", code=True, settings={"program_sha256": digest})

    def _check(self, path: str) -> None:
        """Refuses before anything runs what would fail in every call."""
        try:
            body = ast.parse(self._source).body
        except (SyntaxError, ValueError) as error:
            line = f"line {error.lineno}: " if isinstance(error, SyntaxError) and error.lineno else ""
            said = error.msg if isinstance(error, SyntaxError) else error
            raise BenchError(f"agent 'code:{path}': the program is no Python: {line}{said}") from None
        named = (getattr(node, "name", getattr(node, "id", None)) for node in ast.walk(ast.Module(body, [])))
        if "act" not in named:
            raise BenchError(
                f"agent 'code:{path}': the program defines no act; it needs act(observation, memory, step, left)"
            )

    def init(self, task: Task, tools: Sequence[Mapping[str, Any]], seed: int) -> int:
        """The carry: the most steps of a call."""
        (tool,) = [tool for tool in tools if tool["name"] == TOOL]
        longest: int = tool["parameters"]["properties"]["source"].get("maxLength", len(self._source))
        if len(self._source) > longest:
            raise BenchError(f"agent {self.spec.name!r}: {len(self._source)} characters; a program may have {longest}")
        steps: int = tool["parameters"]["properties"]["steps"]["maximum"]
        return steps

    def reply(self, carry: int, turn: Turn) -> tuple[Reply, int]:
        """See `mjx_bench.agent.Agent.reply`."""
        call = ToolCall(str(turn.number), TOOL, {"source": self._source, "steps": carry})
        return Reply((call,)), carry
