"""Renderers by name; nothing is imported before it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mjx_bench.errors import BenchError, unknown_name
from mjx_bench.observe.base import Renderer
from mjx_bench.policy import PolicySpec
from mjx_bench.task import Scene

RENDERERS = ("gl", "warp")

# Packages besides MuJoCo whose version can change a bit of a picture.
PACKAGES = {"warp": ("mujoco-mjx", "warp-lang", "jax", "jaxlib")}


def choose(name: str) -> tuple[str, str]:
    """The renderer that `name` stands for, and what it runs on; `auto` takes the first of `RENDERERS` that works here.

    Raises:
      BenchError: an unknown name, or a renderer that does not work on this machine, with what is missing.
    """
    if name != "auto":
        return name, _platform(name)
    reasons = []
    for candidate in RENDERERS:
        try:
            return candidate, _platform(candidate)
        except BenchError as error:
            reasons.append(f"{candidate}: {error}")
    raise BenchError("no renderer works here; " + "; ".join(reasons))


def choose_seen(spec: PolicySpec, name: str) -> dict[str, Any]:
    """What a policy sees and who renders it, as a run's settings; `renderer` is None for a policy that sees no pictures.

    Raises:
      BenchError: as `choose`, for a policy that sees pictures.
    """
    renderer, platform = choose(name) if spec.cameras else (None, None)
    return {
        "sees_pictures": bool(spec.cameras),
        "cameras": list(spec.cameras),
        "image_size": spec.image_size if spec.cameras else None,
        "renderer": renderer,
        "renderer_platform": platform,
    }


def _platform(name: str) -> str:
    if name == "gl":
        from mjx_bench.observe import gl_renderer

        return gl_renderer.platform()
    if name == "warp":
        from mjx_bench.observe import warp_renderer

        return warp_renderer.platform()
    raise unknown_name("renderer", name, ("auto", *RENDERERS))


def try_renderer(name: str, scene: Scene, spec: PolicySpec) -> None:
    """Makes a renderer as a run of this policy would, and closes it: what it refuses is known before anything runs.

    Raises:
      BenchError: as `make_renderer`.
    """
    make_renderer(name, scene, spec.cameras, spec.image_size, spec.image_size).close()


def make_renderer(name: str, scene: Scene, cameras: Sequence[str], height: int, width: int, lanes: int = 1) -> Renderer:
    """A renderer of `scene`, to be used and closed by the thread that makes it.

    Args:
      name: one of `RENDERERS`.
      scene: the scene.
      cameras: names, all of the scene.
      height, width: pixels.
      lanes: how many poses a call usually has.

    Raises:
      BenchError: what the scene does not have, or this machine.
    """
    if name == "gl":
        from mjx_bench.observe.gl_renderer import GlRenderer

        return GlRenderer(scene, cameras, height, width)
    if name == "warp":
        from mjx_bench.observe.warp_renderer import WarpRenderer

        return WarpRenderer(scene, cameras, height, width, lanes)
    raise unknown_name("renderer", name, RENDERERS)
