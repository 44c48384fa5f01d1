"""The command line as a person meets it: quick help, mistakes in one line, clean JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import cli

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = (
    "demo",
    "tasks",
    "pair",
    "eval",
    "agent",
    "sweep",
    "study",
    "report",
    "film",
    "rescore",
    "merge",
    "inspect",
    "preflight",
    "sample",
    "suite",
    "build",
    "demos",
    "dataset",
    "bench",
    "train",
    "policy",
    "serve",
    "doctor",
)
HEAVY = ("numpy", "jax", "mujoco", "numba", "matplotlib", "scipy", "rich", "robosuite", "libero", "cv2")


def python(code: str, **kwargs: object) -> subprocess.CompletedProcess[str]:
    options = {"cwd": ROOT, "capture_output": True, "text": True, "timeout": 120, **kwargs}
    return subprocess.run([sys.executable, "-c", code], **options)  # type: ignore[call-overload]


def mjx_bench(*args: str, **kwargs: object) -> subprocess.CompletedProcess[str]:
    return python(f"import sys; from scripts import cli; sys.exit(cli.main({list(args)!r}))", **kwargs)


@pytest.mark.parametrize("args", [["--help"], *([c, "--help"] for c in COMMANDS)], ids=" ".join)
def test_help_loads_nothing_heavy(args: list[str]):
    code = f"""
import sys
from scripts import cli
try:
    cli.main({args!r})
except SystemExit as exit_:
    assert exit_.code == 0
print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)
"""
    done = python(code)
    assert done.stderr == "[]\n"
    assert "usage: mjx-bench" in done.stdout


def test_help_answers_in_half_a_second():
    def seconds() -> float:
        """Of a processor's: a busy machine makes nobody wait for an import that was not needed."""
        before = os.times()
        assert mjx_bench("--help").returncode == 0
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    assert min(seconds() for _ in range(5)) < 0.5


