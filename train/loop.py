"""A run from its folder: begun, or gone on with from the newest checkpoint, until its last step."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import jax
import numpy as np

from mjx_bench.errors import BenchError
from policies.pi05 import adapters, checkpoint, sampling, tokenizer, weights
from policies.pi05 import configs as models
from policies.pi05.checkpoint import Checkpoint
from policies.pi05.tokenizer import Tokenizer
from policies.pi05.weights import Tree
from train import batches, claim, mesh, run_folder, saving, shown, sources
from train import step as stepping
from train.batches import Batch
from train.configs import Config
from train.held_out import HeldOut
from train.interrupt import deferred
from train.log import Log, read
from train.run_folder import Data
from train.step import State

_SAMPLES = 3  # frames in a picture of sample predictions

# (step, steps, values of the log) after every step that is logged; and None before the first.
Progress = Callable[[int, int, Mapping[str, float] | None], None]


class Training:
    """Everything that a run needs before its first step, checked.

    Args:
      config: of the training.
      data: what it is trained on.
      run: its folder.
      note: is told, in lines, what is going on.

    Raises:
      BenchError: settings, datasets, a folder or a checkpoint that cannot be used.
    """

    def __init__(self, config: Config, data: Data, run: Path, note: Callable[[str], None] = lambda line: None) -> None:
        config.check()
        self.config, self.run, self.note = config, run, note
        self.model = models.named(config.model)
        self.mesh = mesh.make(config.fsdp, config.batch // config.accumulate)
        shares = data.weights
        if shares and (len(shares) != len(data.folders) or min(shares) <= 0 or not math.isfinite(sum(shares))):
            raise BenchError(
                f"weights {' '.join(map(str, shares))} of {len(data.folders)} datasets: give a finite one above 0 for each"
            )
        run_folder.check(run, config, data)
        mesh.meet("run checked")
        with run_folder.made(run):
            given = None if data.words is None else tokenizer.load(data.words)
            started = None if data.start is None else checkpoint.load(data.start, config=config.model, words=given)
            self.words: Tokenizer = tokenizer.fitting(self.model, given or (started.words if started else None))
            self.sources = [sources.load(path, self.model, note) for path in data.folders]
            self.stats = sources.statistics_of(self.sources, self.model)
            for vector in ("state", "actions"):
                scale, names = self.stats.scale(vector, self.model.normalisation), self.stats.features[vector]
                if flat := [name for name, constant in zip(names, scale.flat, strict=True) if constant]:
                    note(f"{vector}: {', '.join(flat)} never changes in the data, and counts as a constant")
            self.maker = batches.Maker(self.model, self.words, self.stats, self.sources)
            if config.auxiliary and not self.maker.places:
                raise BenchError(
                    f"auxiliary = {config.auxiliary} needs datasets with {sources.PLACES}, the same in each; give"
                    " --auxiliary 0"
                )
            self._tree: Tree = started.tree if started else weights.initial_weights(self.model, config.seed)
            self._weights = data.weights
            if mesh.first_process():
                run_folder.begin(run, config, data)
                with claim.held(run):
                    pass  # refused before checkpoints are looked at
            mesh.meet("run begun")
        self.around = Checkpoint(self.model, {}, self.stats, self.words)
        self.shown = shown.of_datasets(data.folders)
        self.saver = saving.Saver(run, config, self.around, self.shown)

    def state(self) -> State:
        """The state to go on from, on the devices.

        Raises:
          BenchError: a disk without room for checkpoints, or a checkpoint that cannot be read.
        """

        def fresh(tree: Tree) -> State:
            return stepping.begin(self.config, tree, self.maker.places)

        like = jax.eval_shape(fresh, self._tree)
        shardings = mesh.of_state(self.mesh, like)
        self.saver.check_room(like)
        if self.saver.latest is None:
            return jax.jit(fresh, out_shardings=shardings)(self._tree)
        shapes = jax.tree.map(lambda x, s: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=s), like, shardings)
        state = self.saver.restore(shapes)
        self._say_what_is_left(int(state.step))
        return state

    def _say_what_is_left(self, done: int) -> None:
        steps, before = self.config.steps, run_folder.read(self.run)["config"]["steps"]
        if done >= steps:
            self.note(
                f"{self.run} has {done} steps already, and steps = {steps}: nothing is left to do; give more --steps"
            )
            return
        self.note(f"going on after step {done}")
        told = dataclasses.replace(self.config, steps=before)
        then, now = (float(stepping.rate(config)(done)) for config in (told, self.config))
        if then != now:
            self.note(
                f"steps = {steps}, where the run was begun with {before}: the cosine falls over {steps} steps now, and the"
                f" learning rate goes on from {now:.3g}, where it would have been {then:.3g}"
            )

    def stream(self, begin: int) -> Iterator[Batch]:
        """This process's part of each batch, from this one on."""
        sizes = [len(source) for source in self.sources]
        config, shard = self.config, (jax.process_index(), jax.process_count())
        return batches.stream(
            self.maker,
            sizes,
            self._weights or sizes,
            config.batch,
            config.seed,
            begin=begin,
            workers=config.workers,
            shard=shard,
        )

    def compiled(self, state: State) -> Callable[[State, Batch], tuple[State, dict[str, jax.Array]]]:
        """The step, in place: the state that it is given is used up."""
        shardings = jax.tree.map(lambda leaf: leaf.sharding, state)
        return jax.jit(stepping.stepper(self.config), donate_argnums=0, out_shardings=(shardings, None))

    def acting(self, state: State) -> Checkpoint:
        """What acts, on the host."""
        return dataclasses.replace(self.around, tree=mesh.on_host(jax.jit(stepping.acting)(state)))


