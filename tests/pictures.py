"""For tests of pictures: renderers that are skipped where they do not work, a small scene of known geometry, real worlds."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Sequence

import mujoco
import numpy as np
import pytest

from mjx_bench.changes import Change
from mjx_bench.errors import BenchError
from mjx_bench.events import apply_change
from mjx_bench.observe.base import Renderer
from mjx_bench.observe.choice import choose, make_renderer
from mjx_bench.physics.base import Pose
from mjx_bench.task import Robot, Scene, ShownSite, Threshold
from tests.libero_picture_oracle import CAMERAS
from tests.scenes import SEED, libero_lanes, libero_task, wandering

SIZE = 128  # of a world's pictures
LANE = np.zeros(1, np.int32)

# Share of rays that hit what the picture shows: the rest are pixels on an edge.
AGREEING = 0.99

# A camera at the height of three balls: red in the middle, green half a metre to the right, blue half a metre up. On the
# knob's body sits a geom of a hidden group, a site that never shows and one that shows while the knob is turned.
XML = """
<mujoco>
  <visual><map znear=".01"/></visual>
  <asset>
    <texture name="checks" type="2d" builtin="checker" rgb1=".9 .9 .9" rgb2=".2 .2 .2" width="64" height="64"/>
    <material name="checks" texture="checks" texrepeat="4 4"/>
  </asset>
  <worldbody>
    <camera name="side" pos="0 -2 1" xyaxes="1 0 0 0 0 1" fovy="60"/>
    <camera name="top" pos="0 0 4" fovy="45"/>
    <light name="lamp" pos="0 -2 4" dir="0 .5 -1" castshadow="false"/>
    <body name="red" pos="0 0 1"><freejoint/><geom name="red" size=".1" rgba="1 0 0 1"/></body>
    <body name="green" pos=".5 0 1"><freejoint/><geom name="green" size=".1" rgba="0 1 0 1"/></body>
    <body name="blue" pos="0 0 1.5"><freejoint/><geom name="blue" size=".1" rgba="0 0 1 1"/></body>
    <body name="board" pos="-.6 0 .6"><geom name="board" type="box" size=".2 .02 .2" material="checks"/></body>
    <body name="knob" pos=".6 0 .6">
      <joint name="knob" axis="0 1 0"/>
      <geom name="knob" size=".05" rgba=".5 .5 .5 1"/>
      <geom name="hidden" type="box" size=".15 .15 .15" rgba="1 1 0 1" group="3"/>
      <site name="marker" size=".12" rgba="1 0 1 1"/>
      <site name="glow" size=".08" rgba="0 1 1 1"/>
    </body>
  </worldbody>
