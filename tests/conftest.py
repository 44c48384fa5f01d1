"""Every test runs as a command would, on the CPU: the environment is set before anything heavy reads it."""

from __future__ import annotations

import ctypes.util
import os
import signal
import sys

from mjx_bench import runtime

os.environ["JAX_PLATFORMS"] = "cpu"
# A shell that runs something in the background has it ignore SIGINT, and so would every command that is interrupted here.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if sys.platform == "linux":
    # robosuite loads an OpenGL library as soon as it is imported: one that renders pictures, or else GLFW's, which comes
    # with MuJoCo.
    found = [name for name, library in (("egl", "EGL"), ("osmesa", "OSMesa")) if ctypes.util.find_library(library)]
    os.environ.setdefault("MUJOCO_GL", [*found, "glx"][0])
runtime.configure()
