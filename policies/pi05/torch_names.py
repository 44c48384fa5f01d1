"""The same weights under the names of the PyTorch implementations: openpi's own and LeRobot's (`model.safetensors`).

Both are built of Hugging Face's PaliGemma and Gemma, with one tensor a layer, outputs first. LeRobot's names begin with
`model.`. The token table is stored once, as the table or as the output layer that is tied to it; the action expert has an
output layer of its own that nothing uses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mjx_bench.errors import BenchError, MissingExtra
from policies.pi05 import weights
from policies.pi05.accounts import account
from policies.pi05.configs import Config
from policies.pi05.weights import Tree

_PALIGEMMA = "paligemma_with_expert.paligemma."
_TOWER = f"{_PALIGEMMA}model.vision_tower.vision_model."
_TRUNK = f"{_PALIGEMMA}model.language_model."
_TABLES = (f"{_PALIGEMMA}lm_head.weight", f"{_TRUNK}embed_tokens.weight")
_EXPERT = "paligemma_with_expert.gemma_expert.model."
_UNUSED = re.compile(
    r"paligemma_with_expert\.gemma_expert\.lm_head\.weight|(un)?normalize_(inputs|targets|outputs)\..*"
)

# Names of older versions of Hugging Face's package.
_OLD = (
    (f"{_PALIGEMMA}vision_tower.", f"{_PALIGEMMA}model.vision_tower."),
    (f"{_PALIGEMMA}multi_modal_projector.", f"{_PALIGEMMA}model.multi_modal_projector."),
    (f"{_PALIGEMMA}language_model.model.", _TRUNK),
    (f"{_PALIGEMMA}language_model.lm_head.", f"{_PALIGEMMA}lm_head."),
)

_TYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": jnp.bfloat16}
_EXTRA = "PyTorch checkpoints need safetensors: pip install -e '.[pi05]'"

Turn = Callable[[np.ndarray], np.ndarray]


class Place(NamedTuple):
    """Where a tensor of the other side comes from.

    Attributes:
      leaf: name of our leaf.
      at: indices into its leading axes, () for the whole.
      turn: our part to their tensor.
      back: their tensor, and the shape of our part, to our part.
    """

    leaf: str
    at: tuple[int, ...]
    turn: Turn
    back: Callable[[np.ndarray, tuple[int, ...]], np.ndarray]


def _same(leaf: str, *index: int) -> Place:
    return Place(leaf, index, lambda x: x, lambda y, shape: y.reshape(shape))


def _dense(leaf: str, *index: int, inputs: int = 1) -> Place:
    """A kernel whose first `inputs` axes are summed over; theirs is [outputs, inputs]."""

    def turn(x: np.ndarray) -> np.ndarray:
        return x.reshape(int(np.prod(x.shape[:inputs])), -1).T

    return Place(leaf, index, turn, lambda y, shape: y.T.reshape(shape))


def _headed(leaf: str, *index: int) -> Place:
    """[heads, inputs, H]; theirs is [heads H, inputs]."""

    def turn(x: np.ndarray) -> np.ndarray:
        return x.transpose(0, 2, 1).reshape(-1, x.shape[1])

    def back(y: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        return y.reshape(shape[0], shape[2], shape[1]).transpose(0, 2, 1)

    return Place(leaf, index, turn, back)


def _patches(leaf: str) -> Place:
    """[rows, columns, 3, D]; theirs is [D, 3, rows, columns]."""
    return Place(leaf, (), lambda x: x.transpose(3, 2, 0, 1), lambda y, shape: y.transpose(2, 3, 1, 0).reshape(shape))


def places(config: Config) -> dict[str, Place]:
    """Their names, without a leading `model.` and with the table as the output layer, to where they come from."""
    return dict([*_tower(config), *_language(config), *_heads(config)])


def _tower(config: Config) -> Iterator[tuple[str, Place]]:
    ours = "PaliGemma/img/"
    yield f"{_TOWER}embeddings.patch_embedding.weight", _patches(f"{ours}embedding/kernel")
    yield f"{_TOWER}embeddings.patch_embedding.bias", _same(f"{ours}embedding/bias")
    yield f"{_TOWER}embeddings.position_embedding.weight", _drop(f"{ours}pos_embedding")
    for i in range(config.vision.depth):
        block, theirs = f"{ours}Transformer/encoderblock/", f"{_TOWER}encoder.layers.{i}."
        for n in (0, 1):
            yield f"{theirs}layer_norm{n + 1}.weight", _same(f"{block}LayerNorm_{n}/scale", i)
            yield f"{theirs}layer_norm{n + 1}.bias", _same(f"{block}LayerNorm_{n}/bias", i)
            yield f"{theirs}mlp.fc{n + 1}.weight", _dense(f"{block}MlpBlock_0/Dense_{n}/kernel", i)
            yield f"{theirs}mlp.fc{n + 1}.bias", _same(f"{block}MlpBlock_0/Dense_{n}/bias", i)
        for name, other, inputs in (("query", "q", 1), ("key", "k", 1), ("value", "v", 1), ("out", "out", 2)):
            leaf, tensor = f"{block}MultiHeadDotProductAttention_0/{name}", f"{theirs}self_attn.{other}_proj"
            yield f"{tensor}.weight", _dense(f"{leaf}/kernel", i, inputs=inputs)
            yield f"{tensor}.bias", _flat(f"{leaf}/bias", i)
    yield f"{_TOWER}post_layernorm.weight", _same(f"{ours}Transformer/encoder_norm/scale")
    yield f"{_TOWER}post_layernorm.bias", _same(f"{ours}Transformer/encoder_norm/bias")
    projector = f"{_PALIGEMMA}model.multi_modal_projector.linear"
    yield f"{projector}.weight", _dense(f"{ours}head/kernel")
    yield f"{projector}.bias", _same(f"{ours}head/bias")


def _drop(leaf: str) -> Place:
    """A leading axis of one that theirs lacks."""
    return Place(leaf, (), lambda x: x[0], lambda y, shape: y.reshape(shape))


def _flat(leaf: str, *index: int) -> Place:
    return Place(leaf, index, lambda x: x.reshape(-1), lambda y, shape: y.reshape(shape))


def _language(config: Config) -> Iterator[tuple[str, Place]]:
    ours = "PaliGemma/llm/"
    yield _TABLES[0], _same(f"{ours}embedder/input_embedding")
    for suffix, theirs in (("", _TRUNK), ("_1", _EXPERT)):
        adaptive = bool(suffix) and config.time_conditioned
        for i in range(config.depth):
            block, tensor = f"{ours}layers/", f"{theirs}layers.{i}."
            yield from _norm(f"{block}pre_attention_norm{suffix}", f"{tensor}input_layernorm", adaptive, i)
            yield from _norm(f"{block}pre_ffw_norm{suffix}", f"{tensor}post_attention_layernorm", adaptive, i)
            attention = f"{block}attn/"
            yield f"{tensor}self_attn.q_proj.weight", _headed(f"{attention}q_einsum{suffix}/w", i)
            yield f"{tensor}self_attn.k_proj.weight", _headed(f"{attention}kv_einsum{suffix}/w", i, 0)
            yield f"{tensor}self_attn.v_proj.weight", _headed(f"{attention}kv_einsum{suffix}/w", i, 1)
            yield f"{tensor}self_attn.o_proj.weight", _dense(f"{attention}attn_vec_einsum{suffix}/w", i, inputs=2)
            yield f"{tensor}mlp.gate_proj.weight", _dense(f"{block}mlp{suffix}/gating_einsum", i, 0)
            yield f"{tensor}mlp.up_proj.weight", _dense(f"{block}mlp{suffix}/gating_einsum", i, 1)
            yield f"{tensor}mlp.down_proj.weight", _dense(f"{block}mlp{suffix}/linear", i)
        yield from _norm(f"{ours}final_norm{suffix}", f"{theirs}norm", adaptive)


def _norm(leaf: str, tensor: str, adaptive: bool, *index: int) -> Iterator[tuple[str, Place]]:
    if adaptive:
        yield f"{tensor}.dense.weight", _dense(f"{leaf}/Dense_0/kernel", *index)
        yield f"{tensor}.dense.bias", _same(f"{leaf}/Dense_0/bias", *index)
    else:
        yield f"{tensor}.weight", _same(f"{leaf}/scale", *index)


def _heads(config: Config) -> Iterator[tuple[str, Place]]:
    time = "time_mlp" if config.time_conditioned else "action_time_mlp"
    state = ("state_proj",) if config.projects_state else ()
    for name in ("action_in_proj", "action_out_proj", f"{time}_in", f"{time}_out", *state):
        yield f"{name}.weight", _dense(f"{name}/kernel")
        yield f"{name}.bias", _same(f"{name}/bias")


def to_torch(tree: Tree, config: Config, prefix: str = "model.") -> dict[str, np.ndarray]:
    """Their tensors, by their names, from our tree."""
    leaves = weights.flat(tree)
    return {
        prefix + name: np.ascontiguousarray(place.turn(np.asarray(leaves[place.leaf])[place.at]))
        for name, place in places(config).items()
    }


def from_torch(tensors: Mapping[str, Any], config: Config, where: object) -> Tree:
    """Our tree, from their tensors; every one must be there and fit.

    Raises:
      BenchError: with all that are missing, unknown or of another shape.
    """
    known = check(tensors, config, where)
    leaves = weights.flat(weights.abstract(config)[1])
    out: dict[str, np.ndarray] = {}
    for name, place in places(config).items():
        tensor = np.asarray(tensors[known[name]])
        leaf = out.setdefault(place.leaf, np.empty(leaves[place.leaf].shape, tensor.dtype))
        leaf[place.at] = place.back(tensor, leaf[place.at].shape)
    return weights.nested(out)


def check(tensors: Mapping[str, Any], config: Config, where: object) -> dict[str, str]:
    """Today's name to the name in `tensors` of each of a model's; of these only the shapes are looked at.

    Raises:
      BenchError: as `from_torch`.
    """
    leaves = weights.flat(weights.abstract(config)[1])
    known = {new: name for name in tensors if not _UNUSED.fullmatch(new := _current(name))}
    if _TABLES[1] in known:
        known[_TABLES[0]] = known.pop(_TABLES[1])
    shapes = {}
    for name, place in places(config).items():
        part = np.broadcast_to(np.int8(0), leaves[place.leaf].shape)[place.at]
        shapes[name] = place.turn(part).shape
    account(where, config.name, {new: tuple(tensors[name].shape) for new, name in known.items()}, shapes)
    return known


def _current(name: str) -> str:
    name = name.removeprefix("model.")
    for old, new in _OLD:
        if name.startswith(old):
            return new + name.removeprefix(old)
    return name


def load(path: Path, config: Config) -> Tree:
    """Weights from a safetensors file.

    Raises:
      BenchError: no such file, or tensors that do not fit.
      MissingExtra: safetensors is not installed.
    """
    with _opened(path) as file:
        return from_torch({name: file.get_tensor(name) for name in file.keys()}, config, path)  # noqa: SIM118


def outline(path: Path) -> dict[str, jax.ShapeDtypeStruct]:
    """Their names to shapes and types; nothing else is read.

    Raises:
      As `load`.
    """
    with _opened(path) as file:
        parts = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        return {
            name: jax.ShapeDtypeStruct(tuple(part.get_shape()), _TYPES.get(part.get_dtype(), np.dtype("uint8")))
            for name, part in parts.items()
        }


def save(path: Path, tree: Tree, config: Config) -> None:
    """Writes a safetensors file with LeRobot's names.

    Raises:
      MissingExtra: safetensors is not installed.
    """
    try:
        from safetensors.numpy import save_file
    except ImportError:
        raise MissingExtra(_EXTRA) from None
    save_file(to_torch(tree, config), path, metadata={"format": "pt"})


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError:
        raise MissingExtra(_EXTRA) from None
    try:
        file = safe_open(path, "np")
    except (OSError, SafetensorError) as error:
        raise BenchError(f"{path}: no safetensors file: {error}") from None
    with file:
        yield file
