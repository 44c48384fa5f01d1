"""`mjx-bench train`: fine-tunes a model on demonstrations, and goes on where it ended."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import tyro

from mjx_bench.errors import BenchError
from scripts import options as shared
from scripts.output import Emit, note
from scripts.progress import PLAIN_INTERVAL_S, begun_bar, clock


@dataclasses.dataclass(frozen=True, kw_only=True)
class Train:
    """Train a model on LeRobot datasets, under named settings; every setting may be replaced.

    The same command again goes on where the last one ended; with more --steps, beyond.
    """

    config: tyro.conf.Positional[str]
    """pi05_roboquest, pi05_libero, pi05_tiny_tabletop, pi05_micro_tabletop."""
    data: shared.Names = ()
    """Folders of datasets. Of several, frames are mixed; see --weights."""
    out: Path | None = None
    """The run's folder: settings, log, checkpoints. It is a policy: mjx-bench eval --policy OUT."""
    weights: tuple[float, ...] = ()
    """Of each dataset in the mixture; their numbers of frames if not given."""
    tokenizer: Path | None = None
    """paligemma_tokenizer.model, for a model that needs it."""
    start: Path | None = None
    """Checkpoint to begin from: ours, openpi's, or a PyTorch one."""
    steps: int | None = None
    """Steps in all."""
    batch: int | None = None
    """Frames a step, over all devices."""
    accumulate: int | None = None
    """Parts that a batch is cut into, to save memory."""
    draws: int | None = None
    """Noises and flow times for each frame and step."""
    peak: float | None = None
    """Largest learning rate."""
    warmup: int | None = None
    """Steps up to it."""
    floor: float | None = None
    """Share of it that is left at the end."""
    weight_decay: float | None = None
    """Of AdamW."""
    clip: float | None = None
    """Largest norm of a gradient."""
    ema: float | None = None
    """Decay of the averaged weights, which are the ones that act; 0 for none."""
    frozen: tuple[str, ...] | None = None
    """Parts that are not trained: tower, trunk, expert."""
    lora: int | None = None
    """Rank of adapters that are trained in place of trunk and expert; 0 for none."""
    auxiliary: float | None = None
    """Weight of the error of the places of things; 0 for none."""
    workers: int | None = None
    """Processes that prepare batches; 0 for threads."""
    fsdp: int | None = None
    """Devices over which the weights are cut."""
    log_every: int | None = None
    """Steps between lines of the log."""
    picture_every: int | None = None
    """Steps between pictures of sample predictions."""
    save_every: int | None = None
    """Steps between checkpoints."""
    keep: int | None = None
    """Checkpoints that are kept, the latest."""
    keep_every: int | None = None
    """Every so many steps one is kept for good; 0 for none."""
    seed: int | None = None
    """Of everything that is drawn."""
    eval_suite: str | None = None
    """Suite of a task on whose instances the model is evaluated on the way."""
    eval_task: str | None = None
    """The task, by index or name; the first if not given."""
    eval_every: int | None = None
    """Steps between evaluations; those of --save-every if only --eval-suite is given."""
    eval_instances: int | None = None
    """Instances of an evaluation; 20 if not given."""
    eval_first: int | None = None
    """The first of them; 9000 if not given: those from 0 are better left for a final evaluation."""
    eval_interval: int | None = None
    """Q, the actions executed before the policy is asked again; 8 if not given."""
    eval_renderer: Literal["auto", "gl", "warp"] | None = None
    """What takes an evaluation's pictures: gl (OpenGL, the reference) or warp (ray tracing); auto if not given."""
    distributed: bool = False
    """One of several processes that train together. Slurm, MPI and the like say which; elsewhere set
    JAX_COORDINATOR_ADDRESS (host:port of the first), JAX_NUM_PROCESSES and JAX_PROCESS_ID."""
    devices: int = 8
    """With --dry-run: devices to plan for."""
    dry_run: bool = False
    """Build, shard and step the real shapes without any arrays, and print the memory of a device; needs no data."""
    json: bool = False
    """Print JSON instead of text: the last line of the log, or the plan of a dry run."""


