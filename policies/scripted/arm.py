"""The arm alone: its linear response at a posture, and a full simulation under OSC_POSE.

Both come from the scene's model stripped to the bare robot (30 kB). The linear response costs about 0.1 ms and predicts a
chunk to a few millimetres, which is enough for an expert that looks again; an expert that never looks again plans on
`ArmPlant`, which stays within 1 mm of the simulator over an episode at about 1 ms a control step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mjx_bench.errors import BenchError
from mjx_bench.task import Task
from policies.scripted.motion import (
    KD,
    KP,
    ROTATION_SCALE,
    TRANSLATION_SCALE,
    Motion,
    Response,
    response,
    rotation,
    rotation_error,
)
from policies.scripted.view import View

if TYPE_CHECKING:
    import mujoco

# The Panda's wrist centre with the hand pointing down: above the grip site, and this much nearer to the base.
_WRIST_ABOVE, _WRIST_OFFSET = 0.204, 0.088
# From shoulder to wrist, metres. At 0.719 upper arm and forearm are in line; an arm that is pulled through that pose comes
# out with its elbow bent the other way, close to the joint's stop, and cannot be led back. Near it the hand tilts.
_COMFORT, _STRETCH = 0.695, 0.71

_POSTURE_KP = 10.0  # null-space spring, robosuite's value; its damping is critical
_REFRESH = 5  # substeps between fresh inertias: position errors stay below 1 mm, at half the cost


class Arm:
    """The bare robot of a task's scene, read-only after construction.

    Attributes:
      model: the compiled robot.
      substeps: physics steps a control step.
      shoulder: [3] where the upper arm turns, world metres.
    """

    def __init__(self, task: Task):
        """Compiles the robot without objects, furniture and geometry (its links carry explicit inertias)."""
        import mujoco

        self._mj = mujoco
        robot = task.scene.robot
        spec = task.scene.load_spec()
        root = spec.body(robot.hand_body)
        while root is not None and root.parent is not None and root.parent.name != "world":
            root = root.parent
        if root is None:
            raise BenchError(f"scene {task.scene.key}: hand body {robot.hand_body!r} is not in its model")
        for body in list(spec.worldbody.bodies):
            if body.name != root.name:
                spec.delete(body)
        for group in (spec.sensors, spec.geoms, spec.meshes, spec.cameras, spec.lights):
            for item in list(group):
                spec.delete(item)
        self.model = model = spec.compile()
        self.substeps = task.substeps
        self.site = model.site(robot.eef_site).id
        self.hand = model.body(robot.hand_body).id
        self.qpos = [int(model.joint(j).qposadr[0]) for j in robot.arm_joints]
        self.dofs = [int(model.joint(j).dofadr[0]) for j in robot.arm_joints]
        self.fingers = [int(model.joint(j).qposadr[0]) for j in robot.gripper_joints]
        self.limits = np.asarray(robot.torque_limits, float)
        data = mujoco.MjData(model)
        mujoco.mj_kinematics(model, data)
        self.shoulder = data.xanchor[model.joint(robot.arm_joints[1]).id].copy()

    def overreach(self, site: np.ndarray) -> np.ndarray:
        """How far [G] grip sites [G, 3] lie beyond a comfortable stretch with the hand pointing down, metres; 0 within."""
        d = site - self.shoulder
        across = np.hypot(d[:, 0], d[:, 1]) - _WRIST_OFFSET
        return np.maximum(0.0, np.hypot(across, d[:, 2] + _WRIST_ABOVE) - _COMFORT)

    def ceiling(self, site: np.ndarray) -> float:
        """The highest that the hand can be led over a point [3] without overstretching; the point's own height at least."""
        across = float(np.hypot(*(site - self.shoulder)[:2])) - _WRIST_OFFSET
        rise = np.sqrt(max(0.0, _STRETCH**2 - across**2)) if across < _STRETCH else -np.inf
        return max(float(site[2]), float(self.shoulder[2] + rise - _WRIST_ABOVE))

    def place(self, data: mujoco.MjData, view: View) -> None:
        """Puts the robot of `data` (made for `model`) where the observation has it, at rest, with what `decouple` reads."""
        data.qpos[self.qpos] = view.joint_pos
        data.qpos[self.fingers] = 0.5 * view.opening, -0.5 * view.opening
        data.qvel[:] = 0.0
        self._mj.mj_kinematics(self.model, data)
        self._mj.mj_comPos(self.model, data)
        self._mj.mj_crb(self.model, data)

    def jacobian(self, data: mujoco.MjData) -> np.ndarray:
        """[6, 7] of the end effector: linear rows, then angular; world."""
        jac = np.zeros((6, self.model.nv))
        self._mj.mj_jacSite(self.model, data, jac[:3], jac[3:], self.site)
        return jac[:, self.dofs]

    def decouple(self, data: mujoco.MjData) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """What the control law makes of the posture in `data`.

        Returns:
          jac: [6, 7].
          inertia: [7, 7] of the arm.
          spread: [7, 6] joint acceleration from a task-space force, M^-1 J^T.
          to_torque: [7, 6] torque from the task-space acceleration asked for, J^T with each half's own inertia.
        """
        jac = self.jacobian(data)
        full = np.zeros((self.model.nv, self.model.nv))
        self._mj.mj_fullM(self.model, data, full)
        inertia = full[np.ix_(self.dofs, self.dofs)]
        spread = np.linalg.solve(inertia, jac.T)
        mobility = jac @ spread
        to_torque = np.empty((7, 6))
        to_torque[:, :3] = jac[:3].T @ np.linalg.inv(mobility[:3, :3])
        to_torque[:, 3:] = jac[3:].T @ np.linalg.inv(mobility[3:, 3:])
        return jac, inertia, spread, to_torque

    def response(self, data: mujoco.MjData) -> Response:
        """The linear response at the posture in `data`."""
        _, _, spread, to_torque = self.decouple(data)
        return response(spread.T @ to_torque, self.substeps)


