"""A quadrotor that keeps a ball up with its racket: it meets the ball where, when, how fast and how tilted it must.

Of the ball's parabola, the point where it comes down to the height at which it is to be met and the time until then are
known. The racket's normal n and its speed along n there follow from what the ball's velocity is to become, w, so that its
next arc is as high as wanted and comes down at the home position: with v the ball's velocity before, e the restitution,

    n = (w - v) / |w - v|        speed of the racket along n = |w - v| / (1 + e) + v . n

Until shortly before, the drone flies to a point below the meeting point, its attitude that of the wanted acceleration (T.
Lee, M. Leok and N. H. McClamroch, "Geometric tracking control of a quadrotor UAV on SE(3)", 2010); then it runs up to it at
a constant acceleration. A query's chunk is what this does to MuJoCo's own model of the scene, stepped from what is seen.
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
from policies.reference.turns import matrix

if TYPE_CHECKING:
    import mujoco

HORIZON = 16
G = 9.81

HOME = np.array([4.5, 0.0])  # where arcs are to come down, metres
MEET = 2.2  # height of the ball's middle when it is met, metres
APEX = 4.0  # that arcs are to have
RESTITUTION = 0.8
ABOVE = 0.175  # of the ball's middle above the drone's when they touch: racket and radius
SETTLE = 0.24  # seconds before the meeting from which on the racket is turned to its normal
RUN_UP, FASTEST = 4.0, 1.8  # m/s^2 of the run-up, and m/s that it ends with at most

# Feedback on place and velocity, 1/s^2 and 1/s; on attitude and rates; the most that is asked for, m/s^2.
PLACE, PACE, REACH = 6.0, 4.5, 3.0
RISE, SINK, FALL, LIFT = 60.0, 14.0, -3.5, 6.0  # the same of the height
TURN, SPIN = 130.0, 20.0
YAW_DAMPING = 3.0
STEEPEST = 0.25  # of the normal from the vertical, horizontal part


@dataclasses.dataclass(frozen=True)
class Plant:
    """What the feedback needs of a scene.

    Attributes:
      model: the scene's.
      drone: id of its body.
      allocate: [4, 4] thrusts from total thrust and torques about the drone's axes.
      most: largest thrust of a rotor, newtons.
      substeps: physics steps a control step.
    """

    model: mujoco.MjModel
    drone: int
    allocate: np.ndarray
    most: float
    substeps: int


@dataclasses.dataclass(frozen=True)
class Meeting:
    """Where and when the ball is to be met.

    Attributes:
      wait: seconds until then.
      place: [3] of the drone, metres; pace: its vertical speed, m/s.
      normal: [3] of the racket.
    """

    wait: float
    place: np.ndarray
    pace: float
    normal: np.ndarray


class Juggle:
    """Plans a chunk at each query."""

    def __init__(self) -> None:
        self.spec = PolicySpec("reference.juggle", HORIZON, "rotors")
        self._plants = Plants(_plant_of)

    def init(self, task: Task, seed: int) -> None:
        """The carry of a new episode: nothing."""
        return None

    def act(self, carries: Sequence[Carry], obs: Observation, seeds: np.ndarray) -> tuple[np.ndarray, Sequence[Carry]]:
        """One query; see `mjx_bench.policy.Policy.act`."""
        import mujoco

        plant = self._plants.of(obs.task)
        data = mujoco.MjData(plant.model)
        actions = np.zeros((len(carries), HORIZON, 4), np.float32)
        for lane in range(len(carries)):
            data.qpos, data.qvel, data.ctrl = obs.qpos[lane], obs.qvel[lane], obs.ctrl[lane]
            data.qacc_warmstart = 0.0
            for step in range(HORIZON):
                actions[lane, step] = _feedback(plant, data)
                data.ctrl = quadrotor.after(data.ctrl, actions[lane, step], plant.most)
                mujoco.mj_step(plant.model, data, plant.substeps)
        return actions, carries


def meeting(ball: np.ndarray, velocity: np.ndarray) -> Meeting:
    """Where to meet a ball at `ball` [3] that flies at `velocity` [3].

    One that is below the height at which balls are met, or does not rise to it, is met as soon as may be, where it is then.
    """
    rise = ball[2] - MEET
    under = velocity[2] ** 2 + 2.0 * G * rise
    wait = (velocity[2] + np.sqrt(under)) / G if under > 0.0 else 0.0
    wait = max(wait, 0.0)
    at = ball + wait * velocity - np.array([0.0, 0.0, 0.5 * G * wait**2])
    coming = velocity - np.array([0.0, 0.0, G * wait])
    up = np.sqrt(2.0 * G * max(APEX - at[2], 0.1))
    flight = 2.0 * up / G
    leaving = np.array([*((HOME - at[:2]) / flight), up])
    change = leaving - coming
    size = float(np.linalg.norm(change))
    normal = change / size
    aside = float(np.hypot(normal[0], normal[1]))
    if aside > STEEPEST:
        normal[:2] *= STEEPEST / aside
        normal /= np.linalg.norm(normal)
    pace = size / (1.0 + RESTITUTION) + float(coming @ normal)
    return Meeting(wait, at - ABOVE * normal, pace / float(normal[2]), normal)


def _feedback(plant: Plant, data: mujoco.MjData) -> np.ndarray:
    """[4] actions from the state in `data`."""
    place, velocity, quat, spin = data.qpos[:3], data.qvel[:3], data.qpos[3:7], data.qvel[3:6]
    turn = matrix(quat)
    up = turn[:, 2]
    meet = meeting(data.qpos[7:10], data.qvel[6:9])
    away = meet.place - place
    accelerate = PLACE * away - PACE * velocity
    level = float(np.hypot(accelerate[0], accelerate[1]))
    accelerate[:2] *= min(1.0, REACH / max(level, 1e-9))
    # From rest below the meeting point, up to it and to its speed at a constant acceleration.
    pace = min(meet.pace, FASTEST)
    left = min(meet.wait, pace / RUN_UP)
    height, speed = away[2] - pace * left + 0.5 * RUN_UP * left**2, pace - RUN_UP * left
    forward = RUN_UP if meet.wait < pace / RUN_UP else 0.0
    accelerate[2] = float(np.clip(forward + RISE * height + SINK * (speed - velocity[2]), FALL, LIFT))
    pull = accelerate + np.array([0.0, 0.0, G])
    wanted = pull / np.linalg.norm(pull)
    if meet.wait < SETTLE:
        wanted = meet.normal
    lift = pull[2] / max(up[2], 0.5)
    # About the world's axes: what turns `up` into `wanted`, and damps the spin.
    bend = turn.T @ (TURN * np.cross(up, wanted)) - SPIN * spin
    bend[2] = -YAW_DAMPING * spin[2]
    inertia = plant.model.body_inertia[plant.drone]
    torque = inertia * bend + np.cross(spin, inertia * spin)
    thrusts = _thrusts(plant, float(plant.model.body_mass[plant.drone]) * lift, torque)
    return quadrotor.asking(data.ctrl, thrusts, plant.most)


def _thrusts(plant: Plant, lift: float, torque: np.ndarray) -> np.ndarray:
    """[4] thrusts; where they do not all fit between none and most, the lift gives way before the torque does."""
    turning = plant.allocate[:, 1:] @ torque
    share = plant.allocate[:, 0]
    low, high = float(np.max(-turning / share)), float(np.min((plant.most - turning) / share))
    return np.clip(turning + share * np.clip(lift, min(low, high), max(low, high)), 0.0, plant.most)


def _plant_of(task: Task) -> Plant:
    model = task.scene.load_spec().compile()
    allocate, most = quadrotor.allocation(model, task.scene.robot)
    drone = model.body(task.scene.robot.hand_body).id
    return Plant(model, drone, allocate, most, task.substeps)
