"""Our control step against bare MuJoCo and against the source's own simulator, on the same states and actions.

Bare means `mujoco.batch` `rollout`: the same model, states, lanes, threads and number of physics steps, with the actuator
commands that our control law just wrote, and nothing in between. Both must end in the same bits, which is checked every
time: a ratio of two different computations would mean nothing.
"""

from __future__ import annotations

import concurrent.futures
import copy
import dataclasses
import itertools
import time
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import mujoco
import mujoco.batch
import numpy as np

from mjx_bench.bench.figures import Spread
from mjx_bench.errors import BenchError
from mjx_bench.physics.mujoco_c import MujocoC
from mjx_bench.physics.scene import SceneModel, compile_scene
from mjx_bench.policy import ACTION_DIMS, Observation, Policy, action_mode_for
from mjx_bench.predicates import Test, compile_goal, touches_of
from mjx_bench.seeds import policy_seed, query_seed
from mjx_bench.task import Reset, Task


class Lanes(Protocol):
    """Lanes of one task on some engine, all stepped together."""

    lanes: int

    def load(self, states: Sequence[np.ndarray], reset: Reset) -> None:
        """Puts lane i at `states[i]`."""
        ...

    def observe(self, task: Task, step: int) -> Observation: ...

    def run(self, actions: np.ndarray) -> tuple[float, np.ndarray]:
        """Executes actions [Q, B, A]; returns seconds, and the actuator commands."""
        ...

    def succeeded(self) -> float:
        """Share of lanes whose goal holds."""
        ...


class Reference(Protocol):
    """The source's own simulator: one episode of the same task, in a process of its own."""

    def restart(self, init_state: np.ndarray) -> None:
        """Begins an episode at an initial state [1 + nq + nv]."""
        ...

    def step(self, actions: np.ndarray) -> float:
        """Executes actions [n, A]; returns the seconds that took, the exchange with the process not counted."""
        ...


@dataclasses.dataclass(frozen=True)
class EngineFigures:
    """What `measure` found, over its segments.

    Attributes:
      steps_per_s: control steps a second, all lanes together.
      vs_raw: our speed over bare MuJoCo's.
      vs_reference: our speed over the reference's, all lanes against its one episode; None without a reference.
      episodes: times that all lanes were loaded anew.
    """

    steps_per_s: Spread
    vs_raw: Spread
    vs_reference: Spread | None
    episodes: int


class _Recording(MujocoC):
    """Keeps the actuator commands of every physics step; all lanes must step together."""

    def __init__(self, scene: SceneModel, lanes: int, action_mode: str, substeps: int) -> None:
        super().__init__(scene, lanes, action_mode, substeps)
        self.commands: list[np.ndarray] = []
        law = self._law

        def recorded(ids, actions, new_goal, fields, state, arm):  # type: ignore[no-untyped-def]
            law(ids, actions, new_goal, fields, state, arm)
            self.commands.append(fields.ctrl.copy())

        self._law = recorded

    @property
    def state(self) -> np.ndarray:
        """[lanes, n] MuJoCo's own state rows."""
        return self._batch.state


