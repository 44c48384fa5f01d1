"""The model as a policy of the engine: same bits in any company, clear refusals, and a run from end to end."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

pytest.importorskip("flax")
pytest.importorskip("orbax.checkpoint")
pytest.importorskip("sentencepiece")

from mjx_bench.errors import BenchError
from mjx_bench.policy import Policy
from policies import registry
from policies.openpi_inputs import openpi_inputs, state_of
from policies.pi05 import adapters, checkpoint, configs, observing, statistics, tokenizer, weights
from policies.pi05.checkpoint import Checkpoint
from policies.pi05.policy import Episode, Pi05
from scripts import cli
from tests.test_openpi_inputs import noise as pictures_of_noise
from tests.test_openpi_inputs import observation
from tests.test_pi05_model import NANO

CONFIG = dataclasses.replace(NANO, vocabulary=1024, action_dim=24, prompt_tokens=64, subtask_tokens=4)
TABLETOP = adapters.named("tabletop")


def whole(config=CONFIG, **changes):
    stats = statistics.unit(TABLETOP.state, TABLETOP.actions)
    return dataclasses.replace(
        Checkpoint(config, weights.random_weights(config, 1), stats, tokenizer.small()), **changes
    )


@pytest.fixture(scope="module")
def policy():
    made = Pi05(whole(), "nano", tile=4, steps=3)
    made.prepare([])
    return made


def queries(lanes, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "carries": [Episode()] * lanes,
        "pictures": [*rng.integers(0, 256, (2, lanes, 16, 16, 3), np.uint8), None],
        "state": rng.uniform(-1.0, 1.0, (lanes, 8)),
        "prompts": [f"lift block {i}" for i in range(lanes)],
        "seeds": rng.integers(0, 2**63, lanes, np.uint64) * np.uint64(2),
    }


def lanes_of(query, rows):
    return {
        "carries": [query["carries"][i] for i in rows],
        "pictures": [None if p is None else p[rows] for p in query["pictures"]],
        "state": query["state"][rows],
        "prompts": [query["prompts"][i] for i in rows],
        "seeds": query["seeds"][rows],
    }


def test_a_lane_s_actions_do_not_depend_on_its_company(policy):
    query = queries(11)
    actions, after = policy.infer(**query)
    assert actions.shape == (11, CONFIG.horizon, 7)
    assert actions.dtype == np.float32
    assert [carry.query for carry in after] == [1] * 11
    assert [carry.query for carry in query["carries"]] == [0] * 11
    for rows in ([3], [10, 0], list(range(10, -1, -1))):
        np.testing.assert_array_equal(policy.infer(**lanes_of(query, rows))[0], actions[rows])
    assert policy._run._cache_size() == 1, "one program for any number of lanes, made before the first query"


def test_everything_that_is_given_shows_in_the_actions(policy):
    query = queries(1)
    before = policy.infer(**query)[0]
    wrist = [query["pictures"][0], 255 - query["pictures"][1], None]
    for change in (
        {"pictures": wrist},
        {"state": query["state"] + 0.1},
        {"prompts": ["open the drawer"]},
        {"seeds": query["seeds"] + np.uint64(1)},
    ):
        assert np.abs(policy.infer(**(query | change))[0] - before).max() > 1e-4, change.keys()
    np.testing.assert_array_equal(policy.infer(**query)[0], before)


def test_noise_comes_from_the_seed_of_the_query(policy):
    want = np.random.default_rng(77).standard_normal((5, 24), np.float32)
    np.testing.assert_array_equal(policy.noise(77), want)
    assert policy.noise(77).dtype == np.float32


def test_actions_come_back_in_the_robot_s_units_and_within_bounds(policy):
    table = {"mean": [0.0] * 7, "std": [1.0] * 7, "q01": [-0.01] * 6 + [0.2], "q99": [0.01] * 6 + [0.2]}
    stats = dataclasses.replace(whole().stats, tables={"state": whole().stats.tables["state"], "actions": table})
    query = queries(3)
    scaled = Pi05(whole(stats=stats), "nano", tile=4, steps=3).infer(**query)[0]
    plain = policy.infer(**query)[0]
    assert np.abs(plain).max() <= 1.0
    inside = np.abs(plain[..., :6]) < 1.0
    np.testing.assert_allclose(scaled[..., :6][inside], 0.01 * plain[..., :6][inside], rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(scaled[..., 6], 0.2, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"state": np.full((1, 8), np.nan)}, "must be finite numbers .* with a value that is not finite"),
        ({"state": np.full((1, 8), 1e300)}, r"the state lies 1e\+300 times its span away"),
        ({"state": np.zeros((1, 9))}, "a state of tabletop has 8 numbers, not"),
        ({"pictures": [np.zeros((1, 16, 16, 3), np.float32), None, None]}, "must be uint8 .*not float32"),
        ({"pictures": [np.full((1, 16, 16, 3), np.nan), None, None]}, "float64 .* with a value that is not finite"),
        ({"pictures": [np.zeros((1, 16, 16, 4), np.uint8), None, None]}, r"not uint8 \[1, 16, 16, 4\]"),
    ],
)
def test_what_cannot_be_used_is_one_request_s_own_fault(policy, change, message):
    with pytest.raises(observing.Unusable, match=message):
        policy.infer(**(queries(1) | change))


def test_each_lane_is_asked_in_the_words_of_its_instance(policy, monkeypatch):
    asked = []
    monkeypatch.setattr(policy, "infer", lambda carries, pictures, state, prompts, seeds: asked.append(prompts))
    task = type("Told", (), {"instruction_of": lambda self, row: f"lift block {row}"})()
    small = {camera: np.zeros((2, 16, 16, 3), np.uint8) for camera in ("agentview", "robot0_eye_in_hand")}
    policy.act([Episode()] * 2, observation(small, task=task, instance=np.array([5, 2])), np.zeros(2, np.uint64))
    assert asked == [["lift block 5", "lift block 2"]]


def test_a_missing_camera_is_named(policy):
    obs = observation({"agentview": np.zeros((1, 16, 16, 3), np.uint8)})
    with pytest.raises(observing.Unusable, match="no picture of robot0_eye_in_hand; there are agentview"):
        policy.act([Episode()], obs, np.zeros(1, np.uint64))


def test_what_a_libero_model_sees_is_what_openpi_s_client_sends():
    obs = dataclasses.replace(
        observation(pictures_of_noise(2)),
        eef_pos=np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]]),
        eef_quat=np.array([[0.5, 0.5, -0.5, 0.5], [0.0, 1.0, 0.0, 0.0]]),
    )
    config = configs.named("pi05_libero")
    words, scale = tokenizer.small(), whole().stats.scale("state", "quantile")
    pictures = observing.pictures_of(obs, adapters.LIBERO)
    inputs = observing.inputs_of(config, words, scale, pictures, state_of(obs), ["lift"] * 2)
    assert inputs.image_mask.tolist() == [[True, True, False]] * 2
    for lane, sent in enumerate(openpi_inputs(obs)):
        np.testing.assert_array_equal(inputs.images[lane, 0], sent["observation/image"])
        np.testing.assert_array_equal(inputs.images[lane, 1], sent["observation/wrist_image"])
        assert not inputs.images[lane, 2].any()
        np.testing.assert_allclose(inputs.state[lane, :8], sent["observation/state"], atol=1e-5)
        assert not inputs.state[lane, 8:].any()
    assert inputs.tokens[0][inputs.token_mask[0]].tolist() == words.encode("lift", begin=True) + words.encode("\n")


def test_a_subtask_is_said_before_acting_and_does_not_depend_on_company():
    said = Pi05(whole(), "nano", tile=4, steps=2, subtasks="drawn")
    query = queries(3)
    actions, after = said.infer(**query)
    alone, after_alone = said.infer(**lanes_of(query, [2]))
    np.testing.assert_array_equal(alone[0], actions[2])
    assert after_alone[0].subtask == after[2].subtask
    assert len({carry.subtask for carry in after}) > 1
    with pytest.raises(BenchError, match="nano predicts no subtasks"):
        Pi05(whole(dataclasses.replace(CONFIG, subtask_tokens=0)), "nano", subtasks="greedy")


def test_a_policy_without_what_it_needs_is_refused(tmp_path):
    with pytest.raises(BenchError, match="nano has no statistics of its data"):
        Pi05(whole(stats=None), "nano")
    other = statistics.unit(adapters.named("roboquest").state, TABLETOP.actions)
    with pytest.raises(BenchError, match="nano, state: the statistics were made from eef_in_base_x"):
        Pi05(whole(stats=other), "nano")
    elsewhere = dataclasses.replace(CONFIG, adapter="agibot_g1")
    robot = adapters.named("agibot_g1")
    made = Pi05(whole(elsewhere, stats=statistics.unit(robot.state, robot.actions)), "nano")
    with pytest.raises(BenchError, match="nano is for agibot_g1, which is in none of these scenes"):
        made.prepare([])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("pi05_tiny", "needs weights: pi05:DIR"),
        ("pi05:", "needs weights: pi05:DIR"),
        ("pi05_tiny:trained", "needs weights: pi05:DIR"),
        ("pi05:nowhere", "nowhere is no folder"),
        ("pi05_tinny:random", "did you mean pi05_tiny"),
        ("pi05_base:random", "needs PaliGemma's tokenizer"),
    ],
)
def test_names_that_make_no_policy(name, message):
    with pytest.raises(BenchError, match=message):
        registry.make(name)


def test_named_policies_keep_the_contract(tmp_path):
    checkpoint.save(tmp_path / "c", whole())
    for name, horizon in (("pi05_tiny:random", 16), (f"pi05:{tmp_path / 'c'}", CONFIG.horizon)):
        made = registry.make(name)
        assert isinstance(made, Policy)
        assert (made.spec.name, made.spec.horizon, made.spec.action_mode) == (name, horizon, "osc_pose")
        assert made.spec.cameras == ("agentview", "robot0_eye_in_hand")


@pytest.mark.slow
def test_a_run_from_pictures_to_a_report_is_the_same_at_any_width(tmp_path, capsys):
    pytest.importorskip("warp")
    command = ["pair", "--suite", "tabletop", "--pairs", "2", "--policy", "pi05_tiny:random", "--renderer", "warp"]
    seen = []
    for lanes in ("1", "4"):
        out = tmp_path / lanes
        assert cli.main([*command, "--lanes", lanes, "--out", str(out)]) == 0
        records = [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]
        assert {record["verdict"] for record in records} <= {"success", "timeout"}
        seen.append({(r["case_id"], r["arm"]): r["arrays"]["actions"]["sha256"] for r in records})
    assert len(seen[0]) == 4
    assert seen[0] == seen[1]
