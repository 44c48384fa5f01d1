"""The arm alone: its linear response at a posture, and a full simulation under OSC_POSE.

Both come from the scene's model stripped to the bare robot (30 kB). The linear response costs about 0.1 ms and predicts a
chunk to a few millimetres, which is enough for an expert that looks again; an expert that never looks again plans on
`ArmPlant`, which stays within 1 mm of the simulator over an episode at about 1 ms a control step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mjx_bench.errors import BenchError
from mjx_bench.task import Task
from policies.scripted.grasp import HALF_TURN
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

_FULL_STROKE_STEPS = 8  # control steps from open to closed: 5 units of [-1, 1] a second, 20 steps a second
_IK_STEPS, _IK_DAMPING = 60, 0.03
_AT_EASE = 0.3  # radians from a joint's stop
_EASY = 0.1  # strain that does not matter
_REACH_PRICE = 10.0  # strain of a metre out of reach
_IK_MARGIN = 0.05  # kept from the joints' stops, radians

_POSTURE_KP = 10.0  # null-space spring, robosuite's value; its damping is critical
_REFRESH = 5  # substeps between fresh inertias: position errors stay below 1 mm, at half the cost


class Arm:
    """The bare robot of a task's scene, read-only after construction.

    Attributes:
      model: the compiled robot.
      substeps: physics steps a control step.
      period: of a control step, seconds.
      shoulder: [3] where the upper arm turns, world metres.
      ranges: [7, 2] of the joints, radians.
      widest: gap that the servos' targets ask for when the gripper is open, metres.
      stroke: metres that the servos' targets move the fingers apart, or together, in a control step.
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
        self.period = task.substeps * float(model.opt.timestep)
        self.site = model.site(robot.eef_site).id
        self.hand_body = model.body(robot.hand_body).id
        self.qpos = [int(model.joint(j).qposadr[0]) for j in robot.arm_joints]
        self.dofs = [int(model.joint(j).dofadr[0]) for j in robot.arm_joints]
        self.fingers = [int(model.joint(j).qposadr[0]) for j in robot.gripper_joints]
        self.limits = np.asarray(robot.torque_limits, float)
        self.ranges = model.jnt_range[[model.joint(j).id for j in robot.arm_joints]].copy()
        targets = model.actuator_ctrlrange[[model.actuator(a).id for a in robot.gripper_actuators]]
        self.widest = float(np.abs(targets).max(1).sum())
        self.stroke = float((targets[:, 1] - targets[:, 0]).sum()) / _FULL_STROKE_STEPS
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

    def reach(self, site: np.ndarray, rot: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, float]:
        """Inverse kinematics by damped least squares.

        Args:
          site: [3] wanted position of the grip site, world metres.
          rot: [3, 3] wanted orientation of the hand.
          start: [7] joints to begin from.

        Returns:
          [7] joints, within their ranges, and what is left of the error: metres plus a tenth of the radians.
        """
        data = self._mj.MjData(self.model)
        low, high = self.ranges[:, 0] + _IK_MARGIN, self.ranges[:, 1] - _IK_MARGIN
        joints = np.clip(start, low, high)
        left = np.inf
        for _ in range(_IK_STEPS):
            data.qpos[self.qpos] = joints
            self._mj.mj_kinematics(self.model, data)
            self._mj.mj_comPos(self.model, data)
            move = site - data.site_xpos[self.site]
            turn = rotation_error(rot, data.xmat[self.hand_body].reshape(3, 3))
            left = float(np.sqrt(move @ move)) + 0.1 * float(np.sqrt(turn @ turn))
            if left < 1e-3:
                break
            error = np.concatenate([move * min(1.0, 0.1 / max(1e-9, float(np.sqrt(move @ move)))), turn * 0.5])
            jac = self.jacobian(data)
            joints = np.clip(
                joints + jac.T @ np.linalg.solve(jac @ jac.T + _IK_DAMPING**2 * np.eye(6), error), low, high
            )
        return joints, left

    def turned(self, view: View, sites: Sequence[np.ndarray], rot: np.ndarray) -> np.ndarray:
        """`rot` [3, 3] or the orientation half a turn from it: the nearer one, unless the other strains the arm less.

        Args:
          view: where the arm is.
          sites: [3] positions of the grip site where it is to be taken, in order.
          rot: a hand orientation.
        """
        near, far = rot, rot @ HALF_TURN
        if _angle(far, view.hand_rot) < _angle(near, view.hand_rot):
            near, far = far, near
        strain = self.strain(view, sites, near)
        return near if strain < _EASY or strain <= self.strain(view, sites, far) else far

    def strain(self, view: View, sites: Sequence[np.ndarray], rot: np.ndarray) -> float:
        """What taking the hand through `sites` in an orientation lacks: reach, and distance from the joints' stops."""
        joints, worst = view.joint_pos, 0.0
        for site in sites:
            joints, left = self.reach(site, rot, joints)
            margin = float(np.minimum(joints - self.ranges[:, 0], self.ranges[:, 1] - joints).min())
            worst = max(worst, _REACH_PRICE * left + max(0.0, _AT_EASE - margin))
        return worst

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
        return response(spread.T @ to_torque, self.substeps, self.model.opt.timestep)


def _angle(a: np.ndarray, b: np.ndarray) -> float:
    turn = rotation_error(a, b)
    return float(np.sqrt(turn @ turn))


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
        self.motion = Motion(np.zeros(3), np.zeros(3), self._data.xmat[arm.hand_body].reshape(3, 3).copy())
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

    def seen(self, view: View) -> View:
        """A view with the arm where it is now."""
        return view.with_hand(self.pos, self.rot, self._data.qpos[self._arm.qpos].copy())

    def _site_rot(self) -> np.ndarray:
        return self._data.site_xmat[self._arm.site].reshape(3, 3).copy()

    def _read(self, held: np.ndarray) -> None:
        data, arm = self._data, self._arm
        twist = arm.jacobian(data) @ data.qvel[arm.dofs]
        self.pos = data.site_xpos[arm.site].copy()
        self.rot = data.xmat[arm.hand_body].reshape(3, 3).copy()
        self.motion = Motion(twist[:3], twist[3:], held)
        self.left = rotation_error(held, self.rot)
        self.response = arm.response(data)
