"""The cloning probe: what is demonstrated, that the network learns what only pictures show, and the real thing."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from evals.instances import EVALUATION, TRAINING
from mjx_bench.policy import Observation, PolicySpec
from policies.scripted import Reactive
from tests.test_tabletop import scene_of

pytest.importorskip("flax")
pytest.importorskip("optax")

from train.cloning_probe import Clone, error, probe, train
from train.demonstrations import BODY, CAMERAS, LANES, SIDE, Demonstrator, Shots, body_of, joined

H, A = 16, 7


def seen(n: int, rng: np.random.Generator) -> Observation:
    quat = rng.normal(size=(n, 4))
    return Observation(
        task=scene_of("press_button")[0],
        step=np.zeros(n, np.int64),
        eef_pos=rng.normal(size=(n, 3)),
        eef_quat=quat / np.linalg.norm(quat, axis=1, keepdims=True),
        gripper_qpos=np.tile([0.03, -0.03], (n, 1)),
        joint_pos=np.zeros((n, 7)),
        entity_pos=np.zeros((n, 0, 3)),
        entity_quat=np.zeros((n, 0, 4)),
        articulation={},
        images={name: rng.integers(0, 255, (n, SIDE, SIDE, 3)).astype(np.uint8) for name in CAMERAS},
    )


class Constant:
    """Always the same action; its carry counts queries."""

    spec = PolicySpec("constant", H)

    def init(self, task, seed):
        return 0

    def act(self, carries, obs, seeds):
        return np.full((len(carries), H, A), 0.9, np.float32), [n + 1 for n in carries]


def test_the_arms_own_state_is_a_position_two_axes_and_a_gap():
    obs = seen(5, np.random.default_rng(0))
    for row, pos, quat in zip(body_of(obs), obs.eef_pos, obs.eef_quat, strict=True):
        matrix = np.zeros(9)
        mujoco.mju_quat2Mat(matrix, quat)
        np.testing.assert_allclose(row, [*pos, *matrix.reshape(3, 3)[:, :2].T.ravel(), 0.6], atol=1e-6)


def test_a_demonstration_keeps_what_the_expert_answered_and_executes_some_of_it_with_an_error():
    demonstrator, rng = Demonstrator(Constant()), np.random.default_rng(1)
    carries = [demonstrator.init(scene_of("press_button")[0], 0) for _ in range(40)]
    observations = [seen(40, rng), seen(40, rng)]
    for query, obs in enumerate(observations):
        executed, after = demonstrator.act(carries, obs, np.arange(40, dtype=np.uint64) + 100 * query)
        again, _ = demonstrator.act(carries, obs, np.arange(40, dtype=np.uint64) + 100 * query)
        np.testing.assert_array_equal(executed, again)
        astray = (executed != np.float32(0.9)).any((1, 2))
        assert 8 < astray.sum() < 32
        assert np.abs(executed).max() <= 1.0
        np.testing.assert_array_equal(executed[:, :, 3:], np.float32(0.9))
        carries = after
    for lane, (count, queries) in enumerate(carries):
        shots = joined(queries)
        assert count == len(queries) == 2
        assert (shots.chunks == np.float32(0.9)).all()
        for i, obs in enumerate(observations):
            np.testing.assert_array_equal(shots.images[i], [obs.images[name][lane] for name in CAMERAS])
            np.testing.assert_array_equal(shots.body[i], body_of(obs)[lane])


def dots(n: int, rng: np.random.Generator) -> Shots:
    """One picture has a dot, and the answer is where it is; the other picture and the arm's state are noise."""
    at = rng.integers(6, SIDE - 6, (n, 2))
    images = rng.integers(0, 30, (n, len(CAMERAS), SIDE, SIDE, 3)).astype(np.uint8)
    for image, (row, column) in zip(images, at, strict=True):
        image[1, row - 5 : row + 6, column - 5 : column + 6, 0] = 255
    where = (2.0 * at / SIDE - 1.0).astype(np.float32)
    chunks = np.zeros((n, H, A), np.float32)
    chunks[:, :, :2] = where[:, None]
    return Shots(images, rng.normal(size=(n, BODY)).astype(np.float32), chunks)


def test_only_a_network_that_sees_learns_what_only_pictures_show():
    rng = np.random.default_rng(2)
    shots, others = dots(512, rng), dots(64, rng)
    constant = float(np.abs(others.chunks - np.median(shots.chunks, 0)).mean())
    seeing, blind = (train(shots, sees=sees, steps=300, seed=0, batch=16) for sees in (True, False))
    assert error(seeing, others) < 0.35 * constant
    assert error(blind, others) > 0.9 * constant


def test_a_clone_answers_each_row_alike_in_any_company():
    rng = np.random.default_rng(3)
    clone = Clone(train(dots(64, rng), sees=True, steps=2, seed=0))
    obs = seen(LANES, rng)
    assert clone.spec.cameras == CAMERAS
    assert clone.spec.horizon == H
    whole, _ = clone.act([None] * LANES, obs, np.zeros(LANES, np.uint64))
    assert whole.shape == (LANES, H, A)
    first = {f: getattr(obs, f)[:3] for f in ("step", "eef_pos", "eef_quat", "gripper_qpos", "joint_pos")}
    few = Observation(
        task=obs.task,
        entity_pos=obs.entity_pos[:3],
        entity_quat=obs.entity_quat[:3],
        articulation={},
        images={name: picture[:3] for name, picture in obs.images.items()},
        **first,
    )
    np.testing.assert_array_equal(clone.act([None] * 3, few, np.zeros(3, np.uint64))[0], whole[:3])


@pytest.mark.slow
def test_the_expert_can_be_cloned_from_pictures_and_not_without():
    pytest.importorskip("warp")
    task = scene_of("press_button")[0]
    found = probe(task, Reactive(), TRAINING[:120], EVALUATION[:48], 1000, "warp")
    assert found["demonstrations"] >= 115
    assert found["seeing"]["train_error"] < 0.5 * found["constant_error"]
    assert found["seeing"]["error"] < 0.6 * found["constant_error"]
    assert found["seeing"]["solved"] >= 24
    assert max(found["blind"]["solved"], found["zero"], found["random"]) <= 5
