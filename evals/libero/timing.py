"""LIBERO's own `env.step` on the clock: one episode of a task in a process of its own, stepped on request.

`python -m evals.libero.timing` reads a JSON job a line on standard input and answers with a JSON line on standard output:

    {"bddl": path, "seed": 195}     builds LIBERO's environment and resets it    {"error": null, "seconds": 4.2}
    {"state": [...]}                begins an episode at an initial state        {"error": null, "seconds": 0.3}
    {"actions": [[...], ...]}       executes them                                {"error": null, "seconds": 0.05}

The environment has no renderer and no camera, which is the best case for LIBERO.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from evals.libero import builder, package
from evals.libero.client import Builder, BuildFailed
from mjx_bench.errors import BenchError


class _Process(Builder):
    MODULE = "evals.libero.timing"


class LiberoClock:
    """LIBERO's environment of one task; a `mjx_bench.bench.engine.Reference`. Use it as a context manager.

    Args:
      suite: one of LIBERO's suites.
      index: of the task.
      seed: policy seed of LIBERO's reset.

    Raises:
      BenchError: on entry, no such task, or LIBERO cannot build or reset it; later, a step that LIBERO cannot do.
      MissingExtra: when LIBERO is not installed.
    """

    def __init__(self, suite: str, index: int, seed: int) -> None:
        self._files = package.find(suite, index)
        self._seed = seed
        self._process = _Process()

    def __enter__(self) -> LiberoClock:
        try:
            self._ask({"bddl": str(self._files.bddl), "seed": self._seed})
        except BenchError:
            self._process.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.close()

    def restart(self, init_state: np.ndarray) -> None:
        """Begins an episode at an initial state [1 + nq + nv], after a reset of LIBERO's own."""
        self._ask({"state": init_state.tolist()})

    def step(self, actions: np.ndarray) -> float:
        """Executes actions [n, 7]; returns seconds, the exchange of lines not counted."""
        return self._ask({"actions": actions.tolist()})

    def _ask(self, job: dict[str, Any]) -> float:
        try:
            return float(self._process.run(job)["seconds"])
        except BuildFailed as error:
            raise BenchError(f"LIBERO could not run {self._files.label}: {error}") from error


def main() -> None:
    """The process: everything that LIBERO prints goes to standard error, as in `builder`."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    builder.without_log_file()
    with contextlib.ExitStack() as stack:
        env: Any = None
        seed = 0
        for line in sys.stdin:
            job = json.loads(line)
            error, started = None, time.perf_counter()
            try:
                if "bddl" in job:
                    env, seed = stack.enter_context(builder.environment(Path(job["bddl"]))), job["seed"]
                    builder.reset(env, seed)
                elif "state" in job:
                    builder.reset(env, seed)
                    _restore(env, np.array(job["state"]))
                else:
                    actions = np.array(job["actions"])
                    started = time.perf_counter()
                    for action in actions:
                        env.step(action)
            except Exception as cause:  # whatever LIBERO raises is the answer to this job
                error = builder.explain(cause)
            answers.write(json.dumps({"error": error, "seconds": time.perf_counter() - started}) + "\n")
            answers.flush()


def _restore(env: Any, state: np.ndarray) -> None:
    """What LIBERO's `set_init_state` does, but for the pictures that it returns."""
    env.sim.set_state_from_flattened(state)
    env.sim.forward()
    env._check_success()
    env._post_process()
    env._update_observables(force=True)


if __name__ == "__main__":
    main()
