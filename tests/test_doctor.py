"""`mjx-bench doctor`: what it says is what the choices do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mjx_bench.observe import choice as renderers
from mjx_bench.physics import choice
from scripts import cli

ROOT = Path(__file__).resolve().parents[1]
RAISED = "libfoo.so.1: cannot open shared object file"
RUN = ("eval", "--suite", "tabletop", "--task", "press_button", "--instances", "1", "--policy", "zero")


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


def command(*args: str, path: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    """A command as a person runs it, with the packages in `path` before all others."""
    found = os.pathsep.join(map(str, (path, ROOT) if path else (ROOT,)))
    full = {name: value for name, value in os.environ.items() if not name.endswith(("CACHE_DIR", "CACHE_PATH"))}
    return subprocess.run(
        [sys.executable, "-m", "scripts.cli", *args],
        cwd=ROOT,
        env={**full, "PYTHONPATH": found, **env},
        capture_output=True,
        text=True,
        timeout=120,
    )


def broken(package: str, folder: Path) -> Path:
    (folder / package).mkdir(parents=True)
    (folder / package / "__init__.py").write_text(f"raise RuntimeError({RAISED!r})")
    return folder


def report(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(("package", "others"), [("jax", ()), ("warp", ("jax",))])
def test_a_package_that_does_not_import_is_reported_with_the_reason(
    package: str, others: tuple[str, ...], tmp_path: Path
):
    if package == "warp" and choice.missing_warp():
        pytest.skip("needs the extra: warp")
    path = broken(package, tmp_path / "broken")
    found = report(command("doctor", "--json", path=path))
    assert found["backends"]["auto"]["uses"] == "c"
    assert found["backends"]["c"]["available"]
    for name in (package, *others):  # MJX loads Warp where it is installed
        state = found["backends"][name]
        assert not state["available"]
        assert f"{package} raised RuntimeError: {RAISED}" in state["missing"]
    assert (found["jax"]["platform"] is None) == (package == "jax")
    assert found["renderers"]["auto"]["uses"] == "gl"
    assert not found["renderers"]["warp"]["available"]
    text = command("doctor", path=path)
    assert f"not here: {found['backends'][package]['missing']}" in text.stdout


@pytest.mark.parametrize("backend", ["jax", "warp"])
def test_a_run_on_a_broken_engine_is_a_mistake_of_one_line(backend: str, tmp_path: Path):
    if choice.missing_warp():
        pytest.skip("needs the extra: warp")
    path = broken(backend, tmp_path / "broken")
    done = command(*RUN, "--backend", backend, "--out", str(tmp_path / "run"), path=path)
    assert done.returncode == 2
    assert done.stderr.startswith("mjx-bench: error: engine ")
    assert done.stderr.count("\n") == 1
    assert f"{backend} raised RuntimeError: {RAISED}" in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_platform_that_is_not_here_is_reported():
    found = report(command("doctor", "--json", JAX_PLATFORMS="tpu_of_nobody"))
    # Which takes the engine c without asking JAX, where no plugin is installed.
    assert found["backends"]["auto"]["uses"] == (None if choice._has_plugins() else "c")
    for name in ("jax", "warp"):
        assert not found["backends"][name]["available"]
    assert "JAX does not work here" in found["backends"]["jax"]["missing"]
    assert found["jax"]["platform"] is None


def test_a_cache_that_cannot_be_written_costs_warp_only(tmp_path: Path):
    (tmp_path / "file").touch()
    cache = {"MJX_BENCH_CACHE": str(tmp_path / "file" / "cache")}
    found = report(command("doctor", "--json", **cache))
    assert {name: "Not a directory" in state["unwritable"] for name, state in found["caches"].items()} == {
        "xla": True,
        "warp": True,
        "numba": True,
    }
    assert found["backends"]["jax"]["available"]
    if choice.missing_warp():
        return
    done = command(*RUN, "--backend", "warp", "--out", str(tmp_path / "run"), **cache)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert (
        f"Warp cannot keep its kernels in {tmp_path}/file/cache/warp: Not a directory; set MJX_BENCH_CACHE"
        in done.stderr
    )
    assert found["backends"]["warp"]["missing"] in done.stderr
    assert not (tmp_path / "run").exists()
