"""`mjx-bench bench train`: steps from a dataset, demonstrations, and evaluation, each against the plain way of doing it."""

from __future__ import annotations

import dataclasses
import functools
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from mjx_bench.errors import BenchError
from scripts import options as shared
from scripts.output import note

POLICY_SEED = 195


@dataclasses.dataclass(frozen=True)
class TrainBench:
    """Training steps from a dataset against the same steps on one batch that lies in memory.

    And demonstrations collected many at a time against one at a time; and, of a checkpoint, evaluation with pictures and
    policy in this process against a policy behind a server.
    """

    data: shared.Names = ()
    """Folders of datasets."""
    config: str = "pi05_micro_tabletop"
    """Named settings, as mjx-bench train has them."""
    batch: int | None = None
    """Frames a step; those of the settings if not given."""
    workers: int | None = None
    """Processes that prepare batches; those of the settings if not given."""
    steps: int = 10
    """Steps of a turn."""
    repeats: int = 5
    """Turns of either way, one after the other, after those that warm up."""
    demonstrations: int = 8
    """Demonstrations of a turn, of the dataset's first task; 0 for none."""
    checkpoint: Path | None = None
    """Run of mjx-bench train, or one of its checkpoints, to be evaluated on that task."""
    instances: int = 16
    """Of an evaluation."""
    query_interval: int = 8
    """Q of an evaluation, the actions executed before the policy is asked again."""
    lanes: int = 8
    """Episodes that run side by side, in collection and evaluation."""
    renderer: Literal["auto", "gl", "warp"] = "auto"
    """What takes pictures: gl (OpenGL, the reference) or warp (ray tracing)."""
    json: bool = False
    """Print JSON instead of text."""


def train(options: TrainBench) -> dict[str, Any]:
    """The figures of `bench train`; the keys are those of the JSON."""
    shared.at_least(1, steps=options.steps, repeats=options.repeats, batch=options.batch, lanes=options.lanes)
    shared.at_least(1, instances=options.instances, query_interval=options.query_interval)
    shared.at_least(0, demonstrations=options.demonstrations, workers=options.workers)
    folders = tuple(Path(name) for name in shared.flat(options.data))
    if not folders:
        raise BenchError("give --data: the folder of a LeRobot dataset (mjx-bench demos makes one)")

    from mjx_bench.bench import figures
    from train import shown

    of = shown.of_datasets(folders)
    if not of and (options.demonstrations or options.checkpoint):
        raise BenchError(
            f"{folders[0]} does not say which task it shows (mjx-bench demos writes that); give --demonstrations 0, and no"
            " --checkpoint"
        )
    out: dict[str, Any] = {"steps": _steps(options, folders)}
    if options.demonstrations:
        out["demonstrations"] = _collection(options, of[0]["suite"], of[0]["tasks"][0]["index"])
    if options.checkpoint is not None:
        out["evaluation"] = _evaluation(options, options.checkpoint, of[0]["suite"], of[0]["tasks"][0]["index"])
    return out | figures.machine()


def _steps(options: TrainBench, folders: tuple[Path, ...]) -> dict[str, Any]:
    import jax

    from mjx_bench.bench.figures import Spread
    from train import batches, configs, loop, mesh

    given = {n: getattr(options, n) for n in ("batch", "workers") if getattr(options, n) is not None}
    config = dataclasses.replace(configs.named(options.config), **given)
    with tempfile.TemporaryDirectory(prefix="mjx-bench-") as folder:
        training = loop.Training(config, loop.Data(folders), Path(folder) / "run", note)
        state = training.state()
        step = training.compiled(state)
        stream = training.stream(0)
        begin = time.perf_counter()
        resident = mesh.put(training.mesh, next(stream))
        state, _ = step(state, resident)
        jax.block_until_ready(state)
        first_s = time.perf_counter() - begin

        def turn(fetch: Callable[[], Any]) -> float:
            """Seconds a step. Batches that were made ahead, or are being made, in the other way's turn do not count."""
            nonlocal state
            for count in (batches.AHEAD + 1, options.steps):
                begin = time.perf_counter()
                for _ in range(count):
                    state, _ = step(state, fetch())
                jax.block_until_ready(state)
            return (time.perf_counter() - begin) / options.steps

        ways: dict[str, Callable[[], Any]] = {
            "dataset": lambda: mesh.put(training.mesh, next(stream)),
            "resident": lambda: resident,
        }
        seconds = _in_turns({way: functools.partial(turn, fetch) for way, fetch in ways.items()}, options.repeats, 0)
        training.saver.close()
    ratio = Spread.of([a / b for a, b in zip(seconds["dataset"], seconds["resident"], strict=True)])
    return {
        "config": config.name,
        "model": config.model,
        "batch": config.batch,
        "workers": config.workers,
        "first_step_s": round(first_s, 2),
        **{f"{way}_steps_per_s": Spread.of([1.0 / s for s in found]).median for way, found in seconds.items()},
        "frames_per_s": Spread.of([config.batch / s for s in seconds["dataset"]]).median,
        "data_overhead": round(ratio.median - 1.0, 4),
        "data_overhead_range": [round(ratio.low - 1.0, 4), round(ratio.high - 1.0, 4)],
    }


