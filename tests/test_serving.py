"""The websocket server and the policy that asks one, at both ends of a socket: batches, errors, clients that misbehave."""

from __future__ import annotations

import asyncio
import concurrent.futures
import dataclasses
import hashlib
import http.client
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("websockets", reason="needs the extra: serve")
pytest.importorskip("msgpack", reason="needs the extra: serve")

import msgpack
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect
from websockets.sync.server import serve as serve_plainly

from mjx_bench.errors import BenchError
from mjx_bench.records import load_run
from mjx_bench.schedule import run_pairs
from mjx_bench.settings import RunSettings
from policies import remote, serving
from policies.packing import BadMessage, pack, unpack
from policies.registry import make
from policies.serving import PolicyServer, number_array, picture
from tests.test_openpi_inputs import noise, observation
from tests.test_pairs import a_case, at, manifest_of
from tests.test_pictures import short

H, SIZE = 6, 224


def actions_of(request: Mapping[str, Any]) -> np.ndarray:
    """[H, 7] that depend on every bit of a request."""
    text = b"".join(
        np.asarray(request[key]).tobytes()
        for key in ("observation/image", "observation/wrist_image", "observation/state", "libero_max_noise_seed")
    )
    digest = hashlib.sha256(text + request["prompt"].encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8])).uniform(-0.3, 0.3, (H, 7)).astype(np.float32)


