"""`bench engine` on compiled engines: it runs and says what it promises. How fast, no test asks."""

from __future__ import annotations

import json

import pytest

from mjx_bench.physics.choice import missing_warp
from scripts import cli
from tests.test_cli import mjx_bench

PROMISED = {"compile_s", "control_steps_per_s", "physics_steps_per_s", "ratio_vs_raw", "ratio_vs_stock_xla_flags"}


def printed(command: str, *more: str) -> dict:
    done = mjx_bench(*command.split(), *more, timeout=900)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def engine(backend: str, lanes: int, task: str = "tabletop --task pick_place") -> dict:
    return printed(f"bench engine --suite {task} --backend {backend} --lanes {lanes} --seconds 0.1 --json")


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


@pytest.mark.slow
@pytest.mark.parametrize("suite", ["robotworld", "roboquest"])
def test_tasks_with_rules_are_measured_too(suite: str):
    found = engine("jax", 8, suite)
    assert set(found) >= PROMISED
    assert (found["suite"], found["policy"]) == (suite, "scripted.oracle")
    assert found["segments"] >= 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["engine", "--suite", "tabletop", "--task", "pick_plac"], "did you mean pick_place"),
        (["engine", "--suite", "tabletop", "--backend", "jaxx"], "did you mean jax"),
        (["engine", "--suite", "tabletop", "--backend", "jax", "--threads", "2"], "uses all processors by itself"),
    ],
)
def test_a_mistake_is_one_line(options: list[str], message: str, capfd: pytest.CaptureFixture[str]):
    assert cli.main(["bench", *options]) == 2
    out, err = capfd.readouterr()
    assert message in err.splitlines()[-1]
    assert err.splitlines()[-1].startswith("mjx-bench: error: ")
    assert out == ""
