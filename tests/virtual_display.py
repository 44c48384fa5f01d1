"""A display without a screen, for windows of programs under test: Xvfb, its picture, and what closes a window."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

WIDTH, HEIGHT = 1000, 700

_CLIENT_MESSAGE = 33


class _Message(ctypes.Structure):
    """XClientMessageEvent, padded to the size of an XEvent."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("serial", ctypes.c_ulong),
        ("send_event", ctypes.c_int),
        ("display", ctypes.c_void_p),
        ("window", ctypes.c_ulong),
        ("message_type", ctypes.c_ulong),
        ("format", ctypes.c_int),
        ("data", ctypes.c_long * 5),
        ("padding", ctypes.c_long * 12),
    )


class VirtualDisplay:
    """A running Xvfb; `name` is what `DISPLAY` must say."""

    def __init__(self, name: str, screen: Path) -> None:
        self.name = name
        self._screen = screen

    def picture(self) -> np.ndarray:
        """What is on the screen, uint8 [HEIGHT, WIDTH, 3], BGR."""
        data = self._screen.read_bytes()  # X's window dump format: a header of big-endian words, colours, pixels
        header = np.frombuffer(data, ">u4", 25)
        size, width, height, line, colours = (int(header[i]) for i in (0, 4, 5, 12, 19))
        pixels = np.frombuffer(data, np.uint8, height * line, size + 12 * colours)
        return pixels.reshape(height, line // 4, 4)[:, :width, :3]

    def close_windows(self) -> None:
        """Does to every window what a click on its cross does."""
        x = ctypes.CDLL("libX11.so.6")
        handle, window, number, pointer = ctypes.c_void_p, ctypes.c_ulong, ctypes.c_int, ctypes.POINTER
        x.XOpenDisplay.restype = handle
        x.XDefaultRootWindow.argtypes, x.XDefaultRootWindow.restype = [handle], window
        x.XInternAtom.argtypes, x.XInternAtom.restype = [handle, ctypes.c_char_p, number], window
        out = [pointer(window), pointer(window), pointer(pointer(window)), pointer(ctypes.c_uint)]
        x.XQueryTree.argtypes = [handle, window, *out]
        x.XSendEvent.argtypes = [handle, window, number, ctypes.c_long, pointer(_Message)]
        x.XCloseDisplay.argtypes = [handle]
        display = x.XOpenDisplay(self.name.encode())
        assert display
        root, parent, children, count = window(), window(), pointer(window)(), ctypes.c_uint()
        x.XQueryTree(display, x.XDefaultRootWindow(display), root, parent, children, count)
        protocols, close = (x.XInternAtom(display, name, 0) for name in (b"WM_PROTOCOLS", b"WM_DELETE_WINDOW"))
        for child in children[: count.value]:
            words = (ctypes.c_long * 5)(close)
            message = _Message(_CLIENT_MESSAGE, 0, 1, display, child, protocols, 32, words)
            x.XSendEvent(display, child, 0, 0, message)
        x.XCloseDisplay(display)


@contextlib.contextmanager
def virtual_display(folder: Path) -> Iterator[VirtualDisplay]:
    """Runs Xvfb, with its screen in a file of `folder`; without Xvfb the test is skipped, and says so."""
    if shutil.which("Xvfb") is None:
        pytest.skip("needs a display without a screen: Xvfb (Debian package xvfb)")
    reading, writing = os.pipe()
    screen = f"{WIDTH}x{HEIGHT}x24"
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(writing), "-screen", "0", screen, "-fbdir", str(folder), "-nolisten", "tcp"],
        pass_fds=(writing,),
        stderr=subprocess.DEVNULL,
    )
    os.close(writing)
    try:
        with os.fdopen(reading) as number:
            name = ":" + number.readline().strip()
        assert name != ":", "Xvfb did not start"
        yield VirtualDisplay(name, folder / "Xvfb_screen0")
    finally:
        server.terminate()
        server.wait()
