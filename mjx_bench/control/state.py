"""What a control law reads and writes: the physics' arrays, and a controller's memory between physics steps."""

from __future__ import annotations

import dataclasses

import numpy as np

from mjx_bench.lane_arrays import LaneArrays
from mjx_bench.task import ControllerReset

Array = np.ndarray


@dataclasses.dataclass(frozen=True)
class Fields:
    """Live [B, ...] arrays over the lanes of an engine, named as in MuJoCo; `ctrl` is a control law's output."""

    qpos: Array
    qvel: Array
    ctrl: Array
    xfrc_applied: Array
    time: Array
    qfrc_bias: Array
    M: Array
    cdof: Array
    subtree_com: Array
    site_xpos: Array
    site_xmat: Array
    xpos: Array
    xquat: Array
    sensordata: Array


@dataclasses.dataclass
class ControllerState(LaneArrays):
    """Controller memory of `B` lanes; every field is written in place by the control law.

    Attributes:
      goal_pos: [B, 3] end-effector position goal, world metres (OSC).
      goal_mat: [B, 3, 3] end-effector orientation goal (OSC); held while no rotation is commanded.
      goal_joint: [B, 7] joint goal, radians (joint position control); of a base that drives, see `mobile`.
      gripper: [B, 2] normalised finger commands in [-1, 1].
      stale: [B] True until the first substep after a restored state: the source's controller has not looked at that state
        yet and computes one torque from what its reset left behind (`ControllerReset`).
      reset_pos, reset_mat, reset_joint, reset_jac, reset_mass: [B, 3], [B, 3, 3], [B, 7], [B, 6, 7], [B, 7, 7] that memory.
    """

    goal_pos: np.ndarray
    goal_mat: np.ndarray
    goal_joint: np.ndarray
    gripper: np.ndarray
    stale: np.ndarray
    reset_pos: np.ndarray
    reset_mat: np.ndarray
    reset_joint: np.ndarray
    reset_jac: np.ndarray
    reset_mass: np.ndarray

    @classmethod
    def zeros(cls, lanes: int) -> ControllerState:
        return cls(
            goal_pos=np.zeros((lanes, 3)),
            goal_mat=np.zeros((lanes, 3, 3)),
            goal_joint=np.zeros((lanes, 7)),
            gripper=np.zeros((lanes, 2)),
            stale=np.ones(lanes, np.bool_),
            reset_pos=np.zeros((lanes, 3)),
            reset_mat=np.zeros((lanes, 3, 3)),
            reset_joint=np.zeros((lanes, 7)),
            reset_jac=np.zeros((lanes, 6, 7)),
            reset_mass=np.zeros((lanes, 7, 7)),
        )

    def load(self, lane: int, reset: ControllerReset) -> None:
        """Puts `lane` in the state that the source's reset leaves: goals at the reset pose, gripper command 0."""
        self.goal_pos[lane] = self.reset_pos[lane] = reset.eef_pos
        self.goal_mat[lane] = self.reset_mat[lane] = reset.eef_mat
        self.goal_joint[lane] = self.reset_joint[lane] = reset.joint_pos
        self.reset_jac[lane] = np.concatenate([reset.jac_pos, reset.jac_rot])
        self.reset_mass[lane] = reset.mass_matrix
        self.gripper[lane] = 0.0
        self.stale[lane] = True
