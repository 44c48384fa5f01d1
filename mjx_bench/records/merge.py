"""Shards of one run put together: the folder that the run would have left, had it not been divided. Standard library only.

Everything is checked before anything is written, and the new folder appears under its name only when it is complete.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import pathlib
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

from mjx_bench.errors import BenchError
from mjx_bench.fields import canonical_json, thaw
from mjx_bench.records.header import SAME_RUN, Header, Shard
from mjx_bench.records.reader import Run, io_error, load_run, read_array, read_bytes, read_tasks, split_lines
from mjx_bench.records.schema import ArrayRef
from mjx_bench.records.writer import write_synced, write_whole
from mjx_bench.types import Arm


@dataclasses.dataclass(frozen=True)
class Merged:
    """A merged folder.

    Attributes:
      directory: where it is.
      cases, arms: asked for, and recorded.
      unfinished: folders of shards that lack arms.
    """

    directory: pathlib.Path
    cases: int
    arms: int
    unfinished: tuple[str, ...]


def merge_runs(
    folders: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str], *, partial: bool = False
) -> Merged:
    """Writes the records of all shards of a run into one folder, in the manifest's order, Base before Dynamic.

    Args:
      folders: results folders of the shards, in any order.
      out: the new folder; must not be there, or be empty.
      partial: whether shards may lack arms. The result can be finished by the command without `--shard`.

    Raises:
      BenchError: a folder that is no shard or is broken, shards of different runs, a case in two of them, a shard that is
        missing or unfinished, or an `out` that holds something or cannot be written. Then nothing is written.
    """
    target = pathlib.Path(out)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise BenchError(f"{target}: holds something already; give a new folder")
    runs = [load_run(folder) for folder in folders]
    if not runs:
        raise BenchError("nothing to merge; give the results folders of all shards")
    shards = [_shard_of(run) for run in runs]
    _check_same_run(runs)
    _check_disjoint(runs)
    _check_complete(runs, shards)
    unfinished = [_unfinished(run) for run in runs]
    if any(unfinished) and not partial:
        raise BenchError("; ".join(filter(None, unfinished)) + "; finish it, or merge what is there with --partial")
    manifest = _manifest(runs, shards[0])
    tasks = _tasks(runs)
    header = _header(runs, shards, tasks)

    draft = target.with_name(target.name + ".merging")
    if draft.exists():
        raise BenchError(f"{draft}: another merge is writing it, or was killed; remove it and try again")
    try:
        draft.mkdir(parents=True)
    except OSError as e:
        raise io_error(draft, "write", e) from None
    try:
        write_whole(draft / "manifest.json", _pretty(manifest))
        if tasks is not None:
            write_whole(draft / "tasks.json", _pretty(tasks))
        arms = _write_records(runs, shards[0].case_ids, draft)
        _write_sessions(runs, draft)
        write_whole(draft / "run.json", header.text())
        draft.replace(target)
    except OSError as e:
        raise io_error(draft, "write", e) from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return Merged(target, len(shards[0].case_ids), arms, tuple(filter(None, unfinished)))


def _shard_of(run: Run) -> Shard:
    if run.header.shard is None:
        raise BenchError(f"{run.directory}: not a shard but a whole run; there is nothing to merge it with")
    return run.header.shard


def _check_same_run(runs: Sequence[Run]) -> None:
    first, assets = runs[0], dict(runs[0].header.assets)
    for run in runs[1:]:
        found = first.header.difference(run.header, SAME_RUN)
        a, b = first.header.shard, run.header.shard
        assert a is not None
        assert b is not None
        if not found and a.manifest_sha256 != b.manifest_sha256:
            found = "cases of all shards", a.manifest_sha256, b.manifest_sha256
        if not found and a.count != b.count:
            found = "number of shards", str(a.count), str(b.count)
        for name, version in run.header.assets.items():
            if not found and assets.setdefault(name, version) != version:
                found = f"assets.{name}", assets[name], version
        if found:
            what, ours, theirs = found
            raise BenchError(
                f"{first.directory} and {run.directory} are not shards of one run: {what} = {ours} and {theirs}"
            )


def _check_disjoint(runs: Sequence[Run]) -> None:
    owner: dict[str, Run] = {}
    for run in runs:
        for case_id in run.case_ids:
            other = owner.setdefault(case_id, run)
            if other is not run:
                raise BenchError(
                    f"{other.directory} (shard {other.header.shard}) and {run.directory} (shard {run.header.shard})"
                    f" overlap: both hold case {case_id!r}; give every shard once"
                )


def _check_complete(runs: Sequence[Run], shards: Sequence[Shard]) -> None:
    here = {case_id for run in runs for case_id in run.case_ids}
    lacking = [case_id for case_id in shards[0].case_ids if case_id not in here]
    if lacking:
        count = shards[0].count
        missing = sorted(set(range(count)) - {shard.index for shard in shards})
        names = ", ".join(f"{i}/{count}" for i in missing) or "none by number"
        raise BenchError(f"missing shard(s): {names}; {len(lacking)} case(s) are in no folder, first {lacking[0]!r}")


def _unfinished(run: Run) -> str:
    """What a shard lacks, in words; empty if nothing."""
    done = run.done
    lacking = sum((case_id, arm) not in done for case_id in run.case_ids for arm in run.arms)
    return f"{run.directory} (shard {run.header.shard}) is unfinished: {lacking} arm(s) to go" if lacking else ""


def _manifest(runs: Sequence[Run], shard: Shard) -> dict[str, Any]:
    cases = {case["case_id"]: case for run in runs for case in run.manifest["cases"]}
    manifest = {**runs[0].manifest, "cases": [cases[case_id] for case_id in shard.case_ids]}
    if _sha256(manifest) != shard.manifest_sha256:
        raise BenchError(f"{runs[0].directory}: the shards' cases together are not those that run.json names by hash")
    return manifest


def _tasks(runs: Sequence[Run]) -> dict[str, Any] | None:
    if all(run.header.tasks_sha256 is None for run in runs):
        return None
    tasks: dict[str, Any] = {}
    for run in runs:
        for name, task in read_tasks(run.directory, run.header).items():
            if tasks.setdefault(name, task) != task:
                raise BenchError(f"{run.directory}: task {name!r} is judged otherwise than in another shard")
    return tasks


def _header(runs: Sequence[Run], shards: Sequence[Shard], tasks: Mapping[str, Any] | None) -> Header:
    """The header of the whole run: the first shard's, with every other session noted as a continuation."""
    first, *others = [run.header for _, run in sorted(zip(shards, runs, strict=True), key=lambda x: x[0].index)]
    notes = [note for other in others for note in (other.note(), *other.resumed)]
    return dataclasses.replace(
        first,
        manifest_sha256=shards[0].manifest_sha256,
        assets=dict(sorted((k, v) for run in runs for k, v in run.header.assets.items())),
        tasks_sha256=None if tasks is None else _sha256(tasks),
        shard=None,
        resumed=(*first.resumed, *notes),
    )


