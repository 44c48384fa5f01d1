"""`mjx-bench doctor`: what it says is what the choices do."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from mjx_bench.observe import choice as renderers
from mjx_bench.physics import choice
from scripts import cli


def test_json_names_what_is_used_and_why(capfd: pytest.CaptureFixture[str]):
    assert cli.main(["doctor", "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    uses, why = choice.choose("auto")
    assert found["backends"]["auto"] == {"uses": uses, "why": why}
    assert set(found["backends"]) == {"auto", *choice.ENGINES}
    assert set(found["renderers"]) == {"auto", *renderers.RENDERERS}
    assert found["jax"]["platform"] == "cpu"
    assert found["jax"]["compiler_options"] == {"xla_cpu_use_fusion_emitters": False}
    assert found["packages"]["mujoco"].startswith("3.17")
    assert set(found["caches"]) == {"xla", "warp", "numba"}
    assert all(cache["folder"] for cache in found["caches"].values())


def test_text_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):
    monkeypatch.setattr(choice, "missing_warp", lambda: "engine warp needs the package warp-lang")
    assert cli.main(["doctor"]) == 0
    out = capfd.readouterr().out
    assert "auto takes c" in out
    assert "warp       not here: engine warp needs the package warp-lang" in out


@pytest.mark.parametrize(
    ("device", "has_warp", "uses"),
    [("cpu", True, "c"), ("gpu", True, "warp"), ("gpu", False, "jax"), ("tpu", True, "jax")],
)
def test_auto_goes_by_the_platform(device: str, has_warp: bool, uses: str):
    name, why = choice.automatic(device, has_warp=has_warp)
    assert name == uses
    assert why


def test_a_machine_without_accelerators_is_known_without_loading_jax():
    code = "import sys; from mjx_bench.physics import choice; print(choice.choose('auto')[0], 'jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["c", str(choice._has_plugins())]
