"""Which OpenGL pictures are rendered by here, found by a real trial in a process of its own before a run starts."""

from __future__ import annotations

import ctypes.util
import dataclasses
import functools
import os
import subprocess
import sys

from mjx_bench.errors import BenchError

# What renders without a display, best first: its library, and the Debian package of that.
LIBRARIES = {"egl": ("EGL", "libegl1"), "osmesa": ("OSMesa", "libosmesa6")}

# Values of MUJOCO_GL that leave the choice open.
_OPEN = ("", "enable", "enabled", "on", "true", "1")

_TRIAL_SECONDS = 60

# A broken driver may crash or hang, and PyOpenGL takes one platform a process: hence a process for each trial.
_TRIAL = """
import os, mujoco, mujoco.{name}
context = mujoco.{name}.GLContext(16, 16)
context.make_current()
drawing = mujoco.MjrContext(mujoco.MjSpec().compile(), mujoco.mjtFontScale.mjFONTSCALE_50.value)
assert drawing.offFBO, "no framebuffer to draw into"
from OpenGL import GL
print(*(GL.glGetString(name).decode() for name in (GL.GL_RENDERER, GL.GL_VERSION)), sep=", ", flush=True)
os._exit(0)
"""


@dataclasses.dataclass(frozen=True)
class GlPlatform:
    """An OpenGL that works here.

    Attributes:
      name: a key of `LIBRARIES`.
      device: renderer and version, as OpenGL says them.
      why: why this one.
    """

    name: str
    device: str
    why: str

    def __str__(self) -> str:
        return f"{self.name} on {self.device}"


def find() -> GlPlatform:
    """The platform that `MUJOCO_GL` names, or else the first that works.

    Raises:
      BenchError: none works, with the cause and the package of each.
    """
    return _find(os.environ.get("MUJOCO_GL", "").lower().strip())


@functools.cache
def _find(asked: str) -> GlPlatform:
    if asked in LIBRARIES:
        names: tuple[str, ...] = (asked,)
        why = f"MUJOCO_GL={asked}"
    elif asked in _OPEN:
        names, why = tuple(LIBRARIES), ""
    else:
        raise BenchError(
            f"MUJOCO_GL={asked} renders no pictures off screen; unset it or set it to {' or '.join(LIBRARIES)}"
        )
    failed: list[str] = []
    for name in names:
        device, cause = _try(name)
        if device:
            return GlPlatform(name, device, why or "; ".join([f"{name} works", *failed]))
        failed.append(f"{name} does not work: {cause} (Debian package {LIBRARIES[name][1]})")
    raise BenchError(f"no OpenGL renders pictures here; install one: {'; '.join(failed)}")


def _try(name: str) -> tuple[str, str]:
    """Draws with a platform in another process; returns its device, or the cause of its failure."""
    try:
        trial = subprocess.run(
            [sys.executable, "-c", _TRIAL.format(name=name)],
            capture_output=True,
            text=True,
            timeout=_TRIAL_SECONDS,
            env={**os.environ, "MUJOCO_GL": name},
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "", f"no answer within {_TRIAL_SECONDS} s"
    if trial.returncode == 0:
        return trial.stdout.splitlines()[-1], ""
    library = LIBRARIES[name][0]
    if ctypes.util.find_library(library) is None:
        return "", f"there is no lib{library}"
    said = [line.strip() for line in trial.stderr.splitlines() if line.strip()]
    return "", said[-1].split(". ")[0] if said else f"its trial ended with status {trial.returncode}"
