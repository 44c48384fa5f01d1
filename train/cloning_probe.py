"""Whether a task can be learnt from its pictures: a small network clones an expert.

Beside the clone that sees, one without pictures is trained on the same demonstrations: what it can do comes from the arm's
own state and not from the scene.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mjx_bench.errors import MissingExtra
from mjx_bench.policy import Observation, Policy, PolicySpec
from mjx_bench.seeds import fold_seed
from mjx_bench.task import Task
from policies.simple import Random, Zero
from train.demonstrations import (
    BODY,
    CAMERAS,
    LANES,
    SIDE,
    Shots,
    body_of,
    demonstrate,
    images_of,
    joined,
    solved,
)

try:
    import optax
    from flax import nnx
except ImportError:
    raise MissingExtra("training needs flax and optax: pip install -e '.[train]'") from None

_WIDTHS = (24, 32, 32)  # channels of the convolutions
_SHARPNESS = 20.0  # of the softmax over a picture; with 1 it starts out flat, and learning takes several times as long
_HIDDEN = 256
_AT_ONCE = 256  # queries, where nothing is learnt
_RATE, _DECAY = 1e-3, 1e-4  # of AdamW


class Eye(nnx.Module):
    """One camera's encoder: convolutions, and where in the picture each of their last channels is strongest."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        sizes = zip((3, *_WIDTHS[:-1]), _WIDTHS, (5, 3, 3), (2, 2, 1), strict=True)
        self.layers = nnx.List([nnx.Conv(a, b, (k, k), strides=(s, s), rngs=rngs) for a, b, k, s in sizes])

    def __call__(self, images: jax.Array) -> jax.Array:
        """uint8 [B, SIDE, SIDE, 3] to [B, 2 * channels]: columns and rows, from -1 to 1."""
        x = images.astype(jnp.float32) / 127.5 - 1.0
        for layer in self.layers:
            x = nnx.relu(layer(x))
        batch, height, width, channels = x.shape
        weight = jax.nn.softmax(_SHARPNESS * x.reshape(batch, height * width, channels), axis=1)
        rows, columns = jnp.meshgrid(jnp.linspace(-1, 1, height), jnp.linspace(-1, 1, width), indexing="ij")
        return jnp.concatenate([jnp.einsum("bpc,p->bc", weight, grid.ravel()) for grid in (columns, rows)], 1)


class Net(nnx.Module):
    """From the arm's own state, and both pictures unless it is blind, to a chunk of actions.

    Args:
      shots: what it will be trained on; gives the scale of its inputs and the shape of its answers.
      sees: whether it gets the pictures.
    """

    def __init__(self, shots: Shots, *, sees: bool, rngs: nnx.Rngs) -> None:
        self.eyes = nnx.List([Eye(rngs) for _ in CAMERAS] if sees else [])
        self.mean, self.std = jnp.asarray(shots.body.mean(0)), jnp.asarray(shots.body.std(0) + 1e-3)
        self.shape = shots.chunks.shape[1:]
        width = BODY + len(self.eyes) * 2 * _WIDTHS[-1]
        self.layers = nnx.List([nnx.Linear(width, _HIDDEN, rngs=rngs), nnx.Linear(_HIDDEN, _HIDDEN, rngs=rngs)])
        self.out = nnx.Linear(_HIDDEN, int(np.prod(self.shape)), rngs=rngs)

    def __call__(self, images: jax.Array, body: jax.Array) -> jax.Array:
        """uint8 [B, C, SIDE, SIDE, 3] and [B, BODY] to [B, H, A]."""
        x = jnp.concatenate([(body - self.mean) / self.std, *(eye(images[:, i]) for i, eye in enumerate(self.eyes))], 1)
        for layer in self.layers:
            x = nnx.relu(layer(x))
        return self.out(x).reshape(len(body), *self.shape)


def loss_of(net: Net, images: jax.Array, body: jax.Array, chunks: jax.Array) -> jax.Array:
    """Mean absolute error of the actions."""
    return jnp.abs(net(images, body) - chunks).mean()


