"""LIBERO-MAX's 8,000 cases and its Lite: what there is, written and loaded by name.

The release's own manifest is not public. This one follows its construction (section 1.6 of the format) on sources that are
exact where the LIBERO package holds them and regenerated from their rules elsewhere. Building it twice gives the same file.
"""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evals.libero_max import choosing, pool, released
from evals.libero_max.choosing import Slot
from evals.libero_max.released import Source
from mjx_bench.cases import EVENT_ORDER, Case, Manifest, dump_manifest, manifest_sha256
from mjx_bench.errors import BenchError, unknown_name
from mjx_bench.fields import canonical_json
from mjx_bench.runtime import cache_root

MAX, LITE = "libero-max", "libero-max-lite"
NAMES = (MAX, LITE)
POLICY_SEED = released.POLICY_SEED
VERSION = "1"
FILES = {MAX: "libero_max.json", LITE: "libero_max_lite.json"}
SUMMARY, SUMS, VERDICTS = "summary.json", "SHA256SUMS", "preflight.jsonl"

DRAWS = (0, 1)
SLOTS: tuple[Slot, ...] = tuple((event, draw) for event in EVENT_ORDER for draw in DRAWS)

# Fields of a case that tell one varied task from another.
_VARIED = ("task_suite_name", "task_index", "substrate_variant")

LITE_SEED = 20260830
LITE_QUOTA = {"plus": 70, "pro": 30}  # of each event's cases


@dataclasses.dataclass(frozen=True)
class Built:
    """A suite and how it came about.

    Attributes:
      manifest: the cases.
      lite: 800 of them (of a part, as many as there are).
      failures: cause to how many tried cases failed preflight for it.
      tried: how many cases were tried.
      rounds: how many it took.
    """

    manifest: Manifest
    lite: Manifest
    failures: dict[str, int]
    tried: int
    rounds: int


