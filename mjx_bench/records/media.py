"""Names of the pictures of a results folder, in its `media` folder; made after a run, and no part of the result."""

from __future__ import annotations

import hashlib
import pathlib
import re

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
