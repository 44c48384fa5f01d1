"""A policy behind an openpi-compatible websocket: `--policy ws://host:port`.

Every lane's observation is a request of its own, as openpi's LIBERO client makes it; several connections keep a server that
batches busy. Beside it goes the seed of the engine for (case, query), under the names that servers read one from, so that a
server which honours it answers the same whatever else it is asked.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import http
import os
import threading
import time
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mjx_bench.errors import BenchError, MissingExtra
from mjx_bench.policy import ACTION_DIMS, Observation, PolicySpec
from mjx_bench.task import Task
from policies.noise import NoiseRule, libero_max_seeds
from policies.openpi_inputs import CAMERAS, IMAGE_SIZE, SENT_SIZE, openpi_inputs, own_inputs

try:
    from websockets.exceptions import InvalidStatus, WebSocketException
    from websockets.sync.client import ClientConnection, connect

    from policies.packing import BadMessage, pack, unpack
    from policies.serving import OWN, OWN_SEED
except ImportError as missing:
    raise MissingExtra(f"--policy ws://... needs {missing.name}: pip install -e '.[serve]'") from None

API_KEY = "MJX_BENCH_API_KEY"  # environment variable

SEED_KEYS = ("libero_max_noise_seed", "__openpi_rng_seed__")

CONNECTIONS = 8
CONNECT_S, ANSWER_S = 10.0, 120.0  # seconds; a first answer may wait for a compilation
ATTEMPTS = 3  # of a request whose connection breaks
PAUSE_S = 0.5  # before the second attempt, twice that before the third
# A server that did not answer is not asked again for so long: what waits is void at once, not after a time limit each.
GIVEN_UP_S = 10.0


class ServerFault(RuntimeError):
    """The server does not answer, or not as the protocol has it: nobody's failure but the infrastructure's."""


class _NoServer(ServerFault):
    """Nobody answers at the address, or not yet."""


class Remote:
    """Asks a server. Calls from several threads share its connections.

    Args:
      url: ws://host:port or wss://host:port. An API key is taken from the environment, `MJX_BENCH_API_KEY`: what is
        part of the name would be recorded with the results.
      noise: what the seed that goes with a request is made from, see `policies.noise`.
      answer_s: time limit of an answer, seconds.

    Attributes:
      metadata: what the server said of itself.

    Raises:
      BenchError: no server answers there, or its answer to a blank observation is not one of a policy.
    """

    def __init__(self, url: str, noise: NoiseRule = "query", answer_s: float = ANSWER_S) -> None:
        self._url, self._key, self._noise = _checked(url), os.environ.get(API_KEY), noise
        if self._key and not self._key.isprintable():
            raise BenchError(f"{API_KEY} holds a character that cannot be sent, a line's end perhaps")
        self._answer_s = answer_s
        self._free: list[ClientConnection] = []
        self._lock = threading.Lock()
        self._pool = concurrent.futures.ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="remote")
        self._given_up_until = 0.0
        self.metadata: dict[str, Any] = {}
        try:
            connection = self._connect()
            self._free.append(connection)
            actions = self._ask(_blank())
        except ServerFault as error:
            raise BenchError(f"policy {url}: {error}") from None
        size, cameras = (IMAGE_SIZE, CAMERAS) if self._own is None else (self._own["size"], tuple(self._own["cameras"]))
        self.spec = PolicySpec(
            name=self._url, horizon=len(actions), action_mode="osc_pose", cameras=cameras, image_size=size
        )

    def fingerprint(self) -> Mapping[str, str]:
        """See `mjx_bench.policy.Fingerprinted.fingerprint`; of a server of ours, that of the policy that it serves."""
        return dict(self._own.get("fingerprint", {})) if self._own else {}

    def init(self, task: Task, seed: int) -> int:
        """Of an episode, only the number of queries is remembered."""
        return 0

    def act(self, carries: Sequence[int], obs: Observation, seeds: np.ndarray) -> tuple[np.ndarray, Sequence[int]]:
        """See `mjx_bench.policy.Policy.act`.

        Raises:
          ServerFault: the server does not answer, or reports an error.
        """
        requests = openpi_inputs(obs) if self._own is None else own_inputs(obs, mirrored=self._own["mirrored"])
        by_rule = self._noise == "libero_max"
        if by_rule:
            seeds = libero_max_seeds(obs, carries)
        for request, seed in zip(requests, seeds.tolist(), strict=True):
            request |= dict.fromkeys(SEED_KEYS, seed if by_rule else _seed32(seed))
            request |= {} if self._own is None else {OWN_SEED: seed}
        answers = list(self._pool.map(self._ask, requests))
        for answer in answers:
            if len(answer) != self.spec.horizon:
                raise ServerFault(f"answered {len(answer)} actions, and {self.spec.horizon} at first")
        return np.stack(answers), [queries + 1 for queries in carries]

    @property
    def _own(self) -> Mapping[str, Any] | None:
        """What a server of ours wants, see `serving.OWN`; None of any other."""
        own = self.metadata.get(OWN)
        return own if isinstance(own, dict) and own.keys() >= {"mirrored", "size", "cameras"} else None

    def close(self) -> None:
        """Closes all connections."""
        self._pool.shutdown(cancel_futures=True)
        with self._lock:
            for connection in self._free:
                connection.close()
            self._free.clear()

    def _ask(self, request: Mapping[str, Any]) -> np.ndarray:
        """[H, A] of one request; tries again, on a new connection, where one breaks."""
        if time.monotonic() < self._given_up_until:
            raise ServerFault("did not answer just now")
        message = pack(request)
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(PAUSE_S * attempt)
            try:
                return self._exchange(message)
            except TimeoutError:
                cause = f"no answer within {self._answer_s:g} s"
                break
            except (OSError, WebSocketException, _NoServer) as error:  # the connection broke
                cause = str(error) or type(error).__name__
        self._given_up_until = time.monotonic() + GIVEN_UP_S
        raise ServerFault(f"the server does not answer: {cause}")

    def _exchange(self, message: bytes) -> np.ndarray:
        with self._lock:
            connection = self._free.pop() if self._free else None
        connection = connection or self._connect()
        try:
            connection.send(message)
            answer = connection.recv(timeout=self._answer_s)
        except BaseException:
            connection.close()
            raise
        if isinstance(answer, str):  # the protocol's error: a traceback, whose last line says what it is
            connection.close()
            raise ServerFault(f"the server reports: {(answer.strip().splitlines() or ['nothing'])[-1][:300]}")
        with self._lock:
            self._free.append(connection)
        return _actions(answer)

    def _connect(self) -> ClientConnection:
        headers = {"Authorization": f"Api-Key {self._key}"} if self._key else None
        try:
            # Entered by hand: it stays open between requests, and is closed by its own method.
            connection = connect(
                self._url, open_timeout=CONNECT_S, compression=None, max_size=None, additional_headers=headers
            ).__enter__()
        except InvalidStatus as error:
            if error.response.status_code == http.HTTPStatus.UNAUTHORIZED:
                given = "another" if self._key else "an"
                raise _NoServer(f"the server wants {given} API key: set MJX_BENCH_API_KEY") from None
            raise _NoServer(f"no server answers: {error}") from None
        except (OSError, WebSocketException) as error:
            raise _NoServer(f"no server answers: {error or type(error).__name__}") from None
        try:
            first = connection.recv(timeout=CONNECT_S)
            metadata: Any = unpack(first) if isinstance(first, bytes) else None
        except (OSError, WebSocketException, BadMessage) as error:
            connection.close()
            raise ServerFault(f"what answers is no openpi server: {error or type(error).__name__}") from None
        if not isinstance(metadata, dict):
            connection.close()
            raise ServerFault("what answers is no openpi server: it sent no metadata")
        if self._own is not None and metadata.get(OWN) != self.metadata[OWN]:
            connection.close()
            raise ServerFault("another policy answers now than at first")
        self.metadata = metadata
        return connection


def _checked(url: str) -> str:
    parts = urllib.parse.urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme not in ("ws", "wss") or not parts.hostname or port is None or parts.query or parts.username:
        raise BenchError(f"policy {url!r}: expected ws://host:port (an API key is taken from {API_KEY})")
    return url


def _blank() -> dict[str, Any]:
    """A request that says nothing; its answer says how many actions there will be, and it warms the server up."""
    picture = np.zeros((SENT_SIZE, SENT_SIZE, 3), np.uint8)
    return {
        "observation/image": picture,
        "observation/wrist_image": picture,
        "observation/state": np.zeros(8),
        "prompt": "do nothing",
        **dict.fromkeys(SEED_KEYS, 0),
    }


def _seed32(seed: int) -> int:
    """32 bits of a seed of 64, which servers' random generators take."""
    return int.from_bytes(hashlib.sha256(seed.to_bytes(8, "big")).digest()[:4], "big")


def _actions(answer: bytes) -> np.ndarray:
    try:
        data = unpack(answer)
        actions = np.asarray(data["actions"], np.float32)
    except (BadMessage, KeyError, TypeError, ValueError) as error:
        raise ServerFault(f"an answer without actions: {error}") from None
    width = ACTION_DIMS["osc_pose"]
    if actions.ndim != 2 or not len(actions) or actions.shape[1] < width:
        raise ServerFault(f"actions of shape {list(actions.shape)}, expected [H, {width}]")
    return actions[:, :width]  # servers of several robots pad their actions
