"""Writing a results folder so that a kill at any byte loses at most the unfinished line.

Order of writing: arrays, fsync, line, fsync. So a line never points at bytes that are not there, and what a kill leaves
behind (half a line, arrays without a line) is cut off when the folder is opened again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import pathlib
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Any, BinaryIO

from mjx_bench.errors import BenchError
from mjx_bench.fields import parse_json
from mjx_bench.records.header import Header
from mjx_bench.records.reader import (
    RawArray,
    array_of,
    io_error,
    parse_lines,
    read_header,
    read_manifest,
    read_tasks,
    split_lines,
)
from mjx_bench.records.schema import ArrayRef, Record

# Format character of the buffer protocol to NumPy's kind.
_KINDS = {"?": "b", **dict.fromkeys("bhilq", "i"), **dict.fromkeys("BHILQ", "u"), **dict.fromkeys("efd", "f")}
_ORDER = "<" if sys.byteorder == "little" else ">"


class RunWriter:
    """Writes one arm at a time into a results folder; made by `open`, a context manager.

    Attributes:
      directory: where it is.
      header: as in `run.json`.
      records: everything in the folder, those of earlier sessions included.
      done: (case_id, arm) to record.
    """

    def __init__(
        self, directory: pathlib.Path, header: Header, case_ids: frozenset[str], lines: BinaryIO, data: BinaryIO
    ):
        self.directory, self.header, self._case_ids = directory, header, case_ids
        self._lines, self._data = lines, data
        self.records: list[Record] = []
        self.done: dict[tuple[str, str], Record] = {}

    @classmethod
    def open(
        cls, directory: str | os.PathLike[str], header: Header, manifest_text: str, tasks_text: str | None = None
    ) -> RunWriter:
        """Creates a results folder, or continues one that was made with the same settings.

        Args:
          directory: the folder; made if it is not there.
          header: of this session.
          manifest_text: `cases.dump_manifest` of the cases to run, whose hash is `header.manifest_sha256`.
          tasks_text: `judged.dump_tasks` of their tasks, whose hash is `header.tasks_sha256`; None if that is None.

        Raises:
          BenchError: other settings, versions, cases or schema (the field is named), a second writer, broken records,
            or a folder that cannot be written.
        """
        folder = pathlib.Path(directory)
        try:
            with contextlib.ExitStack() as on_error:
                folder.mkdir(parents=True, exist_ok=True)
                lines = on_error.enter_context(_open_append(folder / "records.jsonl"))
                lock(lines, folder)
                if (folder / "run.json").exists():
                    old = read_header(folder)
                    there = read_manifest(folder, old)["cases"]
                    old.check_same_run(header, str(folder), (there, parse_json(manifest_text, "manifest")["cases"]))
                    if old.tasks_sha256 is not None:
                        read_tasks(folder, old)
                    header = dataclasses.replace(old, resumed=(*old.resumed, header.note()))
                elif lines.seek(0, os.SEEK_END):
                    raise BenchError(f"{folder}: records.jsonl without run.json; use another folder, or restore it")
                else:
                    write_whole(folder / "manifest.json", manifest_text)
                    if tasks_text is not None:
                        write_whole(folder / "tasks.json", tasks_text)
                ids = frozenset(case["case_id"] for case in read_manifest(folder, header)["cases"])
                data = on_error.enter_context(_open_append(folder / "arrays.bin"))
                writer = cls(folder, header, ids, lines, data)
                writer._recover()
                # Last, so that a folder that is refused is left as it was.
                write_whole(folder / "run.json", header.text())
                on_error.pop_all()
        except OSError as e:
            raise io_error(folder, "write", e) from None
        return writer

    def _recover(self) -> None:
        """Cuts off what a kill left behind: the torn last line, then the arrays that no line points at."""
        self._lines.seek(0)
        lines, size = split_lines(self._lines.read())
        self.records = list(parse_lines(lines, self.directory / "records.jsonl"))
        self.done = {record.key: record for record in self.records}
        used = max((r.offset + r.nbytes for record in self.records for r in record.arrays.values()), default=0)
        if self._data.seek(0, os.SEEK_END) < used:
            raise BenchError(
                f"{self.directory / 'arrays.bin'}: shorter than the {used} bytes that records.jsonl points at;"
                " restore it, or use another folder"
            )
        self._lines.truncate(size)
        self._data.truncate(used)
        self._data.seek(used)
        self._lines.seek(size)

    def append(self, record: Record, arrays: Mapping[str, Any] | None = None) -> Record:
        """Writes one arm, and returns only when it is on the disk.

        Args:
          record: the arm; its `arrays` may hold references of an earlier record (a shared Base), which are kept.
          arrays: name to a C-ordered object with the buffer protocol, e.g. a NumPy array.

        Returns:
          The record with the references of all its arrays.

        Raises:
          BenchError: a (case_id, arm) that is there already or is not in the manifest, a field of a wrong type, or a
            failed write; after the latter nothing of this arm remains, and everything before it does.
        """
        if record.key in self.done:
            raise BenchError(f"{self.directory}: case {record.case_id!r} arm {record.arm} is recorded already")
        if record.case_id not in self._case_ids:
            raise BenchError(f"{self.directory}: case {record.case_id!r} is not in this folder's manifest.json")
        start, end = self._data.tell(), self._lines.tell()
        refs, chunks, offset = dict(record.arrays), [], start
        for name, array in (arrays or {}).items():
            raw = _raw(name, array)
            refs[name] = ArrayRef(offset, raw.shape, raw.dtype, hashlib.sha256(raw.data).hexdigest())
            chunks.append(raw.data)
            offset += len(raw.data)
        for name, ref in refs.items():
            if ref.offset + ref.nbytes > offset:
                raise BenchError(f"{self.directory}: array {name!r} points past the end of arrays.bin")
        record = dataclasses.replace(record, arrays=refs)
        where = f"case {record.case_id!r} arm {record.arm}"
        try:
            line = record.line()
        except (TypeError, ValueError) as e:
            raise BenchError(f"{where}: not representable as JSON: {e}") from None
        # What a reader will see, checked now: a bad line must fail the arm that made it, not tomorrow's report.
        record = Record.from_json(parse_json(line, where), where)
        try:
            if chunks:
                write_synced(self._data, b"".join(chunks))
            write_synced(self._lines, line.encode())
        except OSError as e:
            for file, size in ((self._lines, end), (self._data, start)):
                file.truncate(size)  # shrinking needs no space; if it fails too, opening again repairs
                file.seek(size)
            raise io_error(self.directory, "write", e) from None
        self.records.append(record)
        self.done[record.key] = record
        return record

    def array(self, record: Record, name: str) -> RawArray:
        """As `Run.array`, for arms of this folder."""
        return array_of(self.directory, record, name)

    def close(self) -> None:
        """Releases the files and the lock."""
        self._data.close()
        self._lines.close()

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def _raw(name: str, array: Any) -> RawArray:
    try:
        view = memoryview(array)
    except TypeError:
        raise BenchError(f"array {name!r}: {type(array).__name__} has no buffer; pass a NumPy array") from None
    kind = _KINDS.get(view.format.lstrip("@=")) if view.format else None
    if kind is None:
        raise BenchError(f"array {name!r}: element format {view.format!r} is not a plain native number")
    order = "|" if view.itemsize == 1 else _ORDER
    return RawArray(view.tobytes(order="C"), tuple(view.shape or ()), f"{order}{kind}{view.itemsize}")


def _open_append(path: pathlib.Path) -> BinaryIO:
    # Unbuffered, so that a failed write cannot be flushed once more later.
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o644), "r+b", buffering=0)


def write_synced(file: BinaryIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]
    os.fsync(file.fileno())


def lock(file: BinaryIO, folder: pathlib.Path) -> None:
    """Claims an open file of the folder until it is closed; raises `BenchError` if another process has it."""
    import fcntl  # not on every system that can read a results folder

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BenchError(f"{folder}: another process is writing here; wait for it, or use another folder") from None


def write_whole(path: pathlib.Path, text: str) -> None:
    """Replaces a small file so that a kill leaves the old one or the new one."""
    new = path.with_name(path.name + ".new")
    with new.open("wb") as f:
        write_synced(f, text.encode())
    os.replace(new, path)
