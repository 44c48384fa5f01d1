"""Checkpoints in openpi's layout and under PyTorch's names: what is read back, and what is refused by name."""

from __future__ import annotations

import dataclasses
import json
import logging
from pathlib import Path

import jax
import numpy as np
import pytest

pytest.importorskip("flax")
pytest.importorskip("orbax.checkpoint")
pytest.importorskip("safetensors")
pytest.importorskip("sentencepiece")

import orbax.checkpoint as ocp
from safetensors.numpy import save_file

from mjx_bench.errors import BenchError
from policies.pi05 import (
    adapters,
    checkpoint,
    configs,
    lerobot_stats,
    params_item,
    statistics,
    tokenizer,
    torch_names,
    weights,
)
from policies.pi05.checkpoint import Checkpoint
from scripts import policy as command
from tests.test_pi05_model import NANO, NANO_PI0

# The names of openpi, as wide as a test can bear; the tokenizer is the one that is here.
SMALL_VOCABULARY = dataclasses.replace(NANO, vocabulary=1024)
STATE, ACTIONS = adapters.named("tabletop").state, adapters.named("tabletop").actions


def whole(config=SMALL_VOCABULARY):
    return Checkpoint(config, weights.random_weights(config, 1), statistics.unit(STATE, ACTIONS), tokenizer.small())


def same(tree, other):
    mine, theirs = weights.flat(tree), weights.flat(other)
    assert list(mine) == list(theirs)
    for name, leaf in mine.items():
        np.testing.assert_array_equal(leaf, theirs[name], err_msg=name)


def written(path, tree):
    """An item `params` as orbax writes it when nobody helps."""
    logging.getLogger("absl").setLevel(logging.ERROR)
    with ocp.PyTreeCheckpointer() as writer:
        writer.save(path / "params", tree)
    return path


def test_a_checkpoint_comes_back_as_it_was(tmp_path):
    saved = whole()
    checkpoint.save(tmp_path / "100", saved)
    found = checkpoint.load(tmp_path / "100")
    same(found.tree, saved.tree)
    assert found.config == saved.config
    assert found.words.sha256 == saved.words.sha256
    assert found.stats.features == {"state": STATE, "actions": ACTIONS}


def test_the_layout_is_openpi_s(tmp_path):
    checkpoint.save(tmp_path / "100", whole())
    names = {path.relative_to(tmp_path / "100").as_posix() for path in (tmp_path / "100").rglob("*")}
    assert {"params/_METADATA", "params/manifest.ocdbt", "params/d", "_CHECKPOINT_METADATA"} <= names
    assert "assets/mjx-bench/norm_stats.json" in names
    with ocp.PyTreeCheckpointer() as reader:
        stored = reader.restore(tmp_path / "100" / "params")
    assert set(stored) == {"params"}
    leaves = weights.flat(stored["params"])
    assert all(name.endswith("/value") for name in leaves)
    assert {name.removesuffix("/value") for name in leaves} == set(weights.flat(whole().tree))
    stats = json.loads((tmp_path / "100/assets/mjx-bench/norm_stats.json").read_text())
    assert set(stats["norm_stats"]) == {"state", "actions"}
    assert set(stats["norm_stats"]["state"]) == {"mean", "std", "q01", "q99"}


@pytest.mark.parametrize("config", [NANO, NANO_PI0], ids=["pi05", "pi0"])
@pytest.mark.parametrize("wrapped", [False, True])
def test_both_forms_of_openpi_s_own_are_read(tmp_path, config, wrapped):
    tree = weights.random_weights(config, 3)
    stored = jax.tree.map(lambda leaf: {"value": jax.numpy.asarray(leaf)}, tree) if wrapped else tree
    same(params_item.read(written(tmp_path, {"params": stored}) / "params", config), tree)


def test_what_does_not_fit_is_listed_in_full(tmp_path):
    leaves = weights.flat(weights.random_weights(NANO, 0))
    del leaves["action_in_proj/bias"], leaves["PaliGemma/img/head/kernel"]
    leaves["action_out_proj/kernel"] = np.zeros((24, 7), np.float32)
    leaves["PaliGemma/llm/layers/attn/q_einsum/lora_a"] = np.zeros(3, np.float32)
    written(tmp_path, {"params": weights.nested(leaves)})
    with pytest.raises(BenchError) as error:
        params_item.read(tmp_path / "params", NANO)
    message = str(error.value)
    assert "2 missing: PaliGemma/img/head/kernel, action_in_proj/bias" in message
    assert "1 unknown: PaliGemma/llm/layers/attn/q_einsum/lora_a" in message
    assert "1 of another shape: action_out_proj/kernel [24, 7] where [24, 6] is expected" in message
    with pytest.raises(BenchError, match=r"11 missing: .*action_time_mlp_in/bias.*; 11 unknown: .*time_mlp_in/bias"):
        params_item.read(tmp_path / "params", NANO_PI0)