class _Lanes:
    """`lanes` lanes in `threads` engines side by side, each in a thread of its own, as worker threads run them."""

    def __init__(
        self, task: Task, scene: SceneModel, success: Test, lanes: int, threads: int, action_mode: str
    ) -> None:
        cuts = [lanes * k // threads for k in range(threads + 1)]
        self.slices = [slice(a, b) for a, b in itertools.pairwise(cuts) if b > a]
        self.engines = [_Recording(scene, s.stop - s.start, action_mode, task.substeps) for s in self.slices]
        self.lanes = lanes
        self._success = success
        self._pool = concurrent.futures.ThreadPoolExecutor(len(self.engines))

    @property
    def state(self) -> np.ndarray:
        return np.concatenate([engine.state for engine in self.engines])

    def load(self, states: Sequence[np.ndarray], reset: Reset) -> None:
        for engine, lanes in zip(self.engines, self.slices, strict=True):
            for row, state in enumerate(states[lanes]):
                engine.load(row, state, reset)

    def observe(self, task: Task, step: int) -> Observation:
        parts = [engine.kinematics(np.arange(engine.lanes, dtype=np.int32)) for engine in self.engines]
        names = [f.name for f in dataclasses.fields(parts[0]) if f.name != "articulation"]
        fields: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
        joints = {n: np.concatenate([part.articulation[n] for part in parts]) for n in parts[0].articulation}
        steps = np.full(len(fields["eef_pos"]), step, np.int64)
        return Observation(task=task, step=steps, articulation=joints, **fields)

    def run(self, actions: np.ndarray) -> tuple[float, np.ndarray]:
        """Executes actions [Q, B, A]; returns seconds, and commands [B, Q * substeps, nu]."""
        for engine in self.engines:
            engine.commands.clear()
        start = time.perf_counter()
        waiting = [
            self._pool.submit(_advance, engine, actions[:, lanes])
            for engine, lanes in zip(self.engines[1:], self.slices[1:], strict=True)
        ]
        _advance(self.engines[0], actions[:, self.slices[0]])
        for future in waiting:
            future.result()
        seconds = time.perf_counter() - start
        return seconds, np.concatenate([np.stack(engine.commands, 1) for engine in self.engines])

    def succeeded(self) -> float:
        """Share of lanes whose goal holds."""
        return float(np.concatenate([self._success(engine.signals) for engine in self.engines]).mean())

    def close(self) -> None:
        self._pool.shutdown()
        for engine in self.engines:
            engine.close()


def _advance(engine: MujocoC, actions: np.ndarray) -> None:
    ids = np.arange(engine.lanes, dtype=np.int32)
    for row in actions:
        if failed := engine.control_step(ids, row):
            raise BenchError(
                f"lane {min(failed)} failed: {failed[min(failed)]}; choose another policy or task to measure"
            )


def measure(
    task: Task,
    policy: Policy,
    *,
    lanes: int,
    threads: int = 1,
    seconds: float = 30.0,
    query_interval: int = 8,
    seed: int = 0,
    reference: Reference | None = None,
) -> EngineFigures:
    """Runs `policy` on `task` in segments of one query, each of them bare, and in the reference, right after.

    Args:
      task: what to run; lane i starts at initial state i, and all start again when half of them have succeeded.
      policy: where the actions come from; its own time is not counted.
      lanes: episodes side by side.
      threads: engines side by side, each with its part of the lanes; bare MuJoCo gets as many threads.
      seconds: after so many no segment is begun, once there are three; loading and the first segment do not count.
      query_interval: control steps a segment.
      seed: policy seed, which fixes fixtures and controllers.
      reference: the source's simulator, given lane 0's actions.

    Raises:
      BenchError: bare MuJoCo did not arrive at our bits, or a lane failed.
    """
    scene = compile_scene(task.scene, touches_of(task.goal, task.scene))
    ours = _Lanes(
        task,
        scene,
        compile_goal(task.goal, task.scene, scene.index)[1],
        lanes,
        min(threads, lanes),
        action_mode_for(policy.spec.action_mode, task),
    )
    reset = task.load_reset(seed)
    bare = mujoco.batch.Batch(_as_reset(scene, reset), nsim=lanes, nthread=threads)
    rates, against_raw, against_reference = [], [], []
    deadline = None
    episodes = 0
    try:
        for first, actions in segments(task, policy, ours, reset, seed, query_interval, reference):
            episodes += first
            before = ours.state
            mine, commands = ours.run(actions)
            bare.state[:] = before
            start = time.perf_counter()
            bare.rollout(commands.shape[1], commands, record=())
            raw = time.perf_counter() - start
            if not np.array_equal(bare.state, ours.state):
                raise BenchError(
                    f"{task.suite} task {task.index}: bare MuJoCo arrived at another state than the engine"
                )
            theirs = None if reference is None else reference.step(actions[:, 0])
            if deadline is None:  # the first segment compiles, and finds every cache cold
                deadline = time.perf_counter() + seconds
                continue
            rates.append(actions.shape[0] * lanes / mine)
            against_raw.append(raw / mine)
            if theirs is not None:
                against_reference.append(theirs * lanes / mine)
            if len(rates) >= 3 and time.perf_counter() >= deadline:
                break
    finally:
        ours.close()
    theirs_spread = Spread.of(against_reference) if against_reference else None
    return EngineFigures(Spread.of(rates), Spread.of(against_raw), theirs_spread, episodes)


def _as_reset(scene: SceneModel, reset: Reset) -> mujoco.MjModel:
    """The model with the reset's fixture poses in it: all lanes share them, so bare MuJoCo needs no model of each lane."""
    model = copy.copy(scene.model)
    for name, pos in reset.fixture_pos.items():
        body = scene.entity_body[scene.index.entity(name)]
        model.body_pos[body] = pos
        model.body_quat[body] = reset.fixture_quat[name]
    return model


def segments(
    task: Task, policy: Policy, ours: Lanes, reset: Reset, seed: int, interval: int, reference: Reference | None
) -> Iterator[tuple[bool, np.ndarray]]:
    """Actions [Q, B, A] of one query after another, for ever; True with the first of an episode.

    Whoever takes them executes them in all lanes before asking for more. An episode ends where half of the lanes have
    succeeded: arms at rest over a finished task are cheap to simulate, and no run spends its time on them.
    """
    states = task.load_init_states()
    lanes = ours.lanes
    settle = np.zeros((task.settle_steps, lanes, ACTION_DIMS[action_mode_for(policy.spec.action_mode, task)]))
    settle[..., -1] = task.settle_action[-1]  # only the gripper moves, whatever the control law
    while True:
        ours.load([states[lane % len(states)] for lane in range(lanes)], reset)
        if len(settle):
            ours.run(settle)
        if reference is not None:
            reference.restart(states[0])
            reference.step(settle[:, 0])
        keys = [f"bench/{task.suite}/{task.index}/{seed}/{lane}" for lane in range(lanes)]
        carries: Sequence[object] = [policy.init(task, policy_seed(key)) for key in keys]
        for query in range(task.horizon // interval):
            seeds = np.array([query_seed(key, query) for key in keys], np.uint64)
            chunk, carries = policy.act(carries, ours.observe(task, query * interval), seeds)
            yield query == 0, np.asarray(chunk, np.float64)[:, :interval].swapaxes(0, 1)
            if ours.succeeded() > 0.5:
                break
