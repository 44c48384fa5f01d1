"""The HTML page: its numbers are the summary's, nothing in it can run or load, and a real browser shows it."""

from __future__ import annotations

import base64
import dataclasses
import html
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from mjx_bench import board
from mjx_bench.errors import BenchError
from mjx_bench.records import Run
from mjx_bench.records.media import MOMENTS, still_path, video_path
from mjx_bench.report import html_media, html_page
from mjx_bench.report.html_media import gallery
from mjx_bench.report.summary import summarise, summarise_outcomes
from mjx_bench.video import video_file, write_still
from scripts import report
from tests.test_report import SPEC, make_run

EVIL = '<script>alert("1")</script>'
VOID_ELEMENTS = {"meta", "img", "line", "circle", "rect", "path", "br"}


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Run:
    return make_run(tmp_path_factory.mktemp("run"))


def add_film(run: Run, case_id: str, frames: int = 20) -> Path:
    path = video_path(run.directory, case_id)
    path.parent.mkdir(exist_ok=True)
    with video_file(path, 20, "mark") as add:
        for i in range(frames):
            add(Image.new("RGB", (board.WIDTH, board.HEIGHT), (10 * i, 0, 0)))
    return path


def add_stills(run: Run, case_id: str, moments: tuple[str, ...] = MOMENTS[1:]) -> list[Path]:
    paths = [still_path(run.directory, case_id, moment) for moment in moments]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        write_still(path, Image.new("RGB", (80, 70), "teal"), "mark")
    return paths


