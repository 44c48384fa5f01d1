"""Demonstrations with pictures: an expert runs instances of a task, and what it saw and answered is kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from mjx_bench.engines import engine_of
from mjx_bench.episode import Episode
from mjx_bench.observe.choice import make_renderer
from mjx_bench.observe.pictures import Pictures
from mjx_bench.policy import Observation, Policy
from mjx_bench.predicates import compile_goal, goal_index
from mjx_bench.rollout import Rollout
from mjx_bench.task import Task
from mjx_bench.types import Verdict

CAMERAS = ("agentview", "robot0_eye_in_hand")
SIDE = 64  # pixels
BODY = 10  # numbers of the arm's own state
INTERVAL = 4  # Q, actions that are executed before the next query
LANES = 16

_ASTRAY = 0.5  # share of demonstrated chunks that are executed with an error, from which the next ones recover
_ERROR = 0.4  # of those, standard deviation of a constant added to each of the three translations


@dataclasses.dataclass(frozen=True)
class Shots:
    """Queries of an expert: what there was to see, and what it answered.

    Attributes:
      images: uint8 [N, C, SIDE, SIDE, 3].
      body: float32 [N, BODY], see `body_of`.
      chunks: float32 [N, H, A].
    """

    images: np.ndarray
    body: np.ndarray
    chunks: np.ndarray


def body_of(obs: Observation) -> np.ndarray:
    """float32 [B, BODY]: the hand's position and two columns of its orientation, and the fingers' gap in decimetres."""
    w, x, y, z = np.moveaxis(obs.eef_quat, 1, 0)
    first = np.stack([1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)], 1)
    second = np.stack([2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x)], 1)
    gap = 10.0 * np.abs(obs.gripper_qpos[:, :1] - obs.gripper_qpos[:, 1:])
    return np.hstack([obs.eef_pos, first, second, gap]).astype(np.float32)


def images_of(obs: Observation) -> np.ndarray:
    """uint8 [B, C, SIDE, SIDE, 3]."""
    return np.stack([obs.images[name] for name in CAMERAS], 1)


class Demonstrator:
    """Acts as an expert does, now and then with an error, and remembers in its carry what it saw and should have done.

    Without the errors the expert never shows how to come back from a place where it would not have gone, and there a clone
    soon is.

    Args:
      expert: what is demonstrated.
    """

    def __init__(self, expert: Policy) -> None:
        self._expert = expert
        self.spec = dataclasses.replace(expert.spec, name="demonstrator", cameras=CAMERAS, image_size=SIDE)

    def init(self, task: Task, seed: int) -> tuple[Any, tuple[Shots, ...]]:
        """The expert's carry, and no queries."""
        return self._expert.init(task, seed), ()

    def act(self, carries: Sequence[Any], obs: Observation, seeds: np.ndarray) -> tuple[np.ndarray, Sequence[Any]]:
        """See `mjx_bench.policy.Policy.act`."""
        chunks, after = self._expert.act([own for own, _ in carries], obs, seeds)
        images, body, executed = images_of(obs), body_of(obs), chunks.copy()
        out = []
        for lane, (_, shots) in enumerate(carries):
            row = slice(lane, lane + 1)
            out.append((after[lane], (*shots, Shots(images[row], body[row], chunks[row]))))
            rng = np.random.default_rng(int(seeds[lane]))
            if rng.random() < _ASTRAY:
                executed[lane, :, :3] += rng.normal(0.0, _ERROR, 3)
        return np.clip(executed, -1.0, 1.0), out


def play(task: Task, policy: Policy, indices: Sequence[int], renderer: str) -> Iterator[Episode]:
    """Runs instances of a task to their ends on MuJoCo's own engine, `LANES` at a time."""
    physics = engine_of(task, "c", LANES, policy.spec.action_mode, interval=INTERVAL)
    success = compile_goal(task.goal, task.scene, physics.index)[1]
    cameras, size = policy.spec.cameras, policy.spec.image_size
    pictures = (
        Pictures(make_renderer(renderer, task.scene, cameras, size, size, LANES), task.scene) if cameras else None
    )
    judged, horizon = goal_index(task.goal, task.scene), policy.spec.horizon
    rollout = Rollout(
        task, physics, policy, INTERVAL, horizon, success, judged, lambda lane, episode: None, pictures=pictures
    )
    try:
        for begin in range(0, len(indices), LANES):
            episodes = {}
            for lane, index in enumerate(indices[begin : begin + LANES]):
                physics.load(lane, task.load_init_states()[index], task.load_reset(0), task.fields_of(index))
                episodes[lane] = rollout.begin(f"{task.name} {index}")
            while any(e.verdict is None for e in episodes.values()):
                rollout.tick(episodes)
            yield from episodes.values()
    finally:
        physics.close()
        if pictures is not None:
            pictures.close()


def demonstrate(task: Task, expert: Policy, indices: Sequence[int], renderer: str) -> list[Shots]:
    """The queries of each of the expert's successful episodes on these instances."""
    episodes = play(task, Demonstrator(expert), indices, renderer)
    return [joined(e.carry[1]) for e in episodes if e.verdict is Verdict.SUCCESS]


def solved(task: Task, policy: Policy, indices: Sequence[int], renderer: str) -> int:
    """Number of instances on which the policy reaches the goal."""
    return sum(e.verdict is Verdict.SUCCESS for e in play(task, policy, indices, renderer))


def joined(parts: Sequence[Shots]) -> Shots:
    """The queries of all parts."""
    return Shots(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in dataclasses.fields(Shots)))
