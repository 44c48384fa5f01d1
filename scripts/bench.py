"""`mjx-bench bench`: how fast the engine and its policies are, always as a ratio to something run in the same minutes."""

from __future__ import annotations

import dataclasses
import functools
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from mjx_bench.errors import BenchError
from scripts import bench_curve, bench_engine, bench_pictures, bench_policy, bench_train
from scripts import options as shared
from scripts.bench_curve import Curve
from scripts.bench_engine import Engine
from scripts.bench_pictures import Fidelity, Pictures
from scripts.bench_policy import PolicyBench
from scripts.bench_train import TrainBench
from scripts.output import Emit, note

if TYPE_CHECKING:
    from mjx_bench.manifest import Manifest
    from mjx_bench.sessions import Session

BUILDERS = 2  # processes that build scenes, about 1 GB each


@dataclasses.dataclass(frozen=True)
class Pairs:
    """What forking, sharing Base runs and refilling lanes save on the cases of a manifest."""

    manifest: Path
    """File of cases."""
    limit: int | None = None
    """Run only this many cases, spread over the event types."""
    lanes: int = 8
    """Episodes of one scene that run side by side."""
    query_interval: int = 8
    """Q, the actions executed before the policy is asked again."""
    policy: str = "scripted.reactive"
    """Name of the policy."""
    json: bool = False
    """Print JSON instead of text."""


@dataclasses.dataclass(frozen=True)
class Workers:
    """What a second worker is worth on the cases of a manifest, and where the workers' time goes."""

    manifest: Path
    """File of cases."""
    limit: int | None = None
    """Run only this many cases, spread over the event types."""
    threads: int = 2
    """Workers to compare with one."""
    repeats: int = 3
    """Runs with one worker and with several, in turns."""
    lanes: int = 8
    """Episodes of one scene that run side by side."""
    query_interval: int = 8
    """Q, the actions executed before the policy is asked again."""
    policy: str = "scripted.reactive"
    """Name of the policy."""
    json: bool = False
    """Print JSON instead of text."""


@dataclasses.dataclass(frozen=True)
class Bench:
    """Measure engines, pictures and policies: ratios to something run in the same minutes, on this machine."""

    what: Annotated[
        Annotated[Engine, tyro.conf.subcommand("engine")]
        | Annotated[Curve, tyro.conf.subcommand("curve")]
        | Annotated[Pairs, tyro.conf.subcommand("pairs")]
        | Annotated[Workers, tyro.conf.subcommand("workers")]
        | Annotated[Pictures, tyro.conf.subcommand("pictures")]
        | Annotated[Fidelity, tyro.conf.subcommand("fidelity")]
        | Annotated[PolicyBench, tyro.conf.subcommand("policy")]
        | Annotated[TrainBench, tyro.conf.subcommand("train")],
        tyro.conf.arg(name=""),
    ]

    @property
    def json(self) -> bool:
        """Whether standard output is for JSON only."""
        return self.what.json


def run(options: Bench, emit: Emit) -> int:
    """Measures, and prints what it found; always 0."""
    what = options.what
    if isinstance(what, Fidelity):
        rows = bench_pictures.fidelity(what)
        if options.json:
            emit([{"task": label, **bench_pictures.plain_data(found)} for label, found in rows])
        else:
            print("\n".join(bench_pictures.tables(rows)))
        return 0
    if isinstance(what, Engine):
        figures = bench_engine.engine(what)
    elif isinstance(what, Curve):
        figures = bench_curve.curve(what)
    elif isinstance(what, Pairs):
        figures = pairs(what)
    elif isinstance(what, Pictures):
        figures = bench_pictures.pictures(what)
    elif isinstance(what, PolicyBench):
        figures = bench_policy.policy(what)
    elif isinstance(what, TrainBench):
        figures = bench_train.train(what)
    else:
        figures = workers(what)
    if options.json:
        emit(figures)
    else:
        print("\n".join(lines(figures)))
    return 0


