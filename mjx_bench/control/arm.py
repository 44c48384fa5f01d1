"""Where one arm's numbers live in a model's arrays, and the small linear algebra that its control laws share.

Everything here is compiled with Numba and runs lane by lane: a lane's torque has the same bits whatever the batch around
it, which a batched BLAS call does not promise, and the interpreter lock is released while it runs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

import numba
import numpy as np

from mjx_bench.errors import BenchError, unknown_name
from mjx_bench.task import Robot

if TYPE_CHECKING:
    import mujoco

# Joints of the arm that each control law moves.
JOINTS = {"osc_pose": 7, "joint_position": 7, "rotors": 0, "drive": 0, "posture": 0, "bimanual": 23, "mobile_osc": 7}

# Control laws that drive a base besides.
DRIVEN = ("mobile_osc",)

_Law = TypeVar("_Law")


@dataclasses.dataclass(frozen=True)
class BaseIndex:
    """Addresses of a base that drives.

    Attributes:
      qpos: int [3] addresses of x, y and yaw in qpos.
      actuators: int [3] position servos.
      lag: [3] seconds by which a servo that moves at a steady speed is behind its target: damping over stiffness.
      period: of a physics step, seconds.
    """

    qpos: np.ndarray
    actuators: np.ndarray
    lag: np.ndarray
    period: float


@dataclasses.dataclass(frozen=True)
class ArmIndex:
    """Addresses of a 7-joint arm and its two-finger gripper in a compiled model, or of a robot without either.

    Attributes:
      qpos, dof: int [7] addresses of the arm joints in qpos and qvel.
      mass: int [7, 7] positions of the arm's block in the sparse inertia `M` (-1: structurally zero).
      site: id of the end-effector site.
      root: body id whose `subtree_com` is the reference point of the arm's `cdof`.
      actuators: int [7] torque actuators.
      torque_low, torque_high: [7] Nm.
      grip_actuators: int [2] finger position servos.
      grip_bias, grip_scale: [2] finger target = bias + scale * command, metres.
      grip_step: what the command moves by in a substep.
      base: of a robot that drives; None for one that stands.
    """

    qpos: np.ndarray
    dof: np.ndarray
    mass: np.ndarray
    site: int
    root: int
    actuators: np.ndarray
    torque_low: np.ndarray
    torque_high: np.ndarray
    grip_actuators: np.ndarray
    grip_bias: np.ndarray
    grip_scale: np.ndarray
    grip_step: float
    base: BaseIndex | None = None


def index_arm(model: mujoco.MjModel, robot: Robot) -> ArmIndex:
    """Resolves `robot`'s names in `model`.

    Raises:
      BenchError: a name is missing, or no control law is for robots of so many joints.
    """
    try:
        joints = [model.joint(name) for name in robot.arm_joints]
        actuators = [model.actuator(name).id for name in robot.arm_actuators]
        grips = [model.actuator(name).id for name in robot.gripper_actuators]
        site = model.site(robot.eef_site).id
        base = [model.joint(name) for name in robot.base_joints]
        wheels = np.array([model.actuator(name).id for name in robot.base_actuators], np.int64)
    except KeyError as error:
        raise BenchError(f"the scene's model lacks a part of the robot: {error}") from None
    if len(joints) not in JOINTS.values():
        raise BenchError(f"the control laws are for arms of 7 joints; this robot has {len(joints)}")
    dof = np.array([j.dofadr[0] for j in joints], np.int64)
    mass = np.full((len(dof), len(dof)), -1, np.int64)
    for i in range(len(dof)):
        start = model.M_rowadr[dof[i]]
        for k in range(start, start + model.M_rownnz[dof[i]]):
            hit = np.flatnonzero(dof == model.M_colind[k])
            if hit.size:
                mass[i, hit[0]] = mass[hit[0], i] = k
    grip_range = model.actuator_ctrlrange[np.array(grips, np.int64)]
    return ArmIndex(
        qpos=np.array([j.qposadr[0] for j in joints], np.int64),
        dof=dof,
        mass=mass,
        site=site,
        root=int(model.body_rootid[model.site_bodyid[site]]),
        actuators=np.array(actuators, np.int64),
        torque_low=np.array(robot.torque_limits[0], np.float64),
        torque_high=np.array(robot.torque_limits[1], np.float64),
        grip_actuators=np.array(grips, np.int64),
        grip_bias=0.5 * (grip_range[:, 1] + grip_range[:, 0]),
        grip_scale=0.5 * (grip_range[:, 1] - grip_range[:, 0]),
        grip_step=robot.gripper_speed * float(model.opt.timestep),
        base=BaseIndex(
            qpos=np.array([j.qposadr[0] for j in base], np.int64),
            actuators=wheels,
            lag=-model.actuator_biasprm[wheels, 2] / model.actuator_gainprm[wheels, 0],
            period=float(model.opt.timestep),
        )
        if base
        else None,
    )


def law_of(laws: Mapping[str, _Law], action_mode: str, arm: ArmIndex) -> _Law:
    """The law by name.

    Raises:
      BenchError: there is none, or it is for other robots.
    """
    if action_mode not in laws:
        raise unknown_name("action mode", action_mode, laws)
    if arm.dof.size != JOINTS[action_mode]:
        raise BenchError(
            f"action mode {action_mode!r} moves an arm of {JOINTS[action_mode]} joints; this robot has {arm.dof.size}"
        )
    if action_mode in DRIVEN and arm.base is None:
        raise BenchError(f"action mode {action_mode!r} drives a base, and this robot's is fixed")
    return laws[action_mode]


@numba.njit(cache=True, nogil=True, inline="always")
def cholesky(a: np.ndarray, low: np.ndarray) -> None:
    """Lower factor of the symmetric [n, n] `a` into `low`.

    A pivot that is not positive belongs to a direction in which the arm cannot act (a singular pose). Its column is zeroed
    and `solve_*` gives that direction no effort, as a pseudo-inverse would, instead of NaN.
    """
    n = a.shape[0]
    for j in range(n):
        s = a[j, j]
        for k in range(j):
            s -= low[j, k] * low[j, k]
        ok = s > 1e-14 * a[j, j]
        low[j, j] = np.sqrt(s) if ok else 0.0
        for i in range(j + 1, n):
            t = a[i, j]
            for k in range(j):
                t -= low[i, k] * low[j, k]
            low[i, j] = t / low[j, j] if ok else 0.0


@numba.njit(cache=True, nogil=True, inline="always")
def solve_lower(low: np.ndarray, x: np.ndarray) -> None:
    """x <- L^-1 x in place, for the factor that `cholesky` left."""
    n = low.shape[0]
    for i in range(n):
        t = x[i]
        for k in range(i):
            t -= low[i, k] * x[k]
        x[i] = t / low[i, i] if low[i, i] > 0.0 else 0.0


@numba.njit(cache=True, nogil=True, inline="always")
def solve_lower_transposed(low: np.ndarray, x: np.ndarray) -> None:
    """x <- L^-T x in place."""
    n = low.shape[0]
    for i in range(n - 1, -1, -1):
        t = x[i]
        for k in range(i + 1, n):
            t -= low[k, i] * x[k]
        x[i] = t / low[i, i] if low[i, i] > 0.0 else 0.0


@numba.njit(cache=True, nogil=True, inline="always")
def drive_gripper(
    action: float,
    step: float,
    command: np.ndarray,
    ctrl: np.ndarray,
    actuators: np.ndarray,
    bias: np.ndarray,
    scale: np.ndarray,
) -> None:
    """Moves one lane's finger commands by the sign of `action` (+1 closes, -1 opens, 0 holds) and writes the servos."""
    direction = np.sign(action)
    command[0] = min(max(command[0] - step * direction, -1.0), 1.0)
    command[1] = min(max(command[1] + step * direction, -1.0), 1.0)
    for f in range(2):
        ctrl[actuators[f]] = bias[f] + scale[f] * command[f]
