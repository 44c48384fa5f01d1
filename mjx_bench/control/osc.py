"""Operational-space control of an arm's pose, as robosuite 1.4 runs it for LIBERO (`OSC_POSE`, 7 actions, 20 Hz).

Khatib, "A unified approach for motion and force control of robot manipulators" (1987), with position and orientation
decoupled. At every physics step, with J the end effector's Jacobian, M the arm's inertia, x its position, R its rotation:

    F   = kp (x_goal - x) - kd v              Lambda_p = (Jp M^-1 Jp^T)^-1
    tau = kp e(R_goal, R) - kd w              Lambda_o = (Jo M^-1 Jo^T)^-1
    u   = 10 (q_0 - q) - 2 sqrt(10) qdot      Lambda   = (J M^-1 J^T)^-1
    torque = Jp^T Lambda_p F + Jo^T Lambda_o tau + bias + M u - J^T Lambda J u

e is half the sum of the cross products of matching columns. M u - J^T Lambda J u is the null-space posture torque
N^T M u with N = I - M^-1 J^T Lambda J, written without the inverse of M.
"""

from __future__ import annotations

import numba
import numpy as np

from mjx_bench.control.arm import ArmIndex, cholesky, drive_gripper, solve_lower, solve_lower_transposed
from mjx_bench.control.state import Array, ControllerState, Fields

ACTION_DIM = 7
KP = 150.0
KD = 2.0 * np.sqrt(KP)
POSTURE_KP = 10.0
POSTURE_KD = 2.0 * np.sqrt(POSTURE_KP)
# Metres and radians a control step at full action.
POS_SCALE = 0.05
ROT_SCALE = 0.5


@numba.njit(cache=True, nogil=True)
def _rotate_goal(vec: Array, mat: Array, out: Array) -> None:
    """out <- rotation(vec) @ mat, `vec` an axis-angle vector in radians.

    The rotation goes through a single-precision quaternion because robosuite's does; leaving that out moves the goal by
    up to 1e-7 rad.
    """
    angle = np.sqrt(vec[0] * vec[0] + vec[1] * vec[1] + vec[2] * vec[2])
    s = np.sin(angle / 2.0)
    q = np.empty(4, np.float32)
    q[0] = np.cos(angle / 2.0)
    for k in range(3):
        q[k + 1] = vec[k] / angle * s
    # Single-precision products, summed in double and rounded: what the BLAS behind robosuite's `np.dot` does.
    n = 0.0
    for k in range(4):
        n += np.float64(q[k] * q[k])
    scale = np.sqrt(2.0 / np.float64(np.float32(n)))
    for k in range(4):
        q[k] = np.float32(q[k] * scale)
    p = np.empty((4, 4), np.float32)
    for i in range(4):
        for j in range(4):
            p[i, j] = q[i] * q[j]
    rot = np.empty((3, 3))
    rot[0, 0] = 1.0 - p[2, 2] - p[3, 3]
    rot[0, 1] = p[1, 2] - p[3, 0]
    rot[0, 2] = p[1, 3] + p[2, 0]
    rot[1, 0] = p[1, 2] + p[3, 0]
    rot[1, 1] = 1.0 - p[1, 1] - p[3, 3]
    rot[1, 2] = p[2, 3] - p[1, 0]
    rot[2, 0] = p[1, 3] - p[2, 0]
    rot[2, 1] = p[2, 3] + p[1, 0]
    rot[2, 2] = 1.0 - p[1, 1] - p[2, 2]
    for i in range(3):
        for j in range(3):
            out[i, j] = rot[i, 0] * mat[0, j] + rot[i, 1] * mat[1, j] + rot[i, 2] * mat[2, j]


