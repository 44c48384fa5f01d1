"""Two hundred real cases, divided in every way there is: the records are the same but for timings."""

from __future__ import annotations

import dataclasses
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from evals import registry
from evals.libero_max.sampler import sample_manifest
from mjx_bench.cases import Manifest, dump_manifest, load_manifest
from mjx_bench.errors import MissingExtra
from mjx_bench.records import load_run
from mjx_bench.records.merge import merge_runs
from mjx_bench.schedule import run_pairs
from mjx_bench.selection import choose
from mjx_bench.settings import RunSettings
from policies.registry import make
from tests.scenes import SEED

CASES, Q = 200, 8
POLICY = "scripted.reactive"


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    suites = ("libero_object", "libero_spatial")
    try:
        registry.build([(s, i) for s in suites for i in range(10)], seeds=(SEED,), workers=2)
        tasks = [registry.load_task(suite, index, seeds=(SEED,)) for suite in suites for index in range(10)]
    except MissingExtra as error:
        pytest.skip(str(error))
    return sample_manifest(tasks, CASES, 0, policy_seed=SEED, query_interval=Q)


def results(folder: Path) -> dict:
    return {r.key: r.result() for r in load_run(folder).records}


def run(manifest: Manifest, out: Path, *, lanes: int, threads: int = 2, shard: tuple[int, int] | None = None) -> Path:
    settings = RunSettings(POLICY, lanes, Q, threads=threads)
    run_pairs(choose(manifest, shard=shard), settings, out, load_task=registry.load_case, policy=make(POLICY))
    return out


@pytest.mark.slow
def test_200_cases_come_out_the_same_however_they_are_divided(manifest, tmp_path):
    want = results(run(manifest, tmp_path / "seven", lanes=7))
    assert len(want) == 2 * CASES
    assert not any(r["verdict"] == "void" for r in want.values())

    assert results(run(manifest, tmp_path / "one", lanes=1, threads=2)) == want
    assert results(run(manifest, tmp_path / "wide", lanes=32, threads=1)) == want
    shuffled = list(manifest.cases)
    random.Random(1).shuffle(shuffled)
    other = dataclasses.replace(manifest, cases=tuple(shuffled))
    assert results(run(other, tmp_path / "shuffled", lanes=3)) == want

    shards = [run(manifest, tmp_path / f"shard{i}", lanes=5, shard=(i, 4)) for i in range(4)]
    merge_runs(shards, tmp_path / "merged")
    assert results(tmp_path / "merged") == want


@pytest.mark.slow
def test_killed_ten_times_200_cases_come_out_the_same(manifest, tmp_path):
    want = results(run(manifest, tmp_path / "whole", lanes=7))
    path = tmp_path / "manifest.json"
    path.write_text(dump_manifest(manifest))
    assert load_manifest(path) == manifest
    out = tmp_path / "killed"
    command = [
        sys.executable,
        "-m",
        "scripts.cli",
        "pair",
        "--manifest",
        str(path),
        "--policy",
        POLICY,
        "--out",
        str(out),
    ]
    kills, lines = 0, []
    while kills < 10:
        process = subprocess.Popen(
            command, cwd=Path(__file__).parents[1], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        target = (kills + 1) * 2 * CASES // 12
        while process.poll() is None and count(out) < target:
            time.sleep(0.05)
        assert process.poll() is None, "the run ended before it could be killed"
        process.kill()
        process.wait()
        kills += 1
        lines.append(count(out))
    assert lines == sorted(lines)
    assert subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, check=False).returncode == 0
    assert results(out) == want


def count(folder: Path) -> int:
    """Finished lines of a results folder."""
    records = folder / "records.jsonl"
    return records.read_bytes().count(b"\n") if records.exists() else 0
