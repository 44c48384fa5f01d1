"""LIBERO-MAX's 8,000 cases and its Lite: built, checked and loaded by name.

The release's own manifest is not public. This one follows its construction (section 1.6 of the format) on sources that are
exact where the LIBERO package holds them and regenerated from their rules elsewhere. Building it twice gives the same file.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import hashlib
import json
import random
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from evals.libero_max import choosing, pool, released
from evals.libero_max.choosing import Pick, Slot
from evals.libero_max.released import Source, case_of, eligible
from mjx_bench.cases import EVENT_ORDER, Manifest, dump_manifest, manifest_sha256
from mjx_bench.errors import BenchError, unknown_name
from mjx_bench.runtime import cache_root
from mjx_bench.task import Task

MAX, LITE = "libero-max", "libero-max-lite"
NAMES = (MAX, LITE)
POLICY_SEED = released.POLICY_SEED
VERSION = "1"
FILES = {MAX: "libero_max.json", LITE: "libero_max_lite.json"}
SUMMARY, SUMS, VERDICTS = "summary.json", "SHA256SUMS", "preflight.jsonl"

DRAWS = (0, 1)
SLOTS: tuple[Slot, ...] = tuple((event, draw) for event in EVENT_ORDER for draw in DRAWS)
QUERY_INTERVAL = 16  # of the released manifests; a run has its own
ROUNDS = 30

LITE_SEED = 20260830
LITE_QUOTA = {"plus": 70, "pro": 30}  # of each event's cases

Problems = tuple[str, ...]
Check = Callable[[Sequence[dict[str, Any]]], Sequence[Problems]]


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


def build(check: Check, *, part: int = 1, told: Callable[[str], None] = lambda line: None) -> Built:
    """Chooses the cases.

    Args:
      check: what is wrong with each of some cases, JSON as in a manifest; nothing for one that passes preflight.
      part: cells of one `part`-th of their size, for a trial.
      told: a line for every round.

    Raises:
      BenchError: a cell that cannot be filled.
    """
    failures: collections.Counter[str] = collections.Counter()
    used: collections.Counter[tuple[str, str, int]] = collections.Counter()
    categories = {name: _Category(*name) for name in pool.categories()}
    tried = 0
    for number in range(1, ROUNDS + 1):
        # All categories together, so that variants of one scene are looked at one after another.
        picks = [(c, pick) for c in categories.values() for pick in c.next_picks(used, part)]
        if not picks:
            break
        cases = [_case(*pick) for _, pick in picks]
        found = check(cases)
        for (category, pick), case, problems in zip(picks, cases, found, strict=True):
            category.take(pick, case, problems)
        wrong = [problems[0] for problems in found if problems]
        failures.update(cause_of(problem) for problem in wrong)
        tried += len(cases)
        passed = sum(len(c.passed) for c in categories.values())
        told(f"round {number}: {len(cases)} tried, {len(wrong)} failed preflight, {passed} are in")
    else:
        raise BenchError(f"cells are not full after {ROUNDS} rounds")
    manifest = _manifest([case for c in categories.values() for case in c.passed.values()], part)
    return Built(manifest, lite_of(manifest, part), dict(failures.most_common()), tried, number - 1)


class _Category:
    """What is known of one category's cases: which have passed, and which are out."""

    def __init__(self, benchmark: str, category: str) -> None:
        self.benchmark, self.category = benchmark, category
        self.passed: dict[Pick, dict[str, Any]] = {}
        self._rejected: set[Pick] = set()

    def next_picks(self, used: collections.Counter[tuple[str, str, int]], part: int) -> list[Pick]:
        """What is to be tried; what had passed and is no longer wanted is out."""
        wanted = _wanted(self.benchmark, self.category, self._rejected, self.passed, used, part)
        self.passed = {pick: self.passed[pick] for pick in wanted if pick in self.passed}
        return [pick for pick in wanted if pick not in self.passed]

    def take(self, pick: Pick, case: dict[str, Any], problems: Problems) -> None:
        if not problems:
            self.passed[pick] = case
        else:
            self._rejected |= {pick, *_alike(self.category, pick, problems)}


def _wanted(
    benchmark: str,
    category: str,
    rejected: Collection[Pick],
    passed: Collection[Pick],
    used: collections.Counter[tuple[str, str, int]],
    part: int,
) -> list[Pick]:
    """What is to be in of a category, as far as is known: what has passed, and what is still to be tried."""
    plus, pro = sizes(part)
    if benchmark == "pro":
        more = choosing.fill_pro(pool.pro_sources(category), _events, SLOTS, rejected, passed, used, pro)
        return [*passed, *more]
    return choosing.fill_plus(pool.plus_sources(category), _events, SLOTS, rejected, passed, pool.strength, plus)


