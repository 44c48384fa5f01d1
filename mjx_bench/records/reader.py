"""Reading a results folder back; needs no simulator and no third-party package."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from mjx_bench.errors import BenchError
from mjx_bench.fields import canonical_json, parse_json
from mjx_bench.records.header import Header
from mjx_bench.records.schema import ArrayRef, Record
from mjx_bench.types import Arm


@dataclasses.dataclass(frozen=True)
class RawArray:
    """Bytes with a shape and a type; `numpy.asarray(raw)` gives a read-only array without copying."""

    data: bytes
    shape: tuple[int, ...]
    dtype: str

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {"version": 3, "data": self.data, "shape": self.shape, "typestr": self.dtype}


@dataclasses.dataclass(frozen=True)
class Run:
    """A results folder, read.

    Attributes:
      directory: where it is.
      header: what it was made with.
      manifest: the cases as run, parsed JSON (see `cases.Manifest.read`).
      records: one an arm, in the order of writing.
    """

    directory: pathlib.Path
    header: Header
    manifest: Mapping[str, Any]
    records: tuple[Record, ...]

    @property
    def case_ids(self) -> tuple[str, ...]:
        return tuple(case["case_id"] for case in self.manifest["cases"])

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The arms of every case: Base alone in an evaluation."""
        alone = list(self.manifest.get("protocol", {}).get("arms", ())) == ["control"]
        return (Arm.BASE,) if alone else tuple(Arm)

    @property
    def done(self) -> dict[tuple[str, str], Record]:
        """(case_id, arm) to record."""
        return {record.key: record for record in self.records}

    def array(self, record: Record, name: str) -> RawArray:
        """Reads one array of a record and checks its digest.

        Raises:
          BenchError: no such array, or bytes that are missing or changed.
        """
        return array_of(self.directory, record, name)


def array_of(directory: pathlib.Path, record: Record, name: str) -> RawArray:
    """As `Run.array`."""
    if name not in record.arrays:
        known = ", ".join(sorted(record.arrays)) or "none"
        raise BenchError(f"case {record.case_id!r} arm {record.arm}: no array {name!r}; recorded: {known}")
    return read_array(directory / "arrays.bin", record.arrays[name])


def read_array(path: pathlib.Path, ref: ArrayRef) -> RawArray:
    """Reads the array at `ref` from an `arrays.bin` and checks its digest."""
    try:
        with path.open("rb") as f:
            f.seek(ref.offset)
            data = f.read(ref.nbytes)
    except OSError as e:
        raise io_error(path, "read", e) from None
    if len(data) != ref.nbytes:
        raise BenchError(f"{path}: ends before byte {ref.offset + ref.nbytes}, which records.jsonl points at")
    if hashlib.sha256(data).hexdigest() != ref.sha256:
        raise BenchError(f"{path}: bytes {ref.offset}..{ref.offset + ref.nbytes} do not match their recorded sha256")
    return RawArray(data, ref.shape, ref.dtype)


def load_run(directory: str | os.PathLike[str]) -> Run:
    """Reads a results folder; an unfinished last line (a run in progress, or killed) is left out.

    Raises:
      BenchError: not a results folder, another schema, a broken line (with its number), a repeated (case_id, arm), or a
        manifest that is not the one that was run.
    """
    folder = pathlib.Path(directory)
    header = read_header(folder)
    manifest = read_manifest(folder, header)
    lines, _ = split_lines(read_bytes(folder / "records.jsonl"))
    return Run(folder, header, manifest, parse_lines(lines, folder / "records.jsonl"))


def io_error(path: pathlib.Path, verb: str, e: OSError) -> BenchError:
    full = verb == "write" and e.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    advice = "; finished arms are kept: free some space and run the same command again" if full else ""
    return BenchError(f"{e.filename or path}: cannot {verb}: {e.strerror or e}{advice}")


def read_bytes(path: pathlib.Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as e:
        raise io_error(path, "read", e) from None


def read_header(folder: pathlib.Path) -> Header:
    path = folder / "run.json"
    if not path.exists():
        inner = sorted(p.parent.name for p in folder.glob("*/run.json"))
        hint = (
            f"; it holds {', '.join(inner[:4])}{', ...' if len(inner) > 4 else ''}: name one of them" if inner else ""
        )
        raise BenchError(f"{folder}: not a results folder (no run.json){hint}")
    return Header.from_json(parse_json(read_bytes(path).decode("utf-8", "replace"), str(path)), str(path))


def read_manifest(folder: pathlib.Path, header: Header) -> Mapping[str, Any]:
    path = folder / "manifest.json"
    data = parse_json(read_bytes(path).decode("utf-8", "replace"), str(path))
    if hashlib.sha256(canonical_json(data).encode()).hexdigest() != header.manifest_sha256:
        raise BenchError(f"{path}: not the manifest that run.json names by hash; restore it, or use another folder")
    return data


def read_tasks(folder: pathlib.Path, header: Header) -> Mapping[str, Any]:
    """`tasks.json`, parsed: task name to what judging needs of it.

    Raises:
      BenchError: the folder has none, or it is not the one that `run.json` names by hash.
    """
    path = folder / "tasks.json"
    if header.tasks_sha256 is None:
        raise BenchError(f"{folder}: no tasks.json was written with this run; it cannot be judged again")
    data = parse_json(read_bytes(path).decode("utf-8", "replace"), str(path))
    if hashlib.sha256(canonical_json(data).encode()).hexdigest() != header.tasks_sha256:
        raise BenchError(f"{path}: not the tasks that run.json names by hash; restore it")
    return data


def split_lines(data: bytes) -> tuple[list[bytes], int]:
    """Finished lines, and the number of bytes that they take."""
    size = data.rfind(b"\n") + 1
    return data[:size].split(b"\n")[:-1], size


def parse_lines(lines: list[bytes], path: pathlib.Path) -> tuple[Record, ...]:
    records: list[Record] = []
    seen: dict[tuple[str, str], int] = {}
    for i, line in enumerate(lines, 1):
        where = f"{path} line {i}"
        record = Record.from_json(parse_json(line.decode("utf-8", "replace"), where), where)
        first = seen.setdefault(record.key, i)
        if first != i:
            raise BenchError(f"{where}: case {record.case_id!r} arm {record.arm} repeats line {first}; remove one")
        records.append(record)
    return tuple(records)
