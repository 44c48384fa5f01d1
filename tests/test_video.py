"""Films, stills and recordings of pairs: what is in the files, and that there is never half of one."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from mjx_bench import board, video
from mjx_bench.cases import Case, Manifest
from mjx_bench.errors import BenchError, MissingExtra
from mjx_bench.film import film_pair
from mjx_bench.observe.base import Renderer
from mjx_bench.observe.choice import choose
from mjx_bench.physics.base import Pose
from mjx_bench.records import Run, load_run
from mjx_bench.records.media import is_whole, media_folder, rerun_path, stem, still_path, video_path
from mjx_bench.task import Scene
from mjx_bench.types import Arm
from mjx_bench.video import is_still, is_video, make_media, video_file, whole_file
from tests.scenes import libero_task
from tests.test_pairs import HORIZON, at, manifest_of, near, run, short_task
from tests.test_pairs import a_case as case_of

EVENT = 10
CASES = manifest_of(case_of("target_relocation", at(EVENT + 2)), case_of("illumination_switch", at(8), init=1))
MOVED, LIT = (case.case_id for case in CASES.cases)
HOLD = 30  # frames of the last picture: 1.5 s at 20 Hz

# Where the large pictures are in a frame, away from borders and writing.
LARGE = {Arm.BASE: (slice(200, 300), slice(100, 300)), Arm.DYNAMIC: (slice(200, 300), slice(500, 700))}


class Fake:
    """Pictures of one grey each: twice the pose's step count, plus 100 where a visual edit changed the looks."""

    made = 0

    def __init__(self, scene: Scene, cameras: Sequence[str], height: int, width: int) -> None:
        self.cameras, self.height, self.width = tuple(cameras), height, width
        self.rendered = 0

    def render(self, poses: Sequence[Pose]) -> dict[str, np.ndarray]:
        Fake.made += len(poses)
        levels = np.array([2 * p.steps + 100 * bool(p.visual) for p in poses], np.uint8)
        shape = (len(poses), self.height, self.width, 3)
        return {c: np.broadcast_to(levels[:, None, None, None], shape).copy() for c in self.cameras}

    def close(self) -> None:
        pass


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> type[Fake]:
    Fake.made = 0
    monkeypatch.setattr(video, "choose", lambda name: ("gl", "a fake") if name == "auto" else (name, "a fake"))
    monkeypatch.setattr(video, "make_renderer", lambda name, scene, cameras, h, w, lanes: Fake(scene, cameras, h, w))
    return Fake


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Run:
    return run(tmp_path_factory.mktemp("recorded"), CASES)


@pytest.fixture
def folder(recorded, tmp_path) -> Path:
    """A copy of the run without pictures."""
    for path in recorded.directory.iterdir():
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def level(frame: np.ndarray, arm: Arm) -> float:
    return float(frame[LARGE[arm]].mean())


def expected(step: int, *, lit: bool) -> int:
    """The grey of a step; a picture after a change of light to less than it was is exposed at 0.75."""
    dark = 2 * (libero_task("libero_object", 0).settle_steps + step)
    return int(0.75 * (dark + 100)) if lit else dark


def decoded(path: Path) -> list[np.ndarray]:
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


def test_a_film_shows_both_arms_at_every_step(folder, fake):
    [path] = make_media(folder, videos=1, case_ids=[LIT], load_task=short_task)
    assert path == video_path(folder, LIT)
    frames = decoded(path)
    assert len(frames) == HORIZON + 1 + HOLD
    assert frames[0].shape == (board.HEIGHT, board.WIDTH, 3)
    for step in range(HORIZON + 1):
        assert level(frames[step], Arm.BASE) == pytest.approx(expected(step, lit=False), abs=3)
        assert level(frames[step], Arm.DYNAMIC) == pytest.approx(expected(step, lit=step >= 8), abs=3)
    assert np.abs(frames[-1].astype(int) - frames[HORIZON]).mean() < 1, "the last picture stays"


def test_what_both_arms_share_and_an_arm_at_rest_are_rendered_once(folder, fake):
    make_media(folder, videos=1, case_ids=[LIT], load_task=short_task)
    assert fake.made == (HORIZON + 1) + (HORIZON + 1 - 8)


