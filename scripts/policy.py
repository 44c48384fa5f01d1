"""`mjx-bench policy`: what is in a checkpoint, and the ways between openpi's layout and PyTorch's."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro

from mjx_bench.errors import BenchError
from scripts.output import Emit, console

if TYPE_CHECKING:
    from policies.pi05.tokenizer import Tokenizer


@dataclasses.dataclass(frozen=True)
class PolicyFiles:
    """Look at a pi0.5-style checkpoint, or bring one in or out: openpi's folders and LeRobot's model.safetensors."""

    action: tyro.conf.Positional[Literal["import", "export", "show"]]
    """import: any checkpoint to a folder for --policy pi05:OUT; export: to model.safetensors; show: what PATH holds."""
    path: tyro.conf.Positional[Path]
    """Folder of the checkpoint: with params/ or model.safetensors in it."""
    out: Path | None = None
    """New folder, for import and export."""
    config: str | None = None
    """Configuration of the model, where the folder does not say: pi05_libero, pi05_base, pi0_base, ..."""
    tokenizer: Path | None = None
    """PaliGemma's tokenizer, where the folder has none and the model needs it."""
    asset: str | None = None
    """Name of the statistics, where the folder has several."""
    json: bool = False
    """Print JSON instead of text."""


def run(options: PolicyFiles, emit: Emit) -> int:
    """Shows, imports or exports."""
    if (options.out is None) != (options.action == "show"):
        needs = "writes nothing, so it takes no --out" if options.action == "show" else "needs --out, a new folder"
        raise BenchError(f"policy {options.action} {needs}")
    try:
        from policies.pi05 import checkpoint, torch_names
        from policies.pi05.tokenizer import load
        from train import shown
    except ModuleNotFoundError as error:
        from mjx_bench.errors import MissingExtra

        raise MissingExtra(f"this command needs {error.name}: pip install -e '.[pi05]'") from None
    words = None if options.tokenizer is None else load(options.tokenizer)
    if options.out is None:
        found = _facts(options, words)
    else:
        _facts(options, words)  # refuses what is wrong with it before anything is written
        whole = checkpoint.load(options.path, config=options.config, words=words, asset=options.asset)
        try:
            if options.action == "import":
                checkpoint.save(options.out, whole)
            else:
                checkpoint.check_empty(options.out)
                options.out.mkdir(parents=True, exist_ok=True)
                torch_names.save(options.out / checkpoint.TORCH, whole.tree, whole.config)
                checkpoint.save_around(options.out, whole)
            if of := shown.of_checkpoint(checkpoint.newest(options.path)):
                shown.write(options.out, of)
        except OSError as error:
            raise BenchError(
                f"{options.out}: cannot be written: {error.strerror or error}; name another folder"
            ) from None
        found = _facts(dataclasses.replace(options, path=options.out), whole.words)
    emit(found)
    if not options.json:
        for name, value in found.items():
            console().print(f"{name.replace('_', ' ')}: {value}", markup=False, highlight=False)
    return 0


def _facts(options: PolicyFiles, words: Tokenizer | None) -> dict[str, Any]:
    from policies.pi05 import adapters, checkpoint

    folder = checkpoint.newest(options.path)
    around = checkpoint.look(folder, config=options.config, words=words, asset=options.asset)
    checkpoint.check_tensors(folder, around.config)
    leaves = checkpoint.outline(folder).values()
    facts: dict[str, Any] = {
        "checkpoint": str(folder),
        "configuration": around.config.name,
        "horizon": around.config.horizon,
        "robot": around.config.adapter,
        "tensors": len(leaves),
        "parameters": sum(_size(leaf.shape) for leaf in leaves),
        "types": ", ".join(sorted({str(leaf.dtype) for leaf in leaves})),
        "tokenizer": f"{around.words.name} ({around.words.size} tokens)",
        "normalisation": around.config.normalisation,
        "statistics": around.asset if around.stats else "none",
    }
    if around.stats is not None:
        adapter = adapters.named(around.config.adapter)
        for vector, names in (("state", adapter.state), ("actions", adapter.actions)):
            scale = around.stats.scale("state" if vector == "state" else "actions", around.config.normalisation)
            scale.check(f"{options.path}, {vector}", names)
            flat = [name for name, is_flat in zip(names, scale.flat, strict=False) if is_flat]
            facts[f"constant_{vector}"] = ", ".join(flat) or "none"
    return facts


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for side in shape:
        size *= side
    return size