</mujoco>
"""

SCENE = Scene(
    key="three-balls",
    entities={},
    regions={},
    placements=(),
    robot=Robot((), (), (), (), "", "", ((), ()), ((), ())),
    cameras=("side", "top"),
    load_spec=lambda: mujoco.MjSpec.from_string(XML),
    shown_sites=(ShownSite("glow", "knob", Threshold(">=", 0.5)),),
)


@contextlib.contextmanager
def renderer(name: str, scene: Scene, cameras: Sequence[str], size: int, lanes: int = 1) -> Iterator[Renderer]:
    """A renderer of square pictures; skips the test where it does not work."""
    try:
        choose(name)
    except (BenchError, ImportError) as error:
        pytest.skip(str(error))
    with contextlib.closing(make_renderer(name, scene, cameras, size, size, lanes)) as made:
        yield made


def balls(**moved: tuple[float, float, float]) -> Pose:
    """The small scene at rest, with some bodies elsewhere, and its knob at `knob` radians."""
    model = SCENE.load_spec().compile()
    qpos = model.qpos0.copy()
    for body, pos in moved.items():
        start = model.jnt_qposadr[model.body(body).jntadr[0]]
        qpos[start : start + np.size(pos)] = pos
    return Pose(qpos, model.body_pos.copy(), model.body_quat.copy())


def pixel_of(point: np.ndarray, pos: np.ndarray, mat: np.ndarray, fovy: float, size: int) -> np.ndarray:
    """Row and column of a point in a square picture, by the pinhole camera's geometry.

    Args:
      point: [3], world metres.
      pos: [3] of the camera; mat: [3, 3] its axes as columns: right, up, backwards.
      fovy: vertical field of view, degrees.
      size: pixels a side.
    """
    right, up, back = np.asarray(mat).reshape(3, 3).T @ (np.asarray(point) - pos)
    focal = size / 2 / np.tan(np.deg2rad(fovy) / 2)
    # The middle of the picture is the corner that its four middle pixels share.
    return np.array([size / 2 - 0.5 + focal * up / back, size / 2 - 0.5 - focal * right / back])


def centre_of(mask: np.ndarray) -> np.ndarray:
    """Mean row and column of the pixels of a mask."""
    assert mask.any(), "nothing to be seen"
    return np.argwhere(mask).mean(0)


def grown(mask: np.ndarray, pixels: int) -> np.ndarray:
    """A mask and what lies within `pixels` rows and columns of it."""
    for axis in (0, 1):
        for _ in range(pixels):
            first, rest = np.split(np.arange(mask.shape[axis]), [1])
            mask = mask | np.take(mask, [*rest, *rest[-1:]], axis) | np.take(mask, [*first, *range(len(rest))], axis)
    return mask


def seen_by_rays(
    model: mujoco.MjModel, groups: Sequence[int], pos: np.ndarray, mat: np.ndarray, fovy: float, size: int, pose: Pose
) -> tuple[np.ndarray, np.ndarray]:
    """What rays through the middles of every other pixel hit, cast by MuJoCo without any renderer.

    Args:
      model: of the scene; not changed.
      groups: of the geoms that stop a ray.
      pos, mat, fovy, size: of the camera, as for `pixel_of`.
      pose: where everything is.

    Returns:
      int32 and float64 [size / 2, size / 2]: the geom, -1 for none, and its depth along the optical axis in metres.
    """
    model = copy.copy(model)
    model.body_pos[:], model.body_quat[:] = pose.body_pos, pose.body_quat
    data = mujoco.MjData(model)
    data.qpos[:] = pose.qpos
    mujoco.mj_forward(model, data)
    right, down = np.meshgrid(*2 * [(np.arange(0, size, 2) + 0.5) / (size / 2) - 1])
    slope = np.tan(np.deg2rad(fovy) / 2)
    axial = np.stack([right * slope, -down * slope, -np.ones_like(right)], -1)
    rays = (axial / np.linalg.norm(axial, axis=-1, keepdims=True)) @ np.asarray(mat).reshape(3, 3).T
    ids, depth = np.full(right.shape, -1, np.int32), np.full(right.shape, np.inf)
    stopping = np.isin(np.arange(mujoco.mjNGROUP), groups).astype(np.uint8)
    hit = np.empty(1, np.int32)
    # One by one: mj_multiRay (3.17) misses meshes close to the camera.
    for at in np.ndindex(right.shape):
        distance = mujoco.mj_ray(model, data, pos, rays[at], stopping, True, -1, hit)
        if hit[0] >= 0:
            ids[at], depth[at] = hit[0], distance / np.linalg.norm(axial[at])
    return ids, depth


class World:
    """One lane of a real task, its hand over the table, and a renderer."""

    def __init__(self, suite: str, index: int, made) -> None:
        self.task = libero_task(suite, index)
        self.renderer = made
        self.physics = libero_lanes(suite, index, 1)
        self.model = self.physics.scene.model

    def begin(self, *setup: Change) -> None:
        """Restores initial state 0, does what both arms have done to it, and moves the arm for half a second."""
        self.physics.load(0, self.task.load_init_states()[0], self.task.load_reset(SEED))
        for change in setup:
            apply_change(change, self.physics, 0)
        for action in wandering(10, 1, seed=2):
            assert self.physics.control_step(LANE, action) == {}

    @property
    def pose(self) -> Pose:
        return self.physics.poses(LANE)[0]

    def look(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Pictures and masks of geoms now, each [SIZE, SIZE, ...] by camera."""
        pose = [self.pose]
        pictures, masks = self.renderer.render(pose), self.renderer.segmentation(pose)
        return {c: pictures[c][0].astype(int) for c in CAMERAS}, {c: masks[c][0] for c in CAMERAS}

    def change(self, operation: str, **fields):
        """Pictures and masks before and after an event on the lane as `begin` leaves it."""
        self.begin()
        before = self.look()
        apply_change(Change.make(operation, **fields), self.physics, 0)
        return *before, *self.look()

    def camera(self, name: str) -> tuple[np.ndarray, np.ndarray, float]:
        """World position, axes and vertical field of view of the plain scene's camera now, by MuJoCo itself."""
        model, pose = copy.copy(self.model), self.pose
        model.body_pos[:], model.body_quat[:] = pose.body_pos, pose.body_quat
        data = mujoco.MjData(model)
        data.qpos[:] = pose.qpos
        mujoco.mj_forward(model, data)
        at = data.camera(name)
        return at.xpos.copy(), at.xmat.reshape(3, 3).copy(), float(model.camera(name).fovy[0])

    def assert_seen(self, mask: np.ndarray, pos: np.ndarray, mat: np.ndarray, fovy: float) -> None:
        """The mask of a picture taken now is what rays from a camera there hit."""
        hit, _ = seen_by_rays(self.model, self.task.scene.shown_groups, pos, mat, fovy, SIZE, self.pose)
        assert (hit == mask[::2, ::2]).mean() > AGREEING

    def mask_of(self, masks: np.ndarray, entity: str) -> np.ndarray:
        bodies = self.physics.scene.entity_bodies[self.physics.index.entity(entity)]
        return np.isin(masks, np.flatnonzero(np.isin(self.model.geom_bodyid, bodies)))
