"""Talks to the builder process: one job at a time, replaced when it dies or hangs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import IO, Any

# A LIBERO scene takes 1 to 6 s to build on a slow core; a build that takes this long hangs.
TIMEOUT_S = 300.0


class BuildFailed(Exception):
    """Why a job failed, in one line."""


class Builder:
    """A builder process, started at the first job. Use it as a context manager, from one thread."""

    MODULE = "evals.libero.builder"  # what the process runs

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._log: IO[str] | None = None

    def __enter__(self) -> Builder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(self, job: dict[str, Any], timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
        """Returns the builder's answer to one job; raises `BuildFailed` when it could not be done.

        A job that kills or hangs the process takes no other job with it: the next one gets a new process.
        """
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        timer = threading.Timer(timeout_s, process.kill)
        timer.start()
        try:
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timed_out = not timer.is_alive()
            timer.cancel()
        if not line.endswith("\n"):  # nothing, or half an answer
            code = process.wait()
            last_words = self._last_line()
            self.close()
            died = f"the builder process died (exit status {code})"
            cause = f"no answer within {timeout_s:g} s" if timed_out else died
            raise BuildFailed(f"{cause}{': ' + last_words if last_words else ''}")
        answer: dict[str, Any] = json.loads(line)
        if answer["error"] is not None:
            raise BuildFailed(answer["error"])
        return answer

    def close(self) -> None:
        """Ends the process and removes its scratch folder; the object can be used again."""
        if self._process is not None:
            process, self._process = self._process, None
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdin.close()  # end of input is how the builder is told to leave
                process.wait(timeout=10)
            except (BrokenPipeError, subprocess.TimeoutExpired):
                process.kill()
                process.wait()
            process.stdout.close()
        if self._log is not None:
            self._log.close()
            self._log = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _start(self) -> subprocess.Popen[str]:
        # MuJoCo and robosuite drop log files where they run, so that is a scratch folder.
        self._folder = tempfile.TemporaryDirectory(prefix="mjx-bench-libero-", ignore_cleanup_errors=True)
        self._log = (Path(self._folder.name) / "stderr.txt").open("w+", encoding="utf-8", errors="replace")
        self._process = subprocess.Popen(
            [sys.executable, "-m", self.MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            cwd=self._folder.name,
            env=_environment(self._folder.name),
            text=True,
        )
        return self._process

    def _last_line(self) -> str:
        if self._log is None:
            return ""
        self._log.seek(0)
        lines = [line.strip() for line in self._log if line.strip()]
        return lines[-1] if lines else ""


def _environment(scratch: str) -> dict[str, str]:
    """The builder's environment: nothing on this machine may change what it builds."""
    source = str(Path(__file__).resolve().parents[2])
    env = dict(os.environ)
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [source, env.get("PYTHONPATH")]))
    env["PYTHONHASHSEED"] = "0"
    # A user's path settings could point LIBERO at other task files or meshes than the installed ones.
    env["LIBERO_CONFIG_PATH"] = str(Path(scratch) / "no-config")
    # One thread gives one order of summation, and the matrices are small.
    env.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))
    if sys.platform == "linux":
        # robosuite loads an OpenGL library when it is imported. Nothing is rendered here, and GLFW's ships with MuJoCo.
        env["MUJOCO_GL"] = "glx"
        env.pop("PYOPENGL_PLATFORM", None)
    return env
