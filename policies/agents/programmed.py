"""An agent that is a file: the same program is run, call after call, until the episode ends: `--agent code:FILE`."""

from __future__ import annotations

import hashlib
import symtable
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mjx_bench.agent import SOURCE_MOST, AgentSpec, Reply, ToolCall, Turn
from mjx_bench.errors import BenchError
from mjx_bench.task import Task

TOOL = "run_program"
# What may bind names that the program's text does not show as its own.
_INDIRECT = ("exec", "globals", "locals", "vars", "import *", "global act")


class Programmed:
    """Calls `run_program` with a file's text, for as many steps as a call may have.

    Args:
      path: of the program.

    Raises:
      BenchError: a file that cannot be read, is no Python, is too long, or defines no `act`.
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
        """Refuses before anything runs what is certain to fail in every call."""
        if len(self._source) > SOURCE_MOST:
            raise BenchError(f"agent 'code:{path}': {len(self._source)} characters; a program may have {SOURCE_MOST}")
        try:
            with warnings.catch_warnings():  # of the program's style: they are its author's, not ours
                warnings.simplefilter("ignore")
                compile(self._source, path, "exec", dont_inherit=True)
                names = symtable.symtable(self._source, path, "exec")
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line = f"line {error.lineno}: " if isinstance(error, SyntaxError) and error.lineno else ""
            said = error.msg if isinstance(error, SyntaxError) else str(error) or type(error).__name__
            raise BenchError(f"agent 'code:{path}': the program is no Python: {line}{said}") from None
        # An assignment or an import may bring it too, and what runs only later may bring anything.
        bound = any(symbol.get_name() == "act" and symbol.is_local() for symbol in names.get_symbols())
        if not bound and not any(word in self._source for word in _INDIRECT):
            raise BenchError(
                f"agent 'code:{path}': the program defines no act; it needs a function"
                " act(observation, memory, step, left) at its top level"
            )

    def init(self, task: Task, tools: Sequence[Mapping[str, Any]], seed: int) -> int:
        """The carry: the most steps of a call."""
        (tool,) = [tool for tool in tools if tool["name"] == TOOL]
        steps: int = tool["parameters"]["properties"]["steps"]["maximum"]
        return steps

    def reply(self, carry: int, turn: Turn) -> tuple[Reply, int]:
        """See `mjx_bench.agent.Agent.reply`."""
        call = ToolCall(str(turn.number), TOOL, {"source": self._source, "steps": carry})
        return Reply((call,)), carry
