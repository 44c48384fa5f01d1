"""A goal says the same of the same signals in NumPy and inside a compiled program."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np

from mjx_bench.predicates import UP_HEIGHT
from mjx_bench.signals import SignalIndex, Signals
from tests.arm_scene import arm_scene
from tests.test_tabletop import every_task, scene_of

ROWS = 8192


def drawn(index: SignalIndex, seed: int) -> Signals:
    """Signals in single precision, scattered about every bound that the goals test."""
    rng = np.random.default_rng(seed)
    signals = Signals.zeros(ROWS, index)
    for name in ("eef_pos", "entity_pos", "entity_now", "region_pos"):
        array = getattr(signals, name)
        array[:] = rng.normal(0.0, 0.02, array.shape)
        array[..., 2] += UP_HEIGHT
    yaw = rng.uniform(-np.pi, np.pi, signals.region_mat.shape[:2])
    signals.region_mat[..., 0, 0] = signals.region_mat[..., 1, 1] = np.cos(yaw)
    signals.region_mat[..., 1, 0], signals.region_mat[..., 0, 1] = np.sin(yaw), -np.sin(yaw)
    signals.region_mat[..., 2, 2] = 1.0
    signals.joint_qpos[:] = rng.uniform(-2.0, 2.0, signals.joint_qpos.shape) * rng.choice([0.1, 1.0], (ROWS, 1))
    signals.touch[:] = rng.random(signals.touch.shape) < 0.8
    signals.entity_vel[:] = rng.normal(0.0, 0.05, signals.entity_vel.shape)
    fields = {f.name: getattr(signals, f.name) for f in dataclasses.fields(signals)}
    return Signals(**{n: a if a.dtype == np.bool_ else a.astype(np.float32) for n, a in fields.items()})


def check(success, index: SignalIndex, seed: int) -> None:
    signals = drawn(index, seed)
    compiled = jax.jit(lambda *arrays: success(Signals(*arrays)))
    here, there = np.asarray(success(signals)), np.asarray(compiled(*vars(signals).values()))
    assert 0 < here.sum() < ROWS, "both outcomes occur"
    # A sum that one side rounds at its end and the other on the way may tip a row that lies on a bound to the last bit.
    assert (here != there).sum() <= 1


@every_task
def test_goals_of_the_native_suite_say_the_same_in_numpy_and_jax(name: str):
    _, scene, success = scene_of(name)
    check(success, scene.index, seed=3)


def test_a_goal_that_reads_every_kind_of_signal_says_the_same_in_numpy_and_jax():
    scene, success = arm_scene()
    check(success, scene.index, seed=4)
