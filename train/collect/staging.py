"""Where finished episodes wait until all are there: a folder each, which appears whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mjx_bench.errors import BenchError
from mjx_bench.task import Task

FOLDER = ".demonstrations"
PLAN, EPISODE, COLUMNS, FAILED = "plan.json", "episode.json", "columns.npz", "failed.json"


class Staging:
    """The waiting room of a dataset in the making.

    Args:
      out: the dataset's folder.
      plan: what is being made; another plan does not go on with what this one began.

    Raises:
      BenchError: the folder holds something else, or another plan's episodes, or cannot be written.
    """

    def __init__(self, out: Path, plan: Mapping[str, Any]) -> None:
        self._folder = out / FOLDER
        path = self._folder / PLAN
        with writing(out):
            if path.is_file():
                check_plan(out, json.loads(path.read_text()), plan)
            else:
                if out.exists() and (not out.is_dir() or any(p.name != FOLDER for p in out.iterdir())):
                    raise BenchError(f"{out}: is there already and no dataset in the making; give another folder")
                self._folder.mkdir(parents=True, exist_ok=True)
                whole(path, json.dumps(plan, indent=1) + "\n")
            for left in self._folder.glob("*/.*"):
                shutil.rmtree(left, ignore_errors=True)

    def done(self, task: Task) -> dict[int, Path]:
        """Instance to the folder of every episode that is finished, successful or not."""
        return {int(p.name): p for p in sorted((self._folder / task.name).glob("[0-9]*"))}

    @contextlib.contextmanager
    def episode(self, task: Task, instance: int) -> Iterator[Path]:
        """A folder to fill; it counts as finished when all went well, and is gone otherwise."""
        with writing(self._folder):
            home = self._folder / task.name
            home.mkdir(parents=True, exist_ok=True)
            part = Path(tempfile.mkdtemp(prefix=".", dir=home))
            try:
                yield part
                for path in part.iterdir():
                    with path.open("rb") as file:
                        os.fsync(file.fileno())
                part.rename(home / f"{instance:07d}")
            finally:
                shutil.rmtree(part, ignore_errors=True)

    def fail(self, task: Task, instance: int, reason: str) -> None:
        """Notes an instance that the expert did not solve."""
        with self.episode(task, instance) as folder:
            (folder / FAILED).write_text(json.dumps({"instance": instance, "reason": reason}) + "\n")

    def clear(self) -> None:
        """Removes everything."""
        shutil.rmtree(self._folder, ignore_errors=True)


def check_plan(out: Path, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
    """Raises `BenchError` where a folder was begun with other settings."""
    for name, value in ours.items():
        if theirs.get(name) != value:
            raise BenchError(
                f"{out}: was begun with {name.replace('_', ' ')} {_shown(theirs.get(name))}, not {_shown(value)};"
                " give the same, or another folder"
            )


def failure(folder: Path) -> dict[str, Any] | None:
    """What is noted of an instance that was not solved; None for a success."""
    path = folder / FAILED
    return json.loads(path.read_text()) if path.is_file() else None


@contextlib.contextmanager
def writing(out: Path) -> Iterator[None]:
    """Says in a line what cannot be written, a full disk included."""
    try:
        yield
    except OSError as error:
        raise BenchError(
            f"{out}: cannot write: {error.strerror or error}; free space or the path, and give the same command again"
        ) from None


def whole(path: Path, text: str) -> None:
    """Writes a small file that is there whole or not at all."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(text)
    os.replace(part, path)


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
