"""Whether what an agent gave is a reply, field by field, before anything is done with it.

What a model may get wrong, a tool's name or its arguments, is a bad call and costs what its benchmark says. A reply of
other types than `mjx_bench.agent` has, or an exception, is a fault of the agent's code: the run stops, and the episode
is played anew. An episode that did not count would spare an agent those on which it fails.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mjx_bench.agent import AgentFault, Reply, ToolCall
from mjx_bench.agents.transcript import plain
from mjx_bench.errors import BenchError
from mjx_bench.fields import is_number, short
from mjx_bench.policy import Carry

ENDINGS = ("", "refused", "cut_off")


@contextlib.contextmanager
def faults() -> Iterator[None]:
    """Turns what an agent's own code raises into an `AgentFault`, which says where; the agent is not named."""
    try:
        yield
    except BenchError:
        raise
    except (Exception, SystemExit) as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        try:
            text = " ".join(str(error).split())[:200]
        except Exception:  # an exception of the agent's own that has no words
            text = ""
        said = f"{type(error).__name__}: {text}" if text else type(error).__name__
        raise AgentFault(f"raised {said} ({Path(at.filename).name}, line {at.lineno})") from error


def checked(answer: Any) -> tuple[Reply, Carry]:
    """The two parts of what `Agent.reply` returned.

    Args:
      answer: what it returned.

    Raises:
      AgentFault: no pair of a `Reply` and a carry, or a field of another type; the message names it, and not
        the agent.
    """
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise _fault("returned", answer, "a pair (Reply, carry)")
    reply, carry = answer
    if not isinstance(reply, Reply):
        raise _fault("returned as its reply", reply, "a Reply")
    if not isinstance(reply.calls, tuple | list):
        raise _fault("gave Reply.calls =", reply.calls, "a tuple of ToolCall")
    for i, call in enumerate(reply.calls):
        _check_call(f"Reply.calls[{i}]", call)
    if not isinstance(reply.text, str):
        raise _fault("gave Reply.text =", reply.text, "text, '' for none")
    if not isinstance(reply.ending, str) or reply.ending not in ENDINGS:
        raise _fault("gave Reply.ending =", reply.ending, f"one of {', '.join(map(repr, ENDINGS))}")
    if not isinstance(reply.usage, Mapping):
        raise _fault("gave Reply.usage =", reply.usage, "a mapping of names to numbers")
    for name, number in reply.usage.items():
        if not isinstance(name, str):
            raise _fault("gave Reply.usage with the name", name, "text")
        if not is_number(number) or number < 0:
            raise _fault(f"gave Reply.usage[{_said(name)}] =", number, "a finite number of at least 0")
    if not isinstance(reply.extra, Mapping):
        raise _fault("gave Reply.extra =", reply.extra, "a mapping")
    return reply, carry


def _check_call(where: str, call: Any) -> None:
    if not isinstance(call, ToolCall):
        raise _fault(f"gave {where} =", call, "a ToolCall")
    if not isinstance(call.id, str):
        raise _fault(f"gave {where}.id =", call.id, "text")
    if not isinstance(call.name, str):
        raise _fault(f"gave {where}.name =", call.name, "text")
    if call.raw is not None and not isinstance(call.raw, str):
        raise _fault(f"gave {where}.raw =", call.raw, "text or None")
    try:
        plain(call.arguments)
    except Exception as error:  # by objects of the agent's own that will not be put in words
        raise AgentFault(
            f"gave {where}.arguments that cannot be kept ({type(error).__name__}); expected JSON data"
        ) from None


def _fault(did: str, value: Any, expected: str) -> AgentFault:
    return AgentFault(f"{did} {_said(value)}; expected {expected}")


def _said(value: Any) -> str:
    """The value on one line; an object that has no words is named by its type."""
    try:
        return short(value)
    except Exception:
        return f"a {type(value).__name__}"