def run(options: Train, emit: Emit) -> int:
    """Trains, or plans; always 0."""
    from train import configs

    config = chosen(options)
    config.check()
    _check_evaluations(options)
    if options.dry_run:
        from train import plan

        found = plan.plan(config, options.devices)
        if options.json:
            emit(found)
        else:
            print("\n".join([*configs.lines(config), "", *plan.lines(found)]))
        return 0
    folders = tuple(Path(name) for name in shared.flat(options.data))
    if not folders:
        raise BenchError("give --data: the folder of a LeRobot dataset, or several (mjx-bench demos makes them)")
    if options.out is None:
        raise BenchError("give --out: the run's folder")
    for line in configs.lines(config):
        note(line)
    if options.distributed:
        _join()
    row = _train(options, config, folders, options.out)
    if options.json:
        emit(row)
    return 0


def chosen(options: Train) -> Any:
    """The named settings, with those of the options that are given.

    Raises:
      BenchError: no settings of this name.
    """
    from train import configs

    config = configs.named(options.config)
    known = {field.name for field in dataclasses.fields(config)}
    given = {n: v for n, v in vars(options).items() if n in known and v is not None}
    if options.eval_suite is not None and not options.eval_every and not config.eval_every:
        given["eval_every"] = given.get("save_every", config.save_every)
    return dataclasses.replace(config, **given)


# Options of evaluations on the way, and what `train.held_out.HeldOut` calls them.
_EVALUATIONS = {
    "eval_instances": "instances",
    "eval_first": "first",
    "eval_interval": "query_interval",
    "eval_renderer": "renderer",
}


def _check_evaluations(options: Train) -> None:
    """Raises `BenchError` for an option of evaluations that there are none of, or a number that cannot be."""
    for name in ("eval_every", "eval_task", *_EVALUATIONS):
        if options.eval_suite is None and (value := getattr(options, name)) is not None:
            flag = "--" + name.replace("_", "-")
            raise BenchError(f"{flag} {value} is of evaluations on the way; give --eval-suite too, or leave it out")
    shared.at_least(1, eval_instances=options.eval_instances, eval_interval=options.eval_interval)
    shared.at_least(0, eval_first=options.eval_first)


def _join() -> None:
    """Becomes one of several processes."""
    import jax

    count, number = (os.environ.get(f"JAX_{name}") for name in ("NUM_PROCESSES", "PROCESS_ID"))
    try:
        jax.distributed.initialize(
            num_processes=None if count is None else int(count), process_id=None if number is None else int(number)
        )
    except (ValueError, RuntimeError) as error:
        raise BenchError(
            f"--distributed: {' '.join(str(error).split())} (start the processes under Slurm or MPI, or set"
            " JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and JAX_PROCESS_ID)"
        ) from None


def _train(options: Train, config: Any, folders: tuple[Path, ...], out: Path) -> dict[str, Any]:
    held_out = None
    if options.eval_suite is not None:
        from policies.pi05 import configs as models
        from train import shown
        from train.held_out import HeldOut

        index = shared.task_index(options.eval_suite, options.eval_task or "0")
        given = {field: getattr(options, name) for name, field in _EVALUATIONS.items()}
        held_out = HeldOut(options.eval_suite, index, **{n: v for n, v in given.items() if v is not None})
        held_out.check(models.named(config.model).horizon)
        shown.check_instances(shown.of_datasets(folders), held_out.cases()[1].cases)
    from train import log, loop

    data = loop.Data(folders, options.weights, options.tokenizer, options.start)
    training = loop.Training(config, data, out, note)
    with Bar() as bar:
        loop.fit(training, held_out, bar)
    rows = [row for row in log.read(out) if "loss" in row]
    note(f"done: mjx-bench eval --policy {out} runs it")
    return rows[-1] if rows else {}


class Bar:
    """Where a training is: a bar on a terminal, otherwise a line now and then. Called as `train.loop.Progress` is."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._row: Any = None
        self._first = 0
        self._said = self._begun = time.monotonic()

    def __enter__(self) -> Bar:
        self._bar, self._row = begun_bar("steps", "compiling")
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, step: int, steps: int, row: Mapping[str, float] | None) -> None:
        """Takes in a line of the log."""
        now = time.monotonic()
        if row is None:
            self._first, self._begun = step, now
            return
        rate = (step - self._first) / max(now - self._begun, 1e-3)
        losses = ", ".join(f"{name} {row[name]:.4f}" for name in ("loss", "flow", "subtask", "places") if name in row)
        text = f"{losses}, {row['frames_per_s']:.0f} frames/s, {clock((steps - step) / rate)} left"
        if self._bar is not None:
            self._bar.update(self._row, completed=step, total=steps, description=text)
        elif now - self._said >= PLAIN_INTERVAL_S or step == steps:
            self._said = now
            note(f"{step}/{steps} steps, {text}")
