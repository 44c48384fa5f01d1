"""Every agent by name: `scripted`, `openai:MODEL`, `code:FILE`, or `module:factory`, one of the user's own."""

from __future__ import annotations

import importlib
import os
import sys

from mjx_bench.agent import Agent, AgentSpec
from mjx_bench.errors import BenchError, unknown_name

KNOWN = ("scripted", "openai:MODEL", "code:FILE", "module:factory")


def make(name: str) -> Agent:
    """A fresh agent.

    Raises:
      BenchError: no agent has this name, or what it needs is not there.
    """
    kind, colon, rest = name.partition(":")
    if name == "scripted":
        from policies.agents.scripted import Scripted

        return Scripted()
    if kind in ("openai", "code") and not rest:
        raise BenchError(f"agent {kind!r} needs {'a model: openai:MODEL' if kind == 'openai' else 'a file: code:FILE'}")
    if kind == "openai":
        from policies.agents.chat import Chat

        return Chat(rest)
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
    except Exception as error:
        raise BenchError(
            f"agent {name!r}: {type(error).__name__}: {error}; give module:factory, importable from here"
        ) from error
    if not isinstance(getattr(agent, "spec", None), AgentSpec) or not callable(getattr(agent, "reply", None)):
        raise BenchError(f"agent {name!r} is a {type(agent).__name__}; expected the members of mjx_bench.agent.Agent")
    made: Agent = agent
    return made
