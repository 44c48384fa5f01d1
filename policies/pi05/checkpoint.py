"""A policy as a folder: openpi's layout, and one file of ours that says what the weights alone cannot.

    params/                           orbax item with the single key `params`; EMA weights where training keeps them
    assets/<asset id>/norm_stats.json statistics of the data
    policy.json                       ours: configuration, tokenizer, kind of normalisation
    tokenizer.model                   ours: PaliGemma's, where the model needs it

openpi reads such a folder, and a folder of openpi's is one without the last two. `model.safetensors` in a folder means a
PyTorch checkpoint instead of `params`, with LeRobot's statistics beside it where there are no assets.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np

from mjx_bench.errors import BenchError
from policies.pi05 import configs, lerobot_stats, params_item, statistics, tokenizer, torch_names, weights
from policies.pi05.accounts import account, wanted
from policies.pi05.configs import Config
from policies.pi05.statistics import Statistics
from policies.pi05.tokenizer import Tokenizer
from policies.pi05.weights import Tree

VERSION = 1
PARAMS, ASSETS, NOTE, TOKENIZER, TORCH = "params", "assets", "policy.json", "tokenizer.model", "model.safetensors"
OWN_ASSET = "mjx-bench"
STEPS = "checkpoints"  # of a run of training, with a folder a step


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """Everything that acting needs.

    Attributes:
      config: of the model.
      tree: weights.
      stats: of the data, None if the folder has none.
      words: the tokenizer.
      asset: name of the statistics.
    """

    config: Config
    tree: Tree
    stats: Statistics | None
    words: Tokenizer
    asset: str = OWN_ASSET


def newest(folder: Path) -> Path:
    """The folder itself, or of a run of `mjx-bench train` that of its last checkpoint.

    Raises:
      BenchError: a run without a checkpoint.
    """
    steps = folder / STEPS
    if not steps.is_dir() or (folder / PARAMS).is_dir():
        return folder
    found = [path for path in steps.iterdir() if path.name.isdecimal()]  # one that is being written has another name
    if not found:
        raise BenchError(f"{folder} has no whole checkpoint yet; train on, or name another folder")
    return max(found, key=lambda path: int(path.name))


def check_empty(folder: Path) -> None:
    """Refuses to write into a folder that holds something."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BenchError(f"{folder} is not empty; a checkpoint needs a folder of its own")


def save(folder: Path, checkpoint: Checkpoint) -> None:
    """Writes a checkpoint in openpi's layout.

    Raises:
      BenchError: the folder holds something already, or the tree is not the configuration's.
    """
    check_empty(folder)
    shapes = {name: tuple(leaf.shape) for name, leaf in weights.flat(checkpoint.tree).items()}
    account("the tree to be saved", checkpoint.config.name, shapes, wanted(checkpoint.config))
    params_item.write(folder, PARAMS, checkpoint.tree)
    save_around(folder, checkpoint)


def save_around(folder: Path, checkpoint: Checkpoint) -> None:
    """Writes what belongs to a checkpoint beside its weights, into a folder that is there."""
    if checkpoint.stats is not None:
        statistics.write(folder / ASSETS / checkpoint.asset / "norm_stats.json", checkpoint.stats)
    if checkpoint.config.tokenizer != "small":
        (folder / TOKENIZER).write_bytes(checkpoint.words.model)
    note = {
        "version": VERSION,
        "config": dataclasses.asdict(checkpoint.config),
        "tokenizer_sha256": checkpoint.words.sha256,
        "normalisation": checkpoint.config.normalisation,
        "asset": checkpoint.asset,
    }
    (folder / NOTE).write_text(json.dumps(note, indent=1) + "\n", encoding="utf-8")


@dataclasses.dataclass(frozen=True)
class Around:
    """Everything of a checkpoint but its weights."""

    config: Config
    stats: Statistics | None
    words: Tokenizer
    asset: str


def load(
    folder: Path, *, config: str | None = None, words: Tokenizer | None = None, asset: str | None = None
) -> Checkpoint:
    """Reads a checkpoint: ours, openpi's, or a PyTorch one.

    Args:
      folder: the step's folder, or that of a run, whose newest is taken.
      config: name of the configuration, for a folder that does not say.
      words: the tokenizer, for a folder that has none.
      asset: which statistics, for a folder with several.

    Raises:
      BenchError: no checkpoint, one of another configuration or tokenizer, or with tensors that do not fit: all are listed.
    """
    folder = newest(folder)
    around = look(folder, config=config, words=words, asset=asset)
    if (folder / TORCH).exists():
        tree = torch_names.load(folder / TORCH, around.config)
    else:
        tree = params_item.read(folder / PARAMS, around.config)
    if unsound := [name for name, leaf in weights.flat(tree).items() if not np.isfinite(leaf).all()]:
        raise BenchError(f"{folder}: weights that are not finite: {', '.join(unsound)}")
    return Checkpoint(around.config, tree, around.stats, around.words, around.asset)


