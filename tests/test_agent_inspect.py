"""inspect-robots finds our robots and tasks by itself, and runs them with policies of its own."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

inspect_robots = pytest.importorskip(
    "inspect_robots", reason="inspect-robots is not installed: pip install -e '.[inspect]'"
)

from inspect_robots.compat import check_compatibility  # noqa: E402
from inspect_robots.conformance import check_embodiment  # noqa: E402
from inspect_robots.errors import ConfigError, EmbodimentFault  # noqa: E402
from inspect_robots.mock import NoopPolicy, RandomPolicy, ScriptedPolicy  # noqa: E402
from inspect_robots.scene import Scene  # noqa: E402
from inspect_robots.types import Action  # noqa: E402

from evals import inspect_plugin as plugin  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
GROUPS = ("inspect_robots.embodiments", "inspect_robots.tasks")


@pytest.fixture(scope="module")
def planar() -> Iterator[plugin.Panda]:
    robot = plugin.planar_panda()
    yield robot
    robot.close()


def run(task: Any, policy: Any, robot: Any, folder: Path, **more: Any) -> Any:
    """One evaluation by inspect-robots itself: its log."""
    (log,) = inspect_robots.eval(task, policy, robot, log_dir=str(folder), seed=0, **more)
    assert log.status == "success", log
    return log


@pytest.mark.parametrize("task", [plugin.push, plugin.close_drawer], ids=["push", "close_drawer"])
def test_two_of_our_tasks_run_with_policies_of_its_own(tmp_path: Path, planar: plugin.Panda, task: Any):
    made = task(instances=1, max_steps=25)
    for policy in (NoopPolicy(), RandomPolicy()):
        assert check_compatibility(policy, planar, made).ok
        log = run(made, policy, planar, tmp_path)
        assert log.results.metrics["success_at_end"] == 0.0, "nothing comes of noise"
    assert planar._lane is not None
    assert planar._lane.episode.step == 25


class Walks(ScriptedPolicy):
    """Its scripted policy, which calls what it walks to a cube."""

    def act(self, observation: Any) -> Any:
        state = {**observation.state, "cube_pos": observation.state["target_pos"]}
        return super().act(dataclasses.replace(observation, state=state))


def test_its_scripted_policy_pushes_our_dome(tmp_path: Path, planar: plugin.Panda):
    """It walks the hand to what it takes for its cube: the dome moves, and the hand keeps to its plane."""
    made = plugin.push(instances=1, max_steps=120)
    start = planar.reset(made.scenes[0])
    run(made, Walks(), planar, tmp_path, remap={"cube_pos": "target_pos"})
    assert planar._lane is not None
    obs = planar._lane.observe()
    here = planar._observe(None).state
    assert np.linalg.norm(here["target_pos"] - start.state["target_pos"]) > 0.01
    assert abs(float(obs.eef_pos[0, 2]) - plugin.TABLE_Z - plugin.FIST) < 0.02


def test_an_action_means_metres_radians_and_an_open_hand():
    robot = plugin.Panda()
    try:
        scene = plugin.task("tabletop", "pick_lift", 1).scenes[0]
        start = robot.reset(scene).state
        for _ in range(10):
            result = robot.step(Action(np.array([0.0, 0.01, 0.0, 0.0, 0.0, 0.0, 1.0])))
        moved = result.observation.state
        assert moved["gripper"] > start["gripper"] - 1e-3
        assert 0.02 < moved["eef_pos"][1] - start["eef_pos"][1] < 0.1
        for _ in range(15):
            result = robot.step(Action(np.array([0.0] * 7)))
        assert result.observation.state["gripper"] < 0.2
        again = robot.reset(scene).state
        assert all(np.array_equal(again[name], start[name]) for name in start), "an instance is all there is to a start"
        with pytest.raises(EmbodimentFault, match="not finite"):
            robot.step(Action(np.full(7, np.nan)))
        with pytest.raises(ConfigError, match="names no 'suite'"):
            robot.reset(Scene("other", "do something"))
    finally:
        robot.close()


def test_what_it_declares_conforms(planar: plugin.Panda):
    for info in (planar.info, plugin.Panda().info):
        assert not check_embodiment(info).issues


def test_its_command_finds_them_by_their_entry_points(tmp_path: Path):
    """The entry points are those of pyproject.toml, as an installation has them."""
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    info = tmp_path / "mjx_bench_points-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mjx-bench-points\nVersion: 1\n")
    lines = [f"[{group}]\n" + "\n".join(f"{k} = {v}" for k, v in points[group].items()) for group in GROUPS]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    env = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}", "HOME": str(tmp_path)}
    env["MJX_BENCH_CACHE"] = os.environ.get("MJX_BENCH_CACHE", str(Path.home() / ".cache" / "mjx-bench"))
    args = [
        "run",
        "--task",
        "mjx-bench-push",
        "-T",
        "instances=1",
        "-T",
        "max_steps=5",
        "--embodiment",
        "mjx-bench-panda-planar",
    ]
    args += ["--policy", "random", "--no-prompt", "--log-dir", str(tmp_path / "logs")]
    script = f"import sys; from inspect_robots.cli import main; sys.exit(main({args!r}))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "logs").glob("*.json"))
