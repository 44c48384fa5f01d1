"""Devices as a grid: copies along `data`, pieces of the weights along `fsdp`; a batch is cut over both. And processes.

With one device everything is where it would be without. The rule for weights is openpi's: an array of at least 4 MiB is cut
along its longest axis that can be divided, anything else is copied.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mjx_bench.errors import BenchError

CUT_FROM = 4 * 2**20  # bytes
AXES = ("data", "fsdp")


def make(fsdp: int, batch: int, devices: list[Any] | None = None) -> Mesh:
    """All devices as (data, fsdp).

    Raises:
      BenchError: they cannot be arranged so, or the batch cannot be cut over them.
    """
    found = jax.devices() if devices is None else devices
    if len(found) % fsdp:
        raise BenchError(
            f"fsdp = {fsdp} does not divide the {len(found)} devices; give --fsdp {math.gcd(fsdp, len(found))}"
        )
    if batch % len(found):
        raise BenchError(f"batch = {batch} is no multiple of the {len(found)} devices")
    return Mesh(np.array(found).reshape(-1, fsdp), AXES)


def of_state(mesh: Mesh, state: Any) -> Any:
    """The sharding of every leaf of a tree of arrays or shapes."""
    return jax.tree.map(lambda leaf: NamedSharding(mesh, spec(leaf, mesh.shape["fsdp"])), state)


def of_batch(mesh: Mesh) -> NamedSharding:
    """The sharding of every array of a batch: along its first axis."""
    return NamedSharding(mesh, PartitionSpec(AXES))


def put(mesh: Mesh, batch: Any) -> Any:
    """This process's part of a batch onto its devices."""
    sharding = of_batch(mesh)
    return jax.tree.map(lambda x: jax.make_array_from_process_local_data(sharding, np.asarray(x)), batch)


def spec(leaf: Any, fsdp: int) -> PartitionSpec:
    """How one array of the state is cut."""
    size = math.prod(leaf.shape) * np.dtype(leaf.dtype).itemsize
    if fsdp > 1 and size >= CUT_FROM:
        for axis in sorted(range(len(leaf.shape)), key=lambda i: -leaf.shape[i]):
            if leaf.shape[axis] % fsdp == 0:
                return PartitionSpec(*[None] * axis, "fsdp")
    return PartitionSpec()


def first_process() -> bool:
    """Whether this process is the one that writes what is written once."""
    return jax.process_index() == 0


def meet(where: str) -> None:
    """Waits until all processes are at this place."""
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(where)


def of_first_process(tree: Any) -> Any:
    """The first process's arrays, on the host of each."""
    return multihost_utils.broadcast_one_to_all(tree) if jax.process_count() > 1 else tree


def any_process(asked: bool) -> bool:
    """Whether it is so in any of them."""
    return asked if jax.process_count() == 1 else bool(multihost_utils.process_allgather(np.array(asked)).any())


def on_host(tree: Any) -> Any:
    """Whole arrays, wherever their pieces lie, array by array."""

    def whole(x: jax.Array) -> np.ndarray:
        near = x.is_fully_addressable or x.is_fully_replicated
        return np.asarray(x if near else multihost_utils.process_allgather(x, tiled=True))

    return jax.tree.map(whole, tree)
