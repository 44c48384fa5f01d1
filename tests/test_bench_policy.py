"""`bench policy`: it runs on any machine, what it counts is right, and what it cannot do is said. How fast, no test asks."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

pytest.importorskip("flax", reason="needs the extra: pi05")
pytest.importorskip("sentencepiece", reason="needs the extra: pi05")

from policies.pi05 import configs
from scripts import bench_policy, cli
from tests.test_cli import mjx_bench
from tests.test_pi05_policy import CONFIG


def check(found: dict[str, Any], lanes: list[int]) -> None:
    assert [row["lanes"] for row in found["lanes"]] == lanes
    for row in found["lanes"]:
        for way in ("in_tiles", "in_one_program"):
            low, high = row[way]["queries_per_s_range"]
            assert 0 < low <= row[way]["queries_per_s"] <= high
            wanted = row[way]["queries_per_s"] * found["actions_a_query"]
            assert row[way]["actions_per_s"] == pytest.approx(wanted, rel=1e-3)
            assert row[way]["utilisation"] > 0
    for key in ("lanes_1", "lanes_8"):
        assert found["prefix_cache"][key]["cached_ms"] > 0
        assert found["prefix_cache"][key]["time_ratio"] > 0
    assert found["prefix_cache"]["flops_ratio"] > 1
    assert found["matmul_flops_per_s"] > 0


def test_a_model_whose_tokenizer_is_not_here_is_drawn_on_the_device_and_measured(monkeypatch: pytest.MonkeyPatch):
    nano = dataclasses.replace(CONFIG, name="pi05_nano", tokenizer="paligemma", dtype="bfloat16")
    monkeypatch.setitem(configs.CONFIGS, nano.name, nano)
    found = bench_policy.policy(bench_policy.PolicyBench(((nano.name,),), lanes=(8,), repeats=1))
    assert json.loads(json.dumps(found)) == found
    (row,) = found["configs"]
    check(row, [8])
    assert row["served"] is None
    assert "tokenizer, which is not in this package" in row["served_note"]
    counted = found["flops_of_ten_steps"]
    assert (counted["prefix_tokens"], counted["action_tokens"]) == (968, 10)
    assert counted["ratio"] == pytest.approx(counted["without_cache"] / counted["cached"], rel=1e-3)
    assert counted["ratio"] > 3.0
    assert found["versions"]["jax"]
    assert found["processors"] >= 1


@pytest.mark.slow
def test_the_smallest_model_is_measured_in_a_process_and_behind_a_server():
    done = mjx_bench(
        "bench", "policy", "--config", "pi05_tiny", "--lanes", "1", "--repeats", "1", "--json", timeout=900
    )
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["configs"]
    check(row, [1])
    assert row["parameters"] == 4_371_360
    assert row["served"]["clients"] == 8
    assert row["served"]["ratio"] > 0


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--config", "pi05_tinny"], "did you mean pi05_tiny"),
        (["--config", "pi05_base"], "pi05_base needs about 25 GiB of memory, and this machine has 1 free"),
        (["--lanes", "0"], "--lanes 0 is too small"),
        (["--repeats", "0"], "--repeats 0 is too small"),
        (["--clients", "-1"], "--clients -1 is too small"),
    ],
)
def test_what_cannot_be_measured_is_said_at_once(
    options: list[str], complaint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(bench_policy, "_free_memory", lambda: 2**30)
    assert cli.main(["bench", "policy", *options]) == 2
    said = capsys.readouterr().err
    assert complaint in said
    assert said.count("\n") == 1
