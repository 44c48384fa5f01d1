"""What stands between a robot and the model: statistics, robots as data, and prompts."""

from __future__ import annotations

import dataclasses
import importlib.util

import numpy as np
import pytest

pytest.importorskip("flax")
pytest.importorskip("sentencepiece")

import sentencepiece

from evals import registry
from mjx_bench.errors import BenchError
from policies.pi05 import adapters, configs, statistics, tokenizer
from policies.pi05.statistics import Scale, Statistics
from train import tokenizer as tokenizer_training

NAMES = ("a", "b", "c")
TABLE = {
    "mean": [1.0, 0.0, 5.0],
    "std": [2.0, 0.5, 0.0],
    "q01": [-1.0, 10.0, 5.0],
    "q99": [3.0, 30.0, 5.0],
}
STATS = Statistics({"state": TABLE, "actions": TABLE}, "quantile", {"state": NAMES, "actions": NAMES})


def test_quantiles_map_to_the_ends_and_back():
    scale = STATS.scale("state", "quantile")
    x = np.array([[-1.0, 30.0, 5.0], [1.0, 20.0, 5.0]])
    np.testing.assert_allclose(scale.normalise(x), [[-1.0, 1.0, -1.0], [0.0, 0.0, -1.0]], atol=1e-6)
    np.testing.assert_allclose(scale.restore(scale.normalise(x)), x, atol=1e-6)
    # By openpi's formula, epsilon included, and without clipping.
    assert scale.normalise(np.array([11.0]))[0] == (11.0 + 1.0) / (4.0 + 1e-6) * 2.0 - 1.0


def test_z_scores_and_their_way_back():
    scale = dataclasses.replace(STATS, kind=None).scale("state", "zscore")
    x = np.array([[3.0, -0.5, 5.0]])
    np.testing.assert_allclose(scale.normalise(x), [[1.0, -1.0, 0.0]], atol=1e-5)
    np.testing.assert_allclose(scale.restore(scale.normalise(x)), x, atol=1e-6)


@pytest.mark.parametrize(("kind", "constant"), [("quantile", -1.0), ("zscore", 0.0)])
def test_a_constant_dimension_never_explodes(kind, constant):
    scale = dataclasses.replace(STATS, kind=None).scale("state", kind)
    assert scale.flat.tolist() == [False, False, True]
    seen = scale.normalise(np.array([[1.0, 20.0, 5.0], [1.0, 20.0, 5.0 + 1.6e-3], [1.0, 20.0, -40.0]]))
    assert seen[:, 2].tolist() == [constant] * 3
    unguarded = (1.6e-3 / (0.0 + 1e-6)) * 2.0 - 1.0
    assert unguarded > 3000  # what it would be
    np.testing.assert_allclose(scale.restore(np.array([[0.0, 0.0, 0.7]]))[0, 2], 5.0, atol=1e-5)


def test_padding_beyond_the_statistics_is_left_alone():
    restored = STATS.scale("actions", "quantile").restore(np.full((2, 5), 0.25))
    assert restored.shape == (2, 5)
    assert restored[:, 3:].tolist() == [[0.25, 0.25]] * 2
    scale = dataclasses.replace(STATS, kind=None).scale("actions", "zscore")
    np.testing.assert_allclose(scale.restore(np.full(5, 0.25))[3:], 0.25, rtol=1e-5)


def test_statistics_go_through_a_file_with_their_kind_and_features(tmp_path):
    path = tmp_path / "assets" / "x" / "norm_stats.json"
    statistics.write(path, STATS)
    assert statistics.read(path) == STATS


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "zscore"}, "of kind zscore, and the model is normalised by quantile"),
        ({"tables": {"actions": TABLE}}, "no statistics of 'state'"),
        ({"tables": {"state": TABLE | {"q99": None}}}, "state have no q99"),
        ({"tables": {"state": TABLE | {"q99": [1.0, 2.0]}}}, "3 and 2 numbers"),
        ({"tables": {"state": TABLE | {"q01": [0.0, 40.0, 0.0]}}}, "q99 below q01 in dimension 1"),
        ({"tables": {"state": TABLE | {"q01": [0.0, float("nan"), 0.0]}}}, "no list of finite numbers"),
    ],
)
def test_wrong_statistics_are_refused(change, message):
    with pytest.raises(BenchError, match=message):
        dataclasses.replace(STATS, **change).scale("state", "quantile")


