"""How the end effector answers OSC_POSE actions, and how to choose actions that follow waypoints.

The control law asks for a task-space acceleration `f = kp error - kd velocity` (kp 150, critically damped), position and
orientation each decoupled by their own inertia. The arm delivers `K(q) f`, whose diagonal blocks are the identity and
whose off-diagonal blocks are the leak from one into the other, 10 to 20% of a fast move. Over one control step at a fixed
arm posture that is a linear system: `Response` holds it, `command` inverts it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Protocol

import numpy as np

KP = 150.0  # 1/s^2, robosuite's OSC_POSE default
KD = 2.0 * np.sqrt(KP)  # 1/s, damping ratio 1
TRANSLATION_SCALE = 0.05  # metres a unit of action
ROTATION_SCALE = 0.5  # radians a unit of action
OPEN, HALT, CLOSED = -1.0, 0.0, 1.0  # LIBERO's gripper signs

_SPEED = 0.23  # m/s; with the action held at 1 an ideal axis settles at 0.258
_GAIN = 10.0  # 1/s: the distance left halves each control step
# A rotation beyond this angle is asked for in pieces: the controller's orientation error is a sine, good for small angles.
_MAX_TURN = 0.35
# Below this angle no rotation is commanded: exact zeros keep the controller's held goal, which does not drift.
TURN_TOLERANCE = 0.07
_MOST_DRIFT = 0.1  # m/s
# How far back from the goal a funnel asks for: slope times the distance aside beyond its foot, metres.
_FUNNEL_FOOT, _FUNNEL_SLOPE, _FUNNEL_TOP = 0.003, 8.0, 0.08


_ZERO = np.zeros(3)
_ZERO.flags.writeable = False
_IDENTITY = np.eye(3)
_IDENTITY.flags.writeable = False


def rotation(axis_angle: np.ndarray) -> np.ndarray:
    """[3] axis-angle (radians) to a [3, 3] rotation matrix (Rodrigues)."""
    angle = float(np.sqrt(axis_angle @ axis_angle))
    if angle < 1e-12:
        return _IDENTITY
    x, y, z = axis_angle / angle
    k = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return _IDENTITY + np.sin(angle) * k + (1.0 - np.cos(angle)) * (k @ k)


def rotation_error(goal: np.ndarray, current: np.ndarray) -> np.ndarray:
    """Axis-angle [3] (world frame, radians) of the rotation that takes `current` [3, 3] to `goal` [3, 3]."""
    r = goal @ current.T
    skew = np.array([r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1]])
    sine = 0.5 * float(np.sqrt(skew @ skew))
    cosine = 0.5 * float(r[0, 0] + r[1, 1] + r[2, 2] - 1.0)
    if sine < 1e-9:  # aligned, or half a turn about an axis that the antisymmetric part cannot name
        return np.zeros(3) if cosine > 0 else np.pi * np.sqrt(np.maximum(0.0, 0.5 * (np.diag(r) + 1.0)))
    return skew * (0.5 * float(np.arctan2(sine, cosine)) / sine)


@dataclasses.dataclass(frozen=True)
class Response:
    """One control step as a linear map, integrated by semi-implicit Euler as the simulator does.

    The state is [displacement 3, velocity 3, rotation left to the held goal 3, angular velocity 3], displacement from 0.

    Attributes:
      state: [12, 12] next state from the state.
      goal: [12, 3] next state from the commanded displacement, metres.
      inverse: [3, 3] commanded displacement from the change of next velocity that is wanted.
    """

    state: np.ndarray
    goal: np.ndarray
    inverse: np.ndarray


def response(coupling: np.ndarray, substeps: int, dt: float) -> Response:
    """The response of an arm whose task-space acceleration is `coupling` [6, 6] times what the control law asks for.

    `dt` is the length of a physics step in seconds, of which a control step has `substeps`.
    """
    accelerate = np.zeros((6, 15))  # from [d, v, phi, w, g]
    accelerate[:, 0:3] = -KP * coupling[:, :3]
    accelerate[:, 3:6] = -KD * coupling[:, :3]
    accelerate[:, 6:9] = KP * coupling[:, 3:]
    accelerate[:, 9:12] = -KD * coupling[:, 3:]
    accelerate[:, 12:15] = KP * coupling[:, :3]
    one = np.eye(15)
    one[3:6] += dt * accelerate[:3]
    one[9:12] += dt * accelerate[3:]
    one[0:3] += dt * one[3:6]
    one[6:9] -= dt * one[9:12]
    many = np.linalg.matrix_power(one, substeps)
    return Response(many[:12, :12], many[:12, 12:], np.linalg.inv(many[3:6, 12:]))


@dataclasses.dataclass(frozen=True)
class Motion:
    """What an observation does not tell of a moving arm.

    Attributes:
      vel, spin: [3] linear (m/s) and angular (rad/s) velocity of the end effector, world.
      held: [3, 3] orientation of the hand that the controller holds, world.
    """

    vel: np.ndarray
    spin: np.ndarray
    held: np.ndarray


class Plant(Protocol):
    """A model of the arm that `track` can step.

    Attributes:
      pos: [3] end-effector position, world metres.
      rot: [3, 3] hand orientation, world.
      motion: velocities and held goal.
      left: [3] rotation left to the held goal, axis-angle, world.
      response: the linear map of the next control step.
    """

    pos: np.ndarray
    rot: np.ndarray
    motion: Motion
    left: np.ndarray
    response: Response

    def step(self, action: np.ndarray) -> None:
        """Advances one control step under `action` [7]."""
        ...


class LinearPlant:
    """A plant whose posture changes too little to matter: one `Response` for the whole look-ahead."""

    def __init__(self, pos: np.ndarray, rot: np.ndarray, motion: Motion, response: Response):
        self.pos, self.rot, self.motion, self.response = pos, rot, motion, response
        self.left = rotation_error(motion.held, rot)

    def step(self, action: np.ndarray) -> None:
        """See `Plant`."""
        held = self.motion.held
        if action[3:6].any():
            self.left = ROTATION_SCALE * action[3:6]
            held = rotation(self.left) @ self.rot
        state = np.concatenate([_ZERO, self.motion.vel, self.left, self.motion.spin])
        state = self.response.state @ state + self.response.goal @ (TRANSLATION_SCALE * action[:3])
        self.pos = self.pos + state[:3]
        self.rot = rotation(self.left - state[6:9]) @ self.rot
        self.left = state[6:9]
        self.motion = Motion(state[3:6], state[9:12], held)


@dataclasses.dataclass(frozen=True)
class Waypoint:
    """Where the end effector goes next, and what the gripper does on the way and there.

    Attributes:
      label: stage name, read by the expert to know how far it is.
      pos: [3] end-effector position, world metres.
      rot: [3, 3] orientation of the hand body, world.
      grip: gripper action, -1 opens, +1 closes.
      tolerance: distance (metres) at which it counts as reached.
      dwell: control steps to stay once reached.
      speed: limit on the way, m/s.
      patience: control steps after which it counts as reached anyway (something is in the way).
      funnel: come to `pos` in a cone about the way the hand points, so that fingers are over the spot before they are
        beside it.
      line: [3] direction of a straight way to `pos`: what is off it is made good first; None to go from anywhere.
    """

    label: str
    pos: np.ndarray
    rot: np.ndarray
    grip: float
    tolerance: float = 0.006
    dwell: int = 0
    speed: float = _SPEED
    patience: int = 80
    funnel: bool = False
    line: np.ndarray | None = None


@dataclasses.dataclass(frozen=True)
class Cursor:
    """Progress along a plan: index of the current waypoint, control steps spent there once reached, and in all."""

    index: int = 0
    dwelt: int = 0
    elapsed: int = 0


def command(plant: Plant, waypoint: Waypoint, drift: np.ndarray = _ZERO) -> np.ndarray:
    """The action [7] that takes the plant towards the waypoint.

    The wanted velocity falls linearly with the distance left; the action is the one whose response ends at that velocity.
    `drift` [3] is the velocity that contact adds, which is made up for on a line.
    """
    action = np.zeros(7)
    action[6] = waypoint.grip
    left = plant.left
    turn = rotation_error(waypoint.rot, plant.rot)
    angle = float(np.sqrt(turn @ turn))
    if angle > TURN_TOLERANCE:
        left = turn * (min(angle, _MAX_TURN) / angle)
        action[3:6] = left / ROTATION_SCALE

    error = waypoint.pos - plant.pos
    if waypoint.funnel:
        into = waypoint.rot[:, 2]
        off = error - (error @ into) * into
        aside = float(np.sqrt(off @ off))
        error = error - min(_FUNNEL_TOP, _FUNNEL_SLOPE * max(0.0, aside - _FUNNEL_FOOT)) * into
    if waypoint.line is None:
        wanted = _within(_GAIN * error, waypoint.speed)
    else:
        ahead = (error @ waypoint.line) * waypoint.line
        wanted = _within(_GAIN * ahead, waypoint.speed) + _within(_GAIN * (error - ahead), waypoint.speed)
        wanted = wanted - _within(drift, _MOST_DRIFT)
    state = plant.response.state
    coast = state[3:6, 3:6] @ plant.motion.vel + state[3:6, 6:9] @ left + state[3:6, 9:12] @ plant.motion.spin
    move = plant.response.inverse @ (wanted - coast) / TRANSLATION_SCALE
    # One factor for the three axes: clipping each alone would bend the path.
    action[:3] = move / max(1.0, float(np.abs(move).max()))
    return action


def _within(velocity: np.ndarray, speed: float) -> np.ndarray:
    """A velocity [3], shortened to `speed`."""
    length = float(np.sqrt(velocity @ velocity))
    return velocity * (speed / length) if length > speed else velocity


def advance(cursor: Cursor, plan: Sequence[Waypoint], plant: Plant) -> Cursor:
    """The cursor after one control step that ended with the plant where it is."""
    if cursor.index >= len(plan):
        return cursor
    goal = plan[cursor.index]
    error = goal.pos - plant.pos
    near = float(error @ error) <= goal.tolerance**2
    if near:
        turn = rotation_error(goal.rot, plant.rot)
        near = float(turn @ turn) <= (1.5 * TURN_TOLERANCE) ** 2
    elapsed = cursor.elapsed + 1
    dwelt = cursor.dwelt + 1 if near or cursor.dwelt else 0
    if dwelt > goal.dwell or elapsed > goal.patience + goal.dwell:
        return Cursor(cursor.index + 1)
    return Cursor(cursor.index, dwelt, elapsed)


@dataclasses.dataclass(frozen=True)
class Track:
    """A plan turned into actions, with what the model expects to happen.

    Attributes:
      actions: float32 [n, 7], read-only.
      positions: [n + 1, 3] of the end effector, before each action and after the last; read-only.
      motions: n + 1 motions, likewise.
      cursors: n + 1 cursors, likewise.
    """

    actions: np.ndarray
    positions: np.ndarray
    motions: tuple[Motion, ...]
    cursors: tuple[Cursor, ...]


def track(plant: Plant, plan: Sequence[Waypoint], cursor: Cursor, n: int, drift: np.ndarray = _ZERO) -> Track:
    """Follows the plan for `n` control steps on the plant (which is advanced); holds still after its end."""
    actions, positions = np.zeros((n, 7)), np.zeros((n + 1, 3))
    motions, cursors = [plant.motion], [cursor]
    positions[0] = plant.pos
    for k in range(n):
        if cursor.index < len(plan):
            actions[k] = command(plant, plan[cursor.index], drift)
        else:
            actions[k, 6] = plan[-1].grip
        plant.step(actions[k])
        cursor = advance(cursor, plan, plant)
        positions[k + 1] = plant.pos
        motions.append(plant.motion)
        cursors.append(cursor)
    out = np.clip(actions, -1.0, 1.0).astype(np.float32)
    out.flags.writeable = positions.flags.writeable = False
    return Track(out, positions, tuple(motions), tuple(cursors))
