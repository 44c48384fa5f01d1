"""`mjx-bench demo`: the main job on real LIBERO tasks, small."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from scripts import chosen, report, running
from scripts.output import Emit, note

# (suite, index): five tasks of each, so that every event finds a task it is possible on and few scenes are built.
TASKS = tuple((suite, index) for suite in ("libero_spatial", "libero_object") for index in range(5))
PAIRS = 16
SEED = 0
EXPERTS = ("scripted.reactive", "scripted.open_loop")


@dataclasses.dataclass(frozen=True)
class Demo:
    """Run both scripted experts on sixteen pairs over ten LIBERO tasks, and show what the events broke, with films.

    One expert looks again at every query, the other follows the plan it made at the start.
    """

    out: Path = Path("runs/demo")
    """Results folder; each expert gets a folder in it."""


def run(options: Demo, emit: Emit) -> int:
    """Samples, runs, films and reports each expert; 1 if a case could not be scored."""
    from mjx_bench.settings import RunSettings
    from policies import registry as policies

    manifest = chosen.draw(TASKS, PAIRS, SEED)
    scored = True
    for name in EXPERTS:
        out = options.out / name
        note(f"{name}: {PAIRS} pairs over {len({(c.task_suite_name, c.task_index) for c in manifest.cases})} tasks")
        running.evaluate(manifest, {out: RunSettings(policy=name, lanes=8, query_interval=8)}, policies.make(name))
        _film(out)
        scored &= report.show(out, None)
    print("pages for a browser:")
    for name in EXPERTS:
        print(options.out / name / report.PAGE)
    return 0 if scored else 1


def _film(out: Path) -> None:
    """A film and stills of the pair that shows most; a page without pictures where nothing can take them."""
    from evals import registry
    from mjx_bench.errors import BenchError
    from mjx_bench.observe.choice import choose
    from mjx_bench.video import make_media

    try:
        renderer, _ = choose("auto")
    except BenchError as error:
        note(f"no films: {error}")
        return
    make_media(out, videos=1, frames=1, renderer=renderer, load_task=registry.load_case, progress=note)
