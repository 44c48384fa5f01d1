"""An openpi-compatible websocket server for many clients at once.

Requests of all clients that wait go into one batch, so that a slow client holds nobody up and a model is used in its full
width. A request that is wrong is answered with an error, to the client that sent it alone.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import dataclasses
import hmac
import http
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from mjx_bench.errors import MissingExtra

try:
    from websockets.asyncio.server import Server, ServerConnection, serve
    from websockets.exceptions import ConnectionClosed
    from websockets.http11 import Request, Response

    from policies.packing import BadMessage, pack, unpack
except ImportError as missing:
    raise MissingExtra(f"mjx-bench serve needs {missing.name}: pip install -e '.[serve]'") from None

# In the metadata of our own servers: what our own client sends instead of what openpi's does, so that a served policy acts
# to the bit as it does in the engine. `mirrored` and `size` of pictures, names of `cameras`; seeds of 64 bits, `OWN_SEED`.
# And the policy's `fingerprint`, so that a folder is not continued with another one.
OWN, OWN_SEED = "mjx_bench", "mjx_bench_seed"

MOST_SIDE = 4096  # pixels of a picture
MOST_BYTES = 16 * 2**20  # of a message: three pictures of 224 pixels a side are under half a MiB
INTERNAL_ERROR = 1011  # websocket close code

logger = logging.getLogger(__name__)


class Served(Protocol):
    """What can be served.

    Attributes:
      metadata: sent to each client on connecting; packable.
    """

    metadata: Mapping[str, Any]

    def check(self, request: Any) -> None:
        """Raises `ValueError` with one line for a request that cannot be answered."""
        ...

    def infer(self, requests: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        """Answers checked requests, each as if it came alone: at least `actions`, float32 [H, A]."""
        ...


@dataclasses.dataclass(frozen=True)
class _Waiting:
    request: Mapping[str, Any]
    answer: asyncio.Future[Mapping[str, Any]]


class PolicyServer:
    """Serves a policy until it is closed; an asynchronous context manager.

    Args:
      policy: what answers; called from one thread.
      host, port: where to listen; port 0 for one that is free.
      most: requests of a batch, at most.
      wait_s: how long the first request of a batch waits for those of other clients, at most; not at all where all that
        are connected have asked.
      key: what clients must send as `Authorization: Api-Key KEY`; None for anybody.

    Attributes:
      port: where it listens, once entered.
      batches: size to how many batches of it were answered.
    """

    def __init__(
        self,
        policy: Served,
        host: str = "127.0.0.1",
        port: int = 8000,
        *,
        most: int = 8,
        wait_s: float = 0.02,
        key: str | None = None,
    ) -> None:
        self._policy = policy
        self._host, self.port = host, port
        self._most, self._wait_s = most, wait_s
        self._key = key
        self._clients = 0
        self._queue: asyncio.Queue[_Waiting] = asyncio.Queue()
        self._thread = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="policy")
        self.batches: Counter[int] = Counter()

    async def __aenter__(self) -> PolicyServer:
        self._server: Server = await serve(
            self._client,
            self._host,
            self.port,
            compression=None,
            max_size=MOST_BYTES,
            process_request=self._before,
            # A model may compile for longer than a ping waits, in a thread that holds the interpreter for most of it.
            ping_interval=None,
        )
        self.port = next(iter(self._server.sockets)).getsockname()[1]
        self._batcher = asyncio.create_task(self._batches())
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()
        await self._server.wait_closed()
        self._batcher.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _before(self, connection: ServerConnection, request: Request) -> Response | None:
        if request.path == "/healthz":
            return connection.respond(http.HTTPStatus.OK, "OK\n")
        if self._key is not None:
            sent = request.headers.get("Authorization", "")
            if not hmac.compare_digest(sent.encode(), f"Api-Key {self._key}".encode()):
                return connection.respond(http.HTTPStatus.UNAUTHORIZED, "a valid Authorization: Api-Key is needed\n")
        return None

    async def _client(self, connection: ServerConnection) -> None:
        """One client, from its coming to its leaving."""
        self._clients += 1
        try:
            await self._requests(connection)
        finally:
            self._clients -= 1

    async def _requests(self, connection: ServerConnection) -> None:
        """A client's requests in turn, until it leaves or sends one that is wrong."""
        await connection.send(pack(dict(self._policy.metadata)))
        previous_ms: float | None = None
        while True:
            try:
                message = await connection.recv()
            except ConnectionClosed:
                return
            start = time.perf_counter()
            try:
                answer = await self._answer(message)
            except ValueError as error:
                await self._refuse(connection, str(error))
                return
            except Exception as error:
                logger.exception("a batch failed")
                await self._refuse(connection, f"the policy failed: {type(error).__name__}: {error}")
                return
            timing = {"infer_ms": 1000 * (time.perf_counter() - start)}
            if previous_ms is not None:
                timing["prev_total_ms"] = previous_ms
            try:
                await connection.send(pack({**answer, "server_timing": timing}))
            except ConnectionClosed:
                return
            previous_ms = 1000 * (time.perf_counter() - start)

    @staticmethod
    async def _refuse(connection: ServerConnection, why: str) -> None:
        """The protocol's error: a text frame, after which the connection is closed."""
        try:
            await connection.send(why)
            await connection.close(INTERNAL_ERROR, "the request could not be answered")
        except ConnectionClosed:
            return

    async def _answer(self, message: str | bytes) -> Mapping[str, Any]:
        if isinstance(message, str):
            raise BadMessage("a text frame; expected a packed observation, in binary")
        request = unpack(message)
        self._policy.check(request)
        waiting = _Waiting(request, asyncio.get_running_loop().create_future())
        await self._queue.put(waiting)
        return await waiting.answer

    async def _batches(self) -> None:
        """Answers what waits, batch after batch."""
        loop = asyncio.get_running_loop()
        while True:
            batch = [await self._queue.get()]
            until = loop.time() + self._wait_s
            while len(batch) < min(self._most, self._clients):
                try:
                    batch.append(await asyncio.wait_for(self._queue.get(), max(until - loop.time(), 0.0)))
                except TimeoutError:
                    break
            if not await self._infer(loop, batch):
                # Whose fault it is must not depend on the company.
                for waiting in batch:
                    await self._infer(loop, [waiting])

    async def _infer(self, loop: asyncio.AbstractEventLoop, batch: Sequence[_Waiting]) -> bool:
        """Answers a batch; whether it could. One that fails alone gets the error for an answer."""
        start = time.perf_counter()
        try:
            answers = await loop.run_in_executor(self._thread, self._policy.infer, [w.request for w in batch])
            if len(answers) != len(batch):
                raise RuntimeError(f"{len(answers)} answers to {len(batch)} requests")
        except Exception as error:
            if len(batch) == 1 and not batch[0].answer.done():
                batch[0].answer.set_exception(error)
            return len(batch) == 1
        self.batches[len(batch)] += 1
        timing = {"policy_timing": {"infer_ms": 1000 * (time.perf_counter() - start)}}
        for waiting, answer in zip(batch, answers, strict=True):
            if not waiting.answer.done():  # its client may have left
                waiting.answer.set_result({**answer, **timing})
        return True


