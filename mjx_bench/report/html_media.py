"""Films and stills of a results folder as figures of the HTML page, embedded as far as its size allows."""

from __future__ import annotations

import base64
import dataclasses
from html import escape
from pathlib import Path

from mjx_bench.records import Run, event_rank
from mjx_bench.records.media import MOMENTS, is_whole, media_folder, still_path, video_path
from mjx_bench.report.html_plots import event_name
from mjx_bench.report.pairs import Pair, pairs_of
from mjx_bench.types import Arm

# Bytes of the files that a page embeds; a third more as text. Mail and browsers take a page of that size.
BUDGET = 24 * 2**20

_OUTCOME = {
    (True, False): "regression",
    (False, True): "recovery",
    (True, True): "both succeed",
    (False, False): "neither succeeds",
}
_CAPTION = {
    "start": "start",
    "before": "last query before the event",
    "event": "the event",
    "response": "first query after the event",
    "end": "end",
}


@dataclasses.dataclass(frozen=True)
class Gallery:
    """What a page shows.

    Attributes:
      figures: HTML, one a pair.
      left_out: files that would have made the page too large.
      damaged: files that are cut off.
    """

    figures: list[str]
    left_out: list[Path]
    damaged: list[Path]


def gallery(run: Run, budget: int = BUDGET) -> Gallery:
    """Figures of all pairs that have films or stills, regressions first; films are embedded before stills."""
    order = list(_OUTCOME)
    if run.arms == (Arm.BASE,):
        pairs = [pair for pair in pairs_of(run) if pair.base is not None and not pair.void]
        pairs.sort(key=lambda pair: bool(pair.base and pair.base.success))
    else:
        pairs = [pair for pair in pairs_of(run) if pair.scored is not None]
        pairs.sort(key=lambda pair: (order.index(pair.outcome), event_rank(pair.event)))
    films = {pair.case_id: _found([video_path(run.directory, pair.case_id)]) for pair in pairs}
    stills = {
        pair.case_id: _found([still_path(run.directory, pair.case_id, moment) for moment in MOMENTS]) for pair in pairs
    }
    taken: set[Path] = set()
    left_out: list[Path] = []
    damaged: list[Path] = []
    for files in (*films.values(), *stills.values()):
        for path in files:
            size = path.stat().st_size
            if not is_whole(path):
                damaged.append(path)
            elif size <= budget:
                taken.add(path)
                budget -= size
            else:
                left_out.append(path)
    figures = [
        _figure(
            run, pair, [p for p in films[pair.case_id] if p in taken], [p for p in stills[pair.case_id] if p in taken]
        )
        for pair in pairs
        if taken & {*films[pair.case_id], *stills[pair.case_id]}
    ]
    return Gallery(figures, left_out, damaged)


def left_out_note(run: Run, left_out: list[Path]) -> str:
    """One line for people about the files that are not in the page."""
    size = sum(path.stat().st_size for path in left_out) / 2**20
    files = "1 file is" if len(left_out) == 1 else f"{len(left_out)} files are"
    return (
        f"{files} not in this page ({size:.0f} MiB more than the {BUDGET // 2**20} MiB it may take);"
        f" see the folder {media_folder(run.directory).name}"
    )


def damaged_note(damaged: list[Path]) -> str:
    """One line for people about the files that show nothing."""
    names = ", ".join(path.name for path in damaged[:3]) + (", ..." if len(damaged) > 3 else "")
    return (
        f"{'1 file is' if len(damaged) == 1 else f'{len(damaged)} files are'} damaged, and made again by film: {names}"
    )


def _found(paths: list[Path]) -> list[Path]:
    return [path for path in paths if path.is_file()]


def _figure(run: Run, pair: Pair, films: list[Path], stills: list[Path]) -> str:
    base, dynamic = pair.base, pair.dynamic
    assert base is not None
    where = f"{base.suite} {base.task_index}, initial state {base.init_state_index}"
    task = base.task_name.replace("_", " ")
    if dynamic is None:
        what, width = f"{task}: {base.verdict}", 408
        text = f"{where}. {base.verdict} after {base.end_step} steps"
    else:
        what, width = f"{event_name(pair.event)}: {_OUTCOME[pair.outcome]}", 804
        fired = "the event never fired" if dynamic.trigger_step is None else f"event at step {dynamic.trigger_step}"
        text = (
            f"{where}; {fired}. Base: {base.verdict} after {base.end_step} steps."
            f" Dynamic: {dynamic.verdict} after {dynamic.end_step} steps"
        )
    parts = [
        f'<video controls muted playsinline preload="auto" width="{width}" height="748" aria-label="{escape(what)}"'
        f' src="data:video/mp4;base64,{_base64(path)}"></video>'
        for path in films
    ]
    if stills:
        parts.append('<div class="stills">')
        for path in stills:
            moment = path.suffixes[-2].lstrip(".")
            caption = _CAPTION[moment]
            parts.append(
                f'<figure><img src="data:image/png;base64,{_base64(path)}" width="{width}" height="748"'
                f' alt="{escape(f"{what}, {caption}")}"><figcaption>{escape(caption)}</figcaption></figure>'
            )
        parts.append("</div>")
    return (
        f'<article class="pair"><h3>{escape(what)}</h3>'
        f"<p>{escape(task)}. {escape(text)}.</p>"
        f'<p class="id">{escape(pair.case_id)}</p>{"".join(parts)}</article>'
    )


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode("ascii")
