"""The page of a comparison and the plots: marks stand where the numbers say, and a real browser shows them."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any

import pytest

from mjx_bench.report import cadence, html_compare, html_page, html_plots
from mjx_bench.report.compare import compare
from mjx_bench.report.results import results_of
from mjx_bench.report.summary import summarise
from mjx_bench.report.tables import comparison_grids
from scripts import cli
from tests.test_html import EVIL, Page, watch
from tests.test_report import make_run

EVENTS = ("illumination_switch", "camera_shift", "target_relocation", "obstacle_insertion")


def some_run(folder: Path, seed: int, n: int = 24, **settings: Any) -> Any:
    rng = random.Random(seed)
    spec = []
    for i in range(n):
        base = rng.random() < 0.7
        fired = rng.random() < 0.9
        spec.append((EVENTS[i % 4], base, rng.random() < (0.7 if base else 0.1), rng.randrange(9) if fired else None))
    return results_of(make_run(folder, spec, sees_pictures=True, **settings))


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Two policies, one of them at three settings."""
    folder = tmp_path_factory.mktemp("runs")
    sweep = [some_run(folder / f"q{q}", q, policy="mine", horizon=16, query_interval=q) for q in (4, 2, 8)]
    return compare([some_run(folder / "a", 1, policy=EVIL), *sweep])


@pytest.fixture(scope="module")
def page(comparison: dict[str, Any]) -> Page:
    return Page(html_compare.render(comparison))


def per_cent(value: str) -> float:
    return (float(value.rstrip("%")) - 3) / 94


