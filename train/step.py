"""One step of the optimiser, as a pure function of what is trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mjx_bench.errors import MissingExtra
from policies.pi05 import configs as models
from policies.pi05.weights import Tree
from train import objective, parts
from train.batches import Batch
from train.configs import Config
from train.objective import Metrics
from train.parts import Flat, Trained

try:
    import optax
except ImportError:
    raise MissingExtra("training needs optax: pip install -e '.[train]'") from None


class State(NamedTuple):
    """Everything that a step changes, and what it needs besides.

    Attributes:
      step: int32 [], steps that were taken.
      trained: float32, what the optimiser moves.
      ema: its running average, or None.
      rule: the optimiser's own.
      frozen: weights that stay as they are.
    """

    step: jax.Array
    trained: Trained
    ema: Trained | None
    rule: Any
    frozen: Flat


def rate(config: Config) -> optax.Schedule:
    """Learning rate by step: linear from nothing to the peak, then a cosine."""
    return optax.warmup_cosine_decay_schedule(
        init_value=config.peak / (config.warmup + 1),
        peak_value=config.peak,
        warmup_steps=config.warmup,
        decay_steps=max(config.steps, config.warmup + 1),
        end_value=config.peak * config.floor,
    )


def optimiser(config: Config) -> optax.GradientTransformation:
    """Clipping, then AdamW."""
    first, second = config.betas
    return optax.chain(
        optax.clip_by_global_norm(config.clip),
        optax.adamw(rate(config), b1=first, b2=second, eps=config.epsilon, weight_decay=config.weight_decay),
    )


def begin(config: Config, tree: Tree, places: int) -> State:
    """The state before the first step.

    Args:
      config: of the training.
      tree: float32 weights of the model.
      places: p of the batches.
    """
    own, frozen = parts.split(config, tree)
    head = objective.head(models.named(config.model), places if config.auxiliary else 0, config.seed)
    trained = Trained(own, parts.adapters(config, tree), head)
    return State(
        step=jnp.zeros((), jnp.int32),
        trained=trained,
        ema=trained if config.ema else None,
        rule=optimiser(config).init(trained),
        frozen=frozen,
    )


def acting(state: State) -> Tree:
    """The weights that act: averaged where an average is kept, adapters added."""
    return parts.whole(state.trained if state.ema is None else state.ema, state.frozen)


def stepper(config: Config) -> Callable[[State, Batch], tuple[State, Metrics]]:
    """(state, batch) to the next state and what is logged of the step; not compiled yet."""
    model, rule, schedule = models.named(config.model), optimiser(config), rate(config)

    def cost(trained: Trained, frozen: Flat, batch: Batch, key: jax.Array) -> tuple[jax.Array, Metrics]:
        return objective.cost(model, config, parts.whole(trained, frozen), trained.head, batch, key)

    grad = jax.grad(cost, has_aux=True)

    def step(state: State, batch: Batch) -> tuple[State, Metrics]:
        key = jax.random.fold_in(jax.random.key(config.seed), state.step)
        if config.accumulate == 1:
            gradient, metrics = grad(state.trained, state.frozen, batch, key)
        else:
            gradient, metrics = _accumulated(config.accumulate, grad, state, batch, key)
        change, own = rule.update(gradient, state.rule, state.trained)
        trained = optax.apply_updates(state.trained, change)
        ema = None
        if state.ema is not None:
            now = state.step.astype(jnp.float32)
            decay = jnp.minimum(config.ema, (1.0 + now) / (10.0 + now))
            ema = jax.tree.map(lambda old, new: decay * old + (1.0 - decay) * new, state.ema, trained)
        told = {**metrics, "gradient": optax.tree.norm(gradient), "rate": schedule(state.step)}
        return State(state.step + 1, trained, ema, own, state.frozen), told

    return step


def _accumulated(
    count: int, grad: Callable[..., tuple[Trained, Metrics]], state: State, batch: Batch, key: jax.Array
) -> tuple[Trained, Metrics]:
    """Mean gradient and metrics over `count` parts of the batch, one after the other."""
    # Every count-th frame, so that a batch that is cut over devices need not move between them.
    cut = jax.tree.map(lambda x: jnp.swapaxes(x.reshape(-1, count, *x.shape[1:]), 0, 1), batch)

    def one(total: Any, part: tuple[Batch, jax.Array]) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, total, grad(state.trained, state.frozen, *part)), None

    keys = jax.random.split(key, count)
    first = jax.tree.map(lambda x: x[0], (cut, keys))
    nothing = jax.tree.map(
        lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(grad, state.trained, state.frozen, *first)
    )
    total, _ = jax.lax.scan(one, nothing, (cut, keys))
    return jax.tree.map(lambda x: x / count, total)
