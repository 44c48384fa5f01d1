"""Scenes as MJCF whose mesh and texture files live in a blob folder, and the MuJoCo specs read from them.

MuJoCo is imported inside the functions that need it: listing tasks must not pay for it.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mjx_bench.errors import BenchError

if TYPE_CHECKING:
    import mujoco

# Elements that may read a file; a file attribute elsewhere is refused rather than left pointing at this machine.
_FILE_ELEMENTS = ("mesh", "texture", "hfield", "skin")


def externalise(xml: str, store: Callable[[bytes, str], str]) -> tuple[str, list[str]]:
    """Replaces every file path in a scene by the name that `store(content, extension)` gives its content.

    Args:
      xml: MJCF with absolute paths, as robosuite writes it.
      store: keeps the bytes and returns the blob's name.

    Returns:
      The rewritten MJCF, without asset directories, and the sorted blob names.
    """
    root = ET.fromstring(xml)
    names: dict[str, str] = {}  # path to blob: one texture is often used by several elements
    for element in root.iter():
        for attribute, value in list(element.attrib.items()):
            if not attribute.startswith("file") or not value:
                continue
            path = Path(value)
            if element.tag not in _FILE_ELEMENTS or not path.is_absolute():
                raise BenchError(f"scene element <{element.tag} {attribute}={value!r}>: cannot store this file")
            if value not in names:
                names[value] = store(path.read_bytes(), path.suffix)
            # MuJoCo names an unnamed asset after its file, which is about to change.
            element.attrib.setdefault("name", path.stem)
            element.set(attribute, names[value])
    for compiler in root.iter("compiler"):
        for attribute in ("meshdir", "texturedir", "assetdir", "strippath"):
            compiler.attrib.pop(attribute, None)
    return ET.tostring(root, encoding="unicode"), sorted(set(names.values()))


def textured_spec(xml: str, blobs: Path) -> mujoco.MjSpec:
    """A fresh spec of a rewritten scene, for renderers; compiling it decodes every texture (seconds, ~250 MB)."""
    import mujoco

    spec = mujoco.MjSpec.from_string(xml)
    spec.meshdir = spec.texturedir = str(blobs)
    return spec


def untextured_spec(xml: str, blobs: Path) -> mujoco.MjSpec:
    """A fresh spec without textures: materials keep their colours, no texture file is read, physics is the same."""
    spec = textured_spec(xml, blobs)
    for texture in list(spec.textures):
        spec.delete(texture)
    for material in spec.materials:
        material.textures = [""] * len(material.textures)
    return spec


def model_differences(expected: mujoco.MjModel, actual: mujoco.MjModel, ignore: Collection[str] = ()) -> list[str]:
    """Names of the numeric model fields that are not bit-equal, leaving out textures and tables of names and paths.

    Options, statistics and visual settings are named `opt.timestep`, `stat.extent`, ...; `ignore` holds names to skip.
    """
    left, right = dict(_fields(expected)), dict(_fields(actual))
    return [
        name
        for name in left.keys() | right.keys()
        if name not in ignore
        and not (name in left and name in right and np.array_equal(left[name], right[name], equal_nan=True))
    ]


def _fields(model: mujoco.MjModel) -> Iterator[tuple[str, np.ndarray]]:
    for name, value in _numeric(model):
        if not _is_bookkeeping(name):
            yield name, value
    for group in ("opt", "stat"):
        for name, value in _numeric(getattr(model, group)):
            yield f"{group}.{name}", value


def _numeric(struct: Any) -> Iterator[tuple[str, np.ndarray]]:
    for name in dir(struct):
        if name.startswith("_"):
            continue
        value = getattr(struct, name)
        if isinstance(value, (int, float, np.ndarray)) and not isinstance(value, bool):
            array = np.asarray(value)
            if array.dtype.kind in "biuf":
                yield name, array


def _is_bookkeeping(name: str) -> bool:
    """Textures, the signature (a hash over all elements), and what moves with the text of names and paths."""
    return (
        name.startswith(("tex_", "name_", "names", "nnames", "ntex", "npaths", "nbuffer", "paths"))
        or name.endswith(("_pathadr", "nameadr"))
        or name in ("mat_texid", "signature")
    )