def test_a_folder_that_says_nothing_must_be_told_what_it_is(tmp_path):
    written(tmp_path, {"params": weights.random_weights(NANO, 0)})
    with pytest.raises(BenchError, match=r"does not say which configuration.*pi05_libero"):
        checkpoint.load(tmp_path)
    with pytest.raises(BenchError, match="did you mean pi05_libero"):
        checkpoint.load(tmp_path, config="pi05_liber")
    with pytest.raises(BenchError, match="pi05_libero needs PaliGemma's tokenizer"):
        checkpoint.load(tmp_path, config="pi05_libero")
    with pytest.raises(BenchError, match=r"is no checkpoint of pi05_tiny: .*of another shape"):
        checkpoint.load(tmp_path, config="pi05_tiny")
    with pytest.raises(BenchError, match="expected the single top key 'params'"):
        params_item.read(written(tmp_path / "b", {"weights": np.zeros(2)}) / "params", NANO)
    with pytest.raises(BenchError, match="no orbax item"):
        params_item.read(tmp_path, NANO)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("tokenizer_sha256", "0" * 64, "was made with another tokenizer than small_tokenizer.model"),
        ("normalisation", "zscore", "is normalised by zscore, and nano by quantile"),
        ("version", 2, "version 2, expected 1"),
        ("config", {"name": "x"}, "not a configuration of this version"),
        ("config", None, "not a configuration of this version"),
        ("config", dataclasses.asdict(SMALL_VOCABULARY) | {"depth": "x"}, "not a configuration .*: depth = 'x'"),
        (
            "config",
            dataclasses.asdict(SMALL_VOCABULARY) | {"dtype": "float7"},
            "not a configuration .*: dtype = 'float7'",
        ),
    ],
)
def test_what_the_note_says_is_checked(tmp_path, key, value, message):
    checkpoint.save(tmp_path / "a", whole())
    path = tmp_path / "a" / checkpoint.NOTE
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    with pytest.raises(BenchError, match=message):
        checkpoint.load(tmp_path / "a")


def test_a_note_that_is_no_object_and_weights_that_are_not_finite(tmp_path):
    saved = whole()
    leaves = weights.flat(saved.tree)
    name = next(iter(leaves))
    checkpoint.save(
        tmp_path / "b", dataclasses.replace(saved, tree=weights.nested(leaves | {name: leaves[name] * np.nan}))
    )
    with pytest.raises(BenchError, match=f"weights that are not finite: {name}"):
        checkpoint.load(tmp_path / "b")
    (tmp_path / "b" / checkpoint.NOTE).write_text("[1]")
    with pytest.raises(BenchError, match="a JSON object is expected, not list"):
        checkpoint.load(tmp_path / "b")


def test_statistics_of_the_wrong_length_are_refused_before_anything_is_written(tmp_path, capsys):
    saved = whole(dataclasses.replace(SMALL_VOCABULARY, adapter="tabletop"))
    for numbers, message in (([0.0], "1 numbers for 8 features"), (["x"] * 8, "q01 is no list of finite numbers")):
        table = saved.stats.tables["state"] | {"q01": numbers, "q99": numbers}
        stats = dataclasses.replace(saved.stats, tables={**saved.stats.tables, "state": table})
        folder = tmp_path / message[0]
        checkpoint.save(folder, dataclasses.replace(saved, stats=stats))
        with pytest.raises(BenchError, match=message):
            command.run(command.PolicyFiles("import", folder, out=tmp_path / "out"), print)
        assert not (tmp_path / "out").exists()


