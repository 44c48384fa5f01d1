"""`mjx-bench serve`: a policy behind an openpi-compatible websocket."""

from __future__ import annotations

import dataclasses
import os

from mjx_bench.errors import BenchError
from scripts.output import Emit, note


@dataclasses.dataclass(frozen=True, kw_only=True)
class Serve:
    """Serve a pi0.5 policy to openpi clients, many at once, until interrupted.

    An API key that clients must send is taken from the environment, MJX_BENCH_API_KEY.
    """

    policy: str
    """pi05:DIR, a checkpoint; or a configuration, such as pi05_tiny, with --random-weights."""
    random_weights: bool = False
    """Random weights, always the same: for trying things out."""
    host: str = "127.0.0.1"
    """Address to listen at; 0.0.0.0 for every one that this machine has."""
    port: int = 8000
    """Port to listen at; 0 for one that is free."""
    batch: int = 8
    """Requests of a batch, at most."""
    wait_ms: float = 20.0
    """How long the first request of a batch waits for those of other clients that are connected, at most."""


def run(options: Serve, emit: Emit) -> int:
    """Serves."""
    if not 0 <= options.port < 2**16:
        raise BenchError(f"--port {options.port}: give a port from 0 to 65535")
    if options.batch < 1 or not 0 <= options.wait_ms <= 10_000:
        raise BenchError("--batch must be 1 or more, and --wait-ms 0 to 10000")

    from policies import registry
    from policies.pi05 import adapters
    from policies.pi05.policy import Pi05
    from policies.pi05.served import Pi05Served
    from policies.serving import PolicyServer, run_until

    if options.policy.startswith("libero_max:"):
        raise BenchError(
            f"{options.policy}: noise comes from the seeds that clients send; serve {options.policy.partition(':')[2]}, and"
            " ask it with --policy libero_max:ws://host:port"
        )
    policy = registry.make(f"{options.policy}:random" if options.random_weights else options.policy)
    if not isinstance(policy, Pi05):
        raise BenchError(
            f"{options.policy} reads what only our own scenes tell, and no client sends; serve pi05:DIR, or a"
            " configuration with --random-weights"
        )
    note(f"{options.policy}: compiling")
    policy.warm_up()
    served = Pi05Served(policy, adapters.named(policy.config.adapter))
    server = PolicyServer(
        served,
        options.host,
        options.port,
        most=options.batch,
        wait_s=options.wait_ms / 1000,
        key=os.environ.get("MJX_BENCH_API_KEY"),
    )
    try:
        run_until(server, lambda s: note(f"{options.policy} answers at ws://{options.host}:{s.port}; Ctrl-C ends it"))
    except OSError as error:
        raise BenchError(f"cannot listen at {options.host}:{options.port}: {error.strerror or error}") from None
    except KeyboardInterrupt:
        note("ended")
    return 0
