"""Every test runs as a command would, on the CPU: the environment is set before anything heavy reads it."""

from __future__ import annotations

import os
import sys

from mjx_bench import runtime

os.environ["JAX_PLATFORMS"] = "cpu"
if sys.platform == "linux":
    # robosuite loads an OpenGL library as soon as it is imported; GLFW's comes with MuJoCo, EGL may not be installed.
    os.environ.setdefault("MUJOCO_GL", "glx")
runtime.configure()