def test_tensors_that_do_not_fit_are_told_by_show_too(tmp_path):
    saved = whole(dataclasses.replace(SMALL_VOCABULARY, adapter="tabletop"))
    checkpoint.save(tmp_path / "a", saved)
    note = tmp_path / "a" / checkpoint.NOTE
    data = json.loads(note.read_text())
    data["config"]["depth"] += 1
    note.write_text(json.dumps(data))
    with pytest.raises(BenchError, match="of another shape"):
        command.run(command.PolicyFiles("show", tmp_path / "a"), print)
    data["config"]["depth"] -= 1
    note.write_text(json.dumps(data))
    with pytest.raises(BenchError, match="cannot be written"):
        command.run(command.PolicyFiles("import", tmp_path / "a", out=Path("/proc/x")), print)


def test_another_configuration_or_a_folder_in_use_is_refused(tmp_path):
    checkpoint.save(tmp_path / "a", whole())
    with pytest.raises(BenchError, match="is a checkpoint of nano, not of pi05_tiny"):
        checkpoint.load(tmp_path / "a", config="pi05_tiny")
    with pytest.raises(BenchError, match="is not empty"):
        checkpoint.save(tmp_path / "a", whole())
    wrong = dataclasses.replace(whole(), tree=weights.random_weights(NANO_PI0, 0))
    with pytest.raises(BenchError, match="4 missing: time_mlp_in/bias"):
        checkpoint.save(tmp_path / "b", dataclasses.replace(wrong, tree=_without_time(wrong.tree)))


def _without_time(tree):
    leaves = weights.flat(weights.random_weights(SMALL_VOCABULARY, 0))
    return weights.nested({name: leaf for name, leaf in leaves.items() if not name.startswith("time_mlp")})


def test_statistics_of_several_datasets_must_be_chosen_among(tmp_path):
    checkpoint.save(tmp_path / "a", whole())
    note = tmp_path / "a" / checkpoint.NOTE
    fields = json.loads(note.read_text())
    del fields["asset"]
    note.write_text(json.dumps(fields))
    other = statistics.unit(STATE[:3], ACTIONS)
    statistics.write(tmp_path / "a/assets/physical-intelligence/libero/norm_stats.json", other)
    with pytest.raises(BenchError, match="has statistics of mjx-bench, physical-intelligence/libero; name one"):
        checkpoint.load(tmp_path / "a")
    found = checkpoint.load(tmp_path / "a", asset="physical-intelligence/libero")
    assert found.stats.features["state"] == STATE[:3]


# Of the first layers, as LeRobot's files have them.
PUBLISHED = {
    "model.paligemma_with_expert.paligemma.lm_head.weight": [32, 32],
    "model.paligemma_with_expert.paligemma.model.vision_tower.vision_model.embeddings.patch_embedding.weight": [
        24,
        3,
        8,
        8,
    ],
    "model.paligemma_with_expert.paligemma.model.vision_tower.vision_model.embeddings.position_embedding.weight": [
        4,
        24,
    ],
    "model.paligemma_with_expert.paligemma.model.vision_tower.vision_model.encoder.layers.0.layer_norm1.weight": [24],
    "model.paligemma_with_expert.paligemma.model.vision_tower.vision_model.encoder.layers.0.self_attn.out_proj.bias": [
        24
    ],
    "model.paligemma_with_expert.paligemma.model.vision_tower.vision_model.encoder.layers.1.mlp.fc1.weight": [32, 24],
    "model.paligemma_with_expert.paligemma.model.vision_tower.vision_model.post_layernorm.bias": [24],
    "model.paligemma_with_expert.paligemma.model.multi_modal_projector.linear.weight": [32, 24],
    "model.paligemma_with_expert.paligemma.model.language_model.layers.0.self_attn.q_proj.weight": [32, 32],
    "model.paligemma_with_expert.paligemma.model.language_model.layers.0.self_attn.k_proj.weight": [16, 32],
    "model.paligemma_with_expert.paligemma.model.language_model.layers.0.self_attn.o_proj.weight": [32, 32],
    "model.paligemma_with_expert.paligemma.model.language_model.layers.1.post_attention_layernorm.weight": [32],
    "model.paligemma_with_expert.paligemma.model.language_model.norm.weight": [32],
    "model.paligemma_with_expert.gemma_expert.model.layers.0.input_layernorm.dense.weight": [72, 24],
    "model.paligemma_with_expert.gemma_expert.model.layers.0.mlp.gate_proj.weight": [40, 24],
    "model.paligemma_with_expert.gemma_expert.model.layers.0.mlp.down_proj.weight": [24, 40],
    "model.paligemma_with_expert.gemma_expert.model.norm.dense.bias": [72],
    "model.action_in_proj.weight": [24, 6],
    "model.time_mlp_out.bias": [24],
}


