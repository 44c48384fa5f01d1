"""A quadruped that trots to a goal, steps there on the spot until the last push is over, and stands.

Diagonal legs swing in turn. A foot in the air goes to where it is to come down: half a stance ahead of its hip at the wanted
velocity, and farther by a share of how much faster the trunk moves than that (M. Raibert, "Legged Robots That Balance",
1986). Feet that are down are to carry the trunk, level it, and bring it to the wanted velocity (J. Pratt et al., "Virtual
Model Control", 2001): they push against where the servos hold them, and upwards by the torque that is wanted of a joint over
its servo's stiffness. One that stands holds a posture.

A query's chunk is what this does to MuJoCo's own model of the scene, stepped from what is seen. When pushes come is known,
as the task's contract says it; whence, and that one goes on, is not.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mjx_bench.policy import Carry, Observation, PolicySpec
from mjx_bench.task import Task
from policies.reference.legs import angles, foot, jacobian
from policies.reference.plants import Plants
from policies.reference.turns import matrix, yaw_of

if TYPE_CHECKING:
    import mujoco

HORIZON = 16
G = 9.81

CYCLE, STANCE = 0.44, 0.55  # seconds of a cycle, and the share of it that a foot is down
PHASES = np.array([0.0, 0.5, 0.5, 0.0])  # of front left, front right, rear left, rear right
HEIGHT, LIFT = 0.29, 0.07  # of the trunk above the ground, and of a foot in the air; metres
FASTEST, TURN_FASTEST = 0.45, 0.8  # m/s and rad/s
EASE, TURN_EASE = 2.0, 2.0  # 1/s, by which they fall with what is left
PACE, TURN = 5.0, 3.0  # of the trunk's velocity, 1/s, and its rate of turn, N m s
GRIP = 0.6  # a foot pushes aside by this share of what it carries at most
GIVE = 400.0  # N/m of a foot that pushes, about
CATCH = 0.14  # seconds: how much farther a foot is placed for each m/s that the trunk is too fast
QUIET = 15.4  # seconds from the start, after which no push is to come
ARRIVED, ASTRAY, STILL = 0.08, 0.24, 0.12  # metres from the goal to stand and to step again, and m/s
LEVEL, LEVEL_RATE, BEAR, BEAR_RATE = 40.0, 5.0, 300.0, 40.0  # of the trunk's tilt, N m, and its height, N


class Memory(NamedTuple):
    """A carry.

    Attributes:
      heading: of the trunk at the start, radians; None before the first query.
      begun: step of the first swing; None while all feet stand.
    """

    heading: float | None
    begun: int | None


@dataclasses.dataclass(frozen=True)
class Plant:
    """What the feedback needs of a scene.

    Attributes:
      model: the scene's.
      joints: [12] addresses in qpos of the joints that actions move, in their order; those in qvel are one less.
      middle, half: [12] targets of u = 0, and how much farther those of u = 1 are, radians.
      hips: [4, 3] where legs hang from the trunk; aside: [4] how far to its left their thighs hang from that, metres.
      under: [4, 2] where thighs hang from the trunk.
      links: lengths of thigh and calf, metres.
      stiffness: of the servos, N m.
      mass: kg.
      foot: radius of a foot, metres.
      substeps: physics steps a control step; period: seconds of it.
      stand: [12] actions of one that stands.
    """

    model: mujoco.MjModel
    joints: np.ndarray
    middle: np.ndarray
    half: np.ndarray
    hips: np.ndarray
    aside: np.ndarray
    under: np.ndarray
    links: tuple[float, float]
    stiffness: float
    mass: float
    foot: float
    substeps: int
    period: float
    stand: np.ndarray


class Trot:
    """Plans a chunk at each query."""

    def __init__(self) -> None:
        self.spec = PolicySpec("reference.trot", HORIZON, "posture")
        self._plants = Plants(_plant_of)

    def init(self, task: Task, seed: int) -> Memory:
        """The carry of a new episode."""
        return Memory(None, None)

    def act(self, carries: Sequence[Carry], obs: Observation, seeds: np.ndarray) -> tuple[np.ndarray, Sequence[Carry]]:
        """One query; see `mjx_bench.policy.Policy.act`."""
        import mujoco

        plant = self._plants.of(obs.task)
        data = mujoco.MjData(plant.model)
        goal = list(obs.task.scene.entities).index("goal")
        actions, out = np.zeros((len(carries), HORIZON, 12), np.float32), []
        for lane, carry in enumerate(carries):
            data.qpos, data.qvel, data.ctrl = obs.qpos[lane], obs.qvel[lane], obs.ctrl[lane]
            data.qacc_warmstart = 0.0
            at, now = obs.entity_pos[lane, goal][:2], int(obs.step[lane])
            memory = _decide(plant, carry, data, at, now)
            out.append(memory)
            for step in range(HORIZON):
                actions[lane, step] = _feedback(plant, data, memory, at, now + step)
                data.ctrl = plant.middle + plant.half * actions[lane, step]
                mujoco.mj_step(plant.model, data, plant.substeps)
        return actions, out


def _decide(plant: Plant, memory: Memory, data: mujoco.MjData, goal: np.ndarray, now: int) -> Memory:
    """Whether to step or to stand."""
    heading = memory.heading if memory.heading is not None else yaw_of(data.qpos[3:7])
    away = float(np.hypot(*(goal - data.qpos[:2])))
    pace = float(np.hypot(*data.qvel[:2]))
    begun = memory.begun
    if begun is None and away > ASTRAY:
        begun = now
    elif begun is not None and away < ARRIVED and pace < STILL and now * plant.period >= QUIET:
        begun = None
    return Memory(heading, begun)


def _feedback(plant: Plant, data: mujoco.MjData, memory: Memory, goal: np.ndarray, now: int) -> np.ndarray:
    """[12] actions from the state in `data`."""
    if memory.heading is None or memory.begun is None:
        return plant.stand
    turn, yaw, spin = matrix(data.qpos[3:7]), yaw_of(data.qpos[3:7]), data.qvel[3:6]
    level = np.array([[math.cos(yaw), math.sin(yaw)], [-math.sin(yaw), math.cos(yaw)]])  # world to the trunk's heading
    speed, up = level @ data.qvel[:2], turn[2]
    joints = data.qpos[plant.joints].reshape(3, 4).T  # of each leg: hip, thigh, calf
    feet = np.array([foot(q, a, plant.links) for q, a in zip(joints, plant.aside, strict=True)])
    phase = (PHASES + (now - memory.begun) * plant.period / CYCLE) % 1.0
    wanted = EASE * (level @ (goal - data.qpos[:2]))
    wanted *= min(1.0, FASTEST / max(1e-9, float(np.hypot(*wanted))))
    bend = float(np.clip(TURN_EASE * math.remainder(memory.heading - yaw, math.tau), -TURN_FASTEST, TURN_FASTEST))
    down = phase < STANCE
    push, twist = plant.mass * PACE * (wanted - speed), TURN * (bend - spin[2])
    lifts, pushes = _forces(plant, data, down, push, twist, up)
    targets = np.empty((4, 3))
    for leg, aside in enumerate(plant.aside):
        if down[leg]:
            # Where it is, but that far below, and a little against where it is to push the trunk.
            at = feet[leg] - up * float(feet[leg] @ up) - up * (HEIGHT - plant.foot)
            at[:2] -= pushes[leg] / GIVE
            torque = -jacobian(joints[leg], aside, plant.links).T @ (lifts[leg] * up)
            targets[leg] = angles(at, aside, plant.links) + torque / plant.stiffness
            continue
        x, y = plant.under[leg]
        reach = 0.5 * STANCE * CYCLE * (wanted + bend * np.array([-y, x]))
        share = (phase[leg] - STANCE) / (1.0 - STANCE)
        smooth = 0.5 - 0.5 * math.cos(math.pi * share)
        place = smooth * (reach + CATCH * (speed - wanted)) - (1.0 - smooth) * reach
        # Below the hip as the world has it, so that a tilted trunk still puts its feet on level ground.
        rise = LIFT * math.sin(math.pi * share) - (HEIGHT - plant.foot)
        targets[leg] = angles(np.array([place[0], place[1] + aside, 0.0]) + up * rise, aside, plant.links)
    action: np.ndarray = (targets.T.ravel() - plant.middle) / plant.half
    return action


def _stand(plant: Plant) -> np.ndarray:
    """[12] actions that hold the feet under their hips, each with a quarter of the weight."""
    targets = np.empty((4, 3))
    for leg, aside in enumerate(plant.aside):
        joints = angles(np.array([0.0, aside, plant.foot - HEIGHT]), aside, plant.links)
        weight = np.array([0.0, 0.0, plant.mass * G / 4.0])
        targets[leg] = joints - jacobian(joints, aside, plant.links).T @ weight / plant.stiffness
    action: np.ndarray = (targets.T.ravel() - plant.middle) / plant.half
    return action


def _forces(
    plant: Plant, data: mujoco.MjData, down: np.ndarray, push: np.ndarray, twist: float, up: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """What carries, levels, pushes and turns the trunk: [4] upwards and [4, 2] along its heading and to its left, newtons.

    Args:
      down: bool [4], feet on the ground.
      push: [2] newtons; twist: N m about the vertical.
      up: [3] the vertical in the trunk's axes.
    """
    number, spin = max(1, int(down.sum())), data.qvel[3:6]
    carry = plant.mass * G + BEAR * (HEIGHT - data.qpos[2]) - BEAR_RATE * data.qvel[2]
    # What pushes at the feet also tips the trunk.
    roll = LEVEL * -up[1] - LEVEL_RATE * spin[0] - HEIGHT * push[1]
    pitch = LEVEL * up[0] - LEVEL_RATE * spin[1] + HEIGHT * push[0]
    lifts, pushes = np.zeros(4), np.zeros((4, 2))
    for leg in np.flatnonzero(down):
        x, y = plant.under[leg]
        lifts[leg] = max(0.0, (carry + roll / y - pitch / x) / number)
        aside = push / number + twist / (number * (x * x + y * y)) * np.array([-y, x])
        pushes[leg] = aside * min(1.0, GRIP * lifts[leg] / max(1e-9, float(np.hypot(*aside))))
    return lifts, pushes


def _plant_of(task: Task) -> Plant:
    model, robot = task.scene.load_spec().compile(), task.scene.robot
    servos = [model.actuator(name) for name in robot.arm_actuators]
    joints = [int(servo.trnid[0]) for servo in servos]
    low, high = (np.array(limit) for limit in robot.torque_limits)
    bodies = model.jnt_bodyid[joints].reshape(3, 4)  # hips, thighs, calves
    aside = model.body_pos[bodies[1]][:, 1].copy()
    feet = [int(model.body_parentid.tolist().index(b)) for b in bodies[2]]
    plant = Plant(
        model=model,
        joints=model.jnt_qposadr[joints],
        middle=(low + high) / 2.0,
        half=(high - low) / 2.0,
        hips=model.body_pos[bodies[0]].copy(),
        aside=aside,
        under=model.body_pos[bodies[0]][:, :2] + np.stack([np.zeros(4), aside], axis=1),
        links=(-float(model.body_pos[bodies[2][0]][2]), -float(model.body_pos[feet[0]][2])),
        stiffness=float(model.actuator_gainprm[servos[0].id][0]),
        mass=float(model.body_subtreemass[model.body(robot.hand_body).id]),
        foot=float(model.geom_size[int(model.body_geomadr[feet[0]])][0]),
        substeps=task.substeps,
        period=1.0 / task.control_hz,
        stand=np.zeros(12),
    )
    return dataclasses.replace(plant, stand=_stand(plant))
