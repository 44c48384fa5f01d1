"""From a recorded episode to what the behavioural metrics read of it.

What a record does not hold (joints, hands, where the target was) comes from running its actions again, which is exact. An
execution is a tool call, of an agent with a transcript, or a policy's chunk. A task that runs here has one subtask for each
thing that it asks for. Thresholds are the sheet's, version rab-1; failures and holds are looked for in pickups alone, since
nothing else asks for a grasp:

* Missed grasp: fingers close within 0.10 m of the target, and half a second later it is not held.
* Drop: it was held, and is not for half a second. Tipped or fallen: by more than 45 degrees, or 0.05 m below where it stood.
* Success: a checkpoint of process, or the final one, that begins to hold.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evals.robot_agent_bench import behaviour, pickup
from evals.robot_agent_bench.behaviour import Call, Episode, Happening, State, Subtask
from evals.robot_agent_bench.geometry import Geometry, rotated
from evals.robot_agent_bench.navigation_map import EVERY
from evals.robot_agent_bench.robot import JOINTS, SIDES
from evals.robot_agent_bench.scoring import Series, holding, holds, pickup_checkpoints, points_over_time, process_score
from evals.robot_agent_bench.sensing import Explorer, Homes
from evals.servo import addresses
from mjx_bench.agents.transcript import read_calls
from mjx_bench.film import film_pair
from mjx_bench.judged import describe, read_judged
from mjx_bench.manifest import Case
from mjx_bench.records import Run
from mjx_bench.task import Atom, Task
from mjx_bench.types import Arm
from policies.reference.turns import matrix

GRASP_M, SETTLED = 0.10, 10  # metres from the target; steps after which a grasp has come out, or a hold is lost
CLOSED_M, CLOSING_M = 0.005, 1e-4  # metres of a pad: of a closing in all, and in a step
TIPPED_COS, FALLEN_M = np.cos(np.radians(45.0)), 0.05
CARRIED_M = 0.02  # of a target that is held: progress
MOVED_SHARE = 0.5  # of a commanded way: a navigation that succeeded
NAVIGATION = ("drive", "turn", "drive_velocity")


class Made(NamedTuple):
    """An execution: what was called with which arguments, and the control steps that it took."""

    name: str
    arguments: Any
    steps: int


def metrics(episodes: Iterable[Episode]) -> dict[str, float | None]:
    """The four behavioural metrics of episodes, percent; None for one that is undefined."""
    found = list(episodes)
    return {
        "task_coverage": behaviour.task_coverage(found),
        "task_progress": behaviour.task_progress(found),
        "recovery_rate": behaviour.recovery_rate(found),
        "stagnation": behaviour.stagnation(found),
    }


def read_episode(run: Run, case: Case, task: Task) -> tuple[Episode, float]:
    """What the metrics read of one episode, and its process score in points.

    Raises:
      BenchError: an episode that cannot be run again, see `film.film_pair`.
    """
    arm = film_pair(run, case, task).arms[Arm.BASE]
    arrays = {name: np.asarray(run.array(arm.record, name)) for name in arm.record.arrays}
    qpos = np.array([pose.qpos for pose in arm.poses])
    checkpoints = _checkpoints(task, case.init_state_index, arrays)
    made = _made(run.directory, case.case_id, arm.query_steps, arm.end)
    held = np.zeros(arm.end)
    happenings: list[Happening] = []
    if task.name in _PICKUPS and arm.end:
        held = holding(read_judged(describe(task), task.name), arrays)
        happenings = _happenings(task, qpos, held, checkpoints["target"])
    subtasks = tuple(_subtask(series) for series in checkpoints.values())
    together = [series for own in checkpoints.values() for series in own]
    calls = _calls(task, case.init_state_index, made, qpos, held, points_over_time(together))
    return Episode(subtasks, tuple(happenings), calls, arm.end), process_score(together)


_PICKUPS = {kind.name: kind for kind in pickup.KINDS}


def _checkpoints(task: Task, instance: int, arrays: Mapping[str, np.ndarray]) -> dict[str, list[Series]]:
    """Role of each thing that is asked for to its checkpoints over the episode."""
    judged = read_judged(describe(task), task.name)
    if task.name in _PICKUPS:
        return {"target": pickup_checkpoints(_PICKUPS[task.name], judged, arrays)}
    asked = task.extra["reads"](instance)
    roles = (asked,) if isinstance(asked, str) else tuple(asked)
    return {
        role: [Series("contact", 1.0 / len(roles), holds((Atom("touched", (role,)),), judged, arrays))]
        for role in roles
    }


def _subtask(checkpoints: Sequence[Series]) -> Subtask:
    counted = [c for c in checkpoints if c.channel != "final"]
    engaged = any(c.channel == "contact" and c.held.any() for c in checkpoints)
    earned = sum(c.points * float(c.held.max(initial=0.0)) for c in counted)
    return Subtask(engaged, earned, sum(c.points for c in counted))


def _made(directory: Path, case_id: str, queries: Sequence[int], end: int) -> list[Made]:
    """Executions in order: calls of the transcript, or chunks where there is none."""
    calls = read_calls(directory, case_id)
    if calls is not None:
        return [Made(*call) for call in calls]
    return [Made("chunk", None, b - a) for a, b in zip(queries, (*queries[1:], end), strict=True)]


def _happenings(task: Task, qpos: np.ndarray, held: np.ndarray, checkpoints: Sequence[Series]) -> list[Happening]:
    failures = [*_missed(task, qpos, held), *_lost(held), *_overturned(task, qpos)]
    better = [c.held for c in checkpoints if c.channel != "contact"]
    successes = {int(k) + 2 for series in better for k in np.nonzero(np.diff(series) > 0.0)[0]}
    found = [Happening(step, "target", False) for step in sorted(set(failures))]
    return found + [Happening(step, "target", True) for step in sorted(successes)]


def _missed(task: Task, qpos: np.ndarray, held: np.ndarray) -> list[int]:
    """Steps at which a grasp had come out as none."""
    places, geometry = addresses(task), Geometry(task, (), 1)
    target = qpos[:, _root(task, "target")][:, :3]
    found = []
    for side in SIDES:
        pad = qpos[:, places[f"{side}_gripper"][0]]
        closing = np.concatenate([[False], np.diff(pad) < -CLOSING_M, [False]])
        begins, ends = np.nonzero(np.diff(closing.astype(np.int8)))[0].reshape(-1, 2).T
        for begin, end in zip(begins, ends, strict=True):
            if pad[begin] - pad[end] < CLOSED_M or end + SETTLED > len(held):
                continue  # fingers that hardly closed, or a grasp whose outcome was not lived to see
            x, y, yaw = _base(task, qpos[end])
            hand = geometry.hands(_state(task, qpos[end])[:18])[side][0]
            turn = np.array([np.cos(yaw / 2.0), 0.0, 0.0, np.sin(yaw / 2.0)])
            away = rotated(turn, hand) + np.array([x, y, 0.0]) - target[end]
            if np.linalg.norm(away) <= GRASP_M and not held[end : end + SETTLED].any():
                found.append(int(end) + SETTLED)
    return found


def _lost(held: np.ndarray) -> list[int]:
    """Steps at which a hold had been lost for as long as counts."""
    found, gone, holding = [], 0, False
    for step, value in enumerate(held, 1):
        gone = 0 if value else gone + 1
        holding = holding or bool(value)
        if holding and gone >= SETTLED:
            found.append(step)
            holding = False
    return found


def _overturned(task: Task, qpos: np.ndarray) -> list[int]:
    """Steps after which the target lay, or had fallen, and had not before."""
    target = qpos[:, _root(task, "target")]
    up = np.array([rotated(quat, np.array([0.0, 0.0, 1.0]))[2] for quat in target[:, 3:]])
    bad = [up < TIPPED_COS, target[:, 2] < target[0, 2] - FALLEN_M]
    return [int(k) + 1 for flags in bad for k in np.nonzero(~flags[:-1] & flags[1:])[0]]


def _calls(
    task: Task, instance: int, made: Sequence[Made], qpos: np.ndarray, held: np.ndarray, points: np.ndarray
) -> tuple[Call, ...]:
    """Executions with what came of each."""
    explorer, geometry = Explorer(Homes(task).map(instance)), Geometry(task, (), 1)
    explorer.see(_state(task, qpos[0]), look=True)
    best = np.concatenate([[0.0], np.maximum.accumulate(points)])
    target = qpos[:, _root(task, "target")][:, :3] if task.name in _PICKUPS else np.zeros((len(qpos), 3))
    found, begin = [], 0
    for one in made:
        end = begin + one.steps
        known = explorer.map.known.sum()
        for step in range(begin + 1, end + 1):
            if step % EVERY == 0 or step == end:
                explorer.see(_state(task, qpos[step]), look=True)
        own = held[begin:end]
        new_hold = bool(own.any() and not (held[begin - 1] if begin else 0.0))
        carried = bool(own.all() and np.linalg.norm(target[end] - target[begin]) > CARRIED_M and end > begin)
        hands = geometry.hands(_state(task, qpos[begin])[:18])
        found.append(
            Call(
                begin, end, (one.name, json.dumps(one.arguments, sort_keys=True)),
                score=bool(best[end] > best[begin] + 1e-6),
                manipulated=new_hold or carried,
                cells=int(explorer.map.known.sum() - known),
                navigated=_navigated(one, _base(task, qpos[begin]), _base(task, qpos[end])),
                state=State(
                    _base(task, qpos[begin]), _state(task, qpos[begin])[:20],
                    np.array([hands[side][0] for side in SIDES]), np.array([matrix(hands[side][1]) for side in SIDES]),
                ),
            )
        )  # fmt: skip
        begin = end
    return tuple(found)


def _navigated(one: Made, before: np.ndarray, after: np.ndarray) -> tuple[float, float] | None:
    """Metres and radians of a base move that came to half of what was commanded."""
    if one.name not in NAVIGATION or not one.steps:
        return None
    a = one.arguments
    seconds = a.get("seconds", 1.0)
    wanted = abs(a.get("distance", a.get("v", 0.0) * seconds)), abs(a.get("angle", a.get("w", 0.0) * seconds))
    gone = float(np.linalg.norm(after[:2] - before[:2])), abs(float(after[2] - before[2]))
    return gone if all(g >= MOVED_SHARE * w for g, w in zip(gone, wanted, strict=True)) else None


def _state(task: Task, qpos: np.ndarray) -> np.ndarray:
    """[23]: joints, grippers as metres of a pad, base."""
    places = addresses(task)
    return qpos[[places[name][0] for name in JOINTS]]


def _base(task: Task, qpos: np.ndarray) -> np.ndarray:
    return _state(task, qpos)[20:]


def _root(task: Task, entity: str) -> slice:
    """Where the free joint of a thing is in qpos."""
    at = addresses(task)[str(task.scene.entities[entity].free_joint)][0]
    return slice(at, at + 7)
