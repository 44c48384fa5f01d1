"""The pi0.5-style model against openpi's published names, shapes and conventions (see tests/pi05_oracle.py)."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("flax")

from flax import nnx

from kernels.attention import attention, attention_reference
from policies.pi05 import configs, losses, sampling, sequence, weights
from policies.pi05.gemma import RMSNorm
from tests import pi05_oracle as oracle

LANES, WORDS = 3, 7

# Everything that the published sizes have, and no more than a test needs.
NANO = dataclasses.replace(
    configs.TINY,
    name="nano",
    vision=configs.Vision(image_size=16, patch=8, width=24, depth=2, mlp=32, heads=2),
    trunk=configs.Expert(width=32, mlp=48),
    expert=configs.Expert(width=24, mlp=40),
    depth=2,
    heads=4,
    kv_heads=2,
    head_dim=8,
    vocabulary=32,
    horizon=5,
    action_dim=6,
    prompt_tokens=WORDS,
    subtask_tokens=5,
)
NANO_PI0 = dataclasses.replace(NANO, name="nano_pi0", time_conditioned=False)

PUBLISHED = Path(__file__).resolve().parents[2] / "shared" / "data" / "openpi" / "param_tree.json"


def inputs_of(seed=0):
    """Three lanes: one camera missing here and there, prompts of 7, 4 and 5 tokens."""
    rng = np.random.default_rng(seed)
    side = NANO.vision.image_size
    return sequence.Inputs(
        images=rng.integers(0, 256, (LANES, 3, side, side, 3), np.uint8),
        image_mask=np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1]], bool),
        tokens=rng.integers(3, NANO.vocabulary, (LANES, WORDS), np.int32),
        token_mask=np.arange(WORDS) < np.array([[7], [4], [5]]),
        state=rng.normal(size=(LANES, NANO.action_dim)).astype(np.float32),
    )


def noise_of(seed=1):
    return np.random.default_rng(seed).normal(size=(LANES, NANO.horizon, NANO.action_dim)).astype(np.float32)


@pytest.fixture(scope="module", params=[NANO, NANO_PI0], ids=["pi05", "pi0"])
def built(request):
    """A model's weights, and its functions compiled once for all tests."""
    config = request.param

    def sampled(tree, inputs, noise):
        model = weights.bound(config, tree)
        return sampling.sample(model, sampling.read_prefix(model, inputs), inputs.state, noise)

    return SimpleNamespace(
        config=config,
        tree=weights.random_weights(config, 0),
        forward=jax.jit(lambda tree, *args: weights.bound(config, tree).forward(*args)[0]),
        sample=jax.jit(sampled),
        uncached=jax.jit(lambda tree, *args: sampling.sample_uncached(weights.bound(config, tree), *args)),
    )


def off(got, want):
    """Root mean square of the difference, in units of the wanted values'."""
    return np.sqrt(np.mean(np.square(got - want)) / np.mean(np.square(want)))


@pytest.mark.skipif(not PUBLISHED.exists(), reason="openpi's published parameter tree is not next to this checkout")
def test_names_and_shapes_are_those_of_openpi():
    published = json.loads(PUBLISHED.read_text())["configs"]
    for name in ("pi05_base", "pi05_libero", "pi05_roboquest", "pi0_base"):
        want = published[name if name in published else "pi05_base"]
        leaves = weights.flat(weights.abstract(configs.named(name))[1])
        assert {path: list(leaf.shape) for path, leaf in leaves.items()} == {
            p["path"]: p["shape"] for p in want["params"]
        }
        assert {leaf.dtype for leaf in leaves.values()} == {np.dtype("float32")}
        assert sum(leaf.size for leaf in leaves.values()) == want["num_params"]


@pytest.mark.parametrize(("name", "least", "most"), [("pi05_small", 2e7, 9e7), ("pi05_tiny", 1e6, 6e6)])
def test_own_sizes_are_what_their_names_say(name, least, most):
    leaves = weights.flat(weights.abstract(configs.named(name))[1])
    assert least < sum(leaf.size for leaf in leaves.values()) < most


def test_starting_values_are_openpi_s():
    leaves = weights.flat(weights.initial_weights(configs.TINY, 0))
    zero = {name for name, leaf in leaves.items() if not leaf.any()}
    assert {n for n in leaves if "norm_1/Dense_0" in n} | {"PaliGemma/img/head/kernel"} <= zero
    assert (leaves["PaliGemma/llm/final_norm/scale"] == 0).all()
    assert (leaves["PaliGemma/img/Transformer/encoder_norm/scale"] == 1).all()
    deviations = {
        "PaliGemma/llm/embedder/input_embedding": 0.01,
        "PaliGemma/img/pos_embedding": 128**-0.5,
        "PaliGemma/img/embedding/kernel": (16 * 16 * 3) ** -0.5,
        "PaliGemma/llm/layers/attn/q_einsum/w": 192**-0.5,
        "PaliGemma/llm/layers/attn/attn_vec_einsum_1/w": (4 * 32) ** -0.5,
        "PaliGemma/llm/layers/mlp/linear": 768**-0.5,
        "PaliGemma/img/Transformer/encoderblock/MlpBlock_0/Dense_0/kernel": (2 / (128 + 512)) ** 0.5,
        "PaliGemma/img/Transformer/encoderblock/MultiHeadDotProductAttention_0/out/kernel": (1 / 128) ** 0.5,
        "action_in_proj/kernel": 32**-0.5,
    }
    for name, want in deviations.items():
        assert leaves[name].std() == pytest.approx(want, rel=0.04), name
    assert all(leaf.any() for leaf in weights.flat(weights.random_weights(configs.TINY, 0)).values())


