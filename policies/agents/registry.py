"""Every agent by name: `scripted`, `openai:MODEL`, `code:FILE`, or `module:factory`, one of the user's own."""

from __future__ import annotations

import importlib
import json
import os
import sys

from mjx_bench.agent import Agent, AgentSpec
from mjx_bench.errors import BenchError, unknown_name

KNOWN = ("scripted", "openai:MODEL", "code:FILE", "module:factory")


def make(name: str, *, plays: bool = True) -> Agent:
    """A fresh agent.

    Args:
      name: of `KNOWN`.
      plays: whether it will be asked for replies; where it will not, no key of a server is needed.

    Raises:
      BenchError: no agent has this name, or what it needs is not there.
    """
    kind, colon, rest = name.partition(":")
    if name == "scripted":
        from policies.agents.scripted import Scripted

        return Scripted()
    if kind in ("openai", "code") and not rest.strip():
        raise BenchError(f"agent {kind!r} needs {'a model: openai:MODEL' if kind == 'openai' else 'a file: code:FILE'}")
    if kind == "openai":
        from policies.agents.chat import Chat

        return Chat(rest, asks=plays)
    if kind == "code":
        from policies.agents.programmed import Programmed

        return Programmed(rest)
    if not colon or not rest:
        raise unknown_name("agent", name, KNOWN)
    return _own(name, kind, rest)


def _own(name: str, module: str, factory: str) -> Agent:
    # A console script's path lacks the working folder, which is where a user's module usually lies.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        agent = getattr(importlib.import_module(module), factory)()
    except (Exception, SystemExit) as error:
        raise BenchError(
            f"agent {name!r}: {type(error).__name__}: {error}; give module:factory, importable from here"
        ) from error
    members = callable(getattr(agent, "init", None)) and callable(getattr(agent, "reply", None))
    if not members or not isinstance(getattr(agent, "spec", None), AgentSpec):
        raise BenchError(f"agent {name!r} is a {type(agent).__name__}; expected the members of mjx_bench.agent.Agent")
    _check_spec(name, agent.spec)
    made: Agent = agent
    return made


def _check_spec(name: str, spec: AgentSpec) -> None:
    if not isinstance(spec.name, str) or not spec.name:
        raise BenchError(f"agent {name!r}: its spec has the name {spec.name!r}; expected text")
    for field in ("sees", "privileged", "code"):
        if not isinstance(getattr(spec, field), bool):
            raise BenchError(f"agent {name!r}: its spec has {field} = {getattr(spec, field)!r}; expected True or False")
    try:
        json.dumps(dict(spec.settings), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise BenchError(f"agent {name!r}: settings of its spec cannot be recorded: {error}; give JSON data") from None
