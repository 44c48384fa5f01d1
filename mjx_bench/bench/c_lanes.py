"""Lanes on MuJoCo's own engine, and bare MuJoCo on the same.

Bare means `mujoco.batch` `rollout`: the same models, states, lanes, threads and number of physics steps, with the actuator
commands that our control law just wrote, and nothing in between. Both must end in the same bits, which is checked every
time: a ratio of two different computations would mean nothing.
"""

from __future__ import annotations

import concurrent.futures
import copy
import dataclasses
import itertools
import time
from collections.abc import Sequence
from typing import Any

import mujoco
import mujoco.batch
import numpy as np

from mjx_bench.checkers import ending
from mjx_bench.errors import BenchError
from mjx_bench.physics.mujoco_c import MujocoC
from mjx_bench.physics.scene import SceneModel, compile_scene
from mjx_bench.policy import Observation
from mjx_bench.task import Reset, Task
from mjx_bench.triggers import touches_judged


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

    def own(self, name: str) -> np.ndarray:
        """[lanes, ...] a field of the model that each lane has its own of."""
        return self._model[name]


class CLanes:
    """Lanes in `threads` engines side by side, each in a thread of its own, as worker threads run them; `engine.Lanes`.

    Args:
      task: what to run.
      lanes: how many.
      threads: engines; bare MuJoCo gets as many threads.
      action_mode: control law.
    """

    def __init__(self, task: Task, lanes: int, threads: int, action_mode: str) -> None:
        self._scene = compile_scene(task.scene, touches_judged(task, (), engine="c"))
        cuts = [lanes * k // threads for k in range(threads + 1)]
        self.slices = [slice(a, b) for a, b in itertools.pairwise(cuts) if b > a]
        self.engines = [_Recording(self._scene, s.stop - s.start, action_mode, task.substeps) for s in self.slices]
        self.lanes = lanes
        self._task, self._threads = task, threads
        self._over = ending(task, self._scene.index)
        self._bare: mujoco.batch.Batch | None = None
        self._pool = concurrent.futures.ThreadPoolExecutor(len(self.engines))

    def load(self, states: Sequence[np.ndarray], reset: Reset) -> None:
        """Puts lane i at `states[i]`, the instances in turn."""
        task, count = self._task, len(self._task.load_init_states())
        own = [task.fields_of(lane % count) for lane in range(self.lanes)]
        for engine, lanes in zip(self.engines, self.slices, strict=True):
            for row, (state, fields) in enumerate(zip(states[lanes], own[lanes], strict=True)):
                engine.load(row, state, reset, fields)
        if self._bare is None:
            self._bare = mujoco.batch.Batch(_as_reset(self._scene, reset), nsim=self.lanes, nthread=self._threads)
            for name in own[0]:
                self._bare.expand(name)[:] = np.concatenate([engine.own(name) for engine in self.engines])

    def observe(self, task: Task, step: int) -> Observation:
        """What a policy is told."""
        parts = [engine.kinematics(np.arange(engine.lanes, dtype=np.int32)) for engine in self.engines]
        names = [f.name for f in dataclasses.fields(parts[0]) if f.name != "articulation"]
        fields: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
        joints = {n: np.concatenate([part.articulation[n] for part in parts]) for n in parts[0].articulation}
        steps = np.full(len(fields["eef_pos"]), step, np.int64)
        return Observation(task=task, step=steps, articulation=joints, **fields)

    @property
    def state(self) -> np.ndarray:
        """[B, n] MuJoCo's own state rows."""
        return np.concatenate([engine.state for engine in self.engines])

    def run(self, actions: np.ndarray) -> tuple[float, np.ndarray]:
        """Executes actions [Q, B, A]; returns seconds, and commands [B, Q * substeps, nu].

        Raises:
          BenchError: a lane failed.
        """
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

    def bare(self, state: np.ndarray, commands: np.ndarray) -> float:
        """Seconds that bare MuJoCo takes from state rows [B, n] under commands [B, Q * substeps, nu].

        Raises:
          BenchError: it did not arrive at our bits.
        """
        bare = self._bare
        assert bare is not None, "loaded first"
        bare.state[:] = state
        start = time.perf_counter()
        bare.rollout(commands.shape[1], commands, record=())
        seconds = time.perf_counter() - start
        if not np.array_equal(bare.state, self.state):
            task = self._task
            raise BenchError(f"{task.suite} task {task.index}: bare MuJoCo arrived at another state than the engine")
        return seconds

    def ended(self) -> float:
        """Share of lanes whose episode would be over; none where only the horizon ends one."""
        if self._over is None:
            return 0.0
        return float(np.concatenate([self._over(engine.signals) for engine in self.engines]).mean())

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


def _as_reset(scene: SceneModel, reset: Reset) -> mujoco.MjModel:
    """The model with the reset's fixture poses in it: all lanes share them, so bare MuJoCo needs no poses of each lane."""
    model = copy.copy(scene.model)
    for name, pos in reset.fixture_pos.items():
        body = scene.entity_body[scene.index.entity(name)]
        model.body_pos[body] = pos
        model.body_quat[body] = reset.fixture_quat[name]
    return model
