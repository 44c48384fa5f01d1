"""One lane of a task that is stepped from outside, one action at a time, and judged as in any evaluation."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from mjx_bench.engines import engine_of
from mjx_bench.episode import Episode
from mjx_bench.observe.choice import make_renderer
from mjx_bench.observe.pictures import Pictures
from mjx_bench.policy import ACTION_DIMS, NATIVE, Observation, PolicySpec, action_mode_for
from mjx_bench.predicates import compile_goal, goal_index
from mjx_bench.rollout import Rollout
from mjx_bench.task import Task
from mjx_bench.types import Verdict

_LANE = np.zeros(1, np.int32)
# A control step is one action; so are H and Q of the records.
STEP = 1


class _Driver:
    """The place of a policy in a rollout whose actions come from outside."""

    spec = PolicySpec("agent", STEP, NATIVE)

    def init(self, task: Task, seed: int) -> None:
        return None

    def act(self, carries: Sequence[None], obs: Observation, seeds: np.ndarray) -> tuple[np.ndarray, Sequence[None]]:
        raise AssertionError("the lane never asks: each step brings its action")


class Lane:
    """An engine with one lane, and the episode in it. A context manager.

    Args:
      task: what is done; all instances have fields of the same names.
      backend: engine, not `auto`.
      cameras: whose pictures `pictures` takes; none if empty.
      image_size: pixels a side.
      renderer: of `observe.choice.RENDERERS`; None without cameras.

    Attributes:
      task: as given.
      episode: the one that was begun last.
      init_sha256: of the initial state that it began with.
      width: A, numbers in an action.
    """

    def __init__(
        self, task: Task, backend: str, cameras: Sequence[str] = (), image_size: int = 0, renderer: str | None = None
    ) -> None:
        self.task = task
        self._held = contextlib.ExitStack()
        self._physics = engine_of(task, backend, 1, NATIVE, interval=STEP)
        self._held.callback(self._physics.close)
        self._pictures: Pictures | None = None
        if cameras:
            assert renderer is not None
            made = make_renderer(renderer, task.scene, cameras, image_size, image_size, 1)
            self._pictures = Pictures(made, task.scene)
            self._held.callback(self._pictures.close)
        success = compile_goal(task.goal, task.scene, self._physics.index)[1]
        judged = goal_index(task.atoms, task.scene)
        self._columns = {n: c for n, c in self._physics.index.columns_of(judged).items() if c.size}
        self._rollout = Rollout(task, self._physics, _Driver(), STEP, STEP, success, judged, lambda lane, e: None)
        self._states = task.load_init_states()
        self.width = ACTION_DIMS[action_mode_for(NATIVE, task)]
        self.episode: Episode
        self.init_sha256 = ""

    def __enter__(self) -> Lane:
        return self

    def __exit__(self, *error: object) -> None:
        self._held.close()

    def begin(self, key: str, row: int, policy_seed: int) -> Episode:
        """Loads an initial state and settles it.

        Args:
          key: what randomness is folded from.
          row: of the task's initial states.
          policy_seed: of the source's reset.
        """
        task = self.task
        state = self._states[row]
        self._physics.load(0, state, task.load_reset(policy_seed), task.fields_of(row))
        self.init_sha256 = hashlib.sha256(state.tobytes()).hexdigest()
        self.episode = self._rollout.begin(key, policy_seed)
        self.episode.pushes, self.episode.instance = task.pushes_of(row), row
        while self.episode.settle and self.episode.verdict is None:
            self._rollout.tick({0: self.episode})
        return self.episode

    def observe(self) -> Observation:
        """What there is to see of the lane now, without pictures."""
        return self._rollout.observe(_LANE, [self.episode])

    def pictures(self) -> Mapping[str, np.ndarray]:
        """Camera to uint8 [size, size, 3], as things are now."""
        if self._pictures is None:
            return {}
        return {name: images[0] for name, images in self._pictures.take(self._physics.poses(_LANE)).items()}

    def step(self, action: np.ndarray, *, first: bool) -> None:
        """One control step of an episode that has not ended.

        Args:
          action: [A], in the single precision that is recorded, within whatever the control law takes; not finite, it
            makes the arm void.
          first: whether a decision begins with it: the records count these as queries.
        """
        e = self.episode
        action = np.asarray(action, np.float32)
        assert action.shape == (self.width,), f"an action of shape {action.shape}, expected ({self.width},)"
        if not np.isfinite(action).all():
            e.finish(Verdict.VOID, f"a tool gave a value that is not finite at step {e.step}")
            return
        if first:
            e.query_steps.append(e.step)
            e.chunks.append(action[None])
        e.pending = action[None].astype(np.float64)
        self._rollout.tick({0: e})

    def arrays(self) -> dict[str, np.ndarray]:
        """The traces of the episode (`Episode.arrays`), of the right shapes even where it has no step."""
        found = self.episode.arrays()
        if not self.episode.actions:
            found |= {
                "actions": np.zeros((0, self.width), np.float32),
                "chunks": np.zeros((0, STEP, self.width), np.float32),
            }
            for name, columns in self._columns.items():
                found[f"signals.{name}"] = getattr(self._physics.signals, name)[:0, columns]
        return found

    def digest(self) -> str:
        """SHA-256 of the lane's whole state: equal where nothing has moved."""
        return self._physics.snapshot(0).digest()
