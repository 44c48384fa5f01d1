"""That the model learns: a batch by heart, its subtasks included, which it then says and acts on."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("flax")
pytest.importorskip("optax")

import optax

from policies.pi05 import losses, sampling, weights
from policies.pi05.configs import BOS, EOS, PAD
from policies.pi05.sequence import Subtask
from tests.test_pi05_model import LANES, NANO, inputs_of, noise_of, off

SAID = ((7, 8, 9), (10, 11), (12,))


def taught():
    """`SAID`, as it is taught."""
    places = NANO.subtask_tokens
    rows = [([BOS, *words], [*words, EOS]) for words in SAID]
    padded = [[row + [PAD] * (places - len(row)) for row in pair] for pair in rows]
    mask = [[i < len(pair[0]) for i in range(places)] for pair in rows]
    return Subtask(*(jnp.array([pair[i] for pair in padded], jnp.int32) for i in (0, 1)), jnp.array(mask))


@pytest.fixture(scope="module")
def learnt():
    """Weights after a few steps on one batch, and both losses before and after."""
    inputs = inputs_of()._replace(subtask=taught())
    actions = jnp.asarray(noise_of(7)) * 0.5
    rule = optax.adam(3e-3)

    def loss(tree, key):
        noise, time = losses.draw(key, actions.shape)
        parts = losses.errors(weights.bound(NANO, tree), inputs, actions, noise, time)
        return losses.total(parts, True), (parts.flow.mean(), parts.subtask.mean())

    @jax.jit
    def step(tree, state, key):
        (_, parts), gradient = jax.value_and_grad(loss, has_aux=True)(tree, key)
        changes, state = rule.update(gradient, state, tree)
        return optax.apply_updates(tree, changes), state, parts

    tree = jax.tree.map(jnp.asarray, weights.random_weights(NANO, 0))
    state, history = rule.init(tree), []
    for key in jax.random.split(jax.random.key(0), 300):
        tree, state, parts = step(tree, state, key)
        history.append([float(part) for part in parts])
    return tree, inputs, actions, np.array(history)


def test_both_losses_fall(learnt):
    history = learnt[3]
    before, after = history[:5].mean(0), history[-20:].mean(0)
    assert after[0] < 0.3 * before[0]
    assert after[1] < 0.05 * before[1]


@pytest.fixture(scope="module")
def decoded(learnt):
    tree, inputs, *_ = learnt

    @jax.jit
    def decode(tree, inputs):
        model = weights.bound(NANO, tree)
        before = sampling.read_prefix(model, inputs._replace(subtask=None))
        return sampling.decode_subtask(model, before, NANO.subtask_tokens), sampling.read_prefix(model, inputs)

    return decode(tree, inputs)


def test_it_says_the_subtask_that_it_was_taught(decoded):
    words = [tuple(t for t in row if t != PAD) for row in decoded[0].tokens.tolist()]
    assert words == list(SAID)


def test_decoding_leaves_the_cache_of_reading_the_same_words(decoded):
    words, read = decoded
    np.testing.assert_array_equal(words.prefix.valid, read.valid)
    seen = np.asarray(read.valid)
    for got, want in zip(words.prefix.cache, read.cache, strict=True):
        got, want = np.asarray(got)[:, seen], np.asarray(want)[:, seen]
        assert off(got, want) < 2e-5


def test_drawn_words_depend_on_their_own_key_alone(learnt):
    tree, inputs, *_ = learnt

    @jax.jit
    def draw(keys):
        model = weights.bound(NANO, tree)
        before = sampling.read_prefix(model, inputs._replace(subtask=None))
        return sampling.decode_subtask(model, before, NANO.subtask_tokens, keys, temperature=50.0).tokens

    keys = jax.random.split(jax.random.key(3), LANES)
    first = np.asarray(draw(keys))
    np.testing.assert_array_equal(first, draw(keys))
    other = np.asarray(draw(keys.at[0].set(jax.random.key(9))))
    assert (other[0] != first[0]).any()
    np.testing.assert_array_equal(other[1:], first[1:])


def test_it_acts_as_it_was_taught(learnt):
    tree, inputs, actions, _ = learnt

    @jax.jit
    def act(tree, inputs, noise):
        model = weights.bound(NANO, tree)
        return sampling.sample(model, sampling.read_prefix(model, inputs), inputs.state, noise)

    error = np.abs(np.asarray(act(tree, inputs, noise_of(11))) - actions).mean()
    assert error < 0.3 * float(np.abs(actions).mean())
