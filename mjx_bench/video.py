"""Films and stills of recorded pairs, made after the run, in its folder: which pairs, from where, into which files."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import av
import numpy as np
from PIL import Image, PngImagePlugin

from mjx_bench import board
from mjx_bench.cases import Case, Manifest
from mjx_bench.errors import BenchError, unknown_name
from mjx_bench.fields import canonical_json
from mjx_bench.film import Footage, choose_pairs, film_pair, moments_of, recorded_pair
from mjx_bench.observe.choice import choose, make_renderer
from mjx_bench.observe.pictures import Pictures
from mjx_bench.records import Run, load_run
from mjx_bench.records.media import media_folder, still_path, video_path
from mjx_bench.task import Task

LoadTask = Callable[[Case], Task]
Progress = Callable[[str], None]

# Part of what a file is recognised by: another number when frames are drawn differently.
_LAYOUT = 2

CODEC = "libx264"
_BT709 = 1
LANES = 16  # poses in one call of a renderer, at most
_HOLD_S = 1.5  # how long the last frame stays, so that the verdicts can be read
_SAY_EVERY_S = 10.0


def make_media(
    folder: str | os.PathLike[str],
    *,
    videos: int = 0,
    frames: int = 0,
    renderer: str = "auto",
    load_task: LoadTask,
    case_ids: Sequence[str] = (),
    cameras: Sequence[str] = (),
    progress: Progress = lambda line: None,
) -> list[Path]:
    """Makes what is missing of the films and stills of a results folder, in its `media` folder.

    Args:
      folder: the results folder.
      videos, frames: how many pairs to film, and to take stills of: the first of `choose_pairs`, or of `case_ids`.
      renderer: "gl", "warp", or "auto".
      load_task: case to task.
      case_ids: these pairs and no others.
      cameras: the large and the small one; the first two that the source's own observation has if not given.
      progress: told a line now and then: which pair, and how far it is.

    Returns:
      All files that were asked for, those that were there already included.

    Raises:
      BenchError: before any work: a pair that cannot be filmed, a camera that is not there, a folder that cannot be written,
        no renderer; and in the middle, with finished files kept: a pair that does not come out as recorded.
    """
    run = load_run(folder)
    for case_id in case_ids:
        recorded_pair(run, case_id)
    pairs = list(case_ids) or choose_pairs(run, max(videos, frames))
    wanted = {case_id: (i < videos, i < frames) for i, case_id in enumerate(pairs) if i < max(videos, frames)}
    if not wanted:
        if videos or frames:
            progress(f"{run.directory}: no pair has two arms that could be filmed")
        return []
    check_media(run.directory)
    name, _ = choose(renderer)
    cases = {case.case_id: case for case in Manifest.read(run.manifest, str(run.directory / "manifest.json")).cases}
    jobs = []
    for case_id, (video, stills) in wanted.items():
        task = load_task(cases[case_id])
        shown = check_cameras(task, cameras)
        jobs.append(_Job(run, cases[case_id], task, shown, name, video, stills))
    for path in (path for job in jobs for path in job.paths()):
        if path.is_dir():
            raise BenchError(f"{path}: is a folder, where a picture goes; move it away")
    made: list[Path] = []
    for i, job in enumerate(jobs, 1):
        where = f"pair {i} of {len(jobs)}"
        progress(f"{where}: {job.case.case_id}")
        made += job.make(lambda line, where=where: progress(f"{where}: {line}"))  # type: ignore[misc]
    return made


def check_media(directory: Path) -> None:
    """Makes sure, without leaving anything, that files can be made in the media folder of a results folder.

    Raises:
      BenchError: it cannot be written, or this build of PyAV cannot encode H.264.
    """
    folder = media_folder(directory)
    for path in (directory, folder):
        if path.is_symlink() and not path.exists():
            raise BenchError(f"{path}: is a link to nothing, where a folder should be; remove it")
        if path.exists() and not path.is_dir():
            raise BenchError(
                f"{path}: is a file, where a folder should be; move it away, or choose another results folder"
            )
    nearest = next(path for path in (folder, *folder.resolve().parents) if path.is_dir())
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        raise BenchError(
            f"{nearest}: cannot write pictures here: {error.strerror or error}; allow it, or choose another results folder"
        ) from None
    if CODEC not in av.codecs_available:
        raise BenchError(f"this build of PyAV has no {CODEC} encoder; install the wheel of the package av")


def check_cameras(task: Task, cameras: Sequence[str]) -> tuple[str, ...]:
    """The cameras to film `task` with: those named, else the first two that the source itself observes with.

    Raises:
      BenchError: one that is not in the scene, more than two, or a scene without any.
    """
    known = task.scene.cameras
    for camera in cameras:
        if camera not in known:
            raise unknown_name(f"camera in {task.suite} task {task.index}", camera, known)
    if len(cameras) > 2 or len(set(cameras)) < len(cameras):
        raise BenchError(f"a film shows a large and a small camera, not {', '.join(cameras)}; give one or two of them")
    chosen = tuple(cameras) or (task.scene.observed or known)[:2]
    if not chosen:
        raise BenchError(f"{task.suite} task {task.index} has no camera to film with")
    return chosen


@dataclasses.dataclass(frozen=True)
class _Job:
    """What to make of one pair."""

    run: Run
    case: Case
    task: Task
    cameras: tuple[str, ...]
    renderer: str
    video: bool
    stills: bool

    def _film(self) -> Path | None:
        return video_path(self.run.directory, self.case.case_id) if self.video else None

    def _stills(self) -> dict[Path, int]:
        """Path to step."""
        case_id = self.case.case_id
        moments = moments_of(self.run, case_id) if self.stills else {}
        return {still_path(self.run.directory, case_id, moment): step for moment, step in moments.items()}

    def paths(self) -> list[Path]:
        """All that is wanted, in order."""
        film = self._film()
        return [*([film] if film else []), *self._stills()]

    def make(self, progress: Progress) -> list[Path]:
        """Makes what is not there yet; returns all paths, in order."""
        mark, film, stills = self._mark(), self._film(), self._stills()
        film = None if film and is_video(film, mark) else film
        stills = {path: step for path, step in stills.items() if not is_still(path, mark)}
        if film or stills:
            footage = film_pair(self.run, self.case, self.task, progress)
            size = board.LARGE
            renderer = make_renderer(self.renderer, self.task.scene, self.cameras, size, size, LANES)
            with contextlib.closing(Pictures(renderer, self.task.scene)) as pictures:
                _make(footage, pictures, self.cameras, film, stills, mark, progress)
        return self.paths()

    def _mark(self) -> str:
        """What a file is recognised by: equal only for the same records, drawn in the same way."""
        records = [record.result() for record in recorded_pair(self.run, self.case.case_id)]
        what = canonical_json([_LAYOUT, self.renderer, self.cameras, records])
        return f"mjx-bench {hashlib.sha256(what.encode()).hexdigest()[:32]}"


def _make(
    footage: Footage,
    pictures: Pictures,
    cameras: tuple[str, ...],
    film: Path | None,
    stills: Mapping[Path, int],
    mark: str,
    progress: Progress,
) -> None:
    """Draws each step once, and puts it wherever it belongs."""
    drawn = board.Board(footage, cameras)
    steps = range(footage.end + 1) if film else sorted(set(stills.values()))
    with contextlib.ExitStack() as files:
        hz = footage.task.control_hz
        add = files.enter_context(video_file(film, hz, mark, (drawn.width, drawn.height))) if film else _no_film
        said = time.monotonic()
        for i, (step, shown) in enumerate(shoot(footage, pictures, steps)):
            if time.monotonic() - said >= _SAY_EVERY_S:
                said = time.monotonic()
                progress(f"frame {i} of {len(steps)}")
            frame = drawn.draw(step, shown)
            for path, at in stills.items():
                if at == step:
                    write_still(path, frame, mark)
            add(frame)
        for _ in range(round(_HOLD_S * hz)):
            add(frame)


def _no_film(frame: Image.Image) -> None:
    """Where frames go that are wanted for stills only."""


def shoot(footage: Footage, pictures: Pictures, steps: Sequence[int]) -> Iterator[tuple[int, board.Pictures]]:
    """Yields (step, pictures of both arms), in order.

    A pose that both arms share, or that an arm rests in after its end, is rendered once.
    """
    shown: dict[int, Mapping[str, np.ndarray]] = {}  # by the pose's identity
    for first in range(0, len(steps), LANES // 2):
        block = [
            (step, {name: arm.poses[min(step, arm.end)] for name, arm in footage.arms.items()})
            for step in steps[first : first + LANES // 2]
        ]
        wanted = {id(pose): pose for _, arms in block for pose in arms.values()}
        new = [key for key in wanted if key not in shown]
        taken = pictures.take([wanted[key] for key in new])
        shown = {key: shown[key] for key in wanted if key in shown}
        shown |= {key: {c: images[i] for c, images in taken.items()} for i, key in enumerate(new)}
        for step, arms in block:
            yield step, {name: shown[id(pose)] for name, pose in arms.items()}


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that becomes it when all went well; otherwise nothing remains.

    Raises:
      BenchError: the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A name of its own: two processes may make the same file, and the last one to finish wins.
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        os.close(handle)
        part = Path(name)
        try:
            yield part
            part.chmod(0o644)  # as any file, where mkstemp's are private
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise BenchError(
            f"{path}: cannot write: {error.strerror or error}; free the path, or choose another one"
        ) from None


def write_still(path: Path, frame: Image.Image, mark: str) -> None:
    """Writes a PNG that `is_still` recognises by `mark`."""
    info = PngImagePlugin.PngInfo()
    info.add_text("Comment", mark)
    with whole_file(path) as part:
        frame.save(part, format="PNG", pnginfo=info)


def is_still(path: Path, mark: str) -> bool:
    """Whether a whole PNG with this mark is there."""
    try:
        with Image.open(path) as image:
            image.load()
            return image.info.get("Comment") == mark
    except (OSError, SyntaxError):
        return False


@contextlib.contextmanager
def video_file(
    path: Path, fps: int, mark: str, size: tuple[int, int] = (board.WIDTH, board.HEIGHT)
) -> Iterator[Callable[[Image.Image], None]]:
    """An MP4 in the making (H.264, 4:2:0, index in front, as browsers need it); call what is yielded with each frame."""
    with (
        whole_file(path) as part,
        av.open(str(part), "w", format="mp4", options={"movflags": "+faststart"}) as container,
    ):
        container.metadata["comment"] = mark
        stream = container.add_stream(CODEC, rate=fps, options={"crf": "20", "preset": "fast"})
        assert isinstance(stream, av.VideoStream)
        (stream.width, stream.height), stream.pix_fmt = size, "yuv420p"
        context = stream.codec_context
        context.colorspace = context.color_primaries = context.color_trc = _BT709
        context.gop_size = 2 * fps  # a key frame every two seconds, to jump to

        def add(frame: Image.Image) -> None:
            picture = av.VideoFrame.from_image(frame).reformat(format="yuv420p", dst_colorspace="ITU709")
            container.mux(stream.encode(picture))

        yield add
        container.mux(stream.encode(None))


def is_video(path: Path, mark: str) -> bool:
    """Whether a whole film with this mark is there."""
    try:
        with av.open(str(path)) as container:
            stream = container.streams.video[0]
            packets = sum(packet.size > 0 for packet in container.demux(stream))
            return container.metadata.get("comment") == mark and packets == stream.frames
    except (OSError, av.FFmpegError, IndexError):
        return False