def test_statistics_of_other_features_are_refused():
    scale = STATS.scale("state", "quantile")
    scale.check("state", NAMES)
    with pytest.raises(BenchError, match="made from c, where d is needed"):
        scale.check("state", ("a", "b", "d"))
    with pytest.raises(BenchError, match="made from c, where None is needed"):
        scale.check("state", ("a", "b"))
    unnamed = Scale("quantile", np.zeros(3), np.ones(3))
    unnamed.check("state", ("a", "b"))  # openpi cuts them to length
    with pytest.raises(BenchError, match="of 3 dimensions, and 4 are needed"):
        unnamed.check("state", ("a", "b", "c", "d"))


def test_a_file_of_something_else_is_refused(tmp_path):
    (tmp_path / "a.json").write_text('{"state": {}}')
    with pytest.raises(BenchError, match="no statistics as openpi writes them: KeyError"):
        statistics.read(tmp_path / "a.json")
    with pytest.raises(BenchError, match="FileNotFoundError"):
        statistics.read(tmp_path / "b.json")


@pytest.mark.parametrize(
    ("name", "state", "actions"), [("libero", 8, 7), ("tabletop", 8, 7), ("roboquest", 16, 12), ("agibot_g1", 23, 22)]
)
def test_robots_have_their_published_sizes(name, state, actions):
    adapter = adapters.named(name)
    assert (len(adapter.state), len(adapter.actions)) == (state, actions)
    assert len(set(adapter.state)) == state
    assert len(set(adapter.actions)) == actions
    assert all(config.adapter in adapters.ADAPTERS for config in configs.CONFIGS.values())
    with pytest.raises(BenchError, match="did you mean roboquest"):
        adapters.named("roboqest")


def test_relative_actions_come_back_absolute():
    adapter = adapters.named("libero_relative")
    rng = np.random.default_rng(0)
    state, actions = rng.normal(size=(2, 8)), rng.normal(size=(2, 5, 7))
    to_model = adapter.to_model(actions, state)
    np.testing.assert_allclose(to_model[1, 3, :6], actions[1, 3, :6] - state[1, :6])
    assert to_model[1, 3, 6] == actions[1, 3, 6]  # the gripper is not relative
    padded = np.pad(to_model, ((0, 0), (0, 0), (0, 25)))
    np.testing.assert_allclose(adapter.from_model(padded, state), actions)


def test_states_are_written_in_256_bins():
    values = [-1.1, -1.0, -1.0 + 1 / 128, -0.001, 0.0, 0.999, 1.0, 7.0]
    assert tokenizer.bins(np.array(values)).tolist() == [-1, 0, 1, 127, 128, 255, 255, 255]


def test_prompts_are_openpi_s(caplog):
    seen = []

    class Recorder:
        def encode(self, text, begin=False):
            seen.append((text, begin))
            return [7, 8]

    base = configs.named("pi05_base")
    state = np.array([-1.0, 0.0, 2.0])
    assert tokenizer.prompt(Recorder(), base, " pick_up the\nCup ", state) == [7, 8]
    assert seen == [("Task: pick up the Cup, State: 0 128 255;\nAction: ", True)]
    seen.clear()
    assert tokenizer.prompt(Recorder(), configs.named("pi05_libero"), "lift", state) == [7, 8, 7, 8]
    assert seen == [("lift", True), ("\n", False)]
    short = dataclasses.replace(base, prompt_tokens=1)
    assert not caplog.records
    assert tokenizer.prompt(Recorder(), short, "lift", state) == [7]
    assert "'lift': 2 tokens, cut off at 1" in caplog.text