class ArmPlant:
    """The bare robot simulated with MuJoCo; a `motion.Plant`."""

    def __init__(self, arm: Arm, view: View):
        """Starts where the observation has the arm, at rest, holding its orientation."""
        import mujoco

        self._mj, self._arm = mujoco, arm
        self._data = mujoco.MjData(arm.model)
        arm.place(self._data, view)
        self._posture = view.joint_pos.copy()
        self._held = self._site_rot()
        self.motion = Motion(np.zeros(3), np.zeros(3), self._data.xmat[arm.hand].reshape(3, 3).copy())
        self._read(self.motion.held)

    def step(self, action: np.ndarray) -> None:
        """See `Plant`; the gripper is ignored."""
        mj, arm, data = self._mj, self._arm, self._data
        move, turn = action[:3] * TRANSLATION_SCALE, action[3:6] * ROTATION_SCALE
        held = self.motion.held
        if turn.any():
            self._held = rotation(turn) @ self._site_rot()
            held = rotation(turn) @ self.rot
        goal = data.site_xpos[arm.site] + move
        for k in range(arm.substeps):
            mj.mj_step1(arm.model, data)
            if k % _REFRESH == 0:
                jac, inertia, spread, to_torque = arm.decouple(data)
                projector = np.eye(7) - spread @ np.linalg.solve(jac @ spread, jac)
                posture = projector.T @ inertia
            velocity = data.qvel[arm.dofs]
            twist = jac @ velocity
            r = self._held @ data.site_xmat[arm.site].reshape(3, 3).T
            sine = 0.5 * np.array([r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1]])  # robosuite's error
            asked = np.concatenate([KP * (goal - data.site_xpos[arm.site]), KP * sine]) - KD * twist
            drift = _POSTURE_KP * (self._posture - data.qpos[arm.qpos]) - 2.0 * np.sqrt(_POSTURE_KP) * velocity
            torque = to_torque @ asked + posture @ drift + data.qfrc_bias[arm.dofs]
            data.qfrc_applied[arm.dofs] = np.minimum(np.maximum(torque, arm.limits[0]), arm.limits[1])
            mj.mj_step2(arm.model, data)
        mj.mj_kinematics(arm.model, data)
        mj.mj_comPos(arm.model, data)
        mj.mj_crb(arm.model, data)
        self._read(held)

    def _site_rot(self) -> np.ndarray:
        return self._data.site_xmat[self._arm.site].reshape(3, 3).copy()

    def _read(self, held: np.ndarray) -> None:
        data, arm = self._data, self._arm
        twist = arm.jacobian(data) @ data.qvel[arm.dofs]
        self.pos = data.site_xpos[arm.site].copy()
        self.rot = data.xmat[arm.hand].reshape(3, 3).copy()
        self.motion = Motion(twist[:3], twist[3:], held)
        self.left = rotation_error(held, self.rot)
        self.response = arm.response(data)