def test_who_may_look_at_whom():
    # Two pictures' tokens, one padded word, two words of a subtask, the state, two actions.
    valid = np.array([[1, 1, 0, 1, 1, 1, 1, 1]], bool)
    starts = np.array([0, 0, 0, 1, 1, 1, 1, 0], bool)
    want = [
        [1, 1, 0, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0],
        [1, 1, 0, 1, 0, 0, 0, 0],
        [1, 1, 0, 1, 1, 0, 0, 0],
        [1, 1, 0, 1, 1, 1, 0, 0],
        [1, 1, 0, 1, 1, 1, 1, 1],
        [1, 1, 0, 1, 1, 1, 1, 1],
    ]
    np.testing.assert_array_equal(sequence.block_mask(valid, starts)[0], np.array(want, bool))
    assert sequence.positions(valid)[0].tolist() == [0, 1, 1, 2, 3, 4, 5, 6]


def test_grey_levels_become_the_range_from_minus_one_to_one():
    levels = sequence.pixels(jnp.array([0, 51, 255], jnp.uint8))
    np.testing.assert_allclose(levels, [-1.0, -0.6, 1.0], atol=1e-6)


def test_velocity_is_the_oracle_s(built):
    inputs, noise, time = inputs_of(), noise_of(), np.array([1.0, 0.3, 0.05], np.float32)
    velocity = built.forward(built.tree, inputs, noise, time)
    for lane, got in enumerate(np.asarray(velocity)):
        want = oracle.velocity(**oracle_lane(built, inputs, lane), noisy=noise[lane], time=float(time[lane]))
        assert off(got, want) < 1e-4


def test_samples_are_the_oracle_s_and_the_cache_changes_nothing(built):
    inputs, noise = inputs_of(), noise_of()
    actions = np.asarray(built.sample(built.tree, inputs, noise))
    assert actions.dtype == np.float32
    assert off(actions, np.asarray(built.uncached(built.tree, inputs, noise))) < 2e-5
    for lane, got in enumerate(actions):
        want = oracle.sample(noise=noise[lane].astype(np.float64), **oracle_lane(built, inputs, lane))
        assert off(got, want) < 1e-4


def oracle_lane(built, inputs, lane):
    return {
        "w": {name: np.asarray(leaf, np.float64) for name, leaf in weights.flat(built.tree).items()},
        "config": built.config,
        "images": inputs.images[lane] / 255.0 * 2.0 - 1.0,
        "image_mask": inputs.image_mask[lane],
        "tokens": inputs.tokens[lane],
        "token_mask": inputs.token_mask[lane],
        "state": inputs.state[lane].astype(np.float64),
    }


def test_what_is_masked_changes_nothing_and_what_is_not_does(built):
    inputs, noise = inputs_of(), noise_of()
    before = np.asarray(built.sample(built.tree, inputs, noise))
    images, tokens = inputs.images.copy(), inputs.tokens.copy()
    images[0, 2], images[2, 0] = 255, 255
    tokens[1, 4:], tokens[2, 5:] = 9, 9
    hidden = built.sample(built.tree, inputs._replace(images=images, tokens=tokens), noise)
    np.testing.assert_array_equal(hidden, before)
    images[0, 0], tokens[1, 3] = 255, 9
    shown = np.abs(built.sample(built.tree, inputs._replace(images=images, tokens=tokens), noise) - before).max((1, 2))
    assert shown[0] > 1e-3
    assert shown[1] > 1e-3
    assert shown[2] == 0.0
    moved = built.sample(built.tree, inputs._replace(state=inputs.state + 1.0), noise)
    assert (np.abs(moved - before).max() > 1e-3) == (not built.config.time_conditioned)  # pi0.5 reads it in the prompt


def test_an_adaptive_norm_splits_into_scale_shift_and_gate():
    norm = RMSNorm(2, "float32", adaptive=True, rngs=nnx.Rngs(0))
    norm.Dense_0.kernel[...] = jnp.zeros((2, 6))
    norm.Dense_0.bias[...] = jnp.array([1.0, 2.0, 10.0, 20.0, 0.5, 0.25])
    out, gate = norm(jnp.array([[[3.0, 4.0]]]), jnp.zeros((1, 2)))
    root = np.sqrt(12.5)
    np.testing.assert_allclose(out[0, 0], [3 / root * 2 + 10, 4 / root * 3 + 20], rtol=1e-6)
    np.testing.assert_allclose(gate[0, 0], [0.5, 0.25])


