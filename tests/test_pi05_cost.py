"""What the prefix cache saves, by XLA's own count of floating-point operations at the published size; nothing is run."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

pytest.importorskip("flax")

from flax import nnx

from policies.pi05 import configs, sampling, stack, weights
from policies.pi05.sequence import Inputs


def unrolled(layers, body, carry, inputs=None, *, remat):
    """`stack.run` as a loop of Python's: XLA counts the body of a loop of its own once."""
    graph, state = nnx.split(layers)
    outputs = []
    for i in range(len(jax.tree.leaves(state)[0])):
        layer, xs = jax.tree.map(lambda leaf, i=i: leaf[i], (state, inputs))
        carry, out = body(nnx.merge(graph, layer), carry, xs)
        outputs.append(out)
    return carry, jax.tree.map(lambda *parts: jnp.stack(parts), *outputs)


def test_the_cache_saves_two_thirds_of_ten_steps_at_least(monkeypatch):
    monkeypatch.setattr(stack, "run", unrolled)
    config = configs.named("pi05_libero")
    shape = jax.ShapeDtypeStruct
    side = config.vision.image_size
    inputs = Inputs(
        images=shape((1, 3, side, side, 3), "uint8"),
        image_mask=shape((1, 3), bool),
        tokens=shape((1, config.prompt_tokens), "int32"),
        token_mask=shape((1, config.prompt_tokens), bool),
        state=shape((1, config.action_dim), "float32"),
    )
    assert config.image_tokens + config.prompt_tokens == 968
    noisy, time = shape((1, config.horizon, config.action_dim), "float32"), shape((1,), "float32")
    tree = jax.tree.map(lambda leaf: shape(leaf.shape, "bfloat16"), weights.abstract(config)[1])

    def flops(function, *args):
        return jax.jit(function).lower(tree, *args).cost_analysis()["flops"]

    def read(tree, inputs):
        return sampling.read_prefix(weights.bound(config, tree), inputs)

    def step(tree, prefix, noisy, time):
        return sampling.velocity(weights.bound(config, tree), prefix, inputs.state, noisy, time)

    def whole(tree, inputs, noisy, time):
        return weights.bound(config, tree).forward(inputs, noisy, time)[0]

    prefix = jax.eval_shape(read, tree, inputs)
    cached = flops(read, inputs) + 10 * flops(step, prefix, noisy, time)
    anew = 10 * flops(whole, inputs, noisy, time)
    # By hand: the trunk's products for 968 tokens, twice its weights, attention and the image tower on top.
    trunk = 2 * 968 * 18 * (3 * 2048 * 16384 + 2 * 2048 * 2048 + 2 * 2048 * 256)
    assert trunk < flops(read, inputs) < 2 * trunk
    assert anew > 3.0 * cached
