"""A quadrotor with a payload on a bar, flown by LQR: the payload goes to its target and stays there.

With p the payload's horizontal offset from the target, d the drone's from the payload, t the horizontal part of the drone's
up axis, M and m the masses of drone and payload, L the bar, and small angles:

    p'' = g d / L        d'' = (1 + m / M) g (t - d / L)        t'' = a

and a, an angular acceleration, is what the rotors are asked for. Both horizontal axes get the same gains, the vertical one
two of its own, and the rotation about the up axis is only damped. A query's chunk is what this feedback does to MuJoCo's own
model of the scene, stepped from what is seen; the pushes that are to come are not known to it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mjx_bench.policy import Carry, Observation, PolicySpec
from mjx_bench.task import Task
from policies.reference import quadrotor
from policies.reference.plants import Plants

if TYPE_CHECKING:
    import mujoco

HORIZON = 16

# LQR weights: payload offset and velocity, bar offset and velocity, tilt and its rate; and of the angular acceleration.
WEIGHTS, EFFORT = (6.0, 2.0, 2.0, 0.5, 1.0, 0.02), 2e-4
REACH = 0.9  # metres: an offset beyond this counts as this
RISE, SINK = 9.0, 4.5  # vertical feedback, 1/s^2 and 1/s
YAW_DAMPING = 2.0  # 1/s
STEEPEST = 0.5  # cosine of the tilt at which thrust is no longer raised to make up for it


@dataclasses.dataclass(frozen=True)
class Plant:
    """What the feedback needs of a scene.

    Attributes:
      model: the scene's.
      gains: [6] of one horizontal axis.
      bodies: ids of the payload and the drone.
      swivel: address of the drone's rotation in qvel.
      allocate: [4, 4] thrusts from total thrust and torques about the drone's axes.
      most: largest thrust of a rotor, newtons.
    """

    model: mujoco.MjModel
    gains: np.ndarray
    bodies: tuple[int, int]
    swivel: int
    allocate: np.ndarray
    most: float


class Hover:
    """Plans a chunk at each query."""

    def __init__(self) -> None:
        self.spec = PolicySpec("reference.hover", HORIZON, "rotors")
        self._plants = Plants(_plant_of)

    def init(self, task: Task, seed: int) -> None:
        """The carry of a new episode: nothing."""
        return None

    def act(self, carries: Sequence[Carry], obs: Observation, seeds: np.ndarray) -> tuple[np.ndarray, Sequence[Carry]]:
        """One query; see `mjx_bench.policy.Policy.act`."""
        import mujoco

        plant = self._plants.of(obs.task)
        data = mujoco.MjData(plant.model)
        target = list(obs.task.scene.entities).index("target")
        actions = np.zeros((len(carries), HORIZON, 4), np.float32)
        for lane in range(len(carries)):
            data.qpos, data.qvel, data.ctrl = obs.qpos[lane], obs.qvel[lane], obs.ctrl[lane]
            data.qacc_warmstart = 0.0
            for step in range(HORIZON):
                mujoco.mj_kinematics(plant.model, data)
                actions[lane, step] = _feedback(plant, data, obs.entity_pos[lane, target])
                data.ctrl = quadrotor.after(data.ctrl, actions[lane, step], plant.most)
                mujoco.mj_step(plant.model, data)
        return actions, carries


def _feedback(plant: Plant, data: mujoco.MjData, target: np.ndarray) -> np.ndarray:
    """[4] actions from the state in `data`, whose kinematics are current."""
    model = plant.model
    payload, drone = plant.bodies
    up = data.xmat[drone].reshape(3, 3)[:, 2]
    turn = data.xmat[drone].reshape(3, 3)
    spin = turn.T @ _spin(plant, data)  # about the drone's axes
    bar = data.xpos[drone] - data.xpos[payload]
    bar_speed = np.cross(_bar_spin(data), bar)
    offset = data.xpos[payload] - target
    offset[:2] *= min(1.0, REACH / max(1e-9, float(np.hypot(*offset[:2]))))
    up_speed = np.cross(turn @ spin, up)
    state = np.stack([offset, data.qvel[:3], bar, bar_speed, up, up_speed])  # [6, 3]
    lean = -plant.gains @ state
    # The angular acceleration that moves the up axis so, and a thrust whose vertical part carries and corrects.
    bend = turn.T @ np.cross(up, [lean[0], lean[1], 0.0])
    bend[2] = -YAW_DAMPING * spin[2]
    mass = float(model.body_mass.sum())
    lift = 9.81 - RISE * offset[2] - SINK * data.qvel[2]
    thrust = mass * lift / max(up[2], STEEPEST)
    torque = model.body_inertia[drone] * bend + np.cross(spin, model.body_inertia[drone] * spin)
    thrusts = np.clip(plant.allocate @ np.array([thrust, *torque]), 0.0, plant.most)
    return quadrotor.asking(data.ctrl, thrusts, plant.most)


def _bar_spin(data: mujoco.MjData) -> np.ndarray:
    """[3] rotation of the payload with its bar, rad/s, world axes."""
    return _rotated(data.qpos[3:7], data.qvel[3:6])


def _spin(plant: Plant, data: mujoco.MjData) -> np.ndarray:
    """[3] rotation of the drone, rad/s, world axes: that of the bar, and the swivel's in the drone's own axes."""
    drone = data.xmat[plant.bodies[1]].reshape(3, 3)
    return _bar_spin(data) + drone @ data.qvel[plant.swivel : plant.swivel + 3]


def _rotated(quat: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """[3] `vector` turned by `quat` wxyz."""
    w, u = quat[0], quat[1:]
    return vector + 2.0 * np.cross(u, np.cross(u, vector) + w * vector)


def _plant_of(task: Task) -> Plant:
    import mujoco

    model = task.scene.load_spec().compile()
    robot = task.scene.robot
    payload, drone = model.body(task.scene.entities["payload"].body).id, model.body(robot.hand_body).id
    allocate, most = quadrotor.allocation(model, robot)
    swivel = int(model.body_dofadr[drone])
    ratio = float(model.body_mass[payload] / model.body_mass[drone])
    gains = _lqr(ratio, float(model.body_pos[drone][2]), model.opt.timestep)
    assert model.jnt_type[model.body_jntadr[drone]] == mujoco.mjtJoint.mjJNT_BALL
    return Plant(model, gains, (payload, drone), swivel, allocate, most)


def _lqr(ratio: float, bar: float, dt: float) -> np.ndarray:
    """[6] gains of one horizontal axis, by iterating the discrete Riccati equation."""
    a, b = np.zeros((6, 6)), np.zeros(6)
    g = 9.81
    a[0, 1] = a[2, 3] = a[4, 5] = 1.0
    a[1, 2] = g / bar
    a[3, 2], a[3, 4] = -(1.0 + ratio) * g / bar, (1.0 + ratio) * g
    b[5] = 1.0
    # Positions move with the new velocities, as MuJoCo integrates them.
    step = np.eye(6) + dt * a
    step[[0, 2, 4]] += dt * dt * a[[1, 3, 5]]
    push = dt * b
    push[4] += dt * dt
    cost = np.diag(WEIGHTS)
    value = cost.copy()
    for _ in range(5000):
        gains = (push @ value @ step) / (EFFORT + push @ value @ push)
        value = cost + step.T @ value @ (step - np.outer(push, gains))
    return gains