def sizes(part: int = 1) -> tuple[int, int]:
    """Cases of a cell of LIBERO-Plus and of one of LIBERO-PRO."""
    return max(1, choosing.PLUS_CELL // part), max(1, choosing.PRO_CELL // part)


def lite_quota(part: int = 1) -> dict[str, int]:
    """Cases of an event in Lite, by track."""
    return {track: max(1, quota // part) for track, quota in LITE_QUOTA.items()}


def lite_of(manifest: Manifest, part: int = 1) -> Manifest:
    """Lite by the published rule (1.6): of each event 70 cases of LIBERO-Plus and 30 of LIBERO-PRO, by one seed.

    Raises:
      BenchError: too few cases of an event.
    """
    rng = random.Random(LITE_SEED)
    chosen = []
    for event in sorted(EVENT_ORDER):
        for track, quota in lite_quota(part).items():
            cases = [c for c in manifest.cases if c.event == event and track_of(c.case_id) == track]
            if len(cases) < quota:
                raise BenchError(f"{manifest.source}: {len(cases)} {track} cases of {event}, and Lite takes {quota}")
            drawn = rng.sample(sorted(cases, key=lambda c: c.case_id), quota)
            chosen += [(event, track, c.case_id, c) for c in drawn]
    chosen.sort(key=lambda row: row[:3])
    return dataclasses.replace(
        manifest,
        benchmark_id=manifest.benchmark_id.replace(MAX, LITE),
        protocol=dataclasses.replace(manifest.protocol, profile="lite"),
        cases=tuple(row[3] for row in chosen),
    )


def track_of(case_id: str) -> str:
    """Which benchmark's variant a case starts from."""
    return "pro" if case_id.startswith("pro-") else "plus"


def counts(manifest: Manifest) -> dict[str, Any]:
    """How many cases there are: by event, source, category, variant, and so on; plain JSON values."""
    from evals.libero.variants import is_regenerated

    cases = manifest.cases
    written = [c.to_json() for c in cases]
    plus = [
        data
        for c, data in zip(cases, written, strict=True)
        if _source_name(c) == "plus" and c.substrate_variant is not None
    ]

    def by(values: Sequence[str]) -> dict[str, int]:
        return dict(sorted(collections.Counter(values).items()))

    return {
        "cases": len(cases),
        "event": by([c.event for c in cases]),
        "source": by([_source_name(c) for c in cases]),
        "category": by([str(c.substrate_category) for c in cases]),
        "variant": by(["regenerated" if is_regenerated(c.substrate_variant) else "exact" for c in cases]),
        "draw": by([str(c.scenario.draw) for c in cases if c.scenario is not None]),
        "severity": by([c.scenario.severity for c in cases if c.scenario is not None]),
        "suite": by([c.task_suite_name for c in cases]),
        "difficulty": by([str(data.get("substrate_difficulty")) for data in written]),
        "strength": by([str(pool.strength(source_of(data))) for data in plus]),
        "source_tasks": len({canonical_json([data.get(key) for key in _VARIED]) for data in written}),
        "manifest_sha256": manifest_sha256(manifest),
    }


def _source_name(case: Case) -> str:
    return "plain" if case.substrate_category is None else track_of(case.case_id)


def source_of(case: dict[str, Any]) -> Source:
    """The source of a case, from its JSON."""
    from evals.libero import package

    suite, index, variant = case["task_suite_name"], case["task_index"], case["substrate_variant"]
    if variant["benchmark"].startswith("LIBERO-PRO"):
        return Source("pro", variant["category"], suite, index, "", case["init_state_index"])
    start = f"{suite}/{package.find(suite, index).name}_"
    return Source(
        "plus", variant["category"], suite, index, variant["bddl_file"].removeprefix(start).removesuffix(".bddl")
    )


def write(built: Built, out: Path) -> dict[str, Any]:
    """Writes manifests, summary and checksums; returns the summary."""
    out.mkdir(parents=True, exist_ok=True)
    summary = {
        **{name: counts(m) for name, m in ((MAX, built.manifest), (LITE, built.lite))},
        "preflight": {"tried": built.tried, "failed": sum(built.failures.values()), "causes": built.failures},
        "rounds": built.rounds,
    }
    texts = {
        FILES[MAX]: dump_manifest(built.manifest),
        FILES[LITE]: dump_manifest(built.lite),
        SUMMARY: json.dumps(summary, indent=2, sort_keys=True) + "\n",
    }
    for name, text in texts.items():
        (out / name).write_text(text, encoding="utf-8")
    sums = "".join(f"{hashlib.sha256(text.encode()).hexdigest()}  {name}\n" for name, text in sorted(texts.items()))
    (out / SUMS).write_text(sums, encoding="utf-8")
    return summary


def version_fault(manifest: Manifest) -> str | None:
    """What to know of a manifest that calls itself one of these suites and is of another version; None of any other."""
    if manifest.benchmark_id.startswith(f"{MAX}-") and manifest.benchmark_version != VERSION:
        return (
            f"{manifest.source}: {manifest.benchmark_id} of version {manifest.benchmark_version!r}, and this project builds"
            f" version {VERSION!r}: its cases are run as they are written, and are not those of this version"
        )
    return None


def default_folder() -> Path:
    """Where a suite is built, and looked for, unless a folder is named."""
    return cache_root() / "suites" / MAX


def load_suite(name: str, folder: Path | None = None) -> Manifest:
    """A built suite by name.

    Args:
      name: `libero-max` or `libero-max-lite`.
      folder: where it was built; `default_folder()` if None.

    Raises:
      BenchError: an unknown name, or nothing built there.
    """
    from mjx_bench.cases import load_manifest

    if name not in NAMES:
        raise unknown_name("suite of cases", name, NAMES)
    folder = default_folder() if folder is None else folder
    path = folder / FILES[name]
    if not path.is_file():
        raise BenchError(
            f"{path}: {name} is not built there; mjx-bench suite build {MAX} builds it, and one that was built with"
            f" --out DIR is named by --manifest DIR/{FILES[name]}"
        )
    return load_manifest(path)
