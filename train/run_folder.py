"""What a run's folder says of itself: its settings and its data, written once, and compared when the run goes on."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mjx_bench.errors import BenchError
from mjx_bench.records.writer import write_whole
from train import configs
from train.configs import Config

SETTINGS = "config.json"


@dataclasses.dataclass(frozen=True)
class Data:
    """What a run is trained on.

    Attributes:
      folders: datasets.
      weights: of each, in any unit; empty for their numbers of frames.
      words: PaliGemma's tokenizer, where the model needs it.
      start: a checkpoint to begin from; None for weights as training starts from them.
    """

    folders: tuple[Path, ...]
    weights: tuple[float, ...] = ()
    words: Path | None = None
    start: Path | None = None


def check(run: Path, config: Config, data: Data) -> None:
    """Leaves alone a folder that is no run's, or of another run.

    Raises:
      BenchError: with what is in the way, or the first setting that differs.
    """
    path = run / SETTINGS
    try:
        begun = path.exists()
    except OSError as error:
        raise _unusable(run, error) from None
    if not begun:
        # A kill in a run's first moments may have left its settings half written, under another name.
        if run.exists() and (not run.is_dir() or any(not p.name.startswith(SETTINGS) for p in run.iterdir())):
            raise BenchError(f"{run} holds something that is no run; choose another --out")
        return
    stored = read(run)
    configs.check_same(stored["config"], config)
    for name, value in _plain(data).items():
        if (before := stored["data"].get(name)) != value:
            raise BenchError(f"{run} was begun with data {name} {before}, not {value}; choose another --out")


@contextmanager
def made(run: Path) -> Iterator[None]:
    """The folder is there while datasets are read; if they are refused, it goes again, unless there is something in it.

    Raises:
      BenchError: it cannot be made, or nothing can be written there.
    """
    new: list[Path] = []
    try:
        new += [folder for folder in (run, *run.parents) if not folder.exists()]
        run.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _remove(new)
        raise _unusable(run, error) from None
    if not os.access(run, os.W_OK | os.X_OK):
        raise BenchError(f"{run} cannot be written to; choose another --out")
    try:
        yield
    except BaseException:
        _remove(new)
        raise


def _remove(folders: list[Path]) -> None:
    with suppress(OSError):  # from the first that is not empty
        for folder in folders:
            folder.rmdir()


def _unusable(run: Path, error: OSError) -> BenchError:
    return BenchError(f"{run}: no run's folder can be made there ({error.strerror}); choose another --out")


def begin(run: Path, config: Config, data: Data) -> None:
    """Makes the folder, with its settings, unless it has them already."""
    run.mkdir(parents=True, exist_ok=True)
    if not (run / SETTINGS).exists():
        kept = {"config": json.loads(configs.to_json(config)), "data": _plain(data)}
        write_whole(run / SETTINGS, json.dumps(kept, indent=1) + "\n")


def read(run: Path) -> dict[str, dict[str, Any]]:
    """`config` and `data` of a run.

    Raises:
      BenchError: they are not there, or no settings.
    """
    path = run / SETTINGS
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        return {"config": dict(stored["config"]), "data": dict(stored["data"])}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BenchError(f"{path}: not the settings of a run: {type(error).__name__}: {error}") from None


def _plain(data: Data) -> dict[str, Any]:
    return {
        "folders": [str(folder.resolve()) for folder in data.folders],
        "weights": list(data.weights),
        "words": None if data.words is None else str(data.words.resolve()),
        "start": None if data.start is None else str(data.start.resolve()),
    }