def test_the_page_stands_alone_and_escapes_names(comparison: dict[str, Any], page: Page):
    assert not page.all("script")
    text = html_compare.render(comparison)
    assert "<script" not in text
    for name in ("src", "href"):
        assert not [attrs for _, attrs in page.elements if name in attrs]
    ids = [attrs["id"] for _, attrs in page.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    for plot in page.plots:
        assert set(plot["aria-labelledby"].split()) <= set(ids)
    assert "4 results on 24 common cases" in page.words
    for title in ("Against each other", "Do the same events hurt?", "Over the settings", "Numbers by event"):
        assert title in page.words


def test_arrows_go_from_base_to_dynamic(comparison: dict[str, Any], page: Page):
    policies = comparison["policies"]
    shafts = [line for line in page.inside("arrows", "line") if line["class"] == "shaft"]
    assert [(per_cent(s["x1"]), per_cent(s["x2"])) for s in shafts] == [
        pytest.approx((p["base"]["rate"], p["dynamic"]["rate"]), abs=1e-4) for p in policies
    ]
    heads = page.inside("arrows", "path")
    moved = [p for p in policies if p["base"]["rate"] != p["dynamic"]["rate"]]
    assert len(heads) == len(moved)
    for head, policy in zip(heads, moved, strict=True):
        assert head["d"].startswith("M0 0L9" if policy["dynamic"]["rate"] < policy["base"]["rate"] else "M0 0L-9")


def test_equal_rates_have_no_arrow_head():
    group = {"base": {"rate": 0.5}, "dynamic": {"rate": 0.5}, "delta_pp": 0.0}
    plot = Page(html_plots.arrows([("same", group), ("empty", {**group, "base": {"rate": None}, "delta_pp": None})]))
    assert not plot.all("path")
    assert len(plot.all("circle")) == 1
    assert "0 points" in plot.words


def test_coverage_bars(comparison: dict[str, Any], page: Page):
    bars = [per_cent(f"{float(r['width'].rstrip('%')) + 3}%") for r in page.inside("coverage", "rect")]
    want = [p[field] for p in comparison["policies"] for field in ("trigger_coverage", "response_coverage")]
    assert bars == pytest.approx(want, abs=1e-4)
    assert min(want) < 1


def test_the_histogram_holds_every_pair_that_was_answered(comparison: dict[str, Any], page: Page):
    bars = page.inside("stale", "rect")
    counts = [c for p in comparison["policies"] for c in p["stale_actions"].values()]
    assert len(bars) == len(counts)
    heights = [float(b["height"]) for b in bars]
    for policy in comparison["policies"]:
        own = list(policy["stale_actions"].values())
        mine, heights = heights[: len(own)], heights[len(own) :]
        assert mine == pytest.approx([40 * c / max(own) for c in own])


def test_the_heat_map_is_as_deep_as_the_loss():
    plot = Page(html_plots.heat_map("t", ["a", "b", "c", "d"], [("r", [-40.0, 20.0, 0.0, None])]))
    cells = plot.all("td")
    assert [c.get("class") for c in cells] == ["loss", "gain", None, None]
    assert [c.get("style") for c in cells] == ["--depth:1.000", "--depth:0.500", None, None]
    assert "−40.0 +20.0 0 –" in plot.words


def test_curves_are_in_the_order_of_q(comparison: dict[str, Any], page: Page):
    [curve] = comparison["cadence"]
    assert (curve["policy"], curve["protocol"]) == ("mine", "H = 16")
    assert [p["query_interval"] for p in curve["points"]] == [2, 4, 8]
    circles = page.inside("cadence-0", "circle")
    heights = [1 - (float(c["cy"]) - 6) / 240 for c in circles]
    want = [-p["delta_pp"] / 100 for p in curve["points"]]
    want += [p[arm]["rate"] for arm in ("base", "dynamic") for p in curve["points"]]
    assert heights == pytest.approx(want, abs=1e-3)
    across = [per_cent(c["cx"]) for c in circles]
    assert across[:3] == across[3:6] == across[6:] == sorted(across[:3])
    assert "Q = 2 Q = 4 Q = 8" in page.words
    [grid] = [g for g in comparison_grids(comparison) if g.name == "cadence"]
    assert [row[:5] for row in grid.rows] == [("mine", "H = 16", 16, q, 0) for q in (2, 4, 8)]
    assert [row[-1] for row in grid.rows] == [p["delta_pp"] for p in curve["points"]]


def test_a_curve_of_a_sweep_can_be_drawn_from_runs_own_summaries(tmp_path: Path):
    runs = []
    for q in (2, 4):
        spec = [("camera_shift", True, q == 4, 1), ("camera_shift", True, True, 1)]
        runs.append(make_run(tmp_path / str(q), spec, sees_pictures=True, query_interval=q, horizon=q))
    [curve] = cadence.curves([summarise(run) for run in runs])
    assert [p["delta_pp"] for p in curve["points"]] == [-50, 0]
    assert "gap +50.0 points" in cadence.plot(curve, "c")


def test_a_run_of_several_groups_shows_them(tmp_path: Path):
    spec = [(EVENTS[i % 4], True, i % 3 != 0, i % 5) for i in range(24)]
    run = make_run(tmp_path, spec, sees_pictures=True)
    assert "By group" not in Page(html_page.render(summarise(run), run)).words, "one suite, one draw, one severity"
    records = [
        dataclasses.replace(r, draw=int(r.case_id.split("-")[1]) % 2, severity="medium" if "1" in r.case_id else "high")
        for r in run.records
    ]
    run = dataclasses.replace(run, records=tuple(records))
    summary = summarise(run)
    page = Page(html_page.render(summary, run))
    for words in ("Event profile: Dynamic minus Base", "Success rate by draw", "Success rate by severity", "draw 1"):
        assert words in page.words
    assert "Success rate by suite" not in page.words
    bars = [float(r["width"].rstrip("%")) / 94 for r in page.inside("by-draw", "rect")]
    groups = summary["breakdowns"]["draw"].values()
    assert bars == pytest.approx([g[arm]["rate"] for g in groups for arm in ("base", "dynamic")], abs=1e-4)


def test_evaluations_have_a_page(tmp_path: Path):
    from tests.test_compare import evaluation

    runs = [evaluation(tmp_path / name, [1, 0, 1, i], name) for i, name in enumerate(("left", "right"))]
    html = tmp_path / "page.html"
    assert cli.main(["report", *(str(run.directory) for run in runs), "--html", str(html)]) == 0
    page = Page(html.read_text("utf-8"))
    assert "2 results on 4 common cases" in page.words
    assert len([c for c in page.inside("rates", "circle") if c["class"] == "mark"]) == 2


def test_a_browser_shows_the_comparison(comparison: dict[str, Any], tmp_path: Path):
    seen, console = watch(tmp_path, html_compare.render(comparison))
    assert len(console) == 1, console
    policies = comparison["policies"]
    marks = sum(2 + sum(n > 0 for n in p["outcomes"].values()) for p in policies)
    for name, found in seen.items():
        assert found["needed"] <= found["width"], f"{name}: the page is wider than its window"
        assert not found["outside"], name
        assert (found["marks"], found["empty"]) == (marks, 0)
        assert found["letters"] >= 11