def pairs(options: Pairs) -> dict[str, Any]:
    """The figures of `bench pairs`; the keys are those of the JSON."""
    shared.at_least(1, limit=options.limit, lanes=options.lanes, query_interval=options.query_interval)

    from evals import registry
    from mjx_bench.bench import figures
    from mjx_bench.bench import pairs as savings
    from mjx_bench.judged import task_key
    from mjx_bench.schedule import load_tasks
    from mjx_bench.settings import RunSettings, check_settings
    from policies import registry as policies

    check_settings(RunSettings(options.policy, options.lanes, options.query_interval), policies.make(options.policy))
    manifest = _cases(options.manifest, options.limit, options.query_interval)
    tasks = load_tasks(manifest, registry.load_case)
    new_policy = functools.partial(policies.make, options.policy)
    by_task = []
    for turn, (key, task) in enumerate(tasks.items()):
        cases = [case for case in manifest.cases if task_key(case) == key]
        note(f"{turn + 1}/{len(tasks)} {task.suite} task {task.index}: {len(cases)} cases")
        by_task.append(savings.measure(task, cases, new_policy, options.lanes, options.query_interval, turn))
    return {
        "manifest": str(options.manifest),
        "cases": len(manifest.cases),
        "tasks": len(tasks),
        "lanes": options.lanes,
        "policy": options.policy,
        "ways": savings.summary(by_task),
        **figures.machine(),
    }


def workers(options: Workers) -> dict[str, Any]:
    """The figures of `bench workers`; the keys are those of the JSON."""
    shared.at_least(1, limit=options.limit, repeats=options.repeats)
    shared.at_least(2, threads=options.threads)

    from evals import registry
    from mjx_bench.bench import figures
    from mjx_bench.bench.workers import measure
    from mjx_bench.schedule import run_pairs
    from mjx_bench.settings import RunSettings, check_settings
    from policies import registry as policies

    settings = RunSettings(options.policy, options.lanes, options.query_interval)
    check_settings(settings, policies.make(options.policy))
    manifest = _cases(options.manifest, options.limit, options.query_interval)

    def whole(threads: int) -> Session:
        # A policy of its own for each run: what one keeps of a scene must not make the next one faster.
        policy = policies.make(options.policy)
        chosen = dataclasses.replace(settings, threads=threads)
        with tempfile.TemporaryDirectory(prefix="mjx-bench-") as folder:
            session = run_pairs(manifest, chosen, Path(folder) / "run", load_task=registry.load_case, policy=policy)
        assert session is not None
        note(f"{threads} threads: {session}")
        return session

    return {
        "manifest": str(options.manifest),
        "cases": len(manifest.cases),
        "tasks": len({(case.task_suite_name, case.task_index) for case in manifest.cases}),
        "lanes": options.lanes,
        "threads": options.threads,
        "policy": options.policy,
        **measure(whole, options.threads, options.repeats),
        **figures.machine(),
    }


def _cases(path: Path, limit: int | None, query_interval: int) -> Manifest:
    """The cases to run, with their scenes built."""
    from evals import registry
    from mjx_bench import cases, selection

    manifest = cases.select(cases.load_manifest(path), limit)
    manifest = selection.choose(manifest, missing_source=registry.missing_source).manifest
    for line in registry.prepare(manifest.cases, workers=BUILDERS, progress=note):
        raise BenchError(line)
    return manifest.with_query_interval(query_interval)


def lines(figures: dict[str, Any], indent: str = "") -> list[str]:
    """The figures as text, one a line, groups indented."""
    out = []
    for name, value in figures.items():
        label = f"{indent}{name.replace('_', ' ')}"
        if isinstance(value, dict):
            out += [f"{label}:", *lines(value, indent + "  ")]
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            out.append(f"{label}:")
            for row in value:
                first, *rest = lines(row, indent + "    ")
                out += [f"{indent}  - {first.strip()}", *rest]
        else:
            out.append(f"{label}: {value:g}" if isinstance(value, float) else f"{label}: {value}")
    return out
