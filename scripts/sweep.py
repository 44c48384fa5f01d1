"""`mjx-bench sweep`: the same cases over action horizons, query intervals and delays."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mjx_bench.errors import BenchError
from scripts import chosen, cost, report, running
from scripts import options as shared
from scripts.output import Emit, console

if TYPE_CHECKING:
    from mjx_bench.policy import Policy
    from mjx_bench.settings import RunSettings

PAGE = "sweep.html"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sweep(chosen.EventCaseOptions, shared.RunOptions):
    """Run the same pairs with each of several action horizons H and query intervals Q, a results folder each, and compare.

    Every H of --horizon with every Q of --query-interval, or the pairs of --setting. The same command again goes on where
    the last one ended.
    """

    horizon: tuple[int, ...] = ()
    """H, the actions used of each answer; all that the policy returns if none is given."""
    query_interval: tuple[int, ...] = ()
    """Q, the actions executed before the policy is asked again; none may be above an H."""
    horizon_is_query_interval: bool = False
    """H = Q, for each of --query-interval, instead of --horizon."""
    setting: tuple[str, ...] = ()
    """H/Q pairs, such as 16/8 8/8, instead of --horizon and --query-interval."""
    delay: tuple[int, ...] = (0,)
    """Control steps from an observation to the first action chosen from it; each with each setting."""


def run(options: Sweep, emit: Emit) -> int:
    """Runs and compares; 1 if a case could not be scored."""
    policy = running.begin(options)
    runs = runs_of(options, policy)
    # One draw for all settings: an event at a fixed step comes at a query of each.
    interval = math.lcm(*(settings.query_interval for settings in runs.values()))
    manifest, load = chosen.choose(options, options.scene_form, interval=interval)
    if options.dry_run:
        return cost.say([(manifest, runs)], policy, load, emit if options.json else None)
    cases = running.select(manifest, options.shard)
    running.evaluate(cases, runs, policy, load, running.cluster_of(options))
    if len(runs) == 1:
        return 0 if report.show(next(iter(runs)), emit if options.json else None) else 1
    return 0 if show(options.out, list(runs), emit if options.json else None) else 1


def runs_of(options: Sweep, policy: Policy) -> dict[Path, RunSettings]:
    """Folder to settings, in rising order of H, Q and delay.

    Raises:
      BenchError: no setting, one that the policy cannot be run with, or two ways of naming them.
    """
    from mjx_bench.settings import check_settings

    grid = bool(options.horizon or options.query_interval or options.horizon_is_query_interval)
    if grid and options.setting:
        raise BenchError("give either --setting (H/Q pairs) or --horizon and --query-interval (all of their pairs)")
    if options.horizon and options.horizon_is_query_interval:
        raise BenchError("--horizon-is-query-interval says what H is; leave out --horizon")
    if not options.setting and not options.query_interval:
        raise BenchError("give --query-interval, the values of Q to run (and --horizon), or --setting, pairs of H/Q")
    if options.setting:
        pairs = [_pair(text) for text in options.setting]
    elif options.horizon_is_query_interval:
        pairs = [(q, q) for q in options.query_interval]
    else:
        pairs = list(itertools.product(options.horizon or (policy.spec.horizon,), options.query_interval))
    runs: dict[Path, RunSettings] = {}
    for (h, q), delay in sorted(set(itertools.product(pairs, options.delay))):
        settings = running.settings_of(options, horizon=h, query_interval=q, delay=delay)
        check_settings(settings, policy)
        runs[options.out / (f"h{h}_q{q}" + (f"_d{delay}" if delay else ""))] = settings
    return runs


def show(out: Path, folders: Sequence[Path], emit: Emit | None) -> bool:
    """Saves every folder's report and the page that compares them; prints the settings. Whether all was scored."""
    from mjx_bench.records import load_run
    from mjx_bench.report import compare, html_compare, html_page, table
    from mjx_bench.report.results import results_of
    from mjx_bench.report.studies import sweep_grid
    from mjx_bench.report.summary import summarise

    runs = [load_run(folder) for folder in folders]
    summaries = [summarise(loaded) | {"delay": loaded.header.settings["delay"]} for loaded in runs]
    for loaded, summary in zip(runs, summaries, strict=True):
        report.save(loaded, summary, html_page.render(summary, loaded))
    comparison = compare.compare([results_of(loaded) for loaded in runs])
    if emit is not None:
        emit(comparison)
    else:
        to = console()
        to.print(table.render_grids([sweep_grid(summaries)], comparison["notes"], to.width))
    report.write_page(out / PAGE, html_compare.render(comparison))
    return not any(summary["void"] or summary["incomplete"] for summary in summaries)


def _pair(text: str) -> tuple[int, int]:
    h, _, q = text.partition("/")
    if not (h.isascii() and h.isdecimal() and q.isascii() and q.isdecimal()):
        raise BenchError(f"--setting {text!r}: expected H/Q, two numbers, such as 16/8")
    return int(h), int(q)
