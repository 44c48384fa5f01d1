"""A run on a local Ray cluster: the folder of a single process, also when a worker is killed in the middle of it."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import os
import re
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from evals import registry
from evals.libero_max.sampler import sample_manifest
from mjx_bench import cluster
from mjx_bench.cases import Case, Manifest
from mjx_bench.cluster import Cluster, run_on_ray
from mjx_bench.errors import BenchError, MissingExtra
from mjx_bench.policy import Observation, PolicySpec
from mjx_bench.records import load_run
from mjx_bench.schedule import run_pairs
from mjx_bench.settings import RunSettings
from mjx_bench.task import Task

H, Q, PAIRS = 8, 8, 6
SETTINGS = RunSettings("mortal", lanes=2, query_interval=Q, threads=1, backend="c")


def short_task(case: Case) -> Task:
    return dataclasses.replace(registry.load_case(case), horizon=24)


class Mortal:
    """Acts by the engine's seeds, and dies once, as a machine does: at the query after `flag` can be made."""

    spec = PolicySpec("mortal", horizon=H)

    def __init__(self, flag: Path | None = None, queries: int = 4) -> None:
        self._flag, self._left = flag, queries

    def init(self, task: Task, seed: int) -> Any:
        return None

    def act(self, carries: Sequence[Any], obs: Observation, seeds: np.ndarray) -> tuple[np.ndarray, Sequence[Any]]:
        self._left -= 1
        if self._flag is not None and self._left == 0:
            try:
                self._flag.touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        rows = [np.random.default_rng(int(seed)).normal(0, 0.5, (H, 7)) for seed in seeds]
        return np.clip(np.array(rows), -1, 1).astype(np.float32), carries


class Mistaken(Mortal):
    def act(self, carries: Sequence[Any], obs: Observation, seeds: np.ndarray) -> tuple[np.ndarray, Sequence[Any]]:
        return np.zeros((len(carries), 1, 7), np.float32), carries


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    tasks = [registry.load_task("tabletop", i) for i in (0, 9)]
    return sample_manifest(tasks, PAIRS, 0, events=("target_relocation", "illumination_switch"), policy_seed=195)


def lines(folder: Path) -> list[Any]:
    """Records without what may differ, with the contents of their arrays."""
    run = load_run(folder)
    return [
        (dataclasses.replace(r, arrays={}, timing={}), {n: np.asarray(run.array(r, n)).tobytes() for n in r.arrays})
        for r in sorted(run.records, key=lambda r: r.key)
    ]


# Ray starts its processes by fork and exec, which JAX warns about wherever it has been loaded before.
@pytest.mark.filterwarnings(r"ignore:os.fork\(\) was called:RuntimeWarning")
@pytest.mark.slow
def test_a_run_is_a_single_process_s_though_a_worker_was_killed(manifest: Manifest, tmp_path: Path):
    if importlib.util.find_spec("ray") is None:  # not imported here: how it is set up is the run's business
        pytest.skip("needs the extra: cluster")
    run_pairs(manifest, SETTINGS, tmp_path / "one", load_task=short_task, policy=Mortal())
    flag, seen = tmp_path / "died", []
    on_ray = functools.partial(
        run_on_ray,
        manifest,
        SETTINGS,
        tmp_path / "ray",
        load_task=short_task,
        make_policy=functools.partial(Mortal, flag),
        cluster=Cluster(),
        progress=lambda done, total, record: seen.append((done, total)),
    )
    on_ray()
    assert flag.exists(), "a worker was killed"
    assert lines(tmp_path / "ray") == lines(tmp_path / "one")
    assert len(lines(tmp_path / "one")) == 2 * PAIRS
    assert seen == [(n, 2 * PAIRS) for n in range(2 * PAIRS + 1)], "each arm was written once"
    assert not (tmp_path / "ray.shards").exists()
    before = (tmp_path / "ray" / "records.jsonl").read_bytes()
    on_ray()
    assert (tmp_path / "ray" / "records.jsonl").read_bytes() == before, "the same call again has nothing to do"
    # What a user's policy does wrong comes out as it does without a cluster.
    with pytest.raises(BenchError, match="shape"):
        run_on_ray(manifest, SETTINGS, tmp_path / "bad", load_task=short_task, make_policy=Mistaken, cluster=Cluster())
    assert not (tmp_path / "bad").exists()
    with pytest.raises(BenchError, match="0 GPUs, and a shard wants 1 and 1; change --threads or --gpus"):
        run_on_ray(
            manifest, SETTINGS, tmp_path / "gpu", load_task=short_task, make_policy=Mortal, cluster=Cluster(gpus=1)
        )


