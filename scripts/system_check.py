"""Names the system libraries that are missing, by their package, before anything fails on them.

Runs on a bare Python, before the project is installed: standard library only.
"""

from __future__ import annotations

import ctypes
import platform
import sys

# Library to the Debian package that has it. OpenCV (through robosuite) is linked against both.
REQUIRED = {"libGL.so.1": "libgl1", "libgthread-2.0.so.0": "libglib2.0-0"}


def loads(library: str) -> bool:
    """Whether the dynamic linker finds `library`."""
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def main() -> int:
    """Prints one line for each missing library; 1 if there is any."""
    if platform.system() != "Linux":  # elsewhere OpenCV's package carries all it needs
        return 0
    missing = {library: package for library, package in REQUIRED.items() if not loads(library)}
    for library, package in missing.items():
        print(f"missing system library {library}: install the package {package}", file=sys.stderr)
    if missing:
        print(f"on Debian or Ubuntu: apt-get install {' '.join(missing.values())}", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
