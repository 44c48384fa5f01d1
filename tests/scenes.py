"""Real LIBERO tasks for tests, loaded once a session; without LIBERO the tests that need them are skipped, and say so."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from evals.libero.tasks import load_task
from mjx_bench.errors import MissingExtra
from mjx_bench.physics.mujoco_c import MujocoC
from mjx_bench.physics.scene import SceneModel, compile_scene
from mjx_bench.predicates import Test, compile_goal, touches_of
from mjx_bench.task import Task

SEED = 195


@functools.cache
def libero_task(suite: str, index: int) -> Task:
    try:
        return load_task(suite, index, seeds=(SEED,))
    except MissingExtra as error:
        pytest.skip(str(error))


@functools.cache
def libero_scene(suite: str, index: int) -> tuple[Task, SceneModel, Test]:
    task = libero_task(suite, index)
    scene = compile_scene(task.scene, touches_of(task.goal, task.scene))
    return task, scene, compile_goal(task.goal, task.scene, scene.index)[1]


def libero_lanes(suite: str, index: int, lanes: int, *, threads: int = 1, action_mode: str = "osc_pose") -> MujocoC:
    """An engine whose lane i holds initial state i."""
    task, scene, _ = libero_scene(suite, index)
    physics = MujocoC(scene, lanes, action_mode, task.substeps, threads)
    states, reset = task.load_init_states(), task.load_reset(SEED)
    for lane in range(lanes):
        physics.load(lane, states[lane % len(states)], reset)
    return physics


def wandering(steps: int, lanes: int, seed: int, action_dim: int = 7, down: float = 0.1) -> np.ndarray:
    """[steps, lanes, A] smooth random actions that drift down into the scene, so that contacts happen."""
    rng = np.random.default_rng(seed)
    out = np.zeros((steps, lanes, action_dim))
    a = np.zeros((lanes, action_dim))
    for t in range(steps):
        a = 0.8 * a + 0.5 * rng.normal(size=a.shape)
        a[:, 2] -= down
        out[t] = np.clip(a, -1, 1)
    return out
