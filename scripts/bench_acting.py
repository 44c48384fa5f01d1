"""How fast a pi0.5 policy acts, part by part; every ratio is between calls that took turns."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mjx_bench.bench.figures import Spread
from mjx_bench.errors import BenchError, MissingExtra
from policies.pi05 import adapters, costs, sampling, statistics, tokenizer, weights
from policies.pi05.checkpoint import Checkpoint
from policies.pi05.configs import Config
from policies.pi05.policy import TILE, Episode, Pi05
from policies.pi05.sequence import Inputs
from policies.pi05.weights import Tree


def model(config: Config) -> Checkpoint:
    """A model without training: as `NAME:random` has it, or drawn on the device where a host would take minutes.

    Where PaliGemma's tokenizer belongs to it, the small one stands in: what a token means costs nothing.
    """
    adapter = adapters.named(config.adapter)
    stats = statistics.unit(adapter.state, adapter.actions)
    if config.tokenizer == "small":
        return Checkpoint(config, weights.random_weights(config, 0), stats, tokenizer.small())
    leaves, structure = jax.tree.flatten(weights.abstract(config)[1])
    # In the type that is computed in from the start: the largest tensor takes 2 GB of half precision.
    draw = jax.jit(lambda key, shape: 0.02 * jax.random.normal(key, shape, config.dtype), static_argnums=1)
    keys = jax.random.split(jax.random.key(0), len(leaves))
    drawn = [draw(key, tuple(leaf.shape)) for key, leaf in zip(keys, leaves, strict=True)]
    small = dataclasses.replace(config, tokenizer="small")
    return Checkpoint(small, jax.tree.unflatten(structure, drawn), stats, tokenizer.small())


def compiled(found: Checkpoint, tile: int) -> tuple[Pi05, float]:
    """The policy in tiles of so many lanes, compiled, and the seconds that took."""
    made = Pi05(found, f"{found.config.name}:random", tile=tile)
    return made, _seconds(made.warm_up)


def over_lanes(
    acting: Pi05, wide: Pi05, lanes: int, repeats: int, flops: float, matmul: Callable[[], float]
) -> dict[str, Any]:
    """Queries of `lanes` lanes: in tiles, as a run asks them, and in one program of that width.

    Args:
      acting: in tiles.
      wide: in tiles of `lanes`.
      lanes: B.
      repeats: turns.
      flops: operations of one query.
      matmul: measures what the device can do, operations a second.
    """
    ask = _queries(acting.config, lanes)
    tiles, whole, rates = [], [], []
    for _ in range(repeats):
        rates.append(matmul())
        tiles.append(lanes / _seconds(lambda: acting.infer(**ask)))
        whole.append(tiles[-1] if wide is acting else lanes / _seconds(lambda: wide.infer(**ask)))

    def row(speeds: Sequence[float]) -> dict[str, Any]:
        speed = Spread.of(speeds)
        used = Spread.of([flops * s / rate for s, rate in zip(speeds, rates, strict=True)])
        return {
            "queries_per_s": speed.median,
            "queries_per_s_range": [speed.low, speed.high],
            "actions_per_s": float(f"{speed.median * acting.config.horizon:.4g}"),
            "utilisation": used.median,
        }

    return {"lanes": lanes, "in_tiles": row(tiles), "in_one_program": row(whole)}


def prefix(found: Checkpoint, repeats: int) -> dict[str, Any]:
    """The time that the prefix cache saves in ten steps, of one lane and of a tile."""
    config, tree = found.config, weights.cast(found.tree, found.config.dtype)

    def cached(tree: Tree, inputs: Inputs, noise: jax.Array) -> jax.Array:
        built = weights.bound(config, tree)
        return sampling.sample(built, sampling.read_prefix(built, inputs), inputs.state, noise)

    def anew(tree: Tree, inputs: Inputs, noise: jax.Array) -> jax.Array:
        return sampling.sample_uncached(weights.bound(config, tree), inputs, noise)

    out: dict[str, Any] = {}
    for lanes in (1, TILE):
        inputs = jax.tree.map(lambda leaf: jnp.ones(leaf.shape, leaf.dtype), costs.shapes(config, lanes))
        noise = jnp.zeros((lanes, config.horizon, config.action_dim))
        ways = [
            functools.partial(_wait, jax.jit(way).lower(tree, inputs, noise).compile(), tree, inputs, noise)
            for way in (cached, anew)
        ]
        turns = np.array([[_spent(way) for way in ways] for _ in range(repeats + 1)][1:])  # the first one warms up
        spent, used = turns[..., 0], turns[..., 1]
        ratio = Spread.of((spent[:, 1] / spent[:, 0]).tolist())
        out[f"lanes_{lanes}"] = {
            "cached_ms": Spread.of((1000 * spent[:, 0]).tolist()).median,
            "without_cache_ms": Spread.of((1000 * spent[:, 1]).tolist()).median,
            "time_ratio": ratio.median,
            "time_ratio_range": [ratio.low, ratio.high],
            "processor_ratio": Spread.of((used[:, 1] / used[:, 0]).tolist()).median,
        }
    return out


def pictures(acting: Pi05, repeats: int) -> dict[str, Any]:
    """A tile's pictures by Warp and its query: over the host, against pictures that stay on the device.

    Raises:
      MissingExtra: there is no Warp, or it draws on another device than JAX's.
      BenchError: the two lead to different actions.
    """
    from mjx_bench.bench.pictures import primitive_poses, primitive_scene
    from mjx_bench.observe.warp_renderer import WarpRenderer

    scene, size = primitive_scene(), acting.spec.image_size
    poses, ask = primitive_poses(scene, acting.tile), _queries(acting.config, acting.tile)
    with contextlib.closing(WarpRenderer(scene, scene.observed, size, size, acting.tile)) as renderer:
        if renderer.render_on_device(poses) is None:
            raise MissingExtra("Warp and JAX use different devices here")

        def query(draw: Callable[[Any], Any]) -> np.ndarray:
            return acting.infer(**ask | {"pictures": [*draw(poses).values(), None]})[0]

        ways = [functools.partial(query, draw) for draw in (renderer.render_on_device, renderer.render)]
        if not (ways[0]() == ways[1]()).all():
            raise BenchError("pictures led to other actions on the device than over the host; one of them is wrong")
        spent = np.array([[_seconds(way) for way in ways] for _ in range(repeats)])
    ratio = Spread.of((spent[:, 1] / spent[:, 0]).tolist())
    return {
        "lanes": acting.tile,
        "size": size,
        "time_ratio": ratio.median,
        "time_ratio_range": [ratio.low, ratio.high],
    }


def matmul(config: Config) -> Callable[[], float]:
    """Measures what the device can do: operations a second of a product of two matrices in the type of the model."""
    side = 8192 if jax.default_backend() == "gpu" else 1024
    matrix = jnp.ones((side, side), config.dtype)
    with jax.default_matmul_precision("highest"):  # as the policy computes
        once = functools.partial(_wait, jax.jit(lambda a: a @ a).lower(matrix).compile(), matrix)
    once()
    return lambda: 2 * side**3 / min(_seconds(once) for _ in range(5))


def _queries(config: Config, lanes: int) -> dict[str, Any]:
    """Arguments of `Pi05.infer` for so many lanes."""
    adapter, side = adapters.named(config.adapter), config.vision.image_size
    rng = np.random.default_rng(0)
    return {
        "carries": [Episode()] * lanes,
        "pictures": [
            None if key is None else rng.integers(0, 256, (lanes, side, side, 3), np.uint8) for key in adapter.pictures
        ],
        "state": rng.uniform(-1.0, 1.0, (lanes, len(adapter.state))),
        "prompts": ["pick up the block and place it in the bin"] * lanes,
        "seeds": rng.integers(0, 2**63, lanes, np.uint64),
    }


def _wait(program: Callable[..., Any], *args: Any) -> None:
    """Runs a program on the device to its end."""
    jax.block_until_ready(program(*args))


def _seconds(call: Callable[[], Any]) -> float:
    return _spent(call)[0]


def _spent(call: Callable[[], Any]) -> tuple[float, float]:
    """Seconds, and processor seconds of this process."""
    start, cpu = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - start, time.process_time() - cpu
