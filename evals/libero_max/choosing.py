"""Which cases are in: 50 variants a cell of LIBERO-Plus, 15 configurations a cell of LIBERO-PRO, by nobody's outcome.

A cell is a category, an event and a draw. Both choices go round by round: what has failed preflight is out, what has passed
stays, and the gaps are filled inside their cells.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from evals.libero_max.pool import SAMPLER
from evals.libero_max.released import Source
from mjx_bench.cases import stable_seed
from mjx_bench.errors import BenchError

# An event and a draw.
Slot = tuple[str, int]
Pick = tuple[Source, Slot]

PLUS_CELL, PRO_CELL = 50, 15


def fill_plus(
    sources: Sequence[Source],
    events: Callable[[Source], Collection[str]],
    slots: Sequence[Slot],
    rejected: Collection[Pick],
    passed: Collection[Pick],
    strength: Callable[[Source], int | None],
    size: int = PLUS_CELL,
) -> list[Pick]:
    """A category of LIBERO-Plus, whole: a matching of variants to slots.

    Every variant is used once at most, every slot gets `size`, and the strengths of all that are chosen are as even as the
    variants allow. A maximum flow decides: from the source to strengths, to variants, to slots, to the sink. What has passed
    is kept, unless the gaps cannot be filled beside it.

    Args:
      sources: the category's variants.
      events: those that a variant can have.
      slots: event and draw of every cell.
      rejected: what has failed.
      passed: what is in so far.
      strength: of a variant, 1 to 5, or None.
      size: of a cell.

    Returns:
      What is to be in, in the order of the slots.

    Raises:
      BenchError: variants do not suffice.
    """
    out = set(rejected)
    order = sorted(sources, key=lambda s: stable_seed(SAMPLER, "order", s.category, s.suite, s.index, s.name))
    edges = {s: [slot for slot in slots if slot[0] in events(s) and (s, slot) not in out] for s in order}
    wanted = size * len(slots)
    most = 0
    for kept in (list(passed), []):
        taken = {source for source, _ in kept}
        have = collections.Counter(slot for _, slot in kept)
        gaps = {slot: size - have[slot] for slot in slots}
        free = [s for s in order if s not in taken and edges[s]]
        even = _quotas([*free, *taken], taken, strength, wanted)
        for caps in (even, dict.fromkeys(even, wanted)):  # if even strengths cannot be had, any
            chosen = [*kept, *_match(free, edges, gaps, caps, strength)]
            if len(chosen) == wanted:
                return sorted(chosen, key=lambda pick: (slots.index(pick[1]), order.index(pick[0])))
            most = max(most, len(chosen))
    raise BenchError(
        f"{sources[0].category}: {wanted - most} of {wanted} places are left without a variant that can have the event"
    )


def _quotas(
    sources: Sequence[Source], taken: Collection[Source], strength: Callable[[Source], int | None], total: int
) -> dict[int | None, int]:
    """How many more each strength may have: as even as there are variants, the smallest topped up first."""
    available = collections.Counter(strength(s) for s in sources)
    quota = dict.fromkeys(sorted(available, key=str), 0)
    for _ in range(total):
        open_ = [key for key in quota if quota[key] < available[key]]
        if not open_:
            break
        quota[min(open_, key=lambda key: (quota[key], str(key)))] += 1
    used = collections.Counter(strength(s) for s in taken)
    return {key: max(0, quota[key] - used[key]) for key in quota}


def _match(
    free: Sequence[Source],
    edges: Mapping[Source, Sequence[Slot]],
    gaps: Mapping[Slot, int],
    caps: Mapping[int | None, int],
    strength: Callable[[Source], int | None],
) -> list[Pick]:
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    slots, kinds = list(gaps), list(caps)
    first_kind, first_source = 1, 1 + len(kinds)
    first_slot = first_source + len(free)
    sink = first_slot + len(slots)
    rows, columns, capacity = [], [], []

    def edge(a: int, b: int, most: int) -> None:
        rows.append(a)
        columns.append(b)
        capacity.append(most)

    for k, kind in enumerate(kinds):
        edge(0, first_kind + k, caps[kind])
    for i, source in enumerate(free):
        edge(first_kind + kinds.index(strength(source)), first_source + i, 1)
        for slot in edges[source]:
            edge(first_source + i, first_slot + slots.index(slot), 1)
    for j, slot in enumerate(slots):
        edge(first_slot + j, sink, gaps[slot])
    graph = csr_array((np.array(capacity, np.int32), (rows, columns)), shape=(sink + 1, sink + 1))
    flow = maximum_flow(graph, 0, sink).flow.tocoo()
    return [
        (free[a - first_source], slots[b - first_slot])
        for a, b, amount in zip(flow.row.tolist(), flow.col.tolist(), flow.data.tolist(), strict=True)
        if amount > 0 and first_source <= a < first_slot <= b < sink
    ]


def fill_pro(
    sources: Sequence[Source],
    events: Callable[[Source], Collection[str]],
    slots: Sequence[Slot],
    rejected: Collection[Pick],
    passed: Collection[Pick],
    used: collections.Counter[tuple[str, str, int]],
    size: int = PRO_CELL,
) -> list[Pick]:
    """What is still to be tried of a category of LIBERO-PRO.

    Each pick takes the task that was used least so far, then least inside the cell, then what the seed says. In later rounds
    tasks that have a passing case in the cell come first.

    Args:
      sources: the category's configurations: tasks and initial states.
      events, slots, rejected, passed: see `fill_plus`.
      used: (category, suite, index) to how many picks it has; it is counted on.
      size: of a cell.

    Raises:
      BenchError: a cell for which configurations do not suffice.
    """
    out = set(rejected)
    inside = collections.defaultdict(list)
    for source, slot in passed:
        inside[slot].append(source)
    picks: list[Pick] = []
    for slot in slots:
        here = inside[slot]
        left = [s for s in sources if slot[0] in events(s) and s not in here and (s, slot) not in out]
        picks += [(source, slot) for source in _fill_cell(slot, here, left, used, size)]
    return picks


def _fill_cell(
    slot: Slot, here: Sequence[Source], left: list[Source], used: collections.Counter[tuple[str, str, int]], size: int
) -> list[Source]:
    own = collections.Counter((s.suite, s.index) for s in here)
    proven = set(own)

    def cost(s: Source) -> tuple[int, ...]:
        task = s.suite, s.index
        seed = stable_seed(SAMPLER, "cell", s.category, *task, s.init_state, *slot)
        return int(bool(proven) and task not in proven), used[s.category, *task], own[task], seed

    chosen: list[Source] = []
    for _ in range(size - len(here)):
        if not left:
            raise BenchError(f"{slot[0]}, draw {slot[1]}: a cell of LIBERO-PRO is left without configurations")
        best = min(left, key=cost)
        left.remove(best)
        chosen.append(best)
        used[best.category, best.suite, best.index] += 1
        own[best.suite, best.index] += 1
    return chosen