class Clone:
    """A trained network as a policy."""

    def __init__(self, net: Net) -> None:
        self.spec = PolicySpec("clone", net.shape[0], cameras=CAMERAS if len(net.eyes) else (), image_size=SIDE)
        graph, state = nnx.split(net)
        self._forward = jax.jit(lambda images, body: nnx.merge(graph, state)(images, body))

    def init(self, task: Task, seed: int) -> None:
        """It remembers nothing."""

    def act(self, carries: Sequence[Any], obs: Observation, seeds: np.ndarray) -> tuple[np.ndarray, Sequence[Any]]:
        """See `mjx_bench.policy.Policy.act`; computed for `LANES` rows however many there are, so that one program does."""
        n = len(carries)
        images = np.zeros((LANES, len(CAMERAS), SIDE, SIDE, 3), np.uint8)
        body = np.zeros((LANES, BODY), np.float32)
        body[:n] = body_of(obs)
        if self.spec.cameras:
            images[:n] = images_of(obs)
        return np.clip(np.asarray(self._forward(images, body))[:n], -1.0, 1.0), carries


def train(shots: Shots, *, sees: bool, steps: int, seed: int, batch: int = 64) -> Net:
    """A network that predicts the chunks of demonstrations from what was seen, or from the arm's own state alone."""
    images, body, chunks = jnp.asarray(shots.images), jnp.asarray(shots.body), jnp.asarray(shots.chunks)
    net = Net(shots, sees=sees, rngs=nnx.Rngs(seed))
    rate = optax.warmup_cosine_decay_schedule(0.0, _RATE, steps // 20, steps, 0.01 * _RATE)
    optimiser = nnx.Optimizer(net, optax.adamw(rate, weight_decay=_DECAY), wrt=nnx.Param)

    @nnx.jit
    def step(net: Net, optimiser: nnx.Optimizer, rows: jax.Array) -> None:
        gradient = nnx.grad(loss_of)(net, images[rows], body[rows], chunks[rows])
        optimiser.update(net, gradient)

    rng = np.random.default_rng(fold_seed("cloning probe", "rows", seed))
    for _ in range(steps):
        step(net, optimiser, jnp.asarray(rng.integers(0, len(body), batch)))
    return net


def error(net: Net, shots: Shots) -> float:
    """Mean absolute error on demonstrations, in units of action."""
    measure = nnx.jit(loss_of)
    total = 0.0
    for begin in range(0, len(shots.body), _AT_ONCE):
        part = slice(begin, begin + _AT_ONCE)
        rows = jnp.asarray(shots.images[part]), jnp.asarray(shots.body[part]), jnp.asarray(shots.chunks[part])
        total += float(measure(net, *rows)) * len(rows[1])
    return total / len(shots.body)


def probe(
    task: Task, expert: Policy, training: Sequence[int], held_out: Sequence[int], steps: int, renderer: str
) -> dict[str, Any]:
    """Clones the expert with pictures and without, and compares.

    Args:
      task: a task with instances.
      expert: what is cloned.
      training: instances that are demonstrated; a tenth of them is kept from training, to measure the error on.
      held_out: instances on which success is counted.
      steps: of training.
      renderer: what takes the pictures.

    Returns:
      `demonstrations` (successful ones), `queries` (of all of them), `instances` (held out); the numbers of those that
      `zero` and `random` solve; `constant_error`, of the best answer that is always the same; and for `blind` and `seeing`:
      `train_error`, `error` (on the tenth), `solved`, `train_s`. Errors are mean and absolute, in units of action.
    """
    shown = demonstrate(task, expert, training, renderer)
    kept = max(1, len(shown) // 10)
    shots, others = joined(shown[kept:]), joined(shown[:kept])
    out: dict[str, Any] = {
        "task": task.name,
        "demonstrations": len(shown),
        "queries": len(shots.body) + len(others.body),
        "instances": len(held_out),
        "zero": solved(task, Zero(), held_out, renderer),
        "random": solved(task, Random(), held_out, renderer),
        "constant_error": float(np.abs(others.chunks - np.median(shots.chunks, 0)).mean()),
    }
    for name in ("blind", "seeing"):
        start = time.perf_counter()
        net = train(shots, sees=name == "seeing", steps=steps, seed=0)
        out[name] = {
            "train_s": round(time.perf_counter() - start, 1),
            "train_error": error(net, shots),
            "error": error(net, others),
            "solved": solved(task, Clone(net), held_out, renderer),
        }
    return out
