"""The client of an OpenAI-compatible server, over real HTTP on this machine: what it sends, and what it makes of answers."""

from __future__ import annotations

import base64
import http.server
import io
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from evals.toolsets import toolset_of
from mjx_bench.agent import AgentFault, Message, Picture, ToolCall, Turn
from mjx_bench.agents.run import AgentSettings, run_agent
from mjx_bench.agents.transcript import transcript_path
from mjx_bench.cases import evaluation
from mjx_bench.errors import BenchError
from mjx_bench.records import load_run
from policies.agents import chat
from policies.agents.registry import make
from tests.agent_plays import ROOM

KEY = "sk-very-secret"
# What a server does with a request: its status, headers and body, or something that it does itself.
Answer = tuple[int, dict[str, str], bytes] | Callable[[http.server.BaseHTTPRequestHandler], None]


class Server:
    """Answers with what it is told, in turn, then the last for ever; keeps what it was asked."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                assert self.path == "/v1/chat/completions"
                outer.asked.append(json.loads(body))
                outer.headers.append(dict(self.headers))
                answer = outer.answers[min(len(outer.asked), len(outer.answers)) - 1]
                if callable(answer):
                    answer(self)
                    return
                status, headers, data = answer
                self.send_response(status)
                for name, value in (headers | {"Content-Length": str(len(data))}).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def said(*calls: tuple[str, str], text: str | None = None, finish: str = "tool_calls", **more: Any) -> Answer:
    message: dict[str, Any] = {"role": "assistant", "content": text, **more}
    if calls:
        message["tool_calls"] = [
            {"id": f"call_{i}", "type": "function", "function": {"name": name, "arguments": given}}
            for i, (name, given) in enumerate(calls)
        ]
    usage = {"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 60}}
    body = {"choices": [{"index": 0, "finish_reason": finish, "message": message}], "usage": usage}
    return 200, {"Content-Type": "application/json"}, json.dumps(body).encode()


WAIT = said(("wait", '{"ticks": 2}'))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    found = Server()
    monkeypatch.setenv("OPENAI_BASE_URL", found.address)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "*")
    yield found
    found.close()


@pytest.fixture
def slept() -> list[float]:
    return []


@pytest.fixture
def model(server: Server, slept: list[float]) -> chat.Chat:
    return chat.Chat("tiny", sleep=slept.append)


def turn(*messages: Message) -> Turn:
    return Turn(messages or (Message("user", ("go",)),), ({"name": "wait", "parameters": {}},), 1, 7)


def test_it_sends_the_conversation_the_pictures_and_the_tools(server: Server, model: chat.Chat):
    server.answers = [WAIT]
    image = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    call = ToolCall("a", "wait", {"ticks": 2}, '{"ticks": 2}')
    talk = (
        Message("system", ("be good",)),
        Message("user", ("now", Picture("hand", "CURRENT, camera hand", image))),
        Message("assistant", ("hm",), (call,), extra={"reasoning_content": "because"}),
        Message("tool", ("done",), call_id="a"),
    )
    reply, _ = model.reply(None, turn(*talk))
    (asked,) = server.asked
    assert (asked["model"], asked["seed"]) == ("tiny", 7)
    assert asked["tools"] == [{"type": "function", "function": {"name": "wait", "parameters": {}}}]
    system, user, assistant, tool = asked["messages"]
    assert system == {"role": "system", "content": "be good"}
    url = user["content"][2]["image_url"]["url"]
    sent = Image.open(io.BytesIO(base64.b64decode(url.removeprefix("data:image/png;base64,"))))
    assert np.array_equal(np.asarray(sent), image)
    assert assistant["reasoning_content"] == "because"
    assert assistant["tool_calls"][0]["function"] == {"name": "wait", "arguments": '{"ticks": 2}'}
    assert tool == {"role": "tool", "tool_call_id": "a", "content": "done"}
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert reply.calls == (ToolCall("call_0", "wait", {"ticks": 2}, '{"ticks": 2}'),)
    assert reply.usage == {"input": 100, "output": 7, "cached": 60}


@pytest.mark.parametrize(
    ("answer", "ending", "text"),
    [
        (said(text="I stop.", finish="stop"), "", "I stop."),
        (said(("wait", '{"ti'), finish="length"), "cut_off", ""),
        (said(refusal="I would rather not.", finish="stop"), "refused", "I would rather not."),
        (said(finish="content_filter"), "refused", ""),
    ],
)
def test_ends_of_an_answer(server: Server, model: chat.Chat, answer: Answer, ending: str, text: str):
    server.answers = [answer]
    reply, _ = model.reply(None, turn())
    assert (reply.ending, reply.text) == (ending, text)


@pytest.mark.parametrize("given", ["{", "[1]", "3", '"wait"', "null", "[" * 10**5, "1" * 10**4])
def test_arguments_that_are_no_object_are_the_agents_own_mistake(server: Server, model: chat.Chat, given: str):
    server.answers = [said(("wait", given))]
    ((call,), raw) = (model.reply(None, turn())[0].calls, given)
    assert (call.arguments, call.raw) == (None, raw)


def test_failures_of_a_server_are_asked_again_with_the_same_words(server: Server, model: chat.Chat, slept: list[float]):
    def hang_up(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.close_connection = True
        handler.connection.close()

    server.answers = [
        (429, {"Retry-After": "3"}, b"slow down"), (503, {}, b""), (200, {}, b"<html>"), (200, {}, b'{"choices": []}'),
        hang_up, WAIT,
    ]  # fmt: skip
    reply, _ = model.reply(None, turn())
    assert reply.calls
    assert len(server.asked) == 6
    assert all(asked == server.asked[0] for asked in server.asked)
    assert slept == [3.0, 6.0, 12.0, 24.0, 48.0]


def test_it_gives_up_after_so_many_attempts_and_keeps_the_key_to_itself(
    server: Server, monkeypatch: pytest.MonkeyPatch, slept: list[float]
):
    monkeypatch.setenv("MJX_BENCH_AGENT_LIMITS", "attempts=2, timeout_s=5")
    server.answers = [(500, {}, f"your key {KEY} is known".encode())]
    with pytest.raises(AgentFault, match="2 attempts failed, the last: HTTP 500: your key \\*\\*\\* is known"):
        chat.Chat("tiny", sleep=slept.append).reply(None, turn())
    assert len(server.asked) == 2


@pytest.mark.parametrize(("status", "fix"), [
    (301, "; redirections are not followed: give the address that it leads to as OPENAI_BASE_URL"),
    (307, "; redirections are not followed: give the address that it leads to as OPENAI_BASE_URL"),
    (400, ""),
    (401, "; check OPENAI_API_KEY"),
    (404, "; check the model's name and OPENAI_BASE_URL"),
])  # fmt: skip
def test_a_refusal_is_not_asked_again_nor_followed(server: Server, model: chat.Chat, status: int, fix: str):
    server.answers = [(status, {"Location": server.address + "/chat/completions"}, b"no")]
    with pytest.raises(AgentFault, match=f"refuses: HTTP {status}: no{fix}$"):
        model.reply(None, turn())
    assert len(server.asked) == 1


def test_the_end_of_a_line_is_no_part_of_a_key(server: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\r\n")
    server.answers = [WAIT]
    chat.Chat("tiny").reply(None, turn())
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"


def test_a_server_that_takes_for_ever_is_left(server: Server, monkeypatch: pytest.MonkeyPatch, slept: list[float]):
    def drips(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        end = time.monotonic() + 3.0
        try:
            while time.monotonic() < end:
                handler.wfile.write(b" ")
                time.sleep(0.02)
        except OSError:
            pass

    monkeypatch.setenv("MJX_BENCH_AGENT_LIMITS", "attempts=1,timeout_s=0.3")
    for behaviour in (drips, lambda handler: time.sleep(0.6)):
        server.answers = [behaviour]
        start = time.monotonic()
        with pytest.raises(AgentFault, match="1 attempts failed"):
            chat.Chat("tiny", sleep=slept.append).reply(None, turn())
        assert time.monotonic() - start < 2.5


def test_requests_keep_their_distance(server: Server, monkeypatch: pytest.MonkeyPatch, slept: list[float]):
    monkeypatch.setenv("MJX_BENCH_AGENT_LIMITS", "interval_s=100")
    server.answers = [WAIT]
    model = chat.Chat("tiny", sleep=slept.append)
    model.reply(None, turn())
    assert not slept
    model.reply(None, turn())
    assert 90.0 < slept[0] <= 100.0


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("OPENAI_BASE_URL", "ftp://x", "expected an http or https address"),
        ("OPENAI_BASE_URL", "https://me:pass@x/v1", "give the key as OPENAI_API_KEY"),
        ("MJX_BENCH_AGENT_LIMITS", "attempts=0", "'attempts=0'"),
        ("MJX_BENCH_AGENT_LIMITS", "attempts=2.5", "'attempts=2.5'; .* a whole number of attempts, 1 or more"),
        ("MJX_BENCH_AGENT_LIMITS", "timeout_s=-1", "seconds from 0 to below 1e6"),
        ("MJX_BENCH_AGENT_LIMITS", "patience=3", "expected timeout_s, attempts, interval_s"),
        ("OPENAI_API_KEY", f"{KEY}\n{KEY}", "OPENAI_API_KEY holds a space, a control character or one beyond ASCII"),
        ("OPENAI_API_KEY", f"\u201c{KEY}\u201d", "give the key alone"),
    ],
)
def test_settings_that_cannot_be_are_refused(monkeypatch: pytest.MonkeyPatch, variable: str, value: str, told: str):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv(variable, value)
    with pytest.raises(BenchError, match=told) as caught:
        make("openai:tiny")
    assert "pass@" not in str(caught.value)
    assert KEY not in str(caught.value)
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.delenv(variable, raising=False)
    with pytest.raises(BenchError, match="set OPENAI_API_KEY"):
        make("openai:tiny")


def test_a_model_plays_an_episode(server: Server, model: chat.Chat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """With pictures, two calls at once, arguments that are none, and an end; the key is nowhere in what is written."""
    server.answers = [
        WAIT, said(("wait", "{}"), ("wait", "{}")), said(("wait", '{"ticks": NaN}')), said(("wait", "{")),
        said(("stop", "")),
    ]  # fmt: skip
    from mjx_bench.agents import lane

    class Grey:
        def take(self, poses: Any) -> dict[str, np.ndarray]:
            return {name: np.full((1, 8, 8, 3), 90, np.uint8) for name in ROOM.scene.observed}

        def close(self) -> None:
            pass

    monkeypatch.setattr(lane, "make_renderer", lambda *args: None)
    monkeypatch.setattr(lane, "Pictures", lambda renderer, scene: Grey())
    monkeypatch.setattr(
        "mjx_bench.agents.run.choose_seen", lambda spec, name: {"sees_pictures": True, "renderer": "gl"}
    )
    cases = evaluation([ROOM], 1, 195)
    settings = AgentSettings(backend="c", keep_pictures=True)
    run_agent(cases, settings, tmp_path, load_task=lambda c: ROOM, toolset_of=toolset_of, agent=model)
    (record,) = load_run(tmp_path).records
    assert (record.reason, record.end_step) == ("declared_stop", 2)
    data = json.loads(transcript_path(tmp_path, record.case_id).read_text())
    causes = [event["cause"] for event in data["events"] if event["event"] == "refused"]
    assert causes == ["calls", "calls", "values", "fields"]
    assert data["summary"]["tokens"] == {"input": 500, "output": 35, "cached": 300}
    images = [
        c for m in server.asked[-1]["messages"] for c in m["content"] or () if isinstance(c, dict) and "image_url" in c
    ]
    assert len(images) == 2 * len(ROOM.scene.observed), "of the two newest observations"
    pictures = sorted((tmp_path / "agent").glob("*/*.png"))
    assert [p.name for p in pictures][: len(ROOM.scene.observed)] == sorted(
        f"000000-{n}.png" for n in ROOM.scene.observed
    )
    for file in tmp_path.rglob("*"):
        assert file.is_dir() or KEY.encode() not in file.read_bytes()
