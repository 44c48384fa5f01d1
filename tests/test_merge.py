"""Shards put together: the same as one run, or one line that says why not and nothing written."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mjx_bench.errors import BenchError
from mjx_bench.fields import canonical_json
from mjx_bench.records import Header, RunWriter, Shard, load_run
from mjx_bench.records.merge import merge_runs
from mjx_bench.selection import choose
from tests.test_pairs import MIXED, Q, Wanderer, results, short_task
from tests.test_records import HEADER, arrays, record

CASES = [{"case_id": f"case-{i}"} for i in range(7)]


def sha256(data: Any) -> str:
    return hashlib.sha256(canonical_json(data).encode()).hexdigest()


def write_shard(folder: Path, index: int, count: int = 3, cases: Any = None, skip: Any = (), **changes: Any) -> Path:
    """A folder with cases index, index + count, ...; dynamic arms first, as no manifest would have it."""
    whole = CASES if cases is None else cases
    mine = {"cases": whole[index::count]}
    ids = tuple(c["case_id"] for c in whole)
    tasks = {"scene": {"horizon": 1}, f"scene-{index}": {"horizon": 2}}
    header = dataclasses.replace(
        HEADER,
        manifest_sha256=sha256(mine),
        tasks_sha256=sha256(tasks),
        assets={**HEADER.assets, f"scene-{index}": "1"},
        shard=Shard(index, count, sha256({"cases": whole}), ids),
        created=f"2026-01-0{index + 1}T00:00:00+00:00",
    )
    header = dataclasses.replace(header, **changes)
    with RunWriter.open(folder, header, json.dumps(mine), json.dumps(tasks)) as writer:
        for case in reversed(mine["cases"]):
            number = int(case["case_id"].removeprefix("case-"))
            for arm in ("dynamic", "base"):
                if (number, arm) not in skip:
                    other = writer.done.get((f"case-{number}", "dynamic"))
                    if other is None:
                        writer.append(record(number, arm), arrays(number))
                    else:
                        writer.append(record(number, arm, arrays=other.arrays))
    (folder / "sessions.jsonl").write_text(f'{{"wall_s": {index}}}\n')
    return folder


@pytest.fixture
def shards(tmp_path: Path) -> list[Path]:
    return [write_shard(tmp_path / f"s{i}", i) for i in range(3)]


def refused(folders: list[Path], out: Path, **options: Any) -> str:
    before = out.exists()
    with pytest.raises(BenchError) as error:
        merge_runs(folders, out, **options)
    assert out.exists() == before
    assert not out.with_name(out.name + ".merging").exists()
    assert "\n" not in str(error.value)
    return str(error.value)


def test_lines_are_in_the_manifest_s_order_whatever_the_order_of_shards(tmp_path: Path, shards: list[Path]):
    merged = merge_runs([shards[2], shards[0], shards[1]], tmp_path / "c")
    assert (merged.cases, merged.arms, merged.unfinished) == (7, 14, ())
    run = load_run(tmp_path / "c")
    assert [r.key for r in run.records] == [(f"case-{i}", arm) for i in range(7) for arm in ("base", "dynamic")]
    assert run.manifest == {"cases": CASES}
    for r in run.records:
        assert dataclasses.replace(r, arrays={}) == record(int(r.case_id[-1]), r.arm)
        for name, want in arrays(int(r.case_id[-1])).items():
            np.testing.assert_array_equal(run.array(r, name), want)


def test_arrays_that_were_shared_stay_shared(tmp_path: Path, shards: list[Path]):
    merge_runs(shards, tmp_path / "c")
    sizes = [(folder / "arrays.bin").stat().st_size for folder in (*shards, tmp_path / "c")]
    assert sum(sizes[:3]) == sizes[3] > 0


def test_the_header_is_the_whole_run_s(tmp_path: Path, shards: list[Path]):
    merge_runs(shards, tmp_path / "c")
    header = load_run(tmp_path / "c").header
    assert header.shard is None
    assert header.assets == {**HEADER.assets, "scene-0": "1", "scene-1": "1", "scene-2": "1"}
    assert set(json.loads((tmp_path / "c" / "tasks.json").read_text())) == {"scene", "scene-0", "scene-1", "scene-2"}
    assert header.created.startswith("2026-01-01")
    assert [note["created"][:10] for note in header.resumed] == ["2026-01-02", "2026-01-03"]
    assert (tmp_path / "c" / "sessions.jsonl").read_text().splitlines() == [f'{{"wall_s": {i}}}' for i in range(3)]
    # It is the run's own folder from here on.
    whole = dataclasses.replace(header, resumed=())
    text = json.dumps({"cases": CASES})
    RunWriter.open(tmp_path / "c", whole, text, (tmp_path / "c" / "tasks.json").read_text()).close()


def test_overlapping_shards(tmp_path: Path, shards: list[Path]):
    shutil.copytree(shards[1], tmp_path / "again")
    text = refused([*shards, tmp_path / "again"], tmp_path / "c")
    assert text.startswith(f"{shards[1]} (shard 1/3) and {tmp_path / 'again'} (shard 1/3) overlap: both hold case")
    halves = write_shard(tmp_path / "half", 0, 2)
    assert "number of shards = 3 and 2" in refused([*shards, halves], tmp_path / "c")


def test_a_missing_shard_is_named(tmp_path: Path, shards: list[Path]):
    text = refused([shards[2]], tmp_path / "c")
    assert text == "missing shard(s): 0/3, 1/3; 5 case(s) are in no folder, first 'case-0'"
    assert "missing shard(s): 1/3" in refused([shards[2], shards[0]], tmp_path / "c", partial=True)


def test_an_unfinished_shard_is_named_and_can_be_taken_as_it_is(tmp_path: Path, shards: list[Path]):
    shutil.rmtree(shards[1])
    write_shard(shards[1], 1, skip=[(4, "dynamic"), (1, "base")])
    text = refused(shards, tmp_path / "c")
    assert f"{shards[1]} (shard 1/3) is unfinished: 2 arm(s) to go" in text
    assert "--partial" in text
    merged = merge_runs(shards, tmp_path / "c", partial=True)
    assert merged.arms == 12
    assert len(merged.unfinished) == 1
    assert {("case-4", "dynamic"), ("case-1", "base")}.isdisjoint(load_run(tmp_path / "c").done)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"settings": {**HEADER.settings, "query_interval": 5}}, "settings.query_interval = 8 and 5"),
        ({"mjx_bench_version": "0.2.0"}, "mjx_bench_version = '0.1.0' and '0.2.0'"),
        ({"packages": {"mujoco": "3.18.0"}}, "packages.mujoco = '3.17.0' and '3.18.0'"),
        ({"assets": {"scene": "2"}}, "assets.scene = "),
        ({"cases": [*CASES[:6], {"case_id": "case-9"}]}, "cases of all shards = "),
    ],
)
def test_shards_of_different_runs(tmp_path: Path, shards: list[Path], changes: dict[str, Any], says: str):
    other = write_shard(tmp_path / "other", 2, **changes)
    text = refused([shards[0], shards[1], other], tmp_path / "c")
    assert text.startswith(f"{shards[0]} and {other} are not shards of one run: ")
    assert says in text


def test_tasks_that_are_judged_otherwise(tmp_path: Path, shards: list[Path]):
    tasks = {"scene": {"horizon": 3}, "scene-2": {"horizon": 2}}
    data = json.loads((shards[2] / "run.json").read_text()) | {"tasks_sha256": sha256(tasks)}
    (shards[2] / "run.json").write_text(json.dumps(data))
    (shards[2] / "tasks.json").write_text(json.dumps(tasks))
    assert f"{shards[2]}: task 'scene' is judged otherwise" in refused(shards, tmp_path / "c")


def test_whole_runs_other_versions_and_broken_folders(tmp_path: Path, shards: list[Path]):
    whole = Header(**{**vars(HEADER), "manifest_sha256": sha256({"cases": CASES})})
    RunWriter.open(tmp_path / "whole", whole, json.dumps({"cases": CASES})).close()
    assert "not a shard but a whole run" in refused([tmp_path / "whole", *shards], tmp_path / "c")
    assert "nothing to merge" in refused([], tmp_path / "c")
    path = shards[1] / "arrays.bin"
    path.write_bytes(b"\x99" + path.read_bytes()[1:])
    assert "do not match their recorded sha256" in refused(shards, tmp_path / "c")
    lines = (shards[1] / "records.jsonl").read_text().splitlines(keepends=True)
    (shards[1] / "records.jsonl").write_text("".join([lines[0][:40] + "\n", *lines[1:]]))
    assert "records.jsonl line 1: not valid JSON" in refused(shards, tmp_path / "c")
    data = json.loads((shards[1] / "run.json").read_text())
    (shards[1] / "run.json").write_text(json.dumps({**data, "schema": 1}))
    assert "schema = 1: expected 2" in refused(shards, tmp_path / "c")


def test_out_must_be_new(tmp_path: Path, shards: list[Path]):
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "mine").touch()
    assert f"{tmp_path / 'c'}: holds something already" in refused(shards, tmp_path / "c")
    assert [p.name for p in (tmp_path / "c").iterdir()] == ["mine"]
    (tmp_path / "file").touch()
    assert "holds something already" in refused(shards, tmp_path / "file")
    assert "cannot write" in refused(shards, tmp_path / "file" / "c")
    (tmp_path / "empty").mkdir()
    merge_runs(shards, tmp_path / "empty")
    assert load_run(tmp_path / "empty").records


def test_a_full_disk_leaves_nothing(tmp_path: Path, shards: list[Path]):
    """A limit on the size of files stands for the full disk."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, old[1]))
    try:
        assert "cannot write: File too large" in refused(shards, tmp_path / "c")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    merge_runs(shards, tmp_path / "c")


