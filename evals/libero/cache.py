"""A content-addressed store of built scenes, so that LIBERO and robosuite run once per task and then never again.

```
<root>/libero/blobs/<sha256><ext>          mesh and texture files, stored once however many scenes use them; users' files
<root>/libero/scenes/<key>/scene.xml       MJCF whose file attributes are blob names
<root>/libero/scenes/<key>/scene.json      everything else about the scene, readable
<root>/libero/scenes/<key>/resets/<seed>.json
<root>/libero/scenes/<key>/states.json     drawn initial states, for a task that comes without any
```

A key hashes what a scene is made from (builder version, package versions, task file), so a new version never reads an
old entry. Every file is written beside its place and moved into it: a reader sees all of a file or nothing, and two
processes that build the same scene at once leave one good copy. Nothing is pickled.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mjx_bench.errors import BenchError
from mjx_bench.runtime import CACHE_VARIABLE, cache_root


def digest(data: bytes) -> str:
    """SHA-256 of `data`, 64 hex digits."""
    return hashlib.sha256(data).hexdigest()


def scene_key(builder_version: str, versions: Mapping[str, str], bddl: bytes) -> str:
    """32 hex digits that change with the builder, any package that shapes a scene, or the task file."""
    recipe = {"builder": builder_version, "versions": dict(versions), "bddl": digest(bddl)}
    return digest(json.dumps(recipe, sort_keys=True).encode())[:32]


@dataclasses.dataclass(frozen=True)
class Cache:
    """Paths, reads and atomic writes under one root; holds no open files."""

    root: Path

    @classmethod
    def default(cls) -> Cache:
        return cls(cache_root())

    def require_writable(self) -> None:
        """Raises `BenchError` where nothing can be kept, before time is spent on what should be."""
        try:
            self.blobs.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.blobs):
                pass
        except OSError as error:
            raise BenchError(
                f"{self.root}: no scenes can be kept there ({error.strerror or error}); set {CACHE_VARIABLE} to a folder"
                " that you can write to"
            ) from None

    @property
    def blobs(self) -> Path:
        return self.root / "libero" / "blobs"

    def scene_folder(self, key: str) -> Path:
        return self.root / "libero" / "scenes" / key

    def scene_xml(self, key: str) -> Path:
        return self.scene_folder(key) / "scene.xml"

    def scene_json(self, key: str) -> Path:
        return self.scene_folder(key) / "scene.json"

    def reset_json(self, key: str, seed: int) -> Path:
        return self.scene_folder(key) / "resets" / f"{seed}.json"

    def states_json(self, key: str) -> Path:
        return self.scene_folder(key) / "states.json"

    def start_json(self, key: str, seed: int) -> Path:
        return self.scene_folder(key) / "starts" / f"{seed}.json"

    def put_blob(self, data: bytes, extension: str) -> str:
        """Stores `data` once and returns its blob name, `<sha256><extension>` (MuJoCo picks a decoder by extension)."""
        name = digest(data) + extension.lower()
        path = self.blobs / name
        # A size check is enough to spot a foreign or damaged file: our own writes are atomic.
        if not path.is_file() or path.stat().st_size != len(data):
            write_atomic(path, data)
        return name

    def read_scene(self, key: str) -> dict[str, Any] | None:
        """The scene's description, or None when it, its XML or one of its blobs is not there."""
        scene = _read_json(self.scene_json(key))
        if scene is None or not self.scene_xml(key).is_file():
            return None
        if not all((self.blobs / name).is_file() for name in scene["blobs"]):
            return None
        return scene

    def read_xml(self, key: str, sha256: str) -> str:
        """The scene's MJCF; raises `BenchError` when the file is not the one that was described."""
        path = self.scene_xml(key)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise BenchError(
                f"{path}: cannot read a cached scene ({error}); load the task again to rebuild it"
            ) from error
        if digest(data) != sha256:
            raise BenchError(f"{path}: damaged cache entry; delete {path.parent} and load the task again")
        return data.decode()

    def write_scene(self, key: str, xml: str, scene: Mapping[str, Any]) -> None:
        # The description goes last: its presence is what makes the entry complete.
        write_atomic(self.scene_xml(key), xml.encode())
        write_atomic(self.scene_json(key), _to_json(scene))

    def read_reset(self, key: str, seed: int) -> dict[str, Any] | None:
        return _read_json(self.reset_json(key, seed))

    def write_reset(self, key: str, seed: int, reset: Mapping[str, Any]) -> None:
        write_atomic(self.reset_json(key, seed), _to_json(reset))

    def read_start(self, key: str, seed: int) -> dict[str, Any] | None:
        return _read_json(self.start_json(key, seed))

    def write_start(self, key: str, seed: int, start: Mapping[str, Any]) -> None:
        write_atomic(self.start_json(key, seed), _to_json(start))

    def read_states(self, key: str) -> dict[str, Any] | None:
        return _read_json(self.states_json(key))

    def write_states(self, key: str, states: Mapping[str, Any]) -> None:
        write_atomic(self.states_json(key), _to_json(states))


def write_atomic(path: Path, data: bytes) -> None:
    """Writes a file so that another process sees either the old content or all of the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".tmp-")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        os.chmod(temporary, 0o644)  # mkstemp makes files private; a cache may be shared between users
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _to_json(value: Mapping[str, Any]) -> bytes:
    # Python writes floats so that they read back to the same bits.
    return (json.dumps(value, indent=1, allow_nan=False) + "\n").encode()


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        value: dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise BenchError(
            f"{path}: damaged cache entry ({error}); delete {path.parent} and load the task again"
        ) from error
    return value