def test_prompts_are_padded_on_the_right():
    tokens, mask = tokenizer.padded([[5, 6], [], [7]], 3)
    assert tokens.tolist() == [[5, 6, 0], [0, 0, 0], [7, 0, 0]]
    assert mask.tolist() == [[True, True, False], [False] * 3, [True, False, False]]


def test_a_subtask_begins_and_ends():
    words = tokenizer.small()
    taught = tokenizer.subtasks(words, configs.TINY, ["grasp_the red block", "lift"])
    length = int(taught.mask[0].sum())
    assert int(taught.inputs[0, 0]) == configs.BOS
    assert taught.inputs[0, 1:length].tolist() == taught.targets[0, : length - 1].tolist()
    assert int(taught.targets[0, length - 1]) == configs.EOS
    assert words.decode(taught.targets[0].tolist()).strip() == "grasp the red block"
    with pytest.raises(BenchError, match="pi05_base predicts no subtasks"):
        tokenizer.subtasks(words, configs.PI05_BASE, ["lift"])


def test_the_small_tokenizer_says_whatever_there_is_to_say():
    words = tokenizer.small()
    assert words.size == configs.SMALL.vocabulary
    assert words.encode("lift", begin=True)[0] == configs.BOS
    texts = {name: [row["instruction"] for row in registry.task_table(name)] for name in ("tabletop", "roboquest")}
    for text in [*texts["tabletop"], *texts["roboquest"], "Größe: 12 µm, 工具!"]:
        assert words.decode(words.encode(text)).strip() == text
    # Of the robot that the small models are for.
    longest = [
        max(texts["tabletop"], key=len),
        "put both the alphabet soup and the tomato sauce in the basket of the kitchen",
    ]
    for text in longest:
        assert len(tokenizer.prompt(words, configs.TINY, text, np.full(23, 0.9))) < configs.TINY.prompt_tokens


def test_the_wrong_tokenizer_is_refused(tmp_path):
    words = tokenizer.small()
    assert tokenizer.fitting(configs.TINY, None) is words
    with pytest.raises(BenchError, match="needs PaliGemma's tokenizer, which is not in this package"):
        tokenizer.fitting(configs.PI05_BASE, None)
    with pytest.raises(BenchError, match="1024 tokens, and pi05_tiny has 512"):
        tokenizer.fitting(dataclasses.replace(configs.TINY, vocabulary=512), None)
    other = tmp_path / "other.model"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["some other words", "and more of them"] * 20),
        model_prefix=str(other.with_suffix("")),
        vocab_size=30,
        model_type="bpe",
        hard_vocab_limit=False,
        minloglevel=2,
        **{"pad_id": 0, "eos_id": 1, "bos_id": 2, "unk_id": 3},
    )
    with pytest.raises(BenchError, match=r"has the tokenizer of this package, and .*other.model is another"):
        tokenizer.fitting(configs.TINY, tokenizer.load(other))
    assert tokenizer.fitting(configs.PI05_BASE, tokenizer.load(other)).size == 30
    other.write_bytes(b"no model")
    with pytest.raises(BenchError, match="no SentencePiece model"):
        tokenizer.load(other)
    with pytest.raises(BenchError, match="no tokenizer"):
        tokenizer.load(tmp_path / "absent.model")


@pytest.mark.skipif(importlib.util.find_spec("libero") is None, reason="its corpus needs LIBERO's instructions")
def test_the_small_tokenizer_can_be_made_again():
    made = tokenizer.Tokenizer(tokenizer_training.train(tokenizer_training.corpus()), "made again")
    assert made.size == configs.SMALL.vocabulary
    assert made.encode("put the bowl on the stove, State: 17 255;\nAction: ") == tokenizer.small().encode(
        "put the bowl on the stove, State: 17 255;\nAction: "
    )
