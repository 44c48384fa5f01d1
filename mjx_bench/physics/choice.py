"""Engines by name; nothing of JAX is imported before it is asked for."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import sys
from collections.abc import Callable, Iterable
from typing import Any

from mjx_bench.errors import BenchError, MissingExtra, broken, unknown_name
from mjx_bench.physics.base import Physics
from mjx_bench.signals import Signals
from mjx_bench.task import Scene

ENGINES = ("c", "jax", "warp")

# Packages whose version can change a bit of what an engine computes.
PACKAGES = {
    "c": ("mujoco", "numpy", "numba"),
    "jax": ("mujoco", "numpy", "mujoco-mjx", "jax", "jaxlib"),
    "warp": ("mujoco", "numpy", "mujoco-mjx", "jax", "jaxlib", "warp-lang"),
}

# Lanes a program on a CPU: of 8, 16, 32 and 64, the fastest a lane, and it leaves the fewest idle.
CPU_TILE = 8
# On an accelerator a program takes about the same time for one lane as for hundreds.
DEVICE_TILE = 256

# Fields of the model that MJX's physics does not depend on: what pictures show, the boxes of MuJoCo's own search for
# collisions, and its note of which frames coincide.
_LOOKS = ("mat_", "light_", "cam_", "tex_")
_SEARCH = ("bvh_aabb", "body_sameframe", "geom_sameframe", "site_sameframe")
POSED = ("body_pos", "body_quat")


def make_physics(
    backend: str,
    scene: Scene,
    touches: tuple[tuple[str, str], ...],
    lanes: int,
    action_mode: str,
    substeps: int,
    *,
    threads: int = 1,
    interval: int = 8,
    fields: Iterable[str] = (),
    success: Callable[[Signals], Any] | None = None,
    tile: int | None = None,
) -> Physics:
    """An engine with `lanes` copies of `scene`.

    Args:
      backend: one of `ENGINES`, or `auto`.
      scene: the scene.
      touches: pairs of names whose contacts are signals.
      lanes: how many; a compiled engine rounds up to whole tiles.
      action_mode: the control law.
      substeps: physics steps a control step.
      threads: that step lanes side by side, on `c`.
      interval: Q, control steps of a chunk at most, for compiled engines.
      fields: of the model that differ between instances (the names that `Task.load_fields` uses), for compiled engines.
      success: the goal on the columns that `compile_scene` lays out, for compiled engines; None where none is judged.
      tile: lanes a program, for compiled engines; None for the platform's own.

    Raises:
      BenchError: an engine that does not exist, or a scene that it cannot simulate.
      MissingExtra: an engine whose package is not installed.
    """
    # Imported late: an engine is chosen, and settings are checked, before a simulator is loaded.
    from mjx_bench.physics.scene import compile_scene

    name, _ = choose(backend)
    if name == "c":
        from mjx_bench.physics.mujoco_c import MujocoC

        return MujocoC(compile_scene(scene, touches), lanes, action_mode, substeps, threads)

    from mjx_bench.physics.compiled import Compiled
    from mjx_bench.physics.mjx_programs import execute_of

    own, kept = split_fields(fields)
    compiled = compile_scene(scene, touches, sensors=name == "warp")
    width = default_tile() if tile is None else tile
    execute = execute_of(name, stepper_of(name), compiled, action_mode, substeps, interval, own, success, width)
    return Compiled(compiled, execute, lanes, success, kept)


def room_in(engine: str, scene: Scene, fields: Iterable[str]) -> dict[str, int]:
    """What a program of a compiled engine has room for, before anything is compiled for it; empty for `c`.

    Args:
      engine: one of `ENGINES`.
      scene: the scene.
      fields: of the model that differ between instances.

    Raises:
      BenchError: a scene that the engine cannot simulate; of `warp`, what it refuses without being asked to make a program.
    """
    if engine == "c":
        return {}
    model = scene.load_spec().compile()
    if engine == "warp":
        from mjx_bench.physics import mjx_warp

        return mjx_warp.buffers(model, mjx_warp.contacts_of(model), default_tile())
    from mjx_bench.physics import mjx_jax

    mjx_jax.refuse(model, split_fields(fields)[0])
    return {"contact slots": mjx_jax.contact_slots(model)}


def stepper_of(engine: str) -> Callable[..., Any]:
    """What makes the physics of a compiled engine, for `mjx_programs.execute_of`."""
    if engine == "warp":
        from mjx_bench.physics.mjx_warp import WarpStepper

        return WarpStepper
    from mjx_bench.physics.mjx_jax import JaxStepper

    return lambda scene, fields, tile: JaxStepper(scene, fields)


def split_fields(fields: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The fields that MJX's physics reads, poses first, and those that are only kept; both sorted."""
    kept = {n for n in fields if n.startswith(_LOOKS) or n.endswith(("_rgba", "_matid")) or n in _SEARCH}
    return (*POSED, *sorted(set(fields) - kept - {*POSED})), tuple(sorted(kept))