def test_the_loss_takes_time_one_for_noise_and_the_velocity_towards_it():
    seen = []

    def forward(inputs, noisy, time):
        seen.append((noisy, time))
        return jnp.zeros_like(noisy), jnp.zeros((LANES, 1, 1))

    actions, noise = noise_of(2), noise_of(3)
    time = jnp.array([1.0, 0.25, 0.0])
    parts = losses.errors(SimpleNamespace(forward=forward), inputs_of(), actions, noise, time)
    noisy, given = seen[0]
    np.testing.assert_allclose(noisy[0], noise[0])
    np.testing.assert_allclose(noisy[1], 0.25 * noise[1] + 0.75 * actions[1], rtol=1e-5)
    np.testing.assert_allclose(noisy[2], actions[2])
    np.testing.assert_array_equal(given, time)
    np.testing.assert_allclose(parts.flow, ((noise - actions) ** 2).mean(-1), rtol=1e-5)
    assert losses.total(losses.Errors(jnp.array([[2.0]]), jnp.array([3.0])), True) == 3.0 + 10.0 * 2.0


def test_flow_times_are_openpi_s_and_leave_the_first_key_to_augmentation():
    key = jax.random.key(5)
    noise, time = losses.draw(key, (4000, 2, 2))
    assert float(time.min()) >= 0.001
    assert float(time.max()) <= 1.0
    assert float(time.mean()) == pytest.approx(0.999 * 0.6 + 0.001, abs=0.01)  # Beta(1.5, 1) has mean 0.6
    np.testing.assert_array_equal(noise, jax.random.normal(jax.random.split(key, 3)[1], (4000, 2, 2)))


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("bfloat16", 2e-2)])
def test_attention_is_its_reference(dtype, tolerance):
    rng = np.random.default_rng(0)
    query, key, value = (
        jnp.asarray(rng.normal(size=(2, length, heads, 16)), dtype) for length, heads in ((5, 6), (9, 2), (9, 2))
    )
    mask = rng.random((2, 5, 9)) < 0.5
    mask[0, 0] = False  # a padded query averages all values
    for allowed in (None, mask):
        got = attention(query, key, value, allowed, scale=0.25).astype(jnp.float32)
        want = attention_reference(query, key, value, allowed, scale=0.25).astype(jnp.float32)
        np.testing.assert_allclose(got, want, atol=tolerance)
    assert np.isfinite(np.asarray(got)).all()
    mean = jnp.repeat(value[0].astype(jnp.float32).mean(0), 3, axis=0)
    np.testing.assert_allclose(got[0, 0], mean, atol=tolerance)


def test_the_published_size_can_be_trained():
    """Traced for its shapes alone, with activations that are computed again: nothing is allocated."""
    config, shape = configs.named("pi05_base"), jax.ShapeDtypeStruct
    side = config.vision.image_size
    inputs = sequence.Inputs(
        images=shape((2, 3, side, side, 3), "float32"),
        image_mask=shape((2, 3), bool),
        tokens=shape((2, config.prompt_tokens), "int32"),
        token_mask=shape((2, config.prompt_tokens), bool),
        state=shape((2, config.action_dim), "float32"),
    )
    actions, time = shape((2, config.horizon, config.action_dim), "float32"), shape((2,), "float32")
    tree = weights.abstract(config)[1]

    def loss(tree, inputs, actions, noise, time):
        return losses.total(losses.errors(weights.bound(config, tree), inputs, actions, noise, time), False)

    gradient = jax.eval_shape(jax.grad(loss), tree, inputs, actions, actions, time)
    assert jax.tree.map(lambda g: (g.shape, g.dtype), gradient) == jax.tree.map(lambda w: (w.shape, w.dtype), tree)


def test_half_precision_stays_near_and_keeps_its_types():
    config = dataclasses.replace(NANO, dtype="bfloat16")
    tree, inputs, noise = weights.random_weights(NANO, 0), inputs_of(), noise_of()
    time = np.full(LANES, 0.5, np.float32)

    def forward(tree):
        return weights.bound(config, tree).forward(inputs, noise, time)[0]

    half = np.asarray(jax.jit(forward)(tree))
    assert half.dtype == np.float32  # as the weights of the last layer
    assert jax.eval_shape(forward, weights.cast(tree, "bfloat16")).dtype == jnp.bfloat16
    lane = oracle_lane(SimpleNamespace(config=NANO, tree=tree), inputs, 0)
    assert 1e-4 < off(half[0], oracle.velocity(**lane, noisy=noise[0], time=0.5)) < 0.1
