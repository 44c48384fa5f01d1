"""`mjx-bench film`: films, stills and recordings of the pairs in a results folder, made after the run."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro

from mjx_bench.errors import BenchError
from scripts import options as shared
from scripts.output import Emit, check_writable, note

if TYPE_CHECKING:
    from mjx_bench.video import LoadTask

RERUN_SIZE = 256  # pixels a side of the pictures in a recording


@dataclasses.dataclass(frozen=True)
class Film:
    """Film pairs of a finished run: both arms side by side, with queries, event and verdicts drawn on.

    The pairs are run again from their records, and must come out as recorded. What is there already is not made again.
    """

    dir: tyro.conf.Positional[Path]
    """Results folder; files go into its folder media."""
    video: int = 0
    """Pairs to film (MP4); regressions first."""
    frames: int = 0
    """Pairs to take stills of (PNG): at the query before the event, the event, the first query after it, and the end."""
    case: shared.Names = ()
    """Film these pairs, by case id, and no others (a video of each, if neither --video nor --frames is given)."""
    rerun: str | None = None
    """Case id of a pair to export for the rerun viewer (.rrd): cameras, hand, objects, contacts, log."""
    out: Path | None = None
    """Where to write the recording; media/CASE.rrd if not given."""
    renderer: Literal["auto", "gl", "warp"] = "auto"
    """What takes the pictures: gl (OpenGL, the reference) or warp (ray tracing)."""
    camera: shared.Names = ()
    """The large camera and the small one; those that the task's source observes with if not given."""
    bddl: Path | None = None
    """The task file of your own that was run, if it was one."""
    bddl_init_states: Path | None = None
    """Its initial states, as given to the run."""


def run(options: Film, emit: Emit) -> int:
    """Makes what is missing and prints the path of every file."""
    shared.at_least(0, video=options.video, frames=options.frames)
    cases, cameras = shared.flat(options.case), shared.flat(options.camera)
    videos, frames = options.video, options.frames
    if cases and not videos and not frames:
        videos = len(cases)
    if options.out is not None and options.rerun is None:
        raise BenchError("--out is where a recording goes; give --rerun CASE too, or leave it out")
    if not videos and not frames and options.rerun is None:
        raise BenchError("nothing to make; say what: --video N, --frames N, --case ID, or --rerun ID")

    from mjx_bench.records import load_run
    from mjx_bench.video import make_media

    form = load_run(options.dir).header.settings.get("scene_form", "exact")
    load = task_loader(options.bddl, options.bddl_init_states, form)
    if options.rerun is not None:
        print(_export(options, options.rerun, cameras, load))
    made = make_media(
        options.dir,
        videos=videos,
        frames=frames,
        renderer=options.renderer,
        load_task=load,
        case_ids=cases,
        cameras=cameras,
        progress=note,
    )
    for path in made:
        print(path)
    return 0


def task_loader(bddl: Path | None, init_states: Path | None, form: str) -> LoadTask:
    """Case to task in a form of its scene, for the suites and for a task file of one's own."""
    from evals import registry
    from mjx_bench.cases import OWN_SUITE, Case
    from mjx_bench.task import Task

    def load(case: Case) -> Task:
        if case.task_suite_name != OWN_SUITE:
            return registry.load_case(case, form=form)
        if bddl is None:
            raise BenchError(f"suite {OWN_SUITE!r} is a task file of your own; name it with --bddl")
        return registry.in_form(registry.load_bddl(bddl, init_states=init_states, seeds=(case.policy_seed,)), form)

    return load


def _export(options: Film, case_id: str, cameras: tuple[str, ...], load: LoadTask) -> Path:
    from mjx_bench.cases import Manifest
    from mjx_bench.film import film_pair, recorded_pair
    from mjx_bench.observe.choice import choose, make_renderer
    from mjx_bench.records import load_run
    from mjx_bench.records.media import rerun_path
    from mjx_bench.rerun_export import export_rerun, load_rerun
    from mjx_bench.video import LANES, check_cameras, check_media

    load_rerun()
    loaded = load_run(options.dir)
    recorded_pair(loaded, case_id)
    path = options.out
    if path is None:
        check_media(options.dir)
        path = rerun_path(options.dir, case_id)
    else:
        check_writable(path)
    name, _ = choose(options.renderer)
    manifest = Manifest.read(loaded.manifest, str(options.dir / "manifest.json"))
    case = next(c for c in manifest.cases if c.case_id == case_id)
    task = load(case)
    shown = check_cameras(task, cameras)
    footage = film_pair(loaded, case, task, note)
    with contextlib.closing(make_renderer(name, task.scene, shown, RERUN_SIZE, RERUN_SIZE, LANES)) as renderer:
        return export_rerun(footage, renderer, path)