def choose(backend: str) -> tuple[str, str]:
    """The engine that `backend` stands for, and why.

    Raises:
      BenchError: an unknown name, or an engine that does not work here.
      MissingExtra: an engine whose extra is not installed, or does not work here.
    """
    if backend == "warp" and (missing := missing_warp()):
        raise MissingExtra(missing)
    if backend == "jax" and (missing := missing_jax()):
        raise BenchError(f"{missing}; or use --backend c")
    if backend in ENGINES:
        return backend, "asked for"
    if backend != "auto":
        raise unknown_name("backend", backend, ("auto", *ENGINES))
    device = platform()
    return automatic(device, has_warp=device == "gpu" and not missing_warp())


def automatic(device: str, *, has_warp: bool) -> tuple[str, str]:
    """The engine for a machine whose JAX runs on `device` (cpu, gpu, tpu), and why."""
    if device == "gpu" and has_warp:
        return "warp", "on a GPU, contacts are found in Warp's kernels; any scene runs"
    if device in ("gpu", "tpu"):
        reason = "Warp does not work here" if device == "gpu" else "Warp does not run on it"
        return "jax", f"on a {device.upper()}, and {reason}; scenes must be of primitives that MJX collides"
    return "c", "on a CPU, MuJoCo's own engine is the fastest and runs any scene"


def platform() -> str:
    """What JAX runs on: cpu, gpu or tpu.

    Raises:
      BenchError: JAX does not work here.
    """
    if "jax" not in sys.modules and not _has_plugins():
        return "cpu"  # known without loading JAX, which the engine `c` does without
    try:
        import jax

        return jax.default_backend()
    except Exception as error:
        raise BenchError(f"{broken('JAX', error)}; mend it, or use --backend c") from None


@functools.cache
def _has_plugins() -> bool:
    """Whether anything is installed through which JAX would find an accelerator."""
    modules = any(importlib.util.find_spec(name) for name in ("jax_plugins", "libtpu"))
    return modules or bool(importlib.metadata.entry_points(group="jax_plugins"))


def tile_of(engine: str) -> int | None:
    """Lanes a program of `engine`; None for one that needs no programs. Bits depend on it."""
    return None if engine == "c" else default_tile()


def default_tile() -> int:
    """Lanes a program, on this machine."""
    return CPU_TILE if platform() == "cpu" else DEVICE_TILE


def missing_jax() -> str:
    """What the engine `jax` lacks here; empty if it can be loaded, which this does."""
    try:
        importlib.import_module("mjx_bench.physics.mjx_jax")
    except Exception as error:  # whatever a broken installation raises
        return f"{broken('engine jax', error)}; install that package again"
    return ""


def missing_warp() -> str:
    """What the engine `warp` lacks here; empty if it can be loaded and started, which this does."""
    if importlib.util.find_spec("warp") is None:
        return "engine warp needs the package warp-lang: pip install -e '.[warp]'"
    from mjx_bench.observe import warp_renderer

    try:
        warp_renderer.platform()
        importlib.import_module("mjx_bench.physics.mjx_warp")
    except BenchError as error:
        return f"engine warp: {error}"
    except Exception as error:
        return f"{broken('engine warp', error)}; install that package again"
    return ""