def number_array(request: Mapping[str, Any], key: str, shape: Sequence[int]) -> np.ndarray:
    """The finite numbers of a request under `key`.

    Raises:
      ValueError: missing, of another shape, no numbers, or not finite.
    """
    value = request.get(key)
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiu" or value.shape != tuple(shape):
        raise ValueError(f"{key}: expected numbers of shape {list(shape)}, got {_what(value)}")
    if not np.isfinite(value).all():
        raise ValueError(f"{key}: not all numbers are finite")
    return value


def picture(request: Mapping[str, Any], key: str) -> np.ndarray:
    """The picture of a request under `key`, uint8 [height, width, 3].

    Raises:
      ValueError: missing, no picture, of another type, or larger than `MOST_SIDE`.
    """
    value = request.get(key)
    if not isinstance(value, np.ndarray) or value.dtype != np.uint8 or value.ndim != 3 or value.shape[2] != 3:
        raise ValueError(f"{key}: expected a picture, uint8 [height, width, 3], got {_what(value)}")
    if not 1 <= min(value.shape[:2]) <= max(value.shape[:2]) <= MOST_SIDE:
        raise ValueError(f"{key}: a picture of {list(value.shape)} pixels; at most {MOST_SIDE} a side")
    return value


def _what(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {list(value.shape)}"
    return type(value).__name__


def run_until(server: PolicyServer, ready: Callable[[PolicyServer], None]) -> None:
    """Serves until interrupted; `ready` is told once it listens."""

    async def main() -> None:
        async with server:
            ready(server)
            await asyncio.get_running_loop().create_future()

    asyncio.run(main())