PAIR = ["pair", "--policy", "zero", "--out", "{tmp}/run"]
EVAL = ["eval", "--policy", "zero", "--out", "{tmp}/run"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "Expected one of"),
        (["pairs"], "Available subcommands"),
        (["tasks", "--suite", "libero_objekt"], "unknown suite 'libero_objekt'; did you mean libero_object"),
        ([*PAIR, "--suite", "libero_sptial"], "did you mean libero_spatial"),
        (["build", "--suite", "libero_obj"], "unknown suite 'libero_obj'"),
        (["build", "--suite", "libero_object", "--workers", "0"], "--workers 0 is too small"),
        (["build", "--suite", "libero_object", "--seeds", "1", "-1"], "--seeds -1 is too small"),
        (["sample", "--out", "{tmp}/m.json"], "give --suite"),
        (["sample", "--out", "{tmp}/m.json", "--suite", "libero_object", "--pairs", "0"], "--pairs 0 is too small"),
        (["sample", "--out", "{tmp}/m.json", "--suite", "libero_object", "--seed", "-4"], "--seed -4 is too small"),
        ([*PAIR, "--suite", "libero_object", "--limit", "0"], "--limit 0 is too small"),
        ([*PAIR, "--suite", "libero_object", "--lanes", "2.5"], "Error parsing --lanes"),
        ([*PAIR, "--suite", "libero_object", "--lane", "2"], "Perhaps you meant: --lanes INT"),
        ([*PAIR, "--suite", "libero_object", "--lanes", "-3"], "lanes must be at least 1, got -3"),
        ([*PAIR, "--suite", "libero_object", "--threads", "-1"], "threads must be 0"),
        ([*PAIR, "--suite", "libero_object", "--backend", "cc"], "unknown backend 'cc'"),
        ([*PAIR, "--suite", "libero_object", "--query-interval", "999"], "query interval 999 is larger than"),
        ([*PAIR, "--suite", "libero_object", "--query-interval", "5", "--horizon", "4"], "larger than"),
        ([*PAIR, "--suite", "libero_object", "--event", "camera_shif"], "did you mean camera_shift"),
        ([*PAIR], "give --manifest"),
        (
            [*EVAL, "--suite", "tabletop", "--task", "pick_plac"],
            "unknown task of tabletop 'pick_plac'; did you mean pick_place",
        ),
        ([*EVAL, "--suite", "tabletop", "--instances", "0"], "--instances 0 is too small"),
        ([*EVAL, "--suite", "tabletp"], "did you mean tabletop"),
        ([*EVAL, "--suite", "tabletop", "--query-interval", "999"], "query interval 999 is larger than"),
        ([*PAIR, "--suite", "libero_object", "--manifest", "m.json"], "not both"),
        ([*PAIR, "--manifest", "{tmp}/none.json"], "none.json: cannot read the manifest"),
        (
            ["pair", "--policy", "scripted.reactiv", "--out", "{tmp}/run", "--suite", "libero_object"],
            "scripted.reactive",
        ),
        ([*PAIR, "--suite", "tabletop", "--address", "auto"], "give --launcher ray too"),
        ([*PAIR, "--suite", "tabletop", "--launcher", "ray", "--shard", "0/2"], "leave out --shard"),
        ([*PAIR, "--suite", "tabletop", "--launcher", "ray", "--gpus", "-1"], "--gpus -1 is negative"),
        (["inspect", "a", "--manifest", "{tmp}/no", "--policy", "zero", "--backend", "cc"], "unknown backend 'cc'"),
        (["report", "{tmp}/none"], "none"),
        (["report", "{tmp}/none", "--html", "{tmp}/no/page.html"], "no is not there; make it first"),
        (["report", "{tmp}/none", "--html", "{tmp}"], "is a folder; give the name of a file in it"),
        (["film", "{tmp}/none", "--camera", "agentview"], "nothing to make; say what: --video N"),
        (["film", "{tmp}/none", "--out", "{tmp}/a.rrd"], "give --rerun CASE too"),
        (["report"], "give results to report"),
        (["report", "{tmp}/none", "--from-reference", "{tmp}/none.jsonl"], "none: not a results folder"),
        (["report", "--from-reference", "{tmp}/none.jsonl"], "none.jsonl: cannot read"),
        (["rescore", "{tmp}/none", "--json"], "not a results folder"),
        (["merge", "{tmp}/a", "{tmp}/b", "--out", "{tmp}/c"], "a: not a results folder"),
        (["merge", "--out", "{tmp}/c"], "nothing to merge"),
        *[
            ([*PAIR, "--suite", "libero_object", "--shard", bad], f"shard {bad!r}: expected i/n")
            for bad in ("2/2", "-1/2", "1", "0/0", "1/2/3", "a/b", "0.5/2", "1 /2", "")
        ],
        ([*PAIR, "--suite", "libero_object", "--event", "none", "camera_shift"], "give it without camera_shift"),
        ([*PAIR, "--manifest", "{tmp}/none.json", "--event", "camera_shift"], "only none has a meaning"),
        ([*PAIR, "--manifest", "{tmp}/none.json", "--pairs", "4"], "of given cases --limit N runs only N"),
        ([*PAIR, "--suite", "libero-max-lite", "--sample-seed", "1"], "--sample-seed 1 is for drawing cases"),
        ([*PAIR, "--suite", "libero-max-lit"], "did you mean libero-max-lite"),
    ],
)
def test_a_mistake_is_one_line(args: list[str], message: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    status = cli.main([arg.format(tmp=tmp_path) for arg in args])
    out, err = capfd.readouterr()
    assert status == 2
    assert err.startswith("mjx-bench: error: ")
    assert err.count("\n") == 1
    assert message in err
    assert out == ""
    assert not list(tmp_path.iterdir()), "a refused command leaves nothing behind"


def test_a_missing_extra_is_named():
    code = """
import importlib.metadata, sys
from scripts import cli

def not_installed(name):
    raise importlib.metadata.PackageNotFoundError(name)

importlib.metadata.distribution = not_installed
sys.exit(cli.main(["tasks", "--json"]))
"""
    done = python(code)
    assert done.returncode == 2
    assert "'.[libero]'" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("asked", ["vulkan", "osmesa"])
def test_an_opengl_that_mujoco_cannot_be_imported_with_is_a_mistake_of_one_line(asked: str, tmp_path: Path):
    # Another test may have set PyOpenGL's own variable, which a person does not.
    env = {name: value for name, value in os.environ.items() if name != "PYOPENGL_PLATFORM"} | {"MUJOCO_GL": asked}
    if asked == "osmesa" and python("import mujoco", env=env).returncode == 0:
        pytest.skip("OSMesa works here")
    for command in (["doctor"], ["pair", "--suite", "tabletop", "--policy", "zero", "--out", f"{tmp_path}/run"]):
        done = mjx_bench(*command, env=env)
        assert done.returncode == 2
        assert done.stderr.startswith(f"mjx-bench: error: MUJOCO_GL={asked}: ")
        assert "unset it" in done.stderr
        assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_terminated_command_leaves_no_half_file(tmp_path: Path):
    code = f"""
import pathlib, sys, time
from scripts import cli
from mjx_bench.video import whole_file

def slow(options, emit):
    with whole_file(pathlib.Path({str(tmp_path / "a.mp4")!r})) as part:
        part.touch()
        print("begun", flush=True)
        time.sleep(60)

cli._RUN[cli.tasks.Tasks] = slow
sys.exit(cli.main(["tasks"]))
"""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        assert list(tmp_path.iterdir())
        process.terminate()
        _, err = process.communicate(timeout=60)
    assert process.returncode == 143
    assert err == "\nmjx-bench: interrupted\n"
    assert not list(tmp_path.iterdir())


def test_an_interrupt_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setitem(cli._RUN, cli.tasks.Tasks, interrupted)
    monkeypatch.setitem(cli._RUN, cli.film.Film, interrupted)
    assert cli.main(["film", "runs/a"]) == 130
    assert "the same command" in capfd.readouterr().err
    assert cli.main(["tasks"]) == 130
    assert "the same command" not in capfd.readouterr().err, "nothing was begun that could go on"


def test_an_interrupt_before_anything_has_begun_says_nothing(tmp_path: Path):
    (tmp_path / "tyro.py").write_text("raise KeyboardInterrupt")
    done = mjx_bench("tasks", env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


NOISY = """
import atexit, os, subprocess
print("noise from Python")
os.write(1, b"noise from C\\n")
subprocess.run(["echo", "noise from a child"])
atexit.register(os.write, 1, b"noise at exit\\n")
"""


def test_json_is_clean_whatever_a_package_prints(tmp_path: Path):
    (tmp_path / "noisy.py").write_text(NOISY)
    code = """
import sys
from evals import registry
from scripts import cli

def task_table(suite):
    import noisy
    return [{"suite": suite, "index": 0}]

registry.task_table = task_table
sys.exit(cli.main(["tasks", "--suite", "libero_goal", "--json"]))
"""
    path = os.pathsep.join([str(ROOT), str(tmp_path)])
    done = python(code, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 0
    assert json.loads(done.stdout) == [{"suite": "libero_goal", "index": 0}]
    assert done.stderr.count("noise") == 4


@pytest.mark.parametrize("json_flag", [[], ["--json"]])
def test_a_reader_that_leaves_is_no_crash(json_flag: list[str]):
    read_end, write_end = os.pipe()
    os.close(read_end)
    code = f"""
import sys
from evals import registry
from scripts import cli
row = dict(suite="s", index=0, horizon=9, instruction="x" * 99, goal=["y"])
registry.task_table = lambda suite: [row] * 5000
sys.exit(cli.main(["tasks", "--suite", "libero_goal", *{json_flag!r}]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, stdout=write_end, stderr=subprocess.PIPE, text=True, timeout=120
    )
    os.close(write_end)
    assert done.stderr == ""
    assert done.returncode != 0


def test_tasks_of_a_real_suite():
    pytest.importorskip("libero", reason="needs the extra: libero")
    done = mjx_bench("tasks", "--suite", "libero_object", "--json")
    rows = json.loads(done.stdout)
    assert len(rows) == 10
    assert [row["index"] for row in rows] == list(range(10))
    assert {"suite", "index", "name", "instruction", "goal", "horizon"} <= set(rows[0])
    assert rows[0]["name"] == "pick_up_the_alphabet_soup_and_place_it_in_the_basket"
    assert rows[0]["horizon"] == 280
    text = mjx_bench("tasks", "--suite", "libero_object").stdout
    assert len(text.splitlines()) == 11
    assert rows[9]["instruction"] in text
