"""The tree of weights: names to arrays, without the module around them.

A module is only ever built for its structure; values come from here or from a checkpoint.
"""

from __future__ import annotations

import concurrent.futures
import functools
import hashlib
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from mjx_bench.seeds import fold_seed
from policies.pi05.configs import Config
from policies.pi05.model import Model

# Nested dicts of arrays with openpi's names.
Tree = dict[str, Any]

_NUDGE = 0.05  # deviation of what training starts from at zero, see `random_weights`
_CUT_DEVIATION = 0.87962566103423978  # of a normal that is cut off at two deviations


@functools.cache
def abstract(config: Config) -> tuple[nnx.GraphDef[Model], Tree]:
    """The model without its weights, and their shapes and types; nothing is allocated."""
    model = nnx.eval_shape(lambda: Model(config, rngs=nnx.Rngs(0)))
    graph, state = nnx.split(model, nnx.Param)
    return graph, nnx.to_pure_dict(state)


def initial_weights(config: Config, seed: int) -> Tree:
    """Weights as training starts from them: gates and the image tower's projection are zero.

    Each leaf is drawn by itself, from the seed and its name.
    """
    leaves = flat(abstract(config)[1])
    return nested({name: _initial(name, leaf.shape, _generator(seed, name)) for name, leaf in leaves.items()})


def random_weights(config: Config, seed: int) -> Tree:
    """Initial weights, with normal draws where they are zero, so that pictures, words and time show in the actions."""
    leaves = flat(initial_weights(config, seed))
    for name, leaf in leaves.items():
        if not leaf.any():
            leaves[name] = _generator(seed, f"{name} nudge").normal(0.0, _NUDGE, leaf.shape).astype(np.float32)
    return nested(leaves)


def _generator(seed: int, name: str) -> np.random.Generator:
    return np.random.default_rng(fold_seed(name, "initial weights", seed))


def _initial(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """openpi's starting values; `shape` has the leading axis of stacked layers."""
    *_, folder, last = name.split("/")
    in_tower = name.startswith("PaliGemma/img/")
    if last == "scale":
        return np.full(shape, float(in_tower), np.float32)
    if last == "bias":
        return rng.normal(0.0, 1e-6 if "MlpBlock" in name else 0.0, shape).astype(np.float32)
    if name == "PaliGemma/img/head/kernel" or (folder == "Dense_0" and not in_tower):
        return np.zeros(shape, np.float32)
    if last == "pos_embedding":
        return rng.normal(0.0, shape[-1] ** -0.5, shape).astype(np.float32)
    if last == "input_embedding":
        return rng.normal(0.0, 0.01, shape).astype(np.float32)
    if "encoderblock" in name:  # Xavier uniform; heads count as one axis
        inside = math.prod(shape[1:-1]) if folder == "out" else shape[1]
        limit = math.sqrt(6.0 / (inside + math.prod(shape[1:]) // inside))
        return rng.uniform(-limit, limit, shape).astype(np.float32)
    summed = {"attn_vec_einsum": slice(-3, -1), "attn_vec_einsum_1": slice(-3, -1), "embedding": slice(0, -1)}
    return _lecun(shape, math.prod(shape[summed.get(folder, slice(-2, -1))]), rng)


def _lecun(shape: tuple[int, ...], inside: int, rng: np.random.Generator) -> np.ndarray:
    """Normal draws cut off at two deviations, of variance 1 / `inside`."""
    out = rng.standard_normal(shape, np.float32)
    while (far := np.abs(out) > 2.0).any():
        out[far] = rng.standard_normal(int(far.sum()), np.float32)
    return out / np.float32(_CUT_DEVIATION * math.sqrt(inside))


def bound(config: Config, tree: Tree) -> Model:
    """The model with these weights, which may be tracers: the way from a pure function's argument to a module."""
    graph, _ = abstract(config)
    return nnx.merge(graph, nnx.State(jax.tree.map(nnx.Param, tree)))


def flat(tree: Tree) -> dict[str, Any]:
    """Names joined by `/`, sorted, to leaves."""
    paths = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {"/".join(str(part.key) for part in path): leaf for path, leaf in paths}


def nested(leaves: dict[str, Any]) -> Tree:
    """The inverse of `flat`."""
    tree: Tree = {}
    for name, leaf in leaves.items():
        *folders, last = name.split("/")
        functools.reduce(lambda node, part: node.setdefault(part, {}), folders, tree)[last] = leaf
    return tree


def sha256(tree: Tree) -> str:
    """Of names, types, shapes and bytes of all weights."""

    def of(item: tuple[str, Any]) -> bytes:
        name, leaf = item
        values = np.asarray(leaf)
        digest = hashlib.sha256(f"{name} {values.dtype} {values.shape}".encode())
        digest.update(np.ascontiguousarray(values).view(np.uint8).data)
        return digest.digest()

    with concurrent.futures.ThreadPoolExecutor() as pool:  # hashing lets other threads run
        return hashlib.sha256(b"".join(pool.map(of, flat(tree).items()))).hexdigest()


def cast(tree: Tree, dtype: str) -> Tree:
    """Every weight in one type: float32 for training, bfloat16 for serving as openpi does."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), tree)
