"""Code control: a program of the agent's own that decides every control step of one call, in a process that can do
nothing else.

The program is Python and defines `act(observation, memory, step, left)`: what may be observed, a dict that lives as
long as the call, the steps done in it and those left. It returns the action, a list of numbers in [-1, 1], or None to
end the call. The process is locked (`program_child`) before it reads the program, gets no environment, and is killed
when a step takes too long; an error ends the call after the steps already executed.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mjx_bench.agent import SOURCE_MOST
from mjx_bench.errors import BenchError
from mjx_bench.policy import Observation
from mjx_bench.tools import BadCall, Motion, Param, Program, Tool, Use

STEP_CPU_S = 2.0  # of a processor, for one step
STEP_WALL_S = 20.0  # of a clock: a machine that is busy costs a program nothing
START_WALL_S = 60.0
_REPLY_MOST = 65_536  # bytes
_CHILD = Path(__file__).with_name("program_child.py")

ABOUT = (
    "Let a program of yours decide every control step of this call. Python source that defines"
    " act(observation, memory, step, left): observation is what a packet holds, memory a dict that lives as long as the"
    " call, step the steps done in it, left those that are left. It returns the action, a list of {} numbers in"
    " [{:g}, {:g}], or None to end the call. math, numpy and np are there; files, network and processes are not, so that"
    " only modules which Python has already loaded can be imported. An error ends the call after the steps already executed."
)


def program_tool(steps: int, width: int, bounds: tuple[float, float]) -> Tool:
    """The tool `run_program`.

    Args:
      steps: of one call, at most.
      width: numbers in an action.
      bounds: of each.
    """
    params = {
        "source": Param("text", "the program", most=SOURCE_MOST),
        "steps": Param("integer", "control steps at most", low=1, high=steps),
    }
    use: Use = lambda a, obs: Program(a["source"], a["steps"], bounds)  # noqa: E731
    return Tool("run_program", ABOUT.format(width, *bounds), params, use)


@contextlib.contextmanager
def running(
    program: Program, state: Callable[[Observation], Mapping[str, Any]], width: int
) -> Iterator[Callable[[Observation, int], np.ndarray | str]]:
    """The program in its process, as the `action` of a `tools.Motion`: it raises `BadCall` where the program fails.

    Args:
      program: what to run.
      state: what it may observe.
      width: A.
    """
    child = _Child(program.source)
    try:

        def action(obs: Observation, step: int) -> np.ndarray | str:
            told = {"observation": state(obs), "step": step, "left": program.steps - step}
            answer = child.ask(told)
            return "done" if answer is None else _checked(answer, width, program.bounds)

        yield action
    finally:
        child.close()


def as_motion(program: Program, action: Callable[[Observation, int], np.ndarray | str]) -> Motion:
    """A program that runs, as a motion."""
    return Motion(program.steps, action)


def _checked(answer: Any, width: int, bounds: tuple[float, float]) -> np.ndarray:
    if not isinstance(answer, list) or len(answer) != width:
        raise BadCall("values", f"act must return a list of {width} numbers, or None")
    for value in answer:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        # Compared as it is, since an integer of any length is JSON; nothing is within bounds that is not finite.
        if not number or not bounds[0] <= value <= bounds[1]:
            raise BadCall("values", f"act must return finite numbers within {bounds[0]:g} and {bounds[1]:g}")
    return np.array(answer, np.float64)


class _Child:
    """The process of one program.

    Raises:
      BadCall: a program that does not load.
      BenchError: a machine on which nothing can be locked up.
    """

    def __init__(self, source: str) -> None:
        # What is kept of the environment makes Python start, and NumPy use one thread.
        kept = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PATH": os.defpath}
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(_CHILD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=kept,
            cwd="/",
            bufsize=0,
            start_new_session=True,
        )
        self._rest = b""
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)
        try:
            locked = self._read(START_WALL_S, START_WALL_S)
            if locked.get("locked") is not True:
                raise BenchError(f"code control does not work here: {locked.get('error', 'no answer')}; it needs Linux")
            self._answer({"source": source})
        except BaseException:
            self.close()
            raise

    def ask(self, told: Mapping[str, Any]) -> Any:
        """What `act` returns."""
        return self._answer(told).get("action")

    def _answer(self, told: Mapping[str, Any]) -> dict[str, Any]:
        self._write(json.dumps(told).encode() + b"\n")
        answer = self._read(STEP_CPU_S, STEP_WALL_S)
        if "error" in answer:
            shown = "".join(c if c.isprintable() else " " for c in str(answer["error"]))  # it may reach a terminal
            raise BadCall("values", f"the program failed: {' '.join(shown.split())[:300]}")
        return answer

    def _write(self, data: bytes) -> None:
        """Tells the process something; a program that answers without reading must not keep us waiting."""
        assert self._process.stdin is not None
        pipe = self._process.stdin.fileno()
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_WRITE)
            while data:
                if not selector.select(STEP_WALL_S):
                    raise BadCall("values", "the program does not read what it is told")
                try:
                    data = data[os.write(pipe, data) :]
                except OSError:
                    raise BadCall("values", "the program ended its process") from None

    def _read(self, cpu_s: float, wall_s: float) -> dict[str, Any]:
        """The next line of the process, within so much time."""
        assert self._process.stdout is not None
        began, used = time.monotonic(), self._cpu()
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                if time.monotonic() - began > wall_s or self._cpu() - used > cpu_s:
                    raise BadCall("values", f"the program took more than {cpu_s:g} s for one step")
                if not selector.select(0.1):
                    continue
                got = os.read(self._process.stdout.fileno(), _REPLY_MOST)
                self._rest += got
                if not got or len(self._rest) > _REPLY_MOST:
                    raise BadCall("values", "the program ended its process" if not got else "act returned too much")
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise BadCall("values", "the program wrote to its own process's channel")
        return answer

    def _cpu(self) -> float:
        """Processor seconds of the process so far; 0 where the system does not say."""
        try:
            fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        """Ends the process, whatever it is doing."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait()
