"""A run's folder belongs to one training at a time: a second one would take the first one's checkpoints for leftovers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mjx_bench.records.writer import lock
from train.run_folder import SETTINGS


@contextmanager
def held(run: Path) -> Iterator[None]:
    """Keeps other trainings out of a folder that is there; the system lets go of it when the process ends, however it ends.

    Raises:
      BenchError: another one is in it.
    """
    with (run / f"{SETTINGS}.lock").open("ab") as file:
        lock(file, run)
        yield
