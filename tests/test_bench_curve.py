"""`bench curve`: a point for every number of lanes, kept as it comes, within its time. How fast, no test asks."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evals import registry
from mjx_bench.bench import apart
from mjx_bench.bench import sweep as sweep_module
from mjx_bench.bench.curve import Budget, Outlook
from mjx_bench.bench.sweep import PICTURES, Part, Sweep, plot
from mjx_bench.errors import BenchError
from mjx_bench.physics.choice import missing_warp
from mjx_bench.task import Task
from scripts import cli
from tests.test_cli import ROOT, mjx_bench

COMMAND = ["bench", "curve", "--suite", "tabletop", "--task", "press_button", "--seconds", "0.1", "--json"]
LOAD = functools.partial(registry.load_task, "tabletop", 9)


def printed(*more: str) -> dict[str, Any]:
    done = mjx_bench(*COMMAND, *more, timeout=900)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_curve_has_a_point_for_every_number_of_lanes_and_goes_on_from_its_file(tmp_path: Path):
    kept, picture = tmp_path / "curve.json", tmp_path / "curve.svg"
    found = printed("--backend", "c", "--lanes", "4", "1", "--out", str(kept))
    assert found == json.loads(kept.read_text())
    (curve,) = found["curves"]
    assert curve["backend"] == "c"
    assert [point["lanes"] for point in curve["points"]] == [1, 4]
    for point in curve["points"]:
        low, high = point["range"]
        assert 0 < low <= point["control_steps_per_s"] <= high
        assert point["physics_steps_per_s"] == pytest.approx(10 * point["control_steps_per_s"], rel=1e-3)
        assert point["peak_rss_mib"] > 0
        assert point["queries"] >= 3
    assert found["skipped"] == []

    more = printed("--backend", "c", "--lanes", "1", "2", "4", "--out", str(kept), "--plot", str(picture))
    (longer,) = more["curves"]
    assert [point["lanes"] for point in longer["points"]] == [1, 2, 4]
    assert [longer["points"][k] for k in (0, 2)] == curve["points"]
    assert picture.read_text().startswith("<?xml")


def test_an_interrupted_command_keeps_its_points(tmp_path: Path):
    kept = tmp_path / "curve.json"
    command = [*COMMAND, "--backend", "c", "--seconds", "2", "--lanes", "1", "2", "--out", str(kept)]
    process = subprocess.Popen(
        [sys.executable, "-m", "scripts.cli", *command],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        until = time.monotonic() + 120
        while not (kept.exists() and kept.stat().st_size) and time.monotonic() < until:
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does it: to its children too
        _, said = process.communicate(timeout=60)
    assert process.returncode == cli.INTERRUPTED
    assert f"1 of 2 points are measured; they are in {kept}" in said
    assert "Traceback" not in said
    assert [p["lanes"] for p in json.loads(kept.read_text())["curves"][0]["points"]] == [1]


def test_an_engine_or_a_package_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """The others are measured all the same; without others it is an error."""
    from mjx_bench.physics import choice
    from scripts.bench_curve import Curve, _parts

    monkeypatch.setattr(choice, "missing_warp", lambda: "engine warp needs the package warp-lang")
    parts, without = _parts(Curve("tabletop", backend=(("jax", "warp"),), tile=(8, 16), pictures=32))
    assert parts == [Part("jax", 8), Part("jax", 16)]
    assert [row["backend"] for row in without] == ["warp", PICTURES]
    with pytest.raises(BenchError, match="warp-lang"):
        _parts(Curve("tabletop", backend=(("warp",),)))


def refused() -> Task:
    raise BenchError("geoms of no kind that it knows; take another engine")


def test_what_an_engine_refuses_is_skipped_with_its_reason():
    sweep = Sweep({}, [Part("c")], [1, 2], None, lambda line: None)
    sweep.run(refused, 0, 0, Budget(point=0.1, limit=1.0))
    why = "geoms of no kind that it knows; take another engine"
    assert sweep.found["skipped"] == [{"backend": "c", "lanes": n, "why": why} for n in (1, 2)]
    assert (sweep.measured, sweep.wanted) == (0, 2)


def test_what_does_not_fit_into_the_time_is_not_begun():
    outlook = Outlook(Budget(point=1.0, limit=10.0, total=100.0), tile=8, calls=4)
    assert outlook.expected(8) is outlook.obstacle(8) is None
    outlook.saw(1, 0.5)
    assert outlook.expected(8) == pytest.approx(2.0), "a tile takes as long however full it is"
    assert outlook.expected(9) == pytest.approx(4.0)
    assert outlook.obstacle(40) is None
    assert outlook.obstacle(48) == "would take 12 s, more than the 10 s that a point may take"
    short = Outlook(Budget(point=1.0, limit=10.0, total=1.0), tile=8, calls=4)
    short.saw(8, 0.5)
    assert str(short.obstacle(8)).startswith("would take 2 s, and ")


def test_time_that_is_over_ends_a_part_and_names_its_points(tmp_path: Path):
    lines: list[str] = []
    sweep = Sweep({"suite": "tabletop"}, [Part("c"), Part("jax", 8)], [1, 2], tmp_path / "curve.json", lines.append)
    start = time.monotonic()
    sweep.run(LOAD, 0, 0, Budget(point=0.1, limit=1.0, total=0.2))
    assert time.monotonic() - start < 20
    skipped = sweep.found["skipped"]
    assert [(row["backend"], row.get("tile"), row["lanes"]) for row in skipped] == [
        ("c", None, 1), ("c", None, 2), ("jax", 8, 1), ("jax", 8, 2),
    ]  # fmt: skip
    assert all(row["why"].startswith("its share of the time") for row in skipped)
    assert lines[-1].startswith("[0 of 4 points, ")
    plot(sweep.found | {"suite": "tabletop", "name": "press_button"}, tmp_path / "empty.svg")
    assert (tmp_path / "empty.svg").stat().st_size > 1000


def slow_at_first(folder: Path) -> Task:
    """Hangs the first time, as a program does that must be compiled."""
    if not (folder / "begun").exists():
        (folder / "begun").touch()
        time.sleep(600)
    return LOAD()


@pytest.mark.slow
def test_a_part_that_was_cut_off_gets_what_the_others_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sweep_module, "WORTHWHILE", 1.0)
    lines: list[str] = []
    sweep = Sweep({"substeps": 10}, [Part("c"), Part("c", 1)], [1], None, lines.append)
    # The second part has half of the time and more, and needs less; the first one's second try has the rest.
    sweep.run(functools.partial(slow_at_first, tmp_path), 0, 0, Budget(point=0.1, limit=1.0, total=24.0))
    assert sum("was over" in line for line in lines) == 1
    assert sweep.measured == 2
    assert sweep.found["skipped"] == []


def counting(n: int, then: str) -> Iterator[dict[str, int]]:
    """Yields n values; then hangs, dies, fails or is done."""
    for k in range(n):
        yield {"value": k}
    if then == "hangs":
        time.sleep(600)
    if then == "dies":
        os._exit(7)
    if then == "fails":
        raise BenchError("no such thing; choose another")


def test_a_process_apart_hands_over_what_it_finds_and_is_ended_in_time():
    assert list(apart.run(counting, 3, "ends", seconds=60)) == [{"value": k} for k in range(3)]
    for then, error, message in (
        ("hangs", apart.OutOfTimeError, None),
        ("dies", BenchError, "exit status 7"),
        ("fails", BenchError, "no such thing; choose another"),
    ):
        found: list[Any] = []
        with pytest.raises(error, match=message):
            found.extend(apart.run(counting, 2, then, seconds=5 if then == "hangs" else 60))
        assert len(found) == 2


@pytest.mark.parametrize(("held", "message"), [
    ({"curves": [], "suite": "tabletop", "versions": {"jax": "0.1"}}, "measured with versions jax '0.1', and this is '0.2'"),
    ({"rows": []}, "no file of `bench curve`"),
])  # fmt: skip
def test_a_file_of_something_else_is_refused(held: dict[str, Any], message: str, tmp_path: Path):
    path = tmp_path / "curve.json"
    path.write_text(json.dumps(held))
    with pytest.raises(BenchError, match=message):
        Sweep({"suite": "tabletop", "versions": {"jax": "0.2"}}, [Part("c")], [1], path, print)
    assert json.loads(path.read_text()) == held


@pytest.mark.slow
def test_the_command_for_a_gpu_with_small_numbers(tmp_path: Path):
    """Two engines, two widths of tiles and pictures of the same lanes, within a given time."""
    if missing_warp():
        pytest.skip(missing_warp())
    start = time.monotonic()
    found = printed(
        *["--backend", "jax", "warp", "--lanes", "1", "8", "--tile", "4", "8", "--pictures", "32", "--minutes", "9"],
        "--out",
        str(tmp_path / "gpu.json"),
    )
    assert time.monotonic() - start < 570
    assert [(c["backend"], c.get("tile")) for c in found["curves"]] == [
        ("jax", 4), ("jax", 8), ("warp", 4), ("warp", 8), (PICTURES, None),
    ]  # fmt: skip
    *engines, pictures = found["curves"]
    assert all(curve["compile_s"] > 0 for curve in engines)
    assert all([p["lanes"] for p in curve["points"]] == [1, 8] for curve in engines)
    assert all(p["ratio_vs_first"] > 0 for curve in engines[1:] for p in curve["points"])
    assert [(p["lanes"], p["size"]) for p in pictures["points"]] == [(1, 32), (8, 32)]
    assert all(p["images_per_s"] > 0 for p in pictures["points"])
    assert found["skipped"] == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--lanes", "0"], "--lanes 0 is too small"),
        (["--tile", "0"], "--tile 0 is too small"),
        (["--seconds", "0"], "--seconds 0.0 is no time"),
        (["--minutes", "-1"], "--minutes -1.0 is no time"),
        (["--limit", "1"], "--limit 1 is less than --seconds 3"),
        (["--plot", "curve.txt"], "expected a file ending in .png, .svg, .pdf"),
        (["--out", "nowhere/curve.json"], "its folder nowhere is not there"),
        (["--backend", "jaxx"], "did you mean jax"),
    ],
)
def test_a_mistake_is_one_line(options: list[str], message: str, capfd: pytest.CaptureFixture[str]):
    assert cli.main(["bench", "curve", "--suite", "tabletop", *options]) == 2
    out, err = capfd.readouterr()
    assert message in err.splitlines()[-1]
    assert err.splitlines()[-1].startswith("mjx-bench: error: ")
    assert out == ""
