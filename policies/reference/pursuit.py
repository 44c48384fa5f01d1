"""A car that follows its way by pure pursuit and stops at its end, forwards or backwards (R. C. Coulter, 1992).

Its rear axle steers for the point of the way a little ahead of it: with L the wheelbase, d the distance to that point and a
the angle at which it lies from the direction of travel, the way there bends by 2 sin(a) / d, and the wheels turn by
atan(2 L sin(a) / d), to the other side backwards. A query's chunk is what this does to MuJoCo's own model of the scene,
stepped from what is seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mjx_bench.policy import Carry, Observation, PolicySpec
from mjx_bench.task import Task
from policies.reference.plants import Plants

if TYPE_CHECKING:
    import mujoco

HORIZON = 16
WHEELBASE, REAR = 0.2965, -0.158  # metres: between the axles, and the rear one from the body's origin
SPEED, STEERING, RADIUS = 3.0, 0.488, 0.05  # what an action of 1 asks for: m/s, radians; and the wheels' nominal radius
# Of forwards and backwards: how far ahead it looks, metres, and how fast it goes, m/s.
AHEAD, CRUISE = (0.6, 0.2), (0.9, 0.35)
BRAKE, EASE = 0.8, 1.5  # m/s^2; 1/s, by which speed falls with the distance that is left
ARRIVED = 0.03  # metres before the end of a leg at which the next begins

# A leg: ways [N, 2], and whether backwards.
Leg = tuple[np.ndarray, bool]


class Pursuit:
    """Plans a chunk at each query; the ways are `Task.extra["legs"]`. A carry is the number of the leg."""

    def __init__(self) -> None:
        self.spec = PolicySpec("reference.pursuit", HORIZON, "drive")
        self._models: Plants[mujoco.MjModel] = Plants(lambda task: task.scene.load_spec().compile())

    def init(self, task: Task, seed: int) -> int:
        """The carry of a new episode: the first leg."""
        return 0

    def act(self, carries: Sequence[Carry], obs: Observation, seeds: np.ndarray) -> tuple[np.ndarray, Sequence[Carry]]:
        """One query; see `mjx_bench.policy.Policy.act`."""
        import mujoco

        task, model = obs.task, self._models.of(obs.task)
        data, car = mujoco.MjData(model), model.body(task.scene.robot.hand_body).id
        actuators = [model.actuator(name).id for name in task.scene.robot.arm_actuators]
        low, high = (np.array(limit) for limit in task.scene.robot.torque_limits)
        legs: Sequence[Leg] = task.extra["legs"]
        actions, out = np.zeros((len(carries), HORIZON, 2), np.float32), []
        for lane, carry in enumerate(carries):
            data.qpos, data.qvel, data.ctrl = obs.qpos[lane], obs.qvel[lane], obs.ctrl[lane]
            data.qacc_warmstart = 0.0
            leg = int(carry)
            for step in range(HORIZON):
                mujoco.mj_kinematics(model, data)
                forward = data.xmat[car].reshape(3, 3)[:2, 0]
                axle = data.xpos[car][:2] + REAR * forward
                actions[lane, step], left = _follow(legs[leg], axle, forward)
                if step == 0 and left < ARRIVED and leg + 1 < len(legs):
                    leg += 1
                    actions[lane, step], _ = _follow(legs[leg], axle, forward)
                wanted = np.full(len(actuators), SPEED * actions[lane, step, 0] / RADIUS)
                wanted[:2] = np.tan(STEERING * actions[lane, step, 1])
                data.ctrl[actuators] = np.clip(wanted, low, high)
                mujoco.mj_step(model, data, task.substeps)
            out.append(leg)
        return actions, out


def _follow(leg: Leg, axle: np.ndarray, forward: np.ndarray) -> tuple[np.ndarray, float]:
    """[2] speed and steering for a car with its rear axle at `axle` [2] that points along `forward` [2]; and metres left."""
    path, back = leg
    sign = -1.0 if back else 1.0
    ways = np.diff(path, axis=0)
    lengths = np.hypot(*ways.T)
    share = np.clip(((axle - path[:-1]) * ways).sum(1) / lengths**2, 0.0, 1.0)
    nearest = path[:-1] + share[:, None] * ways
    part = int(np.argmin(((nearest - axle) ** 2).sum(1)))
    starts = np.concatenate([[0.0], np.cumsum(lengths)])
    along = starts[part] + share[part] * lengths[part]
    left = float(starts[-1] - along)
    way = _at(path, ways, lengths, starts, along + AHEAD[back]) - axle
    distance, travel = max(float(np.hypot(*way)), 1e-6), sign * forward
    angle = np.arctan2(travel[0] * way[1] - travel[1] * way[0], travel @ way)
    turn = sign * np.arctan(2.0 * WHEELBASE * np.sin(angle) / distance)
    speed = sign * min(CRUISE[back], np.sqrt(2.0 * BRAKE * left), EASE * left)
    return np.clip([speed / SPEED, np.arctan(turn) / STEERING], -1.0, 1.0), left


def _at(path: np.ndarray, ways: np.ndarray, lengths: np.ndarray, starts: np.ndarray, along: float) -> np.ndarray:
    """[2] the point `along` metres down the way; straight on beyond its end."""
    part = min(int(np.searchsorted(starts, along, side="right")) - 1, len(ways) - 1)
    return path[part] + ways[part] * (along - starts[part]) / lengths[part]
