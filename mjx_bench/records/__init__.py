"""Results folders: what was run, with what, and what came of it. Standard library only.

    run.json       header: versions, device, settings, hashes
    manifest.json  the cases, as run
    tasks.json     what judging needs of their tasks
    records.jsonl  one line an arm
    arrays.bin     raw arrays, appended, that lines point into
    sessions.jsonl how each session used the machine; no part of the result

Arrays go in and come out through the buffer protocol: NumPy users pass arrays and call `numpy.asarray` on what they get.
"""

from mjx_bench.records.header import Header, Shard, git_state
from mjx_bench.records.reader import RawArray, Run, load_run, read_array, read_tasks
from mjx_bench.records.schema import EVENT_ORDER, OWN_EVENTS, SCHEMA, VISUAL_EVENTS, ArrayRef, Record, event_rank
from mjx_bench.records.writer import RunWriter

__all__ = [
    "EVENT_ORDER",
    "OWN_EVENTS",
    "SCHEMA",
    "VISUAL_EVENTS",
    "ArrayRef",
    "Header",
    "RawArray",
    "Record",
    "Run",
    "RunWriter",
    "Shard",
    "event_rank",
    "git_state",
    "load_run",
    "read_array",
    "read_tasks",
]