class Page(HTMLParser):
    """Elements in order, and text; fails on elements that are not closed, or not in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, Any]]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open, self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, Any]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID_ELEMENTS:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, Any]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1:] != ["style"]:
            self.text.append(data)

    def all(self, tag: str) -> list[dict[str, Any]]:
        return [attrs for name, attrs in self.elements if name == tag]

    @property
    def plots(self) -> list[dict[str, Any]]:
        return [attrs for attrs in self.all("svg") if attrs.get("class") == "plot"]

    def inside(self, plot: str, tag: str) -> list[dict[str, Any]]:
        """Elements of a plot, which ends where the next one begins."""
        names = [attrs.get("id") if attrs.get("class") == "plot" else None for _, attrs in self.elements]
        start = names.index(plot)
        end = next((i for i, name in enumerate(names) if i > start and name is not None), len(names))
        return [attrs for name, attrs in self.elements[start:end] if name == tag]

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


def page_of(run: Run) -> Page:
    return Page(html_page.render(summarise(run), run))


def test_the_headline_is_the_summary(made):
    summary, page = summarise(made), page_of(made)
    assert (
        f"{100 * summary['base']['rate']:.1f}% success {summary['base']['successes']} of {summary['pairs']} pairs"
        in page.words
    )
    low, high = summary["dynamic"]["wilson95"]
    assert f"95% interval {100 * low:.1f}% to {100 * high:.1f}%" in page.words
    assert f"Retained performance {100 * summary['retained_performance']:.1f}%" in page.words
    assert f"McNemar's exact p {summary['mcnemar_p']:.4f}" in page.words
    for name, field in (("Trigger", "trigger_coverage"), ("Response", "response_coverage")):
        assert f"{name} coverage {100 * summary[field]:.1f}%" in page.words
    assert f"{summary['pairs']} scored, of {summary['cases']} cases; {summary['void']} void" in page.words


def test_every_event_has_its_marks_at_its_rates(made):
    summary, page = summarise(made), page_of(made)
    groups = [*summary["events"].values(), summary]
    rates = [g[arm]["rate"] for g in groups for arm in ("base", "dynamic") if g[arm]["rate"] is not None]
    circles = [c for c in page.inside("profile", "circle") if c["class"] == "mark"]
    assert [float(c["cx"].rstrip("%")) for c in circles] == pytest.approx([3 + 94 * r for r in rates], abs=1e-3)
    bars = [r for r in page.inside("partition", "rect") if r.get("class") == "mark"]
    shares = [n / g["pairs"] for g in groups for n in _in_order(g["outcomes"]) if n]
    assert [float(b["width"].rstrip("%")) for b in bars] == pytest.approx([94 * s for s in shares], abs=1e-3)
    assert page.plots
    for plot in page.plots:
        assert plot["role"] == "img"
        labels = plot["aria-labelledby"].split()
        ids = [e.get("id") for e in (*page.all("title"), *page.all("desc"))]
        assert set(labels) <= set(ids)
    identified = [attrs["id"] for _, attrs in page.elements if "id" in attrs]
    assert len(identified) == len(set(identified))


def _in_order(outcomes: dict[str, int]) -> list[int]:
    return [outcomes[name] for name in ("preserved", "regressed", "gained", "failed")]


def test_void_arms_are_counted_by_reason_and_missing_ones_named(made):
    page = page_of(made)
    assert "1 dynamic physics diverged case-5" in page.words
    assert "1 case has an arm that is not recorded yet, case-6 first" in page.words


def test_equal_reasons_are_one_line(tmp_path):
    page = page_of(
        make_run(tmp_path, [("target_relocation", True, None, None)] * 3 + [("target_relocation", True, True, 1)])
    )
    assert "3 dynamic physics diverged case-0" in page.words
    assert page.words.count("dynamic physics diverged") == 1


def test_nothing_in_the_page_can_run_or_load(made):
    add_film(made, "case-0")
    add_stills(made, "case-0")
    text = html_page.render(summarise(made), made)
    page = Page(text)
    assert not {"script", "link", "iframe", "object", "embed", "base", "form"} & {tag for tag, _ in page.elements}
    for tag, attrs in page.elements:
        assert not [name for name in attrs if name.startswith("on")], tag
        for name in ("src", "href", "poster", "srcset", "action"):
            assert attrs.get(name, "data:").startswith("data:"), (tag, attrs)
    assert not re.search(r"@import|url\((?!#)", text)
    assert "http" not in re.sub(r"http-equiv", "", text.split("<body>")[0])
    [policy] = [m["content"] for m in page.all("meta") if m.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none';")
    assert "script" not in policy


def test_names_that_are_markup_are_harmless(tmp_path):
    spec = [(EVIL, True, False, 1), ("target_relocation", True, None, None)]
    run = make_run(tmp_path, spec, policy=EVIL)
    records = tuple(
        dataclasses.replace(r, task_name=EVIL, reason=EVIL, suite=EVIL) if r.case_id in ("case-0", "case-1") else r
        for r in run.records
    )
    header = dataclasses.replace(run.header, device=EVIL, packages={EVIL: EVIL})
    run = dataclasses.replace(run, records=records, header=header)
    add_stills(run, "case-0")
    text = html_page.render(summarise(run), run)
    page = Page(text)
    assert not page.all("script")
    assert "<script" not in text
    assert page.words.count("alert(") >= 6, "policy, event, task, suite, reason and version are all shown"


def test_films_and_stills_of_regressions_come_first_and_are_embedded(tmp_path):
    run = make_run(tmp_path)
    film, stills = add_film(run, "case-0"), add_stills(run, "case-2")
    page = page_of(run)
    [video] = page.all("video")
    assert video["src"].startswith("data:video/mp4;base64,")
    assert "controls" in video
    assert base64.b64decode(video["src"].split(",")[1]) == film.read_bytes()
    images = page.all("img")
    assert [base64.b64decode(i["src"].split(",")[1]) for i in images] == [p.read_bytes() for p in stills]
    assert all(i["alt"] for i in images)
    regression, other = (
        page.words.index(w) for w in ("target relocation: regression", "illumination switch: both succeed")
    )
    assert regression < other
    assert "Base: success after 110 steps. Dynamic: timeout after 160 steps" in page.words


def test_a_page_stays_small_and_says_what_it_leaves_out(tmp_path, monkeypatch):
    run = make_run(tmp_path)
    film = add_film(run, "case-0")
    stills = add_stills(run, "case-0") + add_stills(run, "case-1")
    shown = gallery(run, film.stat().st_size + stills[0].stat().st_size)
    assert shown.left_out == stills[1:]
    assert len(shown.figures) == 1
    monkeypatch.setattr(html_media, "BUDGET", 1)
    monkeypatch.setattr(html_media.gallery, "__defaults__", (1,))
    page = page_of(run)
    assert not page.all("video")
    assert "9 files are not in this page" in page.words
    assert "see the folder media" in page.words


def test_damaged_files_are_named_and_not_embedded(tmp_path):
    run = make_run(tmp_path)
    film, stills = add_film(run, "case-0"), add_stills(run, "case-0")
    film.write_bytes(film.read_bytes()[:-100])
    stills[1].write_bytes(b"")
    page = page_of(run)
    assert not page.all("video")
    assert len(page.all("img")) == len(stills) - 1
    assert f"2 files are damaged, and made again by film: {film.name}, {stills[1].name}" in page.words


def test_without_pictures_the_page_says_how_to_make_some(made, tmp_path):
    page = page_of(make_run(tmp_path))
    assert "mjx-bench film DIR --video 2" in page.words
    assert not page.all("img")


def test_a_run_without_a_scored_pair_has_a_page(tmp_path):
    page = page_of(make_run(tmp_path, [("target_relocation", None, None, None)]))
    assert "nothing to plot" in page.words
    assert not page.plots


def test_a_fault_is_marked(tmp_path):
    run = make_run(tmp_path, [("illumination_switch", True, False, 1)])
    page = page_of(run)
    assert [a for a in page.all("li") if a.get("class") == "fault"]


def test_results_of_the_reference_have_a_page_too():
    from mjx_bench.report.pairs import Labels, Scored

    pairs = [(Labels("target_relocation"), Scored((True, False), None, 3, None, None, None))]
    page = Page(html_page.render(summarise_outcomes(pairs, unknown={"first_response_step"}, notes=["n"])))
    assert "results of the reference" in page.words
    assert "Response coverage –" in page.words
    assert "Settings and versions" not in page.words


def test_report_writes_the_page_beside_the_records_and_where_it_is_asked_to(tmp_path, capsys):
    run = make_run(tmp_path / "run")
    wanted = tmp_path / "page.html"
    report.run(report.Report((run.directory,), html=wanted), lambda value: None)
    assert wanted.read_text("utf-8") == (run.directory / "report.html").read_text("utf-8")
    assert wanted.read_text("utf-8").startswith("<!doctype html>")
    with pytest.raises(BenchError, match=r"its folder .* is not there; make it first"):
        report.run(report.Report((run.directory,), html=tmp_path / "no" / "page.html"), lambda value: None)


def chromium() -> str:
    found = next((p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None)
    if found is None:
        pytest.skip("no Chromium here (Debian: chromium)")
    return found


# Looks into the page at two widths and writes what it finds into its own title.
WATCHER = """<!doctype html><title>waiting</title>{frames}<script>
console.log("watching");
const seen = {{}};
async function look(frame) {{
  const page = frame.contentDocument, root = page.documentElement;
  const films = [...page.querySelectorAll("video")];
  for (const film of films) {{
    if (film.readyState < 1) await new Promise(done => film.onloadedmetadata = film.onerror = done);
    await film.play();
    await new Promise(done => film.ontimeupdate = () => film.currentTime > 0 && done());
    film.pause();
  }}
  const boxes = [...page.querySelectorAll("#profile .mark, #partition .mark")].map(mark => mark.getBoundingClientRect());
  seen[frame.id] = {{
    width: root.clientWidth,
    needed: root.scrollWidth,
    outside: [...page.querySelectorAll("body *")].filter(e => !e.closest(".wide, video, svg, title") &&
      e.getBoundingClientRect().right > root.clientWidth + 1).map(e => e.outerHTML.slice(0, 80)),
    marks: boxes.length,
    empty: boxes.filter(b => !(b.width > 1 && b.height > 1)).length,
    letters: Math.min(...[...page.querySelectorAll("svg text")].map(t => t.getBoundingClientRect().height)),
    films: films.map(film => [film.duration, film.currentTime, film.videoWidth]),
    images: [...page.images].map(image => image.naturalWidth),
    ground: getComputedStyle(page.body).backgroundColor,
  }};
  if (Object.keys(seen).length === document.querySelectorAll("iframe").length) document.title = JSON.stringify(seen);
}}
for (const frame of document.querySelectorAll("iframe"))
  if (frame.contentDocument?.readyState === "complete" && frame.contentDocument.body.children.length) look(frame);
  else frame.onload = () => look(frame);
