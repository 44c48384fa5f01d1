"""`bench engine` on compiled engines and `bench curve`: they run and say what they promise. How fast, no test asks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mjx_bench.physics.choice import missing_warp
from scripts import cli
from tests.test_cli import mjx_bench

PROMISED = {"compile_s", "control_steps_per_s", "physics_steps_per_s", "ratio_vs_raw", "ratio_vs_stock_xla_flags"}


def printed(command: str, *more: str) -> dict:
    done = mjx_bench(*command.split(), *more, timeout=900)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def engine(backend: str, lanes: int) -> dict:
    return printed(
        f"bench engine --suite tabletop --task pick_place --backend {backend} --lanes {lanes} --seconds 0.1 --json"
    )


def test_the_engine_c_prints_the_same_keys_and_says_why_some_are_null():
    found = engine("c", 3)
    assert set(found) >= PROMISED
    assert (found["suite"], found["name"], found["backend"]) == ("tabletop", "pick_place", "c")
    assert found["physics_steps_per_s"] == pytest.approx(10 * found["control_steps_per_s"], rel=1e-3)
    assert found["compile_s"] is found["ratio_vs_stock_xla_flags"] is None
    assert found["ratio_vs_stock_note"]
    assert found["ratio_vs_libero_note"] == "tabletop is not one of LIBERO's suites"


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "warp"])
def test_a_compiled_engine_is_measured_against_bare_mjx_and_stock_settings(backend: str):
    if backend == "warp" and missing_warp():
        pytest.skip(missing_warp())
    found = engine(backend, 9)
    assert set(found) >= PROMISED
    assert (found["backend"], found["tile"], found["lanes"]) == (backend, 8, 9)
    assert all(found[name] > 0 for name in PROMISED)
    low, high = found["ratio_vs_raw_range"]
    assert 0 < low <= found["ratio_vs_raw"] <= high
    assert "8 lanes" in found["ratio_vs_stock_note"]
    assert found["versions"]["jax"]


def test_a_curve_has_a_point_for_every_number_of_lanes_and_a_picture(tmp_path: Path):
    picture = tmp_path / "curve.svg"
    found = printed(
        "bench curve --suite tabletop --task press_button --backend c --lanes 4 1 --seconds 0.1 --json",
        "--plot",
        str(picture),
    )
    (curve,) = found["curves"]
    assert curve["backend"] == "c"
    assert [point["lanes"] for point in curve["points"]] == [1, 4]
    for point in curve["points"]:
        low, high = point["range"]
        assert 0 < low <= point["control_steps_per_s"] <= high
        assert point["physics_steps_per_s"] == pytest.approx(10 * point["control_steps_per_s"], rel=1e-3)
        assert point["peak_rss_mib"] > 0
    assert found["pictures"] == []
    assert picture.read_text().startswith("<?xml")


@pytest.mark.slow
def test_a_curve_of_compiled_engines_has_one_for_each_tile_and_pictures_of_the_same_lanes():
    if missing_warp():
        pytest.skip(missing_warp())
    found = printed(
        "bench curve --suite tabletop --task press_button --backend jax --lanes 1 8 --tile 4 8"
        " --seconds 0.1 --pictures 32 --json"
    )
    assert [(curve["backend"], curve["tile"]) for curve in found["curves"]] == [("jax", 4), ("jax", 8)]
    assert all(curve["compile_s"] > 0 for curve in found["curves"])
    assert [(row["lanes"], row["size"]) for row in found["pictures"]] == [(1, 32), (8, 32)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["engine", "--suite", "tabletop", "--task", "pick_plac"], "did you mean pick_place"),
        (["engine", "--suite", "tabletop", "--backend", "jaxx"], "did you mean jax"),
        (["engine", "--suite", "tabletop", "--backend", "jax", "--threads", "2"], "uses all processors by itself"),
        (["curve", "--suite", "tabletop", "--lanes", "0"], "--lanes 0 is too small"),
        (["curve", "--suite", "tabletop", "--tile", "0"], "--tile 0 is too small"),
        (["curve", "--suite", "tabletop", "--seconds", "0"], "--seconds 0.0 is no time"),
        (["curve", "--suite", "tabletop", "--plot", "curve.txt"], "expected a file ending in .png, .svg, .pdf"),
    ],
)
def test_a_mistake_is_one_line(options: list[str], message: str, capfd: pytest.CaptureFixture[str]):
    assert cli.main(["bench", *options]) == 2
    out, err = capfd.readouterr()
    assert message in err.splitlines()[-1]
    assert err.splitlines()[-1].startswith("mjx-bench: error: ")
    assert out == ""
