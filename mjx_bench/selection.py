"""Which cases of a manifest a run takes: those whose sources are here, and of them one shard's."""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Callable, Mapping

from mjx_bench.cases import manifest_sha256
from mjx_bench.errors import BenchError
from mjx_bench.manifest import Case, Manifest
from mjx_bench.records import Shard

MissingSource = Callable[[Case], str | None]


@dataclasses.dataclass(frozen=True)
class Selection:
    """The cases of a run.

    Attributes:
      manifest: the cases to run here.
      whole: the cases of all shards; the same where there is one only.
      shard: (index, count), None for all cases.
      left_out: why cases are not run, and how many for each reason, over all shards.
    """

    manifest: Manifest
    whole: Manifest
    shard: tuple[int, int] | None = None
    left_out: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def with_query_interval(self, query_interval: int) -> Selection:
        """See `Manifest.with_query_interval`."""
        here, whole = (m.with_query_interval(query_interval) for m in (self.manifest, self.whole))
        return dataclasses.replace(self, manifest=here, whole=whole)

    def recorded_shard(self) -> Shard | None:
        """What the results folder says about the shard."""
        if self.shard is None:
            return None
        return Shard(*self.shard, manifest_sha256(self.whole), tuple(c.case_id for c in self.whole.cases))


def choose(
    manifest: Manifest, *, missing_source: MissingSource | None = None, shard: tuple[int, int] | None = None
) -> Selection:
    """Leaves out cases that cannot be run here, and takes one shard of the rest.

    Which shard a case belongs to depends on its place in `manifest` alone, not on what is left out.

    Args:
      manifest: the cases that are asked for.
      missing_source: why a case's source is not held here, None if it is.
      shard: (i, n): only cases whose index in `manifest` is i modulo n.

    Raises:
      BenchError: nothing is left to run.
    """
    reasons = {c.case_id: reason for c in manifest.cases if missing_source and (reason := missing_source(c))}
    left_out = dict(sorted(collections.Counter(reasons.values()).items()))
    whole = [(i, c) for i, c in enumerate(manifest.cases) if c.case_id not in reasons]
    here = [c for i, c in whole if shard is None or i % shard[1] == shard[0]]
    if not here:
        why = "".join(f"; {count} left out: {reason}" for reason, count in left_out.items())
        which = "" if shard is None else f" in shard {shard[0]}/{shard[1]}"
        raise BenchError(f"{manifest.source}: none of {len(manifest.cases)} cases is left to run{which}{why}")
    return Selection(
        dataclasses.replace(manifest, cases=tuple(here)),
        dataclasses.replace(manifest, cases=tuple(c for _, c in whole)),
        shard,
        left_out,
    )


def parse_shard(text: str) -> tuple[int, int]:
    """Reads "i/n".

    Raises:
      BenchError: anything else, or i outside of 0 to n - 1.
    """
    match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
    index, count = map(int, match.groups()) if match else (0, 0)
    if index >= count:
        raise BenchError(f"shard {text!r}: expected i/n with i from 0 to n - 1, such as 0/4 for the first of four")
    return index, count