def test_a_film_is_what_browsers_play(folder, fake):
    [path] = make_media(folder, videos=1, case_ids=[LIT], load_task=short_task)
    with av.open(str(path)) as container:
        [stream] = container.streams
        assert (stream.codec_context.name, stream.codec_context.pix_fmt) == ("h264", "yuv420p")
        assert stream.average_rate == 20
        assert container.metadata["comment"].startswith("mjx-bench ")
        assert float(stream.duration * stream.time_base) == pytest.approx((HORIZON + 1 + HOLD) / 20)
    data = path.read_bytes()
    assert data.index(b"moov") < data.index(b"mdat"), "the index comes first, or a browser loads all before it plays"


def test_verdicts_are_drawn_on_when_an_arm_has_ended(folder, fake):
    [path] = make_media(folder, videos=1, case_ids=[LIT], load_task=short_task)
    frames = decoded(path)
    for arm, (_, columns) in LARGE.items():
        band = slice(430, 436), columns
        assert np.ptp(frames[HORIZON - 1][band].mean((0, 1))) < 6, f"{arm}: still grey"
        r, g, b = frames[HORIZON][band].mean((0, 1))
        assert r > 220, arm
        assert max(g, b) < 160, f"{arm}: both ran out of time, in red"


def _yellow(frame: np.ndarray) -> bool:
    """Whether the Dynamic picture has a border."""
    r, g, b = frame[150:400, 409:411].reshape(-1, 3).mean(0)
    return r > 200 and g > 180 and b < 130


def test_the_border_lasts_as_long_as_stale_actions_do(tmp_path, fake):
    manifest = manifest_of(case_of("target_relocation", near(10.0)), case_of("target_relocation", at(8), init=1))
    run(tmp_path, manifest)
    late, prompt = make_media(tmp_path, videos=2, load_task=short_task)
    assert [i for i, f in enumerate(decoded(late)) if _yellow(f)] == [1, 2, 3], "event at step 1, asked again at step 4"
    assert not [i for i, f in enumerate(decoded(prompt)) if _yellow(f)], "asked again at the step of the event"


def test_stills_are_the_frames_of_their_steps(folder, fake):
    paths = make_media(folder, frames=1, case_ids=[LIT], load_task=short_task)
    steps = {"before": 4, "event": 8, "response": 8, "end": HORIZON}
    assert paths == [still_path(folder, LIT, moment) for moment in steps]
    for path, step in zip(paths, steps.values(), strict=True):
        image = np.asarray(Image.open(path))
        assert image.shape == (board.HEIGHT, board.WIDTH, 3)
        assert level(image, Arm.BASE) == expected(step, lit=False)
        assert level(image, Arm.DYNAMIC) == expected(step, lit=step >= 8)