def test_an_unfinished_run_is_not_run_again_in_shards(manifest: Manifest, tmp_path: Path, monkeypatch):
    def stop(done: int, total: int, record: Any) -> None:
        if record is not None:
            raise KeyboardInterrupt

    monkeypatch.setattr(cluster, "_ray", lambda **_: None)
    with pytest.raises(KeyboardInterrupt):
        run_pairs(manifest, SETTINGS, tmp_path / "a", load_task=short_task, policy=Mortal(), progress=stop)
    with pytest.raises(BenchError, match="finish it without --launcher"):
        run_on_ray(manifest, SETTINGS, tmp_path / "a", load_task=short_task, make_policy=Mortal, cluster=Cluster())


def test_an_address_that_nothing_listens_at_is_refused_at_once(manifest: Manifest, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(cluster, "_ray", lambda **_: None)
    start = time.monotonic()
    for address in ("127.0.0.1:1", "ray://127.0.0.1:1"):
        with pytest.raises(BenchError, match=f"no Ray cluster at {address}: Connection refused; start one there"):
            run_on_ray(
                manifest, SETTINGS, tmp_path / "a", load_task=short_task, make_policy=Mortal, cluster=Cluster(address)
            )
    assert time.monotonic() - start < 3 * cluster._CONNECT_S
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "said", "what"),
    [
        ("WorkerCrashedError", "The worker died unexpectedly", "its worker died 4 times"),
        ("LocalRayletDiedError", "The task's local raylet died.", r"Ray's own process on this machine \(raylet\) died"),
        ("NodeDiedError", "\n  node 7 is dead", "the machine that it ran on died"),
        ("OutOfMemoryError", "killed", "its worker was ended for want of memory"),
        ("TaskUnschedulableError", "", "Ray gave it up"),
    ],
)
def test_what_a_shard_ended_with_is_said_as_what_it_was(name: str, said: str, what: str):
    class RayError(Exception):
        pass

    class RayTaskError(RayError):
        pass

    def get(shard: Any) -> Any:
        raise type(name, (RayError,), {})(said)

    ray: Any = SimpleNamespace(get=get, exceptions=SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError))
    with pytest.raises(
        BenchError, match=rf"^a/0-of-1: {what} \({re.escape(said.strip() or name)}\); finished work is kept"
    ):
        cluster._outcome(ray, None, Path("a/0-of-1"))


class RayIsKilled(Mortal):
    """Takes Ray's own process with it, which is its parent."""

    def act(self, carries: Sequence[Any], obs: Observation, seeds: np.ndarray) -> tuple[np.ndarray, Sequence[Any]]:
        if self._left == 1 and self._flag is not None and not self._flag.exists():
            os.kill(os.getppid(), signal.SIGKILL)
        return super().act(carries, obs, seeds)


@pytest.mark.filterwarnings(r"ignore:os.fork\(\) was called:RuntimeWarning")
@pytest.mark.slow
def test_ray_s_own_death_is_said_and_the_same_call_goes_on(manifest: Manifest, tmp_path: Path):
    if importlib.util.find_spec("ray") is None:
        pytest.skip("needs the extra: cluster")
    run_pairs(manifest, SETTINGS, tmp_path / "one", load_task=short_task, policy=Mortal())
    on_ray = functools.partial(
        run_on_ray,
        manifest,
        SETTINGS,
        tmp_path / "ray",
        load_task=short_task,
        make_policy=functools.partial(RayIsKilled, tmp_path / "died"),
        cluster=Cluster(),
    )
    with pytest.raises(BenchError, match=r"Ray's own process on this machine \(raylet\) died"):
        on_ray()
    on_ray()
    assert lines(tmp_path / "ray") == lines(tmp_path / "one")


def test_without_ray_the_extra_is_named(manifest: Manifest, tmp_path: Path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"'\.\[cluster\]'"):
        run_on_ray(manifest, SETTINGS, tmp_path / "a", load_task=short_task, make_policy=Mortal, cluster=Cluster())
    assert not list(tmp_path.iterdir())


def test_a_machine_that_does_not_see_the_folder_says_so(manifest: Manifest, tmp_path: Path):
    from mjx_bench.selection import Selection

    with pytest.raises(BenchError, match="a file system that all machines share"):
        cluster._run_shard(
            Selection(manifest, manifest), SETTINGS, tmp_path / "0-of-1", tmp_path / "none", short_task, Mortal
        )
    assert not list(tmp_path.iterdir())


def test_shards_that_were_begun_decide_how_many_there_are(tmp_path: Path):
    assert [p.name for p in cluster._folders(tmp_path / "a", 2)] == ["0-of-2", "1-of-2"]
    (tmp_path / "a.shards" / "1-of-3").mkdir()
    assert len(cluster._folders(tmp_path / "a", 2)) == 3
    (tmp_path / "b.shards").touch()
    with pytest.raises(BenchError, match="cannot write shards here"):
        cluster._folders(tmp_path / "b", 2)