def test_pytorch_s_names_and_shapes():
    tensors = torch_names.to_torch(weights.random_weights(NANO, 0), NANO)
    assert {name: list(tensors[name].shape) for name in PUBLISHED} == PUBLISHED
    tower, trunk, expert, heads = 3 + 2 * 16 + 2 + 2, 1 + 2 * 9 + 1, 2 * 11 + 2, 8
    assert len(tensors) == tower + trunk + expert + heads


def test_a_state_that_is_a_token_of_its_own_goes_out_and_in():
    config = dataclasses.replace(NANO, state_token=True)
    tree = weights.random_weights(config, 0)
    assert "state_proj/kernel" in weights.flat(tree)
    tensors = torch_names.to_torch(tree, config)
    assert "model.state_proj.weight" in tensors
    same(torch_names.from_torch(tensors, config, "here"), tree)


def test_pytorch_s_weights_compute_the_same():
    tree = weights.random_weights(NANO, 0)
    leaves, tensors = weights.flat(tree), torch_names.to_torch(tree, NANO, prefix="")
    x = np.random.default_rng(0).normal(size=32)
    layer = "paligemma_with_expert.paligemma.model.language_model.layers.1."
    query = np.einsum("d,ndh->nh", x, leaves["PaliGemma/llm/layers/attn/q_einsum/w"][1])
    np.testing.assert_allclose(tensors[f"{layer}self_attn.q_proj.weight"] @ x, query.ravel(), rtol=1e-5)
    value = np.einsum("d,kdh->kh", x, leaves["PaliGemma/llm/layers/attn/kv_einsum/w"][1, 1])
    np.testing.assert_allclose(tensors[f"{layer}self_attn.v_proj.weight"] @ x, value.ravel(), rtol=1e-5)
    out = np.einsum("nh,nhd->d", query, leaves["PaliGemma/llm/layers/attn/attn_vec_einsum/w"][1])
    np.testing.assert_allclose(tensors[f"{layer}self_attn.o_proj.weight"] @ query.ravel(), out, rtol=1e-4)
    up = x @ leaves["PaliGemma/llm/layers/mlp/gating_einsum"][1, 1]
    np.testing.assert_allclose(tensors[f"{layer}mlp.up_proj.weight"] @ x, up, rtol=1e-4)
    patch = np.random.default_rng(1).normal(size=(8, 8, 3))
    theirs = tensors[
        "paligemma_with_expert.paligemma.model.vision_tower.vision_model.embeddings.patch_embedding.weight"
    ]
    ours = np.tensordot(patch, leaves["PaliGemma/img/embedding/kernel"], 3)
    np.testing.assert_allclose(np.tensordot(theirs, patch.transpose(2, 0, 1), 3), ours, rtol=1e-4)


@pytest.mark.parametrize("config", [NANO, NANO_PI0], ids=["pi05", "pi0"])
@pytest.mark.parametrize("form", ["lerobot", "openpi", "table", "old"])
def test_a_pytorch_file_is_read_in_every_form(tmp_path, config, form):
    tree = weights.random_weights(config, 2)
    tensors = torch_names.to_torch(tree, config, prefix="" if form == "openpi" else "model.")
    base = "model.paligemma_with_expert.paligemma."
    if form == "table":
        tensors[f"{base}model.language_model.embed_tokens.weight"] = tensors.pop(f"{base}lm_head.weight")
    if form == "old":
        moved = (("model.vision_tower.", "vision_tower."), ("model.language_model.", "language_model.model."))
        for new, old in (*moved, ("model.multi_modal", "multi_modal"), ("lm_head.", "language_model.lm_head.")):
            tensors = {name.replace(base + new, base + old): tensor for name, tensor in tensors.items()}
        tensors["normalize_inputs.buffer_observation_state.mean"] = np.zeros(8, np.float32)
    tensors[f"{'' if form == 'openpi' else 'model.'}paligemma_with_expert.gemma_expert.lm_head.weight"] = np.zeros(
        (2, 2)
    )
    save_file(tensors, tmp_path / "model.safetensors")
    same(torch_names.load(tmp_path / "model.safetensors", config), tree)