def _write_records(runs: Sequence[Run], case_ids: Sequence[str], folder: pathlib.Path) -> int:
    """Writes lines in order, and every distinct array once; returns the number of lines."""
    owner = {case_id: run for run in runs for case_id in run.case_ids}
    done = {run.directory: run.done for run in runs}
    places: dict[tuple[str, int], int] = {}
    written = 0
    with (folder / "arrays.bin").open("wb") as data, (folder / "records.jsonl").open("wb") as lines:
        for case_id in case_ids:
            run = owner[case_id]
            for arm in Arm:
                record = done[run.directory].get((case_id, arm))
                if record is not None:
                    refs = {n: _moved(run, ref, data, places) for n, ref in record.arrays.items()}
                    lines.write(dataclasses.replace(record, arrays=refs).line().encode())
                    written += 1
        for file in (data, lines):
            file.flush()
            os.fsync(file.fileno())
    return written


def _moved(run: Run, ref: ArrayRef, data: Any, places: dict[tuple[str, int], int]) -> ArrayRef:
    """Where the bytes of `ref` lie in the new file; they are copied there if they are not in it yet."""
    key = (ref.sha256, ref.nbytes)
    if key not in places:
        raw = read_array(run.directory / "arrays.bin", ref)
        places[key] = data.tell()
        data.write(raw.data)
    return dataclasses.replace(ref, offset=places[key])


def _write_sessions(runs: Sequence[Run], folder: pathlib.Path) -> None:
    paths = [run.directory / "sessions.jsonl" for run in runs]
    lines = [line for path in paths if path.exists() for line in split_lines(read_bytes(path))[0]]
    if lines:
        with (folder / "sessions.jsonl").open("wb", buffering=0) as file:
            write_synced(file, b"".join(line + b"\n" for line in lines))


def _sha256(data: Any) -> str:
    return hashlib.sha256(canonical_json(data).encode()).hexdigest()


def _pretty(data: Any) -> str:
    """As `cases.dump_manifest` and `judged.dump_tasks` lay out their files."""
    return json.dumps(thaw(data), indent=2, sort_keys=True, allow_nan=False) + "\n"