def fit(
    training: Training, held_out: HeldOut | None = None, progress: Progress = lambda step, steps, row: None
) -> State:
    """Trains to the last step.

    An interrupt is obeyed after the step that is being taken, when everything is saved.

    Args:
      training: what and how.
      held_out: what the weights are evaluated on every `eval_every` steps.
      progress: see `Progress`.

    Returns:
      the last state.

    Raises:
      BenchError: a loss that is not finite; a checkpoint that cannot be written.
      KeyboardInterrupt: passed on, with everything saved.
    """
    with claim.held(training.run) if mesh.first_process() else nullcontext():
        return _fit(training, held_out, progress)


def _fit(training: Training, held_out: HeldOut | None, progress: Progress) -> State:
    config, saver = training.config, training.saver
    state = training.state()
    first = step = int(state.step)
    log = Log(training.run, step) if mesh.first_process() else None
    run = training.compiled(state)
    draw = _sampler(training)
    stream = training.stream(first)
    progress(step, config.steps, None)
    logged = read(training.run)
    meter = _Meter(max((row["train_s"] for row in logged if "train_s" in row), default=0.0))

    def tell(values: Mapping[str, float]) -> None:
        if log is not None:
            log.scalars(step, values)

    def evaluate() -> None:
        if held_out is None or not config.eval_every or (step % config.eval_every and step != config.steps):
            return
        with meter.apart():
            acting = training.acting(state)
            rate = held_out.success(acting, training.run, step, training.note) if mesh.first_process() else 0.0
            rate = float(mesh.of_first_process(np.float32(rate)))
        tell({"success": rate})
        training.note(f"step {step}: {rate:.0%} of {held_out.instances} held-out instances")

    try:
        with deferred() as interrupt:
            if first and not any(row["step"] == first and "success" in row for row in logged):
                evaluate()  # broken off before
            stop = False
            while step < config.steps and not stop:
                with meter.waiting():
                    batch = next(stream)
                state, metrics = run(state, mesh.put(training.mesh, batch))
                step += 1
                stop = mesh.any_process(interrupt.asked is not None)
                saves = stop or step % config.save_every == 0 or step == config.steps
                logs = step % config.log_every == 0 or step in (first + 1, config.steps)
                if saves or logs:
                    _refuse_diverged(training, step, metrics)
                if logs:
                    row = meter.row({name: float(value) for name, value in metrics.items()}, step - first, config.batch)
                    tell(row)
                    progress(step, config.steps, row)
                if step % config.picture_every == 0 or step == config.steps:
                    _show(training, log, step, draw, state, batch)
                if saves:
                    saver.save(state)
                evaluate()
            saver.wait()
            interrupt.obey()
            if stop and interrupt.asked is None:
                raise KeyboardInterrupt("another process was interrupted")
    finally:
        if log is not None:
            log.close()
        saver.close()
    return state


def _refuse_diverged(training: Training, step: int, metrics: Mapping[str, jax.Array]) -> None:
    """Before anything is kept of the step: a loss or a gradient that is no number has spoilt the weights."""
    for name in ("loss", "gradient"):
        if not np.isfinite(value := float(metrics[name])):
            raise BenchError(
                f"the {name} is {value} at step {step}; try a smaller --peak ({training.run} goes on from step"
                f" {training.saver.latest or 0})"
            )


class _Meter:
    """Seconds of steps, and of those the seconds in which the data was waited for; evaluations are left out.

    Args:
      before: seconds that earlier processes trained in this run.
    """

    def __init__(self, before: float) -> None:
        self._before, self._start, self._apart, self._waited = before, time.perf_counter(), 0.0, 0.0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        self._waited += time.perf_counter() - begin

    @contextmanager
    def apart(self) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        self._apart += time.perf_counter() - begin

    def row(self, metrics: dict[str, float], steps: int, batch: int) -> dict[str, float]:
        """The metrics, and: seconds of training so far, frames a second, share of the time that the data took."""
        seconds = time.perf_counter() - self._start - self._apart
        return {
            **metrics,
            "train_s": round(self._before + seconds, 3),
            "frames_per_s": round(steps * batch / seconds, 3),
            "data_share": round(self._waited / seconds, 5),
        }


def _sampler(training: Training) -> Callable[..., jax.Array]:
    """(state, inputs, noise) to actions [B, T, A], as the policy samples them."""

    def sample(state: State, inputs: Any, noise: jax.Array) -> jax.Array:
        model = weights.bound(training.model, stepping.acting(state))
        return sampling.sample(model, sampling.read_prefix(model, inputs), inputs.state, noise)

    return jax.jit(sample)


def _show(training: Training, log: Log | None, step: int, draw: Callable[..., Any], state: State, batch: Batch) -> None:
    few = mesh.of_first_process(jax.tree.map(lambda x: x[:_SAMPLES], batch))
    noise = np.random.default_rng(step).standard_normal(few.actions.shape, np.float32)
    told = mesh.on_host(draw(state, few.inputs._replace(subtask=None), noise))
    if log is None:
        return
    names = adapters.named(training.model.adapter).actions
    log.sample(step, few.inputs.images, told[..., : len(names)], few.actions[..., : len(names)], names)
