"""One run divided over the machines of a Ray cluster, and put together again.

Each shard is a task of Ray's, and appends to a results folder of its own beside the run's, on a file system that all
machines share. A worker that dies is replaced by Ray, and the shard goes on from its own records, so nothing runs twice.
What comes out is the folder that a single process would have left.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import shutil
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from mjx_bench import runtime
from mjx_bench.cases import Case, Manifest
from mjx_bench.errors import BenchError, MissingExtra
from mjx_bench.policy import Policy
from mjx_bench.recording import Progress
from mjx_bench.records import load_run
from mjx_bench.records.merge import merge_runs
from mjx_bench.records.reader import parse_lines, split_lines
from mjx_bench.schedule import run_pairs
from mjx_bench.selection import Selection
from mjx_bench.settings import RunSettings
from mjx_bench.task import Task

# Times that Ray starts a shard again after its worker died: a machine may go away, a crash that repeats is a fault.
RESTARTS = 3

_POLL_S = 1.0

# Seconds that a machine has to accept a connection, and Ray to answer before something is said; Ray itself waits minutes.
_CONNECT_S, _ANSWER_S = 5.0, 10.0

# What a shard ended with, by the name of Ray's exception.
_DEATHS = {
    "WorkerCrashedError": f"its worker died {RESTARTS + 1} times",
    "OutOfMemoryError": "its worker was ended for want of memory",
    "NodeDiedError": "the machine that it ran on died",
    "LocalRayletDiedError": "Ray's own process on this machine (raylet) died",
}


@dataclasses.dataclass(frozen=True)
class Cluster:
    """Where shards run.

    Attributes:
      address: of a Ray cluster (`host:port`, `ray://...`, or `auto` for the one that this machine belongs to); None starts
        one on this machine for as long as the run takes, which answers to nobody without its token.
      gpus: of each shard, for policies and engines that need one; a part of one is allowed.
    """

    address: str | None = None
    gpus: float = 0.0


def run_on_ray(
    cases: Manifest | Selection,
    settings: RunSettings,
    out: Path,
    *,
    load_task: Callable[[Case], Task],
    make_policy: Callable[[], Policy],
    cluster: Cluster,
    progress: Progress | None = None,
    note: Callable[[str], None] = lambda line: None,
) -> None:
    """Runs what `out` lacks of the cases on a cluster.

    There is a shard for every `settings.threads` processors (0 counts as 1) or `cluster.gpus` GPUs of the cluster, at
    most one a case. Shards of an earlier call that was interrupted go on, however large the cluster is now.

    Args:
      cases, settings, load_task, progress, note: as for `schedule.run_pairs`; what is called in workers must be importable
        there.
      out: results folder, on a file system that all machines share; shards are in `OUT.shards` until all are finished.
      make_policy: called once in each worker.
      cluster: where.

    Raises:
      MissingExtra: Ray is not installed.
      BenchError: no cluster answers, it has no processor or GPU to give, a machine does not see `out`, `out` holds a run
        that is not finished, or a shard that cannot be run; everything finished is kept.
      KeyboardInterrupt: passed on, likewise.
    """
    ray = _ray(local=cluster.address is None)
    chosen = Selection(cases, cases) if isinstance(cases, Manifest) else cases
    chosen = chosen.with_query_interval(settings.query_interval)
    if (out / "run.json").exists():
        run = load_run(out)
        if any((case_id, arm) not in run.done for case_id in run.case_ids for arm in run.arms):
            raise BenchError(
                f"{out}: holds a run that is not finished; finish it without --launcher, or choose another folder"
            )
        run_pairs(chosen, settings, out, load_task=load_task, policy=make_policy(), progress=progress, note=note)
        return
    if cluster.address is not None:
        _check_address(cluster.address)
    settings = dataclasses.replace(settings, threads=settings.threads or 1)
    # A new one, even where RAY_ADDRESS names another.
    local = {"address": "local", "include_dashboard": False}
    where: dict[str, Any] = local if cluster.address is None else {"address": cluster.address}
    workers_see = {"PYTHONPATH": os.pathsep.join(filter(None, (os.getcwd(), os.environ.get("PYTHONPATH"))))}
    silent = f"Ray at {cluster.address or 'this machine'} does not answer yet; is it Ray that listens there?"
    patience = threading.Timer(_ANSWER_S, note, [silent])
    patience.daemon = True
    patience.start()
    try:
        ray.init(
            **where,
            runtime_env={"env_vars": runtime.defaults() | workers_see},
            log_to_driver=False,
            logging_level="ERROR",
        )
    except (ConnectionError, ValueError, RuntimeError, TimeoutError) as error:
        raise BenchError(f"no Ray cluster at {cluster.address or 'this machine'}: {error}") from error
    finally:
        patience.cancel()
    try:
        folders = _folders(out, _shards(ray, settings, cluster, len(chosen.manifest.cases)))
        _run_all(ray, chosen, settings, folders, load_task, make_policy, cluster, progress, note)
    finally:
        ray.shutdown()
    merge_runs(folders, out)
    shutil.rmtree(folders[0].parent)


def _ray(*, local: bool) -> ModuleType:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere unless asked for
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # the coming default, which Ray warns about
    # Ray listens on all of a machine's addresses, so it has to ask who is there; it reads this once, when it is imported.
    if local and "ray" not in sys.modules:
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    try:
        import ray
    except ImportError:
        raise MissingExtra("--launcher ray needs Ray: pip install -e '.[cluster]'") from None
    return ray


def _check_address(address: str) -> None:
    """Raises `BenchError` where nothing listens at `host:port` or `ray://host:port`; other addresses are Ray's business."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
    except OSError as error:
        raise BenchError(
            f"no Ray cluster at {address}: {error.strerror or error}; start one there (ray start --head),"
            " or correct --address"
        ) from None