</script>"""


def watch(folder: Path, page: str) -> tuple[dict[str, Any], list[str]]:
    """What a browser says of the page at the width of a desk and of a phone, and what it wrote to the console."""
    frames = "".join(
        f'<iframe id="{name}" style="width:{width}px;height:700px;border:0" srcdoc="{html.escape(page)}"></iframe>'
        for name, width in (("desk", 1200), ("phone", 360))
    )
    watcher = folder / "watcher.html"
    watcher.write_text(WATCHER.format(frames=frames), encoding="utf-8")
    command = [
        chromium(),
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--enable-logging=stderr",
    ]
    command += ["--autoplay-policy=no-user-gesture-required", f"--user-data-dir={folder / 'profile'}"]
    command += ["--virtual-time-budget=30000", "--dump-dom", watcher.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True)
    [title] = re.findall(r"<title>(.*?)</title>", done.stdout)[:1]
    return json.loads(html.unescape(title)), re.findall(r"CONSOLE.*", done.stderr)


def test_a_browser_shows_the_page_and_plays_its_films(tmp_path):
    run = make_run(
        tmp_path, [*SPEC, ("an_event_with_a_name_that_is_longer_than_any_line_of_a_phone" * 2, True, True, 1)]
    )
    add_film(run, "case-0")
    add_stills(run, "case-1")
    summary = summarise(run)
    seen, console = watch(tmp_path, html_page.render(summary, run))
    assert len(console) == 1, console
    assert "watching" in console[0]
    groups = [*summary["events"].values(), summary]
    marks = sum(2 * (g["base"]["rate"] is not None) + sum(n > 0 for n in g["outcomes"].values()) for g in groups)
    for name, found in seen.items():
        assert found["needed"] <= found["width"], f"{name}: the page is wider than its window"
        assert not found["outside"], name
        assert found["marks"] == marks
        assert found["empty"] == 0
        assert found["letters"] >= 11, "text keeps its size at any width"
        [[duration, played, width]] = found["films"]
        assert duration == pytest.approx(1.0, abs=0.06)
        assert played > 0
        assert width == board.WIDTH
        assert found["images"] == [80] * 4
