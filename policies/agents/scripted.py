"""The expert of a task behind its tools: it reads the simulator's state, and acts by calls alone.

What a call can say differs: a whole action, rows of actions, a pose to be servoed to. Where calls hold an action for
one step the expert's actions come out as they are; a pose that is servoed to (RoboQuest's `arm`) follows the expert's
way, slower.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mjx_bench.agent import AgentSpec, Reply, ToolCall, Turn
from mjx_bench.errors import BenchError
from mjx_bench.policy import Carry, Observation
from mjx_bench.task import Task
from policies.agents.moving import Call, Moving
from policies.reference.oracle import Oracle

QUERY = 8  # actions that are taken of the expert's answer
POSITION, ROTATION = 0.05, 0.5  # metres and radians of a full action of an arm
# Of RoboQuest's `arm`: metres and radians a tick that it asks for, and ticks for the last bit of a way. The expert looks
# again after each call, so that none has to arrive.
ARM_STEP, ARM_TURN, SETTLE = 0.015, 0.12, 6
RESTING = 2e-3  # metres and radians: a way shorter than this is none

Style = Callable[[Observation, np.ndarray], list[Call]]


@dataclasses.dataclass(frozen=True)
class Memory:
    """Of one episode.

    Attributes:
      expert: the expert's own.
      queue: calls that are still to be made.
      style: name of the tool that says how they are made; empty for a program of moves.
    """

    expert: Carry
    queue: tuple[Call, ...] = ()
    style: str = ""


class Scripted:
    """Plays `policies.reference.oracle.Oracle` through a task's tools."""

    def __init__(self) -> None:
        self.spec = AgentSpec("scripted", privileged=True)
        self._oracle, self._moving = Oracle(), Moving()

    def init(self, task: Task, tools: Sequence[Mapping[str, Any]], seed: int) -> Memory:
        """See `mjx_bench.agent.Agent.init`."""
        offered = {str(tool["name"]) for tool in tools}
        if {"arm", "base"} <= offered and "program" in task.extra:
            return Memory(self._moving.start(task))
        for name in STYLES:
            if name in offered:
                return Memory(self._oracle.init(task, seed), style=name)
        known = ", ".join(STYLES)
        raise BenchError(
            f"agent 'scripted' knows the tools {known}; {task.suite} {task.name} offers {', '.join(offered)}"
        )

    def reply(self, carry: Memory, turn: Turn) -> tuple[Reply, Memory]:
        """See `mjx_bench.agent.Agent.reply`."""
        obs = turn.observation
        assert obs is not None, "a privileged agent is shown the state"
        queue, expert = carry.queue, carry.expert
        if not queue:
            if carry.style:
                actions, (expert,) = self._oracle.act([expert], obs, np.array([turn.seed], np.uint64))
                queue = tuple(STYLES[carry.style](obs, actions[0].astype(np.float64)))
            else:
                expert, calls = self._moving.calls(expert, obs)
                queue = tuple(calls)
        now, later = (queue, ()) if carry.style in TOGETHER else (queue[:1], queue[1:])
        calls_now = tuple(ToolCall(f"{turn.number}.{i}", name, given) for i, (name, given) in enumerate(now))
        return Reply(calls_now), dataclasses.replace(carry, expert=expert, queue=later)


def _plain(values: Any) -> list[float]:
    found: list[float] = json.loads(json.dumps(np.asarray(values, np.float64).tolist()))
    return found


def _rows(obs: Observation, actions: np.ndarray) -> list[Call]:
    return [("apply_actions", {"actions": [_plain(np.clip(row, -1, 1)) for row in actions[:QUERY]]})]


def _steps(obs: Observation, actions: np.ndarray) -> list[Call]:
    """Whole answers: replies are few."""
    return [("step", {"actions": [_plain(np.clip(row, -1, 1)) for row in actions]})]


def _vectors(obs: Observation, actions: np.ndarray) -> list[Call]:
    return [("apply_action", {"action": _plain(row), "steps": 1}) for row in actions[:QUERY]]


def _drives(obs: Observation, actions: np.ndarray) -> list[Call]:
    rows = np.clip(actions[:QUERY], -1.0, 1.0)
    return [("drive", {"speed": float(u), "steering": float(v), "steps": 1}) for u, v in rows]


def _robot(obs: Observation, actions: np.ndarray) -> list[Call]:
    """One action as the pose that it makes the servo give; the next has to be seen first."""
    action = np.clip(actions[0], -1.0, 1.0)
    given: dict[str, Any] = {"position": _plain(obs.eef_pos[0] + POSITION * action[:3]), "steps": 1}
    if np.any(action[3:6]):
        given["quaternion_wxyz"] = _plain(turned_by(obs.eef_quat[0], ROTATION * action[3:6]))
    if action[6]:
        given["gripper_close"] = float(action[6] > 0.0)
    return [("move_robot", given)]


def _arm(obs: Observation, actions: np.ndarray) -> list[Call]:
    """Runs of actions with the same gripper, as one way each."""
    actions = actions[:QUERY]
    at, turn = obs.eef_pos[0].copy(), obs.eef_quat[0].copy()
    signs = np.sign(actions[:, 6])
    starts = [0, *(i for i in range(1, len(signs)) if signs[i] != signs[i - 1]), len(signs)]
    calls: list[Call] = []
    for a, b in itertools.pairwise(starts):
        way, bend = POSITION * actions[a:b, :3].sum(0), ROTATION * actions[a:b, 3:6].sum(0)
        gripper, longest = float(signs[a]), max(np.abs(way).max(), np.abs(bend).max())
        if longest < RESTING:
            calls.append(("wait", {"gripper": gripper, "ticks": b - a}))
            continue
        at, turn = at + way, turned_by(turn, bend)
        ticks = max(b - a, math.ceil(max(np.abs(way).max() / ARM_STEP, np.abs(bend).max() / ARM_TURN)) + SETTLE)
        given = {"position_world_m": _plain(at), "quaternion_xyzw": _plain(np.roll(turn, -1)), "gripper": gripper}
        calls.append(("arm", given | {"ticks": min(ticks, 200)}))
    return calls


def turned_by(quat: np.ndarray, rotation: np.ndarray) -> np.ndarray:
    """[4] wxyz, of length 1: `quat` turned by a rotation vector [3], world axes."""
    angle = float(np.linalg.norm(rotation))
    w, v = math.cos(angle / 2.0), np.sinc(angle / (2.0 * math.pi)) / 2.0 * rotation
    turned = np.concatenate([[w * quat[0] - v @ quat[1:]], w * quat[1:] + quat[0] * v + np.cross(v, quat[1:])])
    return turned / np.linalg.norm(turned)


# How a tool is used; the first that a task offers is taken.
STYLES: dict[str, Style] = {
    "step": _steps,
    "apply_actions": _rows,
    "apply_action": _vectors,
    "drive": _drives,
    "move_robot": _robot,
    "arm": _arm,
}
# Those whose benchmark carries out several calls of a reply in turn.
TOGETHER = ("apply_action", "drive")
