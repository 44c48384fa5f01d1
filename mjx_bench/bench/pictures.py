"""Pictures a second: the Warp renderer against OpenGL on the same poses, in turns, and what its contexts cost."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import gc
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import mujoco
import numpy as np

from mjx_bench.bench.figures import Spread
from mjx_bench.observe.base import Renderer
from mjx_bench.observe.gl_renderer import GlRenderer
from mjx_bench.observe.warp_renderer import WarpRenderer
from mjx_bench.physics.base import Pose
from mjx_bench.physics.mujoco_c import MujocoC
from mjx_bench.physics.scene import compile_scene
from mjx_bench.task import Robot, Scene, Task

# Lanes of the tiles whose difference in memory is that of a lane.
_FEW, _MANY = 1, 33

# A table top without meshes: twelve bodies that poses scatter over a textured floor, seen from a corner and from above.
_SHAPES = (
    "box .05 .04 .03",
    "sphere .04",
    "capsule .02 .05",
    "ellipsoid .05 .03 .04",
    "cylinder .03 .05",
    "box .02 .02 .1",
)
_PRIMITIVES = """
<mujoco>
  <asset>
    <texture name="floor" type="2d" builtin="checker" rgb1=".8 .7 .6" rgb2=".4 .3 .3" width="256" height="256"/>
    <material name="floor" texture="floor" texrepeat="4 4" texuniform="true"/>
  </asset>
  <worldbody>
    <camera name="corner" pos=".8 -.8 .8" xyaxes=".7 .7 0 -.4 .4 .8" fovy="45"/>
    <camera name="above" pos="0 0 1" fovy="60"/>
    <light pos="1 -1 3" dir="-.3 .3 -1" castshadow="false"/>
    <light pos="-1 1 3" dir=".3 -.3 -1" castshadow="false" diffuse=".4 .4 .4"/>
    <geom type="plane" size="1 1 .1" material="floor"/>
    {bodies}
  </worldbody>
</mujoco>
"""


def primitive_scene() -> Scene:
    """A small scene of primitives."""
    bodies = []
    for i in range(2 * len(_SHAPES)):
        kind, _, size = _SHAPES[i % len(_SHAPES)].partition(" ")
        color = f"{0.2 + 0.06 * i:.2f} {0.9 - 0.06 * i:.2f} .4 1"
        bodies.append(f'<body><freejoint/><geom type="{kind}" size="{size}" rgba="{color}"/></body>')
    xml = _PRIMITIVES.format(bodies="\n    ".join(bodies))
    robot = Robot((), (), (), (), "", "", ((), ()), ((), ()))
    spec = lambda: mujoco.MjSpec.from_string(xml)  # noqa: E731
    return Scene("bench-primitives", {}, {}, (), robot, ("corner", "above"), spec, observed=("corner", "above"))


def primitive_poses(scene: Scene, lanes: int) -> list[Pose]:
    """Its bodies where a generator put them, another way in each lane."""
    model = scene.load_spec().compile()
    rng = np.random.default_rng(0)
    poses = []
    for _ in range(lanes):
        rows = np.concatenate([rng.uniform(-0.4, 0.4, (model.nq // 7, 7))])
        rows[:, 2] = rng.uniform(0.05, 0.2, len(rows))
        rows[:, 3:] /= np.linalg.norm(rows[:, 3:], axis=1, keepdims=True)
        poses.append(Pose(rows.ravel(), model.body_pos.copy(), model.body_quat.copy()))
    return poses


def task_poses(task: Task, lanes: int, seed: int) -> list[Pose]:
    """A task's initial states, one after another; the first again after the last."""
    physics = MujocoC(compile_scene(task.scene, ()), 1, "osc_pose", task.substeps)
    states, reset = task.load_init_states(), task.load_reset(seed)
    poses = []
    for lane in range(lanes):
        index = lane % len(states)
        physics.load(0, states[index], reset, task.fields_of(index))
        poses += physics.poses(np.zeros(1, np.int32))
    physics.close()
    return poses


