"""Where worker threads spend their time, from samples of their stacks: nothing is instrumented, so nothing is slowed down.

A sample needs the interpreter's lock. While a worker computes with the lock released, as the physics and the control law
do, that is at once; a worker that holds it is seen when it lets go, and each sample counts for the time since the last.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import defaultdict
from types import FrameType, TracebackType

# Label and module prefix, most telling first: a stack belongs to the first line that any of its frames matches.
PARTS = (
    ("policy", "policies"),
    ("physics", "mujoco.batch"),
    ("control law", "mjx_bench.control"),
    ("loading scenes", "mjx_bench.physics.scene"),
    ("loading scenes", "evals"),
    ("records", "mjx_bench.records"),
    ("reading signals", "mjx_bench.physics"),
    ("goals and triggers", "mjx_bench.predicates"),
    ("goals and triggers", "mjx_bench.triggers"),
    ("waiting for the policy", "mjx_bench.sessions"),
    ("loop", "mjx_bench.rollout"),
    ("loop", "mjx_bench.pairing"),
)
OTHER = "other"


def part_of(frame: FrameType | None) -> str:
    """The label of a stack, given its innermost frame."""
    names = []
    while frame is not None:
        names.append(str(frame.f_globals.get("__name__")))
        frame = frame.f_back
    return next((label for label, prefix in PARTS if any(name.startswith(prefix) for name in names)), OTHER)


class Sampler:
    """Samples the threads whose name starts with `prefix`, as a context manager.

    Args:
      prefix: of the names of the threads of interest.
      period_s: seconds between samples.
    """

    def __init__(self, prefix: str, period_s: float = 0.002) -> None:
        self._prefix = prefix
        self._period = period_s
        self._seconds: dict[str, float] = defaultdict(float)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="sampler", daemon=True)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    def shares(self) -> dict[str, float]:
        """Label to its share of the threads' time, largest first; empty without a sample."""
        total = sum(self._seconds.values())
        return {k: round(v / total, 4) for k, v in sorted(self._seconds.items(), key=lambda item: -item[1])}

    def _sample(self) -> None:
        last = time.perf_counter()
        while not self._done.wait(self._period):
            wanted = {t.ident for t in threading.enumerate() if t.name.startswith(self._prefix)}
            now = time.perf_counter()
            for ident, frame in sys._current_frames().items():
                if ident in wanted:
                    self._seconds[part_of(frame)] += now - last
            last = now
