"""What a query costs in floating-point operations, by XLA's own count of the program; nothing is run."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax

from policies.pi05 import sampling, stack, weights
from policies.pi05.configs import CAMERAS, Config
from policies.pi05.sampling import Prefix
from policies.pi05.sequence import Inputs
from policies.pi05.weights import Tree


@dataclasses.dataclass(frozen=True)
class Flops:
    """Operations of one lane.

    Attributes:
      prefix: reading pictures and prompt.
      step: one step of the flow with the prefix's keys and values at hand.
      whole: one step of the flow over the whole sequence.
    """

    prefix: float
    step: float
    whole: float

    def cached(self, steps: int = sampling.STEPS) -> float:
        """Of a query as it is answered: the prefix once, then `steps` steps; XLA would count the loop's body once."""
        return self.prefix + steps * self.step

    def anew(self, steps: int = sampling.STEPS) -> float:
        """Of a query whose prefix is read again at every step."""
        return steps * self.whole


def shapes(config: Config, lanes: int) -> Inputs:
    """The inputs of a model, as shapes."""
    shape: Any = jax.ShapeDtypeStruct
    side = config.vision.image_size
    return Inputs(
        images=shape((lanes, len(CAMERAS), side, side, 3), "uint8"),
        image_mask=shape((lanes, len(CAMERAS)), bool),
        tokens=shape((lanes, config.prompt_tokens), "int32"),
        token_mask=shape((lanes, config.prompt_tokens), bool),
        state=shape((lanes, config.action_dim), "float32"),
    )


def flops(config: Config) -> Flops:
    """Counts for a model of this configuration, its weights in the type that it computes in."""
    shape, inputs = jax.ShapeDtypeStruct, shapes(config, 1)
    noisy, time = shape((1, config.horizon, config.action_dim), "float32"), shape((1,), "float32")
    tree = jax.tree.map(lambda leaf: shape(leaf.shape, config.dtype), weights.abstract(config)[1])

    def read(tree: Tree, inputs: Inputs) -> Prefix:
        return sampling.read_prefix(weights.bound(config, tree), inputs)

    def step(tree: Tree, prefix: Prefix, state: jax.Array, noisy: jax.Array, time: jax.Array) -> jax.Array:
        return sampling.velocity(weights.bound(config, tree), prefix, state, noisy, time)

    def whole(tree: Tree, inputs: Inputs, noisy: jax.Array, time: jax.Array) -> jax.Array:
        return weights.bound(config, tree).forward(inputs, noisy, time)[0]

    def count(function: Any, *args: Any) -> float:
        analysis: Any = jax.jit(function).lower(tree, *args).cost_analysis()
        return float(analysis["flops"])

    with stack.written_out():
        prefix = jax.eval_shape(read, tree, inputs)
        return Flops(
            count(read, inputs), count(step, prefix, inputs.state, noisy, time), count(whole, inputs, noisy, time)
        )