@numba.njit(cache=True, nogil=True)
def _torques(
    ids: Array, actions: Array, most: float, new_goal: bool,
    qpos: Array, qvel: Array, bias: Array, inertia: Array, cdof: Array, com: Array, site_pos: Array, site_mat: Array,
    ctrl: Array,
    goal_pos: Array, goal_mat: Array, gripper: Array, stale: Array,
    reset_pos: Array, reset_mat: Array, reset_joint: Array, reset_jac: Array, reset_mass: Array,
    qadr: Array, dof: Array, mass_adr: Array, site: int, root: int, act: Array, low: Array, high: Array,
    grip_step: float, grip_act: Array, grip_bias: Array, grip_scale: Array,
) -> None:  # fmt: skip
    jac = np.empty((6, 7))
    mass = np.empty((7, 7))
    chol = np.zeros((7, 7))
    y = np.empty((6, 7))
    lam_inv = np.empty((6, 6))
    lam = np.zeros((6, 6))
    lam3 = np.zeros((3, 3))
    pos = np.empty(3)
    mat = np.empty((3, 3))
    vel = np.empty(6)
    wrench = np.empty(6)
    posture = np.empty(7)
    ju = np.empty(6)
    q = np.empty(7)
    qd = np.empty(7)
    delta = np.empty(6)
    for row in range(ids.shape[0]):
        i = ids[row]
        # 1. What the controller sees of the arm.
        if stale[i]:
            pos[:] = reset_pos[i]
            mat[:] = reset_mat[i]
            jac[:] = reset_jac[i]
            mass[:] = reset_mass[i]
            q[:] = reset_joint[i]
            qd[:] = 0.0
            stale[i] = False
        else:
            pos[:] = site_pos[i, site]
            for r in range(3):
                for c in range(3):
                    mat[r, c] = site_mat[i, site, 3 * r + c]
            for k in range(7):
                d = dof[k]
                q[k] = qpos[i, qadr[k]]
                qd[k] = qvel[i, d]
                rx, ry, rz = cdof[i, d, 0], cdof[i, d, 1], cdof[i, d, 2]
                ox, oy, oz = pos[0] - com[i, root, 0], pos[1] - com[i, root, 1], pos[2] - com[i, root, 2]
                jac[0, k] = cdof[i, d, 3] + ry * oz - rz * oy
                jac[1, k] = cdof[i, d, 4] + rz * ox - rx * oz
                jac[2, k] = cdof[i, d, 5] + rx * oy - ry * ox
                jac[3, k], jac[4, k], jac[5, k] = rx, ry, rz
                for c in range(7):
                    mass[k, c] = inertia[i, mass_adr[k, c]] if mass_adr[k, c] >= 0 else 0.0
        # 2. The goal, once a control step.
        if new_goal:
            for k in range(6):
                scale = POS_SCALE if k < 3 else ROT_SCALE
                delta[k] = min(max(actions[row, k], -most), most) * scale
            if delta[3] != 0.0 or delta[4] != 0.0 or delta[5] != 0.0:
                _rotate_goal(delta[3:], mat, goal_mat[i])
            for k in range(3):
                goal_pos[i, k] = pos[k] + delta[k]
        # 3. Task-space inertias. With M = L L^T and Y = L^-1 J^T, J M^-1 J^T = Y^T Y.
        cholesky(mass, chol)
        for r in range(6):
            y[r] = jac[r]
            solve_lower(chol, y[r])
        for r in range(6):
            for c in range(r + 1):
                s = 0.0
                for k in range(7):
                    s += y[r, k] * y[c, k]
                lam_inv[r, c] = lam_inv[c, r] = s
        # 4. Forces in task space.
        for r in range(6):
            s = 0.0
            for k in range(7):
                s += jac[r, k] * qd[k]
            vel[r] = s
        for k in range(3):
            wrench[k] = KP * (goal_pos[i, k] - pos[k]) - KD * vel[k]
        g = goal_mat[i]
        for k in range(3):
            a, b = (k + 1) % 3, (k + 2) % 3
            e = 0.0
            for c in range(3):
                e += mat[a, c] * g[b, c] - mat[b, c] * g[a, c]
            wrench[3 + k] = KP * 0.5 * e - KD * vel[3 + k]
        for block in range(0, 6, 3):
            cholesky(lam_inv[block : block + 3, block : block + 3], lam3)
            solve_lower(lam3, wrench[block : block + 3])
            solve_lower_transposed(lam3, wrench[block : block + 3])
        # 5. Posture torque in the null space of the pose.
        for k in range(7):
            posture[k] = POSTURE_KP * (reset_joint[i, k] - q[k]) - POSTURE_KD * qd[k]
        for r in range(6):
            s = 0.0
            for k in range(7):
                s += jac[r, k] * posture[k]
            ju[r] = s
        cholesky(lam_inv, lam)
        solve_lower(lam, ju)
        solve_lower_transposed(lam, ju)
        # 6. Torques.
        for k in range(7):
            s = bias[i, dof[k]]
            for r in range(6):
                s += jac[r, k] * (wrench[r] - ju[r])
            for c in range(7):
                s += mass[k, c] * posture[c]
            ctrl[i, act[k]] = min(max(s, low[k]), high[k])
        drive_gripper(actions[row, 6], grip_step, gripper[i], ctrl[i], grip_act, grip_bias, grip_scale)


def osc_pose(
    ids: Array,
    actions: Array,
    new_goal: bool,
    fields: Fields,
    state: ControllerState,
    arm: ArmIndex,
    most: float = 1.0,
) -> None:
    """Writes the actuator commands of the lanes `ids` for one physics step.

    Args:
      ids: int32 [n] lanes.
      actions: float64 [n, 7] policy actions: translation, axis-angle rotation (world axes), gripper.
      new_goal: True at the first physics step of a control step, when the action sets the goals.
      fields: arrays of the physics; `ctrl` is written.
      state: controller memory, written in place.
      arm: addresses of the arm.
      most: what translation and rotation are clipped to, either way.
    """
    _torques(
        ids, actions, most, new_goal,
        fields.qpos, fields.qvel, fields.qfrc_bias, fields.M, fields.cdof, fields.subtree_com,
        fields.site_xpos, fields.site_xmat, fields.ctrl,
        state.goal_pos, state.goal_mat, state.gripper, state.stale,
        state.reset_pos, state.reset_mat, state.reset_joint, state.reset_jac, state.reset_mass,
        arm.qpos, arm.dof, arm.mass, arm.site, arm.root, arm.actuators, arm.torque_low, arm.torque_high,
        arm.grip_step, arm.grip_actuators, arm.grip_bias, arm.grip_scale,
    )  # fmt: skip
