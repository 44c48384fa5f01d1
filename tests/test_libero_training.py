"""LIBERO's instances for training: what its own reset draws, each from its number alone, none of the stored ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("libero", reason="needs the extra: libero")

from evals.libero import training
from evals.libero.cache import Cache
from evals.libero.tasks import load_task
from mjx_bench.engines import engine_of
from train.collect import split

pytestmark = pytest.mark.slow

FIRST = training.TRAINING.start


def test_an_instance_depends_on_its_number_alone(tmp_path: Path):
    caches = [Cache(tmp_path / "a"), Cache(tmp_path / "b")]
    tasks = [load_task("libero_goal", 0, cache=cache) for cache in caches]
    training.prepare(tasks[0], [FIRST, FIRST + 1, FIRST + 2], caches[0])
    training.prepare(tasks[1], [FIRST + 2], caches[1])
    ours, alone = (training.start(task, FIRST + 2, cache) for task, cache in zip(tasks, caches, strict=True))
    np.testing.assert_array_equal(ours[0], alone[0])
    for name, pos in ours[1].fixture_pos.items():
        np.testing.assert_array_equal(pos, alone[1].fixture_pos[name])
    np.testing.assert_array_equal(ours[1].controller.mass_matrix, alone[1].controller.mass_matrix)


@pytest.mark.parametrize("suite", ["libero_object", "libero_goal"])
def test_instances_are_at_rest_and_new(suite: str):
    task = load_task(suite, 0)
    training.prepare(task, range(FIRST, FIRST + 4))
    stored, physics = task.load_init_states(), engine_of(task, "c", 4, "osc_pose", interval=1)
    ids, hold = np.arange(4, dtype=np.int32), np.tile(np.array(task.settle_action), (4, 1))
    for lane in range(4):
        state, reset = training.start(task, FIRST + lane)
        assert state.shape == stored[0].shape
        assert np.abs(np.array([stored[i][1:] for i in range(50)]) - state[1:]).max(1).min() > 1e-3
        physics.load(lane, state, reset)
    for _ in range(task.settle_steps):
        assert not physics.control_step(ids, hold)
    before = physics.kinematics(ids).entity_pos
    for _ in range(10):
        physics.control_step(ids, hold)
    after = physics.kinematics(ids).entity_pos
    physics.close()
    assert np.abs(after - before).max() < 0.005
    objects = [i for i, e in enumerate(task.scene.entities.values()) if e.kind == "object"]
    assert np.ptp(before[:, objects], axis=0).max() > 0.005, "they do not all lie in the same place"


def test_they_are_not_those_of_an_evaluation():
    assert split.evaluation_instances("libero_goal") == range(50)
    assert split.training_instances("libero_goal").start >= 50
    assert split.check_first("libero_10", None, 100) == FIRST
