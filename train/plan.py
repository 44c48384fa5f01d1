"""What a training would take on real hardware: its shapes are built, cut over devices and stepped, and no array is made."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AbstractMesh

from mjx_bench.errors import BenchError
from policies.pi05 import adapters, weights
from policies.pi05 import configs as models
from policies.pi05.sequence import Inputs, Subtask
from train import mesh
from train import step as stepping
from train.batches import Batch
from train.configs import Config
from train.step import State

_GIB = 2**30


def abstract_batch(config: Config) -> Batch:
    """Shapes and types of a batch, with the cameras of the model's robot."""
    model, b = models.named(config.model), config.batch
    cameras = sum(picture is not None for picture in adapters.named(model.adapter).pictures)
    side = model.vision.image_size

    def of(dtype: Any, *shape: int) -> Any:
        return jax.ShapeDtypeStruct((b, *shape), dtype)

    subtask = None
    if places := model.subtask_tokens:
        subtask = Subtask(of(jnp.int32, places), of(jnp.int32, places), of(bool, places))
    inputs = Inputs(
        images=of(jnp.uint8, cameras, side, side, 3),
        image_mask=of(bool, cameras),
        tokens=of(jnp.int32, model.prompt_tokens),
        token_mask=of(bool, model.prompt_tokens),
        state=of(jnp.float32, model.action_dim),
        subtask=subtask,
    )
    return Batch(inputs, of(jnp.float32, model.horizon, model.action_dim), of(jnp.float32, 0))


def abstract_state(config: Config) -> State:
    """Shapes and types of the state before the first step."""
    tree = weights.abstract(models.named(config.model))[1]
    return jax.eval_shape(lambda tree: stepping.begin(config, tree, 0), tree)


def plan(config: Config, devices: int) -> dict[str, Any]:
    """Builds, cuts and traces one step for so many devices, and counts bytes of one of them.

    With that many devices (of a CPU, if need be: `XLA_FLAGS=--xla_force_host_platform_device_count=N`) the step is compiled
    too, and the compiler's own figures are given.

    Returns:
      `config`, `model`, `parameters`, `trained` (numbers of weights), `devices`, `fsdp`, `batch`; `gib_per_device`: of
      `weights`, `average`, `optimiser`, `gradients`, `batch`, and their `sum`; `kept_activations_gib`, the inputs of all
      layers, from which the backward pass computes them again; `compiled`, None or the compiler's `arguments_gib`,
      `temporaries_gib` and `outputs_gib`.

    Raises:
      BenchError: the devices cannot be arranged so.
    """
    if devices < 1 or devices % config.fsdp:
        raise BenchError(f"fsdp = {config.fsdp} does not divide {devices} devices; give --fsdp or --devices")
    if config.batch % devices:
        raise BenchError(f"batch = {config.batch} is no multiple of {devices} devices")
    shape = (devices // config.fsdp, config.fsdp)
    state, batch = abstract_state(config), abstract_batch(config)
    after, _ = jax.eval_shape(stepping.stepper(config), state, batch)
    for old, new in zip(jax.tree.leaves(state), jax.tree.leaves(after), strict=True):
        assert (old.shape, old.dtype) == (new.shape, new.dtype), "a step changes values, not shapes"
    grid = AbstractMesh(shape, mesh.AXES)

    def gib(tree: Any) -> float:
        return sum(_bytes(leaf, grid) for leaf in jax.tree.leaves(tree)) / _GIB

    parts = {
        "weights": gib(state.trained) + gib(state.frozen),
        "average": gib(state.ema),
        "optimiser": gib(state.rule),
        "gradients": gib(state.trained),
        "batch": sum(math.prod(x.shape) * np.dtype(x.dtype).itemsize for x in jax.tree.leaves(batch)) / devices / _GIB,
    }
    return {
        "config": config.name,
        "model": config.model,
        "parameters": _count(state.trained.model) + _count(state.frozen),
        "trained": _count(state.trained),
        "devices": devices,
        "fsdp": config.fsdp,
        "batch": config.batch,
        "gib_per_device": {**parts, "sum": sum(parts.values())},
        "kept_activations_gib": _activations(config, devices) / _GIB,
        "compiled": _compiled(config, shape, state, batch) if len(jax.devices()) >= devices else None,
    }


def _count(tree: Any) -> int:
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(tree))


def _bytes(leaf: Any, grid: AbstractMesh) -> float:
    """Of one device's part of a leaf."""
    spec = mesh.spec(leaf, grid.shape["fsdp"])
    cut = math.prod(grid.shape[axis] for axis in spec if axis is not None)
    return math.prod(leaf.shape) * np.dtype(leaf.dtype).itemsize / cut


def _activations(config: Config, devices: int) -> float:
    """Bytes that are kept for the backward pass where layers are computed again (`remat`): their inputs."""
    model = models.named(config.model)
    lanes = config.batch / config.accumulate / devices
    cameras = sum(picture is not None for picture in adapters.named(model.adapter).pictures)
    size = np.dtype(model.dtype).itemsize
    pictures = cameras * model.vision.tokens
    tower = model.vision.depth * pictures * model.vision.width
    prefix = model.depth * (pictures + model.prompt_tokens + model.subtask_tokens) * model.trunk.width
    suffix = model.depth * config.draws * (model.horizon + 1) * model.expert.width
    return lanes * size * (tower + prefix + suffix)


def _compiled(config: Config, shape: tuple[int, int], state: State, batch: Batch) -> dict[str, float]:
    grid = mesh.make(shape[1], config.batch, jax.devices()[: math.prod(shape)])
    shardings = mesh.of_state(grid, state)
    step = jax.jit(
        stepping.stepper(config),
        in_shardings=(shardings, mesh.of_batch(grid)),
        out_shardings=(shardings, None),
        donate_argnums=0,
    )
    found: Any = step.lower(state, batch).compile().memory_analysis()
    return {
        "arguments_gib": found.argument_size_in_bytes / _GIB,
        "temporaries_gib": found.temp_size_in_bytes / _GIB,
        "outputs_gib": found.output_size_in_bytes / _GIB,
    }


def lines(found: Mapping[str, Any]) -> list[str]:
    """A plan as text."""
    out = [
        f"{found['model']}: {found['parameters']:,} weights, {found['trained']:,} of them trained",
        f"{found['devices']} devices, weights cut over {found['fsdp']}, {found['batch']} frames a step",
    ]
    out += [f"{value:8.3f} GiB a device  {name}" for name, value in found["gib_per_device"].items()]
    out.append(
        f"{found['kept_activations_gib']:8.3f} GiB a device  activations kept for gradients, layers computed again"
    )
    if found["compiled"] is not None:
        out += [f"{value:8.3f} GiB a device  compiled: {name[:-4]}" for name, value in found["compiled"].items()]
    return out