class Hashing:
    """Answers each request from its own bits; as slow as it is told, and fails on the prompt "fail"."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.metadata = {"name": "hashing", "action_horizon": H}
        self.seconds = seconds

    def check(self, request: Any) -> None:
        if not isinstance(request, dict):
            raise ValueError(f"an observation is a dict, not {type(request).__name__}")
        if picture(request, "observation/image").shape != (SIZE, SIZE, 3):
            raise ValueError(f"uint8 {list(request['observation/image'].shape)} is of another size")
        number_array(request, "observation/state", (8,))

    def infer(self, requests: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        time.sleep(self.seconds)
        if any(r["prompt"] == "fail" for r in requests):
            raise RuntimeError("no such prompt")
        return [{"actions": actions_of(r)} for r in requests]


@pytest.fixture
def started() -> Iterator[Callable[..., PolicyServer]]:
    """Starts servers in threads of their own, and ends them."""
    ends: list[Callable[[], None]] = []

    def start(policy: Any, **options: Any) -> PolicyServer:
        ready, box = threading.Event(), {}

        async def main() -> None:
            box["end"] = asyncio.Event()
            box["loop"] = asyncio.get_running_loop()
            async with PolicyServer(policy, port=0, **options) as server:
                box["server"] = server
                ready.set()
                await box["end"].wait()

        thread = threading.Thread(target=lambda: asyncio.run(main()))
        thread.start()
        assert ready.wait(10)

        def end() -> None:
            box["loop"].call_soon_threadsafe(box["end"].set)
            thread.join(10)
            assert not thread.is_alive()

        ends.append(end)
        return box["server"]

    yield start
    for end in ends:
        end()


def a_request(i: int = 0, **more: Any) -> dict[str, Any]:
    rng = np.random.default_rng(i)
    return {
        "observation/image": rng.integers(0, 255, (SIZE, SIZE, 3), dtype=np.uint8),
        "observation/wrist_image": rng.integers(0, 255, (SIZE, SIZE, 3), dtype=np.uint8),
        "observation/state": rng.normal(size=8),
        "prompt": f"do {i}",
        "libero_max_noise_seed": i,
    } | more


def client(server: PolicyServer, **options: Any) -> Any:
    return connect(f"ws://127.0.0.1:{server.port}", compression=None, max_size=None, **options)


def ask(connection: Any, request: Mapping[str, Any]) -> dict[str, Any]:
    connection.send(pack(request))
    answer = connection.recv(timeout=20)
    assert isinstance(answer, bytes), answer
    found: dict[str, Any] = unpack(answer)
    return found


def _exchange(connection: Any, message: bytes) -> Any:
    connection.send(message)
    return connection.recv(timeout=10)


def test_messages_come_back_as_they_were():
    data = {
        "a": np.arange(6, dtype=">i2").reshape(2, 3),
        "b": [np.float32(1.5), 2, "x", None, True],
        "c": {"d": b"raw"},
    }
    back = unpack(pack(data))
    np.testing.assert_array_equal(back["a"], data["a"])
    assert back["a"].dtype == data["a"].dtype
    assert not back["a"].flags.writeable
    assert back["b"] == data["b"]
    assert isinstance(back["b"][0], np.float32)
    assert back["c"] == data["c"]


def test_the_wire_format_is_openpis():
    packed = msgpack.unpackb(pack({"x": np.zeros((1, 2), np.float32), "n": np.int64(3)}), strict_map_key=False)
    assert packed["x"] == {b"__ndarray__": True, b"data": bytes(8), b"dtype": "<f4", b"shape": [1, 2]}
    assert packed["n"] == {b"__npgeneric__": True, b"data": 3, b"dtype": "<i8"}
    module = pytest.importorskip("openpi_client.msgpack_numpy", reason="openpi-client is not installed")
    request = a_request(3)
    theirs = module.unpackb(pack(request))
    assert theirs.keys() == request.keys()
    np.testing.assert_array_equal(theirs["observation/image"], request["observation/image"])
    np.testing.assert_array_equal(
        unpack(module.Packer().pack(request))["observation/state"], request["observation/state"]
    )


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        (b"\xc1garbage", "not a packed message"),
        (msgpack.packb({b"__ndarray__": True, b"data": b"", b"dtype": "|O", b"shape": [0]}), "which is not allowed"),
        (msgpack.packb({b"__ndarray__": True, b"data": b"", b"dtype": "<c8", b"shape": [0]}), "which is not allowed"),
        (msgpack.packb({b"__ndarray__": True, b"data": b"", b"dtype": 5, b"shape": [0]}), "which is not allowed"),
        (
            msgpack.packb({b"__ndarray__": True, b"data": b"1", b"dtype": "<f8", b"shape": [10**9]}),
            "comes with 1 bytes",
        ),
        (msgpack.packb({b"__ndarray__": True, b"data": b"", b"dtype": "<f8", b"shape": [-1]}), "shape is"),
        (msgpack.packb({b"__npgeneric__": True, b"data": "x", b"dtype": "<f8"}), "cannot be read"),
    ],
)
def test_messages_that_are_not_numbers_are_refused(message, complaint):
    with pytest.raises(BadMessage, match=complaint):
        unpack(message)


@pytest.mark.parametrize("value", [np.array([object()]), np.zeros(2, complex), object(), {1, 2}])
def test_what_is_no_number_is_not_packed(value):
    with pytest.raises(BadMessage, match="not allowed"):
        pack({"x": value})


def test_eight_clients_at_once_are_answered_in_batches(started):
    server = started(Hashing(0.05), wait_s=0.02)

    def one(i: int) -> list[np.ndarray]:
        with client(server) as c:
            assert unpack(c.recv()) == {"name": "hashing", "action_horizon": H}
            return [ask(c, a_request(100 * i + k))["actions"] for k in range(5)]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(one, range(8)))
    for i, found in enumerate(answers):
        for k, actions in enumerate(found):
            np.testing.assert_array_equal(actions, actions_of(a_request(100 * i + k)))
    assert sum(server.batches.elements()) == 40
    assert max(server.batches) > 1
    assert server.batches.total() < 30


def test_answers_carry_the_times_of_the_protocol(started):
    server = started(Hashing(0.02))
    with client(server) as c:
        c.recv()
        first, second = ask(c, a_request(0)), ask(c, a_request(1))
    assert first["policy_timing"]["infer_ms"] >= 20
    assert first["server_timing"].keys() == {"infer_ms"}
    assert second["server_timing"]["prev_total_ms"] >= first["server_timing"]["infer_ms"] >= 20


BAD = {
    "garbage": (b"\xc1 nothing", "not a packed message"),
    "text": ("hello", "a text frame"),
    "no dict": (pack([1]), "an observation is a dict, not list"),
    "wrong size": (pack(a_request() | {"observation/image": np.zeros((3, 3, 3), np.uint8)}), r"uint8 \[3, 3, 3\]"),
    "wrong type": (pack(a_request() | {"observation/image": np.zeros((SIZE, SIZE, 3))}), r"got float64"),
    "nan": (pack(a_request() | {"observation/state": np.full(8, np.nan)}), "not all numbers are finite"),
    "missing": (pack({"prompt": "x"}), "observation/image: expected a picture, .* got nothing"),
    "fails": (pack(a_request() | {"prompt": "fail"}), "RuntimeError: no such prompt"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_wrong_request_is_an_error_for_its_client_alone(kind, started):
    message, complaint = BAD[kind]
    server = started(Hashing(0.02), wait_s=0.05)
    with client(server) as good, client(server) as bad:
        good.recv()
        bad.recv()
        good.send(pack(a_request(1)))
        bad.send(message)
        told = bad.recv(timeout=10)
        assert isinstance(told, str)
        assert re.search(complaint, told), told
        with pytest.raises(ConnectionClosed) as closed:
            bad.recv(timeout=10)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == serving.INTERNAL_ERROR
        np.testing.assert_array_equal(unpack(good.recv(timeout=10))["actions"], actions_of(a_request(1)))
        np.testing.assert_array_equal(ask(good, a_request(2))["actions"], actions_of(a_request(2)))


def test_a_message_that_is_too_large_ends_its_client_alone(started):
    server = started(Hashing())
    with client(server) as good, client(server) as bad:
        bad.recv()
        with pytest.raises(ConnectionClosed):
            _exchange(bad, pack({"x": np.zeros(serving.MOST_BYTES, np.uint8)}))
        good.recv()
        np.testing.assert_array_equal(ask(good, a_request(2))["actions"], actions_of(a_request(2)))


def test_a_client_that_sends_nothing_or_leaves_holds_nobody_up(started):
    server = started(Hashing(0.05))
    with client(server) as idle, client(server) as good:
        idle.recv()
        good.recv()
        with client(server) as leaver:
            leaver.recv()
            leaver.send(pack(a_request(7)))
        start = time.monotonic()
        np.testing.assert_array_equal(ask(good, a_request(1))["actions"], actions_of(a_request(1)))
        assert time.monotonic() - start < 5


def test_a_batch_waits_for_nobody_who_is_not_there(started):
    server = started(Hashing(), wait_s=60.0)
    with client(server) as one:
        one.recv()
        for i in range(2):
            np.testing.assert_array_equal(ask(one, a_request(i))["actions"], actions_of(a_request(i)))
        with client(server) as other:
            other.recv()
            one.send(pack(a_request(2)))
            np.testing.assert_array_equal(ask(other, a_request(3))["actions"], actions_of(a_request(3)))
            np.testing.assert_array_equal(unpack(one.recv(timeout=20))["actions"], actions_of(a_request(2)))
    assert server.batches == {1: 2, 2: 1}


def test_health_and_keys(started, monkeypatch: pytest.MonkeyPatch):
    server = started(Hashing(), key="secret")
    plain = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    plain.request("GET", "/healthz")
    answer = plain.getresponse()
    assert (answer.status, answer.read()) == (200, b"OK\n")
    with pytest.raises(InvalidStatus, match="401"), client(server):
        pass
    with client(server, additional_headers={"Authorization": "Api-Key secret"}) as c:
        assert unpack(c.recv())["name"] == "hashing"
    monkeypatch.delenv("MJX_BENCH_API_KEY", raising=False)
    for key, message in ((None, "wants an API key: set MJX_BENCH_API_KEY"), ("other", "wants another API key")):
        if key is not None:
            monkeypatch.setenv("MJX_BENCH_API_KEY", key)
        with pytest.raises(BenchError, match=message):
            make(f"ws://127.0.0.1:{server.port}")
    monkeypatch.setenv("MJX_BENCH_API_KEY", "two\nlines")
    with pytest.raises(BenchError, match="holds a character that cannot be sent") as refused:
        make(f"ws://127.0.0.1:{server.port}")
    assert "two" not in str(refused.value)


def run(out: Path, policy: Any, lanes: int = 2, events: Sequence[str] = ("target_relocation",)) -> Any:
    cases = manifest_of(*(a_case(event, at(4), init=i) for i, event in enumerate(events)))
    run_pairs(cases, RunSettings("remote", lanes, 4, renderer="gl", threads=1), out, load_task=short, policy=policy)
    return load_run(out)


def test_an_evaluation_asks_a_server(started, tmp_path: Path):
    """The same records whatever the lanes, so however requests were batched; the answers are those of the server."""
    server = started(Hashing())
    found = []
    for lanes in (1, 4):
        policy = make(f"ws://127.0.0.1:{server.port}")
        assert policy.spec.horizon == H
        run_ = run(tmp_path / str(lanes), policy, lanes, ("illumination_switch", "target_relocation"))
        found.append({r.key: np.asarray(run_.array(r, "actions")) for r in run_.records})
        assert all(r.verdict == "timeout" for r in run_.records)
        assert all(0 < r.timing["query_mean_s"] <= r.timing["query_max_s"] for r in run_.records)
    assert found[0].keys() == found[1].keys()
    assert len(found[0]) == 4
    for key, actions in found[0].items():
        np.testing.assert_array_equal(actions, found[1][key])
        assert 0 < np.abs(actions).max() <= 0.3


class PlainServer:
    """One client after the other, from the published protocol alone: metadata, then an answer to each observation."""

    def __init__(self, answer: Callable[[dict[str, Any]], Any]) -> None:
        self._answer = answer
        self.asked: list[dict[str, Any]] = []

    def __call__(self, connection: Any) -> None:
        connection.send(msgpack.packb({}))
        for message in connection:
            request = msgpack.unpackb(message, object_hook=self._array)
            self.asked.append(request)
            try:
                actions = np.asarray(self._answer(request), np.float64)
            except RuntimeError as error:
                connection.send(f"Traceback (most recent call last):\nRuntimeError: {error}\n")
                connection.close(1011)
                return
            packed = {b"__ndarray__": True, b"data": actions.tobytes(), b"dtype": "<f8", b"shape": actions.shape}
            connection.send(msgpack.packb({"actions": packed, "server_timing": {"infer_ms": 1.0}}))

    @staticmethod
    def _array(value: dict[Any, Any]) -> Any:
        if b"__ndarray__" in value:
            return np.ndarray(value[b"shape"], np.dtype(value[b"dtype"]), value[b"data"])
        return value


@pytest.fixture
def plainly() -> Iterator[Callable[[PlainServer], str]]:
    held: list[Any] = []

    def start(handler: PlainServer) -> str:
        server = serve_plainly(handler, "127.0.0.1", 0, compression=None, max_size=None)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        held.append((server, thread))
        return f"ws://127.0.0.1:{server.socket.getsockname()[1]}"

    yield start
    for server, thread in held:
        server.shutdown()
        thread.join(10)


def test_any_server_of_the_protocol_is_a_policy(plainly, tmp_path: Path):
    """Padded actions [H, 32]; requests are openpi's client's, and each query has a seed of its own."""
    handler = PlainServer(lambda request: np.full((10, 32), 0.1))
    policy = make(plainly(handler))
    assert policy.spec.horizon == 10
    run_ = run(tmp_path, policy)
    np.testing.assert_allclose(run_.array(run_.records[0], "actions"), 0.1, rtol=1e-6)
    request = handler.asked[-1]
    assert request["observation/image"].shape == request["observation/wrist_image"].shape == (224, 224, 3)
    assert request["observation/image"].dtype == np.uint8
    assert request["observation/state"].shape == (8,)
    assert request["prompt"] == "pick up the alphabet soup and place it in the basket"
    seeds = [r["libero_max_noise_seed"] for r in handler.asked]
    assert seeds == [r["__openpi_rng_seed__"] for r in handler.asked]
    assert len(set(seeds[1:])) >= 3
    assert all(0 <= s < 2**32 for s in seeds)


def test_seeds_follow_libero_max_s_rule_where_that_is_asked_for(plainly):
    handler = PlainServer(lambda request: np.zeros((10, 7)))
    url = plainly(handler)
    policy = make(f"libero_max:{url}")
    assert policy.spec.name == f"libero_max:{url}"
    obs = dataclasses.replace(observation(noise(2)), policy_seed=np.array([195, 7]))
    _, carries = policy.act([0, 4], obs, np.zeros(2, np.uint64))
    assert carries == [1, 5]
    want = {int.from_bytes(hashlib.sha256(text).digest()[:4], "big") for text in (b"195:0", b"7:4")}
    for key in remote.SEED_KEYS:
        assert {request[key] for request in handler.asked[-2:]} == want
    policy.close()


def test_another_policy_at_the_same_address_is_noticed(started, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(remote, "PAUSE_S", 0.01)
    served = Hashing()
    served.metadata[serving.OWN] = {
        "mirrored": False, "size": SIZE, "cameras": ["agentview"], "fingerprint": {"policy weights": "a"},
    }  # fmt: skip
    policy = make(f"ws://127.0.0.1:{started(served).port}")
    assert policy.fingerprint() == {"policy weights": "a"}
    served.metadata = served.metadata | {serving.OWN: served.metadata[serving.OWN] | {"fingerprint": {}}}
    policy._free[0].close()
    with pytest.raises(remote.ServerFault, match="another policy answers now than at first"):
        policy._ask(a_request(5))
    policy.close()


def test_an_error_of_the_server_is_void_and_no_failure(plainly, tmp_path: Path):
    calls = iter(range(1000))

    def answer(request: dict[str, Any]) -> Any:
        if next(calls) > 3:
            raise RuntimeError("out of memory")
        return np.zeros((H, 7))

    run_ = run(tmp_path, make(plainly(PlainServer(answer))), lanes=1)
    void = [r for r in run_.records if r.verdict == "void"]
    assert void
    assert all(
        "the server reports: RuntimeError: out of memory" in r.reason for r in void if "policy raised" in r.reason
    )
    assert all(r.success is None for r in void)


def test_a_server_that_dies_makes_voids(started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(remote, "PAUSE_S", 0.01)
    loop_server = started(Hashing())
    policy = make(f"ws://127.0.0.1:{loop_server.port}")
    asked = iter(range(1000))

    def refuse(self: Any) -> Any:
        raise ConnectionRefusedError("connection refused")

    ask_server = remote.Remote._exchange

    def exchange(self: Any, message: bytes) -> Any:
        return refuse(self) if next(asked) > 2 else ask_server(self, message)

    monkeypatch.setattr(remote.Remote, "_exchange", exchange)
    start = time.monotonic()
    run_ = run(tmp_path, policy, lanes=1)
    void = [r for r in run_.records if r.verdict == "void"]
    assert void
    assert "the server does not answer: connection refused" in void[0].reason
    assert time.monotonic() - start < 60
    policy.close()


def test_a_connection_that_breaks_once_is_made_anew(started, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(remote, "PAUSE_S", 0.01)
    server = started(Hashing())
    policy = make(f"ws://127.0.0.1:{server.port}")
    policy._free[0].close()
    np.testing.assert_array_equal(policy._ask(a_request(5)), actions_of(a_request(5)))
    policy.close()


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("ws://127.0.0.1", "expected ws://host:port"),
        ("ws://127.0.0.1:99999", "expected ws://host:port"),
        ("ws://127.0.0.1:80?key=secret", "expected ws://host:port"),
        ("ws://127.0.0.1:1", "no server answers"),
    ],
)
def test_addresses_without_a_server_are_refused(url, complaint, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(remote, "PAUSE_S", 0.01)
    with pytest.raises(BenchError, match=complaint):
        make(url)


def test_what_answers_otherwise_is_no_policy(plainly):
    with pytest.raises(BenchError, match=r"actions of shape \[3\], expected \[H, 7\]"):
        make(plainly(PlainServer(lambda request: np.zeros(3))))


@pytest.mark.slow
def test_eight_real_clients_are_served_at_once_and_one_sends_garbage(started, tmp_path: Path):
    """openpi-client needs NumPy 1, so it runs in an environment of its own."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    # It imports typing_extensions and does not say that it needs it.
    needed = ["openpi-client", "typing-extensions"]
    made = subprocess.run([python, "-m", "pip", "install", "-q", *needed], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"openpi-client cannot be installed: {made.stderr[-200:]}")
    server = started(Hashing(0.02))
    for i in range(7):
        np.savez(tmp_path / f"{i}.npz", **a_request(i))
    code = f"""
import concurrent.futures
import numpy as np
from openpi_client.websocket_client_policy import WebsocketClientPolicy

def client(i):
    policy = WebsocketClientPolicy("127.0.0.1", {server.port})
    assert policy.get_server_metadata()["name"] == "hashing"
    if i == 7:
        policy._ws.send(b"garbage")
        return policy._ws.recv()
    data = np.load(f"{tmp_path}/{{i}}.npz")
    request = {{key: data[key] if data[key].ndim else data[key].item() for key in data.files}}
    return [policy.infer(request)["actions"] for _ in range(5)]

with concurrent.futures.ThreadPoolExecutor(8) as pool:
    *answers, refusal = pool.map(client, range(8))
assert "not a packed message" in refusal, refusal
np.save("{tmp_path}/actions.npy", answers)
"""
    subprocess.run([python, "-c", code], check=True, timeout=120)
    for i, answers in enumerate(np.load(tmp_path / "actions.npy")):
        for actions in answers:
            np.testing.assert_array_equal(actions, actions_of(a_request(i)))
    assert max(server.batches) > 1
