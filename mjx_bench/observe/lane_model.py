"""A scene's textured model in the pose and the looks of one lane after another, as every renderer needs it."""

from __future__ import annotations

import mujoco
import numpy as np

from mjx_bench.errors import BenchError
from mjx_bench.observe.looks import FIELDS, Looks, looks_of
from mjx_bench.physics.base import Pose, Visual
from mjx_bench.task import COMPARE, Scene


class LaneModel:
    """The model that pictures are made of; `show` puts one lane into it, and nothing of the lane before remains.

    Not for use by two threads at once.

    Args:
      scene: the scene.
      spec: a fresh spec of it that a renderer has prepared; `scene.load_textured_spec()` if None.

    Attributes:
      model: with textures. `show` writes the fields of `Looks`, `site_rgba`, `body_pos`, `body_quat` and the lane's own.
      data: after `show`, world poses of bodies, geoms, sites, cameras and lights (`geom_xpos`, `cam_xmat`, `light_xdir`,
        ...); nothing else in it is kept up to date.
      groups: bool [mjNGROUP], groups of geoms that cameras see.
    """

    def __init__(self, scene: Scene, spec: mujoco.MjSpec | None = None) -> None:
        if spec is None:
            spec = (scene.load_textured_spec or scene.load_spec)()
        self.model: mujoco.MjModel = spec.compile()
        self.data = mujoco.MjData(self.model)
        self.groups = np.isin(np.arange(mujoco.mjNGROUP), scene.shown_groups)
        self._switches = [
            (self.model.site(s.name).id, self.model.joint(s.joint).qposadr[0], s.test) for s in scene.shown_sites
        ]
        self._alpha = self.model.site_rgba[:, 3].copy()
        self._looks = looks_of(self.model, ())
        self._visual: tuple[Visual, ...] | None = ()  # that made `_looks`
        self._own_fields = False  # whether the lane shown had any
        self._compiled: dict[str, np.ndarray] = {}  # what the fields held that were written to since

    def show(self, pose: Pose) -> Looks:
        """Puts one lane into `model` and `data`, as it is now.

        Returns:
          What its visual edits made of the looks; also written to `model`, in its precision.

        Raises:
          BenchError: a pose of another scene.
        """
        model, data = self.model, self.data
        if pose.qpos.shape != (model.nq,) or pose.body_pos.shape != (model.nbody, 3):
            raise BenchError(
                f"the pose has {pose.qpos.size} coordinates and {len(pose.body_pos)} bodies, the scene {model.nq} and"
                f" {model.nbody}: it belongs to another scene"
            )
        # A tuple of edits never changes, so the same one means the same looks.
        if pose.visual is not self._visual or pose.fields or self._own_fields:
            self._wear(pose)
        data.qpos[:] = pose.qpos
        model.body_pos[:] = pose.body_pos
        model.body_quat[:] = pose.body_quat
        model.site_rgba[:, 3] = 0.0
        for site, qpos, test in self._switches:
            if COMPARE[test.comparison](data.qpos[qpos], test.value):
                model.site_rgba[site, 3] = self._alpha[site]
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)  # cameras and lights may follow a centre of mass
        mujoco.mj_camlight(model, data)
        return self._looks

    def _wear(self, pose: Pose) -> None:
        """Gives the model the lane's own fields and, on top of them, what its visual edits make of the looks."""
        self._visual = None
        for name, value in self._compiled.items():
            getattr(self.model, name)[:] = value
        for name, value in pose.fields.items():
            self._write(name, value)
        looks = looks_of(self.model, pose.visual)
        for name in FIELDS:
            self._write(name, getattr(looks, name))
        self._looks, self._visual, self._own_fields = looks, pose.visual, bool(pose.fields)

    def _write(self, name: str, value: np.ndarray) -> None:
        field = getattr(self.model, name)
        self._compiled.setdefault(name, field.copy())
        field[:] = value
