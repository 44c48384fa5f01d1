"""`python -m scripts.cloning_probe`: can the native suite be learnt from its pictures? One JSON document a task."""

from __future__ import annotations

import dataclasses
import sys
from typing import Literal

import tyro

from mjx_bench import runtime
from mjx_bench.errors import BenchError
from scripts import options as shared
from scripts.output import note, reserve_stdout


@dataclasses.dataclass(frozen=True)
class Probe:
    """Clone the scripted expert on tasks of the native suite, with pictures and without, on this machine's CPU or GPU."""

    task: tuple[str, ...] = ("press_button", "pick_lift")
    """Tasks, by name."""
    demonstrations: int = 200
    """Training instances that are demonstrated."""
    instances: int = 50
    """Evaluation instances on which success is counted."""
    steps: int = 1500
    """Of training, each on 64 queries."""
    renderer: Literal["auto", "gl", "warp"] = "warp"
    """What takes the pictures."""


def run(options: Probe) -> int:
    """Runs the probe on each task; 0."""
    shared.at_least(10, demonstrations=options.demonstrations)
    shared.at_least(1, instances=options.instances, steps=options.steps)
    indices = [shared.task_index("tabletop", name) for name in options.task]

    from evals import registry
    from evals.instances import EVALUATION, TRAINING
    from mjx_bench.observe.choice import choose
    from policies import registry as policies
    from train.cloning_probe import probe

    renderer, platform = choose(options.renderer)
    note(f"pictures by {renderer} on {platform}")
    emit = reserve_stdout()
    for index in indices:
        task = registry.load_task("tabletop", index)
        expert = policies.make("scripted.reactive")
        training, held_out = TRAINING[: options.demonstrations], EVALUATION[: options.instances]
        emit(probe(task, expert, training, held_out, options.steps, renderer))
    return 0


def main() -> int:
    """Entry point of a process: a mistake becomes one line."""
    runtime.configure()
    try:
        return run(tyro.cli(Probe, prog="python -m scripts.cloning_probe"))
    except BenchError as error:
        note(f"error: {error}")
        return 2


if __name__ == "__main__":
    sys.exit(main())
