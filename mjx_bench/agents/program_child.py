"""The process that runs a program of an agent's (`program`): locks itself, then answers one JSON line with one.

Locked means, for good: no system call but those that compute, allocate and use the two pipes that are open (seccomp,
Linux), so no file, no network, no other process, no signal to any; so much memory, so much processor time, no core; and
it dies with its parent. It runs as a script, and imports nothing of this project.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import platform
import resource
import signal
import struct
import sys
import traceback

MEMORY = 256 << 20  # bytes, beyond what Python and NumPy take
CPU_S = 120  # of the whole call
ERROR_MOST = 240  # characters

# read, write, close, fstat, lseek, mmap, mprotect, munmap, mremap, brk, madvise, rt_sigaction, rt_sigprocmask,
# rt_sigreturn, sigaltstack, futex, getrandom, clock_gettime, sched_yield, getpid, gettid, exit, exit_group; before them,
# what seccomp calls the architecture.
ALLOWED = {
    "x86_64": (
        0xC000003E,
        (0, 1, 3, 5, 8, 9, 10, 11, 25, 12, 28, 13, 14, 15, 131, 202, 318, 228, 24, 39, 186, 60, 231),
    ),
    "aarch64": (
        0xC00000B7,
        (63, 64, 57, 80, 62, 222, 226, 215, 216, 214, 233, 134, 135, 139, 132, 98, 278, 113, 124, 172, 178, 93, 94),
    ),
}
_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER, _PARENT_DEATH = 38, 22, 2, 1
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050001  # refuse: EPERM


def lock() -> None:
    """Locks this process. Raises OSError where the system cannot."""
    machine = platform.machine()
    if sys.platform != "linux" or machine not in ALLOWED:
        raise OSError(f"nothing locks a process on {sys.platform} {machine}")
    import numpy  # noqa: F401 - loaded while it still can be

    libc = ctypes.CDLL(None, use_errno=True)
    _prctl(libc, _PARENT_DEATH, int(signal.SIGKILL))
    with open("/proc/self/statm") as file:
        taken = int(file.read().split()[0]) * resource.getpagesize()
    limits = {
        resource.RLIMIT_AS: taken + MEMORY,
        resource.RLIMIT_CPU: CPU_S,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_NOFILE: 3,
        resource.RLIMIT_CORE: 0,
    }
    for kind, value in limits.items():
        resource.setrlimit(kind, (value, value))
    arch, calls = ALLOWED[machine]
    # Load the architecture, refuse another; load the call's number, allow those named, refuse the rest.
    code = [(0x20, 0, 0, 4), (0x15, 1, 0, arch), (0x06, 0, 0, _REFUSE), (0x20, 0, 0, 0)]
    code += [(0x15, len(calls) - i, 0, call) for i, call in enumerate(calls)]
    code += [(0x06, 0, 0, _REFUSE), (0x06, 0, 0, _ALLOW)]
    raw = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code), ctypes.addressof(raw)))
    _prctl(libc, _NO_NEW_PRIVILEGES, 1)
    _prctl(libc, _SECCOMP, _FILTER, ctypes.addressof(program))


def _prctl(libc: ctypes.CDLL, option: int, *values: int) -> None:
    padded = [ctypes.c_ulong(v) for v in (*values, 0, 0, 0, 0)[:4]]
    if libc.prctl(ctypes.c_int(option), *padded):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


class _Nowhere:
    """What the program prints goes nowhere."""

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None:
        pass


def said(error: BaseException) -> str:
    """One line about what the program raised, with its own line's number."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "<program>"]
    lines += [error.lineno] if isinstance(error, SyntaxError) else []
    where = f" (line {lines[-1]})" if lines else ""
    try:
        text = str(error)
    except BaseException:
        text = ""
    return f"{type(error).__name__}: {text}"[:ERROR_MOST] + where


def main() -> None:
    """Locks, says so, and answers until the pipe ends."""

    def answer(data: dict[str, object]) -> None:
        os.write(1, (json.dumps(data) + "\n").encode())  # a NaN is refused by who reads it

    try:
        lock()
    except (OSError, ValueError, ImportError) as error:
        answer({"locked": False, "error": str(error)})
        return
    answer({"locked": True})
    import numpy

    sys.stdout = sys.stderr = _Nowhere()
    names: dict[str, object] = {"__name__": "program", "math": math, "numpy": numpy, "np": numpy}
    memory: dict[str, object] = {}
    rest = b""
    while True:
        while b"\n" not in rest:
            got = os.read(0, 65536)
            if not got:
                return
            rest += got
        line, _, rest = rest.partition(b"\n")
        told = json.loads(line)
        try:
            if "source" in told:
                exec(compile(told["source"], "<program>", "exec"), names)
                if not callable(names.get("act")):
                    raise NameError("the program defines no function act")
                answer({})
                continue
            act = names["act"]
            found = act(told["observation"], memory, told["step"], told["left"])  # type: ignore[operator]
            answer({"action": found.tolist() if isinstance(found, numpy.ndarray | numpy.generic) else found})
        except BaseException as error:
            answer({"error": said(error)})


if __name__ == "__main__":
    main()
