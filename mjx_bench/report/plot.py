"""One picture of one pair: where both arms' hands went, and where and when the event struck."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import numpy as np

from mjx_bench.errors import BenchError
from mjx_bench.records import Run
from mjx_bench.report.pairs import Pair, pairs_of

RELOCATIONS = ("target_relocation", "receptacle_relocation")
BASE_COLOUR, DYNAMIC_COLOUR, EVENT_COLOUR, OBJECT_COLOUR = "#0072B2", "#D55E00", "#222222", "#009E73"  # Okabe and Ito


def choose_pair(run: Run) -> Pair | None:
    """The relocation that shows most: one that the event broke, else any that it struck; targets before receptacles."""
    # Broken, then gained, kept, failed.
    merit = {(True, False): 0, (False, True): 1, (True, True): 2, (False, False): 3}
    candidates = [
        (merit[pair.outcome], RELOCATIONS.index(pair.event), i, pair)
        for i, pair in enumerate(pairs_of(run))
        if pair.event in RELOCATIONS and pair.complete and not pair.void and _struck(pair)
    ]
    return min(candidates, key=lambda c: c[:3])[3] if candidates else None


def _struck(pair: Pair) -> bool:
    both = all("eef_pos" in r.arrays and r.arrays["eef_pos"].shape[0] > 1 for r in pair.arms)
    event = pair.dynamic.event if pair.dynamic else None
    return (
        both and pair.dynamic is not None and pair.dynamic.trigger_step is not None and bool((event or {}).get("moved"))
    )


def plot_pair(run: Run, pair: Pair, path: str | os.PathLike[str]) -> pathlib.Path:
    """Draws both arms of a relocation pair: seen from above (x, y), and height over policy steps.

    Args:
      run: the results folder.
      pair: a pair that `choose_pair` could return; needs `eef_pos` [T, 3] of both arms and the moved objects of the event.
      path: of the PNG.

    Returns:
      The path.

    Raises:
      BenchError: the pair has no trajectory or its event never fired, or the file cannot be written.
    """
    if not (pair.complete and _struck(pair)):
        raise BenchError(f"case {pair.case_id!r}: nothing to draw; it needs both trajectories and an event that fired")
    assert pair.base is not None
    assert pair.dynamic is not None
    base, dynamic = (np.asarray(run.array(r, "eef_pos")) for r in (pair.base, pair.dynamic))
    struck = pair.dynamic.trigger_step
    assert struck is not None

    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    with plt.rc_context({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}):
        figure, (top, side) = plt.subplots(1, 2, figsize=(12, 5.4), width_ratios=(1, 1.15), layout="constrained")
        _top_view(top, base, dynamic, struck, pair)
        _height(side, base, dynamic, struck, pair)
        handles, labels = top.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(handles), frameon=False)
        r = pair.dynamic
        figure.suptitle(
            f"{r.task_name.replace('_', ' ')}   (initial state {r.init_state_index})\n"
            f"{pair.event.replace('_', ' ')}: base {_ending(pair.base)}, dynamic {_ending(r)}",
            fontsize=12,
        )
        try:
            figure.savefig(path, dpi=130)
        except OSError as e:
            raise BenchError(f"{path}: cannot write the picture: {e.strerror}") from None
        finally:
            plt.close(figure)
    return pathlib.Path(path)


def _ending(record: Any) -> str:
    return f"{'succeeds' if record.success else 'fails'} after {record.end_step} steps"


def _top_view(ax: Any, base: np.ndarray, dynamic: np.ndarray, struck: int, pair: Pair) -> None:
    assert pair.dynamic is not None
    assert pair.dynamic.event is not None
    ax.plot(base[:, 0], base[:, 1], color=BASE_COLOUR, lw=5, alpha=0.45, label="base hand")
    ax.plot(
        dynamic[struck - 1 :, 0],
        dynamic[struck - 1 :, 1],
        color=DYNAMIC_COLOUR,
        lw=1.8,
        label="dynamic hand after the event",
    )
    ax.plot(*base[0, :2], "o", color="white", mec=EVENT_COLOUR, ms=7, label="start", zorder=5)
    for path, colour in ((base, BASE_COLOUR), (dynamic, DYNAMIC_COLOUR)):
        ax.plot(*path[-1, :2], "s", color=colour, mec="white", ms=8, zorder=6)
    ax.plot([], [], "s", color="grey", mec="white", ms=8, label="end")
    ax.plot(
        *dynamic[struck - 1, :2], "*", color="#F0E442", mec=EVENT_COLOUR, ms=15, label=f"event, step {struck}", zorder=7
    )
    for i, moved in enumerate(pair.dynamic.event["moved"]):
        before, after = np.array(moved["before"]), np.array(moved["after"])
        name = moved["entity"].replace("_", " ")
        ax.plot(
            *before[:2],
            "o",
            color="white",
            mec=OBJECT_COLOUR,
            mew=2,
            ms=13,
            zorder=3,
            label=None if i else "object before",
        )
        ax.plot(*after[:2], "o", color=OBJECT_COLOUR, mec="white", ms=13, zorder=3, label=None if i else "object after")
        arrow = {"arrowstyle": "-|>", "color": OBJECT_COLOUR, "lw": 1.6, "shrinkA": 8, "shrinkB": 8}
        ax.annotate("", after[:2], before[:2], arrowprops=arrow, zorder=4)
        distance = float(np.linalg.norm(after - before))
        # Beyond the arrow's head, where neither the arrow nor the place it came from can be.
        along = (after - before)[:2] / max(distance, 1e-9)
        ax.annotate(
            f"{name}\n{100 * distance:.0f} cm",
            after[:2],
            xytext=14 * along,
            textcoords="offset points",
            ha="left" if along[0] >= 0 else "right",
            va="bottom" if along[1] >= 0 else "top",
            color=OBJECT_COLOUR,
            bbox={"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 1},
        )
    ax.set(title="from above", xlabel="x (m), away from the robot", ylabel="y (m)")
    ax.set_aspect("equal", adjustable="datalim")
    ax.margins(0.12)
    ax.grid(alpha=0.25)


def _height(ax: Any, base: np.ndarray, dynamic: np.ndarray, struck: int, pair: Pair) -> None:
    assert pair.base is not None
    assert pair.dynamic is not None
    ax.plot(np.arange(1, len(base) + 1), base[:, 2], color=BASE_COLOUR, lw=5, alpha=0.45)
    after = dynamic[struck - 1 :, 2]
    ax.plot(np.arange(struck, struck + len(after)), after, color=DYNAMIC_COLOUR, lw=1.8)
    for path, colour in ((base, BASE_COLOUR), (dynamic, DYNAMIC_COLOUR)):
        ax.plot(len(path), path[-1, 2], "s", color=colour, mec="white", ms=8, zorder=6)
    ax.axvline(struck, color=EVENT_COLOUR, lw=1, ls="--")
    ax.plot(struck, dynamic[struck - 1, 2], "*", color="#F0E442", mec=EVENT_COLOUR, ms=15, zorder=7)
    answer = pair.dynamic.first_response_step
    if answer is not None and answer > struck:
        ax.axvspan(struck, answer, color=EVENT_COLOUR, alpha=0.10, lw=0)
        ax.annotate(
            f"{answer - struck} stale actions",
            (answer, 1),
            xycoords=("data", "axes fraction"),
            xytext=(6, -4),
            textcoords="offset points",
            va="top",
        )
    ax.set(title="height of the hand", xlabel="policy step", ylabel="z (m)")
    ax.margins(x=0.02, y=0.08)
    ax.grid(alpha=0.25)