def test_what_is_there_is_not_made_again_and_what_is_not_whole_is(folder, fake, monkeypatch):
    def make(**more: str) -> list[Path]:
        return make_media(folder, videos=1, frames=1, case_ids=[LIT], load_task=short_task, **more)

    first = make()
    film, *stills = first
    before = {p: p.stat().st_mtime_ns for p in stills}
    with monkeypatch.context() as patch:
        patch.setattr(video, "film_pair", lambda *a: pytest.fail("filmed again"))
        assert make() == first
        with pytest.raises(pytest.fail.Exception):
            make(renderer="warp")
    film.write_bytes(film.read_bytes()[: film.stat().st_size // 2])
    assert make() == first
    assert len(decoded(film)) == HORIZON + 1 + HOLD
    assert {p: p.stat().st_mtime_ns for p in stills} == before


def test_an_interruption_leaves_no_half_file(folder, fake, monkeypatch):
    calls = itertools.count()

    def interrupted(self, poses):
        if next(calls) == 2:
            raise KeyboardInterrupt
        return render(self, poses)

    render = Fake.render
    monkeypatch.setattr(Fake, "render", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make_media(folder, videos=1, case_ids=[LIT], load_task=short_task)
    assert list(media_folder(folder).iterdir()) == []
    [path] = make_media(folder, videos=1, case_ids=[LIT], load_task=short_task)
    assert list(media_folder(folder).iterdir()) == [path]


def test_two_processes_may_make_the_same_file(tmp_path):
    with whole_file(tmp_path / "a.png") as one, whole_file(tmp_path / "a.png") as other:
        one.write_text("one")
        other.write_text("other")
    assert (tmp_path / "a.png").read_text() == "one", "the last one to finish"
    with whole_file(tmp_path / "b.png") as one:
        with contextlib.suppress(KeyboardInterrupt), whole_file(tmp_path / "b.png"):
            raise KeyboardInterrupt
        assert one.exists(), "another's interruption takes nothing away"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.png", "b.png"]


def test_what_is_asked_before_a_run_leaves_nothing(tmp_path):
    video.check_media(tmp_path / "new" / "run")
    assert not list(tmp_path.iterdir())


def test_a_long_film_says_how_far_it_is(folder, fake, monkeypatch):
    said: list[str] = []
    monkeypatch.setattr(video, "_SAY_EVERY_S", 0.0)
    make_media(folder, videos=1, case_ids=[LIT], load_task=short_task, progress=said.append)
    assert said[0] == f"pair 1 of 1: {LIT}"
    assert said[1] == "pair 1 of 1: running both arms again"
    assert said[2:] == [f"pair 1 of 1: frame {i} of {HORIZON + 1}" for i in range(HORIZON + 1)]


def test_a_file_with_another_mark_or_no_end_is_none(tmp_path):
    path = tmp_path / "a.mp4"
    frame = Image.new("RGB", (board.WIDTH, board.HEIGHT), "navy")
    with video_file(path, 20, "mark") as add:
        for _ in range(40):
            add(frame)
    assert is_video(path, "mark")
    assert is_whole(path)
    assert not is_video(path, "other")
    (tmp_path / "half.mp4").write_bytes(path.read_bytes()[:-1])
    assert not is_whole(tmp_path / "half.mp4")
    assert not is_whole(tmp_path / "b.mp4")
    assert not is_video(tmp_path / "b.mp4", "mark")
    video.write_still(tmp_path / "a.png", frame, "mark")
    assert is_still(tmp_path / "a.png", "mark")
    assert is_whole(tmp_path / "a.png")
    changed = bytearray((tmp_path / "a.png").read_bytes())
    changed[len(changed) // 2] ^= 1
    (tmp_path / "b.png").write_bytes(changed)
    assert not is_whole(tmp_path / "b.png")
    assert not is_still(tmp_path / "a.png", "other")
    (tmp_path / "a.png").write_bytes((tmp_path / "a.png").read_bytes()[:500])
    assert not is_still(tmp_path / "a.png", "mark")
    path.write_bytes(b"not a film")
    assert not is_video(path, "mark")


@pytest.mark.parametrize(
    ("spoil", "arguments", "complaint"),
    [
        ("", {"cameras": ["agentveiw"]}, "unknown camera in libero_object task 0 'agentveiw'; did you mean agentview"),
        (
            "",
            {"cameras": ["agentview", "frontview", "birdview"]},
            "a large and a small camera, not agentview, frontview",
        ),
        ("", {"cameras": ["agentview", "agentview"]}, "a large and a small camera, not agentview, agentview"),
        ("", {"case_ids": ["nobody"]}, "unknown case in"),
        ("media is a file", {}, "media: is a file, where a folder should be; move it away"),
        ("media is a dangling link", {}, "media: is a link to nothing"),
        ("a folder is in the way", {"case_ids": [LIT]}, "mp4: is a folder, where a picture goes; move it away"),
        ("no renderer", {}, "no renderer works here"),
    ],
)
def test_mistakes_show_before_any_work(folder, fake, monkeypatch, spoil, arguments, complaint):
    def no_renderer(name: str) -> tuple[str, str]:
        raise BenchError("no renderer works here")

    if spoil == "media is a file":
        media_folder(folder).write_text("in the way")
    if spoil == "media is a dangling link":
        media_folder(folder).symlink_to("nowhere")
    if spoil == "a folder is in the way":
        video_path(folder, LIT).mkdir(parents=True)
    if spoil == "no renderer":
        monkeypatch.setattr(video, "choose", no_renderer)
    monkeypatch.setattr(video, "film_pair", lambda *a: pytest.fail("work began"))
    with pytest.raises(BenchError, match=complaint):
        make_media(folder, **({"videos": 1, "load_task": short_task} | arguments))


def test_a_run_without_a_pair_to_film_gives_none(folder, fake, monkeypatch):
    said: list[str] = []
    monkeypatch.setattr(video, "choose_pairs", lambda run, count: [])
    assert make_media(folder, videos=1, load_task=short_task, progress=said.append) == []
    assert "no pair has two arms" in said[0]
    assert make_media(folder, load_task=short_task) == []


def test_names_are_safe_in_any_file_system_and_distinct():
    assert stem("libero_object-t00-i7-x-d1-p195") == "libero_object-t00-i7-x-d1-p195"
    names = [stem(case) for case in ("a/b", "a b", "../a", "a:b", "<script>", "", "x" * 300, "x" * 301, "ä")]
    assert len(set(names)) == len(names)
    assert all(len(n) < 140 and not set(n) & set('/\\:<>"|?* ') and not n.startswith(".") for n in names)


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ({"operation": "set_lighting", "visual": {"scale": 0.2}}, "light × 0.2"),
        ({"operation": "shift_camera", "visual": {"camera": "agentview"}}, "camera agentview shifts"),
        ({"operation": "set_visual_theme", "visual": {}}, "colours change"),
        (
            {"operation": "set_sensor_corruption", "visual": {"noise_std": 24.0, "occlusion_fraction": 0.08}},
            "noise 24, 8% covered",
        ),
        (
            {
                "operation": "move_object",
                "moved": [{"entity": "milk_1", "before": [0, 0, 0], "after": [0.03, 0.04, 0]}],
            },
            "milk moves 5 cm",
        ),
        ({"operation": "insert_obstacle", "moved": [{"entity": "wine_bottle_1"}]}, "wine bottle appears"),
        ({"operation": "insert_distractors", "moved": [{}, {}, {}]}, "3 objects appear"),
        ({"operation": "remove_object", "moved": [{"entity": "milk_1"}]}, "milk is gone"),
        ({"operation": "none"}, "nothing changes"),
    ],
)
def test_events_in_words(event, said):
    assert board.describe_event(event) == said


def test_a_long_instruction_is_written_out_in_lines(folder):
    done = load_run(folder)
    case = next(c for c in Manifest.read(done.manifest, "manifest").cases if c.case_id == LIT)
    footage = film_pair(done, case, short_task(case))
    grey = {arm: {"agentview": np.full((8, 8, 3), 128, np.uint8)} for arm in Arm}
    lines = 3 * " ".join(f"word{i}" for i in range(20)).split()

    def drawn(told: str) -> Image.Image:
        task = dataclasses.replace(footage.task, load_instruction=lambda row: told)
        return board.Board(dataclasses.replace(footage, task=task), ("agentview",)).draw(0, grey)

    short, long = drawn("lift"), drawn(" ".join(lines))
    assert short.size == (board.WIDTH, board.HEIGHT)
    more = long.height - board.HEIGHT
    assert long.width == board.WIDTH
    assert more > 0
    assert more % 2 == 0, "as H.264 needs"
    below = np.asarray(short)[31:], np.asarray(long)[31 + more :]
    np.testing.assert_array_equal(*below)
    assert not np.array_equal(np.asarray(long)[:31], np.asarray(short)[:31])


def gl() -> str:
    try:
        return choose("gl")[0]
    except BenchError as error:
        pytest.skip(str(error))


def test_with_opengl_the_pictures_are_of_the_scene(folder):
    paths = make_media(folder, frames=1, renderer=gl(), case_ids=[MOVED], load_task=short_task)
    before, event = (np.asarray(Image.open(p)).astype(int) for p in paths[:2])
    for arm in Arm:
        assert before[LARGE[arm]].std() > 10, "something is to be seen"
    # Up to the event both arms are one picture; then the object has moved, and little else differs.
    columns = [slice(x, x + board.LARGE) for x in (12, 12 + board.LARGE + 12)]
    rows = slice(90, 460)
    left, right = (before[rows, c] for c in columns)
    np.testing.assert_array_equal(left, right)
    left, right = (event[rows, c][:, 6:-6] for c in columns)
    changed = (np.abs(left - right).max(-1) > 8).mean()
    assert 0.002 < changed < 0.1


def test_a_recording_for_rerun_can_be_read_back(recorded, tmp_path):
    pytest.importorskip("rerun")
    from rerun.chunk import RrdReader

    from mjx_bench.rerun_export import export_rerun

    case: Case = Manifest.read(recorded.manifest, "manifest").cases[0]
    task = short_task(case)
    footage = film_pair(recorded, case, task)
    renderer: Renderer = Fake(task.scene, task.scene.observed, 32, 32)  # type: ignore[assignment]
    path = export_rerun(footage, renderer, tmp_path / "pair.rrd")
    assert [p.name for p in tmp_path.iterdir()] == ["pair.rrd"]

    rows: dict[str, dict[int, dict]] = {}
    static: dict[str, dict] = {}
    for chunk in RrdReader(str(path)).stream():
        columns = chunk.to_record_batch().to_pydict()
        steps = columns.get("policy_step")
        for i in range(chunk.num_rows):
            values = {k: v[i] for k, v in columns.items() if ":" in k}
            into = static if steps is None else rows.setdefault(chunk.entity_path, {})
            into.setdefault(chunk.entity_path if steps is None else steps[i], {}).update(values)

    for arm in Arm:
        path_3d = np.asarray(static[f"/{arm}/hand/path"]["LineStrips3D:strips"][0])
        hand = np.asarray(recorded.array(footage.arms[arm].record, "eef_pos"))
        np.testing.assert_allclose(path_3d, hand, atol=1e-6)
        found = rows[f"/{arm}/hand"]
        assert sorted(found) == list(range(1, HORIZON + 1))
        np.testing.assert_allclose(found[7]["Points3D:positions"][0], hand[6], atol=1e-6)
        for camera in task.scene.observed:
            shown = rows[f"/{arm}/camera/{camera}"]
            assert sorted(shown) == list(range(HORIZON + 1))
            assert all(shown[s]["EncodedImage:media_type"] == ["image/jpeg"] for s in shown)
        objects = rows[f"/{arm}/objects"]
        assert objects[0]["Points3D:labels"] == list(task.scene.entities)
        target = objects[0]["Points3D:labels"].index("alphabet_soup_1")
        moved = np.subtract(
            objects[EVENT + 2]["Points3D:positions"][target],
            rows["/base/objects"][EVENT + 2]["Points3D:positions"][target],
        )
        np.testing.assert_allclose(moved, [0, 0.06 * (arm is Arm.DYNAMIC), 0], atol=1e-6)
        labels = rows[f"/{arm}/contacts"][0]["Points3D:labels"]
        assert any("alphabet_soup_1" in label for label in labels), "it stands on something"
        said = [entry["TextLog:text"][0] for _, entry in sorted(rows[f"/{arm}/log"].items())]
        assert said[0] == "query 0"
        assert said[-1].startswith("end: timeout")
    assert rows["/dynamic/log"][EVENT + 2]["TextLog:text"] == ["query 3, the first after the event"]


def test_a_recording_without_rerun_names_the_extra(monkeypatch):
    import sys

    from mjx_bench.rerun_export import load_rerun

    monkeypatch.setitem(sys.modules, "rerun", None)
    with pytest.raises(MissingExtra, match=r"\.\[rerun\]"):
        load_rerun()


def test_the_records_are_left_as_they_were(folder, fake):
    before = {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}
    make_media(folder, videos=1, load_task=short_task)
    assert {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()} == before
    assert rerun_path(folder, LIT).parent == media_folder(folder)
    assert dataclasses.asdict(load_run(folder).header) == dataclasses.asdict(load_run(folder).header)
