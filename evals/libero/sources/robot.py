"""LIBERO-Plus's robot initial states: a robot whose nominal pose is another.

Its evaluator restores LIBERO's own initial state afterwards, so the arm starts where it always does. What remains of the
other pose is in the controller: the orientation that it holds until a rotation is commanded, and the posture it prefers.
"""

from __future__ import annotations

import dataclasses
import functools
import re

import numpy as np

from evals.libero.sources.edits import model_of, with_reset
from mjx_bench.task import ControllerReset, Reset, Task

COUNT = 500
# Radians away from the nominal pose, in blocks of a hundred.
SIZES = (0.1, 0.2, 0.3, 0.4, 0.5)
_SEED = 42
_NAME = re.compile(r"view_0_0_100_0_0_initstate_(\d+)")


@functools.cache
def offsets() -> np.ndarray:
    """[500, 7] radians from the nominal pose; number k is row k - 1."""
    rng = np.random.RandomState(_SEED)
    drawn = np.stack([rng.randn(7) for _ in range(COUNT)])
    sizes = np.repeat(SIZES, COUNT // len(SIZES))
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True) * sizes[:, None])


def number_of(name: str) -> int | None:
    """The k of `view_0_0_100_0_0_initstate_<k>`, 1 to 500; None for another name."""
    match = _NAME.fullmatch(name)
    return int(match.group(1)) if match and 1 <= int(match.group(1)) <= COUNT else None


def posed(task: Task, number: int) -> Task:
    """The task with the controller that robot `number`, 1 to 500, leaves at its reset."""

    def reset(old: Reset) -> Reset:
        return dataclasses.replace(
            old, controller=controller_at(task, old.controller.joint_pos + offsets()[number - 1])
        )

    return with_reset(task, reset)


def controller_at(task: Task, joints: np.ndarray) -> ControllerReset:
    """What the arm's controller holds after a reset of the robot in the pose `joints`, [7] radians."""
    import mujoco

    model, robot = model_of(task.scene), task.scene.robot
    data = mujoco.MjData(model)
    arm = [model.joint(name) for name in robot.arm_joints]
    data.qpos[[joint.qposadr[0] for joint in arm]] = joints
    mujoco.mj_forward(model, data)
    site, dofs = model.site(robot.eef_site).id, [joint.dofadr[0] for joint in arm]
    jac_pos, jac_rot, mass = np.zeros((3, model.nv)), np.zeros((3, model.nv)), np.zeros((model.nv, model.nv))
    mujoco.mj_jacSite(model, data, jac_pos, jac_rot, site)
    mujoco.mj_fullM(model, data, mass)
    return ControllerReset(
        eef_pos=data.site_xpos[site].copy(),
        eef_mat=data.site_xmat[site].reshape(3, 3).copy(),
        joint_pos=np.array(joints, np.float64),
        jac_pos=jac_pos[:, dofs],
        jac_rot=jac_rot[:, dofs],
        mass_matrix=mass[np.ix_(dofs, dofs)],
    )
