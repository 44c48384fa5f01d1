"""Episodes as MP4: encoded, decoded, cut out of longer films and joined to them without encoding again."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np

from mjx_bench.errors import BenchError
from train.lerobot.schema import replacing

CODEC, PIXELS = "libx264", "yuv420p"
QUALITY = 16  # x264's constant rate factor; LeRobot's own 30 of AV1 leaves 64 pixels a side with little to learn from
KEY_FRAMES = 2  # every second one, as LeRobot's, so that any frame is found by decoding two at most


def check_encoder() -> None:
    """Raises `BenchError` where PyAV cannot encode."""
    if CODEC not in av.codecs_available:
        raise BenchError(f"this build of PyAV has no {CODEC} encoder; install the wheel of the package av")


def encode(path: Path, frames: np.ndarray, fps: int) -> None:
    """Writes frames, uint8 [T, H, W, 3] of even sides, as a film; the same frames give the same bytes.

    Raises:
      BenchError: odd sides, or a file that cannot be written.
    """
    _, height, width, _ = frames.shape
    if height % 2 or width % 2:
        raise BenchError(f"pictures of {width} by {height} pixels cannot be stored as video; give even sides")
    with replacing(path) as part, _Film(part) as film:
        # x264's look ahead reads beyond small pictures: one film in eighty came out with other bytes. Without it none does.
        options = {"crf": str(QUALITY), "preset": "veryfast", "tune": "zerolatency"}
        stream = film.container.add_stream(CODEC, rate=fps, options=options)
        stream.width, stream.height, stream.pix_fmt = width, height, PIXELS
        stream.time_base = stream.codec_context.time_base = Fraction(1, fps)
        stream.codec_context.gop_size = KEY_FRAMES
        stream.codec_context.thread_count = 1
        for i, frame in enumerate(frames):
            picture = av.VideoFrame.from_ndarray(frame, format="rgb24")
            picture.pts, picture.time_base = i, Fraction(1, fps)
            film.add(stream.encode(picture))
        film.add(stream.encode(None))


def decode(path: Path, start: float, count: int, fps: float) -> np.ndarray:
    """uint8 [count, H, W, 3]: the frames from `start` seconds on.

    Raises:
      BenchError: no such film, or fewer frames.
    """
    out: list[np.ndarray] = []
    with opened(path) as (container, stream):
        stream.codec_context.thread_count = 1
        if start > 0:
            container.seek(int((start - 0.25 / fps) / stream.time_base), stream=stream, backward=True)
        for frame in container.decode(stream):
            if frame.pts * stream.time_base < start - 0.5 / fps:
                continue
            out.append(frame.to_ndarray(format="rgb24"))
            if len(out) == count:
                break
    if len(out) < count:
        raise BenchError(f"{path}: has {len(out)} frames from second {start:g} on, where {count} belong to the episode")
    return np.stack(out)


def times(path: Path) -> np.ndarray:
    """float64 [n]: seconds at which the frames of a film are shown, ascending, from its index, without decoding it.

    Raises:
      BenchError: no such film.
    """
    with opened(path) as (container, stream):
        shown = [packet.pts * stream.time_base for packet in container.demux(stream) if packet.pts is not None]
    return np.array(sorted(float(t) for t in shown))


def facts(path: Path) -> dict[str, Any]:
    """What `info.json` says of a camera's films."""
    with opened(path) as (_, stream):
        return {
            "video.height": stream.height,
            "video.width": stream.width,
            "video.codec": stream.codec_context.codec.canonical_name,
            "video.pix_fmt": stream.pix_fmt,
            "video.is_depth_map": False,
            "video.fps": round(float(stream.average_rate or stream.base_rate)),
            "video.channels": 3,
            "has_audio": False,
        }


def copy(sources: Sequence[tuple[Path, float, int]], path: Path, fps: float) -> None:
    """Puts stretches of films one after the other into a new film, without decoding them.

    Args:
      sources: film, second at which a stretch begins, frames.
      path: the new film.
      fps: frames a second of all.

    Raises:
      BenchError: a stretch that does not begin at a key frame or is too short, films that were encoded in different ways, or
        a file that cannot be written.
    """
    with replacing(path) as part, _Film(part) as film:
        made, extra, before = None, None, 0
        for source, start, count in sources:
            with opened(source) as (container, stream):
                if made is None:
                    made, extra = (
                        film.container.add_stream_from_template(stream, opaque=True),
                        stream.codec_context.extradata,
                    )
                elif stream.codec_context.extradata != extra:
                    raise BenchError(f"{source}: was encoded in another way than the films before it; encode all alike")
                tick = Fraction(stream.time_base)
                first, frame = round(Fraction(start) / tick), Fraction(1) / (Fraction(fps) * tick)
                if start > 0:
                    container.seek(first, stream=stream, backward=True)
                taken = 0
                for packet in container.demux(stream):
                    if packet.pts is None or packet.pts < first - frame / 2:
                        continue
                    if packet.pts > first + (count - Fraction(1, 2)) * frame:
                        if packet.dts is not None and packet.dts > first + (count + 16) * frame:
                            break
                        continue
                    if not taken and not packet.is_keyframe:
                        raise BenchError(f"{source}: nothing begins at second {start:g}, as an episode's film must")
                    shift = round(before * frame) - first
                    packet.pts += shift
                    packet.dts = None if packet.dts is None else packet.dts + shift
                    packet.stream = made
                    film.add(packet)
                    taken += 1
                if taken != count:
                    raise BenchError(
                        f"{source}: has {taken} frames from second {start:g} on, where {count} belong there"
                    )
            before += count


@contextlib.contextmanager
def opened(path: Path) -> Iterator[tuple[Any, Any]]:
    """A film and its one stream of pictures.

    Raises:
      BenchError: no such file, or one that is no film; also when that shows later.
    """
    if not path.is_file():
        raise BenchError(f"{path}: this video is missing; copy it here, or make the dataset again")
    try:
        with av.open(str(path)) as container:
            if not container.streams.video:
                raise BenchError(f"{path}: holds no video")
            yield container, container.streams.video[0]
    except av.FFmpegError as error:
        raise BenchError(f"{path}: is no whole video ({error.strerror or error}); copy it again") from None


class _Film:
    """A film in the making. What goes wrong with the file is an `OSError`, whichever way FFmpeg says it."""

    def __init__(self, path: Path) -> None:
        # Without its guess of a bit rate, which is not always the same, the same frames give the same bytes.
        options = {"movflags": "+faststart", "fflags": "+bitexact", "write_btrt": "0"}
        self.container: Any = av.open(str(path), "w", format="mp4", options=options)

    def add(self, packets: Any) -> None:
        try:
            self.container.mux(packets)
        except av.FFmpegError as error:
            raise OSError(error.errno, error.strerror) from None

    def __enter__(self) -> _Film:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        try:
            self.container.close()
        except av.FFmpegError as late:
            if kind is None:
                raise OSError(late.errno, late.strerror) from None
