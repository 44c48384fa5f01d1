"""A model behind an OpenAI-compatible server (`POST /chat/completions` with tools): `--agent openai:MODEL`.

    OPENAI_API_KEY          the key, if the server wants one; it is sent to the server and goes nowhere else
    OPENAI_BASE_URL         the server, https://api.openai.com/v1 if not set
    MJX_BENCH_AGENT_LIMITS  timeout_s, attempts, interval_s (from one request to the next), as name=value, comma between

A request that fails for want of a server (time-out, 408, 409, 429, 5xx, an answer that is none) is sent again, and costs
the agent nothing; one that is refused (401, 400, ...) stops the run. Every attempt brings the same words and pictures.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import io
import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mjx_bench.agent import AgentFault, AgentSpec, Message, Picture, Reply, ToolCall, Turn
from mjx_bench.errors import BenchError
from mjx_bench.task import Task

BASE_URL = "https://api.openai.com/v1"
LIMITS = {"timeout_s": 600.0, "attempts": 6.0, "interval_s": 0.0}
AGAIN = {408, 409, 425, 429}  # and every 5xx
WAIT_S, WAIT_MOST_S = 1.0, 60.0  # before the second attempt; twice as long each time
ANSWER_MOST = 32 << 20  # bytes
SAID_MOST = 300  # characters of an error that are shown
# Of an answer, what its server may want to see again in later turns.
KEPT = ("reasoning_content", "reasoning", "reasoning_details")


class Chat:
    """One model.

    Args:
      model: as the server knows it.
      sleep: waits so many seconds.
      asks: whether the server will be asked; where it will not, no key is needed.

    Raises:
      BenchError: an address or limits that cannot be.
    """

    def __init__(self, model: str, sleep: Callable[[float], None] = time.sleep, *, asks: bool = True) -> None:
        base = os.environ.get("OPENAI_BASE_URL", BASE_URL).rstrip("/")
        parts = urllib.parse.urlsplit(base)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BenchError(
                f"OPENAI_BASE_URL = {parts.scheme or 'no scheme'}://...: expected an http or https address"
            )
        if parts.username or parts.password or parts.query:
            raise BenchError("OPENAI_BASE_URL holds a user, a password or a query; give the key as OPENAI_API_KEY")
        self._key = os.environ.get("OPENAI_API_KEY", "").strip()  # a file of settings may leave the end of its line
        if not all("!" <= c <= "~" for c in self._key):
            raise BenchError(
                "OPENAI_API_KEY holds a space, a control character or one beyond ASCII; give the key alone"
            )
        if asks and not self._key and base == BASE_URL:
            raise BenchError("agent 'openai' needs a key: set OPENAI_API_KEY, or OPENAI_BASE_URL for another server")
        self._limits = _limits(os.environ.get("MJX_BENCH_AGENT_LIMITS", ""))
        self._url, self._model, self._sleep = f"{base}/chat/completions", model, sleep
        self._last = -float("inf")
        # A redirection would take the key to another host.
        self._opener = urllib.request.build_opener(_NoRedirect)
        self.spec = AgentSpec(f"openai:{model}", sees=True, settings={"model": model, "server": base})

    def init(self, task: Task, tools: Sequence[Mapping[str, Any]], seed: int) -> None:
        """The carry of a new episode: nothing, since every turn holds the whole conversation."""
        return None

    def reply(self, carry: None, turn: Turn) -> tuple[Reply, None]:
        """See `mjx_bench.agent.Agent.reply`."""
        body = {
            "model": self._model,
            "messages": [encode(message) for message in turn.messages],
            "tools": [{"type": "function", "function": tool} for tool in turn.tools],
            "seed": turn.seed % 2**31,
        }
        data = json.dumps(body).encode()
        wait, why = WAIT_S, ""
        for attempt in range(int(self._limits["attempts"])):
            if attempt:
                self._sleep(wait)
                wait = min(2.0 * wait, WAIT_MOST_S)
            try:
                return decode(self._ask(data)), None
            except _Again as again:
                why, wait = str(again), max(wait, min(again.after, WAIT_MOST_S))
        raise AgentFault(f"{self._limits['attempts']:g} attempts failed, the last: {self._clean(why)}")

    def _ask(self, data: bytes) -> Any:
        """The parsed answer to one request. Raises `_Again`, or `AgentFault` where asking again is of no use."""
        pause = self._last + self._limits["interval_s"] - time.monotonic()
        if pause > 0:
            self._sleep(pause)
        self._last = time.monotonic()
        headers = {"Content-Type": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        request = urllib.request.Request(self._url, data, headers, method="POST")
        end = self._last + self._limits["timeout_s"]
        try:
            with self._opener.open(request, timeout=self._limits["timeout_s"]) as response:
                answer = _read(response, end)
        except urllib.error.HTTPError as error:
            with error:
                said = f"HTTP {error.code}: {_brief(error)}"
                if error.code in AGAIN or error.code >= 500:
                    raise _Again(said, _after(error.headers.get("Retry-After"))) from None
            raise AgentFault(f"the server refuses: {self._clean(said)}{_fix(error.code)}") from None
        except (OSError, http.client.HTTPException) as error:
            raise _Again(f"{type(error).__name__}: {error}") from None
        try:
            return json.loads(answer)
        except ValueError:
            raise _Again(f"an answer that is no JSON: {answer[:80]!r}") from None

    def _clean(self, text: str) -> str:
        """Text of a server's, without the key."""
        text = text[: 4 * SAID_MOST]
        return (text.replace(self._key, "***") if self._key else text)[:SAID_MOST]


