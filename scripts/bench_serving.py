"""What a policy keeps of its speed behind a socket: clients at once against the same queries in one process, in turns."""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mjx_bench.bench.figures import Spread
from mjx_bench.errors import BenchError, MissingExtra
from policies.pi05.policy import Episode, Pi05

try:
    from websockets.sync.client import ClientConnection, connect

    from policies.packing import pack, unpack
    from policies.serving import OWN_SEED
except ImportError as missing:
    raise MissingExtra(f"serving needs {missing.name}: pip install -e '.[serve]' (or --clients 0)") from None

ROUND_S = 2.0  # seconds that a turn of either way takes, about


def measure(policy: Pi05, clients: int, repeats: int) -> dict[str, Any]:
    """Asks a server of its own, then `policy` itself, the same number of queries, and so on in turns.

    Args:
      policy: `NAME:random`, compiled.
      clients: each asks again as soon as it is answered.
      repeats: turns.

    Raises:
      BenchError: the server does not start, or answers otherwise than the policy.
    """
    requests = [_request(policy, client) for client in range(clients)]
    packed = [pack(request) for request in requests]
    together = _together(policy, requests)
    expected, _ = policy.infer(**together)
    start = time.perf_counter()
    policy.infer(**together)
    rounds = max(2, round(ROUND_S / (time.perf_counter() - start)))
    speeds: dict[str, list[float]] = {"in_process": [], "served": []}
    used: dict[str, list[float]] = {"in_process": [], "served": []}
    with contextlib.ExitStack() as held:
        address, process = held.enter_context(server(policy.config.name, clients, "--random-weights"))
        pool = held.enter_context(concurrent.futures.ThreadPoolExecutor(clients, thread_name_prefix="client"))
        connections = [
            held.enter_context(connect(address, compression=None, max_size=None, open_timeout=30)) for _ in packed
        ]
        for connection in connections:
            connection.recv(timeout=30)
        for turn in range(repeats + 1):
            start, cpu = time.perf_counter(), _processor_s(process) + time.process_time()
            answers = list(pool.map(_asking, connections, packed, [rounds] * clients))
            served, served_cpu = time.perf_counter() - start, _processor_s(process) + time.process_time() - cpu
            if not np.array_equal(np.stack(answers), expected):
                raise BenchError("the server's answers are not those of the policy; one of them is wrong")
            start, cpu = time.perf_counter(), time.process_time()
            for _ in range(rounds):
                policy.infer(**together)
            own, own_cpu = time.perf_counter() - start, time.process_time() - cpu
            if turn:  # the first one warms up
                speeds["served"].append(clients * rounds / served)
                speeds["in_process"].append(clients * rounds / own)
                used["served"].append(served_cpu)
                used["in_process"].append(own_cpu)
    ratio = Spread.of([s / p for s, p in zip(speeds["served"], speeds["in_process"], strict=True)])
    processor = Spread.of([p / s for s, p in zip(used["served"], used["in_process"], strict=True)])
    return {
        "clients": clients,
        "requests_a_client": rounds,
        **{f"{way}_queries_per_s": Spread.of(found).median for way, found in speeds.items()},
        "ratio": ratio.median,
        "ratio_range": [ratio.low, ratio.high],
        # What the ratio would be if nobody waited: of processor seconds, the clients' included.
        "processor_ratio": None if np.isnan(processor.median) else processor.median,
    }


def _request(policy: Pi05, client: int) -> dict[str, Any]:
    """What a client asks, in openpi's terms, and with our own seed."""
    from policies.pi05 import adapters

    adapter, side = adapters.named(policy.config.adapter), policy.spec.image_size
    rng = np.random.default_rng(client)
    pictures = {key: rng.integers(0, 256, (side, side, 3), np.uint8) for key in adapter.pictures if key is not None}
    return {
        **pictures,
        "observation/state": rng.uniform(-1.0, 1.0, len(adapter.state)),
        "prompt": f"pick up block {client} and place it in the bin",
        OWN_SEED: client,
    }


def _together(policy: Pi05, requests: list[dict[str, Any]]) -> dict[str, Any]:
    """The same as one call of `Pi05.infer`."""
    from policies.pi05 import adapters

    return {
        "carries": [Episode()] * len(requests),
        "pictures": [
            None if key is None else np.stack([request[key] for request in requests])
            for key in adapters.named(policy.config.adapter).pictures
        ],
        "state": np.stack([request["observation/state"] for request in requests]),
        "prompts": [request["prompt"] for request in requests],
        "seeds": np.array([request[OWN_SEED] for request in requests], np.uint64),
    }


def _asking(connection: ClientConnection, message: bytes, rounds: int) -> np.ndarray:
    """One client; the last answer [H, A]."""
    for _ in range(rounds):
        connection.send(message)
        answer = connection.recv(timeout=600)
        if isinstance(answer, str):
            raise BenchError(f"the server reports: {answer.strip().splitlines()[-1]}")
    return np.asarray(unpack(answer)["actions"])  # type: ignore[arg-type] # not text, see above


def _processor_s(pid: int) -> float:
    """Processor seconds that another process has used; not a number where the system does not tell (only Linux does)."""
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        return float("nan")
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def server(policy: str, batch: int, *more: str) -> Iterator[tuple[str, int]]:
    """`mjx-bench serve` in a process of its own, until it is done with: its address and the process's number.

    Args:
      policy: what is served.
      batch: requests that it answers at once.
      more: options.

    Raises:
      BenchError: it does not start.
    """
    command = [sys.executable, "-m", "scripts.cli", "serve", "--policy", policy, "--port", "0"]
    command += ["--batch", str(batch), *more]
    # In a session of its own: an interrupt is for this process, which then ends the server.
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            assert process.stderr is not None
            said: collections.deque[str] = collections.deque(maxlen=3)
            for line in process.stderr:
                said.append(line.strip())
                if found := re.search(r"answers at (ws://\S+);", line):
                    yield found.group(1), process.pid
                    return
            raise BenchError(f"the server of {policy} did not start: {' '.join(said) or 'it said nothing'}")
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
