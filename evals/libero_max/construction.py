"""How LIBERO-MAX's cases are chosen: cells are filled, preflighted, and filled again where a case failed."""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Collection, Sequence
from typing import Any

from evals.libero_max import choosing, pool
from evals.libero_max.choosing import Pick, Slot
from evals.libero_max.released import Source, case_of, eligible
from evals.libero_max.suite import MAX, SLOTS, VERSION, Built, lite_of, sizes
from mjx_bench.cases import Manifest
from mjx_bench.errors import BenchError
from mjx_bench.task import Task

QUERY_INTERVAL = 16  # of the released manifests; a run has its own
ROUNDS = 30

Problems = tuple[str, ...]
Check = Callable[[Sequence[dict[str, Any]]], Sequence[Problems]]


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
    return case_of(source, pool.variant_of(source), task, *slot, redraw=True)


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