class _Again(Exception):
    """A failure after which the same request may be sent again, `after` seconds later."""

    def __init__(self, why: str, after: float = 0.0) -> None:
        super().__init__(why)
        self.after = after


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


def _fix(status: int) -> str:
    """What to look at after a refusal."""
    if status in (401, 403):
        return "; check OPENAI_API_KEY"
    if status == 404:
        return "; check the model's name and OPENAI_BASE_URL"
    if 300 <= status < 400:
        return "; redirections are not followed: give the address that it leads to as OPENAI_BASE_URL"
    return ""


def _limits(text: str) -> dict[str, float]:
    found = dict(LIMITS)
    for part in filter(None, text.split(",")):
        name, _, value = part.strip().partition("=")
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        least, whole = (1.0, number.is_integer()) if name == "attempts" else (0.0, True)
        if name not in found or not least <= number < 1e6 or not whole:
            raise BenchError(
                f"MJX_BENCH_AGENT_LIMITS: {part.strip()!r}; expected {', '.join(LIMITS)} as name=number: seconds from 0"
                " to below 1e6, and a whole number of attempts, 1 or more"
            )
        found[name] = number
    return found


def _read(response: Any, end: float) -> bytes:
    """The whole body, by a time: a server that sends a byte now and then is no reason to wait for ever."""
    parts, size = [], 0
    while part := response.read1(65536):
        parts.append(part)
        size += len(part)
        if size > ANSWER_MOST:
            raise _Again(f"an answer of more than {ANSWER_MOST} bytes")
        if time.monotonic() > end:
            raise _Again("an answer that does not end")
    return b"".join(parts)


def _brief(error: urllib.error.HTTPError) -> str:
    try:
        return " ".join(error.read(4 * SAID_MOST).decode("utf-8", "replace").split())
    except (OSError, http.client.HTTPException):
        return ""


def _after(value: str | None) -> float:
    """Seconds of a Retry-After header; 0 for a date or nothing."""
    try:
        return max(0.0, float(value or 0.0))
    except ValueError:
        return 0.0


def encode(message: Message) -> dict[str, Any]:
    """A message as the protocol has it."""
    out: dict[str, Any] = {"role": message.role}
    if message.role == "assistant":
        out |= {"content": message.text or None, **message.extra}
        if message.calls:
            out["tool_calls"] = [
                {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": _text(c)}}
                for c in message.calls
            ]
        return out
    if message.role == "tool":
        return out | {"tool_call_id": message.call_id, "content": message.text}
    if all(isinstance(part, str) for part in message.parts):
        return out | {"content": message.text}
    content: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, Picture):
            url = f"data:image/png;base64,{base64.b64encode(png(part)).decode()}"
            content += [{"type": "text", "text": part.label}, {"type": "image_url", "image_url": {"url": url}}]
        else:
            content.append({"type": "text", "text": part})
    return out | {"content": content}


def _text(call: ToolCall) -> str:
    return json.dumps(call.arguments) if call.raw is None else call.raw


def png(picture: Picture) -> bytes:
    """The file of a picture."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(picture.image).save(file, "PNG")
    return file.getvalue()


def decode(answer: Any) -> Reply:
    """A reply from an answer of the server's. Raises `_Again` for one that is no chat completion."""
    try:
        choice = answer["choices"][0]
        message, finish = choice["message"], choice.get("finish_reason")
        text, refusal = message.get("content") or "", message.get("refusal")
        calls = tuple(map(_call, message.get("tool_calls") or (), range(1000)))
    except (KeyError, IndexError, TypeError, AttributeError):
        raise _Again(f"an answer that is no chat completion: {json.dumps(answer)[:120]}") from None
    if not isinstance(text, str):
        text = json.dumps(text)
    ending = "cut_off" if finish == "length" else "refused" if refusal or finish == "content_filter" else ""
    kept = {name: message[name] for name in KEPT if message.get(name)}
    return Reply(calls, refusal if isinstance(refusal, str) and refusal else text, ending, _usage(answer), kept)  # type: ignore[arg-type]


def _call(entry: Any, number: int) -> ToolCall:
    """One call; arguments that are no JSON object stay text, and are refused by the harness."""
    function = entry["function"]
    name, raw = function["name"], function.get("arguments")
    if not isinstance(name, str):
        raise TypeError("a tool's name is text")
    call_id = entry.get("id")
    given: Any = raw
    if isinstance(raw, str):
        try:
            given = json.loads(raw) if raw.strip() else {}
        except (ValueError, RecursionError):
            given = None
    arguments = given if isinstance(given, dict) else None
    made = (
        call_id
        if isinstance(call_id, str) and call_id
        else f"call_{number}_{hashlib.sha256(str(raw).encode()).hexdigest()[:8]}"
    )
    return ToolCall(made, name, arguments, raw if isinstance(raw, str) else None)


def _usage(answer: Mapping[str, Any]) -> dict[str, float]:
    """Tokens, where the server says."""
    found = answer.get("usage")
    if not isinstance(found, dict):
        return {}
    details = found.get("prompt_tokens_details")
    told = {
        "input": found.get("prompt_tokens"),
        "output": found.get("completion_tokens"),
        "cached": details.get("cached_tokens") if isinstance(details, dict) else None,
    }
    return {name: n for name, n in told.items() if isinstance(n, int) and not isinstance(n, bool) and n >= 0}
