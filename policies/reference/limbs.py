"""Kinematics of a robot with two arms on a base: where its hands are, and postures that put them somewhere."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np

from mjx_bench.task import Robot, Task

if TYPE_CHECKING:
    import mujoco

SIDES = ("left", "right")
ARMS = {"left": slice(0, 7), "right": slice(7, 14)}
LIFT, WAIST = 14, 15
JOINTS = 18  # arms, lift, waist and head; then come both grippers and the base

_ITERATIONS, _DAMPING, _TURN, _REST, _MOST = 60, 2e-3, 0.35, 0.02, 0.25
_CLEAR = 0.04  # radians before a stop
# How freely a joint is used: arms, lift, waist.
_FREEDOM = np.array([1.0] * 7 + [0.4, 0.35])


class Limbs:
    """One scene's robot. Not for use by two threads at once."""

    def __init__(self, model: mujoco.MjModel, robot: Robot) -> None:
        import mujoco

        self.model = model
        self.data = mujoco.MjData(model)
        joints = [self.model.joint(name) for name in robot.arm_joints]
        self.qpos = np.array([j.qposadr[0] for j in joints])
        self.dof = np.array([j.dofadr[0] for j in joints])
        # A servo that pushes against a stop never arrives.
        self.range = np.array([j.range for j in joints]) + np.array([_CLEAR, -_CLEAR])
        self.site = {side: self.model.site(f"{side}_tcp").id for side in SIDES}

    def place(self, joints: np.ndarray, base: np.ndarray) -> None:
        """Puts the robot into a posture [18] on a base at [3] x, y and yaw."""
        import mujoco

        self.data.qpos[self.qpos[:JOINTS]] = joints
        self.data.qpos[self.qpos[-3:]] = base
        mujoco.mj_kinematics(self.model, self.data)

    def hand(self, side: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """[3] grasp point, [3] direction in which the hand points, [3] direction in which its pads move; world."""
        mat = self.data.site_xmat[self.site[side]].reshape(3, 3)
        return self.data.site_xpos[self.site[side]].copy(), (1.0 if side == "left" else -1.0) * mat[:, 1], mat[:, 0]

    def reach(
        self,
        side: str,
        start: np.ndarray,
        base: np.ndarray,
        point: np.ndarray,
        ahead: np.ndarray,
        across: np.ndarray | None,
        rest: np.ndarray,
        torso: bool = True,
    ) -> tuple[np.ndarray, float]:
        """A posture [18] that brings a hand to a point: damped least squares, near to `rest` [18] where it is free.

        Args:
          side: which hand.
          start: [18] where to begin.
          base: [3] x, y and yaw.
          point: [3] for the grasp point, world.
          ahead: [3] unit vector along which the hand is to point.
          across: [3] along which its pads are to move, either way; None if that does not matter.
          rest: [18].
          torso: lift and waist may be used.

        Returns:
          The posture, and metres by which it misses.
        """
        import mujoco

        columns = [*range(ARMS[side].start, ARMS[side].stop), LIFT, WAIST]
        freedom = _FREEDOM if torso else np.where(np.arange(9) < 7, _FREEDOM, 0.0)
        q, dof = start.copy(), self.dof[columns]
        low, high = self.range[columns].T
        pos, rot = np.zeros((3, self.model.nv)), np.zeros((3, self.model.nv))
        miss = np.inf
        for _ in range(_ITERATIONS):
            self.place(q, base)
            mujoco.mj_comPos(self.model, self.data)
            here, points, slides = self.hand(side)
            mujoco.mj_jacSite(self.model, self.data, pos, rot, self.site[side])
            turn = np.cross(points, ahead) + (1.0 - points @ ahead > 1.0) * 0.5 * slides
            if across is not None:
                turn = turn + np.cross(slides, across * np.sign(slides @ across or 1.0)) @ np.outer(points, points)
            off = point - here
            miss = float(np.linalg.norm(off))
            error = np.concatenate([np.clip(off, -0.15, 0.15), _TURN * turn])
            jac = np.concatenate([pos[:, dof], _TURN * rot[:, dof]]) * freedom
            inverse = jac.T @ np.linalg.inv(jac @ jac.T + _DAMPING * np.eye(6))
            step = inverse @ error
            pull = _REST * (rest[columns] - q[columns]) / np.where(freedom > 0, freedom, 1.0) * (freedom > 0)
            step = step + pull - inverse @ (jac @ pull)
            q[columns] = np.clip(q[columns] + freedom * np.clip(step, -_MOST, _MOST), low, high)
            if miss < 5e-4 and np.linalg.norm(turn) < 0.01:
                break
        return q, miss


class Library:
    """The limbs of every scene that was asked for."""

    def __init__(self) -> None:
        self._limbs: dict[str, Limbs] = {}
        self.lock = threading.Lock()

    def limbs(self, task: Task) -> Limbs:
        """Of a task's robot; hold `lock` while they are used."""
        if task.scene.key not in self._limbs:
            self._limbs[task.scene.key] = Limbs(task.scene.load_spec().compile(), task.scene.robot)
        return self._limbs[task.scene.key]