def sizes(part: int = 1) -> tuple[int, int]:
    """Cases of a cell of LIBERO-Plus and of one of LIBERO-PRO."""
    return max(1, choosing.PLUS_CELL // part), max(1, choosing.PRO_CELL // part)


def _events(source: Source) -> tuple[str, ...]:
    """The events that a source's task can have. LIBERO-Plus's variants have those of their plain task."""
    return _events_of(
        source.benchmark, source.category if source.benchmark == "pro" else "", source.suite, source.index
    )


@functools.cache
def _events_of(benchmark: str, category: str, suite: str, index: int) -> tuple[str, ...]:
    from evals.libero import tasks

    if benchmark == "plus":
        return eligible(tasks.load_task(suite, index))
    return eligible(_pro_task(category, suite, index))


@functools.lru_cache(maxsize=512)
def _pro_task(category: str, suite: str, index: int) -> Task:
    from evals.libero import tasks

    return tasks.load_variant(pool.variant_of(Source("pro", category, suite, index)), suite, index)


def _case(source: Source, slot: Slot) -> dict[str, Any]:
    from evals.libero import tasks

    # What an event does to a variant of LIBERO-Plus is told by its plain task, whose objects it has.
    plus = source.benchmark == "plus"
    task = (
        tasks.load_task(source.suite, source.index) if plus else _pro_task(source.category, source.suite, source.index)
    )
    return case_of(source, pool.variant_of(source), task, *slot)


# Categories whose variants leave physics, and where things stand, as their plain task has them.
_SAME_PHYSICS = (
    "Background Textures",
    "Camera Viewpoints",
    "Language Instructions",
    "Light Conditions",
    "Robot Initial States",
    "Sensor Noise",
)
_SEEN = ("the event changes nothing in the picture", "the picture")


def _alike(category: str, pick: Pick, problems: Problems) -> set[Pick]:
    """Picks that must fail as this one did: where things stand alike, what is moved alike ends alike."""
    source, slot = pick
    if category not in _SAME_PHYSICS or problems[0].startswith(_SEEN) or slot[0] == "distractor_burst":
        return set()
    alike = (s for s in pool.plus_sources(category) if (s.suite, s.index) == (source.suite, source.index))
    return {(other, slot) for other in alike}


def cause_of(problem: str) -> str:
    """A preflight problem without its names and numbers."""
    for word, cause in (
        (" touches ", "touches something new"),
        (" drifts ", "slides away"),
        (" drops ", "drops"),
        ("has lost its support", "loses its support"),
        ("the event changes nothing", "changes nothing in the picture"),
        ("the picture ", "the picture shows next to nothing"),
        ("the state does not stay finite", "the state does not stay finite"),
        ("no room for", "no room for extra objects"),
        ("no layout of", "no layout without overlaps"),
        ("no place for a book", "no place for the occluder"),
    ):
        if word in problem:
            return cause
    return problem


def _manifest(cases: Sequence[dict[str, Any]], part: int) -> Manifest:
    from evals.libero.sources.catalogue import REVISION
    from evals.libero.variants import PRO_REVISION

    trial = "" if part == 1 else f"-part-{part}"
    plus, pro = sizes(part)
    data = {
        "benchmark_id": f"{MAX}-regenerated{trial}",
        "benchmark_version": VERSION,
        "protocol": {
            "arms": ["control", "intervention"],
            "query_interval": QUERY_INTERVAL,
            "scoring_track": "physical_completion",
            "profile": "regenerated",
            "substrate": "LIBERO-Plus + LIBERO-PRO",
            "source_benchmark_commit": f"{REVISION};{PRO_REVISION}",
            "selection_contract": f"{pool.SAMPLER}; maximum flow over variants and cells of {plus}; least used task first in"
            f" cells of {pro}; simulator preflight; no outcome of a policy",
        },
        "cases": sorted(cases, key=lambda case: str(case["case_id"])),
    }
    return Manifest.read(data, MAX)


def lite_of(manifest: Manifest, part: int = 1) -> Manifest:
    """Lite by the published rule (1.6): of each event 70 cases of LIBERO-Plus and 30 of LIBERO-PRO, by one seed.

    Raises:
      BenchError: too few cases of an event.
    """
    rng = random.Random(LITE_SEED)
    chosen = []
    for event in sorted(EVENT_ORDER):
        for track in LITE_QUOTA:
            cases = [c for c in manifest.cases if c.event == event and _track(c.case_id) == track]
            quota = max(1, LITE_QUOTA[track] // part)
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


def _track(case_id: str) -> str:
    return "pro" if case_id.startswith("pro-") else "plus"


def counts(manifest: Manifest) -> dict[str, Any]:
    """How many cases there are: by event, source, category, variant, and so on; plain JSON values."""
    from evals.libero.variants import is_regenerated

    cases = manifest.cases
    plus = [c for c in cases if _track(c.case_id) == "plus"]

    def by(values: Sequence[str]) -> dict[str, int]:
        return dict(sorted(collections.Counter(values).items()))

    return {
        "cases": len(cases),
        "event": by([c.event for c in cases]),
        "source": by([_track(c.case_id) for c in cases]),
        "category": by([str(c.substrate_category) for c in cases]),
        "variant": by(["regenerated" if is_regenerated(c.substrate_variant) else "exact" for c in cases]),
        "draw": by([str(c.scenario.draw) for c in cases if c.scenario is not None]),
        "severity": by([c.scenario.severity for c in cases if c.scenario is not None]),
        "suite": by([c.task_suite_name for c in cases]),
        "difficulty": by([str(c.to_json().get("substrate_difficulty")) for c in cases]),
        "strength": by([str(pool.strength(source_of(c.to_json()))) for c in plus]),
        "source_tasks": len({json.dumps(c.to_json()["substrate_variant"], sort_keys=True) for c in cases}),
        "manifest_sha256": manifest_sha256(manifest),
    }


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
        raise BenchError(f"{path}: {name} is not built; mjx-bench suite build {MAX} --out {folder}")
    return load_manifest(path)