def _collection(options: TrainBench, suite: str, index: int) -> dict[str, Any]:
    import os

    from evals import registry
    from mjx_bench.bench.figures import Spread
    from policies.scripted import Reactive
    from train.collect.speed import compare

    note(
        f"demonstrations of {suite} task {index}, {options.demonstrations} a turn, {options.lanes} at a time and alone"
    )
    registry.build([(suite, index)], seeds=(POLICY_SEED,), workers=1, progress=note)
    found = compare(
        registry.load_task(suite, index),
        Reactive(),
        episodes=options.demonstrations,
        lanes=options.lanes,
        threads=os.cpu_count() or 1,
        renderer=options.renderer,
        turns=options.repeats,
    )
    ratio = Spread.of(found["ratio"])
    named = {n: found[n] for n in ("task", "episodes", "lanes", "threads", "renderer", "image_size")}
    return {
        **named,
        "batched_per_minute": Spread.of(found["batched"]).median,
        "alone_per_minute": Spread.of(found["alone"]).median,
        "ratio": ratio.median,
        "ratio_range": [ratio.low, ratio.high],
    }


def _evaluation(options: TrainBench, checkpoint: Path, suite: str, index: int) -> dict[str, Any]:
    """The same instances, with the same policy, in this process and behind a server of its own."""
    from evals import registry
    from mjx_bench import records
    from mjx_bench.bench.figures import Spread
    from mjx_bench.cases import evaluation
    from mjx_bench.schedule import run_pairs
    from mjx_bench.settings import RunSettings, check_settings
    from policies import registry as policies
    from scripts.bench_serving import server

    registry.build([(suite, index)], seeds=(POLICY_SEED,), workers=1, progress=note)
    manifest = evaluation([registry.load_task(suite, index, seeds=(POLICY_SEED,))], options.instances, POLICY_SEED)
    solved: dict[str, dict[Any, Any]] = {}
    steps: dict[str, int] = {}
    with server(f"pi05:{checkpoint}", options.lanes) as (address, _):

        def run(way: str, name: str) -> float:
            settings = RunSettings(name, options.lanes, options.query_interval, renderer=options.renderer)
            check_settings(settings, acting[way])
            with tempfile.TemporaryDirectory(prefix="mjx-bench-") as folder:
                out = Path(folder) / "run"
                session = run_pairs(manifest, settings, out, load_task=registry.load_case, policy=acting[way])
                solved[way] = {key: record.success for key, record in records.load_run(out).done.items()}
            assert session is not None
            steps[way] = session.control_steps
            return session.wall_s

        names = {"fused": f"pi05:{checkpoint}", "served": address}
        acting = {way: policies.make(name) for way, name in names.items()}
        ways = {way: functools.partial(run, way, name) for way, name in names.items()}
        seconds = _in_turns(ways, options.repeats)
    ratio = Spread.of([a / b for a, b in zip(seconds["served"], seconds["fused"], strict=True)])
    return {
        "suite": suite,
        "task": index,
        "instances": options.instances,
        "lanes": options.lanes,
        "renderer": options.renderer,
        **{f"{way}_s": Spread.of(found).median for way, found in seconds.items()},
        **{f"{way}_control_steps": count for way, count in steps.items()},
        "time_ratio": ratio.median,
        "time_ratio_range": [ratio.low, ratio.high],
        "solved": sum(bool(value) for value in solved["fused"].values()),
        "same_outcomes": solved["fused"] == solved["served"],
    }


def _in_turns(ways: Mapping[str, Callable[[], float]], turns: int, warming: int = 1) -> dict[str, list[float]]:
    """What each way takes, turn by turn; who comes first changes. The first `warming` turns are not counted."""
    found: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(warming + turns):
        for way in reversed(list(ways)) if turn % 2 else ways:
            found[way].append(ways[way]())
        if turn >= warming:
            note(f"turn {turn - warming + 1}/{turns}: " + ", ".join(f"{w} {v[-1]:.3f} s" for w, v in found.items()))
    return {way: seconds[warming:] for way, seconds in found.items()}