@dataclasses.dataclass(frozen=True)
class PictureFigures:
    """What `measure` found.

    Attributes:
      warp, gl: pictures a second.
      ratio: of their speeds, run by run.
      processor_ratio: OpenGL's processor seconds for a picture over Warp's: what the ratio would be if neither waited.
      warp_setup_s, gl_setup_s: making the renderer; Warp's kernels are built or loaded before.
    """

    warp: Spread
    gl: Spread
    ratio: Spread
    processor_ratio: Spread
    warp_setup_s: float
    gl_setup_s: float


def build_kernels() -> float:
    """Seconds until Warp has made its first picture: importing it, and compiling its kernels or finding them compiled."""
    start = time.perf_counter()
    scene = primitive_scene()
    with contextlib.closing(WarpRenderer(scene, scene.cameras, 16, 16)) as renderer:
        renderer.render(primitive_poses(scene, 1))
    return time.perf_counter() - start


def measure(scene: Scene, size: int, poses: Sequence[Pose], repeats: int) -> PictureFigures:
    """Renders `poses` from the scene's observed cameras with either renderer in turns, `repeats` times."""
    cameras = scene.observed
    with contextlib.ExitStack() as stack:
        made: dict[str, Renderer] = {}
        setup = {}
        ways: dict[str, Callable[[], Renderer]] = {
            "warp": lambda: WarpRenderer(scene, cameras, size, size, len(poses)),
            "gl": lambda: GlRenderer(scene, cameras, size, size),
        }
        for name, make in ways.items():
            start = time.perf_counter()
            made[name] = stack.enter_context(contextlib.closing(make()))
            made[name].render(poses[:1])
            setup[name] = time.perf_counter() - start
        wall: dict[str, list[float]] = {name: [] for name in made}
        used: dict[str, list[float]] = {name: [] for name in made}
        for turn in range(repeats):
            for name in made if turn % 2 == 0 else reversed(made):
                start, cpu = time.perf_counter(), time.process_time()
                made[name].render(poses)
                wall[name].append(time.perf_counter() - start)
                used[name].append(time.process_time() - cpu)
    count = len(poses) * len(cameras)
    return PictureFigures(
        Spread.of([count / s for s in wall["warp"]]),
        Spread.of([count / s for s in wall["gl"]]),
        Spread.of([gl / warp for gl, warp in zip(wall["gl"], wall["warp"], strict=True)]),
        Spread.of([gl / warp for gl, warp in zip(used["gl"], used["warp"], strict=True)]),
        round(setup["warp"], 2),
        round(setup["gl"], 2),
    )


def memory(scene: Scene, size: int, pose: Pose) -> dict[str, float]:
    """MiB that stay resident for a scene, for each context of it, and for each further lane of a context.

    On a CPU a renderer has a context of one lane for each processor, on a GPU one of many lanes. This measures the process,
    so it says nothing about a GPU's own memory.
    """
    with contextlib.ExitStack() as stack:
        made = []
        resident = [_resident_mib()]
        for tile in (_FEW, _FEW, _MANY):
            renderer = WarpRenderer(scene, scene.observed, size, size, 1, tile)
            made.append(stack.enter_context(contextlib.closing(renderer)))
            if tile == _FEW:
                renderer.render([pose])
            resident.append(_resident_mib())
    first, second, wide = np.diff(resident)
    return {
        "scene_mib": round(float(first - second), 1),
        "context_mib": round(float(second), 1),
        "lane_mib": round(float(wide - second) / (_MANY - _FEW), 2),
    }


def _resident_mib() -> float:
    """What the process holds, without what its allocator only keeps for later (Linux)."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def summary(found: PictureFigures) -> dict[str, Any]:
    """The figures under the names that the command prints."""
    return {
        "warp_images_per_s": found.warp.median,
        "gl_images_per_s": found.gl.median,
        "ratio": found.ratio.median,
        "ratio_range": [found.ratio.low, found.ratio.high],
        "processor_ratio": found.processor_ratio.median,
        "warp_setup_s": found.warp_setup_s,
        "gl_setup_s": found.gl_setup_s,
    }