def look(
    folder: Path, *, config: str | None = None, words: Tokenizer | None = None, asset: str | None = None
) -> Around:
    """As `load`, without reading the weights."""
    folder = newest(folder)
    if not folder.is_dir():
        raise BenchError(f"{folder} is no folder, and a checkpoint is one")
    if not (folder / TORCH).exists() and not (folder / PARAMS).is_dir():
        raise BenchError(f"{folder} is no checkpoint: it has neither {PARAMS} nor {TORCH}")
    note = _note(folder)
    known = _config_of(folder, note, config)
    if words is None and (folder / TOKENIZER).exists():
        words = tokenizer.load(folder / TOKENIZER)
    words = tokenizer.fitting(known, words)
    if note is not None and note["tokenizer_sha256"] != words.sha256:
        raise BenchError(f"{folder} was made with another tokenizer than {words.name}")
    if note is not None and note["normalisation"] != known.normalisation:
        raise BenchError(
            f"{folder} is normalised by {note['normalisation']}, and {known.name} by {known.normalisation}"
        )
    stats, found = _stats(folder, asset or (note or {}).get("asset"))
    return Around(known, stats, words, found)


def check_tensors(folder: Path, config: Config) -> None:
    """Whether the stored tensors are the model's, each by name and shape; none is read.

    Raises:
      BenchError: with all that do not fit.
    """
    if (folder / TORCH).exists():
        torch_names.check(outline(folder), config, folder / TORCH)
        return
    found = {name: tuple(leaf.shape) for name, leaf in outline(folder).items()}
    account(folder / PARAMS, config.name, found, wanted(config))


def outline(folder: Path) -> dict[str, Any]:
    """Names of the stored tensors, as the file has them, to what has their shapes and types; none is read."""
    if (folder / TORCH).exists():
        return torch_names.outline(folder / TORCH)
    return params_item.outline(folder / PARAMS)


def _note(folder: Path) -> dict[str, Any] | None:
    path = folder / NOTE
    if not path.exists():
        return None
    try:
        note = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BenchError(f"{path}: {error}") from None
    if not isinstance(note, dict):
        raise BenchError(f"{path}: a JSON object is expected, not {type(note).__name__}")
    missing = {"version", "config", "tokenizer_sha256", "normalisation"} - set(note)
    if missing or note["version"] != VERSION:
        raise BenchError(f"{path}: version {note.get('version')!r}, expected {VERSION} with all of its keys")
    return note


def _config_of(folder: Path, note: dict[str, Any] | None, name: str | None) -> Config:
    """The configuration that the folder says, which must be the one that is asked for, if any is."""
    if note is None:
        if name is None:
            raise BenchError(
                f"{folder} does not say which configuration it is of; name one of {', '.join(configs.CONFIGS)}"
            )
        return configs.named(name)
    stored = _read_config(folder, note["config"])
    if name is not None and stored != configs.named(name):
        raise BenchError(f"{folder} is a checkpoint of {stored.name}, not of {name} as it is in this version")
    return stored


def _read_config(folder: Path, fields: dict[str, Any]) -> Config:
    parts = {"vision": configs.Vision, "trunk": configs.Expert, "expert": configs.Expert}
    try:
        found = Config(**{key: parts[key](**value) if key in parts else value for key, value in fields.items()})
        _check_types(found, configs.TINY)
    except (AttributeError, TypeError) as error:
        raise BenchError(f"{folder / NOTE}: not a configuration of this version: {error}") from None
    return found


def _check_types(found: Any, like: Any) -> None:
    """Raises `TypeError` for a field of another type than a known configuration's, or a word that none has."""
    for field in dataclasses.fields(like):
        value, known = getattr(found, field.name), getattr(like, field.name)
        if dataclasses.is_dataclass(known):
            _check_types(value, known)
        elif type(value) is not type(known):
            raise TypeError(f"{field.name} = {value!r}")
    if isinstance(found, Config):
        words = {"dtype": found.dtype, "attention": found.attention, "normalisation": found.normalisation}
        allowed = {"float32", "bfloat16", "xla", "cudnn", "quantile", "zscore"}
        if wrong := [f"{name} = {word!r}" for name, word in words.items() if word not in allowed]:
            raise TypeError(wrong[0])


def _stats(folder: Path, asset: str | None) -> tuple[Statistics | None, str]:
    root = folder / ASSETS
    found = {path.parent.relative_to(root).as_posix(): path for path in sorted(root.rglob("norm_stats.json"))}
    if not found:
        return lerobot_stats.read(folder), asset or OWN_ASSET
    if asset is None and len(found) == 1:
        asset = next(iter(found))
    if asset not in found:
        raise BenchError(f"{folder} has statistics of {', '.join(found)}; name one of them")
    return statistics.read(found[asset]), asset
