"""Names of the pictures of a results folder, in its `media` folder; made after a run, and no part of the result."""

from __future__ import annotations

import hashlib
import pathlib
import re
import struct
import zlib

# Moments that stills are taken at, in order. `start` stands in for those of an event in a pair whose event never fired.
MOMENTS = ("start", "before", "event", "response", "end")

_LONGEST = 120  # characters; file systems take 255 bytes with everything that is added


def media_folder(directory: pathlib.Path) -> pathlib.Path:
    """Where the pictures of a results folder lie."""
    return directory / "media"


def stem(case_id: str) -> str:
    """A file name's beginning for a case: its id if that is harmless in any file system, else made so and kept distinct."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", case_id)[:_LONGEST].lstrip(".-")
    return plain if plain == case_id else f"{plain}-{hashlib.sha256(case_id.encode()).hexdigest()[:8]}"


def video_path(directory: pathlib.Path, case_id: str) -> pathlib.Path:
    """The film of a pair."""
    return media_folder(directory) / f"{stem(case_id)}.mp4"


def still_path(directory: pathlib.Path, case_id: str, moment: str) -> pathlib.Path:
    """The still of a pair at one of `MOMENTS`."""
    return media_folder(directory) / f"{stem(case_id)}.{moment}.png"


def rerun_path(directory: pathlib.Path, case_id: str) -> pathlib.Path:
    """The recording of a pair for the rerun viewer."""
    return media_folder(directory) / f"{stem(case_id)}.rrd"


def is_whole(path: pathlib.Path) -> bool:
    """Whether a film or still is there from beginning to end: cut off or half overwritten, a browser shows nothing of it."""
    try:
        data = path.read_bytes()
    except OSError:
        return False
    return (_whole_png if path.suffix == ".png" else _whole_mp4)(data)


def _whole_png(data: bytes) -> bool:
    """Chunks of length, kind, content and checksum up to IEND (PNG specification, 5.3)."""
    at, kind = 8, b""
    while data[:8] == b"\x89PNG\r\n\x1a\n" and len(data) >= at + 12:
        (length,) = struct.unpack_from(">I", data, at)
        kind, end = data[at + 4 : at + 8], at + 8 + length
        if len(data) < end + 4 or zlib.crc32(data[at + 4 : end]) != struct.unpack_from(">I", data, end)[0]:
            return False
        at = end + 4
    return kind == b"IEND" and at == len(data)


def _whole_mp4(data: bytes) -> bool:
    """Boxes of size, kind and content up to the end, an index and samples among them (ISO/IEC 14496-12, 4.2)."""
    at, kinds = 0, set()
    while len(data) >= at + 8:
        size, kind = struct.unpack_from(">I4s", data, at)
        if size == 1 and len(data) >= at + 16:
            (size,) = struct.unpack_from(">Q", data, at + 8)
        if size < 8:
            return False
        kinds.add(kind)
        at += size
    return at == len(data) and {b"ftyp", b"moov", b"mdat"} <= kinds