def test_merging_needs_the_standard_library_only(tmp_path: Path, shards: list[Path]):
    script = f"""
import sys
for name in ("numpy", "mujoco", "jax"):
    sys.modules[name] = None
from scripts import cli
sys.exit(cli.main(["merge", *{[str(s) for s in shards]!r}, "--out", {str(tmp_path / "c")!r}, "--json"]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=Path(__file__).parents[1])
    assert done.returncode == 0, done.stderr
    assert done.stderr == f"{tmp_path / 'c'}: 7 cases, 14 arms of 3 shards\n"
    out = {"directory": str(tmp_path / "c"), "cases": 7, "arms": 14, "unfinished": [], "shards": 3}
    assert json.loads(done.stdout) == out


def test_four_shards_of_real_episodes_make_the_unsharded_run(tmp_path: Path):
    from mjx_bench.schedule import run_pairs
    from mjx_bench.settings import RunSettings

    settings = RunSettings("wanderer", lanes=2, query_interval=Q, threads=1)
    for out, cases in (("whole", MIXED), *((f"s{i}", choose(MIXED, shard=(i, 4))) for i in range(4))):
        run_pairs(cases, settings, tmp_path / out, load_task=short_task, policy=Wanderer())
    merge_runs([tmp_path / f"s{i}" for i in range(4)], tmp_path / "c")
    whole, merged = load_run(tmp_path / "whole"), load_run(tmp_path / "c")
    assert [r.result() for r in merged.records] == [
        results(whole)[case.case_id, arm] for case in MIXED.cases for arm in ("base", "dynamic")
    ]
    whole.header.check_same_run(merged.header, "merged")
    for name in ("manifest.json", "tasks.json"):
        assert (tmp_path / "c" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    done = run_pairs(MIXED, settings, tmp_path / "c", load_task=short_task, policy=Wanderer())
    assert done is None, "nothing is left to run"
