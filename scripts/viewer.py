"""MuJoCo's viewer for arms that have been run: plays them in real time, and cannot hang where no window can be opened."""

from __future__ import annotations

import sys
import threading
import time
import warnings
from collections.abc import Mapping, Sequence

import mujoco
import mujoco.viewer
import numpy as np

from mjx_bench.observe.lane_model import LaneModel
from mjx_bench.physics.base import Pose
from mjx_bench.task import Scene, Task
from scripts.output import note

# Looks at the work. The viewer's own camera starts there and can be moved.
CAMERA = "agentview"

CLOSING_S = 10.0


def play(task: Task, told: str, reels: Mapping[str, Sequence[Pose]]) -> None:
    """Plays each reel once at the speed that it happened, until its end or until the window is closed.

    Without a window that works it says why, and returns.

    Args:
      task: what the poses are of.
      told: what the policy was told.
      reels: name to one pose a control step.
    """
    if (reason := _no_window()) is not None:
        note(f"no viewer: {reason}")
        return
    lane = LaneModel(task.scene)
    lane.show(next(iter(reels.values()))[0])
    others = threading.enumerate()
    with mujoco.viewer.launch_passive(lane.model, lane.data, show_left_ui=False, show_right_ui=False) as viewer:
        with viewer.lock():
            viewer.opt.geomgroup[:] = lane.groups
            if CAMERA in task.scene.cameras:
                _look(viewer.cam, lane, task.scene)
        viewer.sync()
        for _ in range(2):  # a text waits for the one before it to be drawn, and the first picture takes seconds
            viewer.set_texts((None, None, told, ""))
        for name, reel in reels.items():
            if viewer.is_running():
                note(f"playing the {name} arm")
                _play(viewer, lane, reel, name, task)
    # When the process ends, it takes the window away: from under a thread that still draws, it would be an error.
    for thread in set(threading.enumerate()).difference(others):
        thread.join(CLOSING_S)


def _no_window() -> str | None:
    """Why no window with OpenGL can be opened, None if one can.

    MuJoCo's viewer waits for ever for a window that did not open, so another one is tried first.
    """
    if sys.platform == "darwin":
        return None if mujoco.viewer._MJPYTHON is not None else "on macOS, run it with mjpython in the place of python"
    import glfw

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        opened = None
        if glfw.init():
            glfw.window_hint(glfw.VISIBLE, 0)
            opened = glfw.create_window(64, 64, "mjx-bench", None, None)
            glfw.terminate()
    return None if opened else f"no window could be opened: {said[-1].message if said else 'GLFW does not say why'}"


def _look(view: mujoco.MjvCamera, lane: LaneModel, scene: Scene) -> None:
    """Puts a camera that can be moved where `CAMERA` is."""
    camera = lane.data.camera(CAMERA)
    ahead = -camera.xmat.reshape(3, 3)[:, 2]
    # The median, since removed objects wait far away.
    work = np.median([lane.data.body(scene.entities[name].body).xpos for name in scene.objects], axis=0)
    view.type = mujoco.mjtCamera.mjCAMERA_FREE
    view.distance = float(ahead @ (work - camera.xpos))
    view.lookat[:] = camera.xpos + view.distance * ahead
    view.azimuth, view.elevation = np.rad2deg([np.arctan2(ahead[1], ahead[0]), np.arcsin(ahead[2])])


def _play(viewer: mujoco.viewer.Handle, lane: LaneModel, reel: Sequence[Pose], name: str, task: Task) -> None:
    started, shown = time.monotonic(), -1
    while viewer.is_running() and shown < len(reel) - 1:
        # By the clock: a renderer that is too slow shows fewer steps, and not slower motion.
        step = min(int((time.monotonic() - started) * task.control_hz), len(reel) - 1)
        if step > shown:
            with viewer.lock():
                lane.show(reel[step])
            viewer.set_texts((None, None, f"{name} arm", f"step {max(0, reel[step].steps - task.settle_steps)}"))
            viewer.sync()
            shown = step
        time.sleep(max(0.0, started + (shown + 1) / task.control_hz - time.monotonic()))
