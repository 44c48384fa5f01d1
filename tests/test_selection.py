"""Which cases a run takes: sources that are missing, shards, and both together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mjx_bench.cases import Manifest, dump_manifest, load_manifest, manifest_sha256, select
from mjx_bench.errors import BenchError
from mjx_bench.selection import Selection, choose, parse_shard
from scripts import running
from tests.test_pairs import a_case, at, manifest_of

TEN = manifest_of(*(a_case("illumination_switch", at(4), init=i) for i in range(10)))
PRO_800 = (
    Path(__file__).resolve().parents[1].parent
    / "shared/data/libero_max/benchmark/max8000/libero_max_pro_model_comparison_800.json"
)


def states(manifest: Manifest) -> list[int]:
    return [case.init_state_index for case in manifest.cases]


def test_without_conditions_all_cases_are_taken():
    chosen = choose(TEN)
    assert chosen.manifest == chosen.whole == TEN
    assert chosen.left_out == {}
    assert chosen.recorded_shard() is None


@pytest.mark.parametrize("count", [1, 3, 4, 10])
def test_shards_are_disjoint_and_make_the_whole(count: int):
    shards = [choose(TEN, shard=(i, count)) for i in range(count)]
    assert [states(s.manifest) for s in shards] == [list(range(i, 10, count)) for i in range(count)]
    recorded = {s.recorded_shard() for s in shards}
    assert {r.index for r in recorded if r} == set(range(count))
    assert {r.case_ids for r in recorded if r} == {tuple(c.case_id for c in TEN.cases)}
    assert {r.manifest_sha256 for r in recorded if r} == {manifest_sha256(TEN)}


def test_the_limit_comes_first():
    limited = select(TEN, 4)
    assert len(limited.cases) == 4
    halves = [choose(limited, shard=(i, 2)).manifest for i in range(2)]
    assert sorted(states(halves[0]) + states(halves[1])) == sorted(states(limited))
    assert [len(h.cases) for h in halves] == [2, 2]


def odd_is_missing(case: Any) -> str | None:
    return "odd states are not here" if case.init_state_index % 2 else None


def test_missing_sources_are_counted_and_change_no_case_s_shard():
    chosen = choose(TEN, missing_source=odd_is_missing, shard=(0, 3))
    assert states(chosen.manifest) == [0, 6]
    assert states(chosen.whole) == [0, 2, 4, 6, 8]
    assert chosen.left_out == {"odd states are not here": 5}


def test_nothing_left_is_an_error_that_says_why():
    with pytest.raises(BenchError, match=r"none of 10 cases is left to run in shard 1/2; 5 left out: odd states"):
        choose(TEN, missing_source=odd_is_missing, shard=(1, 2))
    with pytest.raises(BenchError, match=r"none of 10 cases is left to run; 10 left out: gone$"):
        choose(TEN, missing_source=lambda case: "gone")
    with pytest.raises(BenchError, match=r"none of 10 cases is left to run in shard 10/11$"):
        choose(TEN, shard=(10, 11))


def test_the_recorded_hash_is_that_of_the_cases_as_run():
    chosen = choose(TEN, shard=(0, 2)).with_query_interval(2)
    recorded = chosen.recorded_shard()
    assert recorded is not None
    assert recorded.manifest_sha256 == manifest_sha256(TEN.with_query_interval(2))


@pytest.mark.parametrize(("text", "shard"), [("0/1", (0, 1)), ("3/4", (3, 4)), ("0007/10", (7, 10))])
def test_shards_are_read(text: str, shard: tuple[int, int]):
    assert parse_shard(text) == shard


def test_every_case_of_the_pro_comparison_has_a_source_here():
    """320 from the package's files, the others regenerated."""
    if not PRO_800.exists():
        pytest.skip("the released manifests are not next to this checkout")
    pytest.importorskip("libero", reason="needs the extra: libero")
    from evals import registry

    manifest = load_manifest(PRO_800)
    chosen = choose(manifest, missing_source=registry.missing_source)
    assert len(chosen.manifest.cases) == 800
    assert chosen.left_out == {}
    shards = [choose(manifest, missing_source=registry.missing_source, shard=(i, 4)).manifest for i in range(4)]
    assert [len(s.cases) for s in shards] == [200] * 4


def test_the_options_of_pair_reach_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from evals import registry
    from scripts import cli

    seen: list[Any] = []
    monkeypatch.setattr(registry, "missing_source", odd_is_missing)
    monkeypatch.setattr(running, "evaluate", lambda *args: seen.append(args))
    monkeypatch.setattr(running.report, "show", lambda *args: True)
    (tmp_path / "m.json").write_text(dump_manifest(TEN))
    args = ["pair", "--policy", "zero", "--out", str(tmp_path / "out"), "--manifest", str(tmp_path / "m.json")]
    assert cli.main([*args, "--shard", "0/3", "--replay", "--event", "none", "--faithful", "--run-on"]) == 0
    assert cli.main([*args, "--limit", "5"]) == 0
    (sharded, runs, *_), (whole, others, *_) = seen
    (settings,), (plain,) = runs.values(), others.values()
    assert isinstance(sharded, Selection)
    assert states(sharded.manifest) == [0, 6]
    assert (settings.replay, settings.no_event, settings.faithful, settings.run_on) == (True,) * 4
    assert (plain.replay, plain.no_event, plain.faithful, plain.run_on) == (False,) * 4
    assert len(whole.manifest.cases) + sum(whole.left_out.values()) == 5
