"""Whether a suite is what it should be: its files, its counts, and that every case follows from the rules."""

from __future__ import annotations

import collections
import dataclasses
import functools
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evals.libero_max import pool, suite
from evals.libero_max.released import REDRAWN_SAMPLER, Source, case_of, eligible
from mjx_bench.cases import EVENT_ORDER, Case, Manifest, load_manifest, manifest_sha256
from mjx_bench.errors import BenchError
from mjx_bench.task import Task

# Of the whole suite built by the versions that the project pins, written by `suite build`.
COMMITTED = Path(__file__).with_name("built.json")
SHOWN = 20  # findings of a kind, at most


def check(path: Path) -> list[str]:
    """What is wrong with a built suite's folder, or with a manifest; one line a finding.

    Raises:
      BenchError: nothing there to check, or a manifest that cannot be read.
    """
    if not path.is_dir():
        return list(_manifest(load_manifest(path)))
    found = list(_files(path))
    if all((path / suite.FILES[name]).is_file() for name in suite.NAMES):
        found += _manifests(path)
    return found


def _manifest(manifest: Manifest) -> Iterator[str]:
    """A manifest alone; how many cases there must be is known of one that calls itself one of our suites."""
    if (fault := suite.version_fault(manifest)) is not None:
        yield fault
    name, part = manifest.benchmark_id.partition("-regenerated")[0], _part(manifest)
    if name == suite.MAX:
        yield from _counts(manifest, part)
    elif name == suite.LITE:
        found = collections.Counter((c.event, suite.track_of(c.case_id)) for c in manifest.cases)
        for event in EVENT_ORDER:
            for track, quota in suite.lite_quota(part).items():
                if (has := found[event, track]) != quota:
                    yield f"{manifest.source}: {has} {track} cases of {event}, expected {quota}"
    for case in manifest.cases:
        if case.substrate_category is not None and case.substrate_variant is None:
            yield f"{manifest.source}: case {case.case_id!r}: no substrate_variant, so its source is not known"
            break
    yield from _cases(manifest)


def _files(folder: Path) -> Iterator[str]:
    sums = folder / suite.SUMS
    if not sums.is_file():
        raise BenchError(f"{sums}: no checksums; is a suite built there?")
    for line in sums.read_text(encoding="utf-8").splitlines():
        expected, _, name = line.partition("  ")
        file = folder / name
        if not file.is_file():
            yield f"{file}: is missing"
        elif hashlib.sha256(file.read_bytes()).hexdigest() != expected:
            yield f"{file}: is not the file that was built"


def _manifests(folder: Path) -> Iterator[str]:
    whole, lite = (load_manifest(folder / suite.FILES[name]) for name in suite.NAMES)
    part = _part(whole)
    yield from _counts(whole, part)
    yield from _cases(whole)
    if manifest_sha256(suite.lite_of(whole, part)) != manifest_sha256(lite):
        yield f"{folder / suite.FILES[suite.LITE]}: is not what the published rule draws from {suite.FILES[suite.MAX]}"
    if part == 1:
        expected = json.loads(COMMITTED.read_text(encoding="utf-8"))[suite.MAX]["manifest_sha256"]
        if (found := manifest_sha256(whole)) != expected:
            yield f"{folder / suite.FILES[suite.MAX]}: hash {found[:12]}, and the project's own build has {expected[:12]}"


def _part(manifest: Manifest) -> int:
    _, _, part = manifest.benchmark_id.partition("-part-")
    return int(part) if part.isdigit() else 1


def _counts(manifest: Manifest, part: int) -> Iterator[str]:
    cells = collections.Counter(_cell(case) for case in manifest.cases)
    for benchmark, category in pool.categories():
        size = suite.sizes(part)[benchmark == "pro"]
        name = f"LIBERO-PRO/{category}" if benchmark == "pro" else category
        for slot in suite.SLOTS:
            if (found := cells.pop((name, *slot), 0)) != size:
                yield f"{manifest.source}: {name}, {slot[0]}, draw {slot[1]}: {found} cases, expected {size}"
    for cell, found in cells.items():
        yield f"{manifest.source}: {found} cases of no cell: {cell}"
    sources = collections.Counter(
        (c.substrate_category, c.task_suite_name, c.task_index, c.to_json()["substrate_variant"]["bddl_file"])
        for c in manifest.cases
        if suite.track_of(c.case_id) == "plus" and c.substrate_variant is not None
    )
    for source, uses in sources.items():
        if uses > 1:
            yield f"{manifest.source}: a variant of LIBERO-Plus is used {uses} times: {source[-1]}"


def _cell(case: Case) -> tuple[str | None, str, int | None]:
    return case.substrate_category, case.event, None if case.scenario is None else case.scenario.draw


def _cases(manifest: Manifest) -> Iterator[str]:
    """Cases that differ from what the rules make of their source, event and draw."""
    wrong = 0
    for case in manifest.cases:
        data = case.to_json()
        if data.get("substrate_variant") is None or case.scenario is None or case.scenario.draw is None:
            continue
        source = suite.source_of(data)
        task = _task(dataclasses.replace(source, init_state=0))
        sampler = data["scenario"]["randomization"].get("sampler")
        if case.event not in eligible(task):
            fault = f"task {source.index} of {source.suite} cannot have {case.event}"
        elif (made := _made(source, data, task, case, redraw=sampler == REDRAWN_SAMPLER)) == data:
            continue
        else:
            fault = f"not what the rules make of it: {_difference(made, data)}"
        wrong += 1
        if wrong <= SHOWN:
            yield f"{manifest.source}: case {case.case_id!r}: {fault}"
    if wrong > SHOWN:
        yield f"{manifest.source}: and {wrong - SHOWN} cases more"


def _made(source: Source, data: dict[str, Any], task: Task, case: Case, *, redraw: bool) -> dict[str, Any]:
    assert case.scenario is not None
    assert case.scenario.draw is not None
    return case_of(source, data["substrate_variant"], task, case.event, case.scenario.draw, redraw=redraw)


@functools.lru_cache(maxsize=512)
def _task(source: Source) -> Task:
    """What tells the case's entities and supports: for LIBERO-Plus the plain task."""
    from evals.libero import tasks

    if source.benchmark == "plus":
        return tasks.load_task(source.suite, source.index)
    return tasks.load_variant(pool.variant_of(source), source.suite, source.index)


def _difference(made: dict[str, Any], data: dict[str, Any]) -> str:
    for key in sorted({*made, *data}):
        if made.get(key) != data.get(key):
            a, b = made.get(key), data.get(key)
            return (
                _difference(a, b) if isinstance(a, dict) and isinstance(b, dict) else f"{key} = {b!r}, expected {a!r}"
            )
    return "nothing"
