"""What is trained and what is left as it is: parts of the model, adapters of low rank in place of whole matrices.

Weights are flat dictionaries here, names joined by `/` to arrays: `Trained` goes through the optimiser, the rest does not.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from mjx_bench.seeds import fold_seed
from policies.pi05 import weights
from policies.pi05.weights import Tree
from train.configs import Config

Flat = dict[str, Any]  # of arrays

# Matrices of trunk and expert that get adapters, each over its last two axes; axes before them are a batch.
_ADAPTED = ("q_einsum/w", "kv_einsum/w", "attn_vec_einsum/w", "gating_einsum", "linear")
_LANGUAGE = "PaliGemma/llm/"
_DEVIATION = 0.01  # of an adapter's first factor; the second starts at zero, so that nothing changes at first


class Trained(NamedTuple):
    """What the optimiser moves.

    Attributes:
      model: weights of the model under their names.
      lora: `NAME/a` [..., D, r] and `NAME/b` [..., r, F] of the adapted matrices.
      head: of the auxiliary error, see `train.objective`.
    """

    model: Flat
    lora: Flat
    head: Flat


def part_of(name: str) -> str:
    """The part of the model that a weight belongs to."""
    if name.startswith("PaliGemma/img/"):
        return "tower"
    if not name.startswith(_LANGUAGE):
        return "expert"
    return "expert" if any(folder.endswith("_1") for folder in name.split("/")) else "trunk"


def adapted(name: str) -> bool:
    """Whether a weight is a matrix that gets an adapter."""
    return name.startswith(_LANGUAGE) and name.replace("_1/", "/").endswith(tuple(f"/{last}" for last in _ADAPTED))


def split(config: Config, tree: Tree) -> tuple[Flat, Flat]:
    """The weights that are trained, and the others. With adapters, trunk and expert are left as they are."""
    leaves = weights.flat(tree)
    still = {name for name in leaves if part_of(name) in config.frozen or (config.lora and name.startswith(_LANGUAGE))}
    return ({n: x for n, x in leaves.items() if n not in still}, {n: x for n, x in leaves.items() if n in still})


def adapters(config: Config, tree: Tree) -> Flat:
    """Starting values of the adapters; each is drawn by itself, from the seed and its name."""
    out: Flat = {}
    if not config.lora:
        return out
    for name, leaf in weights.flat(tree).items():
        if adapted(name) and part_of(name) not in config.frozen:
            *batch, inside, outside = leaf.shape
            rng = np.random.default_rng(fold_seed(name, "adapter", config.seed))
            out[f"{name}/a"] = rng.normal(0.0, _DEVIATION, (*batch, inside, config.lora)).astype(np.float32)
            out[f"{name}/b"] = np.zeros((*batch, config.lora, outside), np.float32)
    return out


def whole(trained: Trained, frozen: Flat) -> Tree:
    """The model's tree: adapters added to what they stand beside, `w + a b`."""
    leaves = {**frozen, **trained.model}
    for name in trained.lora:
        if name.endswith("/a"):
            target = name.removesuffix("/a")
            change = trained.lora[name] @ trained.lora[f"{target}/b"]
            leaves[target] = leaves[target] + change.astype(jnp.asarray(leaves[target]).dtype)
    return weights.nested(dict(sorted(leaves.items())))
