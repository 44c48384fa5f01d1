"""The weights as openpi stores them: an orbax item of one top key, `params`, in OCDBT and Zarr 2."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np

from mjx_bench.errors import BenchError, MissingExtra
from policies.pi05 import weights
from policies.pi05.accounts import account, wanted
from policies.pi05.configs import Config
from policies.pi05.weights import Tree

try:
    import orbax.checkpoint as ocp
except ImportError:
    raise MissingExtra("checkpoints need orbax-checkpoint: pip install -e '.[pi05]'") from None

_TOP, _LAST = "params", "value"


def write(folder: Path, name: str, tree: Tree) -> None:
    """Writes the item `folder/name`, with a last key `value` on every leaf, as openpi's trainer has it."""
    wrapped = jax.tree.map(lambda leaf: {_LAST: np.asarray(leaf)}, tree)
    handler = ocp.PyTreeCheckpointHandler(use_ocdbt=True, use_zarr3=False)
    with quiet(), ocp.Checkpointer(ocp.CompositeCheckpointHandler(**{name: handler})) as writer:
        writer.save(folder.absolute(), ocp.args.Composite(**{name: ocp.args.PyTreeSave({_TOP: wrapped})}))


def outline(item: Path) -> dict[str, Any]:
    """Names to what has the shape and type of each leaf, without reading any; without a last key `value`.

    Raises:
      BenchError: it is no such item.
    """
    return _unwrapped(weights.flat(_stored(item)[_TOP]))


def read(item: Path, config: Config) -> Tree:
    """Weights, with or without a last key `value` everywhere.

    Raises:
      BenchError: another item, or tensors that do not fit: all are listed.
    """
    stored = _stored(item)
    leaves = _unwrapped(weights.flat(stored[_TOP]))
    account(item, config.name, {name: tuple(leaf.shape) for name, leaf in leaves.items()}, wanted(config))
    how = jax.tree.map(lambda _: ocp.RestoreArgs(restore_type=np.ndarray), stored)
    with quiet(), ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as reader:
        tree = reader.restore(item.absolute(), ocp.args.PyTreeRestore(item=stored, restore_args=how))[_TOP]
    return weights.nested(_unwrapped(weights.flat(tree)))


def _stored(item: Path) -> dict[str, Any]:
    """The item's tree of shapes and types."""
    with quiet(), ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as reader:
        try:
            stored = reader.metadata(item.absolute()).item_metadata.tree
        except (OSError, ValueError, AttributeError, KeyError) as error:
            raise BenchError(f"{item} is no orbax item: {type(error).__name__}: {error}") from None
    if not isinstance(stored, dict) or set(stored) != {_TOP}:
        raise BenchError(f"{item}: expected the single top key {_TOP!r}, found {', '.join(map(str, stored))}")
    return stored


def _unwrapped(leaves: dict[str, Any]) -> dict[str, Any]:
    """Without the last key `value`, where every leaf has it."""
    if not all(name.endswith(f"/{_LAST}") for name in leaves):
        return leaves
    return {name.removesuffix(f"/{_LAST}"): leaf for name, leaf in leaves.items()}


@contextmanager
def quiet(level: int = logging.ERROR) -> Iterator[None]:
    """Without what orbax says below this level: it warns of what openpi's layout never had."""
    logger = logging.getLogger("absl")
    before = logger.level
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.setLevel(before)
