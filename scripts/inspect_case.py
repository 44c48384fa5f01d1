"""`mjx-bench inspect`: runs one case again and shows what happened in it."""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro

from mjx_bench.errors import BenchError, unknown_name
from scripts.output import Emit, console, note

if TYPE_CHECKING:
    import numpy as np

    from mjx_bench.inspection import ArmView


@dataclasses.dataclass(frozen=True)
class Inspect:
    """Run both arms of one case: a timeline of queries, trigger, event, contacts and goal, and every joint position.

    Where there is a display, MuJoCo's viewer plays both arms in real time.
    """

    case: tyro.conf.Positional[str]
    """The case's id."""
    manifest: Path
    """File of cases that holds it."""
    policy: str
    """Name of the policy."""
    query_interval: int = 8
    """Q, the actions executed before the policy is asked again."""
    horizon: int | None = None
    """H, the actions used of each answer; all that the policy returns if not given."""
    backend: str = "auto"
    """Physics engine, as `pair` takes it."""
    scene_form: Literal["exact", "lean"] = "exact"
    """Form of the scene, as `pair` takes it."""
    out: Path | None = None
    """Where to write the trajectories (.npz); runs/inspect/CASE.npz if not given."""
    viewer: Literal["auto", "never"] = "auto"
    """Whether to open the viewer where there is a display."""
    json: bool = False
    """Print the timeline as JSON, and open no viewer."""


def run(options: Inspect, emit: Emit) -> int:
    """Runs, prints, writes and plays; 1 if an arm is void."""
    from evals import registry
    from mjx_bench.cases import load_manifest
    from mjx_bench.inspection import inspect_case
    from mjx_bench.judged import task_key
    from mjx_bench.physics.choice import choose
    from mjx_bench.schedule import check_actions, load_tasks
    from mjx_bench.settings import RunSettings, check_settings
    from policies import registry as policies

    policy = policies.make(options.policy)
    settings = RunSettings(options.policy, 1, options.query_interval, options.horizon, backend=options.backend)
    arms = check_settings(settings, policy)
    backend, _ = choose(options.backend)
    manifest = load_manifest(options.manifest)
    cases = {c.case_id: c for c in manifest.cases}
    if options.case not in cases:
        raise unknown_name(f"case in {options.manifest}", options.case, cases)
    case = cases[options.case]
    if (reason := registry.missing_source(case)) is not None:
        raise BenchError(f"case {case.case_id!r} cannot be run: {reason}")
    one = dataclasses.replace(manifest, cases=(case,)).with_query_interval(options.query_interval)
    task = load_tasks(one, functools.partial(registry.load_case, form=options.scene_form))[task_key(case)]
    check_actions(policy.spec, [task])
    if backend != "c":
        note(f"compiling a program of engine {backend}, then running the case")
    views = inspect_case(case, task, policy, arms, backend)
    told = task.instruction_of(case.init_state_index)
    path = options.out or Path("runs/inspect") / f"{case.case_id}.npz"
    _write(path, views)
    if options.json:
        emit({arm: [dataclasses.asdict(m) for m in view.moments] for arm, view in views.items()})
    else:
        _print(told, views)
    note(f"trajectories: {path}")
    if options.viewer == "auto" and not options.json and _display():
        from scripts import viewer

        viewer.play(task, told, {arm: view.poses for arm, view in views.items() if view.poses})
    return int(any(view.result.verdict == "void" for view in views.values()))


def _print(told: str, views: dict[Any, ArmView]) -> None:
    out = console()
    out.print(f"[bold]{told}[/bold]")
    for arm, view in views.items():
        out.print(f"\n[bold]{arm}[/bold]")
        for moment in view.moments:
            out.print(f"{moment.step:5d}  {moment.what}", highlight=False)


def _write(path: Path, views: dict[Any, ArmView]) -> None:
    import numpy as np

    arrays: dict[str, np.ndarray] = {}
    for arm, view in views.items():
        arrays |= {f"{arm}.{name}": value for name, value in view.result.arrays.items()}
        arrays[f"{arm}.qpos"] = view.qpos
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, allow_pickle=False, **arrays)
    except OSError as error:
        raise BenchError(f"{path}: cannot write the trajectories: {error.strerror or error}") from None


def _display() -> bool:
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