def test_a_pytorch_file_that_does_not_fit_is_refused_by_name(tmp_path):
    tensors = torch_names.to_torch(weights.random_weights(NANO, 2), NANO)
    del tensors["model.action_in_proj.bias"]
    tensors["model.state_proj.bias"] = np.zeros(3, np.float32)
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(BenchError, match=r"1 missing: action_in_proj\.bias; 1 unknown: state_proj\.bias"):
        torch_names.load(tmp_path / "model.safetensors", NANO)
    (tmp_path / "model.safetensors").write_bytes(b"no such thing")
    with pytest.raises(BenchError, match="no safetensors file"):
        torch_names.load(tmp_path / "model.safetensors", NANO)


def test_a_checkpoint_is_shown_and_goes_out_and_in(tmp_path, capsys):
    saved = whole(dataclasses.replace(SMALL_VOCABULARY, adapter="tabletop"))
    table = saved.stats.tables["actions"] | {"q99": [1.0] * 6 + [-1.0]}
    stats = dataclasses.replace(saved.stats, tables={"state": saved.stats.tables["state"], "actions": table})
    checkpoint.save(tmp_path / "a", dataclasses.replace(saved, stats=stats))
    seen = []
    command.run(command.PolicyFiles("show", tmp_path / "a"), seen.append)
    command.run(command.PolicyFiles("export", tmp_path / "a", out=tmp_path / "b"), seen.append)
    command.run(command.PolicyFiles("import", tmp_path / "b", out=tmp_path / "c"), seen.append)
    same(checkpoint.load(tmp_path / "c").tree, saved.tree)
    assert (tmp_path / "b" / "model.safetensors").exists()
    size = sum(leaf.size for leaf in weights.flat(saved.tree).values())
    assert [facts["parameters"] for facts in seen] == [size] * 3
    assert [facts["tensors"] for facts in seen] == [51, 91, 51]
    assert seen[0]["constant_actions"] == "gripper"
    assert "constant actions: gripper" in capsys.readouterr().out
    assert {facts["statistics"] for facts in seen} == {"mjx-bench"}
    with pytest.raises(BenchError, match="policy show writes nothing, so it takes no --out"):
        command.run(command.PolicyFiles("show", tmp_path / "a", out=tmp_path), seen.append)
    with pytest.raises(BenchError, match="policy export needs --out"):
        command.run(command.PolicyFiles("export", tmp_path / "a"), seen.append)
    with pytest.raises(BenchError, match="is not empty"):
        command.run(command.PolicyFiles("export", tmp_path / "a", out=tmp_path / "c"), seen.append)


def test_lerobot_s_statistics_are_found_beside_its_weights(tmp_path):
    saved = whole()
    save_file(torch_names.to_torch(saved.tree, saved.config), tmp_path / "model.safetensors")
    assert lerobot_stats.read(tmp_path) is None
    tensors = {
        "observation.state.q01": np.full(8, -2.0, np.float32),
        "observation.state.q99": np.full(8, 2.0, np.float32),
        "action.mean": np.zeros(7, np.float32),
        "action.std": np.ones(7, np.float32),
        "observation.images.top.mean": np.zeros((3, 1, 1), np.float32),
    }
    save_file(tensors, tmp_path / "policy_preprocessor_step_5_normalizer_processor.safetensors")
    save_file(tensors, tmp_path / "policy_postprocessor_step_0_unnormalizer_processor.safetensors")
    found = lerobot_stats.read(tmp_path)
    assert found.scale("state", "quantile").span.tolist() == [4.0] * 8
    assert found.scale("actions", "zscore").span.tolist() == [1.0] * 7
    with pytest.raises(BenchError, match="actions have no q01"):
        found.scale("actions", "quantile")
    save_file({"action.mean": np.zeros(7)}, tmp_path / "policy_preprocessor_step_5_normalizer_processor.safetensors")
    with pytest.raises(BenchError, match=r"no statistics of observation.state and action"):
        lerobot_stats.read(tmp_path)


@pytest.mark.slow
def test_a_layer_of_the_published_widths_goes_round(tmp_path):
    vision = dataclasses.replace(configs.PI05_BASE.vision, depth=1)
    config = dataclasses.replace(configs.PI05_BASE, depth=1, vision=vision, vocabulary=1024, tokenizer="small")
    saved = whole(config)
    checkpoint.save(tmp_path / "a", saved)
    same(checkpoint.load(tmp_path / "a").tree, saved.tree)
    same(torch_names.from_torch(torch_names.to_torch(saved.tree, config), config, "memory"), saved.tree)