def _shards(ray: ModuleType, settings: RunSettings, cluster: Cluster, cases: int) -> int:
    """How many shards the cluster runs side by side."""
    has = ray.cluster_resources()
    room = int(has.get("CPU", 0) // settings.threads)
    if cluster.gpus:
        room = min(room, int(has.get("GPU", 0) / cluster.gpus))
    if room < 1:
        raise BenchError(
            f"the cluster has {has.get('CPU', 0):g} processors and {has.get('GPU', 0):g} GPUs, and a shard wants"
            f" {settings.threads} and {cluster.gpus:g}; change --threads or --gpus"
        )
    return min(room, cases)


def _folders(out: Path, count: int) -> list[Path]:
    """The shards' folders: those that an interrupted call left, or new ones."""
    parent = out.with_name(out.name + ".shards")
    try:
        parent.mkdir(parents=True, exist_ok=True)
        for path in parent.iterdir():
            if found := re.fullmatch(r"[0-9]+-of-([0-9]+)", path.name):
                count = int(found[1])
    except OSError as error:
        raise BenchError(
            f"{parent}: cannot write shards here: {error.strerror or error}; choose another folder"
        ) from None
    return [parent / f"{i}-of-{count}" for i in range(count)]


def _run_all(
    ray: ModuleType,
    chosen: Selection,
    settings: RunSettings,
    folders: Sequence[Path],
    load_task: Callable[[Case], Task],
    make_policy: Callable[[], Policy],
    cluster: Cluster,
    progress: Progress | None,
    note: Callable[[str], None],
) -> None:
    parent, count = folders[0].parent.resolve(), len(folders)
    sign = parent / f".{uuid.uuid4().hex}"
    sign.touch()
    task = ray.remote(num_cpus=settings.threads, num_gpus=cluster.gpus, max_retries=RESTARTS)(_run_shard)
    try:
        running = {}
        for i, folder in enumerate(folders):
            own = dataclasses.replace(chosen.whole, cases=chosen.whole.cases[i::count])
            shard = Selection(own, chosen.whole, (i, count), chosen.left_out)
            running[task.remote(shard, settings, parent / folder.name, sign, load_task, make_policy)] = folder
        tails = [_Tail(folder) for folder in folders]
        arms = len(chosen.manifest.protocol.arms) * len(chosen.whole.cases)
        done = sum(len(tail.new()) for tail in tails)
        if progress is not None:
            progress(done, arms, None)
        waiting, said = list(running), set[str]()
        while waiting:
            ready, waiting = ray.wait(waiting, timeout=_POLL_S)
            for record in (record for tail in tails for record in tail.new()):
                done += 1
                if progress is not None:
                    progress(done, arms, record)
            for shard in ready:
                for line in _outcome(ray, shard, running[shard]):
                    if line not in said:
                        note(line)
                        said.add(line)
    finally:
        sign.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            parent.rmdir()  # where no shard has begun


def _outcome(ray: ModuleType, shard: Any, folder: Path) -> list[str]:
    """What a shard had to say; raises what it ended with, as what it is."""
    try:
        lines: list[str] = ray.get(shard)
        return lines
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, BenchError):
            raise error.cause from None
        raise
    except ray.exceptions.RayError as error:
        what = _DEATHS.get(type(error).__name__, "Ray gave it up")
        said = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise BenchError(
            f"{folder}: {what} ({said}); finished work is kept, the same command goes on from there"
        ) from None


def _run_shard(
    shard: Selection,
    settings: RunSettings,
    folder: Path,
    sign: Path,
    load_task: Callable[[Case], Task],
    make_policy: Callable[[], Policy],
) -> list[str]:
    """One shard, in a worker; what there is to say of it."""
    if not sign.exists():
        raise BenchError(
            f"{folder}: {os.uname().nodename} does not see this folder; put --out on a file system that all machines share"
        )
    _wait_for_lock(folder)
    notes: list[str] = []
    run_pairs(shard, settings, folder, load_task=load_task, policy=make_policy(), note=notes.append)
    return notes


def _wait_for_lock(folder: Path, patience_s: float = 60.0) -> None:
    """Waits until a worker that Ray gave up, but that lives on, has let go of the folder; or lets the writer complain."""
    import fcntl

    records, until = folder / "records.jsonl", time.monotonic() + patience_s
    while records.exists() and time.monotonic() < until:
        with records.open("r+b") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                time.sleep(_POLL_S)


class _Tail:
    """The records that a shard has added since the last look."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "records.jsonl"
        self._at = 0

    def new(self) -> tuple[Any, ...]:
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                lines, size = split_lines(file.read())
        except FileNotFoundError:
            return ()
        self._at += size
        return parse_lines(lines, self._path)
